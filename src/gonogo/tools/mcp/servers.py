"""The MCP servers of one runtime: started when they are needed, watched, and ended with it.

Each server runs in its own task. A server that dies or does not start is started again when it is
needed again, but only a few times within a while; then it stays down and says why.

The file of MCP servers lists whose tools agents may use. It is the user's own, never a workspace's.

    [[server]]
    name = "docs"
    command = "docs-server"
    args = ["--stdio"]
    env_from = ["DOCS_TOKEN"]
    tools = ["search", "fetch"]

    [[server]]
    name = "tracker"
    url = "https://tracker.example/mcp"
    headers_env = { Authorization = "TRACKER_AUTHORIZATION" }

The runtime reads it when it opens. An error in one server's table is reported where that server is
needed, and affects no other. The file names secrets and never contains them: their values come from
the environment, of which a server gets nothing else that it does not need to run.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from msgspec import Struct
from pydantic import Field, StrictBool, ValidationError, model_validator

from gonogo.domain.base import Frozen
from gonogo.domain.errors import InvalidMessage, Reason, ToolFailed, because, defect_of
from gonogo.domain.network import address_problem
from gonogo.domain.tool_calls import ToolClass, ToolHistory, foreign_name, server_of, server_problem
from gonogo.tables import TableFile
from gonogo.tools.base import Bench, JsonObject, Tool, touches_nothing
from gonogo.tools.mcp.tool import (
    Definition,
    ForeignArguments,
    ForeignTool,
    prepare,
    read_definition,
    told,
)
from gonogo.tools.schemas import SchemaChecks

if TYPE_CHECKING:
    from gonogo.tools.mcp.connection import Listed, ServerConnection


_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SHELL")
"""The variables that every program needs to run."""
_Text = Annotated[str, Field(min_length=1, max_length=4_000)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
_Seconds = Annotated[float, Field(gt=0, le=3_600)]
_Class = Literal["pure", "idempotent", "other", "irreversible"]


class BadServers(InvalidMessage):
    """A file of MCP servers cannot be read; the message begins with the file."""


_FILE = TableFile(what=because("a servers file"), names=("server",), refusal=BadServers, most=32)


class _ServerText(Frozen):
    """One server as the file describes it."""

    name: _Text
    command: _Text | None = None
    args: tuple[Annotated[str, Field(max_length=4_000)], ...] = Field(default=(), max_length=100)
    cwd: Path | None = None
    env_from: tuple[_Name, ...] = Field(default=(), max_length=50)
    url: Annotated[str, Field(max_length=2_000)] | None = None
    headers_env: Annotated[dict[_Header, _Name], Field(max_length=20)] = {}
    insecure: StrictBool = False
    tools: tuple[_Text, ...] | None = None
    agents: tuple[_Text, ...] = ("coder", "debug", "universal")
    classes: dict[_Text, _Class] = {}
    timeout: _Seconds = 60.0
    start_timeout: _Seconds = 30.0

    @model_validator(mode="after")
    def _one_way(self) -> "_ServerText":
        if (self.command is None) == (self.url is None):
            raise ValueError(because("give a server either a command or a url"))
        for name in ("args", "cwd", "env_from") if self.url else ("headers_env", "insecure"):
            if getattr(self, name):
                raise ValueError(
                    because(
                        "{name} is for servers with a {kind}",
                        name=name,
                        kind="command" if self.url else "url",
                    )
                )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One MCP server, and who may use its tools."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty for a server that has a `url`."""
    folder: Path = field(default_factory=Path)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    tools: tuple[str, ...] | None = None
    """The only tools to use; None: all."""
    agents: tuple[str, ...] = ()
    """The agents that get the tools."""
    classes: Mapping[str, ToolClass] = field(default_factory=dict[str, ToolClass])
    """The classes that the operator states; what servers say about their tools does not count."""
    timeout: float = 60.0
    """Seconds for one call."""
    start_timeout: float = 30.0
    """Seconds that the server has to start and list its tools."""
    fault: str | None = None
    """Why it cannot be used: the error in its table, with file and line."""

    @property
    def program(self) -> str:
        """The program that is started; empty for a server with a `url`."""
        return self.command[0] if self.command else ""

    @property
    def is_unread(self) -> bool:
        """Whether it stands for a table without a name, or for a file that cannot be read."""
        return server_problem(self.name) is not None

    def takes(self, tool: str) -> bool:
        """Whether gonogo uses a tool of the server."""
        return self.tools is None or tool in self.tools


def load_servers(path: Path, environment: Mapping[str, str]) -> dict[str, ServerConfig]:
    """Read the file of MCP servers; a missing file has none.

    A server whose table is wrong has a `fault`. If even its name is unknown, file and line replace
    the name; if the file cannot be read, the file does.
    """
    try:
        tables = _FILE.read(path, "server")
    except BadServers as error:
        return {path.name: ServerConfig(name=path.name, fault=error.said)}
    found: dict[str, ServerConfig] = {}
    for number, (item, where) in enumerate(tables, 1):
        server = _server(item, environment)
        name = _name(item) or Path(where).name
        if name in found:
            server = because("name: there are two servers {name!r}", name=name)
        if isinstance(server, str):
            fault = because(
                "{where}: server {number}: {problem}", where=where, number=number, problem=server
            )
            server = ServerConfig(name=name, fault=fault)
        found[name] = server
    return found


def _name(item: Any) -> str | None:  # noqa: ANN401 - any TOML value
    name: Any = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) and server_problem(name) is None else None


def _server(item: Any, environment: Mapping[str, str]) -> ServerConfig | str:  # noqa: ANN401
    """The server of a table, or what is wrong with the table."""
    try:
        text = _ServerText.model_validate(item)
    except ValidationError as error:
        return defect_of(error, "server")
    problem = server_problem(text.name)
    if problem is not None:
        return because("name: {problem}", problem=problem)
    if text.url is not None:
        said = address_problem(
            text.url, insecure=text.insecure, shown=because("everything that is sent"),
            hint=because("; secrets go into headers_env"),
        )  # fmt: skip
        if said is not None:
            return because("url: {problem}", problem=said)
    for name in (*text.env_from, *text.headers_env.values()):
        if not environment.get(name):
            return because(
                "{field}: {name} is not set",
                field="headers_env" if text.url else "env_from",
                name=name,
            )
    return _made(text, environment)


def _made(text: _ServerText, environment: Mapping[str, str]) -> ServerConfig:
    passed = {name: environment[name] for name in _PASSED_ON if name in environment}
    home = Path(environment.get("HOME", "/"))
    return ServerConfig(
        name=text.name,
        command=(text.command, *text.args) if text.command else (),
        folder=home if text.cwd is None else text.cwd.expanduser(),
        environment={**passed, **{name: environment[name] for name in text.env_from}},
        url=text.url,
        headers={header: environment[name] for header, name in text.headers_env.items()},
        tools=text.tools, agents=text.agents,
        classes={tool: ToolClass(word) for tool, word in text.classes.items()},
        timeout=text.timeout, start_timeout=text.start_timeout,
    )  # fmt: skip


TRIES, WHILE = 3, 600.0
"""How many times a server is started within how many seconds."""
MOST_TOOLS, MOST_LISTED, LISTING_SECONDS = 256, 1 << 20, 5.0
"""Limits of a server's list: tools, characters of all of them, CPU seconds to read them."""
_TWICE = because("the server lists two tools of that name")
Sight = Callable[[Sequence[Definition]], Awaitable[Mapping[str, ToolHistory | str]]]
"""Records what servers say about their tools. Returns by name what is known of each tool, or why
gonogo does not use it."""


class ServerReport(Struct, frozen=True, kw_only=True):
    """The state of a server."""

    name: str
    place: str
    """Its program, or its address."""
    state: Literal["idle", "ready", "failed"]
    """`idle` means that it was not needed yet."""
    error: str | None = None
    version: str = ""
    tools: tuple[str, ...] = ()
    refused: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The tools that gonogo does not use, and why."""
    agents: tuple[str, ...] = ()
    """The agents that get the others."""


class ServerPool:
    """All servers of a configuration."""

    def __init__(self, configs: Mapping[str, ServerConfig], sight: Sight) -> None:
        """Take the configurations; no server is started yet.

        Args:
            sight: Called with each listing of tools.
        """
        self.known: dict[str, Tool] = {}
        """Every tool that was ever listed, by its name in gonogo."""
        self._servers = {name: _ForeignServer(config) for name, config in configs.items()}
        self._sight = sight

    def __contains__(self, name: object) -> bool:
        """Whether a name belongs to one of the servers, and to a tool that gonogo uses."""
        if not isinstance(name, str) or server_of(name) is None:
            return False
        server = self._owner(name)
        return server is not None and server.config.takes(_tool_of(name, server.config))

    def _owner(self, name: str) -> "_ForeignServer | None":
        """The server that a tool's name belongs to, or may belong to."""
        unread = (server for server in self._servers.values() if server.config.is_unread)
        return self._servers.get(server_of(name) or "") or next(unread, None)

    def remember(self, standings: Mapping[str, ToolHistory]) -> None:
        """Add the tools that earlier runtimes have seen."""
        for name, standing in standings.items():
            server = self._owner(name)
            if name in self and server is not None:
                seen = standing.now.definition
                definition = Definition(
                    server=server_of(name) or "", tool=seen["name"],
                    description=seen["description"], parameters=seen["parameters"],
                )  # fmt: skip
                self._know(server, definition)

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Run the servers until cancelled."""
        async with anyio.create_task_group() as group:
            for server in self._servers.values():
                server.group = group
            task_status.started()
            await anyio.sleep_forever()

    def lent(self, agent: str) -> tuple[str, ...]:
        """The known tools that an agent may use."""
        lenders = {name for name, s in self._servers.items() if agent in s.config.agents}
        return tuple(name for name in self.known if server_of(name) in lenders)

    async def offered(self, wants: Callable[[ServerConfig], bool]) -> tuple[str, ...]:
        """The tools that the wanted servers list; starts those servers that do not run.

        A server that does not start has no tools.
        """
        wanted = [server for server in self._servers.values() if wants(server.config)]
        async with anyio.create_task_group() as group:
            for server in wanted:
                group.start_soon(self._try_list, server)
        return tuple(name for server in wanted if server.runs for name in server.names)

    def lends(self, name: str, agent: str) -> bool:
        """Whether an agent may call a tool; True if that is unknown, as the call then tells."""
        server = self._owner(name)
        if name not in self or server is None:
            return False
        return server.config.fault is not None or agent in server.config.agents

    def borrowers(self, name: str) -> tuple[str, ...]:
        """The agents that may use a tool."""
        return self._servers[server_of(name) or ""].config.agents

    async def look(self, name: str) -> tuple[Tool, ToolHistory]:
        """A tool as its server lists it now, and its history.

        Raises:
            ToolFailed: `server_unavailable`, or `unknown_tool`.
        """
        server = self._owner(name)
        if name not in self or server is None:
            raise ToolFailed("unknown_tool", "no server offers {name}", name=name)
        standings = await self._list(server, name)
        if name not in standings:
            refused = server.refused.get(_tool_of(name, server.config))
            raise ToolFailed(
                "unknown_tool",
                "{name}: {why}",
                name=name,
                why=refused or because("its server no longer lists it"),
            )
        return self.known[name], standings[name]

    def of(self, server: str) -> tuple[str, ...]:
        """The known tools of a server."""
        return tuple(name for name in self.known if server_of(name) == server)

    def report(self) -> list[ServerReport]:
        """The state of each server."""
        return [server.report() for server in self._servers.values()]

    async def _try_list(self, server: "_ForeignServer") -> None:
        if server.names and server.runs:
            return
        try:
            await self._list(server)
        except ToolFailed as failure:
            server.error = failure.said

    async def _list(
        self, server: "_ForeignServer", wanted: str | None = None
    ) -> Mapping[str, ToolHistory]:
        """Let a server list its tools; a tool that is not looked at again keeps its history.

        Args:
            wanted: Look only at this tool and at new ones; by default at all.
        """
        link = await server.ready()
        listing = _ToolList(server.config, server.listing)
        try:
            with anyio.fail_after(server.config.start_timeout):
                async for page in link.pages():
                    if not await anyio.to_thread.run_sync(listing.add, page):
                        break
        except TimeoutError:
            raise ToolFailed(
                "server_unavailable", "MCP server {name} does not list its tools",
                name=server.config.name,
            ) from None  # fmt: skip
        again = [
            definition for definition in listing.definitions
            if wanted in {None, definition.name} or definition.name not in self.known
        ]  # fmt: skip
        seen = await self._sight(again)
        server.listing = listing
        for definition in again:
            found = seen.get(definition.name)
            if isinstance(found, str):
                server.barred[definition.name] = definition.tool, found
            else:
                server.barred.pop(definition.name, None)
                self._know(server, definition)
        return {name: found for name, found in seen.items() if not isinstance(found, str)}

    def _know(self, server: "_ForeignServer", definition: Definition) -> None:
        self.known[definition.name] = ForeignTool(
            name=definition.name, description=definition.description, arguments=ForeignArguments,
            tool_class=server.config.classes.get(definition.tool, ToolClass.OTHER),
            touches=touches_nothing, prepare=prepare,
            run=partial(server.call, definition.tool), definition=definition,
        )  # fmt: skip


def _tool_of(name: str, config: ServerConfig) -> str:
    return name.removeprefix(foreign_name(config.name, ""))


class _ToolList:
    """One listing of a server: the tools that gonogo uses, and why it does not use the others."""

    def __init__(self, config: ServerConfig, before: "_ToolList | None" = None) -> None:
        """Begin an empty list.

        Args:
            before: The last listing; tools that are the same there need no second check.
        """
        self._config = config
        self._known = {} if before is None else before._found
        self._found: dict[str, Definition] = {}
        self._twice = set[str]()
        self._left, self._room = MOST_TOOLS, MOST_LISTED
        self._checks = SchemaChecks(LISTING_SECONDS)
        self.refused: dict[str, str] = {}

    @property
    def definitions(self) -> list[Definition]:
        """The tools that gonogo uses."""
        return list(self._found.values())

    def add(self, page: "Sequence[Listed]") -> bool:
        """Add a page of the listing. Returns False if the limit is reached."""
        for each in page[: self._left]:
            if self._config.takes(each.name):
                self._add(each)
        self._left -= len(page)
        return self._left > 0

    def _add(self, each: "Listed") -> None:
        read = self._read(each)
        if isinstance(read, str):
            self.refused[each.name[:100]] = read
        elif read.name in self._twice:
            return
        elif read.name in self._found:
            self._twice.add(read.name)
            self.refused[self._found.pop(read.name).tool] = _TWICE
        elif read.size > self._room:
            why = because(
                "its server's tools have more than {most} characters together", most=MOST_LISTED
            )
            self.refused[each.name] = why
        else:
            self._room -= read.size
            self._found[read.name] = read

    def _read(self, each: "Listed") -> Definition | str:
        known = self._known.get(foreign_name(self._config.name, each.name))
        if known and (known.description, known.parameters) == (each.description, each.parameters):
            return known
        return read_definition(
            self._config.name, each.name, each.description, each.parameters, self._checks
        )


class _ForeignServer:
    """One server, running or not."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.group: anyio.abc.TaskGroup | None = None
        self.listing = _ToolList(config)
        self.barred: dict[str, tuple[str, str]] = {}
        """Tools that are listed and not used because of their history: the server's name for each,
        and why."""
        self.error: str | None = None
        self._link: ServerConnection | None = None
        self._version = ""
        self._starting = anyio.Lock()
        self._starts: deque[float] = deque(maxlen=TRIES)
        self._over = anyio.Event()
        """Set when it is known why the last run ended."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools that gonogo uses."""
        return tuple(d.name for d in self.listing.definitions if d.name not in self.barred)

    @property
    def refused(self) -> dict[str, str]:
        """The tools that gonogo does not use, by the server's names for them, and why."""
        return {**self.listing.refused, **dict(self.barred.values())}

    @property
    def runs(self) -> bool:
        return self._link is not None and not self._link.chatter.gone.is_set()

    async def ready(self) -> "ServerConnection":
        """The connection; opened if there is none."""
        async with self._starting:
            if not self.runs:
                await self._start()
            assert self._link is not None  # noqa: S101 - started one line above
            return self._link

    async def call(self, tool: str, bench: Bench, given: ForeignArguments) -> JsonObject:
        """Carry out one call."""
        link = await self.ready()
        reply = await link.call(tool, given.values, self.config.timeout)
        return told(reply, bench.output_cap)

    def report(self) -> ServerReport:
        """The state of the server."""
        error = self.config.fault or self.error
        state = "ready" if self.runs else "failed" if error else "idle"
        url = urlsplit(self.config.url or "")
        # Without arguments and the rest of the address, which may contain secrets.
        place = f"{url.scheme}://{url.netloc}" if self.config.url else self.config.program
        return ServerReport(
            name=self.config.name, place=place, state=state, error=error,
            version=self._version, tools=self.names, refused=self.refused,
            agents=self.config.agents,
        )  # fmt: skip

    async def _start(self) -> None:
        now, name = anyio.current_time(), self.config.name
        if self.config.fault is not None:
            raise ToolFailed(
                "server_unavailable",
                "MCP server {name}: {error}",
                name=name,
                error=self.config.fault,
            )
        if self.group is None:
            raise ToolFailed(
                "server_unavailable", "servers do not run for a command that only shows something"
            )
        if len(self._starts) == TRIES and now - self._starts[0] < WHILE:
            left = math.ceil(WHILE - (now - self._starts[0]))
            await self._over.wait()
            raise ToolFailed(
                "server_unavailable",
                "MCP server {name} failed {tries} times ({error}); next try in {left} s",
                name=name,
                tries=TRIES,
                error=self.error,
                left=left,
            )
        self._starts.append(now)
        self._over = anyio.Event()
        self.error = await self.group.start(self._live)
        if self.error is not None:
            raise ToolFailed(
                "server_unavailable", "MCP server {name}: {error}", name=name, error=self.error
            )

    async def _live(self, *, task_status: anyio.abc.TaskStatus[str | None]) -> None:
        """Run the server once; the task status tells why it did not start, if it did not."""
        # Imported here because it costs 0.03 s, and few have servers.
        from gonogo.tools.mcp.connection import Chatter, ServerConnection, linked

        mine, error = list[ServerConnection](), because("it does not answer in time")
        over = self._over
        chatter = Chatter(self.config.name)
        deadline = anyio.current_time() + self.config.start_timeout
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                async with linked(self.config, chatter) as link:
                    scope.deadline = math.inf
                    mine.append(link)
                    self._link, self._version = link, link.version
                    task_status.started(None)
                    await chatter.gone.wait()
                    error = because("it ended")
        except Exception as failure:
            error = _reason(failure)
        finally:
            # Another run may have begun already.
            if mine and self._link is mine[0]:
                self._link = None
        self.error = chatter.reason(error)
        over.set()
        if not mine:
            task_status.started(self.error)


def _reason(error: BaseException) -> str:
    """The text of an error, without the exception groups around it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, ToolFailed):
        return error.said
    if error.args and isinstance(error.args[0], Reason):
        return error.args[0]
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:500] if said else type(error).__name__


# MCP servers as they were in their last run, for callers that must not start any.


class Remembered(ServerPool):
    """Servers that are not asked: a tool is as it was listed last."""

    def __init__(
        self, configs: Mapping[str, ServerConfig], standings: Mapping[str, ToolHistory]
    ) -> None:
        """Take the history of their tools."""
        super().__init__(configs, _unasked)
        self.remember(standings)
        self._standings = standings

    async def look(self, name: str) -> tuple[Tool, ToolHistory]:
        """A tool, and its history.

        Raises:
            ToolFailed: `unknown_tool`.
        """
        if name not in self.known:
            raise ToolFailed("unknown_tool", "no server has listed {name} yet", name=name)
        return self.known[name], self._standings[name]


async def _unasked(definitions: Sequence[Definition]) -> Mapping[str, ToolHistory]:
    del definitions
    return {}
