"""Model requests: what each took, what it was estimated to take before, and the sums."""

from sqlalchemy import Connection, Executable, bindparam, case, func, select

from gonogo.domain.records import ModelRequestRow, Plan
from gonogo.domain.replanning import Used
from gonogo.store._rows import change, put, row_of
from gonogo.store._schema import model_requests, sessions, subtasks

_R = model_requests.c
_TOKENS = _R.input_tokens + _R.output_tokens
_COUNTED = case(((_R.status == "failed") & (_TOKENS == 0), 0), else_=1)
_UNPRICED = case(((_R.status == "done") & (_TOKENS > 0) & (_R.cost_micros == 0), 1), else_=0)
_SUMS = select(
    func.coalesce(func.sum(_COUNTED), 0).label("requests"),
    func.coalesce(func.sum(_R.input_tokens), 0).label("input_tokens"),
    func.coalesce(func.sum(_R.output_tokens), 0).label("output_tokens"),
    func.coalesce(func.sum(_R.cost_micros), 0).label("cost_micros"),
    func.coalesce(func.sum(_UNPRICED), 0).label("unpriced"),
    func.coalesce(func.max(_R.output_tokens), 0).label("largest_output"),
    func.coalesce(func.max(_R.cost_micros), 0).label("largest_cost"),
)
_OF_PLAN = _SUMS.where(_R.plan_id == bindparam("of"))
_OF_SESSION = _SUMS.where(_R.session_id == bindparam("of"))
# A row that a later revision took over has the same start, so that its runs count once.
_EACH = (
    select(func.max(subtasks.c.attempt).label("attempts"))
    .where(subtasks.c.plan_id == bindparam("of"), subtasks.c.attempt > 0)
    .group_by(subtasks.c.subtask_id, subtasks.c.started_at)
    .subquery()
)
_RUNS = select(func.coalesce(func.sum(_EACH.c.attempts), 0))
_LOCK = select(sessions.c.id).where(sessions.c.id == bindparam("of")).with_for_update()


def add_request(conn: Connection, row: ModelRequestRow) -> None:
    """Insert a request."""
    put(conn, model_requests, row_of(row))


def end_request(conn: Connection, row: ModelRequestRow) -> None:
    """Write what a request took, in the place of its estimate if it was reserved."""
    to = {
        "status": row.status, "model": row.model, "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens, "cost_micros": row.cost_micros,
        "duration_ms": row.duration_ms,
    }  # fmt: skip
    if not change(conn, model_requests, {"id": row.id}, to):
        add_request(conn, row)


def refuse_request(conn: Connection, request_id: str, *, free: bool) -> None:
    """A reserved request has no reply.

    Args:
        free: The provider refused it, so that it took nothing; else it counts as its estimate.
    """
    nothing = {"input_tokens": 0, "output_tokens": 0, "cost_micros": 0} if free else {}
    change(conn, model_requests, {"id": request_id}, {"status": "failed", **nothing})


def used_by_plan(conn: Connection, plan_id: str) -> Used:
    """What the model requests of a plan took, over all its revisions."""
    return _used(conn, _OF_PLAN, plan_id)


def runs_of_plan(conn: Connection, plan: Plan) -> int:
    """How many runs of its subtasks a plan has begun, over all its revisions."""
    counted = (plan.budget or {}).get("runs")
    return int(conn.execute(_RUNS, {"of": plan.id}).scalar_one() if counted is None else counted)


def used_by_session(conn: Connection, session_id: str) -> Used:
    """What the model requests of a session took, those of its plans included."""
    return _used(conn, _OF_SESSION, session_id)


def hold_session(conn: Connection, session_id: str) -> None:
    """Until the transaction ends nobody else counts what the session took."""
    conn.execute(_LOCK, {"of": session_id})


def _used(conn: Connection, statement: Executable, key: str) -> Used:
    # PostgreSQL gives sums of whole numbers as decimals.
    sums = conn.execute(statement, {"of": key}).mappings().one()
    return Used(**{name: int(sums[name]) for name in Used.__dataclass_fields__})
