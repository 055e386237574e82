"""The doors that a command can be: the server's, an editor's agent, another agent's tools."""

import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import typer
from msgspec import Struct

from gonogo import __version__
from gonogo.cli.daemon import GLANCE, answers, facts_of_this, leave_token, leaves, linked
from gonogo.cli.folder import Folder, environment, hold, read_settings
from gonogo.cli.support import Exit, Stop, complain, named_locale, own_locale, own_words
from gonogo.client import Client, Unreachable
from gonogo.domain.errors import GonogoError
from gonogo.domain.network import LOOPBACK
from gonogo.domain.text_safety import visible
from gonogo.i18n import say
from gonogo.settings import Settings
from gonogo.telemetry import setup_logging

if TYPE_CHECKING:
    from gonogo.runtime import Runtime
    from gonogo.server import Ready


_LINK_MINUTES = 10
_MOMENT = 0.5


class Address(Struct, frozen=True):
    """How the server is reached, besides its host and port."""

    auth: bool
    pool: str | None = None
    """The pool of workers that do its work; None: the server does all of it itself."""


async def run_server(address: Address, given: Mapping[str, Any]) -> Exit:
    """Serve until SIGINT or SIGTERM."""
    settings = read_settings(given)
    if not address.auth and settings.host not in LOOPBACK:
        raise Stop(
            "--no-auth lets everybody in, so it works only with the host 127.0.0.1, not {host}",
            Exit.USAGE,
            host=settings.host,
        )
    folder = Folder(settings.home)
    folder.prepare()
    with ExitStack() as held:
        # Several servers may share a folder; the first of them serves this machine's commands.
        ours = hold(held, folder.owned()) if address.pool is not None else None
        if ours is None:
            while not await _take(folder, held, settings):
                if await _serve_beside(folder, settings, address):
                    return Exit.DONE
        setup_logging()
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        await _serve(settings, folder, address, held if ours is False else None)
    return Exit.DONE


@asynccontextmanager
async def _models_told(settings: Settings) -> AsyncGenerator[None]:
    """While a block runs, say why no model can be asked, as the first message would.

    Everything except the model works, so nothing is refused. The check runs beside the block,
    because some models must be opened for it; only the block's end waits for it.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(_tell_of_models, settings)
        yield


async def _tell_of_models(settings: Settings) -> None:
    from gonogo.runtime import look_at_models

    try:
        found = await anyio.to_thread.run_sync(look_at_models, settings, dict(environment()))
    except GonogoError:
        # Whoever opens the runtime reports a file that cannot be read.
        return
    told_of = dict.fromkeys(each for one in found if not one.works for each in one.problems)
    for problem in told_of:
        complain(own_words("Messages will fail: {problem}", problem=problem))


async def run_worker(
    pool: str, capacity: int, labels: Mapping[str, str], given: Mapping[str, Any]
) -> Exit:
    """Drive places of a pool until SIGINT or SIGTERM; a second signal ends it at once."""
    from gonogo.runtime import Runtime, member_of

    settings, locale = read_settings(given), own_locale()
    Folder(settings.home).prepare()
    setup_logging()
    member = member_of(settings, "worker", pool, capacity, labels)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            Runtime.open(settings, shared_as=member) as runtime,
            _models_told(settings),
            _measured(runtime),
        ):
            async with _cut_off_by(signals, wait=True):
                typer.echo(say("cli_joining", locale, pool=visible(pool)))
                await runtime.joined()
                typer.echo(say("cli_working", locale, pool=visible(pool), pid=os.getpid()))
            typer.echo(say("cli_draining", locale))
            async with _cut_off_by(signals):
                await runtime.drain()
    return Exit.DONE


@asynccontextmanager
async def _measured(runtime: "Runtime") -> AsyncGenerator[None]:
    """Serve a worker's metrics during a block, if the operator gave it a port for them."""
    from gonogo.server import serve

    host, port = runtime.settings.host, runtime.settings.metrics_port
    if port is None:
        yield
        return
    told, until = anyio.Event(), anyio.Event()

    def tell(ready: "Ready") -> None:
        typer.echo(say("cli_measured", own_locale(), url=ready.url))
        told.set()

    numbers = partial(
        serve, runtime, host=host, port=port, hosts=_public(runtime.settings).hosts,
        until=until, on_ready=tell, numbers_only=True,
    )  # fmt: skip
    async with anyio.create_task_group() as group:
        group.start_soon(numbers)
        await told.wait()
        yield
        until.set()


@asynccontextmanager
async def _cut_off_by(
    signals: AsyncIterator[signal.Signals], *, wait: bool = False
) -> AsyncGenerator[None]:
    """Cut a block off when the next signal comes.

    Args:
        wait: Stay until the signal comes, even if the block has ended.
    """
    async with anyio.create_task_group() as group:

        async def cut_off() -> None:
            await anext(signals)
            group.cancel_scope.cancel()

        group.start_soon(cut_off)
        yield
        if not wait:
            group.cancel_scope.cancel()


async def _take(folder: Folder, held: ExitStack, settings: Settings) -> bool:
    """Own the folder for as long as the stack; False: the background process is at work.

    If that process has another version, or perhaps another database, wait until it ends.
    """
    until, told = anyio.current_time() + _MOMENT, False
    while not hold(held, folder.owned()):
        facts = folder.holder()
        if facts is not None and facts.kind == "background":
            if await leaves(folder):
                continue
            if facts.version == __version__ and settings.db is None and await answers(folder):
                return False
            if not told:
                complain(
                    own_words(
                        "Waiting for process {pid} to finish its work; end it with gonogo stop.",
                        pid=facts.pid,
                    )
                )
                told = True
        elif anyio.current_time() > until:
            raise _taken(folder)
        await anyio.sleep(GLANCE)
    return True


async def _serve_beside(folder: Folder, settings: Settings, address: Address) -> bool:
    """Have the process that is at work listen at our address until SIGINT or SIGTERM.

    Returns:
        False: it has ended, and the folder is free.
    """
    public = _public(settings)
    where = {
        "host": settings.host, "port": settings.port, "auth": address.auth,
        "hosts": public.hosts, "origins": public.origins, "workspace": str(settings.workspace),
    }  # fmt: skip
    with (
        folder.visited() as inside,
        anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
    ):
        if not inside:
            return False
        way = Client(uds=folder.address, token=folder.read_token())
        async with _cut_off_by(signals), way as client:
            with suppress(Unreachable):
                async for place in client.listen(where):
                    _say_where(settings, place["url"])
                    typer.echo(say("cli_serving_beside", own_locale(), pid=folder.owner()))
                    _say_how(address, place["login_url"])
            return False
    return True


def _taken(folder: Folder) -> Stop:
    return Stop(
        "Process {pid} already serves {home}; see where with gonogo status. To start another, stop "
        "it, or set GONOGO_HOME to another folder",
        pid=folder.owner(), home=folder.home,
    )  # fmt: skip


async def _serve(
    settings: Settings, folder: Folder, address: Address, heir: ExitStack | None
) -> None:
    """Serve the clients, and the commands of this machine as well.

    Args:
        heir: Set if another server serves these commands: this one takes over when that ends, and
            keeps the folder's lock in this stack.
    """
    from gonogo.runtime import Runtime, member_of
    from gonogo.server import LISTENERS, serve

    pool = address.pool
    member = None if pool is None else member_of(settings, "server", pool)
    async with (
        Runtime.open(settings, shared_as=member) as runtime,
        _models_told(settings) if pool is None else nullcontext(),
        _forgotten(folder),
        anyio.create_task_group() as group,
    ):
        if heir is None:
            folder.write_facts(facts_of_this("server"))
        else:
            group.start_soon(_succeed, runtime, folder, heir)
        await leave_token(runtime, folder)
        public = _public(settings)
        await serve(
            runtime,
            host=settings.host,
            port=settings.port,
            uds=folder.address if heir is None else None,
            auth=address.auth,
            hosts=public.hosts,
            origins=public.origins,
            more=[LISTENERS],
            on_ready=lambda ready: _announce(runtime, ready, address),
        )
        group.cancel_scope.cancel()


@asynccontextmanager
async def _forgotten(folder: Folder) -> AsyncGenerator[None]:
    """Remove this process's facts after a block: it was not killed, so nothing replaces it."""
    try:
        yield
    finally:
        folder.forget_facts()


async def _succeed(runtime: "Runtime", folder: Folder, held: ExitStack) -> None:
    """Serve the commands of this machine once the server that does so has ended."""
    from gonogo.server import LISTENERS, serve

    while not hold(held, folder.owned()):  # noqa: ASYNC110 - a lock tells nobody
        await anyio.sleep(_MOMENT)
    folder.write_facts(facts_of_this("server"))
    await serve(runtime, port=None, uds=folder.address, until=anyio.Event(), more=[LISTENERS])


class _Public(Struct, frozen=True):
    """The public names of the server, besides its own address."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


def _public(settings: Settings) -> _Public:
    if settings.public_url is None:
        return _Public()
    parts = urlsplit(settings.public_url)
    return _Public((parts.hostname or "",), (f"{parts.scheme}://{parts.netloc}",))


def _announce(runtime: "Runtime", ready: "Ready", address: Address) -> None:
    locale = own_locale()
    _say_where(runtime.settings, ready.url)
    typer.echo(_rules_told(runtime, locale))
    for server in runtime.servers.faulty():
        complain(
            say("cli_server_fault", locale, name=server.name, fault=visible(server.error or ""))
        )
    _say_how(address, ready.login_url)


def _say_where(settings: Settings, url: str) -> None:
    workspace = visible(str(settings.workspace))
    typer.echo(say("cli_serving", own_locale(), workspace=workspace, url=url))


def _say_how(address: Address, login_url: str) -> None:
    from gonogo.server import has_console

    if not has_console():
        complain(
            own_words(
                "The web console is not built, so only the API answers. To build it, run "
                "scripts/console in your clone of gonogo, then start the server again."
            )
        )
    if address.auth:
        typer.echo(say("cli_open_console", own_locale(), count=_LINK_MINUTES, url=login_url))
    else:
        typer.echo(
            own_words("No token is needed: every program on this machine can use the server.")
        )


def _rules_told(runtime: "Runtime", locale: str) -> str:
    """Say which rules there are, and that they are read only at the start."""
    settings, rules = runtime.settings, runtime.parts.gate.rules
    files = [file for file in (settings.admin_rules, settings.rules) if file and file.is_file()]
    if not files:
        return say("cli_rules_none", locale, file=visible(str(settings.rules)))
    return say(
        "cli_rules_read", locale, rules=len(rules.admin) + len(rules.user),
        reviews=len(runtime.parts.desk.reviews.rules),
        files=", ".join(visible(str(file)) for file in files),
    )  # fmt: skip


# Standard input and output for a protocol.


@contextmanager
def own_pipes() -> Generator[tuple[int, int]]:
    """Reserve standard input and output for the protocol; other output goes to standard error."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        os.close(source)
        os.close(sink)


# `gonogo acp` and `gonogo mcp`: the doors for an editor and for another agent. Each ends when its
# client is gone; work under way goes on in the background.

_HINT = (
    "Your editor starts gonogo acp; see docs/how-to/editors.md. "
    "At a terminal, use gonogo run instead"
)


async def run_acp(directory: Path | None, model: str | None, foreground: bool) -> Exit:
    """Speak with the editor until it disconnects."""
    from gonogo.acp_server import Pipe, serve_editor

    if sys.stdin.isatty():
        raise Stop(_HINT, Exit.USAGE)
    settings = _of_door(directory, model, foreground)
    with own_pipes() as (source, sink):
        async with linked(settings, door=True) as link:
            await serve_editor(link.client, Pipe(source, sink), named_locale(environment()))
    return Exit.DONE


async def run_mcp(directory: Path | None, model: str | None, foreground: bool) -> Exit:
    """Speak with the other agent until it disconnects."""
    from gonogo.mcp_server import serve_agents

    if sys.stdin.isatty():
        raise Stop(
            "Another agent starts gonogo mcp; see docs/how-to/mcp.md",
            Exit.USAGE,
        )
    settings = _of_door(directory, model, foreground)
    with own_pipes() as (source, sink):
        async with linked(settings, door=True) as link:
            await serve_agents(link.client, source, sink)
    return Exit.DONE


def _of_door(directory: Path | None, model: str | None, foreground: bool) -> Settings:
    background = False if foreground else None
    return read_settings({"workspace": directory, "model": model, "background": background})
