"""Tools of MCP servers at the terminal: what is known of them, and accepting what changed."""

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from gonogo.cli.daemon import connected, linked
from gonogo.cli.folder import read_settings
from gonogo.cli.language import own_locale, own_words
from gonogo.cli.support import Exit
from gonogo.cli.terminal.output import facts, line, outcome, spoken, table, word
from gonogo.client import Client
from gonogo.domain.errors import of_parts
from gonogo.domain.tool_calls import Sighting, ToolClass, ToolHistory, foreign_name, server_of
from gonogo.domain.views import ServerView, ToolView
from gonogo.i18n import term, told
from gonogo.tools import Remembered, ServerConfig, Tool, builtin_tools, ending_tools

_SHOWN = 60
"""Characters of a description in a list."""


async def list_tools(*, json: bool) -> Exit:
    """List the tools and the servers."""
    async with connected() as client:
        tools, servers = await client.tools(), await client.servers()
    if json:
        return facts({"tools": tools, "servers": servers})
    table(
        ("tool", "class", "does"),
        [(t.name, word("class", t.tool_class), _beginning(t)) for t in tools],
    )
    if servers:
        line("")
        rows = [
            (s.name, s.place, word("server", s.state), len(s.tools), _remarks(s)) for s in servers
        ]
        table(("server", "at", "state", "tools", "remarks"), rows)
    return Exit.DONE


async def accept_tool(name: str, *, json: bool) -> Exit:
    """Accept a tool as it was seen last."""
    async with linked(read_settings()) as link:
        accepted = await link.client.accept_tool(name)
    said = "{tool} is accepted as it is now." if accepted.news else "{tool} has not changed."
    return outcome(accepted, own_words(said, tool=spoken(name)), json=json)


def _beginning(tool: ToolView) -> str:
    """What a tool does: in the user's language, or as its server or we describe it to models."""
    known = term("tool", tool.name, own_locale())
    words = known if known != tool.name else " ".join(tool.description.split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def _remarks(server: ServerView) -> str:
    changed = (
        own_words("{tool} has changed: {parts}", tool=name, parts=", ".join(parts))
        for name, parts in server.changed.items()
    )
    refused = (
        own_words("{tool} is left out: {reason}", tool=name, reason=_why(server, why))
        for name, why in server.refused.items()
    )
    return "; ".join(filter(None, (_why(server, server.error or ""), *changed, *refused)))


def _why(server: ServerView, text: str) -> str:
    return told(of_parts(text, server.parts.get(text, {})), own_locale())


# Tools of foreign servers, for commands that judge calls and start no server.


class KnownTools(dict[str, Tool]):
    """Our tools; a profile may name whatever a server may bring besides."""

    def __contains__(self, name: object) -> bool:
        """Whether it is one of ours, or a name of a server's."""
        return super().__contains__(name) or (isinstance(name, str) and server_of(name) is not None)


def known_tools() -> KnownTools:
    """All of ours."""
    return KnownTools({**builtin_tools(), **ending_tools()})


async def remembered() -> Remembered:
    """The servers with what was seen of their tools, by whoever owns the state folder."""
    async with connected() as client:
        tools, servers = await client.tools(), await client.servers()
    by_name = {tool.name: tool for tool in tools}
    configs = {server.name: _config(server, by_name) for server in servers}
    return Remembered(configs, _standings(servers, by_name))


async def seen_by(client: Client) -> Mapping[str, ToolHistory]:
    """What was seen of every tool that a server has, by its name."""
    by_name = {tool.name: tool for tool in await client.tools()}
    return _standings(await client.servers(), by_name)


def at(standing: ToolHistory, moment: datetime) -> ToolHistory | None:
    """What had been seen and accepted of a tool at a moment; None: nothing yet."""
    seen = [
        s if s.accepted_at and s.accepted_at <= moment else _unaccepted(s)
        for s in standing.sightings
        if s.seen_at <= moment
    ]
    return ToolHistory(seen) if seen else None


def _unaccepted(seen: Sighting) -> Sighting:
    return replace(seen, accepted_at=None)


def _config(server: ServerView, tools: Mapping[str, ToolView]) -> ServerConfig:
    before = foreign_name(server.name, "")
    classes = {
        name.removeprefix(before): ToolClass(tools[name].tool_class)
        for name in server.sightings
        if name in tools
    }
    return ServerConfig(name=server.name, agents=tuple(server.agents), classes=classes)


def _standings(
    servers: list[ServerView], tools: Mapping[str, ToolView]
) -> Mapping[str, ToolHistory]:
    return {
        name: _standing(tools[name], server)
        for server in servers
        for name in server.sightings
        if name in tools
    }


def _standing(tool: ToolView, server: ServerView) -> ToolHistory:
    now = {
        "name": tool.name.removeprefix(foreign_name(server.name, "")),
        "description": tool.description, "parameters": tool.parameters,
    }  # fmt: skip
    # Of what it was before, no more is told than which part of it was another.
    before = {part: now[part] for part in now if part not in server.changed.get(tool.name, ())}
    *old, last = server.sightings[tool.name]
    return ToolHistory([
        Sighting(
            name=tool.name, position=position, digest=seen.digest, seen_at=seen.seen_at,
            definition=now if seen is last else before, accepted_at=seen.accepted_at,
            accepted_by=None,
        )
        for position, seen in enumerate((*old, last), start=1)
    ])  # fmt: skip
