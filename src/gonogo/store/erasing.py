"""Erasing a session: only the fact that it existed stays, nothing of its content.

First its rows are deleted, a bounded number in each transaction, so that nobody waits long. The
session's own row, to which all others refer, is the last: from then on nobody can add rows. What is
left is its audit chain, without the content of the entries, and the system's entries that it was
opened, deleted and erased, by whom and when. If erasing is cut off, it begins again, and the result
is the same.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Delete,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    union_all,
    update,
)

from gonogo.domain.audit_chain import ERASED, OPENED, PRUNED, SYSTEM, ChainHead
from gonogo.domain.errors import because
from gonogo.domain.records import Session
from gonogo.domain.states import ENDED, TURN, ApprovalStatus
from gonogo.store import events as log
from gonogo.store.audit import set_floor
from gonogo.store.columns import Clean, Utc
from gonogo.store.rows import columns_of, many, put, rows
from gonogo.store.schema import (
    answers,
    approvals,
    audit,
    chains,
    checkpoints,
    comments,
    deliveries,
    events,
    file_changes,
    grants,
    links,
    messages,
    model_requests,
    plan_revisions,
    plans,
    session_rules,
    sessions,
    subtasks,
    texts,
    timers,
    tool_calls,
    tool_hosts,
    turns,
    votes,
    watches,
)
from gonogo.store.transaction import Tx

_AT_ONCE = 2_000
"""How many rows one transaction deletes at most."""
_SESSIONS_AT_ONCE = 100
_OF = bindparam("of", type_=Clean())


def _ids(table: Table, column: str = "id") -> Select[Any]:
    return select(table.c[column]).where(table.c.session_id == _OF)


_PLANS, _QUESTIONS = _ids(plans), _ids(approvals)
_SUBTASKS = select(subtasks.c.key).where(subtasks.c.plan_id.in_(_PLANS))
_OWN: Sequence[tuple[Table, ColumnElement[bool]]] = (
    (
        timers,
        or_(
            *(
                timers.c.key.in_(found)
                for found in (
                    _PLANS, _QUESTIONS, _SUBTASKS, _ids(turns), _ids(tool_calls), _ids(deliveries)
                )
            )
        ),
    ),
    (votes, votes.c.approval_id.in_(_QUESTIONS)),
    (links, links.c.approval_id.in_(_QUESTIONS)),
    (subtasks, subtasks.c.plan_id.in_(_PLANS)),
    (plan_revisions, plan_revisions.c.plan_id.in_(_PLANS)),
    *(
        (table, table.c.session_id == _OF)
        # Tables that refer to others come before those.
        for table in (
            events, messages, texts, answers, deliveries, approvals, tool_calls, file_changes,
            checkpoints, comments, session_rules, grants, model_requests, watches, tool_hosts,
            plans, turns,
        )
    ),
)  # fmt: skip
"""The rows of a session, in an order in which they can be deleted."""


def _some(table: Table, own: ColumnElement[bool]) -> Delete:
    key = list(table.primary_key.columns)
    found = select(*key).where(own).limit(bindparam("most"))
    return delete(table).where(tuple_(*key).in_(found))


_DELETES = [_some(table, own) for table, own in _OWN]
_DELETED = (
    select(sessions.c.id, sessions.c.workspace)
    .where(sessions.c.deleted == 1)
    .order_by(sessions.c.id)
)
_HOLD = (
    select(sessions.c.audit_seq, sessions.c.audit_hash)
    .where(sessions.c.id == _OF, sessions.c.deleted == 1)
    .with_for_update()
)
_ERASED = select(chains.c.chain).where(chains.c.chain == _OF)
_UNSEALED = (
    select(audit.c.seq, audit.c.hash)
    .where(audit.c.chain == _OF, audit.c.seal.is_(None))
    .order_by(audit.c.seq.desc())
    .limit(1)
)
_FIRST = select(func.min(audit.c.seq)).where(audit.c.chain == _OF)
_REMOVE = delete(audit).where(audit.c.chain == _OF, audit.c.seq <= bindparam("upto"))
_SILENCE = (
    update(audit)
    .where(audit.c.chain == _OF, audit.c.seal.is_not(None))
    .values(subject="", details={}, salt=None)
)
_SILENCE_SYSTEM = (
    update(audit)
    .where(
        audit.c.chain == SYSTEM, audit.c.action == OPENED, audit.c.subject == _OF,
        audit.c.seal.is_not(None),
    )
    .values(details={}, salt=None)
)  # fmt: skip
_EXPIRED = (
    select(*columns_of(sessions, Session))
    .where(
        sessions.c.deleted == 0,
        sessions.c.updated_at < bindparam("before", type_=Utc()),
        ~exists().where(
            turns.c.session_id == sessions.c.id, turns.c.status.not_in(sorted(TURN.terminal))
        ),
        ~exists().where(
            plans.c.session_id == sessions.c.id,
            # A rollback that was cut off must still be finished.
            or_(plans.c.status.not_in(sorted(ENDED)), plans.c.rollback.is_not(None)),
        ),
        ~exists().where(
            approvals.c.session_id == sessions.c.id,
            approvals.c.status == ApprovalStatus.PENDING,
        ),
    )
    .order_by(sessions.c.updated_at, sessions.c.id)
    .limit(_SESSIONS_AT_ONCE)
    .with_for_update()
)
_END = delete(sessions).where(sessions.c.id == _OF)
_JOBS = union_all(_ids(turns), _PLANS, _SUBTASKS, _ids(tool_calls))


class Deleted(NamedTuple):
    """A session that was deleted but is not erased yet."""

    id: str
    workspace: str


def expired_sessions(tx: Tx, before: datetime) -> list[Session]:
    """Some of the sessions in which nothing is at work, and nothing has happened since a time."""
    return many(tx, _EXPIRED, {"before": before}, Session)


def deleted_sessions(tx: Tx, workspace: str | None = None) -> list[Deleted]:
    """The sessions to erase: all, or those of a workspace."""
    found = [Deleted(*row) for row in tx.execute(_DELETED)]
    return [deleted for deleted in found if workspace in (None, deleted.workspace)]


def keys_of(tx: Tx, session_ids: Iterable[str]) -> frozenset[str]:
    """The keys of all jobs that these sessions can have: their turns, plans, subtasks, calls."""
    return frozenset(
        key for each in session_ids for key in tx.execute(_JOBS, {"of": each}).scalars()
    )


def was_erased(tx: Tx, session_id: str) -> bool:
    """Whether there was a session of that id that was erased."""
    return session_id != SYSTEM and bool(rows(tx, _ERASED, {"of": session_id}))


def erase_rows(tx: Tx, session_id: str, most: int = _AT_ONCE) -> bool:
    """Delete some of the rows of a deleted session. False: there may be more."""
    left = most
    for statement in _DELETES:
        left -= tx.execute(statement, {"of": session_id, "most": left}).rowcount
        if left <= 0:
            return False
    return True


def end_session(tx: Tx, session_id: str) -> None:
    """Delete the rest of a deleted session, and the content of its audit entries."""
    of = {"of": session_id}
    # Locked, so that a transaction that is about to add a row waits, and then fails.
    held = rows(tx, _HOLD, of)
    if not held:
        return
    while not erase_rows(tx, session_id):
        pass
    _remove_unsealed(tx, session_id)
    tx.execute(_SILENCE, of)
    tx.execute(_SILENCE_SYSTEM, of)
    tx.execute(_END, of)
    head = {"audit_seq": held[0].audit_seq, "audit_hash": held[0].audit_hash}
    put(tx, chains, {"chain": session_id, **head})
    log.note(
        tx, SYSTEM, actor="gonogo", action=ERASED, subject=session_id,
        last=held[0].audit_seq, hash=held[0].audit_hash,
    )  # fmt: skip


def _remove_unsealed(tx: Tx, session_id: str) -> None:
    """Remove entries from before there were seals: their hashes cover their content."""
    of = {"of": session_id}
    last = tx.execute(_UNSEALED, of).one_or_none()
    if last is None:
        return
    first = tx.execute(_FIRST, of).scalar()
    tx.execute(_REMOVE, {**of, "upto": last.seq})
    set_floor(tx, ChainHead(chain=session_id, seq=last.seq, hash=last.hash))
    log.note(
        tx, SYSTEM, actor="gonogo", action=PRUNED, subject=session_id,
        first=first, last=last.seq, hash=last.hash, reason=because("its session was deleted"),
    )  # fmt: skip
