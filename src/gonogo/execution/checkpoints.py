"""Checkpoints: the row that is written before every attempt of a subtask."""

import logging
from collections.abc import Sequence
from datetime import timedelta

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import ToolFailed
from gonogo.domain.events import CheckpointCreated, CheckpointFacts
from gonogo.domain.records import Checkpoint, Job, Plan
from gonogo.domain.undo import checkpoint_hash
from gonogo.execution.erasures import Erasures
from gonogo.execution.scheduling import Start
from gonogo.i18n import say
from gonogo.store import Store, Tx, new_id
from gonogo.store import events as log
from gonogo.store.checkpoints import add_checkpoints, head_of
from gonogo.store.jobs import give_up_snapshots, has_timer, kept_objects, set_timer
from gonogo.store.people import forget_answers
from gonogo.workspace import Snapshots


def checkpoint_starts(tx: Tx, plan: Plan, standings: str, starts: Sequence[Start]) -> None:
    """Write a checkpoint before each attempt that is about to start.

    There is none where a client carries the tools out, since its files are not here. The snapshot
    is taken later, before the attempt's first effect: many have none.

    Args:
        standings: Where the subtasks stand, in plan order, before any of these starts.
    """
    head = head_of(tx, plan.session_id, plan.id)
    if head.tool_host == "client":
        return
    base = Checkpoint(
        id="", session_id=plan.session_id, plan_id=plan.id, revision=plan.revision,
        subtask_id=None, attempt=0, reason="", standings=standings, event_seq=head.event_seq,
        last_change=head.last_change, tree=None, hash="", created_at=tx.now,
    )  # fmt: skip
    found = [_before(base, start, head.locale) for start in starts]
    add_checkpoints(tx, found)
    told = (
        created(checkpoint, start.agent) for checkpoint, start in zip(found, starts, strict=True)
    )
    log.tell(tx, plan.session_id, *told)


def _before(base: Checkpoint, start: Start, locale: str) -> Checkpoint:
    key, attempt = start.subtask_id, start.attempt
    reason = say("checkpoint_subtask", locale, subtask=key, attempt=attempt)
    return sealed(replace(base, subtask_id=key, attempt=attempt), reason)


def sealed(base: Checkpoint, reason: str) -> Checkpoint:
    """A checkpoint under an id of its own, with its hash."""
    made = replace(base, id=new_id("checkpoint"), reason=reason)
    return replace(made, hash=checkpoint_hash(made))


def created(checkpoint: Checkpoint, agent: str | None = None) -> CheckpointCreated:
    """The event that tells of a checkpoint."""
    facts = CheckpointFacts(
        checkpoint_id=checkpoint.id, reason=checkpoint.reason, subtask_id=checkpoint.subtask_id
    )
    return CheckpointCreated(
        plan_id=checkpoint.plan_id, subtask_id=checkpoint.subtask_id, agent=agent, metadata=facts
    )


# Sweeps: once a day what is kept for nobody goes.
#
# That are sessions that nobody touched for long, answers to requests that nobody repeats any more,
# the snapshots of plans that ended long ago, and what of the snapshots nobody asks for.

_LOG = logging.getLogger(__name__)
SWEEP = "sweep"
"""The job that sweeps, and the timer that asks for it."""
_KEY = "snapshots"
_FIRST = timedelta(minutes=10)
_AGAIN = timedelta(days=1)
_ANSWERS = timedelta(days=7)
"""For how long a request can be repeated under its key."""


class Sweeps(Struct, frozen=True, kw_only=True):
    """Takes away what is kept for nobody."""

    store: Store
    snapshots: Snapshots
    erasures: Erasures
    days: float
    """For how long after its end a plan can be rolled back; 0: for ever."""
    retention: float
    """Days for which a session is kept in which nothing happens; 0: for ever."""

    def arm(self, tx: Tx) -> None:
        """After a start: have the next sweep come."""
        if not has_timer(tx, SWEEP, _KEY):
            set_timer(tx, SWEEP, _KEY, tx.now + _FIRST)

    async def job(self, job: Job) -> None:
        """Sweep, and have the next one come."""
        now, marked = self.store.clock(), 0
        await self.store.write(set_timer, SWEEP, _KEY, now + _AGAIN)
        if self.retention:
            await self.erasures.expire(self.retention)
        await self.store.write(forget_answers, now - _ANSWERS)
        if self.days:
            marked = await self.store.write(give_up_snapshots, now - timedelta(days=self.days))
        keep = await self.store.read(kept_objects)
        try:
            gone = await anyio.to_thread.run_sync(self.snapshots.sweep, keep)
        except ToolFailed as failure:
            _LOG.warning("snapshots were not swept: %s", failure)
            return
        _LOG.info("gave up %d checkpoints; %d objects of snapshots are gone", marked, gone)
