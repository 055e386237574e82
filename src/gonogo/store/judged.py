"""Tool calls as they were judged: what was asked for, by which verdict, with whose answer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, or_, select

from gonogo.domain.tool_calls import ToolClass
from gonogo.store._schema import approvals, grants, sessions, tool_calls
from gonogo.store.texts import whole_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCall:
    """A tool call, its verdict, and what else had to do with that."""

    id: str
    session_id: str
    agent: str
    tool: str
    tool_class: ToolClass
    arguments: dict[str, Any]
    verdict: dict[str, Any]
    plan_id: str | None
    revision: int | None
    subtask_id: str | None
    created_at: datetime
    answer: str | None
    """What became of the question to a person, if there was one."""
    granted: bool
    """An approved plan's grant was there for its subtask."""
    scope: dict[str, Any] | None


_HELD = and_(
    grants.c.plan_id == tool_calls.c.plan_id,
    grants.c.revision == tool_calls.c.revision,
    grants.c.subtask_id == tool_calls.c.subtask_id,
    grants.c.created_at <= tool_calls.c.created_at,
    or_(grants.c.ended_at.is_(None), grants.c.ended_at > tool_calls.c.created_at),
)
_JUDGED = (
    select(
        *(tool_calls.c[n] for n in JudgedCall.__dataclass_fields__ if n in tool_calls.c),
        approvals.c.status.label("answer"), grants.c.id.label("grant_id"), grants.c.scope,
    )
    .join(sessions, sessions.c.id == tool_calls.c.session_id)
    .outerjoin(approvals, approvals.c.id == tool_calls.c.approval_id)
    .outerjoin(grants, _HELD)
    .where(
        sessions.c.deleted == 0,
        tool_calls.c.tool_class != "control",
        tool_calls.c.status != "proposed",
        tool_calls.c.retry_of.is_(None),
        tool_calls.c.created_at >= bindparam("since"),
    )
    .order_by(tool_calls.c.created_at, tool_calls.c.id)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)  # fmt: skip
_OF_SESSION = _JUDGED.where(tool_calls.c.session_id == bindparam("session_id"))
_OF_PRINCIPAL = _JUDGED.where(sessions.c.principal_id == bindparam("principal_id"))


def judged_calls(
    conn: Connection,
    *,
    session_id: str | None,
    principal_id: str | None,
    since: datetime,
    limit: int,
    offset: int,
) -> list[JudgedCall]:
    """A page of calls, oldest first: of a session, of a principal's sessions, or all."""
    page: dict[str, Any] = {"since": since, "limit": limit, "offset": offset}
    if session_id is not None:
        return _records(conn, _OF_SESSION, {**page, "session_id": session_id})
    if principal_id is not None:
        return _records(conn, _OF_PRINCIPAL, {**page, "principal_id": principal_id})
    return _records(conn, _JUDGED, page)


def _records(conn: Connection, statement: Any, params: dict[str, Any]) -> list[JudgedCall]:  # noqa: ANN401
    found = whole_rows(conn, statement, params)
    return [JudgedCall(granted=fields.pop("grant_id") is not None, **fields) for fields in found]
