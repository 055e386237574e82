"""The foreign servers of one runtime: started when they are needed, watched, ended with it.

A server lives in a task of its own. One that dies or does not start is started again when it is
needed again, but not more often than a few times in a while: what is broken stays down, and says
why.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, cast
from urllib.parse import urlsplit

import anyio
import anyio.abc

from gonogo.domain.errors import ToolFailed
from gonogo.domain.foreign import Standing, foreign_name, server_of
from gonogo.domain.gate import ToolClass
from gonogo.tools._mcp_config import ServerConfig
from gonogo.tools._mcp_link import Link, Listed, Said, linked
from gonogo.tools._mcp_reply import told
from gonogo.tools._mcp_tool import Definition, ForeignTool, Given, prepare, read_definition
from gonogo.tools._tool import Bench, JsonObject, Tool

TRIES, WHILE = 3, 600.0
"""How often a server is started within how many seconds; one that runs is started once."""
Sight = Callable[[Sequence[Definition]], Awaitable[Mapping[str, Standing]]]
"""Writes down what servers say of their tools; gives what was seen of each, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """How a server is."""

    name: str
    place: str
    """Its program, or its address."""
    state: Literal["idle", "ready", "failed"]
    """`idle`: not needed yet; `ready`, or `failed`."""
    error: str | None = None
    version: str = ""
    tools: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """The tools that are not taken, and why."""
    agents: tuple[str, ...] = ()
    """Who is offered the others."""


class Servers:
    """All servers of a configuration."""

    def __init__(self, configs: Mapping[str, ServerConfig], sight: Sight) -> None:
        """Know them; none is started yet.

        Args:
            sight: Told of each listing of tools.
        """
        self.known: dict[str, Tool] = {}
        """Every tool that was ever seen, by its name here."""
        self._servers = {name: _Server(config) for name, config in configs.items()}
        self._sight = sight

    def __contains__(self, name: object) -> bool:
        """Whether a tool's name speaks of one of the servers, and of a tool that is taken."""
        server = self._servers.get(server_of(name) or "") if isinstance(name, str) else None
        return server is not None and server.config.takes(_tool_of(str(name), server.config))

    def remember(self, standings: Mapping[str, Standing]) -> None:
        """Know the tools that were seen by earlier runtimes."""
        for name, standing in standings.items():
            if name in self:
                seen = standing.now.definition
                definition = Definition(
                    server=server_of(name) or "", tool=seen["name"],
                    description=seen["description"], parameters=seen["parameters"],
                )  # fmt: skip
                self._know(self._servers[definition.server], definition)

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Keep the servers until cancelled."""
        async with anyio.create_task_group() as group:
            for server in self._servers.values():
                server.group = group
            task_status.started()
            await anyio.sleep_forever()

    def lent(self, agent: str) -> tuple[str, ...]:
        """The tools that an agent may use, as far as they are known."""
        lenders = {name for name, s in self._servers.items() if agent in s.config.agents}
        return tuple(name for name in self.known if server_of(name) in lenders)

    async def offered(self, wants: Callable[[ServerConfig], bool]) -> tuple[str, ...]:
        """The tools that the wanted servers list; starts those that do not run.

        A server that does not start offers none.
        """
        wanted = [server for server in self._servers.values() if wants(server.config)]
        async with anyio.create_task_group() as group:
            for server in wanted:
                group.start_soon(self._try_list, server)
        return tuple(name for server in wanted if server.runs for name in server.listed)

    def borrowers(self, name: str) -> tuple[str, ...]:
        """The agents that a tool is lent to."""
        return self._servers[server_of(name) or ""].config.agents

    async def look(self, name: str) -> tuple[Tool, Standing]:
        """A tool as its server lists it at this moment, and what was seen of it.

        Raises:
            ToolFailed: `server_unavailable`, or `unknown_tool`.
        """
        if name not in self:
            raise ToolFailed("unknown_tool", f"no server offers {name}")
        server = self._servers[server_of(name) or ""]
        standings = await self._list(server)
        if name not in standings:
            refused = server.refused.get(_tool_of(name, server.config))
            raise ToolFailed("unknown_tool", f"{name}: {refused or 'its server lists it no more'}")
        return self.known[name], standings[name]

    def of(self, server: str) -> tuple[str, ...]:
        """The tools of a server that are known."""
        return tuple(name for name in self.known if server_of(name) == server)

    def report(self) -> list[ServerReport]:
        """How each server is."""
        return [server.report() for server in self._servers.values()]

    async def _try_list(self, server: "_Server") -> None:
        if server.listed and server.runs:
            return
        try:
            await self._list(server)
        except ToolFailed as failure:
            server.error = str(failure)

    async def _list(self, server: "_Server") -> Mapping[str, Standing]:
        link = await server.ready()
        try:
            with anyio.fail_after(server.config.start_timeout):
                listed = await link.tools()
        except TimeoutError:
            late = f"MCP server {server.config.name} does not list its tools"
            raise ToolFailed("server_unavailable", late) from None
        definitions = server.take(listed)
        standings = await self._sight(definitions)
        for definition in definitions:
            self._know(server, definition)
        return standings

    def _know(self, server: "_Server", definition: Definition) -> None:
        self.known[definition.name] = ForeignTool(
            name=definition.name, description=definition.description, arguments=Given,
            tool_class=server.config.classes.get(definition.tool, ToolClass.OTHER),
            prepare=prepare, run=partial(server.call, definition.tool), definition=definition,
        )  # fmt: skip


def _tool_of(name: str, config: ServerConfig) -> str:
    return name.removeprefix(foreign_name(config.name, ""))


class _Server:
    """One server, running or not."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.group: anyio.abc.TaskGroup | None = None
        self.listed: tuple[str, ...] = ()
        self.refused: dict[str, str] = {}
        self.error: str | None = None
        self._link: Link | None = None
        self._version = ""
        self._starting = anyio.Lock()
        self._starts: deque[float] = deque(maxlen=TRIES)
        self._over = anyio.Event()
        """Of the last life: it is known why it ended."""

    @property
    def runs(self) -> bool:
        return self._link is not None and not self._link.gone.is_set()

    async def ready(self) -> Link:
        """The connection; opened if there is none."""
        async with self._starting:
            if self._link is None or self._link.gone.is_set():
                await self._start()
            assert self._link is not None  # noqa: S101 - started one line above
            return self._link

    async def call(self, tool: str, bench: Bench, given: Given) -> JsonObject:
        """Carry out one call."""
        link = await self.ready()
        reply = await link.call(tool, given.values, self.config.timeout)
        return told(reply, bench.output_cap)

    def take(self, listed: Iterable[Listed]) -> list[Definition]:
        """The tools of a listing that fit; why the others do not is kept."""
        found: dict[str, Definition] = {}
        self.refused, twice = {}, set[str]()
        for each in listed:
            if not self.config.takes(each.name):
                continue
            read = read_definition(self.config.name, each.name, each.description, each.parameters)
            if isinstance(read, str):
                self.refused[each.name[:100]] = read
            elif read.name in found:
                twice.add(read.name)
            else:
                found[read.name] = read
        for name in twice:
            self.refused[found.pop(name).tool] = "the server lists two tools of that name"
        self.listed = tuple(found)
        return list(found.values())

    def report(self) -> ServerReport:
        """How it is."""
        state = "ready" if self.runs else "failed" if self.error else "idle"
        url = urlsplit(self.config.url or "")
        # Neither arguments nor the rest of an address: some have secrets there.
        place = f"{url.scheme}://{url.netloc}" if self.config.url else self.config.command[0]
        return ServerReport(
            name=self.config.name, place=place, state=state, error=self.error,
            version=self._version, tools=self.listed, refused=dict(self.refused),
            agents=self.config.agents,
        )  # fmt: skip

    async def _start(self) -> None:
        if self.group is None:
            raise ToolFailed("server_unavailable", "servers do not run for a command that looks")
        now, name = anyio.current_time(), self.config.name
        if len(self._starts) == TRIES and now - self._starts[0] < WHILE:
            left = math.ceil(WHILE - (now - self._starts[0]))
            await self._over.wait()
            raise ToolFailed(
                "server_unavailable",
                f"MCP server {name} failed {TRIES} times ({self.error}); next try in {left} s",
            )
        self._starts.append(now)
        self._over = anyio.Event()
        self.error = await self.group.start(self._live)
        if self.error is not None:
            raise ToolFailed("server_unavailable", f"MCP server {name}: {self.error}")

    async def _live(self, *, task_status: anyio.abc.TaskStatus[str | None]) -> None:
        """One life of the server; gives why it did not begin, if it did not."""
        said, mine, error, over = Said(), list[Link](), "it does not answer in time", self._over
        deadline = anyio.current_time() + self.config.start_timeout
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                async with linked(self.config, said) as link:
                    scope.deadline = math.inf
                    mine.append(link)
                    self._link, self._version = link, link.version
                    task_status.started(None)
                    await link.gone.wait()
                    error = "it ended"
        except Exception as failure:
            error = _reason(failure)
        finally:
            # Another life may have begun already.
            if mine and self._link is mine[0]:
                self._link = None
        last = said.last_line
        self.error = f"{error}; it said: {last[:300]}" if last else error
        over.set()
        if not mine:
            task_status.started(self.error)


def _reason(error: BaseException) -> str:
    """What an error says, without the groups that it is wrapped in."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}"[:500] if str(error) else type(error).__name__
