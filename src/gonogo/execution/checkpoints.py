"""Checkpoints: the row that is written before every attempt of a subtask."""

from collections.abc import Sequence

from msgspec.structs import replace

from gonogo.domain.events import CheckpointCreated, CheckpointFacts
from gonogo.domain.records import Checkpoint, Plan
from gonogo.domain.undo import checkpoint_hash
from gonogo.execution.scheduling import Start
from gonogo.i18n import say
from gonogo.store import Tx, new_id
from gonogo.store import events as log
from gonogo.store.checkpoints import add_checkpoints, head_of


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
