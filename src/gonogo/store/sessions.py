"""Sessions, and the rules that hold in one of them alone."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
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
    update,
)

from gonogo.domain.errors import Conflict
from gonogo.domain.records import ModelRequestRow, Session, SessionPlace, SessionRule, Turn
from gonogo.domain.states import TURN, SessionState, SubtaskStatus, TurnStatus
from gonogo.domain.tool_calls import MESSAGE, TOKENS, Message, Steering
from gonogo.store.events import GENESIS
from gonogo.store.rows import (
    among,
    by,
    change,
    columns_of,
    count_of,
    found_in,
    many,
    one,
    put,
    row_of,
    rows,
    same,
    whole_rows,
)
from gonogo.store.schema import (
    approvals,
    messages,
    model_requests,
    plans,
    session_rules,
    sessions,
    subtasks,
    turns,
)
from gonogo.store.transaction import Tx

_WORKSPACES = select(sessions.c.workspace).where(sessions.c.deleted == 0).distinct()
_RECENT = (
    select(sessions.c.workspace)
    .where(sessions.c.deleted == 0)
    .group_by(sessions.c.workspace)
    .order_by(func.max(sessions.c.created_at).desc(), sessions.c.workspace)
    .limit(bindparam("limit"))
)
_RECENT_OF = _RECENT.where(sessions.c.principal_id == bindparam("of"))
_NEXT_POSITION = select(func.coalesce(func.max(turns.c.position), 0) + 1).where(
    turns.c.session_id == bindparam("of")
)
_END_BEFORE = select(func.max(turns.c.finished_at)).where(
    turns.c.session_id == bindparam("of"), turns.c.position < bindparam("before")
)
_LOCK_TURN = by(turns, Turn, "id").with_for_update()
_OPEN_TURNS = (
    by(turns, Turn, "session_id")
    .where(among(turns.c.status, ("queued", "running", "parked")))
    .order_by(turns.c.position)
)
_UNFINISHED = (
    select(turns.c.id)
    .where(among(turns.c.status, ("queued", "running")))
    .order_by(turns.c.session_id, turns.c.position)
)
_WORKING = select(sessions.c.id, sessions.c.spoken).where(
    sessions.c.place_id == bindparam("place"),
    sessions.c.deleted == 0,
    or_(
        exists().where(
            turns.c.session_id == sessions.c.id, among(turns.c.status, ("queued", "running"))
        ),
        exists().where(
            plans.c.id == sessions.c.active_plan_id,
            among(plans.c.status, ("running", "replanning")),
        ),
    ),
)
_BEGIN_PLAN = (
    update(sessions)
    .where(sessions.c.id == bindparam("of"), sessions.c.active_plan_id.is_(None))
    .values(active_plan_id=bindparam("to_plan"), agent=bindparam("to_agent"))
)
_HISTORY = (
    select(messages.c.thread, messages.c.agent, messages.c.body, messages.c.created_at)
    .where(*same(messages, "session_id"))
    .order_by(messages.c.id)
)
_HISTORY_IN = _HISTORY.where(*same(messages, "thread"))
_THREAD = _HISTORY_IN.with_only_columns(messages.c.body)
_SINCE = _HISTORY_IN.with_only_columns(
    messages.c.id, messages.c.body, count_of(messages, "session_id", "thread")
).where(messages.c.id >= bindparam("since"))
_SEVERAL = _HISTORY.with_only_columns(messages.c.body).where(
    messages.c.thread.in_(bindparam("threads", expanding=True))
)


def add_session(tx: Tx, session: Session) -> None:
    """Insert a session. The caller has checked that the id is free, in this transaction."""
    fields = row_of(session)
    put(tx, sessions, {**fields, "audit_seq": 0, "audit_hash": GENESIS})


def session_of(tx: Tx, session_id: str) -> Session | None:
    """The session of that id, deleted ones included."""
    return one(tx, by(sessions, Session, "id"), {"id": session_id}, Session)


def spoken_in(tx: Tx, session_id: str) -> str | None:
    """The language of texts for people in a session; None where there is no such session."""
    session = session_of(tx, session_id)
    return session.spoken if session else None


def workspaces(tx: Tx) -> list[Path]:
    """The folders of all sessions that are not deleted, each once."""
    return [Path(row.workspace) for row in rows(tx, _WORKSPACES, {})]


def recent_workspaces(tx: Tx, principal_id: str | None, limit: int) -> list[str]:
    """The folders of a principal's sessions (None: of all sessions), the latest used first."""
    of = {} if principal_id is None else {"of": principal_id}
    found = rows(tx, _RECENT if principal_id is None else _RECENT_OF, {**of, "limit": limit})
    return [row.workspace for row in found]


def set_session(tx: Tx, session_id: str, **to: Any) -> None:  # noqa: ANN401
    """Set columns of a session's row, and tell those who watch the session."""
    tx.outbox.touched.append(session_id)
    change(tx, sessions, {"id": session_id}, to)


def begin_plan(tx: Tx, session_id: str, plan_id: str, agent: str) -> bool:
    """Make a plan the session's active one, and set its agent. False: it already has a plan."""
    params = {"of": session_id, "to_plan": plan_id, "to_agent": agent}
    return tx.execute(_BEGIN_PLAN, params).rowcount == 1


def add_turn(
    tx: Tx, turn_id: str, session_id: str, content: str, agent: str, by: str | None = None
) -> Turn:
    """Queue a turn behind the session's others.

    Args:
        by: The principal whose message it is.
    """
    position = tx.execute(_NEXT_POSITION, {"of": session_id}).scalar_one()
    turn = Turn(
        id=turn_id, session_id=session_id, position=position, content=content, agent=agent,
        status=TurnStatus.QUEUED, epoch=0, created_at=tx.now, finished_at=None,
        principal_id=by,
    )  # fmt: skip
    put(tx, turns, row_of(turn))
    tx.outbox.touched.append(session_id)
    return turn


def turn_of(tx: Tx, turn_id: str) -> Turn | None:
    """The turn of that id."""
    return one(tx, by(turns, Turn, "id"), {"id": turn_id}, Turn)


def end_of_turn_before(tx: Tx, turn: Turn) -> datetime | None:
    """When the last of the session's earlier turns ended; None if no earlier turn has ended."""
    return tx.execute(_END_BEFORE, {"of": turn.session_id, "before": turn.position}).scalar()


def lock_turn(tx: Tx, turn_id: str) -> Turn | None:
    """The turn of that id, held until the transaction ends."""
    return one(tx, _LOCK_TURN, {"id": turn_id}, Turn)


def open_turns(tx: Tx, session_id: str) -> list[Turn]:
    """A session's turns that are not over, oldest first."""
    return many(tx, _OPEN_TURNS, {"session_id": session_id}, Turn)


def unfinished_turns(tx: Tx, place: str | None = None) -> list[str]:
    """The ids of all queued and running turns, or of those in one place, oldest first."""
    return list(found_in(tx, place, _UNFINISHED, turns.c.session_id).scalars())


def working_in(tx: Tx, place: str) -> list[tuple[str, str]]:
    """The sessions of a place in which a turn or a plan runs, each with its language."""
    return [(row.id, row.spoken) for row in rows(tx, _WORKING, {"place": place})]


def move_turn(tx: Tx, turn: Turn, status: TurnStatus, **to: Any) -> bool:  # noqa: ANN401
    """Compare-and-set a turn's status on the status and epoch that the caller saw.

    Raises:
        IllegalTransition: a turn cannot move from its status to the new one.
    """
    TURN.check(turn.status, status, turn.id)
    where = {"id": turn.id, "status": turn.status, "epoch": turn.epoch}
    return change(tx, turns, where, {"status": status, **to})


def take_turn(tx: Tx, turn: Turn, status: TurnStatus, agent: str | None = None) -> Turn:
    """Take a turn under the next epoch, so that writes of its earlier holder are refused.

    Args:
        agent: The agent that continues the turn; by default the one that had it.

    Raises:
        Conflict: another worker took it at this moment.
    """
    where = {"id": turn.id, "status": turn.status, "epoch": turn.epoch}
    taken = replace(turn, status=status, epoch=turn.epoch + 1, agent=agent or turn.agent)
    to = {"status": status, "epoch": taken.epoch, "agent": taken.agent}
    if not change(tx, turns, where, to):
        raise Conflict(
            "Another worker has taken turn {turn_id}; it continues there", turn_id=turn.id
        )
    return taken


def set_turn_agent(tx: Tx, turn: Turn, agent: str) -> bool:
    """Let another agent continue the turn. False: the turn has changed meanwhile."""
    where = {"id": turn.id, "status": turn.status, "epoch": turn.epoch}
    return change(tx, turns, where, {"agent": agent})


def set_turn_away(tx: Tx, turn: Turn, away: dict[str, Any] | None) -> bool:
    """Store the absence of the model that a turn waits for; None: it waits no longer."""
    where = {"id": turn.id, "status": turn.status, "epoch": turn.epoch}
    return change(tx, turns, where, {"away": away})


def set_turn_steered(tx: Tx, turn: Turn) -> bool:
    """Mark that a person has steered the turn."""
    where = {"id": turn.id, "status": turn.status, "epoch": turn.epoch}
    return change(tx, turns, where, {"steered": True})


def append_message(
    tx: Tx,
    session_id: str,
    thread: str,
    message: Message,
    *,
    turn_id: str | None = None,
    agent: str | None = None,
) -> None:
    """Append a message to a conversation."""
    row = {
        "session_id": session_id,
        "thread": thread,
        "turn_id": turn_id,
        "agent": agent,
        "body": message.model_dump(mode="json", exclude_none=True),
        "created_at": tx.now,
    }
    put(tx, messages, row)


def conversation(tx: Tx, session_id: str, thread: str) -> list[Message]:
    """A conversation's messages in order."""
    found = whole_rows(tx, _THREAD, {"session_id": session_id, "thread": thread})
    return [MESSAGE.validate_python(row["body"]) for row in found]


def conversation_since(
    tx: Tx, session_id: str, thread: str, known: Mapping[int, Message]
) -> dict[int, Message]:
    """A conversation's messages by their numbers, in order.

    Args:
        known: The messages that were read before. They never change, and are not read again.
    """
    params = {"session_id": session_id, "thread": thread, "since": next(reversed(known), 0)}
    found = whole_rows(tx, _SINCE, params)
    new = {row["id"]: row["body"] for row in found if row["id"] not in known}
    whole = {**known, **{number: MESSAGE.validate_python(body) for number, body in new.items()}}
    if known and (not found or len(whole) != found[0]["total"]):
        # Another process has committed a message with a number between the known ones: read all.
        return conversation_since(tx, session_id, thread, {})
    return whole


def said_in(tx: Tx, session_id: str, threads: Collection[str]) -> list[Steering]:
    """The steering messages of people in some conversations, oldest first."""
    wanted = {"session_id": session_id, "threads": list(threads)}
    found = whole_rows(tx, _SEVERAL, wanted)
    said = (row["body"] for row in found if row["body"]["role"] == "steer")
    return [Steering.model_validate(body) for body in said]


class MessageRow(NamedTuple):
    """One message of a conversation, as it is stored."""

    thread: str
    agent: str | None
    body: dict[str, Any]
    created_at: datetime


def history(tx: Tx, session_id: str) -> list[MessageRow]:
    """All conversations of a session."""
    return many(tx, _HISTORY, {"session_id": session_id}, MessageRow)


def history_in(tx: Tx, session_id: str, thread: str) -> list[MessageRow]:
    """One conversation of a session."""
    return many(tx, _HISTORY_IN, {"session_id": session_id, "thread": thread}, MessageRow)


# The rules of sessions: added, ended, never changed.

_ACTIVE = (
    by(session_rules, SessionRule, "session_id")
    .where(session_rules.c.ended_at.is_(None))
    .order_by(session_rules.c.position)
)
_HOLD = select(sessions.c.id).where(sessions.c.id == bindparam("of")).with_for_update()
_NEXT = select(func.coalesce(func.max(session_rules.c.position), 0) + 1).where(
    session_rules.c.session_id == bindparam("of")
)
_END_EACH = (
    update(session_rules).where(session_rules.c.ended_at.is_(None)).values(ended_at=bindparam("at"))
)
_END = _END_EACH.where(session_rules.c.id == bindparam("of"))
_END_ALL = _END_EACH.where(session_rules.c.session_id == bindparam("of"))


def active_rules(tx: Tx, session_id: str) -> list[SessionRule]:
    """The rules of a session that have not ended, in the order in which they were made."""
    return many(tx, _ACTIVE, {"session_id": session_id}, SessionRule)


def next_rule(tx: Tx, session_id: str) -> int:
    """The number of a session's next rule; nobody else can use it until the transaction ends."""
    tx.execute(_HOLD, {"of": session_id})
    return tx.execute(_NEXT, {"of": session_id}).scalar_one()


def add_rule(tx: Tx, rule: SessionRule) -> None:
    """Insert a rule."""
    put(tx, session_rules, row_of(rule))


def end_rule(tx: Tx, rule_id: str) -> bool:
    """End a rule. False when it has ended already."""
    return tx.execute(_END, {"of": rule_id, "at": tx.now}).rowcount == 1


def end_rules(tx: Tx, session_id: str) -> None:
    """End every rule of a session."""
    tx.execute(_END_ALL, {"of": session_id, "at": tx.now})


# The list of sessions: its pages, and the standing of each session.

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
    # A failed plan counts only until a later message.
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
    """The id of the principal who owns them; None: everybody's sessions."""
    text: str | None = None
    """A part of their title, folder or id. Case does not matter, in any alphabet; the databases
    can do that for few alphabets, so Python compares."""
    state: SessionState | None = None
    after: SessionPlace | None = None
    """Only what follows this place."""


class SessionStanding(Struct, frozen=True, kw_only=True):
    """The state of a session, its open questions, the subtasks of its latest plan, its cost."""

    state: SessionState
    waiting: int
    done: int
    total: int
    cost_micros: int


def list_sessions(
    tx: Tx, wanted: SessionFilter, limit: int, offset: int = 0
) -> tuple[list[Session], int]:
    """A page of sessions, newest first, and the number of sessions on all pages."""
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
    """The standings of some sessions, read in a few statements for all of them."""
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
    """By session, how many subtasks of its latest plan have each status."""
    latest = {row.session_id: (row.id, row.revision) for row in rows(tx, _PLANS, of)}
    counts = {place: Counter[str]() for place in latest.values()}
    if counts:
        for row in rows(tx, _STEPS, {"of": [plan_id for plan_id, _ in counts]}):
            if (place := (row.plan_id, row.revision)) in counts:
                counts[place][row.status] += row.number
    return {session_id: counts[place] for session_id, place in latest.items()}


# The requests to models that conversations make. The reports have their sums.


def add_request(tx: Tx, row: ModelRequestRow) -> None:
    """Insert a request."""
    put(tx, model_requests, row_of(row))


def end_request(tx: Tx, row: ModelRequestRow) -> None:
    """Write what a request took; this replaces the estimate of a reserved request."""
    to = {
        "status": row.status, "model": row.model, "cost_micros": row.cost_micros,
        "duration_ms": row.duration_ms, **{name: getattr(row, name) for name in TOKENS},
    }  # fmt: skip
    if not change(tx, model_requests, {"id": row.id}, to):
        add_request(tx, row)


def refuse_request(tx: Tx, request_id: str, *, free: bool) -> None:
    """Mark a reserved request as failed: it got no reply.

    Args:
        free: The provider refused it, so it cost nothing; otherwise its estimate counts.
    """
    nothing = {"input_tokens": 0, "output_tokens": 0, "cost_micros": 0} if free else {}
    change(tx, model_requests, {"id": request_id}, {"status": "failed", **nothing})
