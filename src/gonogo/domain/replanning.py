"""Replanning: when a failure changes the plan, and what the next revision keeps.

Pure rules. What completed stays as it is; only the rest may change, and the same rest again is no
progress.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

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


def next_revision(current: Revision, kept: Collection[str], rest: Sequence[Subtask]) -> Revision:
    """The revision after this one: what is kept, unchanged and first, then the rest.

    A subtask of the rest that has the id of one that is kept is left out: it is done.

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
        number=current.number + 1,
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
        earlier: The revisions so far, the current one last.
        failed: The subtasks of the current revision that failed.
    """
    rest = _rest(revision, kept)
    before = _rest(earlier[-1], kept)
    repeats = all(before.get(key) == subtask for key, subtask in rest.items())
    if repeats and not rest.keys().isdisjoint(failed):
        return False
    return all(rest != _rest(each, kept) for each in earlier)


_BOUND = ("agent", "tool", "type", "condition", "after_skipped", "on_reject")
_CHECKED = ("description", "inputs")
"""What a check or a decision is made by: another question would let through something else."""


def _rest(revision: Revision, kept: Collection[str]) -> dict[str, Subtask]:
    return {s.id: s for s in revision.subtasks if s.id not in kept}


def stays_within(current: Revision, kept: Collection[str], revision: Revision) -> bool:
    """Whether a new revision needs nothing that was not approved with the current one.

    Each of its subtasks must be one of those that were approved, done by the same agent or tool,
    with a scope that names nothing new. What an action is told to do may change; what is checked or
    decided may not.
    """
    known = current.by_id
    return all(
        subtask.id in known and _is_within(known[subtask.id], subtask, kept)
        for subtask in revision.subtasks
        if subtask.id not in kept
    )


def _is_within(approved: Subtask, wanted: Subtask, kept: Collection[str]) -> bool:
    same = all(getattr(approved, name) == getattr(wanted, name) for name in _BOUND)
    # What was to come before it, such as a check, and has not come, still has to.
    guarded = set(approved.dependencies) - set(kept) <= set(wanted.dependencies)
    same = same and guarded
    if approved.type != SubtaskType.ACTION:
        same = same and all(getattr(approved, name) == getattr(wanted, name) for name in _CHECKED)
    asks = wanted.approval_required or not approved.approval_required
    return same and asks and _scope_within(approved, wanted)


def _scope_within(approved: Subtask, wanted: Subtask) -> bool:
    # What an agent is given it reads; anything else does just what its inputs say.
    if wanted.agent is None and wanted.inputs != approved.inputs:
        return False
    if approved.scope == wanted.scope:
        return True
    if approved.scope is None or wanted.scope is None:
        return False
    return _names_nothing_new(approved.scope, wanted.scope)


def _names_nothing_new(old: Scope, new: Scope) -> bool:
    return (
        _is_part(new.tools, old.tools)
        and _is_part(new.paths, old.paths)
        and set(new.commands) <= set(old.commands)
        and network_covers(old.network, new.network)
    )


def _is_part(new: Sequence[str], old: Sequence[str]) -> bool:
    # No paths named means all of them, and no tools those that write files, but none besides.
    return bool(new) == bool(old) and set(new) <= set(old)
