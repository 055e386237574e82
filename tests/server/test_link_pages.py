"""The pages of a link, as people see them, word for word: `golden/links.html` keeps them.

With `GONOGO_WRITE_GOLDEN=1` it is written anew after a change that is meant.
"""

import base64
import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fakes.golden import kept
from fakes.rows import approval
from gonogo.domain.reviews import DecisionLink, LinkState
from gonogo.domain.states import ApprovalStatus
from gonogo.runtime import LinkPage
from gonogo.server.routes.links import PAGE_HEADERS, link_page, unknown_page

GOLDEN = Path(__file__).parent / "golden" / "links.html"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ODD = "<b>\u202e\n"
TOOL = {"agent": "coder", "tool": "write_file", "preview": f"+{ODD}", "arguments": {"path": "a"}}
STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def page(state: LinkState, problem: str | None = None, **fields: Any) -> LinkPage:
    asked = {
        "kind": "tool", "subject": f"write_file {ODD}", "details": TOOL, "reason": f"why {ODD}",
        "digest": "sha256:0", "status": ApprovalStatus.PENDING, **fields,
    }  # fmt: skip
    link = DecisionLink(
        id="l", approval_id="a", digest="sha256:0", principal_id="p", name=f"Ann {ODD}", role=2,
        made_by="o", created_at=AT, expires_at=AT, used_at=None, revoked_at=None,
    )  # fmt: skip
    return LinkPage(link=link, approval=approval(**asked), state=state, locale="en",
                    problem=problem)  # fmt: skip


def pages() -> dict[str, str]:
    """Each page by what it is about."""
    decided = {"status": ApprovalStatus.APPROVED, "decision": {"decided_name": f"Bob {ODD}"}}
    return {
        "a call": link_page(page(LinkState.OPEN), ["en"]),
        "a call, after an answer that was not taken": link_page(
            page(LinkState.OPEN, f"Not so {ODD}"), ["fr", "EN-us", "ru"]
        ),
        "in Russian": link_page(page(LinkState.OPEN), ["ru-RU"]),
        "a question without a text or a reason": link_page(
            page(LinkState.OPEN, kind="subtask", details={}, reason=""), []
        ),
        **{
            f"the link is {state}": link_page(page(state, **decided), ["en"])
            for state in LinkState
            if state is not LinkState.OPEN
        },
        "the link is used, and there is a problem": link_page(
            page(LinkState.USED, f"Not so {ODD}", status=ApprovalStatus.REJECTED), ["en"]
        ),
        "there is no such link": unknown_page(["en"]),
    }


def test_every_page_reads_as_it_is_kept() -> None:
    text = "\n".join(f"<!-- {name} -->\n{html}" for name, html in pages().items())

    assert text == kept(GOLDEN, text)
    assert "\u202e" not in text
    assert "<b>" not in text


def test_a_page_is_styled_by_nothing_but_what_its_headers_allow() -> None:
    (style,) = {found for html in pages().values() for found in STYLE.findall(html)}
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    headers = {
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; "
            "frame-ancestors 'none'; base-uri 'none'"
        ),
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "X-Frame-Options": "DENY",
        "X-Robots-Tag": "noindex, nofollow",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    assert dict(PAGE_HEADERS) == headers
