"""Findings: what a person should know of a plan before deciding.

An error says that the plan cannot work as it is written, and refuses it; a warning shows what could
go wrong; information only tells. Every finding is a code with fields; the words are texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from gonogo.domain._order import ancestors
from gonogo.domain._reach import ProfileFacts as ProfileFacts
from gonogo.domain._reach import Reach, own_paths, reach_of
from gonogo.domain.base import Frozen
from gonogo.domain.conditions import gives_no_answer, never_true, read_condition
from gonogo.domain.errors import InvalidPlan
from gonogo.domain.failure import Category
from gonogo.domain.gate import ToolClass
from gonogo.domain.globs import Overlaps
from gonogo.domain.irreversible import irreversible
from gonogo.domain.kinds import COMMAND_TOOL, SubtaskType
from gonogo.domain.paths import write_guard
from gonogo.domain.plan import Revision, Scope, Subtask, critical_path
from gonogo.domain.reason import Said
from gonogo.domain.references import references

MAX_FINDINGS = 200
"""More are counted, not listed."""
_MAX_NAMED = 5
_PROSE = (".md", ".rst", ".txt", ".adoc")
_CHECKERS = frozenset({"debug"})


class FindingSeverity(StrEnum):
    """What a finding means for the plan."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Frozen):
    """One thing to know of a plan."""

    severity: FindingSeverity
    code: str
    subtask_id: str | None = None
    fields: dict[str, Said] = {}
    """What the text is filled in with."""

    @property
    def key(self) -> str:
        """The key of its text."""
        return f"finding_{self.code}"


_Found = Iterator[Finding]
_E, _W, _I = FindingSeverity.ERROR, FindingSeverity.WARNING, FindingSeverity.INFO


def findings(
    revision: Revision,
    *,
    agents: Mapping[str, ProfileFacts],
    tools: Mapping[str, ToolClass],
    prefix_problem: Callable[[str], str | None],
    asks: Callable[[Subtask, str], str | None] = lambda subtask, command: None,
    takes_no_more: Callable[[str], bool] = lambda command: False,
    attended: bool = True,
) -> tuple[Finding, ...]:
    """Look a plan over: errors first, then warnings, each in the order of the subtasks.

    Args:
        revision: Its graph was checked: without cycles and unknown dependencies.
        prefix_problem: Why the beginning of a command may not be allowed; None if it may.
        asks: Why a command that a subtask declares asks all the same; None if it does not.
        takes_no_more: Whether every word behind a command asks.
        attended: Somebody can be asked while the plan runs.
    """
    look = _Look(
        revision.subtasks, agents, tools, prefix_problem, asks, takes_no_more, attended
    )  # fmt: skip
    each = (_of_subtask(look, subtask) for subtask in look.subtasks)
    found = [*chain.from_iterable(each), *_overlapping(look), *_of_plan(look)]
    order = list(FindingSeverity)
    found.sort(key=lambda finding: order.index(finding.severity))
    if len(found) <= MAX_FINDINGS:
        return tuple(found)
    more = _finding(_W, "more", None, count=len(found) - MAX_FINDINGS)
    return (*found[:MAX_FINDINGS], more)


@dataclass(slots=True)
class _Look:
    """A plan and all that is known about it."""

    subtasks: Sequence[Subtask]
    agents: Mapping[str, ProfileFacts]
    tools: Mapping[str, ToolClass]
    prefix_problem: Callable[[str], str | None]
    asks: Callable[[Subtask, str], str | None]
    takes_no_more: Callable[[str], bool]
    attended: bool
    above: Mapping[str, frozenset[str]] = field(init=False)
    reach: Mapping[str, Reach] = field(init=False)
    overlaps: Overlaps = field(default_factory=Overlaps)

    def __post_init__(self) -> None:
        """Work out who waits for whom, and what each could do."""
        self.above = ancestors(self.subtasks)
        self.reach = {
            s.id: reach_of(s, self.agents, self.tools, self.overlaps) for s in self.subtasks
        }

    def writers(self) -> list[Subtask]:
        return [subtask for subtask in self.subtasks if self.reach[subtask.id].writes]


def _finding(
    severity: FindingSeverity, code: str, subtask: Subtask | None, **fields: object
) -> Finding:
    own = {} if subtask is None else {"subtask": subtask.id}
    return Finding(
        severity=severity,
        code=code,
        subtask_id=own.get("subtask"),
        fields=own | {name: _word(value) for name, value in fields.items()},
    )


def _word(value: object) -> str:
    # A reason is said in the language of whoever reads it.
    return value if isinstance(value, str) else str(value)


def _of_subtask(look: _Look, subtask: Subtask) -> _Found:
    yield from _worker(look, subtask)
    yield from _scope(look, subtask, subtask.scope or Scope())
    yield from _commands(look, subtask)
    yield from _condition(look, subtask)
    yield from _inputs(look, subtask)
    yield from _course(look, subtask)


def _worker(look: _Look, subtask: Subtask) -> _Found:
    if subtask.agent is not None and subtask.agent not in look.agents:
        yield _finding(_E, "unknown_agent", subtask, agent=subtask.agent)
    if subtask.tool is None:
        return
    if subtask.tool not in look.tools:
        yield _finding(_E, "unknown_tool", subtask, tool=subtask.tool)
    elif look.tools[subtask.tool] is ToolClass.CONTROL:
        yield _finding(_E, "control_tool", subtask, tool=subtask.tool)


def _scope(look: _Look, subtask: Subtask, scope: Scope) -> _Found:
    reach = look.reach[subtask.id]
    named = scope.tools or ()
    for tool in named:
        if tool not in look.tools:
            yield _finding(_E, "unknown_tool", subtask, tool=tool)
        elif look.tools[tool] is ToolClass.IRREVERSIBLE:
            yield _finding(_W, "irreversible_tool", subtask, tool=tool)
    lacking = [tool for tool in named if tool in look.tools and tool not in reach.offered]
    if lacking and reach.offered:
        severity = _W if reach.usable else _E
        yield _finding(severity, "tools_not_offered", subtask, tools=_listed(lacking))
    if subtask.tool and look.tools.get(subtask.tool) is ToolClass.IRREVERSIBLE:
        yield _finding(_W, "irreversible_tool", subtask, tool=subtask.tool)
    if reach.beyond_profile and reach.offered:
        yield _finding(_W, "cannot_write", subtask, paths=_listed(scope.paths or ()))
    if reach.writes and not reach.bounded:
        yield _finding(_W, "no_scope" if subtask.scope is None else "no_paths", subtask)
    yield from _paths(subtask, scope)
    yield from _outside(look, subtask, scope)


def _outside(look: _Look, subtask: Subtask, scope: Scope) -> _Found:
    """What the subtask's own tool writes although its scope names other files."""
    for path in () if scope.paths is None else own_paths(subtask):
        if not look.overlaps.any((path,), scope.paths or ()):
            yield _finding(_W, "outside_scope", subtask, what=path)


def _paths(subtask: Subtask, scope: Scope) -> _Found:
    for path in scope.paths or ():
        names = path.split("/")
        if path.startswith(("/", "~")) or ".." in names:
            yield _finding(_W, "path_outside", subtask, path=path)
        elif "**" not in names[0] and write_guard(path) == "deny" and path.strip("./"):
            yield _finding(_W, "path_protected", subtask, path=path)


def _commands(look: _Look, subtask: Subtask) -> _Found:
    reach = look.reach[subtask.id]
    declared = (subtask.scope or Scope()).commands
    if declared and reach.offered and COMMAND_TOOL not in reach.usable:
        yield _finding(_W, "commands_without_tool", subtask, commands=_listed(declared))
    for command in declared:
        problem = look.prefix_problem(command)
        if problem is not None:
            yield _finding(_W, "prefix_refused", subtask, command=command, problem=problem)
        elif (why := look.asks(subtask, command)) is not None:
            yield _finding(_W, "command_asks", subtask, command=command, problem=why)
        elif look.takes_no_more(command):
            yield _finding(_I, "command_whole", subtask, command=command)
    for command in reach.commands:
        final = irreversible(command)
        if final is not None:
            yield _finding(_W, "irreversible_command", subtask, command=final)


def _condition(look: _Look, subtask: Subtask) -> _Found:
    if subtask.condition is None:
        return
    try:
        condition = read_condition(subtask.condition)
    except InvalidPlan as problem:
        yield _finding(_E, "condition_invalid", subtask, problem=problem)
        return
    for name in sorted(condition.named - look.above[subtask.id]):
        code = "condition_not_dependency" if name in look.above else "condition_unknown_subtask"
        yield _finding(_E, code, subtask, other=name)
    if gives_no_answer(condition):
        yield _finding(_E, "condition_no_answer", subtask, condition=subtask.condition)
    elif never_true(condition):
        yield _finding(_W, "condition_never_true", subtask, condition=subtask.condition)


def _inputs(look: _Look, subtask: Subtask) -> _Found:
    try:
        found = references(subtask.inputs)
    except InvalidPlan as problem:
        yield _finding(_E, "inputs_invalid", subtask, problem=problem)
        return
    for reference in found:
        other = reference.subtask_id
        if other in look.above[subtask.id]:
            continue
        code = "reference_not_dependency" if other in look.above else "reference_unknown_subtask"
        yield _finding(_E, code, subtask, reference=reference.text, other=other)


def _course(look: _Look, subtask: Subtask) -> _Found:
    if subtask.approval_required and not look.attended:
        yield _finding(_W, "nobody_to_approve", subtask)
    policy = subtask.retry_policy
    known = set(Category)
    unknown = [name for name in policy.on if name not in known] if policy else []
    if unknown:
        yield _finding(_W, "unknown_category", subtask, categories=_listed(unknown))


def _overlapping(look: _Look) -> _Found:
    writers = look.writers()
    for place, one in enumerate(writers):
        others: list[str] = []
        path: str | None = None
        for other in writers[place + 1 :]:
            if one.id in look.above[other.id] or other.id in look.above[one.id]:
                continue
            found = look.overlaps.any(look.reach[one.id].writes, look.reach[other.id].writes)
            if found is not None:
                path = path or found
                others.append(other.id)
        if path is not None:
            yield _finding(_W, "overlapping_writers", one, others=_listed(others), path=path)
    if look.overlaps.exhausted:
        yield _finding(_W, "overlaps_not_compared", None)


def _of_plan(look: _Look) -> _Found:
    unchecked = [s.id for s in look.writers() if not _is_prose(look, s) and not _checked(look, s)]
    if unchecked:
        yield _finding(_W, "no_verification", None, subtasks=_listed(unchecked))
    path = critical_path(look.subtasks)
    if len(path) > 1:
        by_id = {subtask.id: subtask for subtask in look.subtasks}
        minutes = sum(by_id[key].minutes for key in path)
        yield _finding(_I, "critical_path", None, path=" → ".join(path), minutes=f"{minutes:.0f}")


def _is_prose(look: _Look, subtask: Subtask) -> bool:
    """Whether it only writes texts for people, which no command checks."""
    return all(glob.lower().endswith(_PROSE) for glob in look.reach[subtask.id].writes)


def _checked(look: _Look, writer: Subtask) -> bool:
    """Whether something looks at what it wrote: it itself, or what comes after it."""
    after = (s for s in look.subtasks if s is writer or writer.id in look.above[s.id])
    return any(_checks(look, subtask) for subtask in after)


def _checks(look: _Look, subtask: Subtask) -> bool:
    if subtask.type == SubtaskType.VALIDATION or look.reach[subtask.id].commands:
        return True
    return subtask.agent in _CHECKERS


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    listed = ", ".join(shown[:_MAX_NAMED])
    return f"{listed}, … (+{len(shown) - _MAX_NAMED})" if len(shown) > _MAX_NAMED else listed
