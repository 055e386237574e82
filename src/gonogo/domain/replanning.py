"""Replanning: when a failure changes the plan, and what the next revision keeps.

Pure rules. What completed stays as it is; only the rest may change, and the same rest again is no
progress.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from gonogo.domain.errors import InvalidPlan
from gonogo.domain.failure import Failure, Severity
from gonogo.domain.network import network_covers
from gonogo.domain.plan import Revision, Scope, Subtask, SubtaskType, check_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRules:
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
        raise InvalidPlan("The new plan has nothing left to do")
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
            "retry_policy",
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
