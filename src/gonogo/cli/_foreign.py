"""`gonogo tool list` and `accept`: the tools that there are, and the servers that bring some."""

from gonogo.cli._escape import spoken
from gonogo.cli._exits import Exit
from gonogo.cli._owner import connected, linked
from gonogo.cli._print import facts, line, table
from gonogo.cli._setup import read_settings
from gonogo.domain.views import ServerView, ToolView

_SHOWN = 60
"""Characters of a description in a list."""


async def list_tools(*, json: bool) -> Exit:
    """List the tools and the servers."""
    async with connected() as client:
        tools, servers = await client.tools(), await client.servers()
    if json:
        return facts({"tools": tools, "servers": servers})
    table(("tool", "class", "does"), [(t.name, t.tool_class, _beginning(t)) for t in tools])
    if servers:
        line("")
        rows = [(s.name, s.place, s.state, len(s.tools), _remarks(s)) for s in servers]
        table(("server", "at", "state", "tools", "remarks"), rows)
    return Exit.DONE


async def accept_tool(name: str) -> Exit:
    """Accept a tool as it was seen last."""
    async with linked(read_settings(), goes_on=True) as link:
        accepted = await link.client.accept_tool(name)
    said = "counts as it was seen last" if accepted.news else "has not changed"
    line(f"{spoken(name)} {said}")
    return Exit.DONE


def _beginning(tool: ToolView) -> str:
    words = " ".join(tool.description.split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def _remarks(server: ServerView) -> str:
    changed = (f"{name} has changed: {' and '.join(w)}" for name, w in server.changed.items())
    refused = (f"not {name}: {why}" for name, why in server.refused.items())
    return "; ".join(filter(None, (server.error, *changed, *refused)))
