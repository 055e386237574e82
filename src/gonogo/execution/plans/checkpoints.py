"""Checkpoints: those before every attempt of a subtask, and those that people ask for."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import Conflict, ToolFailed, because
from gonogo.domain.events import plain
from gonogo.domain.identity import Principal
from gonogo.domain.records import Checkpoint, Plan
from gonogo.domain.schedule import SubtaskStanding
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus
from gonogo.domain.undo import checkpoint_hash, write_standings
from gonogo.execution.scheduling import Start, goes_on, waits_for_answer
from gonogo.i18n import say
from gonogo.store import Store, Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import place_of_work
from gonogo.store.checkpoints import add_checkpoints, head_of
from gonogo.store.plans import current_revision, lock_plan, standings
from gonogo.workspace import Snapshots, Traffic, Tree, Workspace


def checkpoint_starts(tx: Tx, plan: Plan, standings: str, starts: Sequence[Start]) -> None:
    """Write a checkpoint before each attempt that is about to start.

    There is none if a client runs the tools, since its files are not here. The snapshot is taken
    later, before the attempt's first effect: many attempts have none.

    Args:
        standings: The states of the subtasks, in plan order, before any of these starts.
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
    """A checkpoint with its own id and its hash."""
    made = replace(base, id=new_id("checkpoint"), reason=reason)
    return replace(made, hash=checkpoint_hash(made))


def created(checkpoint: Checkpoint, agent: str | None = None) -> dict[str, Any]:
    """The event that tells of a checkpoint."""
    facts = plain(
        checkpoint_id=checkpoint.id, reason=checkpoint.reason, subtask_id=checkpoint.subtask_id
    )
    return plain(
        type="checkpoint_created", plan_id=checkpoint.plan_id, subtask_id=checkpoint.subtask_id,
        agent=agent, metadata=facts,
    )  # fmt: skip


def keep_checkpoint(
    tx: Tx, plan: Plan, tree: Tree, reason: Callable[[str], str], of: Checkpoint | None = None
) -> Checkpoint:
    """Write a checkpoint of a plan as it is now, and tell of it.

    Args:
        reason: Gives the reason for it in a language.
        of: The checkpoint before the attempt during which this one is taken.
    """
    head, stand = head_of(tx, plan.session_id, plan.id), standings(tx, plan.id, plan.revision)
    base = Checkpoint(
        id="", session_id=plan.session_id, plan_id=plan.id, revision=plan.revision,
        subtask_id=of.subtask_id if of else None, attempt=of.attempt if of else 0, reason="",
        standings=write_standings(stand[s.id].status for s in current_revision(tx, plan).subtasks),
        event_seq=head.event_seq, last_change=head.last_change, tree=tree, hash="",
        created_at=tx.now,
    )  # fmt: skip
    made = sealed(base, reason(head.locale))
    add_checkpoints(tx, [made])
    log.tell(tx, plan.session_id, created(made))
    return made


# By hand: only while no subtask is half done, so that it contains whole results of subtasks.


class HandCheckpoints(Struct, frozen=True, kw_only=True):
    """Takes the checkpoints that people ask for.

    It refuses to take one while a subtask is at work, and does not wait for the subtask: that may
    take days if a person is asked, so it is better to tell the caller what to do.
    """

    store: Store
    snapshots: Snapshots
    traffic: Traffic
    open_workspace: Callable[[Path], Workspace] = Workspace
    patience: float = 5.0
    """Seconds to wait for calls in the folder, at most, as the caller needs an answer."""

    async def take(
        self, find: Callable[[Tx], Plan], by: Principal, note: str | None = None
    ) -> Checkpoint:
        """Write a checkpoint of a plan, with a snapshot of its workspace.

        Args:
            find: Finds the plan.
            note: What it is for, in the person's words.

        Raises:
            Conflict: something of the plan, or a call in its folder, is under way, or there can
                be no snapshot.
        """

        def look(tx: Tx) -> Path:
            plan = find(tx)
            root, host = place_of_work(tx, plan.session_id)
            if host == "client":
                raise Conflict(
                    "The client runs this session's tools, so there are no checkpoints; undo "
                    "changes in the client"
                )
            _check_between(tx, plan)
            return Path(root)

        root = await self.store.read(look)
        # Nobody writes files between the snapshot and its record, which checks the plan again.
        async with AsyncExitStack() as inside:
            try:
                with anyio.fail_after(self.patience):
                    await inside.enter_async_context(self.traffic.alone(root))
            except TimeoutError:
                raise Conflict(
                    "Another call is running in this folder, perhaps from another session; wait "
                    "until it ends, and try again"
                ) from None
            tree = await self._snapshot(root)
            return await self.store.write(_by_hand, find, tree, by, note)

    async def _snapshot(self, root: Path) -> Tree:
        try:
            return await anyio.to_thread.run_sync(
                lambda: self.snapshots.take(self.open_workspace(root))
            )
        except ToolFailed as failure:
            raise Conflict(
                "The files cannot be saved: {failure}; correct this and try again", failure=failure
            ) from failure


def check_rolled_back(plan: Plan) -> None:
    """Refuse while files of a plan are being put back.

    Raises:
        Conflict: the text says what to do about it.
    """
    if plan.rollback is not None:
        raise Conflict(
            "A rollback of plan {plan_id} is not finished; wait for it, or run it again if it "
            "was interrupted",
            plan_id=plan.id,
        )


def _check_between(tx: Tx, plan: Plan) -> None:
    """Refuse while a subtask is at work, or files are being put back."""
    check_rolled_back(plan)
    rows = standings(tx, plan.id, plan.revision)
    busy = {key: row for key, row in rows.items() if _is_half_done(row)}
    if busy:
        found = ", ".join(sorted(busy))
        raise Conflict(
            "Plan {plan_id} has unfinished work ({found}), so its files may be incomplete; "
            "{way_out}, and try again",
            plan_id=plan.id, found=found,
            way_out=_way_out(plan, {row.status for row in busy.values()}),
        )  # fmt: skip


def _is_half_done(row: SubtaskStanding) -> bool:
    """Whether a subtask is half done: it runs, or has begun and waits for anything."""
    runs = row.status is SubtaskStatus.RUNNING
    return runs or (row.status not in SUBTASK.terminal and goes_on(row))


def _way_out(plan: Plan, stand: Collection[SubtaskStatus]) -> str:
    """What to do so that nothing of a plan is half done any more.

    Args:
        stand: The states of the subtasks that are half done.
    """
    if SubtaskStatus.WAITING_APPROVAL in stand or waits_for_answer(plan):
        return because("answer its open questions (gonogo approvals list)")
    is_paused, runs = plan.status is PlanStatus.PAUSED, SubtaskStatus.RUNNING in stand
    if plan.status is PlanStatus.RUNNING and runs:
        return because("pause the plan, wait until that work ends")
    if is_paused and not runs:
        return because("resume the plan, wait until that work ends")
    return because("wait until that work ends")


def _by_hand(
    tx: Tx, find: Callable[[Tx], Plan], tree: Tree, by: Principal, note: str | None
) -> Checkpoint:
    plan = lock_plan(tx, find(tx).id)
    assert plan is not None  # noqa: S101 - found in this transaction
    _check_between(tx, plan)
    key = "checkpoint_noted" if note else "checkpoint_by_hand"
    made = keep_checkpoint(tx, plan, tree, lambda locale: say(key, locale, name=by.name, note=note))
    log.note(
        tx, plan.session_id, actor=by.id, action="checkpoint.created", subject=made.id,
        plan_id=plan.id, reason=note,
    )  # fmt: skip
    return made
