"""The list of sessions: its pages, and how each session in it stands."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    BindParameter,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
)

from gonogo.domain.records import Session, SessionPlace
from gonogo.domain.states import SessionState, SubtaskStatus
from gonogo.store.rows import among, columns_of, many, rows
from gonogo.store.schema import approvals, model_requests, plans, sessions, subtasks, turns
from gonogo.store.transaction import Tx

_S = sessions.c
_OPEN_QUESTION = and_(approvals.c.session_id == _S.id, among(approvals.c.status, ("pending",)))
_AT_WORK = or_(
    exists().where(turns.c.session_id == _S.id, among(turns.c.status, ("queued", "running"))),
    exists().where(plans.c.session_id == _S.id, among(plans.c.status, ("running", "replanning"))),
)
_HELD = exists().where(plans.c.session_id == _S.id, among(plans.c.status, ("approved", "paused")))
_TURN = select(turns).where(turns.c.session_id == _S.id).order_by(turns.c.position.desc()).limit(1)
_PLAN = (
    select(plans)
    .where(plans.c.session_id == _S.id)
    .order_by(plans.c.created_at.desc(), plans.c.id.desc())
    .limit(1)
)
_TURN_STATUS = _TURN.with_only_columns(turns.c.status).scalar_subquery()
_TURN_BEGAN = _TURN.with_only_columns(turns.c.created_at).scalar_subquery()
_PLAN_STATUS = _PLAN.with_only_columns(plans.c.status).scalar_subquery()
_PLAN_BEGAN = _PLAN.with_only_columns(plans.c.created_at).scalar_subquery()
_FAILED = or_(
    _TURN_STATUS == "failed",
    # A plan that failed is history once something else was said.
    and_(
        or_(_PLAN_STATUS == "failed", _PLAN_STATUS == "partial"),
        func.coalesce(_TURN_BEGAN, _PLAN_BEGAN) <= _PLAN_BEGAN,
    ),
)
_STATE = case(
    (exists().where(_OPEN_QUESTION), literal(SessionState.WAITING.value)),
    (_AT_WORK, literal(SessionState.RUNNING.value)),
    (_HELD, literal(SessionState.PAUSED.value)),
    (_FAILED, literal(SessionState.FAILED.value)),
    (func.coalesce(_TURN_BEGAN, _PLAN_BEGAN).is_not(None), literal(SessionState.DONE.value)),
    else_=literal(SessionState.NEW.value),
)
_IDS: BindParameter[Any] = bindparam("of", expanding=True)
_STATES = select(_S.id, _STATE.label("state")).where(_S.id.in_(_IDS))
_QUESTIONS = (
    select(approvals.c.session_id, func.count().label("number"))
    .where(approvals.c.session_id.in_(_IDS), among(approvals.c.status, ("pending",)))
    .group_by(approvals.c.session_id)
)
_PLANS = (
    select(plans.c.session_id, plans.c.id, plans.c.revision)
    .where(plans.c.session_id.in_(_IDS))
    .order_by(plans.c.created_at, plans.c.id)
)
_STEPS = (
    select(subtasks.c.plan_id, subtasks.c.revision, subtasks.c.status, func.count().label("number"))
    .where(subtasks.c.plan_id.in_(_IDS))
    .group_by(subtasks.c.plan_id, subtasks.c.revision, subtasks.c.status)
)
_COSTS = (
    select(model_requests.c.session_id, func.sum(model_requests.c.cost_micros).label("cost"))
    .where(model_requests.c.session_id.in_(_IDS))
    .group_by(model_requests.c.session_id)
)


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Which sessions are wanted."""

    owner: str | None = None
    """Whose; None: everybody's."""
    text: str | None = None
    """What is in their title, folder or id. Upper and lower case are one, in every alphabet: the
    databases know that of few."""
    state: SessionState | None = None
    after: SessionPlace | None = None
    """Only what follows this place."""


class SessionStanding(Struct, frozen=True, kw_only=True):
    """How a session stands: its open questions, the subtasks of its latest plan, its cost."""

    state: SessionState
    waiting: int
    done: int
    total: int
    cost_micros: int


def list_sessions(
    tx: Tx, wanted: SessionFilter, limit: int, offset: int = 0
) -> tuple[list[Session], int]:
    """A page of sessions, newest first, and how many there are whatever the page's place."""
    params: dict[str, Any] = {}
    if wanted.owner is not None:
        params["owner"] = wanted.owner
    if wanted.state is not None:
        params["state"] = wanted.state.value
    if wanted.text:
        return _with_text(tx, wanted, params, limit, offset)
    count = _chosen("owner" in params, "state" in params, paged=False).with_only_columns(
        func.count(), maintain_column_froms=True
    )
    total = tx.execute(count.order_by(None), params).scalar_one()
    statement = _chosen("owner" in params, "state" in params, paged=wanted.after is not None)
    if wanted.after is not None:
        params |= {"at": wanted.after.created_at, "place": wanted.after.id}
    page = statement.limit(bindparam("limit")).offset(bindparam("offset"))
    return many(tx, page, {**params, "limit": limit, "offset": offset}, Session), total


def _with_text(
    tx: Tx, wanted: SessionFilter, params: dict[str, Any], limit: int, offset: int
) -> tuple[list[Session], int]:
    statement = _chosen("owner" in params, "state" in params, paged=False)
    text = (wanted.text or "").casefold()
    found = [
        each for each in many(tx, statement, params, Session)
        if any(text in (word or "").casefold() for word in (each.id, each.title, each.workspace))
    ]  # fmt: skip
    place = wanted.after
    rest = found if place is None else [each for each in found if _follows(each, place)]
    return rest[offset : offset + limit], len(found)


def _follows(session: Session, place: SessionPlace) -> bool:
    if session.created_at == place.created_at:
        return session.id > place.id
    return session.created_at < place.created_at


@cache
def _chosen(has_owner: bool, has_state: bool, *, paged: bool) -> Select[Any]:
    statement = select(*columns_of(sessions, Session)).where(_S.deleted == 0)
    if has_owner:
        statement = statement.where(_S.principal_id == bindparam("owner"))
    if has_state:
        statement = statement.where(bindparam("state") == _STATE)
    if paged:
        at = bindparam("at", type_=_S.created_at.type)
        same = and_(_S.created_at == at, _S.id > bindparam("place"))
        statement = statement.where(or_(_S.created_at < at, same))
    return statement.order_by(_S.created_at.desc(), _S.id)


def standings(tx: Tx, session_ids: Sequence[str]) -> dict[str, SessionStanding]:
    """How some sessions stand, in a few statements for all of them."""
    if not session_ids:
        return {}
    of = {"of": list(session_ids)}
    waiting = {row.session_id: row.number for row in rows(tx, _QUESTIONS, of)}
    costs = {row.session_id: int(row.cost) for row in rows(tx, _COSTS, of)}
    steps = _steps(tx, of)
    return {
        row.id: SessionStanding(
            state=SessionState(row.state),
            waiting=waiting.get(row.id, 0),
            done=steps[row.id][SubtaskStatus.COMPLETED] if row.id in steps else 0,
            total=steps[row.id].total() if row.id in steps else 0,
            cost_micros=costs.get(row.id, 0),
        )
        for row in rows(tx, _STATES, of)
    }


def _steps(tx: Tx, of: dict[str, list[str]]) -> dict[str, Counter[str]]:
    """By session, how many subtasks of its latest plan stand where."""
    latest = {row.session_id: (row.id, row.revision) for row in rows(tx, _PLANS, of)}
    counts = {place: Counter[str]() for place in latest.values()}
    if counts:
        for row in rows(tx, _STEPS, {"of": [plan_id for plan_id, _ in counts]}):
            if (place := (row.plan_id, row.revision)) in counts:
                counts[place][row.status] += row.number
    return {session_id: counts[place] for session_id, place in latest.items()}
