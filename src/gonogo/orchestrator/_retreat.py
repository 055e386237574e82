"""Rollback on error: the files of a failed attempt go back before its failure is written."""

import logging
from collections.abc import Callable

from gonogo.domain.errors import Conflict
from gonogo.engine import Retreat, Work
from gonogo.orchestrator._rollback import Undoing, failed_attempt
from gonogo.orchestrator._undo import Rollbacks
from gonogo.store import Connection
from gonogo.store.checkpoints import attempt_checkpoint, is_being_undone

_LOG = logging.getLogger(__name__)
_BY = "on_failure"
"""Who rolls back, in events and in the audit log: the setting."""


def retreat(rollbacks: Rollbacks, check: Callable[[Connection, Work], None]) -> Retreat:
    """What the engine does about a failed attempt where files are to go back.

    What people changed since stays. The checkpoint that it takes first marks the attempt, so that
    after a crash in the middle the attempt is not gone on with.

    Args:
        check: Raises Superseded when the subtask is no longer the caller's.
    """

    def find(conn: Connection, work: Work) -> Undoing | None:
        check(conn, work)
        return failed_attempt(conn, work.revision.plan_id, work.subtask.id)

    async def undo(work: Work) -> None:
        try:
            found = await rollbacks.store.read(find, work)
            if found is not None:
                # Nobody but this attempt adds to what it changed, so what was found still holds.
                await rollbacks.carry_out(
                    lambda conn: find(conn, work) or found, _BY, include_shared=False, again=False
                )
        except Conflict as conflict:
            _LOG.warning("what %s changed stays: %s", work.key, conflict)

    return Retreat(undo=undo, began=_began)


def _began(conn: Connection, work: Work) -> bool:
    number = work.revision.number
    before = attempt_checkpoint(conn, work.revision.plan_id, number, work.subtask.id)
    return before is not None and is_being_undone(conn, before)
