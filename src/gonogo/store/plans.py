"""Plans, their revisions, their subtasks and their grants."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace
from pydantic import TypeAdapter
from sqlalchemy import Select, and_, bindparam, delete, exists, func, or_, select, union_all, update

from gonogo.domain.errors import Conflict
from gonogo.domain.plan import FORM, Revision, Subtask, as_meant, worker_name
from gonogo.domain.records import GrantRow, Plan, SubtaskRow, Watch
from gonogo.domain.schedule import SubtaskStanding
from gonogo.domain.states import BOUND, PLAN, SUBTASK, PlanStatus, SubtaskStatus
from gonogo.store.columns import Clean
from gonogo.store.rows import (
    among,
    by,
    change,
    change_all,
    columns_of,
    found_in,
    many,
    one,
    put,
    row_of,
    rows,
    same,
)
from gonogo.store.schema import (
    comments,
    grants,
    plan_revisions,
    plans,
    sessions,
    subtasks,
    turns,
    watches,
)
from gonogo.store.transaction import KnownPlan, Tx, go_on

T = TypeVar("T")
_SUBTASKS: TypeAdapter[tuple[Subtask, ...]] = TypeAdapter(tuple[Subtask, ...])

_POINTS = frozenset({"status", "revision", "approved_revision"})
"""Columns with the status of a plan and its revisions."""
_LOCK = by(plans, Plan, "id").with_for_update()
_NAMED_IDS = union_all(
    select(plans.c.id).where(plans.c.session_id == bindparam("of")),
    select(comments.c.id).where(comments.c.session_id == bindparam("of")),
)
_SEEN = select(sessions.c.id).where(sessions.c.deleted == 0)
_SEEN_OF = _SEEN.where(sessions.c.principal_id == bindparam("principal_id"))
_LIVE_PLANS = select(plans.c.id).where(among(plans.c.status, ("running", "replanning")))
_ROWS = by(subtasks, SubtaskRow, "plan_id", "revision").order_by(subtasks.c.position)
_STANDING = (
    subtasks.c.status, subtasks.c.not_before, subtasks.c.epoch, subtasks.c.attempt,
    subtasks.c.declined, subtasks.c.worked_ms,
)  # fmt: skip
_STANDINGS = (
    select(*_STANDING, func.aggregate_strings(subtasks.c.subtask_id, " "))
    .where(*same(subtasks, "plan_id", "revision"))
    .group_by(*_STANDING)
)
"""One row for all subtasks with the same standing, as most have the same; ids have no spaces."""
_RUNNING_SUBTASKS = (
    select(subtasks.c.key)
    .join(plans, plans.c.id == subtasks.c.plan_id)
    .where(subtasks.c.status == "running")
)
_OF_PLAN = same(plan_revisions, "plan_id")
_REVISIONS = select(plan_revisions).where(*_OF_PLAN).order_by(plan_revisions.c.number)
_REVISION = _REVISIONS.where(*same(plan_revisions, "number"))
_END_GRANTS = (
    update(grants)
    .where(grants.c.plan_id == bindparam("of"), grants.c.status == "active")
    .values(status="ended", ended_at=bindparam("at"), ended_because=bindparam("because"))
)
_END_GRANT = _END_GRANTS.where(grants.c.subtask_id == bindparam("key"))
_GRANTS = by(grants, GrantRow).order_by(grants.c.created_at, grants.c.id)
_GRANTS_IN = _GRANTS.where(*same(grants, "session_id"))
_GRANTS_SEEN = _GRANTS.where(grants.c.session_id.in_(_SEEN))
_GRANTS_SEEN_OF = _GRANTS.where(grants.c.session_id.in_(_SEEN_OF))
_ACTIVE_GRANT = by(grants, GrantRow, "plan_id", "revision", "subtask_id").where(
    grants.c.status == "active"
)
_REVOKED = select(grants.c.subtask_id).where(*same(grants, "plan_id"), grants.c.status == "revoked")
_GRANTED = select(grants.c.subtask_id).where(
    *same(grants, "plan_id", "revision"), grants.c.status == "active"
)
_ACCOUNT = select(plans.c.account).where(plans.c.id == bindparam("of"))
WRITTEN = "written"
"""The reason of a first revision that a person wrote; that of an agent is `proposed`."""
_MAKER = select(plan_revisions.c.created_by).where(
    *_OF_PLAN, plan_revisions.c.number == 1, plan_revisions.c.reason == WRITTEN
)
"""The principal who wrote a plan; for plans that no agent proposed."""
_PLAN_TURN = select(plans.c.turn_id).where(plans.c.id == bindparam("plan_id")).scalar_subquery()
_REQUESTER = (
    select(func.coalesce(turns.c.principal_id, _MAKER.scalar_subquery(), sessions.c.principal_id))
    .select_from(sessions)
    .outerjoin(turns, turns.c.id == func.coalesce(bindparam("turn_id", type_=Clean), _PLAN_TURN))
    .where(sessions.c.id == bindparam("session_id"))
)
_BY_AGENT = select(plan_revisions.c.number).where(
    *_OF_PLAN, plan_revisions.c.created_by.startswith("agent:")
)
_COUNT_REVISIONS = select(func.count()).where(*_OF_PLAN)


def subtask_key(plan_id: str, revision: int, subtask_id: str) -> str:
    """The key of a subtask's row; its job has the same key, and its threads begin with it."""
    return f"{plan_id}/{revision}/{subtask_id}"


def thread_name(key: str, attempt: int) -> str:
    """The name of the conversation of one attempt at a subtask."""
    return f"{key}#{attempt}"


def split_key(key: str) -> tuple[str, int, str]:
    """The plan, the revision and the subtask that a key names."""
    plan_id, revision, subtask_id = key.rsplit("/", 2)
    return plan_id, int(revision), subtask_id


def add_plan(tx: Tx, plan: Plan) -> None:
    """Insert a plan."""
    _written(tx, plan.id, lambda: put(tx, plans, row_of(plan)))


def add_revision(
    tx: Tx,
    revision: Revision,
    created_by: str,
    reason: str,
    *,
    kept: Mapping[str, SubtaskRow] = MappingProxyType({}),
) -> None:
    """Insert an immutable revision and a row for each of its subtasks.

    Args:
        kept: Subtask id → its row in the previous revision, for subtasks that keep their standing.
    """
    row = {
        "plan_id": revision.plan_id,
        "number": revision.number,
        "digest": revision.digest,
        "goal": revision.goal,
        "subtasks": [s.model_dump(mode="json", exclude_none=True) for s in revision.subtasks],
        "form": FORM,
        "created_at": tx.now,
        "created_by": created_by,
        "reason": reason,
    }
    put(tx, plan_revisions, row)
    rows_of = [_fresh(revision, s, n, kept.get(s.id)) for n, s in enumerate(revision.subtasks, 1)]
    _written(tx, revision.plan_id, lambda: put(tx, subtasks, rows_of))


def plan_of(tx: Tx, plan_id: str) -> Plan | None:
    """The plan of that id."""
    return one(tx, by(plans, Plan, "id"), {"id": plan_id}, Plan)


def lock_plan(tx: Tx, plan_id: str) -> Plan | None:
    """The plan of that id, locked until the transaction ends, so that rounds do not overlap."""
    return one(tx, _LOCK, {"id": plan_id}, Plan)


def move_plan(tx: Tx, plan: Plan, status: PlanStatus, **to: Any) -> bool:  # noqa: ANN401
    """Compare-and-set a plan's status on the status and revision that the caller saw.

    A move to `approved` approves the revision that the plan then has.

    Raises:
        IllegalTransition: a plan cannot move from its status to the new one.
        Conflict: the plan would continue in a revision that was not approved.
    """
    PLAN.check(plan.status, status, plan.id)
    if status is PlanStatus.APPROVED:
        to = {"approved_revision": to.get("revision", plan.revision), **to}
    return set_plan(tx, plan, status=status, **to)


def set_plan(tx: Tx, plan: Plan, **to: Any) -> bool:  # noqa: ANN401
    """Set columns of a plan, if its status and revision are as the caller saw them.

    Raises:
        Conflict: the plan would continue in a revision that was not approved.
    """
    if not to.keys().isdisjoint(_POINTS) and (then := replace(plan, **to)).status in BOUND:
        check_approved(then)
    where = {"id": plan.id, "status": plan.status, "revision": plan.revision}
    return _written(tx, plan.id, lambda: change(tx, plans, where, to))


def _written(tx: Tx, plan_id: str, write: Callable[[], T], moved: KnownPlan | None = None) -> T:
    """Run a write of a plan or its subtasks; all such writes go through this function."""
    return tx.known.through(plan_id, write, moved) if tx.known else write()


def maker_of(tx: Tx, plan: Plan) -> str | None:
    """The principal who wrote a plan; None if an agent proposed it."""
    return tx.execute(_MAKER, {"plan_id": plan.id}).scalar() if plan.turn_id is None else None


def requester_of(tx: Tx, session_id: str, turn_id: str | None, plan_id: str | None) -> str | None:
    """The principal whose message led to a turn or plan, or who wrote the plan; else the owner."""
    params = {"session_id": session_id, "turn_id": turn_id, "plan_id": plan_id}
    return tx.execute(_REQUESTER, params).scalar()


def sole_maker_of(tx: Tx, plan: Plan) -> str | None:
    """The principal who wrote a plan; None if an agent proposed it, or has changed it since."""
    maker = maker_of(tx, plan)
    by_agent = maker is not None and tx.execute(_BY_AGENT, {"plan_id": plan.id}).first()
    return None if by_agent else maker


def account_kept(tx: Tx, plan_id: str) -> str | None:
    """The stored account of a plan that is over; None until somebody has needed it."""
    return tx.execute(_ACCOUNT, {"of": plan_id}).scalar()


def keep_account(tx: Tx, plan_id: str, account: str | None) -> None:
    """Store the account of a plan; None deletes it, after the plan's outcome has changed."""
    _written(tx, plan_id, lambda: change(tx, plans, {"id": plan_id}, {"account": account}))


def end_revising(tx: Tx, plan_id: str) -> None:
    """Mark that the planner does not answer comments of a plan any more, whatever its status."""
    _written(tx, plan_id, lambda: change(tx, plans, {"id": plan_id}, {"revising": None}))


def revise_plan(
    tx: Tx,
    plan: Plan,
    revision: Revision,
    floor: int,
    **to: Any,  # noqa: ANN401
) -> bool:
    """Make a revision the plan's current one, compare-and-set on what the caller saw."""
    return set_plan(
        tx, plan, revision=revision.number, digest=revision.digest, finished_at=None, floor=floor,
        again=None, revising=None, **to,
    )  # fmt: skip


def check_approved(plan: Plan) -> None:
    """Check that the current revision of a plan is the one that was approved last.

    Raises:
        Conflict: the current revision is another one.
    """
    if plan.revision != plan.approved_revision:
        raise Conflict(
            "Revision {revision} of plan {plan_id} was never approved; name an approved revision",
            revision=plan.revision, plan_id=plan.id,
        )  # fmt: skip


def list_plans(
    tx: Tx,
    *,
    session_id: str | None = None,
    principal_id: str | None = None,
    status: str | None = None,
    limit: int = 1_000,
    offset: int = 0,
) -> tuple[list[Plan], int]:
    """A page of the plans of sessions that are not deleted, newest first, and how many there are.

    Args:
        principal_id: Only of this principal's sessions; None is everybody's.
    """
    wanted = {"session_id": session_id, "principal_id": principal_id, "status": status}
    params = {name: value for name, value in wanted.items() if value is not None}
    page, count = _plans_with(frozenset(params))
    found = many(tx, page, {**params, "limit": limit, "offset": offset}, Plan)
    return found, tx.execute(count, params).scalar_one()


@cache
def _plans_with(known: frozenset[str]) -> tuple[Select[Any], Select[Any]]:
    """The statements for a page of plans and for their number, filtered by these parameters."""
    where = [plans.c.session_id.in_(_SEEN_OF if "principal_id" in known else _SEEN)]
    where += [plans.c[name] == bindparam(name) for name in sorted(known - {"principal_id"})]
    page = (
        select(*columns_of(plans, Plan))
        .where(*where)
        .order_by(plans.c.created_at.desc(), plans.c.id.desc())
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )
    return page, select(func.count()).select_from(plans).where(*where)


def named_ids(tx: Tx, session_id: str) -> list[str]:
    """The ids of a session's plans and of the comments on them, sorted."""
    return sorted(tx.execute(_NAMED_IDS, {"of": session_id}).scalars())


def live_plans(tx: Tx, place: str | None = None) -> list[str]:
    """The ids of running and replanning plans: of all, or of those in a place."""
    return list(found_in(tx, place, _LIVE_PLANS, plans.c.session_id).scalars())


def revision_of(tx: Tx, plan_id: str, number: int) -> Revision | None:
    """One revision of a plan; cached, as it never changes."""
    row = tx.execute(_REVISION, {"plan_id": plan_id, "number": number}).one_or_none()
    if row is None:
        return None
    # By digest too: a transaction that was rolled back may have made another one of this number.
    kept = _kept_revision(plan_id, number, row.digest)
    if not kept:
        kept.append(_revision(row))
    return kept[0]


def current_revision(tx: Tx, plan: Plan) -> Revision:
    """The current revision of a plan."""
    found = revision_of(tx, plan.id, plan.revision)
    assert found is not None  # noqa: S101 - a plan and its revision are written together
    return found


def revisions_of(tx: Tx, plan_id: str) -> list[tuple[Revision, Any]]:
    """All revisions of a plan with their rows, oldest first."""
    return [(_revision(row), row) for row in rows(tx, _REVISIONS, {"plan_id": plan_id})]


def count_revisions(tx: Tx, plan_id: str) -> int:
    """How many revisions a plan has; they are numbered from 1."""
    return tx.execute(_COUNT_REVISIONS, {"plan_id": plan_id}).scalar_one()


def subtask_rows(tx: Tx, plan_id: str, revision: int) -> list[SubtaskRow]:
    """The rows of a revision's subtasks, in plan order."""
    return many(tx, _ROWS, {"plan_id": plan_id, "revision": revision}, SubtaskRow)


def runs_of_subtask(tx: Tx, plan_id: str, subtask_id: str) -> list[SubtaskRow]:
    """The rows of a subtask in all revisions of its plan that have it."""
    params = {"plan_id": plan_id, "subtask_id": subtask_id}
    return many(tx, by(subtasks, SubtaskRow, *params), params, SubtaskRow)


def standings(tx: Tx, plan_id: str, revision: int) -> dict[str, SubtaskStanding]:
    """The standing of each subtask of a revision."""
    found: dict[str, SubtaskStanding] = {}
    for *standing, ids in rows(tx, _STANDINGS, {"plan_id": plan_id, "revision": revision}):
        found |= dict.fromkeys(ids.split(" "), SubtaskStanding(*standing))
    return found


def subtask_row(tx: Tx, key: str) -> SubtaskRow | None:
    """The row of a subtask."""
    return one(tx, by(subtasks, SubtaskRow, "key"), {"key": key}, SubtaskRow)


def running_subtasks(tx: Tx, place: str | None = None) -> list[str]:
    """The keys of running subtasks: of all, or of those in a place."""
    return list(found_in(tx, place, _RUNNING_SUBTASKS, plans.c.session_id).scalars())


class Move(NamedTuple):
    """A change of one subtask's row: what the caller saw, and what it becomes."""

    key: str
    seen: SubtaskStatus
    held: int
    status: SubtaskStatus
    to: Mapping[str, Any]
    """Other columns to set."""


def move_subtasks(tx: Tx, moves: Sequence[Move], of: KnownPlan | None = None) -> bool:
    """Compare-and-set the statuses of subtasks on the statuses and epochs that the caller saw.

    False: one of them has changed meanwhile; the caller must raise to undo the others.

    Args:
        of: The plan as the caller has taken it, with these moves made.

    Raises:
        IllegalTransition: a subtask cannot move from its status to the new one.
    """
    if not moves:
        return True
    plan_id, _, _ = split_key(moves[0].key)
    changes = [_move(*move) for move in moves]
    return _written(tx, plan_id, lambda: change_all(tx, subtasks, changes), of)


def _move(
    key: str, seen: SubtaskStatus, held: int, status: SubtaskStatus, to: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    SUBTASK.check(seen, status, key)
    return {"key": key, "status": seen, "epoch": held}, {"status": status, **to}


def take_subtask(tx: Tx, row: SubtaskRow) -> bool:
    """Take a running subtask under the next epoch. False: somebody else took it."""
    where = {"key": row.key, "status": row.status, "epoch": row.epoch}
    to = {"epoch": row.epoch + 1}
    return _written(tx, row.plan_id, lambda: change(tx, subtasks, where, to))


def add_grants(tx: Tx, found: Sequence[GrantRow]) -> None:
    """Insert the grants of an approved revision."""
    put(tx, grants, [row_of(g) for g in found])


def revoked_subtasks(tx: Tx, plan_id: str) -> frozenset[str]:
    """The subtasks whose grant a person has revoked: later revisions do not grant it again."""
    return frozenset(tx.execute(_REVOKED, {"plan_id": plan_id}).scalars())


def granted_subtasks(tx: Tx, plan_id: str, revision: int) -> frozenset[str]:
    """The subtasks of a revision that have an active grant."""
    key = {"plan_id": plan_id, "revision": revision}
    return frozenset(tx.execute(_GRANTED, key).scalars())


def end_grant(tx: Tx, plan_id: str, subtask_id: str, because: str) -> None:
    """End the grant of one subtask; a retry by a person grants it again."""
    params = {"of": plan_id, "key": subtask_id, "at": tx.now, "because": because}
    tx.execute(_END_GRANT, params)


def end_grants(tx: Tx, plan_id: str, because: str) -> int:
    """End every grant of a plan, and return how many there were."""
    params = {"of": plan_id, "at": tx.now, "because": because}
    return tx.execute(_END_GRANTS, params).rowcount


def active_grant(tx: Tx, plan_id: str, revision: int, subtask_id: str) -> GrantRow | None:
    """The grant that covers a subtask now."""
    key = {"plan_id": plan_id, "revision": revision, "subtask_id": subtask_id}
    return one(tx, _ACTIVE_GRANT, key, GrantRow)


def list_grants(
    tx: Tx, session_id: str | None = None, principal_id: str | None = None
) -> list[GrantRow]:
    """The grants of a session, or of a principal's sessions, or of all sessions not deleted."""
    if session_id is not None:
        return many(tx, _GRANTS_IN, {"session_id": session_id}, GrantRow)
    if principal_id is None:
        return many(tx, _GRANTS_SEEN, {}, GrantRow)
    return many(tx, _GRANTS_SEEN_OF, {"principal_id": principal_id}, GrantRow)


def grant_of(tx: Tx, grant_id: str) -> GrantRow | None:
    """The grant of that id."""
    return one(tx, by(grants, GrantRow, "id"), {"id": grant_id}, GrantRow)


def revoke_grant(tx: Tx, grant_id: str, by_whom: str) -> bool:
    """Revoke one grant for a person. False: it had ended already."""
    where = {"id": grant_id, "status": "active"}
    to = {"status": "revoked", "ended_at": tx.now, "ended_because": f"revoked by {by_whom}"}
    return change(tx, grants, where, to)


def _fresh(
    revision: Revision, subtask: Subtask, position: int, kept: SubtaskRow | None
) -> Mapping[str, Any]:
    return {
        "key": subtask_key(revision.plan_id, revision.number, subtask.id),
        "plan_id": revision.plan_id,
        "revision": revision.number,
        "subtask_id": subtask.id,
        "position": position,
        "status": kept.status if kept else SubtaskStatus.PENDING,
        "attempt": kept.attempt if kept else 0,
        "epoch": 0,
        "started_at": kept.started_at if kept else None,
        "active_since": kept.active_since if kept else None,
        "finished_at": kept.finished_at if kept else None,
        "result": kept.result if kept else None,
        "error": kept.error if kept else None,
        "reason": kept.reason if kept else None,
        "worker": worker_name(subtask),
        "type": subtask.type,
        "declined": kept.declined if kept else False,
    }


@lru_cache(maxsize=256)
def _kept_revision(plan_id: str, number: int, digest: str) -> list[Revision]:
    return []


def _revision(row: Any) -> Revision:  # noqa: ANN401 - a database row
    is_older = row.form < FORM
    return Revision(
        plan_id=row.plan_id,
        number=row.number,
        goal=row.goal,
        subtasks=_SUBTASKS.validate_python(
            [as_meant(s) for s in row.subtasks] if is_older else row.subtasks
        ),
        written=tuple(row.subtasks) if is_older else None,
    )


# The plans of one workspace share a limit of subtasks that run there.

_WORKSPACE = select(sessions.c.workspace).where(sessions.c.id == bindparam("of"))
_BEGUN = ("running", "paused", "replanning")
_LOCK_WORKSPACE = select(
    func.pg_advisory_xact_lock(func.hashtextextended(_WORKSPACE.scalar_subquery(), 0))
)
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
        # In a plan that was sent back, only subtasks that have begun may continue.
        or_(plans.c.status == "running", and_(plans.c.status == "replanning", _HAS_BEGUN)),
    ),
).order_by(plans.c.id)


def count_elsewhere(tx: Tx, session_id: str, plan_id: str) -> int:
    """How many subtasks of other plans run in the workspace of a session.

    Nobody else can count there until the transaction ends, so two plans never take the same slot.
    """
    if tx.conn.dialect.name == "postgresql":
        tx.execute(_LOCK_WORKSPACE, {"of": session_id})
    return tx.execute(_RUN_ELSEWHERE, {"of": session_id, "plan_id": plan_id}).scalar_one()


def plans_that_wait(tx: Tx, session_id: str, plan_id: str) -> list[str]:
    """The ids of the workspace's other plans that still have something to start.

    They come in the order of a ring, from the given plan on, so that each gets its turn.
    """
    found = tx.execute(_WAITERS, {"of": session_id, "plan_id": plan_id}).scalars().all()
    return [key for key in found if key > plan_id] + [key for key in found if key < plan_id]


# Watches: the guarded names before a command, kept until gonogo has checked them after it.
#
# A row is written in the transaction that starts the call, and deleted in the one that writes what
# was found afterwards. So no name is missed if the process ends between the two.

WATCH = "watch"
"""The kind of job that checks the guarded names after a call, or removes what the call made."""

_OF = watches.c.call_id == bindparam("of")
_DROP = delete(watches).where(_OF)
_DUE = select(watches.c.call_id).where(watches.c.found.is_(None) | watches.c.taken_by.is_not(None))
_FOUND = (
    update(watches)
    .where(_OF, watches.c.found.is_(None))
    .values(found=bindparam("names", type_=watches.c.found.type), ended=bindparam("how"))
)
_GIVE_AWAY = update(watches).where(_OF).values(taken_by=bindparam("by_whom"))


def add_watch(tx: Tx, watch: Watch) -> None:
    """Begin a watch; it replaces that of an earlier attempt at the same call."""
    drop_watch(tx, watch.call_id)
    put(tx, watches, row_of(watch))


def watch_of(tx: Tx, call_id: str) -> Watch | None:
    """The watch of a call."""
    return one(tx, by(watches, Watch, "call_id"), {"call_id": call_id}, Watch)


def watches_of_session(tx: Tx, session_id: str) -> list[Watch]:
    """All watches of a session."""
    return many(tx, by(watches, Watch, "session_id"), {"session_id": session_id}, Watch)


def set_found(tx: Tx, call_id: str, found: Sequence[str], ended: str | None) -> bool:
    """Store the names that were found. False: somebody else has, or the watch is over."""
    params: dict[str, Any] = {"of": call_id, "names": list(found), "how": ended}
    return tx.execute(_FOUND, params).rowcount > 0


def give_away(tx: Tx, call_id: str, by_whom: str | None) -> None:
    """Let the job remove the names that were found; None: do not remove them any more."""
    tx.execute(_GIVE_AWAY, {"of": call_id, "by_whom": by_whom})
    if by_whom is not None:
        go_on(tx, WATCH, call_id)


def drop_watch(tx: Tx, call_id: str) -> bool:
    """End a watch. False: it is over already."""
    return tx.execute(_DROP, {"of": call_id}).rowcount > 0


def look_later(tx: Tx, call_id: str) -> None:
    """Start a job that finishes the watch of a call, if there is one: its owner goes away."""
    if watch_of(tx, call_id) is not None:
        go_on(tx, WATCH, call_id)


def resume_watches(tx: Tx, place: str | None = None) -> None:
    """After a start, start the jobs of all unfinished watches, or of those in a place."""
    for call_id in found_in(tx, place, _DUE, watches.c.session_id).scalars().all():
        go_on(tx, WATCH, call_id)
