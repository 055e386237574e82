"""Findings: what a person should know of a plan before deciding.

An error says that the plan cannot work as it is written, and refuses it; a warning shows what could
go wrong; information only tells. Every finding is a code with fields; the words are texts.
"""

import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain, product

from msgspec import Struct, field

from gonogo.domain.base import Frozen
from gonogo.domain.commands import started_at
from gonogo.domain.conditions import gives_no_answer, never_true, read_condition, references
from gonogo.domain.errors import InvalidPlan, Said
from gonogo.domain.failures import Category
from gonogo.domain.paths import write_guard
from gonogo.domain.plan import (
    COMMAND_TOOL,
    Revision,
    Scope,
    Subtask,
    SubtaskType,
    ancestors,
    critical_path,
    own_tool,
)
from gonogo.domain.tool_calls import ToolClass, Verdict, server_of

# Commands that no checkpoint brings back, known by their words.
#
# This only points a person to them; whether a command may run is judged by the policy alone.

_PROGRAMS = frozenset(
    """rm rmdir unlink shred truncate dd mkfs wipefs dropdb dropuser twine terraform tofu pulumi
    helm kubectl ansible-playbook aws gcloud az heroku fly flyctl vercel netlify wrangler mail
    sendmail""".split()
)
_VERBS = {
    "git": "push clean reset rm gc filter-branch".split(),
    "gh": "pr release issue repo workflow api".split(),
    "docker": "push rm rmi prune system volume".split(),
    "podman": "push rm rmi prune system volume".split(),
    "redis-cli": "flushall flushdb".split(),
}
_ANYWHERE = frozenset("publish deploy release upload drop destroy -delete --delete".split())
"""Words that say it wherever they stand: `npm publish`, `make deploy`, `find . -delete`."""


def irreversible(command: str) -> str | None:
    """The part of a command that cannot be taken back, as far as its words tell."""
    for part in re.split(r"[;&|\n]+", command):
        words = [word.strip("'\"()`") for word in part.split()]
        while words and "=" in words[0]:
            del words[0]
        last = max((n for n, word in enumerate(words) if word.lower() in _ANYWHERE), default=0)
        for start in (0, *started_at(words)) if words else ():
            if start < last or _tells(words[start], words[start + 1 : start + 4]):
                return " ".join(words[start:])
    return None


def _tells(first: str, rest: Sequence[str]) -> bool:
    program = first.rsplit("/", 1)[-1]
    if program in _PROGRAMS or program.startswith("mkfs."):
        return True
    return any(word in _VERBS.get(program, ()) for word in rest)


# Whether two globs have a path in common.
#
# Globs are those of scopes and profiles: relative to the workspace, `*` and `?` within a name, `**`
# across folders, and a glob without a wildcard also covers what lies below it. The answer is exact,
# by walking both as automata side by side, as long as it takes no longer than was allowed.

MAX_GLOB = 256
"""Characters; a longer glob counts as one that covers everything."""
EVERYTHING = "**"
_WILD = "*?"
_MAX_PAIR = 20_000
"""Steps for one pair of globs."""


class Overlaps(Struct):
    """Compares globs, and remembers what it found.

    What would take longer than `steps` in all is not compared: `exhausted` then says so.
    """

    steps: int = 250_000
    exhausted: bool = False
    _known: dict[tuple[str, str], str | None] = field(
        default_factory=dict[tuple[str, str], str | None]
    )

    def any(self, ours: Sequence[str], theirs: Sequence[str]) -> str | None:
        """A path that one of each covers, None if there is none.

        Globs too hard to compare count as overlapping, and one of them stands for the path.
        """
        pairs = () if self.exhausted else product(map(_read, ours), map(_read, theirs))
        for one, other in pairs:
            self.exhausted = self.steps <= 0
            if self.exhausted:
                return None
            self.steps -= 1
            if one[1].startswith(other[1]) or other[1].startswith(one[1]):
                found = self._common(one[0], other[0])
                if found is not None:
                    return found
        return None

    def _common(self, one: str, other: str) -> str | None:
        pair = (one, other)
        if pair not in self._known:
            found, took = common_path(one, other)
            self.steps -= took
            self._known[pair] = found
        return self._known[pair]


def plain(glob: str) -> str:
    """The glob as it is compared; one that covers everything is `**`."""
    short = glob.removeprefix("./").rstrip("/")
    return EVERYTHING if short in ("", ".") or len(short) > MAX_GLOB else short


def common_path(one: str, other: str) -> tuple[str | None, int]:
    """A path that both cover, if there is one, and the steps that finding out took."""
    ours, theirs = _Automaton(plain(one)), _Automaton(plain(other))
    seen: set[tuple[int, int, bool]] = set()
    # A name has begun: paths hold no empty names, and neither begin nor end with a slash.
    queue = deque([("", a, b, False) for a, b in product(ours.start, theirs.start)])
    while queue:
        path, a, b, begun = queue.popleft()
        if (a, b, begun) in seen:
            continue
        seen.add((a, b, begun))
        if begun and a in ours.ends and b in theirs.ends:
            return path, len(seen)
        if len(seen) > _MAX_PAIR:
            return one, len(seen)
        for letter, after, also in _moves(ours.moves[a], theirs.moves[b]):
            if letter != "/" or begun:
                queue.append((path + letter, after, also, letter != "/"))
    return None, len(seen)


@lru_cache(maxsize=4_096)
def _read(glob: str) -> tuple[str, str]:
    """The glob as it is compared, and its beginning without wildcards."""
    short = plain(glob)
    at = min((short.find(sign) for sign in _WILD if sign in short), default=len(short))
    return short, short[:at]


_ANY, _NAME = "any", "name"
"""What a step takes: every character, or every one but a slash; else just that character."""
_Moves = list[tuple[str, int]]


def _moves(ours: _Moves, theirs: _Moves) -> Iterator[tuple[str, int, int]]:
    for (mine, a), (other, b) in product(ours, theirs):
        for letter in _letters(mine, other):
            yield letter, a, b


def _letters(one: str, other: str) -> Iterable[str]:
    """Letters that stand for all that both steps take."""
    wide = {_ANY: ("x", "/"), _NAME: ("x",)}
    if one in wide and other in wide:
        return wide[one] if one == other else ("x",)
    if one in wide:
        one, other = other, one
    taken = other in (one, _ANY) or (other == _NAME and one != "/")
    return (one,) if taken else ()


class _Automaton:
    """A glob as states and what leads from each to the next."""

    def __init__(self, glob: str) -> None:
        self.moves: list[_Moves] = [[]]
        self._skips: list[list[int]] = [[]]
        at = 0
        for sign in _signs(glob):
            at = self._add(at, sign)
        ends = {at}
        if not any(sign in glob for sign in (*_WILD, "[")):
            below = self._state()
            self.moves[at].append(("/", below))
            self.moves[below].append((_ANY, below))
            ends.add(below)
        self.start = self._reach(0)
        self.ends = {s for s in range(len(self.moves)) if ends & set(self._reach(s))}
        self.moves = [
            [(taken, after) for taken, to in moves for after in self._reach(to)]
            for moves in self.moves
        ]

    def _state(self) -> int:
        self.moves.append([])
        self._skips.append([])
        return len(self.moves) - 1

    def _add(self, at: int, sign: str) -> int:
        after = self._state()
        if sign == "**/":
            inside = self._state()
            self._skips[at] += [after, inside]
            self.moves[inside] += [(_ANY, inside), ("/", after)]
        elif sign in ("*", "**"):
            self._skips[at].append(after)
            self.moves[after].append((_NAME if sign == "*" else _ANY, after))
        else:
            self.moves[at].append((_NAME if sign == "?" else sign, after))
        return after

    def _reach(self, state: int) -> list[int]:
        """The states that one is in without taking a character."""
        reached = [state]
        for known in reached:
            reached += [other for other in self._skips[known] if other not in reached]
        return reached


def _signs(glob: str) -> Iterator[str]:
    at = 0
    while at < len(glob):
        size = 3 if glob.startswith("**/", at) else 2 if glob.startswith("**", at) else 1
        yield glob[at : at + size]
        at += size


# What each subtask of a plan could do, from its scope and who carries it out.

_CHANGING = frozenset({ToolClass.IDEMPOTENT, ToolClass.OTHER, ToolClass.IRREVERSIBLE})
_PATH_ARGUMENTS = ("path", "source", "destination")
_PATHLESS = "apply_patch"


class ProfileFacts(Struct, frozen=True, kw_only=True):
    """What findings need to know of an agent."""

    tools: tuple[str, ...]
    may_write: tuple[str, ...] | None = None
    """Globs of the files that it may write; None: any, `()`: none."""


class Reach(Struct, frozen=True, kw_only=True):
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
    """The command of a subtask that is one command and nothing else, if it is plain."""
    command = (subtask.inputs or {}).get("command")
    return (command,) if own_tool(subtask) == COMMAND_TOOL and isinstance(command, str) else ()


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
    asks: Callable[[Subtask, str], Verdict | None] = lambda subtask, command: None,
    takes_no_more: Callable[[str], bool] = lambda command: False,
    check_asks: Callable[[str], Verdict | None] = lambda command: None,
    attended: bool = True,
) -> tuple[Finding, ...]:
    """Look a plan over: errors first, then warnings, each in the order of the subtasks.

    Args:
        revision: Its graph was checked: without cycles and unknown dependencies.
        prefix_problem: Why the beginning of a command may not be allowed; None if it may.
        asks: What asks about a command all the same, or denies it, that a subtask declares.
        takes_no_more: Whether every word behind a command asks.
        check_asks: The same, of a command by which a subtask is checked.
        attended: Somebody can be asked while the plan runs.
    """
    look = _Look(
        revision.subtasks, agents, tools, prefix_problem, asks, takes_no_more, check_asks, attended
    )  # fmt: skip
    each = (_of_subtask(look, subtask) for subtask in look.subtasks)
    found = [*chain.from_iterable(each), *_overlapping(look), *_of_plan(look)]
    order = list(FindingSeverity)
    found.sort(key=lambda finding: order.index(finding.severity))
    if len(found) <= MAX_FINDINGS:
        return tuple(found)
    more = _finding(_W, "more", None, count=len(found) - MAX_FINDINGS)
    return (*found[:MAX_FINDINGS], more)


@dataclasses.dataclass(slots=True)
class _Look:
    """A plan and all that is known about it."""

    subtasks: Sequence[Subtask]
    agents: Mapping[str, ProfileFacts]
    tools: Mapping[str, ToolClass]
    prefix_problem: Callable[[str], str | None]
    asks: Callable[[Subtask, str], Verdict | None]
    takes_no_more: Callable[[str], bool]
    check_asks: Callable[[str], Verdict | None]
    attended: bool
    above: Mapping[str, frozenset[str]] = dataclasses.field(init=False)
    reach: Mapping[str, Reach] = dataclasses.field(init=False)
    overlaps: Overlaps = dataclasses.field(default_factory=Overlaps)

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
    yield from _checks_of(look, subtask)
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
        elif (found := look.asks(subtask, command)) is not None:
            yield _not_allowed("command", subtask, command, found)
        elif look.takes_no_more(command):
            yield _finding(_I, "command_whole", subtask, command=command)
    # A command that a subtask runs is often also the prefix that its scope names.
    for final in dict.fromkeys(map(irreversible, reach.commands)):
        if final is not None:
            yield _finding(_W, "irreversible_command", subtask, command=final)


def _checks_of(look: _Look, subtask: Subtask) -> _Found:
    for command in subtask.check_commands:
        if (found := look.check_asks(command)) is not None:
            yield _not_allowed("check", subtask, command, found)


def _not_allowed(what: str, subtask: Subtask, command: str, found: Verdict) -> Finding:
    code = f"{what}_denied" if found.decision == "deny" else f"{what}_asks"
    return _finding(_W, code, subtask, command=command, problem=found.reason)


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
    # Who is named above is told of already.
    bare = [s.id for s in look.writers() if s.id not in unchecked and _could_be_checked(look, s)]
    if bare:
        yield _finding(_I, "no_checks", None, subtasks=_listed(bare))
    path = critical_path(look.subtasks)
    if len(path) > 1:
        by_id = {subtask.id: subtask for subtask in look.subtasks}
        minutes = sum(by_id[key].minutes for key in path)
        yield _finding(_I, "critical_path", None, path=" → ".join(path), minutes=f"{minutes:.0f}")


def _is_prose(look: _Look, subtask: Subtask) -> bool:
    """Whether it only writes texts for people, which no command checks."""
    return all(glob.lower().endswith(_PROSE) for glob in look.reach[subtask.id].writes)


def _could_be_checked(look: _Look, subtask: Subtask) -> bool:
    """Whether its agent alone says when it is done, although checks could."""
    acts = subtask.type == SubtaskType.ACTION and subtask.agent is not None
    return acts and subtask.done_when is None and not _is_prose(look, subtask)


def _checked(look: _Look, writer: Subtask) -> bool:
    """Whether something looks at what it wrote: it itself, or what comes after it."""
    after = (s for s in look.subtasks if s is writer or writer.id in look.above[s.id])
    return any(_checks(look, subtask) for subtask in after)


def _checks(look: _Look, subtask: Subtask) -> bool:
    if subtask.type == SubtaskType.VALIDATION or look.reach[subtask.id].commands:
        return True
    if subtask.done_when:
        return True
    return subtask.agent in _CHECKERS


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    listed = ", ".join(shown[:_MAX_NAMED])
    return f"{listed}, … (+{len(shown) - _MAX_NAMED})" if len(shown) > _MAX_NAMED else listed
