"""The pages of a link, as people see them, word for word: `golden/links.html` keeps them.

With `GONOGO_WRITE_GOLDEN=1` it is written anew after a change that is meant.
"""

import base64
import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.golden import kept
from fakes.rows import approval
from gonogo.domain.errors import NotFound
from gonogo.domain.reviews import DecisionLink, LinkState
from gonogo.domain.states import ApprovalStatus, DecisionWord
from gonogo.runtime import LinkPage
from gonogo.server.routes.approvals import PAGE_HEADERS, link_page, unknown_page

GOLDEN = Path(__file__).parent / "golden" / "links.html"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ODD = "<b>\u202e\n"
TOOL = {"agent": "coder", "tool": "write_file", "preview": "+<b>\n", "arguments": {"path": "a"}}
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


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
OWN = "The decision must come from the link's own page; open the link and decide there"
KIND = "The decision must be a form: application/x-www-form-urlencoded"
LONG = "feedback: at most 4000 characters; shorten it"
WORD = "decision: it must be approve or reject"
NO_FORM = "The body is not a form in UTF-8; use the form on the link's page"


@pytest.fixture
def links(runtime: Any) -> Any:
    """What the runtime says of a link; `decided` are the answers that came."""
    found = SimpleNamespace(page=page(LinkState.OPEN), decided=[], unknown=False)

    async def look(token: str) -> LinkPage:
        if found.unknown:
            raise NotFound("There is no such link; ask its sender for a new one")
        return found.page

    async def decide(token: str, word: Any, feedback: str | None) -> LinkPage:
        found.decided.append((token, word, feedback))
        return found.page

    runtime.links = SimpleNamespace(page=look, decide=decide)
    runtime.settings.locale = "ru"
    return found


@pytest.mark.parametrize(
    ("headers", "body", "status", "said"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, b"decision=approve", 403, OWN),
        ({"Sec-Fetch-Site": "same-site"}, b"decision=approve", 403, OWN),
        ({"Content-Type": "application/json"}, b"{}", 415, KIND),
        ({"Content-Type": ""}, b"decision=approve", 415, KIND),
        ({}, b"decision=never", 422, WORD),
        ({}, b"", 422, WORD),
        ({}, b"decision=approve&decision=approve", 422, WORD),
        ({}, b"decision=approve&feedback=" + b"x" * 4_001, 422, LONG),
        ({}, b"x=" + b"x" * 65_535, 413, "The form has more than 65536 bytes; shorten it"),
        ({}, "decision=approve&feedback=Ж".encode(), 422, NO_FORM),
        ({}, b"decision=approve&feedback=%ff", 422, NO_FORM),
        ({}, b"&".join(b"x=1" for _ in range(11)), 422, NO_FORM),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_what_is_no_answer_of_the_page_is_told_why(ask, links, headers, body, status, said):
    async with ask(token=None) as client:
        answer = await client.post("/d/tok", content=body, headers={**FORM, **headers})

    assert (answer.status_code, answer.json()["detail"]) == (status, said)
    assert links.decided == []


@pytest.mark.parametrize(
    ("body", "headers", "decided"),
    [
        (b"decision=approve", {}, ("tok", DecisionWord.APPROVE, None)),
        (b"decision=reject&feedback=+why%0A&feedback2=", {"Sec-Fetch-Site": "same-origin"},
         ("tok", DecisionWord.REJECT, "why")),
        (b"decision=reject&feedback=+", {"Sec-Fetch-Site": "none"},
         ("tok", DecisionWord.REJECT, None)),
        (b"decision=approve&feedback=" + b"x" * 4_000,
         {"Content-Type": "Application/X-WWW-Form-urlencoded ; charset=utf-8"},
         ("tok", DecisionWord.APPROVE, "x" * 4_000)),
        (b"&".join([b"decision=approve", *[b"x=1"] * 9]), {"Origin": "null"},
         ("tok", DecisionWord.APPROVE, None)),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_an_answer_of_the_page_is_taken_with_its_word(ask, links, body, headers, decided):
    async with ask(token=None) as client:
        answer = await client.post("/d/tok", content=body, headers={**FORM, **headers})

    assert answer.status_code == 200
    assert links.decided == [decided]


async def test_a_page_has_the_status_of_its_link_and_the_language_of_its_reader(ask, links):
    async with ask(token=None) as client:
        found = {}
        for state in LinkState:
            links.page = page(state)
            found[state] = (await client.get("/d/tok")).status_code
        links.page = page(LinkState.OPEN, "Not so")
        refused = await client.get("/d/tok", headers={"Accept-Language": "de, ru;q=0.5"})
        far = "de," * 70 + "ru"
        late = await client.get("/d/tok", headers={"Accept-Language": far})

    fine = {LinkState.OPEN, LinkState.DONE, LinkState.VOTED}
    assert found == {state: 200 if state in fine else 410 for state in LinkState}
    assert refused.status_code == 409
    assert (refused.text, late.text) == (
        link_page(links.page, ["ru"]), link_page(links.page, ["en"])
    )  # fmt: skip
    assert refused.headers["content-type"] == "text/html; charset=utf-8"
    for name, value in PAGE_HEADERS.items():
        assert refused.headers[name] == value


async def test_a_link_that_there_is_not_has_a_page_and_counts_as_a_wrong_guess(ask, links):
    links.unknown = True
    async with ask(token=None) as client:
        answers = [await client.get("/d/tok") for _ in range(21)]

    assert [each.status_code for each in answers] == [404] * 20 + [429]
    assert answers[0].text == unknown_page(["ru"])
