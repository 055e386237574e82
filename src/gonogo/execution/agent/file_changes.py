"""Traces: what tool calls do to files, kept so that it can be undone.

Before a subtask's first effect its checkpoint gets a snapshot. A file tool says beforehand what it
changes: the old contents are kept, and a row for each file is committed together with the call's
start. What a command changes shows only afterwards, by a snapshot before it and one after it; until
then it has its workspace alone. A call that had no effect leaves no rows.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import takewhile
from typing import Any, Literal, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import asdict

from gonogo.domain.errors import Busy, ToolFailed
from gonogo.domain.records import CallRow, Checkpoint, FileChange
from gonogo.domain.tool_calls import A_FOLDER
from gonogo.domain.undo import COMMAND, FOLDER, alike, came_to, kept_path, real_path
from gonogo.execution.agent.conversation import Thread
from gonogo.i18n import say, told
from gonogo.store import Store, Tx
from gonogo.store.calls import has_acted
from gonogo.store.checkpoints import (
    Doer,
    Touched,
    add_changes,
    attempt_checkpoint,
    clear_changes,
    drop_changes,
    set_after,
    set_tree,
)
from gonogo.store.plans import lock_plan
from gonogo.workspace import FileState, Snapshots, Traffic, Tree, Workspace

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
TOOL = "tool"
_WILD = frozenset("*?[{")
Ended = Literal["completed", "failed", "unknown"]
"""How a call ended. One that failed says that it had no effect."""


class ChangeTrace(Struct, kw_only=True):
    """What is known of one call. `begin` and `end` are parts of its first and last transaction."""

    doer: Doer
    checkpoint: Checkpoint | None = None
    """The subtask's checkpoint, if it has no snapshot yet."""
    tree: Tree | None = None
    """The snapshot before the call."""
    is_open: bool = False
    """The call may change anything: a snapshot afterwards tells."""
    touched: list[Touched] = field(default_factory=list[Touched])
    """What a file tool is about to change, and folders that it makes on the way."""
    found: list[Touched] = field(default_factory=list[Touched])
    """What a command has changed."""
    void: list[str] = field(default_factory=list[str])
    """The paths where the call had no effect."""
    done: list[Touched] = field(default_factory=list[Touched])
    """What a file tool has left, with its modes."""

    def begin(self, tx: Tx) -> dict[str, Any]:
        """Write down what is about to change. Gives columns of the call's row."""
        self._lock(tx)
        if self.checkpoint is not None and self.tree is not None:
            set_tree(tx, self.checkpoint, self.tree)
        # Somebody who is gone may have started the same call.
        clear_changes(tx, self.doer)
        add_changes(tx, self.doer, TOOL, self.touched)
        return {"tree": self.tree}

    def end(self, tx: Tx) -> None:
        """Write down what has changed."""
        if not (self.void or self.done or self.found):
            return
        self._lock(tx)
        if self.is_open:
            clear_changes(tx, self.doer)
        drop_changes(tx, self.doer, self.void)
        set_after(tx, self.doer, self.done)
        add_changes(tx, self.doer, COMMAND, self.found)

    def _lock(self, tx: Tx) -> None:
        # A plan's rows get their numbers in the order of its checkpoints.
        if self.doer.plan_id is not None:
            lock_plan(tx, self.doer.plan_id)


def checkpoint_of(tx: Tx, thread: Thread) -> Checkpoint | None:
    """What was taken before the attempt that a conversation is of; a turn has none."""
    if thread.plan_id is None or thread.revision is None or thread.subtask_id is None:
        return None
    return attempt_checkpoint(tx, thread.plan_id, thread.revision, thread.subtask_id)


class Traces(Struct, frozen=True, kw_only=True):
    """Follows what calls do to files."""

    store: Store
    snapshots: Snapshots
    traffic: Traffic

    @asynccontextmanager
    async def way(self, thread: Thread, *, alone: bool) -> AsyncGenerator[None]:
        """Be where files may be changed, beside others or alone."""
        way = self.traffic.alone if alone else self.traffic.shared
        async with way(thread.workspace):
            yield

    async def before(
        self,
        thread: Thread,
        call: CallRow,
        effects: Sequence[Any],
        checkpoint: Checkpoint | None = None,
        *,
        is_open: bool,
    ) -> ChangeTrace:
        """Keep what is there before a call.

        Args:
            effects: What a file tool changes: values with a path, and the hashes around it.
            checkpoint: What was taken before the attempt, if that was just read.

        Raises:
            ToolFailed: it cannot be kept, so a subtask's call must not run.
        """
        if checkpoint is None and thread.subtask_id is not None:
            checkpoint = await self.store.read(checkpoint_of, thread)
        trace = ChangeTrace(doer=_doer(thread, call), checkpoint=checkpoint, is_open=is_open)
        try:
            return await self._insist(partial(self._kept, thread, trace, effects))
        except ToolFailed as failure:
            if thread.subtask_id is None:
                # No rollback counts on it: the call runs, and nobody knows what it changed.
                touched = _unknown([effect.path for effect in effects] or ["."], failure)
                return ChangeTrace(doer=_doer(thread, call), is_open=is_open, touched=touched)
            if failure.kind != "too_large":
                raise
            problem = told(failure.said, thread.locale)
            said = say("model_snapshot_too_large", thread.locale, problem=problem)
            raise ToolFailed("too_large", said) from failure

    def kept(
        self,
        thread: Thread,
        call: CallRow,
        effects: Sequence[Any],
        checkpoint: Checkpoint | None,
    ) -> ChangeTrace | None:
        """The same before a call is let start. Blocks.

        Args:
            effects: What a file tool changes; none: a command, which may change anything.

        Returns:
            None: what would be kept may be changing.

        Raises:
            ToolFailed, Busy: it cannot be kept.
        """
        if self.traffic.is_closed(thread.workspace):
            return None
        doer, is_open = _doer(thread, call), not effects
        trace = ChangeTrace(doer=doer, checkpoint=checkpoint, is_open=is_open)
        return self._kept(thread, trace, effects)

    def again(self, thread: Thread, call: CallRow) -> ChangeTrace:
        """The trace of a call that was started by somebody who is gone."""
        is_open = not call.effects
        trace = ChangeTrace(doer=_doer(thread, call), is_open=is_open)
        trace.tree = Tree(call.tree) if call.tree else None
        trace.touched = [
            Touched(kept_path(effect["path"]), _bare(effect["before"]), _bare(effect["after"]))
            for effect in call.effects
            if effect["before"] != effect["after"]
        ]
        return trace

    async def after(self, thread: Thread, trace: ChangeTrace | None, ended: Ended) -> None:
        """Find out what a call has changed."""
        if trace is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                await self._insist(partial(self._look, thread, trace, ended))
            except (ToolFailed, OSError) as failure:
                _LOG.warning("what %s changed is not known: %s", trace.doer.call_id, failure)
                if trace.is_open:
                    trace.found = _unknown(["."], failure)

    async def cut_off(self, thread: Thread, trace: ChangeTrace | None) -> None:
        """Write down what a call has changed that is being cancelled."""
        if trace is not None:
            with anyio.CancelScope(shield=True):
                await self.after(thread, trace, "failed")
                await self.store.write(trace.end)

    async def has_worked(
        self, thread: Thread, paths: Sequence[str], changes: Sequence[FileChange]
    ) -> bool:
        """Whether the subtask of a conversation has changed anything, now or in an earlier attempt.

        Where nobody can tell, because the files are a client's or such as snapshots leave alone,
        any call counts that was carried out and could change something.

        Args:
            paths: The globs of what it is to change.
            changes: Those of it that are written down.
        """
        key = (thread.plan_id or "", thread.subtask_id or "")
        if came_to(changes):
            return True
        if not await self.store.read(has_acted, thread.session_id, *key):
            return False
        return thread.remote or await anyio.to_thread.run_sync(self._overlooks, thread, paths)

    async def _insist(self, work: Callable[[], T]) -> T:
        """Do what keeps something beside the database; that its disk is full is waited for."""
        failed: list[ToolFailed] = []

        async def attempt() -> T:
            try:
                return await anyio.to_thread.run_sync(work)
            except ToolFailed as failure:
                # Its cause may have gone before it could be looked for.
                if failure.kind != "io_error" or failed:
                    raise
                failed.append(failure)
                raise Busy(reason=str(failure)) from failure

        return await self.store.ride(attempt)

    # In a worker thread -----------------------------------------------------------------------

    def _overlooks(self, thread: Thread, paths: Sequence[str]) -> bool:
        try:
            tree = self.snapshots.take(Workspace(thread.workspace))
            samples = [sample for path in paths for sample in _samples(path)]
            return any(self.snapshots.hides(tree, sample) for sample in samples)
        except ToolFailed:
            return True

    def _kept(self, thread: Thread, trace: ChangeTrace, effects: Sequence[Any]) -> ChangeTrace:
        trace.touched, workspace = [], Workspace(thread.workspace)
        has_tree = trace.checkpoint is None or trace.checkpoint.tree is not None
        if has_tree:
            trace.checkpoint = None
        if trace.is_open or not has_tree:
            trace.tree = self.snapshots.take(workspace)
        for effect in effects:
            if effect.before == effect.after:
                continue
            state = self.snapshots.hold(workspace, effect.path)
            if effect.after is not None:
                trace.touched += _missing_folders(workspace, effect.path, trace.touched)
            after = _bare(effect.after)
            trace.touched.append(Touched(kept_path(effect.path), _json(state), after))
        return trace

    def _look(self, thread: Thread, trace: ChangeTrace, ended: Ended) -> None:
        workspace = Workspace(thread.workspace)
        if trace.is_open:
            trace.found = self._differences(workspace, trace)
        else:
            trace.done, trace.void = [], []
            self._settle(workspace, trace, ended)

    def _settle(self, workspace: Workspace, trace: ChangeTrace, ended: Ended) -> None:
        for path, before, after in trace.touched:
            if FOLDER in (before, after):
                if ended != "completed" and workspace.stat(real_path(path)) is None:
                    trace.void.append(path)
                continue
            now = _json(self.snapshots.hold(workspace, real_path(path)))
            if alike(now, after):
                trace.done.append(Touched(path, before, now))
            elif ended == "failed" or (ended == "unknown" and alike(now, before)):
                trace.void.append(path)

    def _differences(self, workspace: Workspace, trace: ChangeTrace) -> list[Touched]:
        if trace.tree is None:
            return trace.touched
        now = self.snapshots.take(workspace)
        changes = self.snapshots.diff(trace.tree, now)
        folders = self.snapshots.folders(trace.tree, now)
        return [
            *(Touched(kept_path(path), None, FOLDER) for path in folders.made),
            *(Touched(kept_path(c.path), _json(c.before), _json(c.after)) for c in changes),
            *(Touched(kept_path(path), FOLDER, None) for path in folders.gone),
        ]


def _unknown(paths: Iterable[str], failure: Exception) -> list[Touched]:
    """Nobody can tell what was changed there."""
    return [Touched(kept_path(path), None, {"unknown": str(failure)}) for path in paths]


def _doer(thread: Thread, call: CallRow) -> Doer:
    return Doer(
        thread.session_id, thread.plan_id, thread.revision, thread.subtask_id, call.id,
        str(thread.workspace),
    )  # fmt: skip


def _json(state: FileState | None) -> dict[str, Any] | None:
    return None if state is None else asdict(state)


def _samples(glob: str) -> tuple[str, str]:
    """A path that a glob covers, and one below that."""
    plain = list(takewhile(lambda name: not _WILD.intersection(name), glob.split("/")))
    path = "/".join(plain if len(plain) == glob.count("/") + 1 else [*plain, "_"])
    return path, f"{path}/_"


def _bare(content: str | None) -> dict[str, Any] | None:
    if content == A_FOLDER:
        return FOLDER
    return None if content is None else {"hash": content}


def _missing_folders(workspace: Workspace, path: str, known: Iterable[Touched]) -> list[Touched]:
    found: list[Touched] = []
    seen = {touched.path for touched in known}
    while "/" in path:
        path = path.rpartition("/")[0]
        if workspace.stat(path) is not None:
            break
        if kept_path(path) not in seen:
            found.append(Touched(kept_path(path), None, FOLDER))
    return found[::-1]
