"""Who asks: the credential that a request shows, and the principal behind it.

A Bearer token goes before a cookie. A cookie counts only with the server's own `Origin` where the
request could change something, because a browser adds cookies by itself. A token in a query is
never looked at. Whoever is known is then held to its share of requests.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from gonogo.domain.errors import Forbidden, Unauthorized
from gonogo.domain.identity import Principal
from gonogo.server._door import Credential, Door
from gonogo.server._limits import Bucket

if TYPE_CHECKING:
    from gonogo.runtime import Runtime

_URGENT = frozenset({"decision", "decisions", "cancel", "pause"})
"""How the paths end by which a person decides or stops something."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One request's sender."""

    door: Door
    principal: Principal
    credential: Credential | None
    request: Request

    @property
    def runtime(self) -> "Runtime":
        """The verbs."""
        return self.door.runtime


def door_of(connection: HTTPConnection) -> Door:
    """The door that a connection came through."""
    door: Door = connection.app.state.door
    return door


def address_of(connection: HTTPConnection) -> str:
    """Where a connection comes from, as the failure counter knows it."""
    return connection.client.host if connection.client else "local"


def cookie_name(connection: HTTPConnection) -> str:
    """The browser session's cookie: named for the port, since cookies are not kept apart by it."""
    server = connection.scope.get("server")
    return f"gonogo_{server[1] if server else 0}"


def presented(connection: HTTPConnection) -> Credential | None:
    """The credential that a request shows, if any.

    Raises:
        Unauthorized: its `Authorization` is of another kind.
        Forbidden: it shows a cookie and comes from nowhere.
    """
    header = connection.headers.get("authorization")
    if header is not None:
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise Unauthorized("This needs a token: Authorization: Bearer <token>")
        return Credential(token=token.strip())
    secret = connection.cookies.get(cookie_name(connection))
    if secret is None:
        return None
    if not _is_own_page(connection):
        raise Forbidden("A request by cookie needs the Origin of this server")
    return Credential(session=secret)


async def caller_of(request: Request) -> Caller:
    """Authenticate a request.

    Raises:
        Unauthorized: it shows no valid credential.
    """
    door = door_of(request)
    credential = presented(request) if door.auth else None
    principal = await door.identify(credential, address_of(request))
    return Caller(door=door, principal=principal, credential=credential, request=request)


async def admitted(request: Request) -> Caller:
    """Authenticate a request, and count it.

    Raises:
        Unauthorized: it shows no valid credential.
        TooFast: its principal asks too much.
    """
    caller = await caller_of(request)
    _bucket(request, caller.door).take(caller.principal.id)
    return caller


Known = Annotated[Caller, Depends(caller_of)]
"""Of a request that is counted by what its body says."""
Authenticated = Annotated[Caller, Depends(admitted)]


def _bucket(request: Request, door: Door) -> Bucket:
    word = request.url.path.rpartition("/")[2]
    is_urgent = request.method == "POST" and word in _URGENT
    return door.rates.decisions if is_urgent else door.rates.requests


def _is_own_page(connection: HTTPConnection) -> bool:
    # A foreign Origin was refused before; browsers leave it out of a page's own GETs.
    if "origin" in connection.headers:
        return True
    if connection.scope["type"] == "websocket" or connection.scope["method"] not in _READING:
        return False
    return connection.headers.get("sec-fetch-site") in {None, "none", "same-origin"}
