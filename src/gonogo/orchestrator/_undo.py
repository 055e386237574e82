"""Rollback: files go back to what they were before an agent changed them.

Promises: only a file that still holds what the agent left is touched; it can itself be undone,
since a checkpoint comes first; a dry run changes nothing; after a crash in the middle, doing it
again completes it.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from gonogo.domain.errors import Conflict, ToolFailed
from gonogo.domain.events import PlanRolledBack, RollbackFacts
from gonogo.domain.plan_views import RollbackFile
from gonogo.domain.records import Checkpoint, Plan
from gonogo.domain.states import PlanStatus
from gonogo.domain.undo import (
    FOLDER,
    PathUndo,
    Reckoning,
    State,
    real_path,
    reckon,
    shown_path,
    write_standings,
)
from gonogo.engine import RESUME, ROLLING_BACK
from gonogo.orchestrator._again import run_again
from gonogo.orchestrator._checkpoints import created, sealed
from gonogo.orchestrator._rollback import Undoing, check_kept, check_quiet
from gonogo.store import Connection, Store
from gonogo.store import events as log
from gonogo.store.checkpoints import Doer, Touched, add_changes, add_checkpoints, head_of
from gonogo.store.jobs import drop_timer, set_timer
from gonogo.store.plans import keep_account, lock_plan, set_plan, standings
from gonogo.texts import say
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

ROLLBACK = "rollback"
_TOLD = 200
"""Paths of each kind that an event names."""
Find = Callable[[Connection], Undoing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a rollback does about each path."""

    restore: Restore
    undone: tuple[PathUndo, ...]
    """Those that go back, or are back already."""
    files: tuple[RollbackFile, ...]
    folders: Reckoning

    def paths(self, *actions: str) -> list[str]:
        """The paths about which one of these is done."""
        return [file.path for file in self.files if file.action in actions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """What came of a rollback."""

    undoing: Undoing
    judged: Judged
    checkpoint: Checkpoint | None = None
    again: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollbacks:
    """Undoes what calls did to files."""

    store: Store
    snapshots: Snapshots
    traffic: Traffic
    open_workspace: Callable[[Path], Workspace]
    clock: Callable[[], datetime]

    async def look(self, find: Find, *, include_shared: bool) -> Rolled:
        """Find out what a rollback would do now, whoever else writes meanwhile."""
        undoing = await self.store.read(find)
        return Rolled(undoing=undoing, judged=await self._judged(undoing, include_shared))

    async def carry_out(
        self, find: Find, by: str, *, include_shared: bool, again: bool = True
    ) -> Rolled:
        """Roll back.

        Args:
            find: Says what is to be undone; asked again once nobody else writes.
            again: In a paused plan, have what is undone run again.

        Raises:
            Conflict: the files cannot be put back now; nothing was changed.
        """
        undoing = await self.store.read(find)
        async with self.traffic.alone(_root(undoing)):
            undoing = await self.store.read(find)
            judged = await self._judged(undoing, include_shared)
            tree = await self._in_thread(self.snapshots.take, self._workspace(undoing))
            rolled: Rolled | None = None
            # From the checkpoint on it is done to its end, whoever stops waiting for it.
            with anyio.CancelScope(shield=True):
                rolled = await self._done(undoing, judged, tree, by, again=again)
        assert rolled is not None  # noqa: S101 - nobody cancels that scope
        return rolled

    async def _done(
        self, undoing: Undoing, judged: Judged, tree: Tree, by: str, *, again: bool
    ) -> Rolled:
        checkpoint = await self.store.write(_checkpoint, undoing, tree, self.clock())
        try:
            await self._in_thread(self.snapshots.apply, self._workspace(undoing), judged.restore)
        except Conflict:
            await self.store.write(_unheld, undoing)
            raise
        ran = await self.store.write(_written, undoing, judged, checkpoint, by, again, self.clock())
        return Rolled(undoing=undoing, judged=judged, checkpoint=checkpoint, again=tuple(ran))

    def _workspace(self, undoing: Undoing) -> Workspace:
        return self.open_workspace(_root(undoing))

    async def _judged(self, undoing: Undoing, include_shared: bool) -> Judged:
        return await self._in_thread(self._judge, undoing, include_shared)

    async def _in_thread(self, work: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401
        try:
            return await anyio.to_thread.run_sync(work, *args)
        except ToolFailed as failure:
            raise Conflict(f"The files cannot be put back: {failure}") from failure

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
    """Why a path stays as it is, whatever it holds now."""
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


def _checkpoint(conn: Connection, undoing: Undoing, tree: Tree, now: datetime) -> Checkpoint:
    """The checkpoint before a rollback: going back to it undoes the rollback."""
    of = undoing.attempt
    plan = lock_plan(conn, undoing.plan.id)
    assert plan is not None  # noqa: S101 - plans are never deleted
    if plan.revision != undoing.plan.revision:
        raise Conflict(f"Plan {plan.id} has changed meanwhile; look again")
    if of is None:
        check_quiet(conn, plan)
        check_kept(conn, undoing)
        _hold(conn, plan, undoing)
    head = head_of(conn, plan.session_id, plan.id)
    stand = standings(conn, plan.id, plan.revision)
    base = Checkpoint(
        id="", session_id=plan.session_id, plan_id=plan.id, revision=plan.revision,
        subtask_id=of.subtask_id if of else None, attempt=of.attempt if of else 0, reason="",
        standings=write_standings(stand[key].status for key in undoing.revision.by_id),
        event_seq=head.event_seq, last_change=head.last_change, tree=tree, hash="",
        created_at=now,
    )  # fmt: skip
    made = sealed(base, say("checkpoint_rollback", head.locale))
    add_checkpoints(conn, [made])
    log.tell(conn, plan.session_id, now, created(made))
    return made


def _written(
    conn: Connection,
    undoing: Undoing,
    judged: Judged,
    checkpoint: Checkpoint,
    by: str,
    again: bool,
    now: datetime,
) -> list[str]:
    plan = lock_plan(conn, undoing.plan.id)
    assert plan is not None  # noqa: S101 - plans are never deleted
    _write_changes(conn, undoing, judged, now)
    keep_account(conn, plan.id, None)
    # Somebody may have let the plan go on meanwhile; the files are told of all the same.
    still = plan.status is PlanStatus.PAUSED and plan.revision == undoing.plan.revision
    if again:
        _let_go(conn, plan)
    ran = run_again(conn, undoing, plan, by, now) if again and still else []
    _tell(conn, undoing, judged, checkpoint, by, ran, now)
    if again:
        log.tell_final(conn, plan.session_id)
    return ran


def _hold(conn: Connection, plan: Plan, undoing: Undoing) -> None:
    """Keep a plan where it is until the rollback is written, also over a crash."""
    about: dict[str, Any] = {
        "checkpoint_id": undoing.back_to.id if undoing.back_to else None,
        "subtask_id": undoing.subtask_id, "whole": undoing.whole, "pause": _paused_for(plan),
    }  # fmt: skip
    to: dict[str, Any] = {"rollback": about}
    if plan.status is PlanStatus.PAUSED:
        drop_timer(conn, RESUME, plan.id)
        to["pause_reason"] = ROLLING_BACK
    set_plan(conn, plan, **to)


def _paused_for(plan: Plan) -> str | None:
    """Why a plan is paused, but for its rollback."""
    if plan.pause_reason == ROLLING_BACK:
        return (plan.rollback or {}).get("pause")
    return plan.pause_reason


def _unheld(conn: Connection, undoing: Undoing) -> None:
    """Nothing was put back: the plan may go on."""
    plan = lock_plan(conn, undoing.plan.id)
    if plan is not None and plan.rollback is not None:
        _let_go(conn, plan)


def _let_go(conn: Connection, plan: Plan) -> None:
    """The rollback is written: a pause is again what it was; a quota ends its own."""
    if plan.status is PlanStatus.PAUSED and plan.paused_until is not None:
        set_timer(conn, RESUME, plan.id, plan.paused_until)
    set_plan(conn, plan, pause_reason=_paused_for(plan), rollback=None)


def _write_changes(conn: Connection, undoing: Undoing, judged: Judged, now: datetime) -> None:
    wanted = {item.path: item.wanted for item in judged.restore.items}
    for path in judged.undone:
        for change in reversed(path.changes):
            first = change is path.changes[0]
            state = wanted[real_path(path.path)] if first else None
            after = (asdict(state) if state else None) if first else change.before
            doer = _doer(undoing, change.revision, change.subtask_id, change.call_id)
            touched = Touched(path.path, change.after, after)
            add_changes(conn, doer, ROLLBACK, [touched], now)
    folders = [
        *(Touched(path, FOLDER, None) for path in judged.folders.made),
        *(Touched(path, None, FOLDER) for path in judged.folders.gone),
    ]
    add_changes(conn, _doer(undoing, None, None, None), ROLLBACK, folders, now)


def _doer(
    undoing: Undoing, revision: int | None, subtask_id: str | None, call_id: str | None
) -> Doer:
    plan = undoing.plan
    return Doer(plan.session_id, plan.id, revision, subtask_id, call_id, undoing.session.workspace)


def _tell(
    conn: Connection,
    undoing: Undoing,
    judged: Judged,
    checkpoint: Checkpoint,
    by: str,
    again: Sequence[str],
    now: datetime,
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
        conn, plan.session_id, now,
        PlanRolledBack(plan_id=plan.id, content=content, metadata=facts),
    )  # fmt: skip
    log.note(
        conn, plan.session_id, now, actor=by, action="plan.rolled_back", subject=plan.id,
        checkpoint_id=checkpoint.id, subtasks=undoing.subtasks, again=list(again), **counts,
        back_to=undoing.back_to.id if undoing.back_to else None, whole=undoing.whole or None,
    )  # fmt: skip
