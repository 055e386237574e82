"""What a rollback is about: which changes of which plan, and whether it may be done now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.plan import Revision, dependants
from gonogo.domain.records import Checkpoint, FileChange, Plan, Session
from gonogo.domain.states import ENDED, SUBTASK, PlanStatus, SubtaskStatus
from gonogo.engine import unsettled
from gonogo.store import Connection
from gonogo.store.checkpoints import (
    attempt_checkpoint,
    changes_after,
    checkpoint_of,
    latest_checkpoint,
)
from gonogo.store.jobs import given_up
from gonogo.store.plans import current_revision, plan_of, standings
from gonogo.store.sessions import session_of

BUSY = frozenset({SubtaskStatus.RUNNING, SubtaskStatus.WAITING_APPROVAL})
_QUIET = ENDED | {PlanStatus.PAUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """One rollback that is wanted."""

    session: Session
    plan: Plan
    revision: Revision
    changes: tuple[FileChange, ...]
    """Oldest first."""
    named: frozenset[str]
    """The subtask that was named, and its dependants; all that have begun of a whole plan."""
    subtask_id: str | None = None
    """The subtask that was named."""
    back_to: Checkpoint | None = None
    """The checkpoint that was named, or else the latest."""
    whole: bool = False
    """All that the plan did is undone."""
    attempt: Checkpoint | None = None
    """The checkpoint before the attempt that has failed, if that is what is undone."""

    @property
    def subtasks(self) -> list[str]:
        """The subtasks whose changes are undone, those of the current revision in plan order."""
        found = {change.subtask_id for change in self.changes} | self.named
        return [key for key in self.revision.by_id if key in found]


class Target(NamedTuple):
    """What a rollback was asked to undo: if nothing is named, all since the latest checkpoint."""

    checkpoint_id: str | None = None
    subtask_id: str | None = None
    whole: bool = False

    def __str__(self) -> str:
        """As a refusal names it."""
        if self.whole:
            return "of the whole plan"
        return f"to {self.checkpoint_id}" if self.checkpoint_id else f"of subtask {self.subtask_id}"


def wanted_rollback(
    conn: Connection,
    plan_id: str,
    checkpoint_id: str | None,
    subtask_id: str | None,
    *,
    whole: bool = False,
    looks: bool = False,
) -> Undoing:
    """What undoing all since a checkpoint, a subtask and its dependants, or a whole plan means.

    A rollback that was cut off is to be done again before another one; it need not be named.

    Args:
        looks: Nothing is to be undone now, so the plan may go on meanwhile.

    Raises:
        NotFound: there is no such plan, checkpoint or subtask.
        Conflict: something of the plan runs, or nothing of it was ever kept.
    """
    plan = plan_of(conn, plan_id)
    if plan is None:
        raise NotFound(f"No plan found with id={plan_id}")
    session, revision = _around(conn, plan)
    if not looks:
        check_quiet(conn, plan)
    target = _unfinished(plan, Target(checkpoint_id, subtask_id, whole))
    if target.subtask_id is not None:
        undoing = _of_subtask(conn, session, plan, revision, target.subtask_id)
    elif target.whole:
        undoing = _of_plan(conn, session, plan, revision)
    else:
        checkpoint = _checkpoint(conn, plan, target.checkpoint_id)
        undoing = Undoing(
            session=session, plan=plan, revision=revision, named=frozenset(), back_to=checkpoint,
            changes=tuple(changes_after(conn, plan.id, checkpoint.last_change)),
        )  # fmt: skip
    check_kept(conn, undoing)
    return undoing


def check_kept(conn: Connection, undoing: Undoing) -> None:
    """Refuse what needs contents that were given up.

    Raises:
        Conflict: saying when.
    """
    swept = given_up(conn, undoing.plan.id)
    if swept is None:
        return
    gone = undoing.back_to is not None and undoing.back_to.swept_at is not None
    if gone or any(change.created_at <= swept for change in undoing.changes):
        raise Conflict(
            f"Plan {undoing.plan.id} cannot be rolled back so far: its snapshots until"
            f" {swept:%Y-%m-%d} were given up after GONOGO_KEEP_CHECKPOINTS_DAYS"
        )


def failed_attempt(conn: Connection, plan_id: str, subtask_id: str) -> Undoing | None:
    """What undoing the running attempt of a subtask is about; None where nothing was changed."""
    plan = plan_of(conn, plan_id)
    if plan is None:
        return None
    session, revision = _around(conn, plan)
    before = attempt_checkpoint(conn, plan_id, plan.revision, subtask_id)
    if before is None:
        return None
    changes = _by(changes_after(conn, plan_id, before.last_change), {subtask_id})
    if not changes:
        return None
    return Undoing(
        session=session, plan=plan, revision=revision, changes=changes,
        named=frozenset({subtask_id}), attempt=before,
    )  # fmt: skip


def check_quiet(conn: Connection, plan: Plan) -> None:
    """Refuse while something of a plan runs or is about to.

    Raises:
        Conflict: naming what to do about it.
    """
    if plan.status in {PlanStatus.AWAITING_APPROVAL, PlanStatus.APPROVED}:
        raise Conflict(f"Plan {plan.id} is {plan.status}; decide about it, or cancel it, first")
    if plan.status is PlanStatus.REPLANNING:
        raise Conflict(f"Plan {plan.id} is replanning; wait for its new revision, or cancel it")
    if plan.status not in _QUIET:
        raise Conflict(f"Plan {plan.id} is {plan.status}; pause it first")
    rows = standings(conn, plan.id, plan.revision)
    busy = {key for key, row in rows.items() if row.status in BUSY} | unsettled(conn, plan, rows)
    if plan.status is PlanStatus.PAUSED and busy:
        found = ", ".join(sorted(busy))
        raise Conflict(f"Plan {plan.id} is paused, but {found} is not at rest yet")


def _unfinished(plan: Plan, named: Target) -> Target:
    """What was named, or else what the rollback under way is to undo."""
    if plan.rollback is None:
        return named
    kept = plan.rollback
    first = Target(kept["checkpoint_id"], kept["subtask_id"], kept.get("whole", False))
    if named not in {Target(), first}:
        raise Conflict(f"The rollback {first} is not finished; was it cut off, do it again first")
    return first


def _around(conn: Connection, plan: Plan) -> tuple[Session, Revision]:
    session, revision = session_of(conn, plan.session_id), current_revision(conn, plan)
    assert session is not None  # noqa: S101 - a foreign key away
    if session.tool_host == "client":
        raise Conflict(
            "The client carries out this session's tools: there are no checkpoints and no rollback"
        )
    return session, revision


def _of_subtask(
    conn: Connection, session: Session, plan: Plan, revision: Revision, subtask_id: str
) -> Undoing:
    if subtask_id not in revision.by_id:
        raise NotFound(f"Plan {plan.id} has no subtask {subtask_id}")
    named = dependants(revision.subtasks, subtask_id) | {subtask_id}
    changes = _by(changes_after(conn, plan.id, 0), named)
    return Undoing(
        session=session, plan=plan, revision=revision, changes=changes, named=frozenset(named),
        subtask_id=subtask_id,
    )  # fmt: skip


def _of_plan(conn: Connection, session: Session, plan: Plan, revision: Revision) -> Undoing:
    _checkpoint(conn, plan, None)
    rows = standings(conn, plan.id, plan.revision)
    begun = (key for key, row in rows.items() if row.attempt or row.status in SUBTASK.terminal)
    return Undoing(
        session=session, plan=plan, revision=revision, named=frozenset(begun), whole=True,
        changes=tuple(changes_after(conn, plan.id, 0)),
    )  # fmt: skip


def _checkpoint(conn: Connection, plan: Plan, checkpoint_id: str | None) -> Checkpoint:
    if checkpoint_id is None:
        found = latest_checkpoint(conn, plan.id)
        if found is None:
            raise Conflict(f"Plan {plan.id} has no checkpoint: nothing of it has run")
        return found
    found = checkpoint_of(conn, checkpoint_id)
    if found is None or found.plan_id != plan.id:
        raise NotFound(f"Plan {plan.id} has no checkpoint {checkpoint_id}")
    return found


def _by(
    changes: Sequence[FileChange], subtasks: frozenset[str] | set[str]
) -> tuple[FileChange, ...]:
    return tuple(change for change in changes if change.subtask_id in subtasks)
