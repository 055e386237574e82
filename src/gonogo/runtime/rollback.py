"""Checkpoints and rollback: the verb, and what is asked about checkpoints."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
from msgspec import Struct

from gonogo.domain.errors import Conflict, InvalidMessage, NotFound, ToolFailed
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan_views import (
    CheckpointDiff,
    CheckpointList,
    CheckpointState,
    CheckpointSubtask,
    CheckpointView,
    FileDiff,
    RollbackView,
)
from gonogo.domain.records import Checkpoint, Plan, Session, SubtaskRow
from gonogo.domain.text_safety import visible
from gonogo.domain.undo import is_unchanged, kept_path, read_standings, shown_path
from gonogo.execution.rollback import Rolled, Undoing, wanted_rollback
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import seen, seen_plan
from gonogo.runtime.sessions import visible as visible_session
from gonogo.store import Tx
from gonogo.store.asks import place_of_session
from gonogo.store.checkpoints import checkpoint_of, count_checkpoints, list_checkpoints
from gonogo.store.plans import list_plans, plan_of, subtask_rows
from gonogo.store.sessions import session_of
from gonogo.workspace import Change, Snapshots, Tree, Workspace

# Differences of snapshots as clients are shown them.

_FILES = 500
CHECKPOINT, ROLLBACK = "checkpoint", "rollback"
"""What the owner of a place is asked for."""
OF_ONE_FILE, IN_ALL = 20_000, 200_000
"""Characters of one file's difference in a list, and of all differences in one answer."""


def diff_view(
    snapshots: Snapshots, checkpoint_id: str, to: str | None, before: Tree, after: Tree
) -> CheckpointDiff:
    """What differs between two snapshots, as far as an answer holds it."""
    changes = snapshots.diff(before, after)
    files: list[FileDiff] = []
    left = IN_ALL
    for change in changes[:_FILES]:
        limit = min(OF_ONE_FILE, left)
        text = snapshots.unified(before, after, change.path, limit=limit) if limit else ""
        left -= min(len(text), left)
        files.append(
            FileDiff(
                path=shown_path(kept_path(change.path)), status=_status(change), diff=visible(text)
            )
        )
    truncated = len(changes) > _FILES or left == 0
    return CheckpointDiff(checkpoint_id=checkpoint_id, to=to, files=files, truncated=truncated)


def _status(change: Change) -> Literal["added", "deleted", "modified"]:
    if change.before is None:
        return "added"
    return "deleted" if change.after is None else "modified"


class Checkpoints(Struct, frozen=True):
    """The verbs and queries about checkpoints."""

    _parts: Parts

    async def page(
        self, principal: Principal, plan_id: str, limit: int = 50, offset: int = 0
    ) -> CheckpointList:
        """A page of a plan's checkpoints, oldest first.

        Raises:
            NotFound: there is no such plan that the principal may see.
        """
        return await self._parts.store.read(_page, principal, plan_id, limit, offset)

    async def get(self, principal: Principal, checkpoint_id: str) -> CheckpointState:
        """A checkpoint, with the state that it stores, after its hash was verified.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        found, rows = await self._parts.store.read(_whole, principal, checkpoint_id)
        tree = found.tree if found.swept_at is None else None
        whole = await anyio.to_thread.run_sync(self._is_whole, tree)
        return _state(found, rows, whole and is_unchanged(found))

    async def diff(
        self, principal: Principal, checkpoint_id: str, to: str | None = None
    ) -> CheckpointDiff:
        """What differs between a checkpoint's files and those of another one, or the files now.

        Raises:
            NotFound: there is none of these ids that the principal may see.
            Conflict: a checkpoint has no snapshot.
        """
        session, first, second = await self._parts.store.read(_two, principal, checkpoint_id, to)
        root = Path(session.workspace)
        return await anyio.to_thread.run_sync(self._diff, root, first, second)

    async def create(
        self,
        principal: Principal,
        plan_id: str | None = None,
        session_id: str | None = None,
        note: str | None = None,
    ) -> CheckpointView:
        """Take a checkpoint of a plan, between its subtasks or after it.

        Args:
            session_id: In the place of a plan: its plan that is not over, or else its newest.
            note: What it is for, in the principal's words.

        Raises:
            InvalidMessage: not one of a plan and a session is named.
            NotFound: there is none of that id that the principal may see.
            Conflict: something of the plan, or a call in its folder, is under way; there is no
                plan, or there are no files.
            Busy: no worker takes it up.
        """
        principal.require(Role.OPERATOR)
        if (plan_id is None) == (session_id is None):
            raise InvalidMessage("Name exactly one of these: a plan, a session")

        def find(tx: Tx) -> Plan:
            if plan_id is not None:
                return seen_plan(tx, principal, plan_id)
            return _plan_in(tx, principal, session_id or "")

        if self._parts.asks.is_elsewhere:
            wanted = {"plan_id": plan_id, "session_id": session_id, "note": note}
            made = await self._ask(find, CHECKPOINT, principal, wanted)
            return CheckpointView.model_validate(made)
        return _view(await self._parts.by_hand.take(find, principal, note))

    async def rollback(
        self,
        principal: Principal,
        plan_id: str,
        checkpoint_id: str | None = None,
        subtask_id: str | None = None,
        *,
        whole: bool = False,
        dry_run: bool = False,
        include_shared: bool = False,
    ) -> RollbackView:
        """Undo what a plan, or one subtask and its dependants, did to files.

        Args:
            checkpoint_id: Go back to it; with nothing named, to the latest one.
            whole: Undo all that the plan did.
            dry_run: Only say what would be done; the plan may go on meanwhile.
            include_shared: Also put back what changed while a command ran.

        Raises:
            InvalidMessage: more than one of a checkpoint, a subtask and the whole is named.
            NotFound: there is no such plan, checkpoint or subtask that the principal may see.
            Conflict: something of the plan runs, or the files cannot be put back.
            Busy: no worker takes it up.
        """
        principal.require(Role.VIEWER if dry_run else Role.OPERATOR)
        if [checkpoint_id is None, subtask_id is None, not whole].count(False) > 1:
            raise InvalidMessage(
                "Name exactly one of these: a checkpoint, a subtask, the whole plan"
            )

        def find(tx: Tx) -> Undoing:
            seen_plan(tx, principal, plan_id)
            return wanted_rollback(
                tx, plan_id, checkpoint_id, subtask_id, whole=whole, looks=dry_run
            )

        verbs = self._parts.rollbacks
        if dry_run:
            return _rolled_view(await verbs.look(find, include_shared=include_shared))
        if self._parts.asks.is_elsewhere:
            named = {"plan_id": plan_id, "checkpoint_id": checkpoint_id, "subtask_id": subtask_id}
            how = {"whole": whole, "include_shared": include_shared}

            def find_plan(tx: Tx) -> Plan:
                return seen_plan(tx, principal, plan_id)

            rolled = await self._ask(find_plan, ROLLBACK, principal, {**named, **how})
            return RollbackView.model_validate(rolled)
        done = await verbs.carry_out(find, principal.id, include_shared=include_shared)
        return _rolled_view(done)

    async def for_owner(
        self, verb: str, principal: Principal, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Carry out what another process asked of a place that is ours."""
        do = self.create if verb == CHECKPOINT else self.rollback
        return (await do(principal, **body)).model_dump(mode="json")

    async def _ask(
        self, find: Callable[[Tx], Plan], verb: str, principal: Principal, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Have the owner of a plan's place do it."""

        def place(tx: Tx) -> str:
            return place_of_session(tx, find(tx).session_id)

        return await self._parts.asks.ask(place, verb, principal, body)

    def _is_whole(self, tree: str | None) -> bool:
        try:
            return tree is None or not self._parts.rollbacks.snapshots.verify(Tree(tree))
        except ToolFailed:
            return False

    def _diff(self, root: Path, first: Checkpoint, second: Checkpoint | None) -> CheckpointDiff:
        snapshots = self._parts.rollbacks.snapshots
        before = _snapshot(first)
        try:
            after = _snapshot(second) if second else snapshots.take(Workspace(root))
            return diff_view(snapshots, first.id, second.id if second else None, before, after)
        except ToolFailed as failure:
            raise Conflict(
                "The files cannot be compared: {failure}; try again", failure=failure
            ) from failure


def seen_checkpoint(tx: Tx, principal: Principal, checkpoint_id: str) -> Checkpoint:
    """The checkpoint of that id, if the principal may see it.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    found = checkpoint_of(tx, checkpoint_id)
    if found is None or seen(tx, principal, found.session_id) is None:
        raise NotFound(
            "No checkpoint found with id={checkpoint_id}",
            see="gonogo checkpoints list PLAN",
            checkpoint_id=checkpoint_id,
        )
    return found


def _plan_in(tx: Tx, principal: Principal, session_id: str) -> Plan:
    session = visible_session(tx, principal, session_id)
    active = plan_of(tx, session.active_plan_id) if session.active_plan_id else None
    found = [active] if active else list_plans(tx, session_id=session.id, limit=1)[0]
    if not found:
        raise Conflict(
            "Session {session_id} has no plan, and only plans have checkpoints; ask the agent "
            "for a plan first",
            session_id=session.id,
        )
    return found[0]


def _two(
    tx: Tx, principal: Principal, checkpoint_id: str, to: str | None
) -> tuple[Session, Checkpoint, Checkpoint | None]:
    first = seen_checkpoint(tx, principal, checkpoint_id)
    second = seen_checkpoint(tx, principal, to) if to is not None else None
    session = session_of(tx, first.session_id)
    assert session is not None  # noqa: S101 - a foreign key away
    if second is not None and second.session_id != first.session_id:
        raise Conflict(
            "The two checkpoints belong to different sessions; choose two of the same session"
        )
    return session, first, second


def _snapshot(found: Checkpoint) -> Tree:
    if found.tree is None:
        raise Conflict(
            "Checkpoint {checkpoint_id} has no snapshot, because its subtask changed nothing; "
            "choose another checkpoint",
            checkpoint_id=found.id,
        )
    if found.swept_at is not None:
        raise Conflict(
            "The snapshot of checkpoint {checkpoint_id} was deleted; choose a newer checkpoint",
            checkpoint_id=found.id,
        )
    return Tree(found.tree)


def _page(tx: Tx, principal: Principal, plan_id: str, limit: int, offset: int) -> CheckpointList:
    seen_plan(tx, principal, plan_id)
    found = list_checkpoints(tx, plan_id, limit, offset)
    return CheckpointList(
        checkpoints=[_view(each) for each in found], total=count_checkpoints(tx, plan_id)
    )


def _whole(tx: Tx, principal: Principal, checkpoint_id: str) -> tuple[Checkpoint, list[SubtaskRow]]:
    found = seen_checkpoint(tx, principal, checkpoint_id)
    return found, subtask_rows(tx, found.plan_id, found.revision)


def _view(checkpoint: Checkpoint) -> CheckpointView:
    return CheckpointView.model_validate(_shown(checkpoint))


def _shown(checkpoint: Checkpoint) -> dict[str, object]:
    names = CheckpointView.model_fields.keys() - {"checkpoint_id"}
    shown: dict[str, object] = {name: getattr(checkpoint, name) for name in names}
    return {"checkpoint_id": checkpoint.id, **shown}


def _state(checkpoint: Checkpoint, rows: list[SubtaskRow], verified: bool) -> CheckpointState:
    stood = read_standings(checkpoint.standings)
    subtasks = [
        # What had not come to this status yet had no result either, whatever it has now.
        CheckpointSubtask(
            id=row.subtask_id, status=status,
            result=row.result if row.status == status else None,
            error=row.error if row.status == status else None,
        )
        for row, status in zip(rows, stood, strict=True)
    ]  # fmt: skip
    return CheckpointState.model_validate(
        {**_shown(checkpoint), "verified": verified, "subtasks": subtasks}
    )


def _rolled_view(rolled: Rolled) -> RollbackView:
    judged = rolled.judged
    return RollbackView(
        plan_id=rolled.undoing.plan.id,
        dry_run=rolled.checkpoint is None,
        checkpoint_id=rolled.checkpoint.id if rolled.checkpoint else None,
        subtasks=rolled.undoing.subtasks,
        files=list(judged.files),
        restored=len(judged.paths("restore", "delete")),
        conflicts=len(judged.paths("conflict")),
        shared=len(judged.paths("shared")),
        again=list(rolled.again),
    )
