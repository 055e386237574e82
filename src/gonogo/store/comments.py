"""Comments on plans, their answers, and which plans their planner is answering."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, func, select, update

from gonogo.domain.records import Comment
from gonogo.store._desk_schema import comments
from gonogo.store._rows import change, columns_of, many, put, row_of
from gonogo.store._schema import plans

_ALL = (
    select(*columns_of(comments, Comment))
    .where(comments.c.plan_id == bindparam("of"))
    .order_by(comments.c.created_at, comments.c.id)
)
_COUNT_OPEN = (
    select(func.count())
    .select_from(comments)
    .where(comments.c.plan_id == bindparam("of"), comments.c.answer.is_(None))
)
_ANSWER = (
    update(comments)
    .where(comments.c.id == bindparam("of"), comments.c.answer.is_(None))
    .values(
        answer=bindparam("said"), answered_revision=bindparam("number"), answered_at=bindparam("at")
    )
)
_REVISED = select(plans.c.id).where(
    plans.c.status == "awaiting_approval", plans.c.revising.is_not(None)
)


def add_comment(conn: Connection, comment: Comment) -> None:
    """Keep a comment."""
    put(conn, comments, row_of(comment))


def comments_of(conn: Connection, plan_id: str) -> list[Comment]:
    """Every comment on a plan, oldest first."""
    return many(conn, _ALL, {"of": plan_id}, Comment)


def count_open_comments(conn: Connection, plan_id: str) -> int:
    """How many comments on a plan have no answer."""
    return conn.execute(_COUNT_OPEN, {"of": plan_id}).scalar_one()


def answer_comment(
    conn: Connection, comment_id: str, answer: str, revision: int, now: datetime
) -> bool:
    """Keep the planner's answer. False when there is one already."""
    params = {"of": comment_id, "said": answer, "number": revision, "at": now}
    return conn.execute(_ANSWER, params).rowcount == 1


def plans_in_revision(conn: Connection) -> list[str]:
    """The ids of the plans that wait for a person while their planner answers comments."""
    return list(conn.execute(_REVISED).scalars())


def end_revising(conn: Connection, plan_id: str) -> None:
    """The planner answers no comments of a plan any more, whatever the plan is by now."""
    change(conn, plans, {"id": plan_id}, {"revising": None})
