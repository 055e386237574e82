"""Tools of foreign servers in the hands of agents: who has which, and what models are told."""

from typing import TYPE_CHECKING

from gonogo.agents._thread import Thread
from gonogo.domain.errors import because
from gonogo.domain.text_safety import visible
from gonogo.domain.tool_calls import Standing, ToolSchema, server_of

if TYPE_CHECKING:
    from gonogo.agents._gate import Gate

PROPOSE = "create_plan"
_SHOWN, _MOST = 200, 100
"""Characters of a description that planners are told, and tools."""


def allowed_tools(gate: "Gate", thread: Thread) -> tuple[str, ...]:
    """The tools that the agent of a conversation may call, as far as they are known."""
    own = gate.profile(thread).tools
    if gate.servers is None:
        return tuple(name for name in own if name in gate.tools)
    if thread.remote:
        # Whoever carries out the calls of such a session does not have our servers.
        return tuple(name for name in own if name in gate.tools and server_of(name) is None)
    lent = gate.servers.lent(thread.agent) if thread.profile is None else ()
    known = (name for name in own if name in gate.tools or name in gate.servers)
    return tuple(dict.fromkeys((*known, *lent)))


def may_call(gate: "Gate", thread: Thread, name: str) -> bool:
    """Whether an agent may call a tool; of one that nobody has seen yet its server is asked."""
    if name in allowed_tools(gate, thread):
        return True
    if gate.servers is None or thread.remote or thread.profile is not None:
        return False
    return gate.servers.lends(name, thread.agent)


async def offered_schemas(gate: "Gate", thread: Thread) -> tuple[ToolSchema, ...]:
    """What a model is told of the tools that it may call; the servers that bring some start."""
    own = gate.profile(thread).tools
    ours = [gate.tools[n].schema() for n in own if n in gate.tools and server_of(n) is None]
    if gate.servers is None or thread.remote:
        return tuple(ours)
    named = {server_of(name) for name in own}
    listed = await gate.servers.offered(
        lambda config: (
            PROPOSE in own
            or config.name in named
            or (thread.profile is None and thread.agent in config.agents)
        )
    )
    allowed = set(allowed_tools(gate, thread))
    theirs = [gate.tools[name].schema() for name in listed if name in allowed]
    if PROPOSE in own and listed:
        ours = [_with_tools(gate, schema, listed) for schema in ours]
    return (*ours, *theirs)


def change_of(name: str, standing: Standing) -> str:
    """What is not as it was when the tool was accepted, in words; empty if all is."""
    if standing.accepted:
        return ""
    what = " and ".join(standing.changed)
    return because("{name} has changed since it was accepted: its {what}", name=name, what=what)


def _with_tools(gate: "Gate", schema: ToolSchema, listed: tuple[str, ...]) -> ToolSchema:
    """How plans are proposed, for a planner who may have subtasks use tools of servers."""
    if schema.name != PROPOSE:
        return schema
    assert gate.servers is not None  # noqa: S101 - somebody listed them
    told = [schema.description, _ABOUT]
    for name in listed[:_MOST]:
        agents = ", ".join(gate.servers.borrowers(name))
        line = " ".join(gate.tools[name].description.split())[:_SHOWN]
        told.append(f"- `{name}` (agents: {agents}): {visible(line)}")
    return schema.model_copy(update={"description": "\n".join(told)})


_ABOUT = """
There are tools of other servers too. A subtask uses one without asking a person each time only if
its `scope.tools` names it; it can also be a subtask's `tool`. What servers say of their tools:"""
