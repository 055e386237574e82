"""The page of a link: what is asked, and two buttons. The address is the credential.

Looking at it changes nothing, so that a chat may fetch it for a preview. Only its own form decides.
A form of a page without a referrer comes with the origin `null`; what is then left against other
pages is that they cannot know the address, and what the browser says of the sender's site.
"""

import re
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response

from gonogo.domain.errors import Forbidden, InvalidMessage, NotFound, UnsupportedMedia
from gonogo.domain.reviews import LinkState
from gonogo.domain.states import DecisionWord
from gonogo.server._body import read_bytes
from gonogo.server._caller import address_of, door_of
from gonogo.server._guard import LINKS
from gonogo.server._page import PAGE_HEADERS, link_page, unknown_page

router = APIRouter()
_LARGEST = 64 * 1024
_LONGEST = 4_000
_FINE = frozenset({LinkState.OPEN, LinkState.DONE, LinkState.VOTED})


@router.get(LINKS + "{token}", response_class=Response)
async def look(request: Request, token: str) -> Response:
    """Show what a link decides."""
    return await _answer(request, token)


@router.post(LINKS + "{token}", response_class=Response)
async def decide(request: Request, token: str) -> Response:
    """Decide, and spend the link."""
    if request.headers.get("sec-fetch-site") not in {None, "none", "same-origin"}:
        raise Forbidden("The decision has to come from the link's own page")
    fields = await _form(request)
    try:
        word = DecisionWord(fields.get("decision", ""))
    except ValueError:
        raise InvalidMessage("decision: approve or reject") from None
    feedback = fields.get("feedback", "").strip()
    if len(feedback) > _LONGEST:
        raise InvalidMessage(f"feedback: at most {_LONGEST} characters")
    return await _answer(request, token, word, feedback or None)


async def _answer(
    request: Request, token: str, word: DecisionWord | None = None, feedback: str | None = None
) -> Response:
    door = door_of(request)
    languages = _languages(request)
    try:
        if word is None:
            found = await door.runtime.link_page(token)
        else:
            found = await door.runtime.decide_by_link(token, word, feedback)
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
        raise InvalidMessage("The body is no form in UTF-8") from None
    return {name: values[0] for name, values in fields.items() if len(values) == 1}
