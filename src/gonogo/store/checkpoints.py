"""Checkpoints of plans, and the recorded changes of files."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import bindparam, delete, func, select

from gonogo.domain.records import Checkpoint, FileChange
from gonogo.domain.undo import checkpoint_hash
from gonogo.store.rows import by, change, many, one, put, row_of, same
from gonogo.store.schema import checkpoints, file_changes, sessions
from gonogo.store.transaction import Tx

_LAST_CHANGE = (
    select(func.coalesce(func.max(file_changes.c.id), 0))
    .where(file_changes.c.plan_id == bindparam("plan_id"))
    .scalar_subquery()
)
_HEAD = select(
    sessions.c.last_seq, sessions.c.spoken, sessions.c.tool_host, _LAST_CHANGE.label("last_change")
).where(sessions.c.id == bindparam("session_id"))
_NEWEST_FIRST = by(checkpoints, Checkpoint).order_by(
    checkpoints.c.created_at.desc(), checkpoints.c.id.desc()
)
_OF_PLAN = (
    by(checkpoints, Checkpoint, "plan_id")
    .order_by(checkpoints.c.created_at, checkpoints.c.id)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_COUNT = select(func.count()).where(*same(checkpoints, "plan_id"))
_LATEST = _NEWEST_FIRST.where(*same(checkpoints, "plan_id")).limit(1)
_OF_ATTEMPT = (
    by(checkpoints, Checkpoint, "plan_id", "revision", "subtask_id")
    .order_by(checkpoints.c.attempt.desc(), checkpoints.c.id)
    .limit(1)
)
_CHANGES = (
    by(file_changes, FileChange, "plan_id")
    .where(file_changes.c.id > bindparam("after"))
    .order_by(file_changes.c.id)
)
_CHANGES_OF = by(file_changes, FileChange, "plan_id", "subtask_id").order_by(file_changes.c.id)
_CHANGES_IN = by(file_changes, FileChange, "session_id").order_by(file_changes.c.id)
_CLEAR = delete(file_changes).where(*same(file_changes, "session_id", "call_id"))
_DROP = _CLEAR.where(*same(file_changes, "path"))
_ATTEMPT = ("plan_id", "revision", "subtask_id", "attempt")
_COUNT_OF_ATTEMPT = select(func.count()).where(*same(checkpoints, *_ATTEMPT))


_NEWEST = (
    select(func.max(file_changes.c.id))
    .where(file_changes.c.plan_id == bindparam("plan_id"), file_changes.c.subtask_id.is_not(None))
    .group_by(file_changes.c.subtask_id)
)
_OWN = file_changes.alias()
_LEFT = (
    select(_OWN.c.after)
    .where(
        _OWN.c.plan_id == file_changes.c.plan_id,
        _OWN.c.subtask_id == file_changes.c.subtask_id,
        _OWN.c.path == file_changes.c.path,
        _OWN.c.origin != "rollback",
    )
    .order_by(_OWN.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_UNDONE = select(
    file_changes.c.subtask_id, file_changes.c.created_at, file_changes.c.after, _LEFT.label("left")
).where(file_changes.c.id.in_(_NEWEST), file_changes.c.origin == "rollback")


class PlanHead(NamedTuple):
    """The current state of a session and of a plan's files."""

    event_seq: int
    locale: str
    tool_host: str
    last_change: int


def head_of(tx: Tx, session_id: str, plan_id: str) -> PlanHead:
    """Read what a checkpoint of a plan records of this moment, in one statement."""
    params = {"session_id": session_id, "plan_id": plan_id}
    head = PlanHead(*tx.execute(_HEAD, params).one())
    told = tx.outbox.pending.get(session_id)
    return head._replace(event_seq=head.event_seq + len(told.bodies)) if told else head


def undone_subtasks(tx: Tx, plan_id: str) -> dict[str, datetime]:
    """The subtasks whose last change is a rollback, and its time: their work is gone.

    A subtask whose file is again as it left it is not among them: that rollback was undone.
    """
    found = tx.execute(_UNDONE, {"plan_id": plan_id})
    return {row.subtask_id: row.created_at for row in found if row.after != row.left}


def add_checkpoints(tx: Tx, found: Sequence[Checkpoint]) -> None:
    """Insert checkpoints, all in one statement."""
    put(tx, checkpoints, [row_of(c) for c in found])


def checkpoint_of(tx: Tx, checkpoint_id: str) -> Checkpoint | None:
    """The checkpoint of that id."""
    return one(tx, by(checkpoints, Checkpoint, "id"), {"id": checkpoint_id}, Checkpoint)


def list_checkpoints(tx: Tx, plan_id: str, limit: int, offset: int = 0) -> list[Checkpoint]:
    """A page of a plan's checkpoints, oldest first."""
    params = {"plan_id": plan_id, "limit": limit, "offset": offset}
    return many(tx, _OF_PLAN, params, Checkpoint)


def count_checkpoints(tx: Tx, plan_id: str) -> int:
    """How many checkpoints a plan has."""
    return tx.execute(_COUNT, {"plan_id": plan_id}).scalar_one()


def latest_checkpoint(tx: Tx, plan_id: str) -> Checkpoint | None:
    """The newest checkpoint of a plan."""
    return one(tx, _LATEST, {"plan_id": plan_id}, Checkpoint)


def attempt_checkpoint(tx: Tx, plan_id: str, revision: int, subtask_id: str) -> Checkpoint | None:
    """The checkpoint before the latest attempt of a subtask."""
    key = {"plan_id": plan_id, "revision": revision, "subtask_id": subtask_id}
    return one(tx, _OF_ATTEMPT, key, Checkpoint)


def is_being_undone(tx: Tx, before: Checkpoint) -> bool:
    """Whether the attempt after a checkpoint has a second checkpoint, the one for its undoing."""
    key = {name: getattr(before, name) for name in _ATTEMPT}
    return tx.execute(_COUNT_OF_ATTEMPT, key).scalar_one() > 1


def set_tree(tx: Tx, checkpoint: Checkpoint, tree: str) -> bool:
    """Give a checkpoint its snapshot. False: it has one already."""
    whole = replace(checkpoint, tree=tree)
    where = {"id": checkpoint.id, "hash": checkpoint.hash}
    return change(tx, checkpoints, where, {"tree": tree, "hash": checkpoint_hash(whole)})


class Touched(NamedTuple):
    """One path that a call, or a rollback, changed."""

    path: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Doer(NamedTuple):
    """The call, and its work, whose changes are recorded."""

    session_id: str
    plan_id: str | None
    revision: int | None
    subtask_id: str | None
    call_id: str | None
    workspace: str


def add_changes(tx: Tx, doer: Doer, origin: str, touched: Sequence[Touched]) -> None:
    """Record changes, in order."""
    told = {**doer._asdict(), "origin": origin, "created_at": tx.now}
    put(tx, file_changes, [{**told, **each._asdict()} for each in touched])


def changes_after(tx: Tx, plan_id: str, change_id: int) -> list[FileChange]:
    """The changes of a plan after a given change, oldest first."""
    return many(tx, _CHANGES, {"plan_id": plan_id, "after": change_id}, FileChange)


def changes_of_subtask(tx: Tx, plan_id: str, subtask_id: str) -> list[FileChange]:
    """The changes of a subtask in all revisions and attempts, oldest first."""
    params = {"plan_id": plan_id, "subtask_id": subtask_id}
    return many(tx, _CHANGES_OF, params, FileChange)


def changes_of_session(tx: Tx, session_id: str) -> list[FileChange]:
    """All changes in a session, of its plans and others, oldest first."""
    return many(tx, _CHANGES_IN, {"session_id": session_id}, FileChange)


def drop_changes(tx: Tx, doer: Doer, paths: Collection[str]) -> None:
    """Delete the records of a call for paths on which it had no effect."""
    of = {"session_id": doer.session_id, "call_id": doer.call_id}
    if paths:
        tx.execute(_DROP, [{**of, "path": path} for path in paths])


def clear_changes(tx: Tx, doer: Doer) -> None:
    """Delete all records of a call."""
    tx.execute(_CLEAR, {"session_id": doer.session_id, "call_id": doer.call_id})


def set_after(tx: Tx, doer: Doer, touched: Sequence[Touched]) -> None:
    """Complete the records of a call with the states after it."""
    for path, _, after in touched:
        where = {"session_id": doer.session_id, "call_id": doer.call_id, "path": path}
        change(tx, file_changes, where, {"after": after})
