"""What of the snapshots is given up, and what somebody may still ask for."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, exists, func, select, update

from gonogo.domain.states import ENDED, CallStatus
from gonogo.store._schema import plans, sessions, tool_calls
from gonogo.store._undo_schema import checkpoints, file_changes

_YOUNG = exists().where(
    checkpoints.c.plan_id == plans.c.id, checkpoints.c.created_at >= bindparam("before")
)
_OLD = select(plans.c.id).where(
    plans.c.status.in_(sorted(ENDED)), plans.c.finished_at < bindparam("before"), ~_YOUNG,
    # One that was cut off is still to be finished.
    plans.c.rollback.is_(None),
)  # fmt: skip
# A rollback that begins just now is waited for, and seen; one that comes later sees our marks.
_HOLD = _OLD.order_by(plans.c.id).with_for_update()
_MARK = (
    update(checkpoints)
    .where(checkpoints.c.plan_id.in_(_OLD), checkpoints.c.swept_at.is_(None))
    .values(swept_at=bindparam("now", type_=checkpoints.c.swept_at.type))
)
_LAST = select(func.max(checkpoints.c.swept_at, type_=checkpoints.c.swept_at.type)).where(
    checkpoints.c.plan_id == bindparam("plan_id")
)
# Nobody asks for what a deleted session had.
_LIVE = select(sessions.c.id).where(sessions.c.deleted == 0)
_TREES = select(checkpoints.c.tree).where(
    checkpoints.c.tree.is_not(None), checkpoints.c.swept_at.is_(None),
    checkpoints.c.session_id.in_(_LIVE),
)  # fmt: skip
_STARTED = select(tool_calls.c.tree).where(
    tool_calls.c.tree.is_not(None), tool_calls.c.status == CallStatus.STARTED,
    tool_calls.c.session_id.in_(_LIVE),
)  # fmt: skip
_GIVEN_UP = exists().where(
    checkpoints.c.plan_id == file_changes.c.plan_id,
    checkpoints.c.swept_at >= file_changes.c.created_at,
)
_CHANGES = select(file_changes.c.before, file_changes.c.after).where(
    ~_GIVEN_UP, file_changes.c.session_id.in_(_LIVE)
)


def give_up_snapshots(conn: Connection, before: datetime, now: datetime) -> int:
    """Mark the checkpoints of plans that ended, and were last rolled back, before a time."""
    conn.execute(_HOLD, {"before": before})
    return conn.execute(_MARK, {"before": before, "now": now}).rowcount


def given_up(conn: Connection, plan_id: str) -> datetime | None:
    """Until when what a plan changed was given up, if anything was."""
    return conn.execute(_LAST, {"plan_id": plan_id}).scalar()


def kept_objects(conn: Connection) -> set[str]:
    """The ids of all snapshots and contents that somebody may still ask for."""
    kept = {*conn.execute(_TREES).scalars(), *conn.execute(_STARTED).scalars()}
    states: Any
    for states in conn.execute(_CHANGES):
        kept.update(state["blob"] for state in states if state and "blob" in state)
    return kept
