"""Ports that a process at work listens on for a while: `gonogo serve` beside it asks for one.

Only a program of the same user asks, over the Unix socket. The port is there for as long as the
answer is read, so one that is killed leaves nothing behind.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import msgspec
from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gonogo.domain.base import Request
from gonogo.domain.errors import Forbidden, GonogoError, InvalidMessage
from gonogo.domain.identity import Role
from gonogo.server.app import PREFIX, Ready, serve
from gonogo.server.auth import caller_of
from gonogo.server.middleware import is_local_socket
from gonogo.server.requests import read_body

if TYPE_CHECKING:
    from gonogo.runtime import Runtime


class NewListener(Request):
    """Where to listen, and for whom, as `serve` has it."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8001
    auth: bool = True
    hosts: list[str] = []
    origins: list[str] = []
    workspace: str | None = None
    """The folder for sessions that come in by it; without one they name one of the roots."""


class NewListeners:
    """Takes the request, and serves until its sender is gone or the runtime closes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Listen; answers with where, as a line of JSON, and ends with the listening.

        Raises:
            Forbidden: the request does not come from this machine's user, or from no administrator.
            InvalidMessage: it does not say where to listen, or the folder is none.
            Conflict: the port is taken.
        """
        request = HttpRequest(scope, receive)
        caller = await caller_of(request)
        caller.principal.require(Role.ADMIN)
        if not is_local_socket(scope):
            raise Forbidden(
                "Only a program of this machine's user may open a port; run the command there"
            )
        wanted = await read_body(request, NewListener)
        failed = list[GonogoError]()
        try:
            with caller.runtime.sessions.opened_to(_folder(wanted)):
                await _listen(caller.runtime, wanted, receive, send)
        except* GonogoError as errors:
            failed += [error for error in errors.exceptions if isinstance(error, GonogoError)]
        if failed:
            raise failed[0]


async def _listen(runtime: "Runtime", wanted: NewListener, receive: Receive, send: Send) -> None:
    until, told = anyio.Event(), anyio.Event()

    async def see_it_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        until.set()

    async def tell(ready: Ready) -> None:
        head = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        line = msgspec.json.encode({"url": ready.url, "login_url": ready.login_url}) + b"\n"
        await send({"type": "http.response.body", "body": line, "more_body": True})
        told.set()

    def on_ready(ready: Ready) -> None:
        group.start_soon(tell, ready)

    async with anyio.create_task_group() as group:
        group.start_soon(see_it_gone)
        await serve(
            runtime, host=wanted.host, port=wanted.port, auth=wanted.auth, hosts=wanted.hosts,
            origins=wanted.origins, until=until, on_ready=on_ready,
        )  # fmt: skip
        await told.wait()
        await send({"type": "http.response.body", "body": b""})
        group.cancel_scope.cancel()


def _folder(wanted: NewListener) -> Path | None:
    if wanted.workspace in {None, "/"}:
        return None
    folder = Path(wanted.workspace or "")
    if not (folder.is_absolute() and folder.is_dir()):
        raise InvalidMessage("workspace: {path} is not a folder; name a folder", path=folder)
    return folder.resolve()


NEW_LISTENER = Route(f"{PREFIX}/listeners", NewListeners(), methods=["POST"])
