"""Getting in: browser sessions and tokens."""

from fastapi import APIRouter, Request, Response

from gonogo.domain.errors import Unauthorized
from gonogo.domain.identity import Principal, Role
from gonogo.domain.views import MadeToken, Me, Tokens
from gonogo.server.auth import Authenticated, ServerState, address_of, cookie_name, door_of
from gonogo.server.openapi import Entry, NewToken, takes
from gonogo.server.requests import Name, answer, read_body

router = APIRouter(tags=["access"])


@router.post("/auth/session", status_code=204, openapi_extra=takes(Entry))
async def log_in(request: Request) -> Response:
    """Spend the code of the link that `gonogo serve` prints, or show a token; get a cookie."""
    door = door_of(request)
    body = await read_body(request, Entry)
    try:
        who = await _entering(door, body)
    except Unauthorized:
        door.failures.add(address_of(request))
        raise
    secret = await door.runtime.people.log_in(who, body.token)
    welcome = answer(None)
    welcome.set_cookie(
        cookie_name(request),
        secret,
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )
    return welcome


@router.delete("/auth/session", status_code=204)
async def log_out(caller: Authenticated) -> Response:
    """End the browser session of this request."""
    if caller.credential is not None and caller.credential.session is not None:
        await caller.runtime.people.log_out(caller.credential.session)
        caller.door.credentials_changed()
    farewell = answer(None)
    farewell.delete_cookie(
        cookie_name(caller.request),
        httponly=True,
        samesite="strict",
        secure=_is_secure(caller.request),
    )
    return farewell


@router.get("/me", response_model=Me)
async def who_am_i(caller: Authenticated) -> Response:
    """Who this request comes from, as it was authenticated."""
    known = caller.principal
    return answer(Me(id=known.id, name=known.name, role=known.role.word, until=known.until))


@router.get("/tokens", response_model=Tokens)
async def list_tokens(caller: Authenticated) -> Response:
    """The tokens, without their secrets."""
    return answer(Tokens(tokens=await caller.runtime.people.tokens(caller.principal)))


@router.post("/tokens", status_code=201, response_model=MadeToken, openapi_extra=takes(NewToken))
async def create_token(caller: Authenticated) -> Response:
    """Make a token. Its secret is in this answer and nowhere else: no key stores it."""
    body = await read_body(caller.request, NewToken)
    view, token = await caller.runtime.people.create_token(
        caller.principal, body.name, Role[body.role.upper()]
    )
    return answer(MadeToken(token=token, view=view), 201)


@router.delete("/tokens/{token_id}", status_code=204, response_model=None)
async def revoke_token(caller: Authenticated, token_id: Name) -> Response:
    """End a token, and the connections that it opened."""
    await caller.runtime.people.revoke_token(caller.principal, token_id)
    return answer(None)


async def _entering(door: ServerState, body: Entry) -> Principal:
    if body.code is not None:
        return await door.spend_code(body.code)
    return await door.runtime.people.authenticate(body.token or "")


def _is_secure(request: Request) -> bool:
    # Behind a proxy the last step is plain; the page's origin, checked before, is where it began.
    origin = request.headers.get("origin", "").lower()
    return request.url.scheme == "https" or origin.startswith("https://")
