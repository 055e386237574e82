"""Rollback: puts files back as they were before an agent changed them.

Promises: it touches a file only if that still has the contents that the agent left; it can itself
be undone, since a checkpoint comes first; a dry run changes nothing; after a crash in the middle,
running it again completes it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import asdict

from gonogo.domain.errors import Conflict, NotFound, ToolFailed
from gonogo.domain.events import PlanRolledBack, RollbackFacts
from gonogo.domain.plan import Revision, dependants, no_subtask
from gonogo.domain.plan_views import RollbackFile
from gonogo.domain.records import Checkpoint, FileChange, Plan, Session, SubtaskRow
from gonogo.domain.states import ENDED, SUBTASK, PlanStatus, SubtaskStatus
from gonogo.domain.undo import (
    FOLDER,
    PathUndo,
    Reckoning,
    State,
    read_standings,
    real_path,
    reckon,
    shown_path,
)
from gonogo.execution.plans import check_held, keep_checkpoint
from gonogo.execution.plans.ending import take_up
from gonogo.execution.scheduling import RESUME, ROLLING_BACK, Work, unsettled
from gonogo.i18n import say
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.checkpoints import (
    Doer,
    Touched,
    add_changes,
    attempt_checkpoint,
    changes_after,
    checkpoint_of,
    is_being_undone,
    latest_checkpoint,
)
from gonogo.store.jobs import drop_timer, given_up, set_timer
from gonogo.store.plans import (
    current_revision,
    keep_account,
    lock_plan,
    plan_of,
    revision_of,
    set_plan,
    standings,
    subtask_rows,
)
from gonogo.store.sessions import session_of
from gonogo.workspace import (
    FileState,
    Folders,
    Left,
    Restore,
    RestoreItem,
    Snapshots,
    Traffic,
    Tree,
    Workspace,
)

# What a rollback is about: which changes of which plan, and whether it may run now.

BUSY = frozenset({SubtaskStatus.RUNNING, SubtaskStatus.WAITING_APPROVAL})
_QUIET = ENDED | {PlanStatus.PAUSED}


class Undoing(Struct, frozen=True, kw_only=True):
    """A rollback that somebody wants, and what it covers."""

    session: Session
    plan: Plan
    revision: Revision
    changes: tuple[FileChange, ...]
    """Oldest first."""
    named: frozenset[str]
    """The named subtask and its dependants; for a whole plan, all subtasks that have begun."""
    subtask_id: str | None = None
    """The subtask that was named."""
    back_to: Checkpoint | None = None
    """The checkpoint that was named, or else the latest."""
    whole: bool = False
    """Everything that the plan did is undone."""
    attempt: Checkpoint | None = None
    """The checkpoint before a failed attempt, if that attempt is undone."""

    @property
    def subtasks(self) -> list[str]:
        """The subtasks of the current revision whose changes are undone, in plan order."""
        found = {change.subtask_id for change in self.changes} | self.named
        return [key for key in self.revision.by_id if key in found]


class Target(NamedTuple):
    """What a rollback should undo; if nothing is named, everything since the latest checkpoint."""

    checkpoint_id: str | None = None
    subtask_id: str | None = None
    whole: bool = False

    def __str__(self) -> str:
        """The name of it in an error."""
        if self.whole:
            return "of the whole plan"
        return f"to {self.checkpoint_id}" if self.checkpoint_id else f"of subtask {self.subtask_id}"


def wanted_rollback(
    tx: Tx,
    plan_id: str,
    checkpoint_id: str | None,
    subtask_id: str | None,
    *,
    whole: bool = False,
    looks: bool = False,
) -> Undoing:
    """Find what to undo: all since a checkpoint, a subtask with its dependants, or a whole plan.

    A rollback that was interrupted must be completed before another one; it need not be named.

    Args:
        looks: This is a dry run, so the plan may go on meanwhile.

    Raises:
        NotFound: there is no such plan, checkpoint or subtask.
        Conflict: something of the plan runs, or it has no checkpoint.
    """
    plan = plan_of(tx, plan_id)
    if plan is None:
        raise NotFound("No plan found with id={plan_id}", see="gonogo plans list", plan_id=plan_id)
    session, revision = _around(tx, plan)
    if not looks:
        check_quiet(tx, plan)
    target = _unfinished(plan, Target(checkpoint_id, subtask_id, whole))
    if target.subtask_id is not None:
        undoing = _of_subtask(tx, session, plan, revision, target.subtask_id)
    elif target.whole:
        undoing = _of_plan(tx, session, plan, revision)
    else:
        checkpoint = _named_checkpoint(tx, plan, target.checkpoint_id)
        undoing = Undoing(
            session=session, plan=plan, revision=revision, named=frozenset(), back_to=checkpoint,
            changes=tuple(changes_after(tx, plan.id, checkpoint.last_change)),
        )  # fmt: skip
    check_kept(tx, undoing)
    return undoing


def check_kept(tx: Tx, undoing: Undoing) -> None:
    """Refuse a rollback that needs contents which were deleted.

    Raises:
        Conflict: the text says up to when they were deleted.
    """
    swept = given_up(tx, undoing.plan.id)
    if swept is None:
        return
    gone = undoing.back_to is not None and undoing.back_to.swept_at is not None
    if gone or any(change.created_at <= swept for change in undoing.changes):
        raise Conflict(
            "Plan {plan_id} cannot be rolled back that far: its snapshots up to {swept} were "
            "deleted (GONOGO_KEEP_CHECKPOINTS_DAYS); choose a newer checkpoint",
            plan_id=undoing.plan.id, swept=f"{swept:%Y-%m-%d}",
        )  # fmt: skip


def failed_attempt(tx: Tx, plan_id: str, subtask_id: str) -> Undoing | None:
    """What to undo for the running attempt of a subtask; None if it changed nothing."""
    plan = plan_of(tx, plan_id)
    if plan is None:
        return None
    session, revision = _around(tx, plan)
    before = attempt_checkpoint(tx, plan_id, plan.revision, subtask_id)
    if before is None:
        return None
    changes = _by(changes_after(tx, plan_id, before.last_change), {subtask_id})
    if not changes:
        return None
    return Undoing(
        session=session, plan=plan, revision=revision, changes=changes,
        named=frozenset({subtask_id}), attempt=before,
    )  # fmt: skip


def check_quiet(tx: Tx, plan: Plan) -> None:
    """Refuse while something of a plan runs or is about to.

    Raises:
        Conflict: the text says what to do about it.
    """
    if plan.status in {PlanStatus.AWAITING_APPROVAL, PlanStatus.APPROVED}:
        raise Conflict(
            "Plan {plan_id} is {plan_status}; decide on it or cancel it first",
            plan_id=plan.id, plan_status=plan.status,
        )  # fmt: skip
    if plan.status is PlanStatus.REPLANNING:
        raise Conflict(
            "Plan {plan_id} is replanning; wait for its new revision, or cancel it", plan_id=plan.id
        )
    if plan.status not in _QUIET:
        raise Conflict(
            "Plan {plan_id} is {plan_status}; pause it first",
            plan_id=plan.id, plan_status=plan.status,
        )  # fmt: skip
    rows = standings(tx, plan.id, plan.revision)
    busy = {key for key, row in rows.items() if row.status in BUSY} | unsettled(tx, plan, rows)
    if plan.status is PlanStatus.PAUSED and busy:
        found = ", ".join(sorted(busy))
        raise Conflict(
            "Plan {plan_id} is paused, but {found} has not stopped yet; try again in a moment",
            plan_id=plan.id,
            found=found,
        )


def _unfinished(plan: Plan, named: Target) -> Target:
    """The target that was named, or that of the unfinished rollback."""
    if plan.rollback is None:
        return named
    kept = plan.rollback
    first = Target(kept["checkpoint_id"], kept["subtask_id"], kept.get("whole", False))
    if named not in {Target(), first}:
        raise Conflict(
            (
                "The rollback {first} is not finished; wait for it, or run it again if it was "
                "interrupted"
            ),
            first=first,
        )
    return first


def _around(tx: Tx, plan: Plan) -> tuple[Session, Revision]:
    session, revision = session_of(tx, plan.session_id), current_revision(tx, plan)
    assert session is not None  # noqa: S101 - a foreign key away
    if session.tool_host == "client":
        raise Conflict(
            "The client runs this session's tools, so there are no checkpoints and no rollback; "
            "undo changes in the client"
        )
    return session, revision


def _of_subtask(
    tx: Tx, session: Session, plan: Plan, revision: Revision, subtask_id: str
) -> Undoing:
    if subtask_id not in revision.by_id:
        raise no_subtask(plan.id, subtask_id)
    named = dependants(revision.subtasks, subtask_id) | {subtask_id}
    changes = _by(changes_after(tx, plan.id, 0), named)
    return Undoing(
        session=session, plan=plan, revision=revision, changes=changes, named=frozenset(named),
        subtask_id=subtask_id,
    )  # fmt: skip


def _of_plan(tx: Tx, session: Session, plan: Plan, revision: Revision) -> Undoing:
    _named_checkpoint(tx, plan, None)
    rows = standings(tx, plan.id, plan.revision)
    begun = (key for key, row in rows.items() if row.attempt or row.status in SUBTASK.terminal)
    return Undoing(
        session=session, plan=plan, revision=revision, named=frozenset(begun), whole=True,
        changes=tuple(changes_after(tx, plan.id, 0)),
    )  # fmt: skip


def _named_checkpoint(tx: Tx, plan: Plan, checkpoint_id: str | None) -> Checkpoint:
    if checkpoint_id is None:
        found = latest_checkpoint(tx, plan.id)
        if found is None:
            raise Conflict(
                "Plan {plan_id} has no checkpoints, because nothing of it has run; there is "
                "nothing to undo",
                plan_id=plan.id,
            )
        return found
    found = checkpoint_of(tx, checkpoint_id)
    if found is None or found.plan_id != plan.id:
        raise NotFound(
            "Plan {plan_id} has no checkpoint {checkpoint_id}; list its checkpoints: gonogo "
            "checkpoints list {plan_id}",
            plan_id=plan.id, checkpoint_id=checkpoint_id,
        )  # fmt: skip
    return found


def _by(
    changes: Sequence[FileChange], subtasks: frozenset[str] | set[str]
) -> tuple[FileChange, ...]:
    return tuple(change for change in changes if change.subtask_id in subtasks)


# What runs again after a rollback: the next revision of a paused plan.

Rows = Mapping[str, SubtaskRow]


def run_again(tx: Tx, undoing: Undoing, plan: Plan, by: str) -> list[str]:
    """Have the undone subtasks run again when a paused plan goes on.

    Rows never leave a terminal state, so the plan gets a new revision; the person who rolls back
    approves it by that. Going back to a checkpoint also restores the results that existed then.
    Returns the subtasks that will run again; none if the plan stays as it is.
    """
    current = current_revision(tx, plan)
    rows = {row.subtask_id: row for row in subtask_rows(tx, plan.id, plan.revision)}
    if any(row.status in BUSY for row in rows.values()):
        raise Conflict(
            "Plan {plan_id} has continued in the meantime; look at it again", plan_id=plan.id
        )
    kept = _kept(tx, undoing, current, rows)
    if {key: row.key for key, row in kept.items()} == {
        key: row.key for key, row in rows.items() if row.status in SUBTASK.terminal
    }:
        return []
    again = [key for key, row in rows.items() if key not in kept and _has_run(row)]
    take_up(tx, plan, kept, by, "rollback")
    return again


def _kept(tx: Tx, undoing: Undoing, current: Revision, rows: Rows) -> dict[str, SubtaskRow]:
    target = undoing.back_to
    if target is None:
        left = {key: row for key, row in rows.items() if key not in undoing.named}
        return {key: row for key, row in left.items() if row.status in SUBTASK.terminal}
    then = revision_of(tx, target.plan_id, target.revision)
    assert then is not None  # noqa: S101 - the checkpoint was taken in it
    stood = zip(
        subtask_rows(tx, target.plan_id, target.revision),
        read_standings(target.standings),
        strict=True,
    )
    return {
        row.subtask_id: rows[row.subtask_id] if _same(rows.get(row.subtask_id), row) else row
        for row, status in stood
        if status in SUBTASK.terminal
        and current.by_id.get(row.subtask_id) == then.by_id[row.subtask_id]
    }


def _same(one: SubtaskRow | None, other: SubtaskRow) -> bool:
    """Whether a row is a copy of another one, taken over into a later revision."""
    return one is not None and _end(one) == _end(other)


def _end(row: SubtaskRow) -> tuple[object, ...]:
    return row.status, row.finished_at, row.declined, row.result, row.error


def _has_run(row: SubtaskRow) -> bool:
    return row.attempt > 0 or row.status is not SubtaskStatus.PENDING


ROLLBACK = "rollback"
_TOLD = 200
"""How many paths of each kind an event names."""
Find = Callable[[Tx], Undoing]


class Judged(Struct, frozen=True, kw_only=True):
    """What a rollback does with each path."""

    restore: Restore
    undone: tuple[PathUndo, ...]
    """The paths that go back, or are back already."""
    files: tuple[RollbackFile, ...]
    folders: Reckoning

    def paths(self, *actions: str) -> list[str]:
        """The paths with one of these actions."""
        return [file.path for file in self.files if file.action in actions]


class Rolled(Struct, frozen=True, kw_only=True):
    """The result of a rollback."""

    undoing: Undoing
    judged: Judged
    checkpoint: Checkpoint | None = None
    again: tuple[str, ...] = ()


class Rollbacks(Struct, frozen=True, kw_only=True):
    """Undoes what calls did to files."""

    store: Store
    snapshots: Snapshots
    traffic: Traffic
    open_workspace: Callable[[Path], Workspace] = Workspace
    """Opens the workspace; a test passes one that it can stop anywhere."""

    async def look(self, find: Find, *, include_shared: bool) -> Rolled:
        """Find out what a rollback would do now, whoever else writes meanwhile."""
        undoing = await self.store.read(find)
        return Rolled(undoing=undoing, judged=await self._judged(undoing, include_shared))

    async def carry_out(
        self, find: Find, by: str, *, include_shared: bool, again: bool = True
    ) -> Rolled:
        """Roll back.

        Args:
            find: Finds what to undo; called again once nobody else writes.
            again: In a paused plan, have the undone subtasks run again.

        Raises:
            Conflict: the files cannot be put back now; nothing was changed.
        """
        undoing = await self.store.read(find)
        async with self.traffic.alone(_root(undoing)):
            undoing = await self.store.read(find)
            judged = await self._judged(undoing, include_shared)
            tree = await self._in_thread(self._taken, undoing)
            rolled: Rolled | None = None
            # From the checkpoint on it runs to its end, even if the caller stops waiting.
            with anyio.CancelScope(shield=True):
                rolled = await self._done(undoing, judged, tree, by, again=again)
        assert rolled is not None  # noqa: S101 - nobody cancels that scope
        return rolled

    async def _done(
        self, undoing: Undoing, judged: Judged, tree: Tree, by: str, *, again: bool
    ) -> Rolled:
        checkpoint = await self.store.write(_checkpoint, undoing, tree)
        try:
            await self._in_thread(self._apply, undoing, judged.restore)
        except Conflict:
            await self.store.write(_unheld, undoing)
            raise
        ran = await self.store.write(_written, undoing, judged, checkpoint, by, again)
        return Rolled(undoing=undoing, judged=judged, checkpoint=checkpoint, again=tuple(ran))

    def _workspace(self, undoing: Undoing) -> Workspace:
        return self.open_workspace(_root(undoing))

    def _taken(self, undoing: Undoing) -> Tree:
        return self.snapshots.take(self._workspace(undoing))

    def _apply(self, undoing: Undoing, restore: Restore) -> None:
        self.snapshots.apply(self._workspace(undoing), restore)

    async def _judged(self, undoing: Undoing, include_shared: bool) -> Judged:
        return await self._in_thread(self._judge, undoing, include_shared)

    async def _in_thread(self, work: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401
        try:
            return await anyio.to_thread.run_sync(work, *args)
        except ToolFailed as failure:
            raise Conflict(
                "The files cannot be restored: {failure}; correct this and try again",
                failure=failure,
            ) from failure

    def _judge(self, undoing: Undoing, include_shared: bool) -> Judged:
        found = reckon(undoing.changes)
        stays = {path.path: _stays(path, include_shared) for path in found.paths}
        todo = [path for path in found.paths if stays[path.path] is None]
        restore = self.snapshots.plan_restore(
            self._workspace(undoing),
            {real_path(path.path): _state(path.wanted) for path in todo},
            {real_path(path.path): _left(path.left) for path in todo},
            folders=Folders(
                made=tuple(map(real_path, found.made)), gone=tuple(map(real_path, found.gone))
            ),
        )
        items = {item.path: item for item in restore.items}
        undone = tuple(p for p in todo if items[real_path(p.path)].action != "conflict")
        files = [stays[p.path] or _file(p, items[real_path(p.path)]) for p in found.paths]
        told = tuple(file for file in files if file is not None)
        return Judged(restore=restore, undone=undone, files=told, folders=found)


def _root(undoing: Undoing) -> Path:
    return Path(undoing.session.workspace)


def _stays(path: PathUndo, include_shared: bool) -> RollbackFile | None:
    """Why a path stays as it is, whatever it contains now; None: it may go back."""
    shown = shown_path(path.path)
    lost = path.wanted is not None and "blob" not in path.wanted
    if path.unknown or lost:
        return RollbackFile(path=shown, action="conflict", reason="unknown")
    if not path.unbroken:
        return RollbackFile(path=shown, action="conflict", reason="changed_between")
    if path.shared and not include_shared:
        return RollbackFile(path=shown, action="shared")
    return None


def _file(path: PathUndo, item: RestoreItem) -> RollbackFile | None:
    shown = shown_path(path.path)
    if item.action == "conflict":
        return RollbackFile(path=shown, action="conflict", reason=item.reason)
    if item.action == "nothing":
        return None
    return RollbackFile(path=shown, action="restore" if item.wanted else "delete")


def _state(state: State) -> FileState | None:
    return None if state is None else FileState(**state)


def _left(state: State) -> Left:
    if state is None:
        return None
    return FileState(**state) if "blob" in state else str(state["hash"])


# Transactions -----------------------------------------------------------------------------------


def _checkpoint(tx: Tx, undoing: Undoing, tree: Tree) -> Checkpoint:
    """The checkpoint before a rollback: going back to it undoes the rollback."""
    of = undoing.attempt
    plan = lock_plan(tx, undoing.plan.id)
    assert plan is not None  # noqa: S101 - plans are never deleted
    if plan.revision != undoing.plan.revision:
        raise Conflict(
            "Plan {plan_id} has changed in the meantime; look at it again", plan_id=plan.id
        )
    if of is None:
        check_quiet(tx, plan)
        check_kept(tx, undoing)
        _hold(tx, plan, undoing)
    return keep_checkpoint(tx, plan, tree, partial(say, "checkpoint_rollback"), of)


def _written(
    tx: Tx, undoing: Undoing, judged: Judged, checkpoint: Checkpoint, by: str, again: bool
) -> list[str]:
    plan = lock_plan(tx, undoing.plan.id)
    assert plan is not None  # noqa: S101 - plans are never deleted
    _write_changes(tx, undoing, judged)
    keep_account(tx, plan.id, None)
    # Somebody may have let the plan go on meanwhile; the event about the files comes all the same.
    still = plan.status is PlanStatus.PAUSED and plan.revision == undoing.plan.revision
    if again:
        _let_go(tx, plan)
    ran = run_again(tx, undoing, plan, by) if again and still else []
    _tell(tx, undoing, judged, checkpoint, by, ran)
    if again:
        log.tell_final(tx, plan.session_id)
    return ran


def _hold(tx: Tx, plan: Plan, undoing: Undoing) -> None:
    """Hold a plan as it is until the rollback is written, even after a crash."""
    about: dict[str, Any] = {
        "checkpoint_id": undoing.back_to.id if undoing.back_to else None,
        "subtask_id": undoing.subtask_id, "whole": undoing.whole, "pause": _paused_for(plan),
    }  # fmt: skip
    to: dict[str, Any] = {"rollback": about}
    if plan.status is PlanStatus.PAUSED:
        drop_timer(tx, RESUME, plan.id)
        to["pause_reason"] = ROLLING_BACK
    set_plan(tx, plan, **to)


def _paused_for(plan: Plan) -> str | None:
    """Why a plan is paused, apart from its rollback."""
    if plan.pause_reason == ROLLING_BACK:
        return (plan.rollback or {}).get("pause")
    return plan.pause_reason


def _unheld(tx: Tx, undoing: Undoing) -> None:
    """Let the plan go on, as nothing was put back."""
    plan = lock_plan(tx, undoing.plan.id)
    if plan is not None and plan.rollback is not None:
        _let_go(tx, plan)


def _let_go(tx: Tx, plan: Plan) -> None:
    """End the hold of a rollback: the plan has its old pause again, with that pause's timer."""
    if plan.status is PlanStatus.PAUSED and plan.paused_until is not None:
        set_timer(tx, RESUME, plan.id, plan.paused_until)
    set_plan(tx, plan, pause_reason=_paused_for(plan), rollback=None)


def _write_changes(tx: Tx, undoing: Undoing, judged: Judged) -> None:
    wanted = {item.path: item.wanted for item in judged.restore.items}
    for path in judged.undone:
        for change in reversed(path.changes):
            first = change is path.changes[0]
            state = wanted[real_path(path.path)] if first else None
            after = (asdict(state) if state else None) if first else change.before
            doer = _doer(undoing, change.revision, change.subtask_id, change.call_id)
            touched = Touched(path.path, change.after, after)
            add_changes(tx, doer, ROLLBACK, [touched])
    folders = [
        *(Touched(path, FOLDER, None) for path in judged.folders.made),
        *(Touched(path, None, FOLDER) for path in judged.folders.gone),
    ]
    add_changes(tx, _doer(undoing, None, None, None), ROLLBACK, folders)


def _doer(
    undoing: Undoing, revision: int | None, subtask_id: str | None, call_id: str | None
) -> Doer:
    plan = undoing.plan
    return Doer(plan.session_id, plan.id, revision, subtask_id, call_id, undoing.session.workspace)


def _tell(
    tx: Tx, undoing: Undoing, judged: Judged, checkpoint: Checkpoint, by: str, again: Sequence[str]
) -> None:
    plan: Plan = undoing.plan
    facts = RollbackFacts(
        plan_id=plan.id, by=by, checkpoint_id=checkpoint.id, subtasks=undoing.subtasks,
        again=list(again), restored=judged.paths("restore", "delete")[:_TOLD],
        conflicts=judged.paths("conflict")[:_TOLD], shared=judged.paths("shared")[:_TOLD],
    )  # fmt: skip
    counts = {
        "restored": len(judged.paths("restore", "delete")),
        "conflicts": len(judged.paths("conflict")),
        "shared": len(judged.paths("shared")),
    }
    content = say("plan_rolled_back", undoing.session.spoken, **counts)
    log.tell(
        tx, plan.session_id, PlanRolledBack(plan_id=plan.id, content=content, metadata=facts),
    )  # fmt: skip
    log.note(
        tx, plan.session_id, actor=by, action="plan.rolled_back", subject=plan.id,
        checkpoint_id=checkpoint.id, subtasks=undoing.subtasks, again=list(again), **counts,
        back_to=undoing.back_to.id if undoing.back_to else None, whole=undoing.whole or None,
    )  # fmt: skip


# Rollback on error: puts back the files of a failed attempt before its failure is written.

_LOG = logging.getLogger(__name__)
_BY = "on_failure"
"""Who rolls back, in events and in the audit log: the setting."""


class AttemptRetreat(Struct, frozen=True):
    """Puts back the files of a failed attempt.

    What people changed since stays. The checkpoint that it takes first marks the attempt, so that
    the attempt does not go on after a crash in the middle.
    """

    rollbacks: Rollbacks

    async def undo(self, work: Work) -> None:
        """Put the files back as they were, if the attempt is still the caller's."""
        try:
            found = await self.rollbacks.store.read(_attempt, work)
            if found is not None:
                # Only this attempt adds to its own changes, so what was found still holds.
                await self.rollbacks.carry_out(
                    lambda tx: _attempt(tx, work) or found, _BY, include_shared=False, again=False
                )
        except Conflict as conflict:
            _LOG.warning("what %s changed stays: %s", work.key, conflict)

    def began(self, tx: Tx, work: Work) -> bool:
        """Whether the undo had begun when the process ended."""
        number = work.revision.number
        before = attempt_checkpoint(tx, work.revision.plan_id, number, work.subtask.id)
        return before is not None and is_being_undone(tx, before)


def _attempt(tx: Tx, work: Work) -> Undoing | None:
    check_held(tx, work)
    return failed_attempt(tx, work.revision.plan_id, work.subtask.id)
