"""What each subtask of a plan could do, from its scope and who carries it out."""

from collections.abc import Mapping
from dataclasses import dataclass

from gonogo.domain.foreign import server_of
from gonogo.domain.gate import ToolClass
from gonogo.domain.globs import EVERYTHING, Overlaps
from gonogo.domain.kinds import COMMAND_TOOL, own_tool
from gonogo.domain.plan import Scope, Subtask

_CHANGING = frozenset({ToolClass.IDEMPOTENT, ToolClass.OTHER, ToolClass.IRREVERSIBLE})
_PATH_ARGUMENTS = ("path", "source", "destination")
_PATHLESS = "apply_patch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFacts:
    """What findings need to know of an agent."""

    tools: tuple[str, ...]
    may_write: tuple[str, ...] | None = None
    """Globs of the files that it may write; None: any, `()`: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What one subtask could do without a question, if the plan is approved."""

    offered: frozenset[str]
    """The tools of its agent, or the one that it calls itself."""
    usable: frozenset[str]
    """Those of them that its scope declares."""
    writes: tuple[str, ...]
    """Globs of what its file tools could write; empty when it cannot write."""
    bounded: bool
    """Something says where it writes: its scope, its profile, or its inputs."""
    beyond_profile: bool
    """It declares paths, and its agent may write none of them."""
    commands: tuple[str, ...]


def reach_of(
    subtask: Subtask,
    agents: Mapping[str, ProfileFacts],
    tools: Mapping[str, ToolClass],
    overlaps: Overlaps,
) -> Reach:
    """What a subtask could do."""
    scope = subtask.scope or Scope()
    profile = agents.get(subtask.agent or "", ProfileFacts(tools=()))
    own = own_tool(subtask)
    offered = frozenset((own,) if own else profile.tools)
    # A scope that names no tools means ours: a foreign one is never meant unless it is named.
    ours = (tool for tool in offered if own or not server_of(tool))
    usable = offered.intersection(ours if scope.tools is None else scope.tools)
    changing = any(tools.get(t) in _CHANGING and t != COMMAND_TOOL for t in usable)
    limits = profile.may_write
    declared = (own_paths(subtask) or None) if scope.paths is None else scope.paths
    beyond = limits is not None and bool(declared) and not overlaps.any(declared, limits)
    writes = (limits or (EVERYTHING,)) if declared is None else declared
    if not changing or limits == () or beyond:
        writes = ()
    return Reach(
        offered=offered,
        usable=usable,
        writes=writes,
        bounded=declared is not None or limits is not None,
        beyond_profile=beyond or (bool(scope.paths) and not changing),
        commands=(*scope.commands, *own_command(subtask)),
    )


def own_paths(subtask: Subtask) -> tuple[str, ...]:
    """The paths that a subtask with a tool of its own names in its inputs, if they are plain."""
    if subtask.tool in (None, _PATHLESS) or not subtask.inputs:
        return ()
    named = [subtask.inputs[name] for name in _PATH_ARGUMENTS if name in subtask.inputs]
    plain = [path for path in named if isinstance(path, str) and "${" not in path]
    return tuple(plain) if len(plain) == len(named) else ()


def own_command(subtask: Subtask) -> tuple[str, ...]:
    command = (subtask.inputs or {}).get("command")
    return (command,) if own_tool(subtask) == COMMAND_TOOL and isinstance(command, str) else ()
