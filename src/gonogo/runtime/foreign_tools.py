"""The foreign servers of a runtime: what was seen of their tools is written down, and looked up."""

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import anyio
from msgspec import Struct

from gonogo.domain.errors import NotFound, because, parts_by_text
from gonogo.domain.findings import ProfileFacts
from gonogo.domain.identity import Principal, Role
from gonogo.domain.tool_calls import (
    MOST_CHANGES,
    MOST_SEEN,
    ToolClass,
    ToolHistory,
    foreign_name,
)
from gonogo.domain.views import AcceptedTool, ServerView, SightingView
from gonogo.execution.agent import Profile
from gonogo.execution.scheduling import Kind
from gonogo.runtime.services import open_programs, open_reader
from gonogo.settings import Settings
from gonogo.store import Store, Tx
from gonogo.store.people import accept, all_standings, count_seen, sight, standing_of
from gonogo.tools import (
    READ_SKILL,
    Definition,
    ServerConfig,
    ServerPool,
    ServerReport,
    Tool,
    builtin_tools,
    ending_tools,
    load_servers,
    propose_tool,
    skill_tool,
)
from gonogo.workspace import InstructionReader

if TYPE_CHECKING:
    from gonogo.runtime.services import Parts


V = TypeVar("V")


def open_servers(
    settings: Settings, environment: Mapping[str, str], store: Store
) -> ServerPool | None:
    """The servers that the configuration names; None: there are none."""
    configs = _configured(settings, environment)
    if not configs:
        return None

    async def seen(definitions: Sequence[Definition]) -> Mapping[str, ToolHistory | str]:
        found = await store.read(_unchanged, definitions)
        return found or await store.write(_seen, definitions)

    return ServerPool(configs, seen)


def _configured(settings: Settings, environment: Mapping[str, str]) -> Mapping[str, ServerConfig]:
    """The servers of the configuration; their programs lie where no agent writes."""
    if path := environment.get("PATH"):
        path = open_programs(settings, path).elsewhere(settings.workspace)
        environment = {**environment, "PATH": path}
    return load_servers(settings.mcp_file, environment)


def _unchanged(tx: Tx, definitions: Sequence[Definition]) -> Mapping[str, ToolHistory | str] | None:
    """What is known of these tools, if nothing is to be written; so that looking costs no write."""
    found: dict[str, ToolHistory | str] = {}
    for each in definitions:
        known = _known(tx, each)
        if known is None:
            return None
        found[each.name] = known
    return found


def _seen(tx: Tx, definitions: Sequence[Definition]) -> Mapping[str, ToolHistory | str]:
    return {d.name: _known(tx, d) or sight(tx, d.name, d.digest, d.body) for d in definitions}


def _known(tx: Tx, definition: Definition) -> ToolHistory | str | None:
    """What was seen of a tool, or why no more of it is written down; None: it is new."""
    standing = standing_of(tx, definition.name)
    if standing is None:
        full = count_seen(tx, foreign_name(definition.server, "")) >= MOST_SEEN
        said = because("its server has listed {most} other tools already", most=MOST_SEEN)
        return said if full else None
    if standing.now.digest == definition.digest:
        return standing
    if standing.is_restless(tx.now):
        return because(
            "it has changed {count} times within a day; read it, then accept it: gonogo tool "
            "accept {name}",
            count=MOST_CHANGES, name=definition.name,
        )  # fmt: skip
    return None


class Toolkit(Struct, frozen=True, kw_only=True):
    """All tools that there are: ours, and those of servers as they come."""

    own: Mapping[str, Tool]
    servers: ServerPool | None
    reader: InstructionReader
    """What `read_skill` reads, and conversations are told of."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What agents and plans may name."""
        return self._with_servers(self.own)

    @property
    def for_gate(self) -> Mapping[str, Tool]:
        """What may be called, the ends of decisions and validations too."""
        return self._with_servers({**self.own, **ending_tools()})

    @property
    def classes(self) -> Mapping[str, ToolClass]:
        """The class of each tool, also of those that servers bring later."""
        tools = self.tools
        if self.servers is None:
            return {name: tool.tool_class for name, tool in tools.items()}
        return Seen(tools, lambda name: tools[name].tool_class)

    @property
    def names(self) -> Collection[str]:
        """What a profile may name."""
        return self.own if self.servers is None else KnownNames(self.own, self.servers)

    def _with_servers(self, own: Mapping[str, Tool]) -> Mapping[str, Tool]:
        return own if self.servers is None else ChainMap(dict(own), self.servers.known)


def open_toolkit(
    settings: Settings,
    environment: Mapping[str, str],
    store: Store,
    kinds: Sequence[Kind],
) -> Toolkit:
    """Our tools, and the servers of the configuration."""
    reader = open_reader(settings)
    own = builtin_tools() | propose_tool({kind.name: kind.description for kind in kinds})
    own[READ_SKILL] = skill_tool(reader)
    servers = open_servers(settings, environment, store)
    return Toolkit(own=own, servers=servers, reader=reader)


class KnownNames(Collection[str]):
    """Our tools, and whatever a server may bring: what a profile may name."""

    def __init__(self, tools: Collection[str], servers: ServerPool) -> None:
        self._tools, self._servers = tools, servers

    def __contains__(self, name: object) -> bool:
        return name in self._tools or name in self._servers

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


@dataclass(frozen=True)
class Seen(Mapping[str, V]):
    """A view of things that come while we run: each is looked up when it is asked for."""

    names: Collection[str]
    look: Callable[[str], V]

    def __getitem__(self, name: str) -> V:
        if name not in self.names:
            raise KeyError(name)
        return self.look(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def facts_of(
    profiles: Mapping[str, Profile], servers: ServerPool | None
) -> Mapping[str, ProfileFacts]:
    """What is known of each agent, also of tools that it is lent later."""

    def facts(name: str) -> ProfileFacts:
        own, lent = profiles[name], () if servers is None else servers.lent(name)
        return ProfileFacts(tools=(*own.tools, *lent), may_write=own.limits)

    if servers is None:
        return {name: facts(name) for name in profiles}
    return Seen(profiles, facts)


async def look_at_servers(
    settings: Settings, environment: Mapping[str, str]
) -> Sequence[ServerReport]:
    """Start every server of the configuration, and say what came of it; nothing is written down."""

    async def not_kept(definitions: Sequence[Definition]) -> Mapping[str, ToolHistory | str]:
        del definitions
        return {}

    servers = ServerPool(_configured(settings, environment), not_kept)
    reports: Sequence[ServerReport] = ()
    async with anyio.create_task_group() as group:
        await group.start(servers.serve)
        await servers.offered(lambda config: True)
        reports = servers.report()
        group.cancel_scope.cancel()
    return reports


async def remember(parts: "Parts") -> None:
    """Know the tools that were seen before; no server starts for that."""
    if parts.servers is not None:
        parts.servers.remember(await parts.store.read(all_standings))


class ForeignServers(Struct, frozen=True):
    """The verbs about foreign servers."""

    _parts: "Parts"

    async def all(self, principal: Principal) -> list[ServerView]:
        """How each server is, and what is known of its tools."""
        principal.require(Role.VIEWER)
        servers = self._parts.servers
        if servers is None:
            return []
        standings = await self._parts.store.read(all_standings)
        views: list[ServerView] = []
        for report in servers.report():
            known = set(servers.of(report.name))
            views.append(_view(report, {n: s for n, s in standings.items() if n in known}))
        return views

    def faulty(self) -> list[ServerReport]:
        """The servers that cannot be used as the file describes them."""
        servers = self._parts.servers
        return [] if servers is None else [each for each in servers.report() if each.error]

    async def accept(self, principal: Principal, name: str) -> AcceptedTool:
        """Have a server's tool count as it was seen last.

        Raises:
            NotFound: no such tool was ever seen.
        """
        principal.require(Role.ADMIN)
        news = await self._parts.store.write(_accept, principal, name)
        return AcceptedTool(name=name, news=news)


def _view(report: ServerReport, own: Mapping[str, ToolHistory]) -> ServerView:
    return ServerView.of(
        report, version=report.version or None, tools=list(report.tools or own),
        parts=parts_by_text([*report.refused.values(), report.error or ""]),
        changed={
            name: list(standing.changed) for name, standing in own.items() if standing.changed
        },
        sightings={
            name: [SightingView.of(each) for each in standing.sightings]
            for name, standing in own.items()
        },
    )  # fmt: skip


def _accept(tx: Tx, principal: Principal, name: str) -> bool:
    standing = standing_of(tx, name)
    if standing is None:
        raise NotFound(
            "No server has listed a tool {name!r} yet; list the tools: gonogo tool list", name=name
        )
    if standing.accepted:
        return False
    return accept(tx, standing.now, principal.name, actor=principal.id)
