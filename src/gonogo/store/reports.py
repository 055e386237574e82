"""The use of model requests, counts and durations of the work, and what the audit log must tell."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    Column,
    ColumnElement,
    Executable,
    FromClause,
    Text,
    bindparam,
    case,
    exists,
    func,
    literal,
    not_,
    or_,
    select,
    type_coerce,
    union_all,
)

from gonogo.domain.audit_chain import (
    ALLOWED,
    DELETED,
    OPENED,
    SYSTEM,
    Claim,
    Holding,
    claim_of_question,
)
from gonogo.domain.failures import Category
from gonogo.domain.plan_views import SAMPLE
from gonogo.domain.records import ModelRequestRow, Plan
from gonogo.domain.replanning import Used
from gonogo.domain.states import ApprovalStatus, CallStatus
from gonogo.domain.tool_calls import TOKENS
from gonogo.store.columns import Clean, Utc
from gonogo.store.rows import columns_of, many, rows
from gonogo.store.schema import (
    approvals,
    chains,
    checkpoints,
    comments,
    grants,
    links,
    model_requests,
    plans,
    session_rules,
    sessions,
    subtasks,
    tokens,
    tool_calls,
)
from gonogo.store.transaction import Tx

_R = model_requests.c
_TOKENS = _R.input_tokens + _R.output_tokens
_COUNTED = case(((_R.status == "failed") & (_TOKENS == 0), 0), else_=1)
_UNPRICED = case(((_R.status == "done") & (_TOKENS > 0) & (_R.cost_micros == 0), 1), else_=0)
_SUMS = select(
    func.coalesce(func.sum(_COUNTED), 0).label("requests"),
    *(func.coalesce(func.sum(_R[name]), 0).label(name) for name in TOKENS),
    func.coalesce(func.sum(_R.cost_micros), 0).label("cost_micros"),
    func.coalesce(func.sum(_UNPRICED), 0).label("unpriced"),
    func.coalesce(func.max(_R.output_tokens), 0).label("largest_output"),
    func.coalesce(func.max(_R.cost_micros), 0).label("largest_cost"),
)
_OF_PLAN = _SUMS.where(_R.plan_id == bindparam("of"))
_OF_SESSION = _SUMS.where(_R.session_id == bindparam("of"))
_OF_SUBTASKS = _OF_PLAN.add_columns(_R.subtask_id).group_by(_R.subtask_id)
# A row that a later revision took over has the same start, so its runs count only once.
_EACH = (
    select(func.max(subtasks.c.attempt).label("attempts"))
    .where(subtasks.c.plan_id == bindparam("of"), subtasks.c.attempt > 0)
    .group_by(subtasks.c.subtask_id, subtasks.c.started_at)
    .subquery()
)
_RUNS = select(func.coalesce(func.sum(_EACH.c.attempts), 0))
_LOCK = select(sessions.c.id).where(sessions.c.id == bindparam("of")).with_for_update()


def requests_of_work(
    tx: Tx, session_id: str, plan_id: str | None, subtask_id: str | None = None
) -> list[ModelRequestRow]:
    """The requests of a subtask, or of a plan without its subtasks, or of no plan, oldest first."""
    params = {"session_id": session_id, "plan_id": plan_id, "subtask_id": subtask_id}
    known = {name: value for name, value in params.items() if value is not None}
    return many(tx, _requests(frozenset(known)), known, ModelRequestRow)


@cache
def _requests(known: frozenset[str]) -> Executable:
    named = ("session_id", "plan_id", "subtask_id")
    where = [_R[n] == bindparam(n) if n in known else _R[n].is_(None) for n in named]
    return select(*columns_of(model_requests, ModelRequestRow)).where(*where).order_by(_R.id)


def used_by_plan(tx: Tx, plan_id: str) -> Used:
    """What the model requests of a plan took, in all its revisions."""
    return _used(tx, _OF_PLAN, plan_id)


def used_by_subtasks(tx: Tx, plan_id: str) -> dict[str | None, Used]:
    """What the model requests of a plan took in all its revisions, for each subtask.

    None has those of no subtask, such as the requests for a new revision.
    """
    found = tx.execute(_OF_SUBTASKS, {"of": plan_id}).mappings().all()
    return {sums["subtask_id"]: _summed(sums) for sums in found}


def runs_of_plan(tx: Tx, plan: Plan) -> int:
    """How many runs of subtasks a plan has begun, in all its revisions."""
    counted = (plan.budget or {}).get("runs")
    return int(tx.execute(_RUNS, {"of": plan.id}).scalar_one() if counted is None else counted)


def used_by_session(tx: Tx, session_id: str) -> Used:
    """What the model requests of a session took, including those of its plans."""
    return _used(tx, _OF_SESSION, session_id)


def hold_session(tx: Tx, session_id: str) -> None:
    """Lock a session: nobody else can count its use until the transaction ends."""
    tx.execute(_LOCK, {"of": session_id})


def _used(tx: Tx, statement: Executable, key: str) -> Used:
    return _summed(tx.execute(statement, {"of": key}).mappings().one())


def _summed(sums: Mapping[Any, Any]) -> Used:
    # PostgreSQL returns sums of integers as decimals.
    return Used(**{name: int(sums[name]) for name in Used.__struct_fields__})


# Counts and durations of what happened in a span of time, in the sessions that somebody may see.
#
# The database counts; of durations only the newest are read. So neither grows with the age of the
# installation.

_SINCE, _UNTIL = bindparam("since", type_=Utc()), bindparam("until", type_=Utc())
_WHOSE, _SESSION = bindparam("whose", type_=Clean()), bindparam("session", type_=Clean())
_EVERYBODY = ""


def _seen(*what: Any, of: FromClause) -> Any:  # noqa: ANN401 - a SELECT of those columns
    """`SELECT` of columns, for rows in the wanted sessions."""
    return (
        select(*what)
        .select_from(of)
        .where(
            sessions.c.deleted == 0,
            or_(_WHOSE == _EVERYBODY, sessions.c.principal_id == _WHOSE),
            or_(_SESSION == _EVERYBODY, sessions.c.id == _SESSION),
        )
    )


def _within(column: Column[Any]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return column >= _SINCE, column < _UNTIL


def _says(column: Column[Any], name: str, word: str) -> ColumnElement[bool]:
    """The condition that a JSON object has that word under that name.

    Within a JSON string every quote has a backslash before it, so the pattern only matches a name
    and its value. There may be a space between them, or none: see `json_text`.
    """
    text = type_coerce(column, Text)
    return or_(text.contains(f'"{name}":"{word}"'), text.contains(f'"{name}": "{word}"'))


_PLANS = (
    _seen(plans.c.status, func.count(), func.sum(plans.c.replans), of=plans.join(sessions))
    .where(plans.c.started_at.is_not(None), *_within(plans.c.finished_at))
    .group_by(plans.c.status)
)
_PLAN_TIMES = (
    _seen(plans.c.started_at, plans.c.finished_at, of=plans.join(sessions))
    .where(plans.c.started_at.is_not(None), *_within(plans.c.finished_at))
    .order_by(plans.c.finished_at.desc())
    .limit(SAMPLE)
)
_ROLLBACKS = _seen(func.count(), of=checkpoints.join(sessions)).where(
    checkpoints.c.subtask_id.is_(None), *_within(checkpoints.c.created_at)
)
_BEFORE = subtasks.alias("earlier")
_IS_COPY = exists().where(
    _BEFORE.c.plan_id == subtasks.c.plan_id,
    _BEFORE.c.subtask_id == subtasks.c.subtask_id,
    _BEFORE.c.revision < subtasks.c.revision,
    _BEFORE.c.finished_at == subtasks.c.finished_at,
)
"""The row is a copy: a later revision copies the rows of subtasks that keep their standing."""


def _ended(*what: Any) -> Any:  # noqa: ANN401 - a SELECT of those columns
    """`SELECT` of columns, for subtasks that ended in the span of time."""
    return _seen(*what, of=subtasks.join(plans).join(sessions)).where(
        or_(plans.c.finished_at.is_(None), plans.c.finished_at >= _SINCE),
        or_(subtasks.c.revision == 1, not_(_IS_COPY)),
        *_within(subtasks.c.finished_at),
    )


_WORKER = func.coalesce(subtasks.c.worker, "unknown").label("worker")
_TYPE = func.coalesce(subtasks.c.type, "action").label("type")
_CATEGORY = case(
    *((_says(subtasks.c.error, "category", word), word.value) for word in Category),
    else_=Category.UNKNOWN.value,
).label("category")
_ENDED = _ended(_WORKER, _TYPE, subtasks.c.status, subtasks.c.attempt).subquery()
_SUBTASKS = select(
    _ENDED.c.worker, _ENDED.c.type, _ENDED.c.status, func.count().label("many"),
    func.sum(case((_ENDED.c.attempt > 1, _ENDED.c.attempt - 1), else_=0)).label("retries"),
).group_by(_ENDED.c.worker, _ENDED.c.type, _ENDED.c.status)  # fmt: skip
_SUBTASK_TIMES = (
    _ended(_WORKER, _TYPE, subtasks.c.started_at, subtasks.c.finished_at)
    .where(subtasks.c.started_at.is_not(None))
    .order_by(subtasks.c.finished_at.desc())
    .limit(SAMPLE)
)
_FAILED = _ended(_CATEGORY, _WORKER, _TYPE).where(subtasks.c.status == "failed").subquery()
_MANY = func.count().label("many")
_FAILURES = (
    select(_FAILED.c.category, _FAILED.c.worker, _FAILED.c.type, _MANY)
    .group_by(_FAILED.c.category, _FAILED.c.worker, _FAILED.c.type)
    .order_by(_MANY.desc(), _FAILED.c.category, _FAILED.c.worker, _FAILED.c.type)
)
_APPROVALS = (
    _seen(approvals.c.kind, approvals.c.status, _MANY, of=approvals.join(sessions))
    .where(*_within(approvals.c.created_at))
    .group_by(approvals.c.kind, approvals.c.status)
    .order_by(approvals.c.kind, approvals.c.status)
)
_ANSWERS = (
    _seen(
        approvals.c.kind, approvals.c.created_at, approvals.c.decided_at,
        of=approvals.join(sessions),
    )
    .where(
        # If nobody answers in time, gonogo may have been told to answer by itself.
        approvals.c.decided_by.is_not(None), approvals.c.decided_by != "gonogo",
        *_within(approvals.c.created_at),
    )
    .order_by(approvals.c.created_at.desc())
    .limit(SAMPLE)
)  # fmt: skip
_LET = case(
    (tool_calls.c.started_at.is_(None), "nobody"),
    (tool_calls.c.approval_id.is_not(None), "person"),
    (_says(tool_calls.c.verdict, "source", "grant"), "grant"),
    else_="rule",
).label("source")
_CALLS_ASKED = (
    _seen(_LET, tool_calls.c.status, of=tool_calls.join(sessions))
    .where(tool_calls.c.tool_class != "control", *_within(tool_calls.c.created_at))
    .subquery()
)
_CALLS = select(_CALLS_ASKED.c.source, _CALLS_ASKED.c.status, _MANY).group_by(
    _CALLS_ASKED.c.source, _CALLS_ASKED.c.status
)
_MODELS = (
    _seen(
        model_requests.c.model,
        func.count().label("requests"),
        func.sum(case((model_requests.c.status == "failed", 1), else_=0)).label("failed"),
        *(func.sum(_R[name]).label(name) for name in TOKENS),
        func.sum(model_requests.c.cost_micros).label("cost_micros"),
        of=model_requests.join(sessions),
    )
    .where(*_within(model_requests.c.created_at))
    .group_by(model_requests.c.model)
    .order_by(model_requests.c.model)
)


class Counted(Struct, frozen=True, kw_only=True):
    """The counts and durations of a span of time; the rows have names for their columns."""

    plans: list[Any]
    plan_times: list[Any]
    rollbacks: int
    subtasks: list[Any]
    subtask_times: list[Any]
    failures: list[Any]
    approvals: list[Any]
    answers: list[Any]
    calls: list[Any]
    models: list[Any]


def count(
    tx: Tx,
    *,
    principal_id: str | None,
    session_id: str | None,
    since: datetime,
    until: datetime,
) -> Counted:
    """Count what happened from `since` to before `until`.

    Args:
        principal_id: Only this principal's sessions; None: everybody's.
        session_id: Only this one of them; None: all.
    """
    of = {
        "whose": principal_id or _EVERYBODY, "session": session_id or _EVERYBODY,
        "since": since, "until": until,
    }  # fmt: skip
    return Counted(
        plans=rows(tx, _PLANS, of),
        plan_times=rows(tx, _PLAN_TIMES, of),
        rollbacks=tx.execute(_ROLLBACKS, of).scalar_one(),
        subtasks=rows(tx, _SUBTASKS, of),
        subtask_times=rows(tx, _SUBTASK_TIMES, of),
        failures=rows(tx, _FAILURES, of),
        approvals=rows(tx, _APPROVALS, of),
        answers=rows(tx, _ANSWERS, of),
        calls=rows(tx, _CALLS, of),
        models=rows(tx, _MODELS, of),
    )


# What the audit log must have entries for: what people decided, and what ran.

_OF = bindparam("of", type_=Clean())
_QUESTIONS = select(
    approvals.c.id, approvals.c.kind, approvals.c.status, approvals.c.digest,
    approvals.c.decided_by, type_coerce(approvals.c.created_at, Text).label("asked_at"),
    type_coerce(approvals.c.decided_at, Text).label("decided_at"),
).where(approvals.c.session_id == _OF)  # fmt: skip
_RAN = select(
    tool_calls.c.id, tool_calls.c.digest, type_coerce(tool_calls.c.started_at, Text).label("at")
).where(tool_calls.c.session_id == _OF, tool_calls.c.started_at.is_not(None))
_OTHERS = union_all(
    select(
        literal("tool.denied").label("action"), tool_calls.c.id,
        type_coerce(tool_calls.c.finished_at, Text).label("at"),
    ).where(tool_calls.c.session_id == _OF, tool_calls.c.status == CallStatus.DENIED),
    select(
        literal("rule.made"), session_rules.c.id, type_coerce(session_rules.c.created_at, Text)
    ).where(session_rules.c.session_id == _OF),
    select(literal("link.made"), links.c.id, type_coerce(links.c.created_at, Text))
    .join(approvals, approvals.c.id == links.c.approval_id)
    .where(approvals.c.session_id == _OF),
    select(
        literal("plan.commented"), comments.c.id, type_coerce(comments.c.created_at, Text)
    ).where(comments.c.session_id == _OF),
    select(
        literal("grant.revoked"), grants.c.id, type_coerce(grants.c.ended_at, Text)
    ).where(grants.c.session_id == _OF, grants.c.status == "revoked"),
)  # fmt: skip
_IDS = union_all(
    select(approvals.c.id).where(approvals.c.session_id == _OF),
    select(tool_calls.c.id).where(tool_calls.c.session_id == _OF),
    select(plans.c.id).where(plans.c.session_id == _OF),
)
_ERASED = select(chains.c.chain).where(chains.c.chain != SYSTEM)
_OF_SYSTEM = union_all(
    select(literal(OPENED).label("action"), sessions.c.id),
    select(literal(DELETED), sessions.c.id).where(sessions.c.deleted == 1),
    *(_ERASED.with_only_columns(literal(action), chains.c.chain) for action in (OPENED, DELETED)),
    select(literal("token.created"), tokens.c.id),
    select(literal("token.revoked"), tokens.c.id).where(tokens.c.revoked_at.is_not(None)),
)


def held_of(tx: Tx, session_id: str) -> Iterator[Holding]:
    """Everything in a session that must have an entry in the session's chain."""
    for row in tx.execute(_QUESTIONS, {"of": session_id}):
        asked = claim_of_question(f"{row.kind}.asked", row.id, "", row.digest)
        yield Holding(asked, row.asked_at)
        if row.status != ApprovalStatus.PENDING:
            by = row.decided_by or "gonogo"
            closed = claim_of_question(f"{row.kind}.{row.status}", row.id, by, row.digest)
            yield Holding(closed, row.decided_at)
    for row in tx.execute(_RAN, {"of": session_id}):
        yield Holding(Claim(ALLOWED, row.id, digest=row.digest), row.at)
    for row in tx.execute(_OTHERS, {"of": session_id}):
        yield Holding(Claim(row.action, row.id), row.at)


def known_in(tx: Tx, session_id: str) -> set[str]:
    """The ids of everything that entries of a session's chain can be about."""
    return set(tx.execute(_IDS, {"of": session_id}).scalars())


def held_of_system(tx: Tx) -> Iterator[Holding]:
    """Everything that must have an entry in the system's chain."""
    for row in tx.execute(_OF_SYSTEM):
        yield Holding(Claim(row.action, row.id), "")
