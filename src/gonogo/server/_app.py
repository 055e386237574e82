"""The ASGI app: every path of the protocol over one runtime."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.middleware import Middleware

from gonogo import __version__
from gonogo.server import (
    _access,
    _approvals,
    _audit,
    _catalog,
    _console,
    _health,
    _links,
    _messages,
    _plans,
    _schema,
    _sessions,
    _socket,
    _undo,
)
from gonogo.server._door import Door, Limits
from gonogo.server._guard import Guard, Names, Shelter
from gonogo.server._limits import Rates
from gonogo.server._problems import add_handlers

if TYPE_CHECKING:
    from gonogo.runtime import Runtime

PREFIX = "/api/v1"
_PREFIXED = (
    _messages, _sessions, _plans, _undo, _approvals, _catalog, _audit, _access, _health,
    _socket, _schema,
)  # fmt: skip
_BARE = (_messages, _socket, _health, _console, _links)


def create_app(
    runtime: "Runtime",
    *,
    auth: bool = True,
    host: str = "127.0.0.1",
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    limits: Limits | None = None,
) -> FastAPI:
    """Make the app that serves one runtime.

    Args:
        auth: Without it everybody is the owner; only for a loopback address.
        host: The address that the server listens on.
        hosts: Further names that the server is reached by.
        origins: Pages that may ask besides the server's own, as `https://gonogo.example`.
    """
    names = Names.of(host, hosts, origins)
    app = _app_with_paths(Middleware(Shelter), Middleware(Guard, names=names))
    settings = runtime.settings
    rates = Rates.of(requests=settings.rate_requests, messages=settings.rate_messages)
    app.state.door = Door(runtime=runtime, auth=auth, limits=limits or Limits(), rates=rates)
    runtime.subscribe_revocations(app.state.door.credentials_changed)
    return app


def describe() -> dict[str, Any]:
    """The OpenAPI document, which is the same for every runtime."""
    return _app_with_paths().openapi()


def _app_with_paths(*middleware: Middleware) -> FastAPI:
    app = FastAPI(
        title="gonogo",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        middleware=middleware,
    )
    for room in _PREFIXED:
        app.include_router(room.router, prefix=PREFIX)
    for room in _BARE:
        app.include_router(room.router, include_in_schema=False)
    add_handlers(app)
    _schema.add_schema(app)
    return app
