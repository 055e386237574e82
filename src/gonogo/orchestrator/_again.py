"""What runs again after a rollback: the next revision of a paused plan."""

from collections.abc import Mapping
from datetime import datetime

from gonogo.domain.errors import Conflict
from gonogo.domain.plan import Revision
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.states import SUBTASK, SubtaskStatus
from gonogo.domain.undo import read_standings
from gonogo.orchestrator._revising import take_up
from gonogo.orchestrator._rollback import BUSY, Undoing
from gonogo.store import Connection
from gonogo.store.plans import current_revision, revision_of, subtask_rows

Rows = Mapping[str, SubtaskRow]


def run_again(conn: Connection, undoing: Undoing, plan: Plan, by: str, now: datetime) -> list[str]:
    """Have what was undone run again when a paused plan goes on.

    Rows never leave a terminal state, so the plan gets a new revision; the person who rolls back is
    the one who approves it. Going back to a checkpoint also takes up again what had been done then.
    Gives the subtasks that will run again, none if the plan stays as it is.
    """
    current = current_revision(conn, plan)
    rows = {row.subtask_id: row for row in subtask_rows(conn, plan.id, plan.revision)}
    if any(row.status in BUSY for row in rows.values()):
        raise Conflict(f"Plan {plan.id} went on meanwhile")
    kept = _kept(conn, undoing, current, rows)
    if {key: row.key for key, row in kept.items()} == {
        key: row.key for key, row in rows.items() if row.status in SUBTASK.terminal
    }:
        return []
    again = [key for key, row in rows.items() if key not in kept and _has_run(row)]
    take_up(conn, plan, kept, by, "rollback", now)
    return again


def _kept(
    conn: Connection, undoing: Undoing, current: Revision, rows: Rows
) -> dict[str, SubtaskRow]:
    target = undoing.back_to
    if target is None:
        left = {key: row for key, row in rows.items() if key not in undoing.named}
        return {key: row for key, row in left.items() if row.status in SUBTASK.terminal}
    then = revision_of(conn, target.plan_id, target.revision)
    assert then is not None  # noqa: S101 - the checkpoint was taken in it
    stood = zip(
        subtask_rows(conn, target.plan_id, target.revision),
        read_standings(target.standings),
        strict=True,
    )
    return {
        row.subtask_id: rows[row.subtask_id] if _same(rows.get(row.subtask_id), row) else row
        for row, status in stood
        if status in SUBTASK.terminal
        and current.by_id.get(row.subtask_id) == then.by_id[row.subtask_id]
    }


def _same(one: SubtaskRow | None, other: SubtaskRow) -> bool:
    """Whether a row is another one that was taken over into a later revision."""
    return one is not None and _end(one) == _end(other)


def _end(row: SubtaskRow) -> tuple[object, ...]:
    return row.status, row.finished_at, row.declined, row.result, row.error


def _has_run(row: SubtaskRow) -> bool:
    return row.attempt > 0 or row.status is not SubtaskStatus.PENDING
