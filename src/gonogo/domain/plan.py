"""Plans: an immutable graph of subtasks, read strictly and digested.

Whatever proposes a plan (a model through `create_plan`, a person through an edit), its subtasks
come through `parse_subtasks`, which either gives a valid graph or says what is wrong and where.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Struct
from pydantic import Field, StringConstraints, ValidationError, field_validator

from gonogo.domain.base import Frozen, digest
from gonogo.domain.checks import MOST_CHECKS, DoneCheck
from gonogo.domain.errors import InvalidPlan, NotFound, because, defect_of, defects_of
from gonogo.domain.network import Network
from gonogo.domain.paths import is_secret
from gonogo.domain.text_safety import is_blank

if TYPE_CHECKING:
    from gonogo.domain.plan_views import SubtaskView


# Kinds of subtasks: what each gives, who may carry it out, and what a plan must say of it.
#
# The three that are built in are described here; others are registered, in the same words.

COMMAND_TOOL = "execute_command"
READ_TOOL = "read_file"
_COMMAND_CHECK = frozenset({"command", "exit_code", "cwd", "timeout"})
_FILE_CHECK = frozenset({"file", "exists", "contains"})


class SubtaskType(StrEnum):
    """The kinds that are built in: an effect, an answer, or a verdict."""

    ACTION = "action"
    DECISION = "decision"
    VALIDATION = "validation"


class Worker(StrEnum):
    """Who carries a subtask out."""

    AGENT = "agent"
    TOOL = "tool"
    NOBODY = "nobody"
    """Neither: the kind does it by itself, or with a model alone."""


class KindRule(Struct, frozen=True, kw_only=True):
    """What a plan must say of a subtask of one kind."""

    name: str
    workers: frozenset[Worker]
    """Who may carry it out."""
    check: Callable[["Subtask"], None] = lambda subtask: None
    """Looks at the subtask's inputs; raises `InvalidPlan`, beginning with the field."""


def worker_of(subtask: "Subtask | SubtaskView") -> Worker:
    """Who carries a subtask out, as its plan says."""
    if subtask.agent is not None:
        return Worker.AGENT
    return Worker.NOBODY if subtask.tool is None else Worker.TOOL


def own_tool(subtask: "Subtask | SubtaskView") -> str | None:
    """The tool of the one call that a subtask without an agent makes, if it makes one."""
    if worker_of(subtask) is not Worker.NOBODY or subtask.type != SubtaskType.VALIDATION:
        return subtask.tool
    inputs = subtask.inputs or {}
    return COMMAND_TOOL if "command" in inputs else READ_TOOL if "file" in inputs else None


def worker_name(subtask: "Subtask | SubtaskView") -> str:
    """Who carries a subtask out, in a word.

    An agent; `tool:` and a tool; `model`; or `kind:` and the kind that does it by itself.
    """
    if subtask.agent is not None:
        return subtask.agent
    if (tool := own_tool(subtask)) is not None:
        return f"tool:{tool}"
    return "model" if subtask.type in BUILT_IN else f"kind:{subtask.type}"


def check_decision(subtask: "Subtask") -> None:
    """Check the options that a decision is limited to, if it is.

    Raises:
        InvalidPlan: they are no choice.
    """
    options = (subtask.inputs or {}).get("options")
    if options is None or _is_reference(options):
        return
    items = cast("list[object]", options) if isinstance(options, list) else []
    texts = {item for item in items if isinstance(item, str) and item}
    if len(texts) < 2 or len(texts) < len(items):
        raise InvalidPlan("inputs.options: a decision needs two or more different texts")


def check_validation(subtask: "Subtask") -> None:
    """Check what a validation without an agent looks at.

    Raises:
        InvalidPlan: the inputs are neither a command's check nor a file's, or both.
    """
    inputs = subtask.inputs or {}
    if worker_of(subtask) is not Worker.NOBODY or not {"command", "file"} & set(inputs):
        return
    if "command" in inputs:
        _only(inputs, _COMMAND_CHECK)
        _typed(inputs, "command", str)
        _typed(inputs, "exit_code", int)
        return
    _only(inputs, _FILE_CHECK)
    _typed(inputs, "file", str)
    _typed(inputs, "exists", bool)
    _typed(inputs, "contains", str)
    if inputs.get("exists") is False and "contains" in inputs:
        raise InvalidPlan(
            "inputs.contains: a file that must not exist cannot contain text; remove `contains`"
        )


_RULES = (
    KindRule(name=SubtaskType.ACTION.value, workers=frozenset(Worker)),
    KindRule(
        name=SubtaskType.DECISION.value,
        workers=frozenset({Worker.AGENT, Worker.NOBODY}),
        check=check_decision,
    ),
    KindRule(name=SubtaskType.VALIDATION.value, workers=frozenset(Worker), check=check_validation),
)
BUILT_IN: Mapping[str, KindRule] = {rule.name: rule for rule in _RULES}


def _only(inputs: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in inputs:
        if name not in known:
            raise InvalidPlan(
                "inputs.{name}: a check does not have it; use {known}",
                name=name,
                known=", ".join(sorted(known)),
            )


def _typed(inputs: Mapping[str, Any], name: str, kind: type) -> None:
    value = inputs.get(name)
    if value is None and name not in inputs:
        return
    # A truth value is a number to Python, and an exit code to nobody.
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not right and not _is_reference(value):
        raise InvalidPlan("inputs.{name}: it must be {kind}", name=name, kind=kind.__name__)


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and "${" in value


MAX_SUBTASKS = 500
MAX_DESCRIPTION = 4_000
MAX_GOAL = 4 * MAX_DESCRIPTION
PLANNERS = frozenset({"orchestrator", "architect"})
"""Agents that may not carry out subtasks: a plan inside a plan would need its own go."""

_MINUTES = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440, "с": 1 / 60, "м": 1, "ч": 60, "д": 1440}
"""By the first letter of the unit, English or Russian."""
_ID = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"
_KIND = r"^[a-z][a-z0-9_-]{0,63}$"


class Scope(Frozen):
    """What a subtask declares that it needs; approving the plan grants it.

    A subtask without a scope is one with an empty one.
    """

    tools: tuple[str, ...] | None = None
    """Tool names; None means every tool of the agent's profile."""
    paths: tuple[str, ...] | None = None
    """Globs, relative to the workspace, that file tools may write; None means all of it."""
    commands: tuple[str, ...] = ()
    """Command prefixes, as words of argv: `pytest -q` covers `pytest -q tests`."""
    network: Network = False
    """What commands may reach that the scope allows: nothing, any public host (`true`), or a list
    of hosts."""


FORM = 2
"""Of subtasks as they are stored."""


def as_meant(written: Mapping[str, Any]) -> dict[str, Any]:
    """A subtask that was stored in form 1, in today's: there `[]` was what had been left out."""
    scope = written.get("scope")
    if scope is None:
        return dict(written)
    meant = {k: v for k, v in scope.items() if v != [] or k not in {"tools", "paths"}}
    return {**written, "scope": meant}


class RetryPolicy(Frozen):
    """When and how often a failed subtask is tried again by itself."""

    max_attempts: Annotated[int, Field(ge=1, le=20)] = 1
    """Attempts in all, the first included."""
    delay: Annotated[float, Field(ge=0, le=86_400)] = 1.0
    """Seconds before the second attempt."""
    backoff: Annotated[float, Field(ge=1, le=10)] = 2.0
    """What the delay is multiplied by for each further attempt."""
    on: tuple[str, ...] = ()
    """Failure categories that are tried again; empty means the transient ones."""


class Subtask(Frozen):
    """One node of a plan."""

    id: Annotated[str, StringConstraints(pattern=_ID, strict=True)]
    description: Annotated[
        str, StringConstraints(min_length=1, max_length=MAX_DESCRIPTION, strict=True)
    ]
    agent: Annotated[str, StringConstraints(strict=True)] | None = None
    tool: Annotated[str, StringConstraints(strict=True)] | None = None
    type: Annotated[str, StringConstraints(pattern=_KIND, strict=True)] = SubtaskType.ACTION.value
    """Its kind: one that is built in, or one that was registered."""
    dependencies: tuple[str, ...] = ()
    estimated_time: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "5 min"
    inputs: dict[str, Any] | None = None
    condition: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    scope: Scope | None = None
    approval_required: bool = False
    retry_policy: RetryPolicy | None = None
    timeout: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Seconds of work, waiting for a person not counted."""
    on_reject: Literal["skip", "fail"] | None = None
    """What becomes of a subtask whose start a person rejects; by default it is skipped."""
    after_skipped: Literal["skip", "run"] | None = None
    """What becomes of a subtask when a dependency was skipped by its own condition: by default it
    is skipped too; `run` takes that dependency as met."""
    done_when: Annotated[tuple[DoneCheck, ...], Field(max_length=MOST_CHECKS)] | None = None
    """What has to hold before its agent is believed that it is done."""
    must_change: Annotated[bool, Field(strict=True)] | None = None
    """Whether it is only done when it has changed a file; by default if its scope names paths."""

    @field_validator("done_when")
    @classmethod
    def _no_checks_are_none(
        cls, given: tuple[DoneCheck, ...] | None
    ) -> tuple[DoneCheck, ...] | None:
        return given or None

    @property
    def check_commands(self) -> tuple[str, ...]:
        """The commands that its checks run."""
        return tuple(check.command for check in self.done_when or () if check.command is not None)

    @property
    def minutes(self) -> float:
        """`estimated_time` as a number, for the critical path; five when it is not a time."""
        found = re.match(r"\s*(\d+(?:\.\d+)?)\s*([^\W\d_]?)", self.estimated_time.lower())
        if not found:
            return 5.0
        return float(found[1]) * _MINUTES.get(found[2], 1)


class Revision(Frozen):
    """One immutable version of a plan."""

    plan_id: str
    number: int
    goal: str
    subtasks: tuple[Subtask, ...]
    written: tuple[dict[str, Any], ...] | None = Field(default=None, exclude=True, repr=False)
    """The subtasks as an older gonogo wrote them, where their form is another one."""

    @property
    def digest(self) -> str:
        """What an approval of this revision binds."""
        bound = self.model_dump(mode="json", exclude_none=True)
        return digest(bound if self.written is None else bound | {"subtasks": self.written})

    def subtask(self, subtask_id: str) -> Subtask:
        """The subtask of that id.

        Raises:
            KeyError: there is none.
        """
        return self.by_id[subtask_id]

    @property
    def by_id(self) -> Mapping[str, Subtask]:
        """The subtasks by their ids, in plan order."""
        return {subtask.id: subtask for subtask in self.subtasks}


def no_subtask(plan_id: str, subtask_id: str) -> NotFound:
    """What is said where a plan has no subtask of that id."""
    return NotFound(
        "Plan {plan_id} has no subtask {subtask_id}; list its subtasks: gonogo plans show "
        "{plan_id}",
        plan_id=plan_id, subtask_id=subtask_id,
    )  # fmt: skip


def parse_subtasks(
    raw: Any,  # noqa: ANN401 - as a stranger wrote it
    *,
    agents: Collection[str],
    tools: Collection[str] = (),
    kinds: Mapping[str, KindRule] = BUILT_IN,
    known: Collection[str] = (),
) -> tuple[Subtask, ...]:
    """Read subtasks that a model or a person wrote.

    Ids may be left out (`subtask_1`, `subtask_2` … are given), and a dependency may be a
    zero-based index instead of an id. A subtask that names neither an agent nor a tool has to name
    its type, so that an agent that was forgotten is not taken for a model alone.

    Args:
        agents: The agents that may carry out subtasks.
        tools: The tools that may carry out subtasks without an agent.
        kinds: What subtasks may give, by name.
        known: Ids of subtasks that stand elsewhere, which these may depend on.

    Raises:
        InvalidPlan: with the first defect, naming the subtask and the field.
    """
    items = _as_objects(raw)
    ids = _ids(items)
    subtasks = tuple(
        _subtask(item, subtask_id, ids, position)
        for position, (item, subtask_id) in enumerate(zip(items, ids, strict=True), start=1)
    )
    for position, subtask in enumerate(subtasks, start=1):
        with defects_of(subtask.id):
            _check_kind(subtask, position, kinds)
            _check_worker(subtask, agents, tools)
            _check_done(subtask)
    check_graph(subtasks, known)
    return subtasks


def with_types(raw: Any) -> Any:  # noqa: ANN401 - as a stranger wrote it
    """Subtasks as a model wrote them, who leaves out what is usual: an action is named as one."""
    if not isinstance(raw, list):
        return raw
    items = cast("list[Any]", raw)
    usual = {"type": SubtaskType.ACTION.value}
    return [usual | cast("dict[str, Any]", i) if isinstance(i, dict) else i for i in items]


def check_graph(subtasks: Sequence[Subtask], elsewhere: Collection[str] = ()) -> None:
    """Check that ids are unique, dependencies known, and no subtask waits for itself.

    Raises:
        InvalidPlan: naming the id, the unknown dependency, or the cycle.
    """
    known = Counter(subtask.id for subtask in subtasks)
    if len(known) != len(subtasks):
        twice = next(subtask_id for subtask_id, times in known.items() if times > 1)
        raise InvalidPlan("Two subtasks have the id {twice!r}; change one of them", twice=twice)
    there = {*known, *elsewhere}
    for subtask in subtasks:
        with defects_of(subtask.id):
            _check_dependencies(subtask, there)
    try:
        TopologicalSorter({s.id: s.dependencies for s in subtasks}).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        shown = cycle if len(cycle) <= 12 else [*cycle[:6], "…", *cycle[-5:]]
        raise InvalidPlan(
            "The subtasks form a cycle: {cycle}; remove one of these dependencies",
            cycle=" → ".join(shown),
        ) from None


def _check_dependencies(subtask: Subtask, there: Collection[str]) -> None:
    for dependency in subtask.dependencies:
        if dependency == subtask.id:
            raise InvalidPlan(
                "Subtask {subtask_id!r} depends on itself; remove this dependency",
                subtask_id=subtask.id,
            )
        if dependency not in there:
            raise InvalidPlan(
                "Subtask {subtask_id!r} depends on unknown {dependency!r}; add that subtask, or "
                "remove the dependency",
                subtask_id=subtask.id, dependency=dependency,
            )  # fmt: skip


def critical_path(subtasks: Sequence[Subtask]) -> tuple[str, ...]:
    """The ids of the longest chain of dependencies, by estimated minutes."""
    by_id = {subtask.id: subtask for subtask in subtasks}
    length: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for key in TopologicalSorter({s.id: s.dependencies for s in subtasks}).static_order():
        subtask = by_id[key]
        longest = max(subtask.dependencies, key=lambda d: length[d], default=None)
        before[key] = longest
        length[key] = subtask.minutes + (length[longest] if longest else 0.0)
    path: list[str] = []
    step = max(length, key=lambda k: length[k], default=None)
    while step is not None:
        path.append(step)
        step = before[step]
    return tuple(reversed(path))


def dependants(subtasks: Sequence[Subtask], of: str) -> frozenset[str]:
    """The ids of every subtask that waits, directly or not, for `of`."""
    waiting: dict[str, list[str]] = {}
    for subtask in subtasks:
        for dependency in subtask.dependencies:
            waiting.setdefault(dependency, []).append(subtask.id)
    found: set[str] = set()
    pending = [of]
    while pending:
        fresh = set(waiting.get(pending.pop(), ())) - found
        found |= fresh
        pending.extend(fresh)
    return frozenset(found - {of})


def _as_objects(raw: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    if not isinstance(raw, list):
        raise InvalidPlan("The subtasks must be a list")
    items = cast("list[Any]", raw)
    if not items:
        raise InvalidPlan("A plan needs at least one subtask")
    if len(items) > MAX_SUBTASKS:
        raise InvalidPlan(
            "A plan can have at most {most} subtasks, not {count}; split it into several plans",
            most=MAX_SUBTASKS,
            count=len(items),
        )
    for position, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            raise InvalidPlan("Subtask {position} must be an object", position=position)
    return items


def _ids(items: Sequence[Mapping[str, Any]]) -> list[str]:
    given = {item["id"] for item in items if isinstance(item.get("id"), str)}
    ids: list[str] = []
    for position, item in enumerate(items, start=1):
        if "id" in item:
            ids.append(_given_id(item["id"], position))
            continue
        fresh = f"subtask_{position}"
        while fresh in given:
            fresh += "_"
        given.add(fresh)
        ids.append(fresh)
    return ids


def _given_id(given: Any, position: int) -> str:  # noqa: ANN401
    if not isinstance(given, str):
        raise InvalidPlan(
            "Subtask {position}: id: Input should be a valid string", position=position
        )
    return given


def _subtask(
    item: Mapping[str, Any], subtask_id: str, ids: Sequence[str], position: int
) -> Subtask:
    fields = {**item, "id": subtask_id}
    with defects_of(subtask_id):
        fields["dependencies"] = _dependencies(item.get("dependencies"), ids, position)
        if fields.get("estimated_time") is None:
            fields.pop("estimated_time", None)
        try:
            subtask = Subtask.model_validate(fields)
        except ValidationError as error:
            said = defect_of(error, "subtask")
            raise InvalidPlan("Subtask {position}: {said}", position=position, said=said) from None
        if is_blank(subtask.description):
            raise InvalidPlan(
                "Subtask {position}: description: say what is to be done", position=position
            )
        return subtask


def _dependencies(
    raw: Any,  # noqa: ANN401
    ids: Sequence[str],
    position: int,
) -> tuple[str, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise InvalidPlan("Subtask {position}: dependencies must be a list", position=position)
    items = cast("list[Any]", raw)
    return tuple(dict.fromkeys(_dependency(item, ids, position) for item in items))


def _dependency(item: Any, ids: Sequence[str], position: int) -> str:  # noqa: ANN401
    if isinstance(item, str):
        return item
    if isinstance(item, bool) or not isinstance(item, int):
        raise InvalidPlan(
            "Subtask {position}: a dependency must be an id or an index", position=position
        )
    if not 0 <= item < len(ids):
        raise InvalidPlan(
            "Subtask {position}: there is no subtask with the index {item}; name the dependency "
            "by its id",
            position=position, item=item,
        )  # fmt: skip
    return ids[item]


def _check_kind(subtask: Subtask, position: int, kinds: Mapping[str, KindRule]) -> None:
    kind = kinds.get(subtask.type)
    if kind is None:
        raise InvalidPlan(
            "Subtask {position}: type: there is no type {type!r}; use one of {kinds}",
            position=position, type=subtask.type, kinds=", ".join(sorted(kinds)),
        )  # fmt: skip
    if subtask.agent is not None and subtask.tool is not None:
        raise InvalidPlan(
            "Subtask {subtask_id!r} names both an agent and a tool; keep one of them",
            subtask_id=subtask.id,
        )
    worker = worker_of(subtask)
    is_named = worker is not Worker.NOBODY or "type" in subtask.model_fields_set
    if worker not in kind.workers or not is_named:
        if worker is Worker.NOBODY:
            raise InvalidPlan(
                "Subtask {subtask_id!r}: agent: Field required", subtask_id=subtask.id
            )
        raise InvalidPlan(
            "Subtask {subtask_id!r}: {worker}: not for the type {name!r}; remove it",
            subtask_id=subtask.id, worker=worker, name=kind.name,
        )  # fmt: skip
    try:
        kind.check(subtask)
    except InvalidPlan as problem:
        raise InvalidPlan(
            "Subtask {subtask_id!r}: {problem}", subtask_id=subtask.id, problem=problem
        ) from None


def _check_worker(subtask: Subtask, agents: Collection[str], tools: Collection[str]) -> None:
    if subtask.tool is not None and subtask.tool not in tools:
        raise InvalidPlan(
            "Subtask {subtask_id!r}: there is no tool {tool!r}; name another tool",
            subtask_id=subtask.id, tool=subtask.tool,
        )  # fmt: skip
    if subtask.agent in PLANNERS:
        raise InvalidPlan(
            "Subtask {subtask_id!r}: the agent {agent!r} cannot carry out subtasks; name "
            "another agent",
            subtask_id=subtask.id, agent=subtask.agent,
        )  # fmt: skip
    if subtask.agent is not None and subtask.agent not in agents:
        raise InvalidPlan(
            "Subtask {subtask_id!r}: there is no agent {agent!r}; use one of {agents}",
            subtask_id=subtask.id, agent=subtask.agent, agents=", ".join(sorted(agents)),
        )  # fmt: skip


def _check_done(subtask: Subtask) -> None:
    """Check that who is checked is an agent that acts: there is somebody to send it back to."""
    for path in filter(None, (check.file for check in subtask.done_when or ())):
        if is_secret(path):
            said = because(
                "{path!r} may contain secrets, and checks do not read such files; name another "
                "file",
                path=path,
            )
            raise InvalidPlan(
                "Subtask {subtask_id!r}: done_when: {said}", subtask_id=subtask.id, said=said
            )
    if subtask.type == SubtaskType.ACTION and subtask.agent is not None:
        return
    for name in ("done_when", "must_change"):
        if getattr(subtask, name) is not None:
            raise InvalidPlan(
                "Subtask {subtask_id!r}: {name}: only an action with an agent can have it; add "
                "a validation that depends on this subtask instead",
                subtask_id=subtask.id, name=name,
            )  # fmt: skip


# Who waits for whom, worked out once for a whole graph.


def ancestors(subtasks: Sequence[Subtask]) -> Mapping[str, frozenset[str]]:
    """For each subtask the ids of all that it waits for, directly or not.

    Raises:
        CycleError: a subtask waits for itself.
    """
    order = TopologicalSorter({s.id: s.dependencies for s in subtasks}).static_order()
    place = {key: number for number, key in enumerate(order)}
    direct = {subtask.id: subtask.dependencies for subtask in subtasks}
    above: dict[str, frozenset[str]] = {}
    for key in place:
        found = set[str]()
        # Those that come last first: they have most of the others behind them, which add nothing.
        for other in sorted(direct.get(key, ()), key=place.__getitem__, reverse=True):
            if other not in found:
                found.update(above[other], (other,))
        above[key] = frozenset(found)
    return above
