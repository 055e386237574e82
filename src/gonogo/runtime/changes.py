"""What was done to files: shown as one difference, and undone to a checkpoint."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
from msgspec import Struct

from gonogo.domain.errors import Conflict, InvalidMessage, NotFound, ToolFailed
from gonogo.domain.identity import Principal, Role
from gonogo.domain.paths import is_secret
from gonogo.domain.plan_views import (
    ChangedFile,
    Changes,
    ChangesBy,
    CheckpointDiff,
    CheckpointList,
    CheckpointState,
    CheckpointSubtask,
    CheckpointView,
    FileDiff,
    RollbackView,
)
from gonogo.domain.records import Checkpoint, FileChange, Plan, Session, SubtaskRow
from gonogo.domain.text_safety import visible
from gonogo.domain.undo import (
    NetChange,
    is_unchanged,
    kept_path,
    net_changes,
    read_standings,
    shown_path,
)
from gonogo.execution.rollback import Rolled, Undoing, wanted_rollback
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import seen, seen_plan
from gonogo.runtime.sessions import visible as visible_session
from gonogo.store import Tx
from gonogo.store.checkpoints import (
    changes_after,
    changes_of_session,
    checkpoint_of,
    count_checkpoints,
    list_checkpoints,
)
from gonogo.store.jobs import place_of_session
from gonogo.store.plans import list_plans, plan_of, subtask_rows
from gonogo.store.sessions import session_of
from gonogo.workspace import Change, Hunks, LineCount, Snapshots, Tree, Workspace

# Checkpoints and rollback: the verb, and what is asked about checkpoints.

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
    changes = snapshots.trees.diff(before, after)
    files: list[FileDiff] = []
    left = IN_ALL
    for change in changes[:_FILES]:
        limit = min(OF_ONE_FILE, left)
        text = snapshots.trees.unified(before, after, change.path, limit=limit) if limit else ""
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
        return _checkpoint_view(await self._parts.by_hand.take(find, principal, note))

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
            return tree is None or not self._parts.rollbacks.snapshots.trees.verify(Tree(tree))
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
        checkpoints=[_checkpoint_view(each) for each in found], total=count_checkpoints(tx, plan_id)
    )


def _whole(tx: Tx, principal: Principal, checkpoint_id: str) -> tuple[Checkpoint, list[SubtaskRow]]:
    found = seen_checkpoint(tx, principal, checkpoint_id)
    return found, subtask_rows(tx, found.plan_id, found.revision)


def _checkpoint_view(checkpoint: Checkpoint) -> CheckpointView:
    return CheckpointView.of(checkpoint, checkpoint_id=checkpoint.id)


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
    return CheckpointState.of(
        checkpoint, checkpoint_id=checkpoint.id, verified=verified, subtasks=subtasks
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


# What was done to files: one difference of all that a plan, a subtask or a session changed.
#
# It is reckoned from what was written down of each call, not from the files as they are now: what
# people changed themselves is no part of it, and what was rolled back is gone from it.

_MOST_COUNTED = 5_000
"""Files whose lines are counted in one answer."""
Whose = tuple[str | None, str | None]
"""A plan and its subtask; neither, for what agents did outside of plans."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which changes are shown."""

    session_id: str
    plan_id: str | None = None
    subtask_id: str | None = None
    path: str | None = None
    limit: int = 100
    offset: int = 0


class FileChanges(Struct, frozen=True):
    """The queries about what was done to files."""

    _parts: Parts

    async def of_plan(
        self,
        principal: Principal,
        plan_id: str,
        *,
        subtask_id: str | None = None,
        path: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Changes:
        """What a plan, or one of its subtasks, did to files.

        Args:
            path: Only this file, with as much of its difference as one answer holds.
            limit: Files on the page, by path.

        Raises:
            NotFound: there is no such plan that the principal may see, or no such subtask, or
                nothing was done to the file.
            Conflict: the contents cannot be compared now.
        """

        def find(tx: Tx) -> tuple[Selection, list[FileChange]]:
            plan = seen_plan(tx, principal, plan_id)
            changes = changes_after(tx, plan.id, 0)
            if subtask_id is not None:
                changes = _of_subtask(tx, plan, subtask_id, changes)
            wanted = Selection(
                session_id=plan.session_id, plan_id=plan.id, subtask_id=subtask_id,
                path=path, limit=limit, offset=offset,
            )  # fmt: skip
            return wanted, changes

        return await self._told(*await self._parts.store.read(find))

    async def of_session(
        self,
        principal: Principal,
        session_id: str,
        *,
        path: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Changes:
        """What all plans of a session, and agents outside of plans, did to files.

        Args:
            path: Only this file, with as much of its difference as one answer holds.
            limit: Files on the page, by path.

        Raises:
            NotFound: there is no such session that the principal may see, or nothing of it did
                anything to the file.
            Conflict: the contents cannot be compared now.
        """

        def find(tx: Tx) -> tuple[Selection, list[FileChange]]:
            visible_session(tx, principal, session_id)
            wanted = Selection(session_id=session_id, path=path, limit=limit, offset=offset)
            return wanted, changes_of_session(tx, session_id)

        return await self._told(*await self._parts.store.read(find))

    async def _told(self, wanted: Selection, changes: Sequence[FileChange]) -> Changes:
        snapshots = self._parts.rollbacks.snapshots
        try:
            return await anyio.to_thread.run_sync(
                partial(_changes_view, snapshots, wanted, changes)
            )
        except ToolFailed as failure:
            raise Conflict(
                "The files cannot be compared: {failure}; try again", failure=failure
            ) from failure


def _of_subtask(
    tx: Tx, plan: Plan, subtask_id: str, changes: Iterable[FileChange]
) -> list[FileChange]:
    found = [change for change in changes if change.subtask_id == subtask_id]
    known = (row.subtask_id for row in subtask_rows(tx, plan.id, plan.revision))
    if not found and subtask_id not in known:
        raise NotFound(
            "Plan {plan_id} has no subtask {subtask_id!r}; list its subtasks: gonogo plans show "
            "{plan_id}",
            plan_id=plan.id,
            subtask_id=subtask_id,
        )
    return found


def _changes_view(
    snapshots: Snapshots, wanted: Selection, changes: Sequence[FileChange]
) -> Changes:
    runs = defaultdict[Whose, list[FileChange]](list)
    for change in changes:
        runs[change.plan_id, change.subtask_id].append(change)
    each = {whose: net_changes(run) for whose, run in runs.items()}
    net = net_changes(changes)
    if wanted.path is not None:
        net = [found for found in net if shown_path(found.path) == wanted.path]
        if not net:
            raise NotFound(
                "Agents did not change the file {path!r}; to see what they changed, leave out "
                "the file",
                path=wanted.path,
            )
    counts = _counted(snapshots, [*net, *(found for run in each.values() for found in run)])
    page = net[wanted.offset : wanted.offset + wanted.limit]
    added, removed = _sum(net, counts)
    return Changes(
        session_id=wanted.session_id, plan_id=wanted.plan_id, subtask_id=wanted.subtask_id,
        files=_files(snapshots, wanted, page, counts, each), total=len(net),
        lines_added=added, lines_removed=removed,
        by=[_by(whose, run, counts) for whose, run in each.items() if run],
    )  # fmt: skip


Counts = Mapping[tuple[str | None, str | None], LineCount | None]


def _counted(snapshots: Snapshots, found: Iterable[NetChange]) -> Counts:
    pairs = list(dict.fromkeys(change.blobs for change in found))[:_MOST_COUNTED]
    return dict(zip(pairs, snapshots.changed_lines(pairs), strict=True))


def _count(change: NetChange, counts: Counts) -> LineCount | None:
    return None if change.status == "unknown" else counts.get(change.blobs)


def _sum(found: Iterable[NetChange], counts: Counts) -> tuple[int, int]:
    known = [count for change in found if (count := _count(change, counts)) is not None]
    return sum(count.added for count in known), sum(count.removed for count in known)


def _by(whose: Whose, run: Sequence[NetChange], counts: Counts) -> ChangesBy:
    added, removed = _sum(run, counts)
    return ChangesBy(
        plan_id=whose[0], subtask_id=whose[1], files=len(run),
        lines_added=added, lines_removed=removed,
    )  # fmt: skip


def _files(
    snapshots: Snapshots,
    wanted: Selection,
    page: Sequence[NetChange],
    counts: Counts,
    each: Mapping[Whose, Sequence[NetChange]],
) -> list[ChangedFile]:
    doers = defaultdict[str, list[str]](list)
    for (_, subtask), run in each.items():
        for change in run:
            if subtask is not None and subtask not in doers[change.path]:
                doers[change.path].append(subtask)
    # Of a secret nothing is read.
    pairs = [(None, None) if is_secret(each.path) else each.blobs for each in page]
    # One that is asked for alone may fill the answer.
    limit = OF_ONE_FILE if wanted.path is None else IN_ALL
    hunks = snapshots.hunks(pairs, limit=limit, in_all=IN_ALL)
    return [
        _file(change, _count(change, counts), found, doers[change.path])
        for change, found in zip(page, hunks, strict=True)
    ]


def _file(
    change: NetChange, count: LineCount | None, hunks: Hunks, subtasks: list[str]
) -> ChangedFile:
    return ChangedFile(
        path=shown_path(change.path),
        status=change.status,
        lines_added=count.added if count else None,
        lines_removed=count.removed if count else None,
        subtasks=subtasks,
        diff=visible(hunks.text),
        withheld=_withheld(change, count, hunks),
    )


def _withheld(
    change: NetChange, count: LineCount | None, hunks: Hunks
) -> Literal["secret", "no_text", "more"] | None:
    if is_secret(change.path):
        return "secret"
    if hunks.cut:
        return "more"
    return "no_text" if count is None and change.status != "unknown" else None
