"""Tool calls and approvals: what was asked for, who answered what, and the outcomes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import and_, bindparam, delete, exists, func, or_, select, update

from gonogo.domain.records import Approval, CallRow, Comment, Vote
from gonogo.domain.reviews import DecisionLink
from gonogo.domain.states import (
    APPROVAL,
    CALL,
    GUARDED_NAMES,
    ApprovalStatus,
    CallStatus,
    was_refused,
)
from gonogo.domain.tool_calls import ToolClass
from gonogo.store.rows import (
    among,
    by,
    change,
    count_of,
    found_in,
    many,
    one,
    packed_row,
    put,
    row_of,
    same,
    whole_rows,
)
from gonogo.store.schema import (
    approvals,
    comments,
    grants,
    links,
    plans,
    sessions,
    tokens,
    tool_calls,
    votes,
)
from gonogo.store.transaction import Tx

_THREAD_CALLS = by(tool_calls, CallRow, "session_id", "thread").order_by(tool_calls.c.position)
_SINCE = _THREAD_CALLS.add_columns(count_of(tool_calls, "session_id", "thread")).where(
    tool_calls.c.position >= bindparam("since")
)
_OF_NO_SUBTASK = (
    by(tool_calls, CallRow, "session_id", "plan_id")
    .where(tool_calls.c.subtask_id.is_(None), tool_calls.c.turn_id.is_(None))
    .order_by(tool_calls.c.position)
)
_OPEN = ("proposed", "awaiting_approval", "allowed", "started", "unknown")
_OPEN_CALLS = _THREAD_CALLS.where(among(tool_calls.c.status, _OPEN))
_OPEN_BELOW = (
    by(tool_calls, CallRow, "session_id")
    .where(
        func.substr(tool_calls.c.thread, 1, bindparam("length")) == bindparam("below"),
        among(tool_calls.c.status, _OPEN),
    )
    .order_by(tool_calls.c.created_at, tool_calls.c.position)
)
_BEGIN_JUDGING = (
    update(tool_calls)
    .where(tool_calls.c.id == bindparam("of"))
    .values(judgings=tool_calls.c.judgings + 1)
)
_END_JUDGING = (
    update(tool_calls)
    .where(
        tool_calls.c.session_id == bindparam("session"),
        tool_calls.c.thread == bindparam("of"),
        tool_calls.c.judgings > 0,
    )
    .values(judgings=0)
)
_NEXT = select(func.coalesce(func.max(tool_calls.c.position), 0) + 1).where(
    *same(tool_calls, "session_id", "thread")
)
_IS_PENDING = approvals.c.status == "pending"
_COUNT_PENDING = select(func.count()).where(*same(approvals, "session_id"), _IS_PENDING)
_ASKED = (
    select(
        approvals.c.subtask_id, approvals.c.revision, approvals.c.created_at,
        approvals.c.decided_at,
    )
    .where(*same(approvals, "plan_id"), approvals.c.subtask_id.is_not(None))
    .order_by(approvals.c.created_at)
)  # fmt: skip
_OPEN_QUESTIONS = (
    select(approvals.c.kind, func.count()).where(_IS_PENDING).group_by(approvals.c.kind)
)
_BY_AGE = approvals.c.created_at.desc(), approvals.c.id.desc()
_NEWEST = by(approvals, Approval).order_by(*_BY_AGE).limit(bindparam("most"))
_BEFORE = or_(
    approvals.c.created_at < bindparam("before_at"),
    and_(approvals.c.created_at == bindparam("before_at"), approvals.c.id < bindparam("before_id")),
)
_LOCK = by(approvals, Approval, "id").with_for_update()
# An open question counts as the latest, even if the clock was set back after earlier ones.
_LATEST = (_IS_PENDING.desc(), *_BY_AGE)
_OF_CALL = by(approvals, Approval, "call_id").order_by(*_LATEST).limit(1)
_ABOUT_PLAN = by(approvals, Approval, "plan_id")
_FOR_PLAN = _ABOUT_PLAN.where(approvals.c.kind == "plan")
_OF_PLAN = _FOR_PLAN.order_by(approvals.c.revision.desc(), *_LATEST).limit(1)
_LET_START = select(approvals.c.id).where(
    *same(approvals, "plan_id", "revision", "subtask_id"),
    approvals.c.kind == "subtask",
    approvals.c.status == "approved",
)
_ACTED = (
    select(tool_calls.c.id)
    .where(
        *same(tool_calls, "session_id", "plan_id", "subtask_id"),
        tool_calls.c.status == "completed",
        among(tool_calls.c.tool_class, ("idempotent", "other", "irreversible")),
    )
    .limit(1)
)
_OVER_OF_PLAN = (
    select(
        tool_calls.c.id.label("call_id"), tool_calls.c.subtask_id, tool_calls.c.tool,
        tool_calls.c.arguments, tool_calls.c.error,
    )
    .where(
        *same(tool_calls, "session_id", "plan_id"),
        among(tool_calls.c.status, ("denied", "rejected", "expired", "failed")),
    )
    .order_by(tool_calls.c.created_at, tool_calls.c.position)
)  # fmt: skip
_OVER_OF_SUBTASK = _OVER_OF_PLAN.where(*same(tool_calls, "subtask_id"))
_OF_CALLS = approvals.join(tool_calls, tool_calls.c.id == approvals.c.call_id)
_IN_DOUBT = and_(
    *same(approvals, "plan_id"),
    approvals.c.kind == "intervention",
    tool_calls.c.tool_class != "control",
)
_DOUBTED = (
    select(approvals.c.subtask_id)
    .select_from(_OF_CALLS)
    .where(_IN_DOUBT, *same(approvals, "revision"))
)
_BEGUN = select(
    tool_calls.c.tool, tool_calls.c.arguments, tool_calls.c.id.label("call_id"),
    approvals.c.created_at.label("asked_at"),
).select_from(_OF_CALLS)  # fmt: skip
_PERHAPS_DONE = _BEGUN.where(
    _IN_DOUBT, among(approvals.c.status, ("pending", "edited", "expired", "cancelled"))
)
_LET_RUN = _BEGUN.where(
    *same(approvals, "plan_id"),
    approvals.c.kind == "tool",
    among(approvals.c.status, ("approved", "edited")),
)
_AS_ASKED = approvals.c.created_at, approvals.c.id
_PENDING = by(approvals, Approval, "session_id").where(_IS_PENDING).order_by(*_AS_ASKED)
_PENDING_OF_PLAN = _ABOUT_PLAN.where(_IS_PENDING)
_DECIDED_OF_PLAN = _ABOUT_PLAN.where(
    among(approvals.c.status, ("approved", "edited", "rejected", "expired"))
).order_by(*_AS_ASKED)


def add_calls(tx: Tx, calls: list[CallRow]) -> None:
    """Insert the tool calls of one reply."""
    put(tx, tool_calls, [row_of(c) for c in calls])


def call_of(tx: Tx, call_id: str) -> CallRow | None:
    """The tool call of that id."""
    return one(tx, by(tool_calls, CallRow, "id"), {"id": call_id}, CallRow)


def thread_calls(tx: Tx, session_id: str, thread: str) -> list[CallRow]:
    """Every tool call of a conversation, in order."""
    return many(tx, _THREAD_CALLS, {"session_id": session_id, "thread": thread}, CallRow)


def calls_since(
    tx: Tx, session_id: str, thread: str, known: Mapping[str, CallRow]
) -> dict[str, CallRow]:
    """Every tool call of a conversation by its id, in order.

    Args:
        known: The calls that were read before. Ended calls never change, and are not read again.
    """
    ended = [*takewhile(lambda call: call.status not in _OPEN, known.values())]
    params = {
        "session_id": session_id, "thread": thread, "since": ended[-1].position if ended else 0,
    }  # fmt: skip
    rows = whole_rows(tx, _SINCE, params)
    total = rows[0]["total"] if rows else 0
    found = {call.id: call for call in ended}
    for row in rows:
        del row["total"]
        found.setdefault(row["id"], CallRow(**row))
    return found if len(found) == total else calls_since(tx, session_id, thread, {})


def calls_of_turn(tx: Tx, session_id: str, turn_id: str) -> list[CallRow]:
    """Every tool call of a turn, including those of its explorers."""
    params = {"session_id": session_id, "turn_id": turn_id}
    return many(tx, by(tool_calls, CallRow, *params), params, CallRow)


def calls_of_work(
    tx: Tx, session_id: str, plan_id: str, subtask_id: str | None = None
) -> list[CallRow]:
    """Every tool call of a plan's subtask in all revisions; None: those of no subtask and turn."""
    params = {"session_id": session_id, "plan_id": plan_id}
    if subtask_id is None:
        return many(tx, _OF_NO_SUBTASK, params, CallRow)
    params["subtask_id"] = subtask_id
    return many(tx, by(tool_calls, CallRow, *params), params, CallRow)


def open_calls(tx: Tx, session_id: str, thread: str) -> list[CallRow]:
    """The tool calls of a conversation that have no result yet, in order."""
    return many(tx, _OPEN_CALLS, {"session_id": session_id, "thread": thread}, CallRow)


def open_calls_below(tx: Tx, session_id: str, thread: str) -> list[CallRow]:
    """The calls without a result in the sub-conversations of one, such as those of its checks."""
    below = f"{thread}/"
    params = {"session_id": session_id, "length": len(below), "below": below}
    return many(tx, _OPEN_BELOW, params, CallRow)


def begin_judging(tx: Tx, calls: Sequence[CallRow]) -> None:
    """Count, for calls that were left behind, that somebody begins to judge them."""
    if calls:
        tx.execute(_BEGIN_JUDGING, [{"of": call.id} for call in calls])


def end_judging(tx: Tx, session_id: str, thread: str) -> None:
    """Reset these counts of a conversation: the calls were judged, and the process survived it."""
    tx.execute(_END_JUDGING, {"session": session_id, "of": thread})


def next_position(tx: Tx, session_id: str, thread: str) -> int:
    """The position of the next tool call in a conversation."""
    return tx.execute(_NEXT, {"session_id": session_id, "thread": thread}).scalar_one()


def move_call(tx: Tx, call: CallRow, status: CallStatus, **to: Any) -> bool:  # noqa: ANN401
    """Compare-and-set a tool call's status on the status and digest that the caller saw.

    Raises:
        IllegalTransition: a call cannot move from its status to the new one.
    """
    return set_call(tx, call, CALL.check(call.status, status, call.id), **to)


def set_call(tx: Tx, call: CallRow, status: CallStatus, **to: Any) -> bool:  # noqa: ANN401
    """The compare-and-set of `move_call`, for callers that have checked the moves themselves."""
    where = {"id": call.id, "status": call.status, "digest": call.digest}
    to = {"status": status, **packed_row(tx, tool_calls, call.session_id, to)}
    return change(tx, tool_calls, where, to)


def has_acted(tx: Tx, session_id: str, plan_id: str, subtask_id: str) -> bool:
    """Whether a subtask, in any attempt, has completed a call that could change anything."""
    key = {"session_id": session_id, "plan_id": plan_id, "subtask_id": subtask_id}
    return tx.execute(_ACTED, key).first() is not None


class RefusedCall(NamedTuple):
    """A call that was not carried out because it was refused."""

    call_id: str
    subtask_id: str | None
    tool: str
    arguments: dict[str, Any]
    error: str


def refused_calls(
    tx: Tx, session_id: str, plan_id: str, subtask_id: str | None = None
) -> list[RefusedCall]:
    """The refused calls of a plan, or of one of its subtasks, oldest first."""
    params = {"session_id": session_id, "plan_id": plan_id}
    if subtask_id is None:
        found = many(tx, _OVER_OF_PLAN, params, RefusedCall)
    else:
        within = {**params, "subtask_id": subtask_id}
        found = many(tx, _OVER_OF_SUBTASK, within, RefusedCall)
    return [call for call in found if was_refused(call.error)]


def add_approval(tx: Tx, approval: Approval) -> None:
    """Insert a question."""
    put(tx, approvals, row_of(approval))


def approval_of(tx: Tx, approval_id: str) -> Approval | None:
    """The approval of that id."""
    return one(tx, by(approvals, Approval, "id"), {"id": approval_id}, Approval)


def lock_approval(tx: Tx, approval_id: str) -> Approval | None:
    """The approval of that id, locked until the transaction ends, so that only one answer wins."""
    return one(tx, _LOCK, {"id": approval_id}, Approval)


def approval_of_call(tx: Tx, call_id: str) -> Approval | None:
    """The latest approval about a tool call."""
    return one(tx, _OF_CALL, {"call_id": call_id}, Approval)


def approval_of_plan(tx: Tx, plan_id: str) -> Approval | None:
    """The latest approval of a plan's revision."""
    return one(tx, _OF_PLAN, {"plan_id": plan_id}, Approval)


def pending_approvals(tx: Tx, session_id: str) -> list[Approval]:
    """The open questions of a session, oldest first."""
    return many(tx, _PENDING, {"session_id": session_id}, Approval)


def pending_of_plan(tx: Tx, plan_id: str) -> list[Approval]:
    """The open questions of a plan that are cancelled when it ends: all but guarded names."""
    found = many(tx, _PENDING_OF_PLAN, {"plan_id": plan_id}, Approval)
    return [each for each in found if each.details.get("about") != GUARDED_NAMES]


def decided_of_plan(tx: Tx, plan_id: str) -> list[Approval]:
    """The questions of a plan that were answered or expired, oldest first."""
    return many(tx, _DECIDED_OF_PLAN, {"plan_id": plan_id}, Approval)


def count_pending(tx: Tx, session_id: str) -> int:
    """How many questions of a session are open."""
    return tx.execute(_COUNT_PENDING, {"session_id": session_id}).scalar_one()


class SubtaskQuestion(NamedTuple):
    """A question that a subtask waited for, without its subject."""

    subtask_id: str
    revision: int | None
    created_at: datetime
    decided_at: datetime | None


def questions_of_plan(tx: Tx, plan_id: str) -> list[SubtaskQuestion]:
    """Every question about a plan's subtasks and their calls."""
    return [SubtaskQuestion(*row) for row in tx.execute(_ASKED, {"plan_id": plan_id})]


def count_open_questions(tx: Tx) -> dict[str, int]:
    """How many questions are open in all sessions, by kind."""
    return {str(row[0]): row[1] for row in tx.execute(_OPEN_QUESTIONS)}


def is_let_start(tx: Tx, plan_id: str, revision: int, subtask_id: str) -> bool:
    """Whether a person has let a subtask of a revision start."""
    key = {"plan_id": plan_id, "revision": revision, "subtask_id": subtask_id}
    return tx.execute(_LET_START, key).first() is not None


def doubted_subtasks(tx: Tx, plan_id: str, revision: int) -> frozenset[str]:
    """The subtasks of a revision with a call whose outcome was unknown, whether settled or not."""
    found = tx.execute(_DOUBTED, {"plan_id": plan_id, "revision": revision}).scalars()
    return frozenset(found)


class Begun(NamedTuple):
    """A call that began, and when a person was asked about it."""

    tool: str
    arguments: dict[str, Any]
    call_id: str
    asked_at: datetime


def perhaps_done(tx: Tx, plan_id: str) -> list[Begun]:
    """The calls of a plan that may have taken effect, and that nobody allowed to run again.

    Their outcome was unknown, and a person said that they took effect, or nobody answered.
    """
    found = many(tx, _PERHAPS_DONE, {"plan_id": plan_id}, Begun)
    if not found:
        return []
    since = many(tx, _LET_RUN, {"plan_id": plan_id}, Begun)
    return [each for each in found if not any(_is_after(one, each) for one in since)]


def _is_after(one: Begun, other: Begun) -> bool:
    # The approval of the same call came before the doubt, whatever the clock said.
    is_same = one.call_id == other.call_id
    return one[:2] == other[:2] and not is_same and one.asked_at > other.asked_at


def list_approvals(
    tx: Tx,
    *,
    status: str | None,
    session_id: str | None,
    kind: str | None,
    group: str | None = None,
    before: Approval | None = None,
    most: int = 1_000,
) -> list[Approval]:
    """The newest approvals that match, newest first.

    Args:
        before: Only older ones than this.
    """
    statement, params = _NEWEST, dict[str, Any](most=most)
    if before is not None:
        statement = statement.where(_BEFORE)
        params |= {"before_at": before.created_at, "before_id": before.id}
    wanted = {"status": status, "session_id": session_id, "kind": kind, "group_key": group}
    for column, value in wanted.items():
        if value is not None:
            statement = statement.where(approvals.c[column] == bindparam(f"is_{column}"))
            params[f"is_{column}"] = value
    return many(tx, statement, params, Approval)


def close_approval(
    tx: Tx,
    approval: Approval,
    status: ApprovalStatus,
    **to: Any,  # noqa: ANN401
) -> bool:
    """Compare-and-set a pending approval. False: somebody was faster.

    Raises:
        IllegalTransition: the approval is not pending.
    """
    APPROVAL.check(approval.status, status, approval.id)
    to = {"status": status, **packed_row(tx, approvals, approval.session_id, to)}
    return change(tx, approvals, {"id": approval.id, "status": "pending"}, to)


# Judged calls: what was asked for, the verdict, and the answer of a person.


class JudgedCall(Struct, frozen=True, kw_only=True):
    """A tool call, its verdict, and what else decided about it."""

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
    """The status of the question to a person, if there was one."""
    granted: bool
    """Its subtask had the grant of an approved plan."""
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
        *(tool_calls.c[n] for n in JudgedCall.__struct_fields__ if n in tool_calls.c),
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
    tx: Tx,
    *,
    session_id: str | None,
    principal_id: str | None,
    since: datetime,
    limit: int,
    offset: int,
) -> list[JudgedCall]:
    """A page of judged calls, oldest first: of a session, of a principal's sessions, or all."""
    page: dict[str, Any] = {"since": since, "limit": limit, "offset": offset}
    if session_id is not None:
        return _records(tx, _OF_SESSION, {**page, "session_id": session_id})
    if principal_id is not None:
        return _records(tx, _OF_PRINCIPAL, {**page, "principal_id": principal_id})
    return _records(tx, _JUDGED, page)


def _records(tx: Tx, statement: Any, params: dict[str, Any]) -> list[JudgedCall]:  # noqa: ANN401
    found = whole_rows(tx, statement, params)
    return [JudgedCall(granted=fields.pop("grant_id") is not None, **fields) for fields in found]


# Votes, and who may decide.

_VOTES = by(votes, Vote, "approval_id").order_by(votes.c.created_at, votes.c.principal_id)
_WITHDRAW = delete(votes).where(*same(votes, "approval_id", "principal_id"))
_ENDED = select(tokens.c.principal_id, tokens.c.role).where(tokens.c.id == bindparam("token_id"))
_OTHERS = exists().where(
    tokens.c.principal_id == bindparam("who"), tokens.c.role >= bindparam("role"),
    tokens.c.revoked_at.is_(None),
)  # fmt: skip
_FORGET = delete(votes).where(
    votes.c.principal_id == bindparam("who"),
    votes.c.approval_id.in_(select(approvals.c.id).where(approvals.c.status == "pending")),
    ~_OTHERS,
)
_ASKERS = select(plans.c.asked_by).where(plans.c.id == bindparam("of"))
_OWNER = select(sessions.c.principal_id, sessions.c.workspace, sessions.c.tool_host).where(
    sessions.c.id == bindparam("of")
)
_REVIEWED_OF_PLAN = _ABOUT_PLAN.where(approvals.c.review.is_not(None))


def keep_vote(tx: Tx, vote: Vote) -> None:
    """Store a person's vote; it replaces their earlier one.

    The caller has locked the approval's row, so two votes are never counted at once.
    """
    key = {"approval_id": vote.approval_id, "principal_id": vote.principal_id}
    tx.execute(_WITHDRAW, key)
    put(tx, votes, row_of(vote))


def forget_votes(tx: Tx, token_id: str) -> int:
    """Withdraw the open votes of a token's principal, if they have no other token of its role."""
    ended = tx.execute(_ENDED, {"token_id": token_id}).one()
    return tx.execute(_FORGET, {"who": ended.principal_id, "role": ended.role}).rowcount


def votes_of(tx: Tx, approval_id: str) -> list[Vote]:
    """The votes for a question that needs several, oldest first."""
    return many(tx, _VOTES, {"approval_id": approval_id}, Vote)


def askers_of_plan(tx: Tx, plan_id: str | None) -> Sequence[str]:
    """The principals who asked for changes of a plan, besides the one whose message led to it."""
    return tx.execute(_ASKERS, {"of": plan_id}).scalar() or () if plan_id else ()


def owner_of(tx: Tx, session_id: str) -> str | None:
    """The principal who owns a session."""
    return tx.execute(_OWNER, {"of": session_id}).scalar()


def place_of_work(tx: Tx, session_id: str) -> tuple[str, str]:
    """The workspace of a session, and its tool host."""
    row = tx.execute(_OWNER, {"of": session_id}).one()
    return row.workspace, row.tool_host


def escalate_approval(tx: Tx, approval: Approval, review: Mapping[str, Any]) -> bool:
    """Escalate an open question once, so that others can decide it. False: closed or escalated."""
    where = {"id": approval.id, "status": "pending"}
    if approval.escalated_at is not None:
        return False
    return change(tx, approvals, where, {"review": dict(review), "escalated_at": tx.now})


def reviewed_of_plan(tx: Tx, plan_id: str) -> list[Approval]:
    """Every question about a plan, open or not, to which a rule of review applied."""
    return many(tx, _REVIEWED_OF_PLAN, {"plan_id": plan_id}, Approval)


# Comments on plans, their answers, and the plans whose planner is answering comments.

_ALL = by(comments, Comment, "plan_id").order_by(comments.c.created_at, comments.c.id)
_COUNT_OPEN = select(func.count()).where(*same(comments, "plan_id"), comments.c.answer.is_(None))
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


def add_comment(tx: Tx, comment: Comment) -> None:
    """Store a comment."""
    put(tx, comments, row_of(comment))


def comments_of(tx: Tx, plan_id: str) -> list[Comment]:
    """Every comment on a plan, oldest first."""
    return many(tx, _ALL, {"plan_id": plan_id}, Comment)


def count_open_comments(tx: Tx, plan_id: str) -> int:
    """How many comments on a plan have no answer."""
    return tx.execute(_COUNT_OPEN, {"plan_id": plan_id}).scalar_one()


def answer_comment(tx: Tx, comment_id: str, answer: str, revision: int) -> bool:
    """Store the planner's answer to a comment. False: it has an answer already."""
    params = {"of": comment_id, "said": answer, "number": revision, "at": tx.now}
    return tx.execute(_ANSWER, params).rowcount == 1


def plans_in_revision(tx: Tx, place: str | None = None) -> list[str]:
    """The ids of the plans that wait for a person while their planner answers comments.

    Args:
        place: Only plans in the sessions of this place.
    """
    return list(found_in(tx, place, _REVISED, plans.c.session_id).scalars())


# Links that decide: made, used once, ended.

_IS_GOOD = and_(links.c.used_at.is_(None), links.c.revoked_at.is_(None))
_OPEN_LINKS = by(links, DecisionLink, "approval_id").where(_IS_GOOD).order_by(links.c.id)
_GOOD = update(links).where(links.c.id == bindparam("of"), _IS_GOOD)
_USE = _GOOD.values(used_at=bindparam("at"))
_REVOKE = _GOOD.values(revoked_at=bindparam("at"))


def add_link(tx: Tx, link: DecisionLink) -> None:
    """Insert a link."""
    put(tx, links, row_of(link))


def link_of(tx: Tx, link_id: str) -> DecisionLink | None:
    """The link of that id."""
    return one(tx, by(links, DecisionLink, "id"), {"id": link_id}, DecisionLink)


def open_links(tx: Tx, approval_id: str) -> list[DecisionLink]:
    """The links of a question that were neither used nor revoked."""
    return many(tx, _OPEN_LINKS, {"approval_id": approval_id}, DecisionLink)


def use_link(tx: Tx, link_id: str) -> bool:
    """Use a link up. False: it was used or revoked before."""
    return tx.execute(_USE, {"of": link_id, "at": tx.now}).rowcount == 1


def revoke_link(tx: Tx, link_id: str) -> bool:
    """Revoke a link. False: it was used or revoked before."""
    return tx.execute(_REVOKE, {"of": link_id, "at": tx.now}).rowcount == 1
