"""What calls leave behind: traces of what they did to files, and watches over guarded names."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import anyio
import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import asdict

from gonogo.domain.base import digest
from gonogo.domain.errors import Busy, Conflict, InvalidMessage, ToolFailed
from gonogo.domain.records import Approval, CallRow, Checkpoint, FileChange, Job, Watch
from gonogo.domain.states import GUARDED_NAMES, ApprovalKind, CallStatus, DecisionWord
from gonogo.domain.text_safety import visible
from gonogo.domain.tool_calls import A_FOLDER, Access
from gonogo.domain.undo import COMMAND, FOLDER, alike, came_to, kept_path, real_path, shown_path
from gonogo.execution.agent import call_log as record
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.gate import Gated
from gonogo.execution.agent.questions import matter_of
from gonogo.execution.approvals import NOBODY, ApprovalService, Question, Ruling
from gonogo.i18n import DEFAULT, say, told
from gonogo.policy import covers, products_of
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.calls import call_of, has_acted, set_call
from gonogo.store.checkpoints import (
    Doer,
    Touched,
    add_changes,
    clear_changes,
    drop_changes,
    set_after,
    set_tree,
)
from gonogo.store.plans import (
    drop_watch,
    give_away,
    lock_plan,
    set_found,
    watch_of,
    watches_of_session,
)
from gonogo.store.sessions import session_of, spoken_in
from gonogo.workspace import (
    FileState,
    Guards,
    Snapshots,
    Traffic,
    Tree,
    Workspace,
    is_harmless,
    take_away,
    topmost,
)

# Traces: what tool calls do to files, kept so that it can be undone.
#
# Before a subtask's first effect its checkpoint gets a snapshot. A file tool says beforehand what
# it changes: the old contents are kept, and a row for each file is committed together with the
# call's start. What a command changes shows only afterwards, by comparing a snapshot before it
# with one after it; until then it has its workspace alone. A call without effect leaves no rows.

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
TOOL = "tool"
_WILD = frozenset("*?[{")
Ended = Literal["completed", "failed", "unknown"]
"""How a call ended. A failed call had no effect."""


class ChangeTrace(Struct, kw_only=True):
    """What is known about one call; `begin` and `end` belong to its first and last transaction."""

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
        """Store what is about to change; return columns of the call's row."""
        self._lock(tx)
        if self.checkpoint is not None and self.tree is not None:
            set_tree(tx, self.checkpoint, self.tree)
        # A process that has ended may have started the same call.
        clear_changes(tx, self.doer)
        add_changes(tx, self.doer, TOOL, self.touched)
        return {"tree": self.tree}

    def begin_again(self, tx: Tx, call: CallRow) -> None:
        """Store it again for a call that has started and has done nothing yet."""
        set_call(tx, call, call.status, **self.begin(tx))

    def end(self, tx: Tx) -> None:
        """Store what has changed."""
        if not (self.void or self.done or self.found):
            return
        self._lock(tx)
        if self.is_open:
            clear_changes(tx, self.doer)
        drop_changes(tx, self.doer, self.void)
        set_after(tx, self.doer, self.done)
        add_changes(tx, self.doer, COMMAND, self.found)

    def _lock(self, tx: Tx) -> None:
        # The lock makes a plan's rows get their numbers in the order of its checkpoints.
        if self.doer.plan_id is not None:
            lock_plan(tx, self.doer.plan_id)


class Traces(Struct, frozen=True, kw_only=True):
    """Follows what calls do to files."""

    store: Store
    snapshots: Snapshots
    traffic: Traffic

    @asynccontextmanager
    async def way(self, thread: Thread, *, alone: bool) -> AsyncGenerator[None]:
        """Enter the workspace to change files, beside others or alone."""
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
            effects: What a file tool changes: a path, and its hashes before and after.
            checkpoint: The one before the attempt, if that was just read.

        Raises:
            ToolFailed: it cannot be kept, so a subtask's call must not run.
        """
        if checkpoint is None and thread.subtask_id is not None:
            checkpoint = await self.store.read(thread.checkpoint)
        trace = ChangeTrace(doer=_doer(thread, call), checkpoint=checkpoint, is_open=is_open)
        try:
            return await self._insist(partial(self._kept, thread, trace, effects))
        except ToolFailed as failure:
            if thread.subtask_id is None:
                # No rollback depends on it: the call runs, and nobody knows what it changed.
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
        """The same, while a call is prepared before its start. Blocks.

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
        """The trace of a call that was started by a process that has ended."""
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
        """Store what a call has changed that is being cancelled."""
        if trace is not None:
            with anyio.CancelScope(shield=True):
                await self.after(thread, trace, "failed")
                await self.store.write(trace.end)

    async def has_worked(
        self, thread: Thread, paths: Sequence[str], changes: Sequence[FileChange]
    ) -> bool:
        """Whether the subtask of a conversation has changed anything, now or in an earlier attempt.

        If nobody can tell, because the files are on a client's machine or snapshots ignore them,
        every call counts that was carried out and could change something.

        Args:
            paths: The globs of what it should change.
            changes: Its stored changes.
        """
        key = (thread.plan_id or "", thread.subtask_id or "")
        if came_to(changes):
            return True
        if not await self.store.read(has_acted, thread.session_id, *key):
            return False
        return thread.remote or await anyio.to_thread.run_sync(self._overlooks, thread, paths)

    async def _insist(self, work: Callable[[], T]) -> T:
        """Do work that writes outside the database, and wait while that disk is full."""
        failed: list[ToolFailed] = []

        async def attempt() -> T:
            try:
                return await anyio.to_thread.run_sync(work)
            except ToolFailed as failure:
                # Try once more in any case: the cause may be gone before it could be found.
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
            return any(self.snapshots.trees.hides(tree, sample) for sample in samples)
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
        changes = self.snapshots.trees.diff(trace.tree, now)
        folders = self.snapshots.trees.folders(trace.tree, now)
        return [
            *(Touched(kept_path(path), None, FOLDER) for path in folders.made),
            *(Touched(kept_path(c.path), _json(c.before), _json(c.after)) for c in changes),
            *(Touched(kept_path(path), FOLDER, None) for path in folders.gone),
        ]


def _unknown(paths: Iterable[str], failure: Exception) -> list[Touched]:
    """Changes of which nobody knows what they are."""
    return [Touched(kept_path(path), None, {"unknown": str(failure)}) for path in paths]


def _doer(thread: Thread, call: CallRow) -> Doer:
    return Doer(
        thread.session_id, thread.plan_id, thread.revision, thread.subtask_id, call.id,
        str(thread.workspace),
    )  # fmt: skip


def _json(state: FileState | None) -> dict[str, Any] | None:
    return None if state is None else asdict(state)


def _samples(glob: str) -> tuple[str, str]:
    """A path that a glob covers, and a path below it."""
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


# Guarded names that commands leave: looked for, asked about, kept or taken away.
#
# A sandbox protects names that exist; a command can create new ones: `.git` with hooks, `.envrc`,
# `.vscode/tasks.json`. So the guarded names that exist are stored with a command's start, and
# compared when it is over. New names that nobody foresaw stay where they are, the call is held, and
# a person decides. If nobody can be asked any more, they are moved away, so nothing is lost.

_C = CallStatus
_SHOWN = 12
"""How many names a question has in its sentence; its details have all."""


class Watches(Struct, frozen=True, kw_only=True):
    """Looks for guarded names that commands leave."""

    store: Store
    desk: ApprovalService
    guards: Guards
    traffic: Traffic
    taken: Path
    """Where the files are that people had taken away: a folder for each call."""
    resume: Callable[[Tx, CallRow], None]
    """Goes on with whatever a held call belongs to, once it has its end."""

    # Around a command -------------------------------------------------------------------------

    async def before(
        self, thread: Thread, call_id: str, gated: Gated, *, asked: bool
    ) -> Watch | None:
        """The guarded names that exist now; None for a call that is no command.

        Args:
            asked: A person saw the command as it was written.

        Raises:
            ToolFailed: the workspace cannot be looked at, so the command must not run.
        """
        if gated.around is None:
            return None
        look = partial(self.seen, thread, call_id, gated, asked=asked)
        return await anyio.to_thread.run_sync(look)

    def seen(self, thread: Thread, call_id: str, gated: Gated, *, asked: bool) -> Watch | None:
        """The same. Blocks."""
        command = gated.access.command
        if gated.around is None or command is None:
            return None
        found = self.guards.look(Workspace(thread.workspace).root)
        expects = gated.verdict.expects
        if asked:
            expects = products_of(command, gated.access.cwd or ".")
        return Watch(
            call_id=call_id, session_id=thread.session_id, workspace=str(thread.workspace),
            marks={kept_path(path): mark for path, mark in found.marks.items()},
            expects=list(expects), created_at=self.store.clock(),
        )  # fmt: skip

    async def left(self, watch: Watch | None) -> Sequence[str] | None:
        """The new names that nobody foresaw, as paths are stored.

        None: this cannot be found out now, and has to be later.
        """
        if watch is None:
            return ()
        with anyio.CancelScope(shield=True):
            try:
                return await anyio.to_thread.run_sync(self._left, watch)
            except (ToolFailed, OSError) as failure:
                _LOG.warning("what %s left is not known: %s", watch.call_id, failure)
                return None

    def _left(self, watch: Watch) -> list[str]:
        root = Workspace(Path(watch.workspace)).root
        marks = {real_path(path): mark for path, mark in watch.marks.items()}
        found = [
            each
            for each in self.guards.look(root).since(marks)
            if not (covers(watch.expects, each.path) and is_harmless(root, each))
        ]
        return [kept_path(path) for path in topmost(found)]

    # In the transactions of a call ------------------------------------------------------------

    def hold(
        self,
        tx: Tx,
        call: CallRow,
        names: Sequence[str],
        *,
        ended: CallStatus,
        **to: Any,  # noqa: ANN401 - columns
    ) -> bool:
        """Hold a call that left names, and ask; False: there is nothing to hold.

        Args:
            ended: The status of the call once a person has answered.
            to: Its result or its error.
        """
        if not names or not set_call(tx, call, call.status, **to):
            return False
        self._ask(tx, call, names, ended=ended)
        return True

    def over(self, tx: Tx, call: CallRow, names: Sequence[str] | None) -> None:
        """End a watch, unless it is not known yet what the call left."""
        if names is not None:
            drop_watch(tx, call.id)

    def abandon(self, tx: Tx, session_id: str) -> None:
        """Have names taken away that wait for an answer: nobody is asked in this session now."""
        for watch in watches_of_session(tx, session_id):
            if watch.found is not None:
                give_away(tx, watch.call_id, NOBODY.name)

    def _ask(
        self,
        tx: Tx,
        call: CallRow,
        names: Sequence[str],
        *,
        ended: CallStatus | None = None,
        problem: str | None = None,
    ) -> None:
        set_found(tx, call.id, names, ended)
        locale = spoken_in(tx, call.session_id) or DEFAULT
        log.note(
            tx, call.session_id, actor=f"agent:{call.agent}", action="tool.left_names",
            subject=call.tool, call_id=call.id, names=_shown(names), plan_id=call.plan_id,
            subtask_id=call.subtask_id,
        )  # fmt: skip
        self.desk.open(tx, _question(call, names, self._place(call), locale, problem))

    def _place(self, call: CallRow) -> Path:
        return self.taken / call.id

    # Answers ----------------------------------------------------------------------------------

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Keep the names, or have them taken away."""
        call, watch = _asked(tx, approval)
        match ruling.word:
            case DecisionWord.APPROVE:
                drop_watch(tx, call.id)
                self._go_on(tx, call, watch)
            case DecisionWord.REJECT:
                give_away(tx, call.id, ruling.by.name)
                if not call.is_held:
                    # No conversation waits for it, so this event is the only reply to the answer.
                    log.tell_final(tx, call.session_id)
            case _:
                raise InvalidMessage("Approve to keep the files, or reject to move them away")

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Have the names taken away, as nobody allowed them in time."""
        call, _ = _asked(tx, approval)
        give_away(tx, call.id, NOBODY.name)

    def _go_on(self, tx: Tx, call: CallRow, watch: Watch, taken: str | None = None) -> None:
        """End a held call, unless it was dropped meanwhile and so has ended."""
        if not call.is_held:
            log.tell_final(tx, call.session_id)
            return
        if watch.ended == _C.UNKNOWN:
            locale = spoken_in(tx, call.session_id) or DEFAULT
            record.doubt(tx, self.desk, call, call.error or "", locale)
        elif taken is not None:
            record.end_call(tx, call, _C.FAILED, error=taken)
        else:
            ended = _C.FAILED if watch.ended == _C.FAILED else _C.COMPLETED
            record.end_call(
                tx, call, ended, result=_with_kept(call.result, watch), error=call.error
            )
        self.resume(tx, call)

    # The job ----------------------------------------------------------------------------------

    async def job(self, job: Job) -> None:
        """Look what a call left whose owner is gone, or take away what a person does not want."""
        watch = await self.store.read(watch_of, job.key)
        if watch is None:
            return
        # What still runs there ends first.
        async with self.traffic.alone(Path(watch.workspace)):
            if watch.found is None:
                await self._look(watch)
            elif watch.taken_by is not None:
                await self._take(watch)

    async def _look(self, watch: Watch) -> None:
        call = await self.store.read(call_of, watch.call_id)
        # If the call has only started, whoever goes on with its conversation looks after it.
        if call is not None and call.status is not _C.STARTED:
            names = await self.left(watch)
            await self.store.write(self._seen, call, names)

    def _seen(self, tx: Tx, call: CallRow, names: Sequence[str] | None) -> None:
        session = session_of(tx, call.session_id)
        if not names:
            self.over(tx, call, names)
        elif session is None or session.deleted:
            set_found(tx, call.id, names, None)
            give_away(tx, call.id, NOBODY.name)
        else:
            self._ask(tx, call, names)

    async def _take(self, watch: Watch) -> None:
        call = await self.store.read(call_of, watch.call_id)
        assert call is not None  # noqa: S101 - its watch was written with its start
        paths = [real_path(path) for path in watch.found or ()]
        root, to = Workspace(Path(watch.workspace)).root, self._place(call)
        try:
            await anyio.to_thread.run_sync(take_away, root, paths, to)
        except OSError as failure:
            _LOG.warning("what %s left cannot be taken away: %s", call.id, failure)
            await self.store.write(self._in_the_way, call, watch, str(failure))
            return
        await self.store.write(self._taken, call, watch, to)

    def _in_the_way(self, tx: Tx, call: CallRow, watch: Watch, problem: str) -> None:
        """Ask a person once more, as the names could not be taken away."""
        give_away(tx, call.id, None)
        self._ask(tx, call, watch.found or (), problem=problem)
        log.tell_final(tx, call.session_id)

    def _taken(self, tx: Tx, call: CallRow, watch: Watch, to: Path) -> None:
        if not drop_watch(tx, call.id):
            return
        names, locale = _shown(watch.found or ()), spoken_in(tx, call.session_id) or DEFAULT
        log.note(
            tx, call.session_id, actor="gonogo", action="tool.names_taken",
            subject=call.tool, call_id=call.id, names=names, folder=str(to), by=watch.taken_by,
        )  # fmt: skip
        told = say("model_names_taken", locale, names=", ".join(names), who=watch.taken_by)
        current = call_of(tx, call.id) or call
        self._go_on(tx, current, watch, taken=f"protected_path: {told}")


def _asked(tx: Tx, approval: Approval) -> tuple[CallRow, Watch]:
    call = call_of(tx, approval.call_id or "")
    watch = watch_of(tx, approval.call_id or "")
    if call is None or watch is None or watch.found is None:
        raise Conflict("{subject}: there is nothing left to decide", subject=approval.subject)
    return call, watch


def _question(
    call: CallRow, names: Sequence[str], to: Path, locale: str, problem: str | None
) -> Question:
    shown = _shown(names)
    command = str(call.arguments.get("command", ""))
    subject = f"{call.tool} {command}".strip()
    said = [visible(name, lines=False) for name in shown[:_SHOWN]]
    more = [f"… (+{len(shown) - _SHOWN})"] if len(shown) > _SHOWN else []
    told = {"names": ", ".join([*said, *more]), "subject": subject, "folder": to}
    reason = say("intervention_names", locale, **told)
    if problem is not None:
        reason = f"{say('intervention_names_stay', locale, problem=problem)} {reason}"
    return Question(
        session_id=call.session_id, kind=ApprovalKind.INTERVENTION, subject=subject,
        details={
            "about": GUARDED_NAMES, "names": shown, "arguments": call.arguments,
            "tool": call.tool, "agent": call.agent,
        },
        reason=reason, digest=digest({"call": call.id, "names": list(names)}),
        turn_id=call.turn_id, plan_id=call.plan_id, revision=call.revision,
        subtask_id=call.subtask_id, call_id=call.id, agent=call.agent,
        matter=matter_of(call, Access(command=command, writes=tuple(shown))),
    )  # fmt: skip


def _shown(names: Sequence[str]) -> list[str]:
    return [shown_path(name) for name in names]


def _with_kept(result: Any, watch: Watch) -> Any:  # noqa: ANN401 - JSON
    """A command's result, with the names that a person let it leave."""
    if not isinstance(result, dict):
        return result
    return {**cast("dict[str, Any]", result), "kept": _shown(watch.found or ())}
