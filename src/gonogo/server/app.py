"""The ASGI app: every path of the protocol over one runtime, and the web console."""

import asyncio
import gzip
import logging
import mimetypes
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import uvicorn
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import FileResponse, JSONResponse
from msgspec import Struct
from pydantic import Field
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import Request as HttpRequest
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gonogo import __version__
from gonogo.domain.base import MAX_BYTES, Request
from gonogo.domain.errors import Conflict, Forbidden, GonogoError, InvalidMessage, NotFound
from gonogo.domain.identity import Role
from gonogo.domain.network import LOOPBACK
from gonogo.server import openapi, streams
from gonogo.server.auth import (
    LEAST,
    Connections,
    Rates,
    Room,
    ServerState,
    WaitLimits,
    caller_of,
    room_for_connections,
)
from gonogo.server.middleware import (
    WILDCARDS,
    Conditional,
    Guard,
    Heads,
    Names,
    Packing,
    Shelter,
    is_local_socket,
)
from gonogo.server.requests import add_handlers, read_body
from gonogo.server.routes import approvals, catalog, plans, sessions
from gonogo.server.streams import Frames

if TYPE_CHECKING:
    from gonogo.runtime import Runtime


# The web console: its page at `/`, and its files below `/assets`.
#
# They are made from `console/` when the package is built, and need no token: they are the same for
# everybody and tell nothing of this server. Where they were not built, the page says what to do.

console = APIRouter()
CONSOLE = Path(__file__).resolve().parent / "console"
_NONCE = "__NONCE__"
"""The placeholder in the page for the nonce, which is new for each request."""
_MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>gonogo</title>
<h1>gonogo is running</h1>
<p>Its web console was not built when it was installed: run <code>scripts/console</code> in the
repository. The terminal (<code>gonogo run</code>, <code>gonogo approvals list</code>) and the
HTTP API under <code>/api/v1</code>, with a token from <code>gonogo token create</code>, need no
console.</p>
<p lang="ru">Веб-консоль при установке не собрана: запустите <code>scripts/console</code> в
репозитории. Терминал и HTTP API <code>/api/v1</code> с токеном от
<code>gonogo token create</code> работают и без неё.</p>
</html>
"""
_FOREVER = "public, max-age=31536000, immutable"
"""For files below `/assets`: their names contain a hash of their contents."""


def _content_policy(nonce: str) -> str:
    # Mantine writes its variables into a style element; nothing else comes from within the page.
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
        "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )


def has_console() -> bool:
    """Whether the console was built."""
    return _index().is_file()


def _index() -> Path:
    return CONSOLE / "index.html"


@console.get("/", response_class=Response)
async def page() -> Response:
    """The console's page. Needs no token, and tells nothing."""
    nonce = secrets.token_urlsafe(16)
    return Response(
        _page().replace(_NONCE, nonce),
        media_type="text/html; charset=utf-8",
        headers={
            "Content-Security-Policy": _content_policy(nonce),
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "X-Frame-Options": "DENY",
        },
    )


@console.get("/assets/{name}", response_class=Response)
async def asset(request: HttpRequest, name: str) -> Response:
    """One of the console's files, compressed for whoever can read that."""
    path = _assets().get(name)
    if path is None:
        raise NotFound("The console has no file {name!r}; open the console again", name=name[:200])
    headers = {"Cache-Control": _FOREVER}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return FileResponse(path, headers=headers)
    return Response(
        await anyio.to_thread.run_sync(_packed, path),
        media_type=mimetypes.guess_type(path)[0],
        headers={**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"},
    )


@cache
def _page() -> str:
    return _index().read_text("utf-8") if has_console() else _MISSING


@cache
def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


@cache
def _assets() -> dict[str, Path]:
    """The built files by name. No request can read any other file."""
    return {path.name: path for path in CONSOLE.glob("assets/*") if path.is_file()}


# The app: every path, and what stands before all of them.

PREFIX = "/api/v1"
_PREFIXED = (
    sessions.messages, sessions.router, plans.router, plans.checkpoints, approvals.router,
    catalog.router, catalog.audit, catalog.access, catalog.probes, streams.router, openapi.router,
)  # fmt: skip
_BARE = (sessions.messages, streams.router, catalog.probes, console, approvals.links)
_COMPRESSED = Middleware(
    GZipMiddleware,
    minimum_size=1_000,
    compresslevel=4,
    exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, "text/html"),
)
"""Level 4 takes half the time of level 9 and gives a tenth more bytes. Pages are not compressed:
they contain secrets beside text of others, and the compressed length would reveal the secrets."""


def create_app(
    runtime: "Runtime",
    *,
    auth: bool = True,
    host: str = "127.0.0.1",
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    limits: WaitLimits | None = None,
    numbers_only: bool = False,
) -> FastAPI:
    """Make the app that serves one runtime.

    Args:
        auth: Without it everybody is the owner; only for a loopback address.
        host: The address that the server listens on.
        hosts: Further names that the server is reached by.
        origins: Pages that may ask besides the server's own, as `https://gonogo.example`.
        numbers_only: Only tell how the process is: `/health`, `/ready` and `/metrics`.
    """
    names = Names.of(host, hosts, origins)
    app = _app_with_paths(
        Middleware(Shelter),
        Middleware(Guard, names=names),
        Middleware(Packing),
        _COMPRESSED,
        Middleware(Conditional),
        paths=catalog.probes.routes if numbers_only else routes(),
    )
    settings = runtime.settings
    rates = Rates.of(requests=settings.rate_requests, messages=settings.rate_messages)
    app.state.door = ServerState(
        runtime=runtime, auth=auth, limits=limits or WaitLimits(), rates=rates
    )
    runtime.people.subscribe_revocations(app.state.door.credentials_changed)
    return app


def describe() -> dict[str, Any]:
    """The OpenAPI document, which is the same for every runtime."""
    return _app_with_paths(paths=routes()).openapi()


def _app_with_paths(*middleware: Middleware, paths: Sequence[BaseRoute]) -> FastAPI:
    app = FastAPI(
        title="gonogo",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=middleware,
    )
    app.router.routes.extend(paths)
    add_handlers(app)
    openapi.add_schema(app)
    return app


@cache
def routes() -> Sequence[BaseRoute]:
    """All paths. They depend on no runtime, so FastAPI prepares them only once."""
    router = APIRouter(generate_unique_id_function=lambda route: route.name)
    for each in _PREFIXED:
        router.include_router(each, prefix=PREFIX)
    for each in _BARE:
        router.include_router(each, include_in_schema=False)
    return router.routes


# Listening: a TCP port for people's programs, a Unix socket for this machine's commands.
#
# `serve` ends when the runtime's `closing` is set, which a signal does too. Then open streams end
# by themselves; connections that are still open after three seconds are cut. A server with its own
# end (`until`) runs beside another one, and leaves signals to that one.

_BACKLOG = 2_048
GRACE = 3
"""Seconds that open connections have to end."""
_SENDERS_FAULTS = (
    "ASGI callable returned without completing", "Invalid UTF-8 sequence",
    "Invalid HTTP request received", "Unsupported upgrade request",
)  # fmt: skip
"""Log lines of uvicorn (the second with a traceback) that strangers can cause at will: by a refused
WebSocket handshake, a stream that is cut off because nobody reads it, a frame that is not text, an
invalid head, or an unknown protocol. All get a correct answer, so these lines are not logged.
"""


class Ready(Struct, frozen=True, kw_only=True):
    """Where a server listens, and the link that opens the console once."""

    host: str
    port: int | None
    """None: only the Unix socket is listened on."""
    uds: Path | None
    url: str
    login_url: str


async def serve(  # noqa: PLR0913 - each says where, for whom, or how long
    runtime: "Runtime",
    *,
    host: str = "127.0.0.1",
    port: int | None = 8001,
    uds: Path | None = None,
    auth: bool = True,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    limits: WaitLimits | None = None,
    on_ready: Callable[[Ready], None] | None = None,
    until: anyio.Event | None = None,
    more: Sequence[BaseRoute] = (),
    numbers_only: bool = False,
) -> None:
    """Serve a runtime until it closes.

    Args:
        port: 0 takes a free one, `on_ready` is told which; None listens on no port at all.
        uds: A Unix socket to listen on as well; tokens are asked for there too.
        on_ready: Called once connections are taken.
        until: Ends this server and not the runtime; signals are then for who gave it.
        more: Paths besides those of the protocol.
        numbers_only: See `create_app`.

    Raises:
        Forbidden: without authentication, the host must be a loopback address.
        Conflict: the port is taken.
    """
    if not auth and host not in LOOPBACK:
        raise Forbidden(
            "Without authentication the host must be a loopback address, such as 127.0.0.1, not "
            "{host}",
            host=host,
        )
    limits = limits or WaitLimits()
    app = create_app(
        runtime, auth=auth, host=host, hosts=hosts, origins=origins, limits=limits,
        numbers_only=numbers_only,
    )  # fmt: skip
    app.router.routes[:0] = more
    closing = until or runtime.closing
    with ExitStack() as stack:
        stack.callback(runtime.people.unsubscribe_revocations, app.state.door.credentials_changed)
        listeners: list[socket.socket] = []
        if port is not None:
            listeners.append(stack.enter_context(await _tcp(host, port, limits.gone)))
            port = listeners[0].getsockname()[1]
        if uds is not None:
            listeners.append(stack.enter_context(_unix(uds)))
        ready = _ready(host, port, uds, await app.state.door.new_code(runtime.owner))
        stack.enter_context(_listed(runtime, ready))

        logging.getLogger("uvicorn.error").addFilter(_is_ours)
        async with anyio.create_task_group() as group:
            server = _UvicornServer(app, closing, group, on_ready and partial(on_ready, ready))
            if until is not None:
                group.start_soon(_pass_on, runtime.closing, until)
            elif threading.current_thread() is threading.main_thread():
                await group.start(_close_on_signal, closing)
            try:
                await server.serve(sockets=listeners)
            finally:
                await server.end(listeners)
            group.cancel_scope.cancel()


@contextmanager
def _listed(runtime: "Runtime", ready: Ready) -> Generator[None]:
    """List the server's address in the runtime for the time of a block."""
    urls = [] if ready.port is None else [ready.url]
    runtime.addresses += urls
    try:
        yield
    finally:
        for url in urls:
            runtime.addresses.remove(url)


def _is_ours(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_SENDERS_FAULTS)


class _UvicornServer(uvicorn.Server):
    """uvicorn, ended by an event instead of by polling and by signals of its own."""

    def __init__(
        self,
        app: FastAPI,
        closing: anyio.Event,
        group: anyio.abc.TaskGroup,
        on_started: Callable[[], None] | None,
    ) -> None:
        super().__init__(_config(app))
        self._held: Connections = app.state.door.connections
        self._closing, self._group, self._on_started = closing, group, on_started
        self._accepting: list[anyio.CancelScope] = []
        self._ended = False

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to `serve`, which has two kinds of listeners and one end."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it. We accept connections; uvicorn would accept any number."""
        await super().startup([])
        for listener, most in _shares(sockets or ()):
            scope = anyio.CancelScope()
            self._accepting.append(scope)
            self._group.start_soon(self._accept, listener, Room(most), scope)
        if self._on_started is not None:
            self._on_started()

    async def _accept(self, listener: socket.socket, room: Room, scope: anyio.CancelScope) -> None:
        made = partial(
            Heads, self.config, self.server_state, self.lifespan.state, room=room,
            _loop=asyncio.get_running_loop(),
        )  # fmt: skip
        with scope:
            await self._held.accept(listener, room, made)

    async def main_loop(self) -> None:
        """Wait for the end; the `Date` header is set anew each second."""
        while not self._closing.is_set():
            await self.on_tick(0)
            with anyio.move_on_after(1):
                await self._closing.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End every connection."""
        self._ended = True
        for scope in self._accepting:
            scope.cancel()
        await super().shutdown(sockets)

    async def end(self, sockets: list[socket.socket]) -> None:
        """End every connection also when `serve` was cancelled."""
        self._closing.set()
        if self.started and not self._ended:
            with anyio.move_on_after(GRACE + 2, shield=True):
                await self.shutdown(sockets)


def _shares(listeners: Sequence[socket.socket]) -> Iterator[tuple[socket.socket, int]]:
    """How many connections each listener may hold: TCP most, the Unix socket a reserved part."""
    most = room_for_connections()
    own = max(LEAST, most // 8) if len(listeners) > 1 else 0
    for listener in listeners:
        local = listener.family == socket.AF_UNIX
        yield listener, own if local and own else max(LEAST, most - own)


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Heads,
        ws=Frames,
        ws_max_size=MAX_BYTES,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Anybody on this machine could claim to be a proxy, and to send from any address.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
    )


async def _pass_on(closing: anyio.Event, until: anyio.Event) -> None:
    await closing.wait()
    until.set()


async def _close_on_signal(
    closing: anyio.Event, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            closing.set()


async def _tcp(host: str, port: int, gone: float) -> socket.socket:
    try:
        found = await anyio.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Conflict(
            "Cannot listen on {host}:{port}: {strerror}; choose another port",
            host=host, port=port, strerror=error.strerror or error,
        ) from error  # fmt: skip
    # The event loop sets this only for sockets that name their protocol. Without it each answer
    # waits 40 ms for the acknowledgement of its own head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Otherwise a peer that reads nothing keeps a closed connection and its unsent bytes for ever.
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(gone * 1_000))
    listener.setblocking(False)
    return listener


@contextmanager
def _unix(path: Path) -> Generator[socket.socket]:
    # A killed process may have left the file. We hold the state folder's lock, so it is ours.
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _ready(host: str, port: int | None, uds: Path | None, code: str) -> Ready:
    name = "127.0.0.1" if host in WILDCARDS else f"[{host}]" if ":" in host else host
    url = "http://localhost" if port is None else f"http://{name}:{port}"
    return Ready(host=host, port=port, uds=uds, url=url, login_url=f"{url}/#code={code}")


# Ports that a running process opens for a while, because another `gonogo serve` asks for one.
#
# Only a program of the same user may ask, over the Unix socket. The port stays open for as long as
# that program reads the answer, so a program that is killed leaves no port open.


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
    """Takes the request, and serves until its sender disconnects or the runtime closes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Listen, and answer with the address as a line of JSON; the answer ends with the port.

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


class OpenListeners:
    """Says on which ports the process listens."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer.

        Raises:
            Forbidden: the request comes from no administrator.
        """
        caller = await caller_of(HttpRequest(scope, receive))
        caller.principal.require(Role.ADMIN)
        await JSONResponse({"urls": caller.runtime.addresses})(scope, receive, send)


LISTENERS = Route(f"{PREFIX}/listeners", OpenListeners(), methods=["GET"])
NEW_LISTENER = Route(f"{PREFIX}/listeners", NewListeners(), methods=["POST"])
