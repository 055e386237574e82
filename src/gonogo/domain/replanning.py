"""Replanning: when a failure changes the plan, and what the next revision keeps.

Pure rules. What completed stays as it is; only the rest may change, and the same rest again is no
progress.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gonogo.domain.base import canonical_json
from gonogo.domain.errors import InternalFailure, InvalidPlan
from gonogo.domain.failures import Failure, Severity
from gonogo.domain.network import network_covers
from gonogo.domain.plan import Revision, Scope, Subtask, SubtaskType, check_graph
from gonogo.domain.tool_calls import Message, Reply, ToolAnswer, UserText


class ReplanRules(Struct, frozen=True, kw_only=True):
    """What an operator lets failures do to plans."""

    severities: frozenset[Severity] = frozenset({Severity.CRITICAL, Severity.HIGH})
    """Failures that change the plan; none of them when replanning is off."""
    max_attempts: int = 3
    """Replans of one plan."""
    human_after: int = 2
    """Replans after which a person is asked before the next."""
    min_interval: timedelta = timedelta()
    """A failure that comes sooner after the last replan does not change the plan."""


class ReplanVerdict(StrEnum):
    """What a failure does to its plan."""

    GO = "go"
    ASK = "ask"
    """A person has to agree first."""
    NO = "no"


def replan_verdict(
    rules: ReplanRules, failure: Failure, replans: int, last: datetime | None, now: datetime
) -> ReplanVerdict:
    """Whether a subtask's failure changes its plan.

    Args:
        replans: How often the plan was sent back so far.
        last: When that was the last time.
    """
    too_soon = last is not None and now - last < rules.min_interval
    if failure.severity not in rules.severities or replans >= rules.max_attempts or too_soon:
        return ReplanVerdict.NO
    return ReplanVerdict.ASK if replans >= rules.human_after else ReplanVerdict.GO


def next_revision(
    current: Revision, kept: Collection[str], rest: Sequence[Subtask], number: int | None = None
) -> Revision:
    """The revision after this one: what is kept, unchanged and first, then the rest.

    A subtask of the rest that has the id of one that is kept is left out: it is done.

    Args:
        number: Its own; without it the next, which fits where none was proposed since.

    Raises:
        InvalidPlan: nothing is left to do, or the whole is no graph.
    """
    done = [subtask for subtask in current.subtasks if subtask.id in kept]
    fresh = [subtask for subtask in rest if subtask.id not in kept]
    if not fresh:
        raise InvalidPlan("The new plan has no work left; add a subtask that is still to be done")
    check_graph([*done, *fresh])
    return Revision(
        plan_id=current.plan_id,
        number=number or current.number + 1,
        goal=current.goal,
        subtasks=(*done, *fresh),
    )


def is_progress(
    earlier: Sequence[Revision], kept: Collection[str], failed: Collection[str], revision: Revision
) -> bool:
    """Whether a new revision tries something else than what has been tried.

    It does not when what is left to do is what was left in an earlier revision, or when it only
    leaves out some of the current one and has a subtask that failed done again as it was.

    Args:
        earlier: The revisions so far, also those that were rejected; the current one last.
        failed: The subtasks of the current revision that failed.
    """
    rest = _rest(revision, kept)
    before = _rest(earlier[-1], kept)
    repeats = all(before.get(key) == subtask for key, subtask in rest.items())
    if repeats and not rest.keys().isdisjoint(failed):
        return False
    return all(rest != _rest(each, kept) for each in earlier)


def _rest(revision: Revision, kept: Collection[str]) -> dict[str, Subtask]:
    return {s.id: s for s in revision.subtasks if s.id not in kept}


def stays_within(current: Revision, kept: Collection[str], revision: Revision) -> bool:
    """Whether a new revision needs nothing that was not approved with the current one.

    All that was approved and is not done has to be in it, and nothing else, done by the same agents
    and tools in the same way, with scopes that name nothing new. What an action is told to do may
    change; what is checked or decided may not.
    """
    approved, wanted = _rest(current, kept), _rest(revision, kept)
    return approved.keys() == wanted.keys() and all(
        _is_within(approved[key], wanted[key], kept) for key in approved
    )


Rule = Callable[[Subtask, Subtask, Collection[str]], bool]


def _is_within(approved: Subtask, wanted: Subtask, kept: Collection[str]) -> bool:
    names = type(approved).model_fields.keys() | type(wanted).model_fields.keys()
    return all(WITHIN.get(name, _same(name))(approved, wanted, kept) for name in names)


def _same(name: str) -> Rule:
    return lambda old, new, kept: getattr(old, name, None) == getattr(new, name, None)


def _guards_stay(old: Subtask, new: Subtask, kept: Collection[str]) -> bool:
    # What was to come before it, such as a check, and has not come, still has to.
    return set(old.dependencies) - set(kept) <= set(new.dependencies)


def _says_the_same(old: Subtask, new: Subtask, kept: Collection[str]) -> bool:
    # A check or a decision that asks something else would let through something else.
    return old.type == SubtaskType.ACTION or old.description == new.description


def _is_given_the_same(old: Subtask, new: Subtask, kept: Collection[str]) -> bool:
    # What an agent is given it reads; anything else does just what its inputs say.
    read = old.type == SubtaskType.ACTION and old.agent is not None
    return read or old.inputs == new.inputs


def _still_asks(old: Subtask, new: Subtask, kept: Collection[str]) -> bool:
    return new.approval_required or not old.approval_required


def _scope_stays(old: Subtask, new: Subtask, kept: Collection[str]) -> bool:
    return _names_nothing_new(old.scope or Scope(), new.scope or Scope())


WITHIN: Mapping[str, Rule] = {
    "description": _says_the_same,
    "inputs": _is_given_the_same,
    "dependencies": _guards_stay,
    "approval_required": _still_asks,
    "scope": _scope_stays,
    "estimated_time": lambda old, new, kept: True,
    **{
        name: _same(name)
        for name in (
            "id", "agent", "tool", "type", "condition", "after_skipped", "on_reject", "timeout",
            "retry_policy", "done_when", "must_change",
        )
    },
}  # fmt: skip
"""Of each field of a subtask, whether it is still what was approved; a field that is missing here
must be as it was."""


def _names_nothing_new(old: Scope, new: Scope) -> bool:
    names = type(old).model_fields.keys() | type(new).model_fields.keys()
    pairs = ((name, getattr(old, name, None), getattr(new, name, None)) for name in names)
    return all(
        before == now or COVERS.get(name, _never)(before, now) for name, before, now in pairs
    )


def _never(old: object, new: object) -> bool:
    return False


def _is_part(old: Sequence[str] | None, new: Sequence[str] | None) -> bool:
    # All tools of an agent are not all that can be named: a foreign one is not among them.
    return old is not None and new is not None and set(new) <= set(old)


COVERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "tools": _is_part,
    "paths": lambda old, new: old is None or _is_part(old, new),
    "commands": _is_part,
    "network": network_covers,
}
"""Of each field of a scope that is another one, whether the old one covers the new one."""


# Stuck loops: a conversation that goes on and gets nowhere.
#
# What counts is what came back: a call whose result differs from the last time is progress, however
# often it is made; the same call with the same result, over and over, is not. Looks only at what
# happened since the model was last told something, and only at the end of it, so asking after every
# step costs the same however long the conversation is.


class LoopKind(StrEnum):
    """How a conversation is stuck."""

    REPEATED = "repeated"
    """The same calls, with the same results, again and again."""
    PING_PONG = "ping_pong"
    """Two or three replies in turn, each with the same calls and the same results."""
    SAME_ERROR = "same_error"
    """One tool, called in different ways, fails with the same words."""
    MONOLOGUE = "monologue"
    """Replies that only talk, with nobody answering."""


class LoopLimits(Struct, frozen=True, kw_only=True):
    """How often is too often. Each is the number that is stopped, not the last one allowed."""

    repeated: int = 4
    rounds: int = 3
    """Of a ping-pong: times that the replies come in the same turn."""
    same_error: int = 5
    monologue: int = 3


class Stuck(Struct, frozen=True, kw_only=True):
    """A loop that was found."""

    kind: LoopKind
    count: int
    """How often it went round, as far as one looks."""
    tools: tuple[str, ...] = ()
    detail: str = ""
    """The error, when it is one."""

    @property
    def key(self) -> str:
        """The key of the text that says it."""
        return f"stuck_{self.kind}"


class _Step(Struct, frozen=True):
    """What one reply had done: all its calls that have their results."""

    calls: tuple[tuple[str, str, str], ...]
    """Tool, arguments and result of each."""
    error: tuple[str, str] | None
    """Tool and words, when all of them failed alike."""

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tool for tool, _, _ in self.calls))


_MAX_PERIOD = 3
_MAX_DETAIL = 300
_TOOK = re.compile(r'"duration_ms": ?[0-9.]+|\b\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds?)\b')


def stuck(messages: Sequence[Message], limits: LoopLimits | None = None) -> Stuck | None:
    """Whether the end of a conversation is a loop.

    How long something took does not make a result another one.

    Args:
        messages: One conversation, in order; a call without a result is not looked at.
    """
    limits = limits or LoopLimits()
    recent = _since_told(messages, _window(limits))
    steps = _steps(recent)
    return (
        _monologue(recent, limits.monologue)
        or _repeated(steps, limits)
        or _same_error(steps, limits.same_error)
    )


def _window(limits: LoopLimits) -> int:
    """The number of replies that are looked at."""
    return max(limits.repeated, limits.rounds * _MAX_PERIOD, limits.same_error, limits.monologue)


def _since_told(messages: Sequence[Message], window: int) -> list[Message]:
    """The end of a conversation: what was said since the user spoke, and no more than needed."""
    recent: list[Message] = []
    replies = 0
    for message in reversed(messages):
        if isinstance(message, UserText) or replies == window:
            break
        recent.append(message)
        replies += isinstance(message, Reply)
    return recent[::-1]


def _monologue(recent: Sequence[Message], limit: int) -> Stuck | None:
    count = 0
    for message in reversed(recent):
        if not isinstance(message, Reply) or message.calls:
            break
        # What is no answer yet has a bound of its own.
        count += not message.is_unfinished
    return Stuck(kind=LoopKind.MONOLOGUE, count=count) if count >= limit else None


def _repeated(steps: Sequence[_Step], limits: LoopLimits) -> Stuck | None:
    for period in range(1, _MAX_PERIOD + 1):
        count = _rounds(steps, period)
        last = steps[-period:]
        tools = tuple(dict.fromkeys(tool for step in last for tool in step.tools))
        if period == 1 and count >= limits.repeated:
            return Stuck(kind=LoopKind.REPEATED, count=count, tools=tools)
        if len(set(last)) > 1 and count >= limits.rounds:
            return Stuck(kind=LoopKind.PING_PONG, count=count, tools=tools)
    return None


def _rounds(steps: Sequence[_Step], period: int) -> int:
    """How often the last `period` steps come one after the other at the end."""
    last = steps[-period:]
    count, end = 0, len(steps)
    while end >= period and steps[end - period : end] == last:
        count += 1
        end -= period
    return count


def _same_error(steps: Sequence[_Step], limit: int) -> Stuck | None:
    error = steps[-1].error if steps else None
    if error is None:
        return None
    count = next((n for n, step in enumerate(reversed(steps)) if step.error != error), len(steps))
    if count < limit:
        return None
    tool, words = error
    return Stuck(kind=LoopKind.SAME_ERROR, count=count, tools=(tool,), detail=words[:_MAX_DETAIL])


def _steps(recent: Sequence[Message]) -> list[_Step]:
    answers = {m.call_id: m for m in recent if isinstance(m, ToolAnswer)}
    found = (_step(reply, answers) for reply in recent if isinstance(reply, Reply))
    return [step for step in found if step.calls]


def _step(reply: Reply, answers: Mapping[str, ToolAnswer]) -> _Step:
    calls: list[tuple[str, str, str]] = []
    errors: set[tuple[str, str] | None] = set()
    for call in reply.calls:
        answer = answers.get(call.id)
        if answer is None:
            continue
        result = _TOOK.sub("#", answer.content)
        calls.append((call.name, call.problem or canonical_json(call.arguments), result))
        errors.add((call.name, result) if answer.is_error else None)
    return _Step(tuple(calls), errors.pop() if len(errors) == 1 else None)


# Budgets: what a plan, or a session, may take in all.
#
# A limit is a number under a word: `tokens`, `cost` (US dollars), `seconds` (wall time since the
# plan's start), `requests` (to models) and `subtasks` (runs begun) of one plan, and with `session_`
# before it what all model requests of the session may take.

Limits = Mapping[str, float]
OF_REQUESTS = frozenset({"tokens", "cost", "requests"})
OF_SESSIONS = frozenset(f"session_{word}" for word in OF_REQUESTS)
OF_STARTS = frozenset({"seconds", "subtasks"})
WORDS = OF_REQUESTS | OF_SESSIONS | OF_STARTS
DEFAULT_OUTPUT = 1_000
"""Tokens that a reply is taken to have before there was any."""
_BYTES_PER_TOKEN = 4


class Used(Struct, frozen=True, kw_only=True):
    """What model requests took so far; one under way counts as what it was estimated to take."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_micros: int = 0
    unpriced: int = 0
    """Replies whose price is not known; they count as nothing."""
    largest_output: int = 0
    largest_cost: int = 0

    @classmethod
    def total(cls, parts: Iterable["Used"]) -> "Used":
        """What several took together; of the largest the largest."""
        each = [*parts, cls()]
        values = {name: [getattr(used, name) for used in each] for name in cls.__struct_fields__}
        largest = {"largest_output", "largest_cost"}
        return cls(**{name: (max if name in largest else sum)(v) for name, v in values.items()})

    def by_word(self, prefix: str = "") -> dict[str, float]:
        """As numbers under the words of limits."""
        return {
            f"{prefix}tokens": self.input_tokens + self.output_tokens,
            f"{prefix}cost": self.cost_micros / 1_000_000,
            f"{prefix}requests": self.requests,
        }


class Excess(Struct, frozen=True, kw_only=True):
    """A limit that one more step would pass."""

    what: str
    used: float
    limit: float
    is_own: bool = False
    """The session was opened with it; no setting says it."""

    @property
    def setting(self) -> str:
        """The setting that says the limit."""
        of = "" if self.what in OF_SESSIONS else "PLAN_"
        return f"GONOGO_BUDGET_{of}{self.what.upper()}"


class BudgetSpent(InternalFailure):
    """One more request to a model would pass a limit; it was not sent."""

    code = "rate_limited"
    status = 429

    def __init__(self, message: str, excess: Excess) -> None:
        super().__init__(message)
        self.excess = excess


def in_force(
    settings: Limits, own: Mapping[str, Any] | None, session: Limits | None = None
) -> Limits:
    """The limits of a plan: those of the settings, with those that people set in their place.

    Args:
        own: What people set, under `limits`.
        session: What the session was opened with: it only ever makes a limit lower.
    """
    limits = with_session(settings, session)
    return {**limits, **own.get("limits", {})} if limits and own else limits


def with_session(settings: Limits, session: Limits | None) -> Limits:
    """The limits of the settings, and those that a session was opened with."""
    if not session:
        return settings
    named = {f"session_{word}": limit for word, limit in session.items()}
    low = {w: min(v, settings.get(w, v)) for w, v in named.items() if w in OF_SESSIONS}
    return {**settings, **low}


def limits_of_session(
    settings: Limits, session: Limits | None, own: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """What a session may take in all: by the settings, and by what it was opened with.

    Args:
        own: The budget of its plan under way, for which people may have raised that.
    """
    found = in_force(settings, own, session)
    named = {word: word.removeprefix("session_") for word in found if word in OF_SESSIONS}
    return {name: found[word] for word, name in named.items()}


def excess(limits: Limits, used: Mapping[str, float], more: Mapping[str, float]) -> Excess | None:
    """The first limit that `more` would pass, if there is one."""
    for what, limit in limits.items():
        if what in more and used.get(what, 0) + more[what] > limit:
            return Excess(what=what, used=used.get(what, 0), limit=limit)
    return None


def tokens_of(text_bytes: int) -> int:
    """An estimate of what a text of so many bytes takes: a quarter, rounded up."""
    return -(-text_bytes // _BYTES_PER_TOKEN)
