"""Approvals: what people are asked, and their answers, also by a link."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response

from gonogo.domain.errors import Forbidden, InvalidMessage, NotFound, Refused, UnsupportedMedia
from gonogo.domain.identity import Role
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.reviews import LinkState
from gonogo.domain.states import ApprovalKind, ApprovalStatus, DecisionWord
from gonogo.domain.text_safety import visible
from gonogo.domain.views import (
    ApprovalFilter,
    ApprovalList,
    ApprovalView,
    DecisionAnswer,
    DecisionAnswers,
    LinkView,
    WantedApprovals,
)
from gonogo.i18n import LOCALES, say
from gonogo.i18n.texts import asked
from gonogo.server.auth import Authenticated, Caller, address_of, door_of
from gonogo.server.middleware import LINKS
from gonogo.server.openapi import Answers, ApprovalAnswer, NamedAnswer, NewLink, takes
from gonogo.server.requests import Name, answer, once, read_body, read_bytes

if TYPE_CHECKING:
    from gonogo.runtime import LinkPage, Receipt


# Approvals: what people are asked, and their answers.

router = APIRouter(prefix="/approvals", tags=["approvals"])


@router.get("", response_model=ApprovalList)
async def list_approvals(
    caller: Authenticated, wanted: Annotated[WantedApprovals, Query()]
) -> Response:
    """The newest approvals, oldest first; `mine`: those that wait for the one who asks."""
    page = caller.runtime.approvals.page
    return answer(await page(caller.principal, wanted.filter, wanted.before, wanted.limit))


@router.post("/decisions", response_model=DecisionAnswers, openapi_extra=takes(Answers))
async def decide_many(caller: Authenticated) -> Response:
    """Answer several approvals, or all identical ones; what came of each is said by its id."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, Answers)

    async def decided() -> DecisionAnswers:
        answers = body.decisions or await _each_of_group(caller, body)
        return DecisionAnswers(answers=await _decide_each(caller, answers))

    return await once(caller, body, decided)


@router.get("/{approval_id}", response_model=ApprovalView)
async def get_approval(caller: Authenticated, approval_id: Name) -> Response:
    """One approval."""
    return answer(await caller.runtime.approvals.get(caller.principal, approval_id))


@router.post(
    "/{approval_id}/decision",
    status_code=202,
    response_model=ApprovalView,
    openapi_extra=takes(ApprovalAnswer),
)
async def decide_approval(caller: Authenticated, approval_id: Name) -> Response:
    """Answer one approval."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, ApprovalAnswer)
    return await once(caller, body, lambda: _decide(caller, approval_id, body), 202)


@router.post(
    "/{approval_id}/links",
    status_code=201,
    response_model=LinkView,
    openapi_extra=takes(NewLink, required=False),
)
async def make_link(caller: Authenticated, approval_id: Name) -> Response:
    """Make a link that decides once. Its address is in this answer alone: no key stores it."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, NewLink)
    return answer(await caller.runtime.links.make(caller.principal, approval_id, body.name), 201)


@router.delete("/{approval_id}/links", status_code=204, response_model=None)
async def revoke_links(caller: Authenticated, approval_id: Name) -> Response:
    """End the links of a question: an admin all, others those in their own name."""
    await caller.runtime.links.revoke(caller.principal, approval_id)
    return answer(None)


async def _decide(caller: Caller, approval_id: str, body: ApprovalAnswer) -> ApprovalView:
    view = await caller.runtime.approvals.get(caller.principal, approval_id)
    receipt = await caller.runtime.approvals.decide(caller.principal, _decision(view, body))
    return await _after(caller, approval_id, receipt)


async def _after(caller: Caller, approval_id: str, receipt: "Receipt") -> ApprovalView:
    try:
        return await caller.runtime.approvals.get(caller.principal, receipt.approval_id)
    except NotFound:
        # An edit may have made it a question for others, whom it is shown to.
        return await caller.runtime.approvals.get(caller.principal, approval_id)


async def _each_of_group(caller: Caller, body: Answers) -> list[NamedAnswer]:
    """One answer for each identical question that is open now, bound to its own digest."""
    wanted = ApprovalFilter(status=ApprovalStatus.PENDING, group=body.group)
    found = (await caller.runtime.approvals.page(caller.principal, wanted)).approvals
    if not found:
        raise NotFound(
            "No open approval found with group={group}",
            see="gonogo approvals list",
            group=body.group,
        )
    given = body.model_dump(exclude_unset=True, exclude={"group"})
    return [
        NamedAnswer(approval_id=view.approval_id, digest=view.digest, **given) for view in found
    ]


def _decision(view: ApprovalView, body: ApprovalAnswer) -> PlanDecision | HitlDecision:
    if view.kind is not ApprovalKind.PLAN or view.plan_id is None:
        fields = body.model_dump(exclude_unset=True, exclude={"approval_id"})
        return HitlDecision(approval_id=view.approval_id, **fields)
    if body.for_session or body.for_plan:
        raise InvalidMessage(
            "for_session and for_plan: only a tool call can be approved for longer"
        )
    if body.modified_arguments is not None:
        raise InvalidMessage("modified_arguments: a plan is edited by modified_subtasks")
    # An approval is of one revision: naming it refuses the decision when another took its place.
    return PlanDecision(
        plan_id=view.plan_id,
        revision=view.revision,
        decision=body.decision,
        digest=body.digest,
        feedback=body.feedback,
    )


async def _decide_each(caller: Caller, answers: Sequence[NamedAnswer]) -> list[DecisionAnswer]:
    """Take them all at once: whatever stops us, either all of them were taken or none."""
    read = [await _read(caller, answer) for answer in answers]
    meant = [each for each in read if not isinstance(each, Refused)]
    taken = iter(await caller.runtime.approvals.decide_many(caller.principal, meant))
    outcomes = [each if isinstance(each, Refused) else next(taken) for each in read]
    return [
        await _answered(caller, answer.approval_id, outcome)
        for answer, outcome in zip(answers, outcomes, strict=True)
    ]


async def _read(caller: Caller, body: NamedAnswer) -> PlanDecision | HitlDecision | Refused:
    try:
        view = await caller.runtime.approvals.get(caller.principal, body.approval_id)
        return _decision(view, body)
    except Refused as error:
        return error


async def _answered(
    caller: Caller, approval_id: str, outcome: "Receipt | Refused"
) -> DecisionAnswer:
    if isinstance(outcome, Refused):
        return DecisionAnswer.refused(approval_id, outcome)
    view = await _after(caller, approval_id, outcome)
    needed = view.review.needed if view.review else 1
    return DecisionAnswer(
        id=approval_id, ok=True, status=view.status, outcome=outcome.outcome,
        votes=len(view.votes or ()) if needed > 1 else None, needed=needed if needed > 1 else None,
    )  # fmt: skip


# The page of a link: what is asked, and two buttons. The address is the credential.
#
# Looking at it changes nothing, so that a chat may fetch it for a preview. Only its own form
# decides. A form of a page without a referrer comes with the origin `null`; what is then left
# against other pages is that they cannot know the address, and what the browser says of the
# sender's site.

# The HTML of a link's page: self-contained, without a script, for a phone.

_STYLE = """
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{margin:0 auto;max-width:46rem;padding:1rem}
h1{font-size:1.25rem;overflow-wrap:anywhere}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.875rem}
pre{border:1px solid #8888;border-radius:.5rem;padding:.75rem}
p.fine{opacity:.75;font-size:.875rem;overflow-wrap:anywhere}
textarea{box-sizing:border-box;width:100%;min-height:4rem;font:inherit}
button{font:inherit;padding:.75rem 1.25rem;margin:.75rem .75rem 0 0}
button{border-radius:.5rem;border:1px solid #8888;color:#fff}
button[value=approve]{background:#176f2c}button[value=reject]{background:#a11}
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def link_page(page: "LinkPage", languages: Sequence[str]) -> str:
    """The page of a link, in the first of the languages that is spoken here."""
    locale = _locale(languages)
    if page.state is not LinkState.OPEN:
        return _whole(locale, _said(page, locale))
    problem = [] if page.problem is None else [_paragraph(page.problem)]
    return _whole(locale, "\n".join([*problem, *_question(page, locale), _answer_form(locale)]))


def unknown_page(languages: Sequence[str]) -> str:
    """The page of a link that there is not."""
    locale = _locale(languages)
    return _whole(locale, f"<h1>{escape(say('link_unknown', locale))}</h1>")


def _said(page: "LinkPage", locale: str) -> str:
    approval = page.approval
    decision = approval.decision or {}
    status = say(f"link_status_{approval.status}", locale)
    who = visible(str(decision.get("decided_name", "gonogo")), lines=False)
    name = visible(page.link.name, lines=False)
    text = say(f"link_{page.state}", locale, status=status, who=who, name=name)
    lines = [f"<h1>{escape(text)}</h1>"]
    if page.state in {LinkState.DONE, LinkState.VOTED, LinkState.USED, LinkState.DECIDED}:
        lines.append(_paragraph(approval.subject))
    if page.problem is not None:
        lines.append(_paragraph(page.problem))
    return "\n".join(lines)


def _question(page: "LinkPage", locale: str) -> list[str]:
    found = asked(page.approval, locale)
    parts = [f"<h1>{escape(found.headline)}</h1>"]
    if found.text:
        parts.append(f"<pre>{escape(found.text)}</pre>")
    shown = "<details>" if found.text else "<details open>"
    facts = escape(say("link_facts", locale))
    parts.append(f"{shown}<summary>{facts}</summary><pre>{escape(found.facts)}</pre></details>")
    if found.reason:
        parts.append(f"<p>{escape(found.reason)}</p>")
    expires = f"{page.link.expires_at:%Y-%m-%d %H:%M} UTC"
    name = visible(page.link.name, lines=False)
    parts.extend(
        f'<p class="fine">{escape(line)}</p>'
        for line in (
            say("link_who", locale, name=name),
            say("link_expires", locale, expires=expires),
            say("link_digest", locale, digest=page.approval.digest),
        )
    )
    return parts


def _answer_form(locale: str) -> str:
    buttons = "".join(
        f'<button name="decision" value="{word}">{escape(say(f"link_{word}", locale))}</button>'
        for word in ("approve", "reject")
    )
    label = escape(say("link_feedback", locale))
    # No action: the form goes where the page came from, whatever path a proxy gave it.
    return (
        f'<form method="post"><label>{label}<textarea name="feedback" maxlength="4000">'
        f"</textarea></label><br>{buttons}</form>"
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(visible(text, lines=False))}</p>"


def _whole(locale: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="{locale}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>gonogo</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _locale(languages: Sequence[str]) -> str:
    wanted = (language[:2].lower() for language in languages)
    return next((language for language in wanted if language in LOCALES), LOCALES[0])


links = APIRouter()
_LARGEST = 64 * 1024
_LONGEST = 4_000
_FINE = frozenset({LinkState.OPEN, LinkState.DONE, LinkState.VOTED})


@links.get(LINKS + "{token}", response_class=Response)
async def look(request: Request, token: str) -> Response:
    """Show what a link decides."""
    return await _answer(request, token)


@links.post(LINKS + "{token}", response_class=Response)
async def decide(request: Request, token: str) -> Response:
    """Decide, and spend the link."""
    if request.headers.get("sec-fetch-site") not in {None, "none", "same-origin"}:
        raise Forbidden(
            "The decision must come from the link's own page; open the link and decide there"
        )
    fields = await _form(request)
    try:
        word = DecisionWord(fields.get("decision", ""))
    except ValueError:
        raise InvalidMessage("decision: it must be approve or reject") from None
    feedback = fields.get("feedback", "").strip()
    if len(feedback) > _LONGEST:
        raise InvalidMessage("feedback: at most {most} characters; shorten it", most=_LONGEST)
    return await _answer(request, token, word, feedback or None)


async def _answer(
    request: Request, token: str, word: DecisionWord | None = None, feedback: str | None = None
) -> Response:
    door = door_of(request)
    languages = _languages(request)
    try:
        if word is None:
            found = await door.runtime.links.page(token)
        else:
            found = await door.runtime.links.decide(token, word, feedback)
    except NotFound:
        # Raises when it was one too many from this address.
        door.failures.add(address_of(request))
        text = unknown_page([*languages, door.runtime.settings.locale or ""])
        return _page(text, 404)
    refused = 200 if found.problem is None else 409
    status = refused if found.state in _FINE else 410
    return _page(link_page(found, [*languages, found.locale]), status)


def _page(text: str, status: int) -> Response:
    return Response(
        text.encode(errors="replace"), status_code=status, headers=dict(PAGE_HEADERS),
        media_type="text/html; charset=utf-8",
    )  # fmt: skip


def _languages(request: Request) -> list[str]:
    """What the browser asks for, as it comes; its weights are not looked at."""
    wanted = request.headers.get("accept-language", "")[:200]
    return re.findall(r"[A-Za-z]{2}(?:-[A-Za-z]{2})?", wanted)


async def _form(request: Request) -> dict[str, str]:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/x-www-form-urlencoded":
        raise UnsupportedMedia("The decision must be a form: application/x-www-form-urlencoded")
    body = await read_bytes(request, _LARGEST, "form")
    try:
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=10, errors="strict"
        )
    except ValueError:
        raise InvalidMessage(
            "The body is not a form in UTF-8; use the form on the link's page"
        ) from None
    return {name: values[0] for name, values in fields.items() if len(values) == 1}
