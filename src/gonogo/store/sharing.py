"""What the plans of one workspace share: room for the subtasks that run there."""

from sqlalchemy import Connection, and_, bindparam, exists, func, or_, select

from gonogo.store._rows import among
from gonogo.store._schema import plans, sessions, subtasks

_WORKSPACE = select(sessions.c.workspace).where(sessions.c.id == bindparam("of"))
_BEGUN = ("running", "paused", "replanning")
_LOCK = select(func.pg_advisory_xact_lock(func.hashtextextended(_WORKSPACE.scalar_subquery(), 0)))
_OTHERS = (
    select(plans.c.id)
    .join(sessions, sessions.c.id == plans.c.session_id)
    .where(
        sessions.c.workspace == _WORKSPACE.scalar_subquery(),
        plans.c.id != bindparam("plan_id"),
    )
)
_RUN_ELSEWHERE = (
    select(func.count())
    .select_from(subtasks)
    .where(
        subtasks.c.status == "running",
        subtasks.c.plan_id.in_(_OTHERS.where(among(plans.c.status, _BEGUN))),
    )
)
_HAS_BEGUN = and_(subtasks.c.attempt > 0, subtasks.c.not_before.is_(None))
_WAITERS = _OTHERS.where(
    exists().where(
        subtasks.c.plan_id == plans.c.id,
        subtasks.c.revision == plans.c.revision,
        subtasks.c.status == "pending",
        # Of a plan that is sent back only what has begun may go on.
        or_(plans.c.status == "running", and_(plans.c.status == "replanning", _HAS_BEGUN)),
    ),
).order_by(plans.c.id)


def count_elsewhere(conn: Connection, session_id: str, plan_id: str) -> int:
    """How many subtasks of other plans run in the workspace of a session.

    Until the transaction ends nobody else counts there, so that two plans never take the same room.
    """
    if conn.dialect.name == "postgresql":
        conn.execute(_LOCK, {"of": session_id})
    return conn.execute(_RUN_ELSEWHERE, {"of": session_id, "plan_id": plan_id}).scalar_one()


def plans_that_wait(conn: Connection, session_id: str, plan_id: str) -> list[str]:
    """The other plans of the workspace that have something left to start.

    They come in a circle from the one that asks, so that each has its turn.
    """
    found = conn.execute(_WAITERS, {"of": session_id, "plan_id": plan_id}).scalars().all()
    return [key for key in found if key > plan_id] + [key for key in found if key < plan_id]
