"""Hands: runs calls, and records that they start and how they end."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import anyio
import anyio.to_thread
from anyio import CancelScope, CapacityLimiter, create_task_group
from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.disks import disk_problem
from gonogo.domain.errors import (
    Busy,
    InvalidArguments,
    OutcomeUnknown,
    ToolFailed,
    Unwritable,
    because,
)
from gonogo.domain.records import CallRow, Checkpoint, Watch
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import A_FOLDER, ToolClass
from gonogo.execution.agent import call_log as record
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.file_changes import ChangeTrace, Traces, Watches
from gonogo.execution.agent.gate import (
    ConversationGrants,
    Gate,
    Gated,
    given_to,
    may_call,
)
from gonogo.execution.agent.means import Means
from gonogo.execution.agent.questions import file_outcome, staleness
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.scheduling import DISK
from gonogo.i18n import told_of
from gonogo.store import Store, Tx
from gonogo.store.calls import call_of, end_judging, open_calls
from gonogo.store.jobs import set_timer
from gonogo.store.plans import add_watch, plan_of, watch_of
from gonogo.tools import EXPLORE, Tool

_C = CallStatus
_LOG = logging.getLogger(__name__)
STOPPED = because("gonogo stopped while it was running")
UNANSWERED = because("its client did not report the result in time")
_PATIENCE = 1.0
"""Seconds that a person who approves a call may wait while its start is prepared."""
_AT_ONCE = 8
"""Pure calls of one reply that run at the same time."""
Body = Callable[[Thread, CallRow, Gated], Awaitable[tuple[Any, str | None]]]
"""Carries a call out. Gives its result, or the error that the model is told."""
CLIENT_CALL = "client_call"
"""The timer after which a call that a client carries out has an unknown outcome."""


class Before(Struct, frozen=True):
    """What is kept of the workspace before a call."""

    trace: ChangeTrace | None = None
    watch: Watch | None = None

    def begin(self, tx: Tx) -> dict[str, Any]:
        """Store it together with the call's start; return columns of the call's row."""
        if self.watch is not None:
            add_watch(tx, self.watch)
        return self.trace.begin(tx) if self.trace is not None else {}


class CallAsked(Struct, frozen=True, kw_only=True):
    """A call that a person is about to approve, as one transaction found it."""

    thread: Thread
    call: CallRow
    given: ConversationGrants
    """What people have given its conversation."""
    checkpoint: Checkpoint | None
    """The one before its attempt, if it is of a subtask."""


class ReadyCall(Struct, frozen=True):
    """A call that is ready to start: all is checked, and nothing on the disk has changed yet."""

    call: CallRow
    gated: Gated
    before: Before
    asked: CallAsked
    """How it was found when it was judged."""
    mark: int | None = None
    """The mark of its workspace when it was judged, if it needs the workspace alone."""


Look = Callable[[], Awaitable[None]]
"""What is left to do after a call has released its workspace: a check of what it wrote."""


async def nothing_to_see() -> None:
    """The look of a call that has ended."""


class Hands(Struct, frozen=True, kw_only=True):
    """Runs tool calls that may run."""

    store: Store
    desk: ApprovalService
    gate: Gate
    traces: Traces
    watches: Watches
    means: Means = field(default_factory=Means)
    client_timeout: timedelta = timedelta(minutes=10)
    """How long a client may take for one call before its outcome is unknown."""

    def only_looks(self, thread: Thread, call: CallRow) -> bool:
        """Whether a call changes nothing here, so that others may run beside it."""
        tool = self.gate.tools[call.tool]
        return tool.of_record or (not thread.remote and self._is_pure(call.tool))

    def _is_pure(self, name: str) -> bool:
        return self.gate.tools[name].tool_class is ToolClass.PURE

    async def look(
        self, thread: Thread, calls: Sequence[tuple[CallRow, Gated]], explore: Body
    ) -> None:
        """Run allowed calls of pure tools at the same time.

        Each is written once, with its result, in their order.

        Args:
            explore: The body of the calls that explorers answer.
        """
        places, found = CapacityLimiter(_AT_ONCE), dict[str, tuple[Any, str | None] | Exception]()

        async def one(call: CallRow, gated: Gated) -> None:
            async with places:
                try:
                    tool = self.gate.tools[call.tool]
                    if tool.name == EXPLORE:
                        found[call.id] = await explore(thread, call, gated)
                    else:
                        found[call.id] = await self.carry_out(thread, tool, gated)
                except Exception as error:
                    found[call.id] = error

        async with create_task_group() as group:
            for call, gated in calls:
                group.start_soon(one, call, gated)
        for call, gated in calls:
            outcome = found[call.id]
            if isinstance(outcome, Exception):
                raise outcome
            await self.store.write(self._whole, thread, call, gated, *outcome)

    def mark(self, thread: Thread) -> int | None:
        """A mark of the workspace, taken before a call is judged: it shows whether anybody enters.

        None: somebody is inside.
        """
        return self.traces.traffic.mark(thread.workspace)

    async def run_allowed(
        self,
        thread: Thread,
        call: CallRow,
        gated: Gated,
        mark: int | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Run a proposed call that a rule or a grant allows; it is `started` first.

        If the verdict no longer holds once the call may enter the workspace, the call stays
        proposed and is judged anew.

        Args:
            mark: The mark of the workspace before the verdict.
            checkpoint: The one before its attempt, if that was just read.
        """
        if thread.remote:
            await self.store.write(self._start_allowed, thread, call, gated, Before())
            return
        tool = self.gate.tools[call.tool]
        async with self._way(thread, gated, asked=False):
            if not await self._still_holds(thread, call, gated, mark):
                return
            try:
                before = await self._before(thread, call, gated, checkpoint, asked=False)
            except ToolFailed as failure:
                error = told_of(failure, thread.locale)
                await self.store.write(self._whole, thread, call, gated, None, error)
                return
            started = await self.store.write(self._start_allowed, thread, call, gated, before)
            look = await self._run_started(thread, started, tool, gated, before)
        await look()

    async def run_approved(self, thread: Thread, call: CallRow) -> None:
        """Run a call that a person approved, if it is still the one that was shown."""
        if thread.remote:
            await self.store.write(self._start_approved, thread, call, Before())
            return
        mark = self.mark(thread)
        gated = await self.gate.judge(thread, call.tool, call.arguments)
        stale = staleness(call, gated, thread.locale)
        if stale is not None:
            await self.store.write(self._stale, thread, call, stale)
            return
        async with self._way(thread, gated, asked=True):
            stale = await self._changed_since(thread, call, gated, mark)
            if stale is not None:
                await self.store.write(self._stale, thread, call, stale)
                return
            try:
                before = await self._before(thread, call, gated, asked=True)
            except ToolFailed as failure:
                error = told_of(failure, thread.locale)
                await self.store.write(self._stale, thread, call, error)
                return
            started = await self.store.write(self._start_approved, thread, call, before)
            tool = self.gate.tools[call.tool]
            look = await self._run_started(thread, started, tool, gated, before, asked=True)
        await look()

    async def _changed_since(
        self, thread: Thread, call: CallRow, gated: Gated, mark: int | None
    ) -> str | None:
        """Why a command would not run as it was judged, if somebody was in its workspace since.

        A call that changes files that it names checks these itself.
        """
        if gated.around is None or self._is_untouched(thread, mark):
            return None
        again = await self.gate.judge(thread, call.tool, call.arguments)
        return staleness(call, again, thread.locale)

    async def _still_holds(
        self, thread: Thread, call: CallRow, gated: Gated, mark: int | None
    ) -> bool:
        """Whether a verdict that nobody saw still holds, if somebody was in the workspace since.

        While the call waited, people may have revoked grants, and files may have changed.
        """
        if self._is_untouched(thread, mark):
            return True
        again = await self.gate.judge(thread, call.tool, call.arguments)
        return (again.digest, again.verdict) == (gated.digest, gated.verdict)

    def _is_untouched(self, thread: Thread, mark: int | None) -> bool:
        return mark is not None and self.traces.traffic.is_untouched(thread.workspace, mark)

    async def ready(self, asked: CallAsked) -> ReadyCall | None:
        """Prepare a call that a person is about to approve, so that it can start with the approval.

        None for a call that is neither a command nor changes files that it names, that would have
        to wait, or that would not run as it was shown: all that is found out after the approval.
        """
        if not may_call(self.gate, asked.thread, asked.call.tool):
            return None
        # A person does not wait for a large snapshot; the job that goes on with the call does.
        with anyio.move_on_after(_PATIENCE):
            return await anyio.to_thread.run_sync(self._ready, asked, abandon_on_cancel=True)
        return None

    def _ready(self, asked: CallAsked) -> ReadyCall | None:
        thread, call = asked.thread, asked.call
        mark = self.mark(thread)
        try:
            tool = self.gate.tools[call.tool]
            gated = self.gate.verdict(thread, tool, call.arguments, None, asked.given)
            is_known = gated.effects or gated.around is not None
            if gated.digest != call.digest or gated.error or not is_known:
                return None
            trace = self.traces.kept(thread, call, gated.effects, asked.checkpoint)
            watch = self.watches.seen(thread, call.id, gated, asked=True)
        except (InvalidArguments, ToolFailed, Busy):
            return None
        alone = not gated.effects
        if trace is None or not (trace.tree is None or self._is_still(thread, mark)):
            return None
        return ReadyCall(call, gated, Before(trace, watch), asked, mark if alone else None)

    def _is_still(self, thread: Thread, mark: int | None) -> bool:
        """Whether nobody was in a workspace while a snapshot of it was taken, and nobody is."""
        return mark is not None and self.traces.traffic.mark(thread.workspace) == mark

    def begin(
        self, tx: Tx, thread: Thread, left: Sequence[CallRow], ready: ReadyCall
    ) -> ReadyCall | None:
        """Start a call in the transaction in which a person approved it, if all is as it was.

        Args:
            left: The open calls of its conversation.
            thread: The conversation, with the owner that holds its work now.
        """
        call = next((call for call in left if call.id == ready.call.id), None)
        if call is None or (call.status, call.digest) != (_C.ALLOWED, ready.gated.digest):
            return None
        if given_to(tx, thread) != ready.asked.given:
            return None
        return replace(ready, call=self._start_approved(tx, thread, call, ready.before))

    async def run_begun(self, thread: Thread, ready: ReadyCall) -> None:
        """Run a call that started as it was approved."""
        call, gated = ready.call, ready.gated
        async with self._way(thread, gated, asked=True):
            stale = await self._changed_since(thread, call, gated, ready.mark)
            if stale is not None:
                await self._end(thread, call, ready.before.trace, None, stale)
                return
            try:
                before = await self._still_before(thread, ready)
            except ToolFailed as failure:
                error = told_of(failure, thread.locale)
                await self._end(thread, call, ready.before.trace, None, error)
                return
            tool = self.gate.tools[call.tool]
            look = await self._run_started(thread, call, tool, gated, before, asked=True)
        await look()

    async def _still_before(self, thread: Thread, ready: ReadyCall) -> Before:
        """What is kept before a call; taken again if somebody was in its workspace since."""
        mark, traffic = ready.mark, self.traces.traffic
        if mark is None or traffic.is_untouched(thread.workspace, mark):
            return ready.before
        trace = await self.traces.before(thread, ready.call, (), is_open=True)
        await self.store.write(trace.begin_again, ready.call)
        return Before(trace, ready.before.watch)

    async def give_up(self, thread: Thread, call: CallRow) -> None:
        """End a call that has ended every process that judged it."""
        if call.status is _C.STARTED:
            watch = await self.store.read(watch_of, call.id)
            before = Before(self.traces.again(thread, call), watch)
            await self._doubted(thread, call, before, STOPPED)
            return
        gated = self.gate.given_up(thread, call)
        if call.status is _C.PROPOSED:
            await self.store.write(self.deny, thread, call, gated)
        else:
            await self.store.write(self._stale, thread, call, gated.error)

    async def recover(self, thread: Thread, call: CallRow) -> None:
        """Go on with a call that a process started which has ended since.

        A client's call waits on. The files show the outcome of a file tool. A call that is safe to
        repeat runs again. The outcome of any other call is unknown, and a person is asked.
        """
        if thread.remote:
            return
        watch = await self.store.read(watch_of, call.id)
        alone = not call.effects and (thread.subtask_id is not None or watch is not None)
        look: Look = nothing_to_see
        async with self.traces.way(thread, alone=alone):
            trace = self.traces.again(thread, call)
            match await anyio.to_thread.run_sync(file_outcome, thread.workspace, call):
                case "after":
                    await self.traces.after(thread, trace, "completed")
                    result = {"recovered": True, "paths": [e["path"] for e in call.effects]}
                    await self._end(thread, call, trace, result, None)
                case "before":
                    look = await self._run_once_more(thread, call, trace)
                case _:
                    await self._doubted(thread, call, Before(trace, watch), STOPPED)
        await look()

    async def _run_once_more(
        self, thread: Thread, call: CallRow, trace: ChangeTrace | None
    ) -> Look:
        """Run a call again that has had no effect, or has the same effect however often it runs."""
        asked = call.approval_id is not None
        gated = await self.gate.judge(thread, call.tool, call.arguments)
        # What allowed its start may be gone: a grant that was revoked since starts nothing again,
        # and a call that could only read does not run with more rights.
        allowed = gated.verdict.decision == "allow" or (asked and gated.error is None)
        same = (gated.digest, gated.tool_class) == (call.digest, call.tool_class)
        if not (allowed and same):
            await self._doubted(thread, call, Before(trace), STOPPED)
            return nothing_to_see
        try:
            before = await self._before(thread, call, gated, asked=asked)
        except ToolFailed as failure:
            await self._end(thread, call, trace, None, told_of(failure, thread.locale))
            return nothing_to_see
        if before.trace is not None:
            await self.store.write(before.trace.begin)
        tool = self.gate.tools[call.tool]
        look = await self._run_started(thread, call, tool, gated, before, asked=asked)
        await self.store.write(self._end_wait, thread)
        return look

    async def _doubted(self, thread: Thread, call: CallRow, before: "Before", why: str) -> None:
        await self.traces.after(thread, before.trace, "unknown")
        left = await self.watches.left(before.watch)
        await self.store.write(self._doubt, thread, call, before.trace, why, left)

    def _doubt(
        self,
        tx: Tx,
        thread: Thread,
        call: CallRow,
        trace: ChangeTrace | None,
        why: str,
        left: Sequence[str] | None,
    ) -> None:
        if trace is not None:
            trace.end(tx)
        if not self.watches.hold(tx, call, left or (), ended=_C.UNKNOWN, error=str(why)):
            self.watches.over(tx, call, left)
            record.doubt(tx, self.desk, call, why, thread.locale)
        self.rest(tx, thread)

    def rest(self, tx: Tx, thread: Thread) -> bool:
        """Let go of the thread when nothing of it can run now. False: there is something to do.

        Called in each transaction that ends a call, so that its last event can say that
        everything left waits.
        """
        whose = self.whose_move(open_calls(tx, thread.session_id, thread.name))
        if whose == "person":
            # From here on we see an answer that was being written at this moment; a later one waits
            # for this transaction, and sees that we rest.
            thread.hold(tx)
            whose = self.whose_move(open_calls(tx, thread.session_id, thread.name))
        if whose == "person":
            thread.owner.park(tx)
        return whose != "ours"

    def whose_move(self, left: Sequence[CallRow]) -> Literal["ours", "client", "person"]:
        """Who has to act on a thread's open calls before it can go on."""
        # Nothing in the thread goes on before a person has decided about files that a call left.
        if any(call.is_held for call in left):
            return "person"
        retried = {call.retry_of for call in left}
        if any(self._can_run(call) for call in left):
            return "ours"
        if any(call.is_at_work for call in left):
            return "client"
        return "person" if any(call.waits_for_person(retried) for call in left) else "ours"

    def hand_over(self, tx: Tx, call: CallRow) -> None:
        """Start a call that a person allowed and a client carries out: it may answer at once."""
        allowed = call_of(tx, call.id) if record.is_remote(tx, call) else None
        if allowed is None:
            return
        record.pass_through(tx, allowed, _C.STARTED, started_at=tx.now)
        set_timer(tx, CLIENT_CALL, call.id, tx.now + self.client_timeout)

    def _can_run(self, call: CallRow) -> bool:
        if call.status is _C.PROPOSED:
            tool = self.gate.tools.get(call.tool)
            return tool is None or tool.tool_class is not ToolClass.CONTROL
        return call.status is _C.ALLOWED

    # The body ---------------------------------------------------------------------------------

    async def _run_started(
        self,
        thread: Thread,
        call: CallRow,
        tool: Tool,
        gated: Gated,
        before: "Before",
        *,
        asked: bool = False,
    ) -> Look:
        over = False
        try:
            result, error = await self.carry_out(thread, tool, gated, asked=asked)
            over = True
        except OutcomeUnknown as doubt:
            over = True
            _LOG.warning("tool %s: %s", tool.name, doubt)
            await self._doubted(thread, call, before, doubt.why)
            return nothing_to_see
        except Unwritable as failure:
            await self._check_waits(thread, call, failure)
            result, error, over = None, told_of(failure, thread.locale), True
        finally:
            if not over:
                await self.traces.cut_off(thread, before.trace)
        await self.traces.after(thread, before.trace, "failed" if error else "completed")
        files = [e.path for e in gated.effects if e.after not in (None, A_FOLDER)]
        if self.means.diagnostics is not None and error is None and files:
            bench = partial(self.means.bench, self.gate, thread, gated, asked=False)
            told = partial(self.means.diagnostics.told, bench, files, self.gate.guards.look)
            return partial(self._look_at, thread, call, before.trace, result, told)
        left = await self.watches.left(before.watch)
        await self._end(thread, call, before.trace, result, error, left)
        return nothing_to_see

    async def _check_waits(self, thread: Thread, call: CallRow, failure: Unwritable) -> None:
        """Leave a subtask's call started if it changed nothing because the disk takes no writes.

        Whoever takes it up finds its files as they were, and runs it once more.

        Raises:
            Unwritable: it waits for the disk; the text says what keeps gonogo from writing there.
        """
        found = partial(file_outcome, thread.workspace, call)
        if await anyio.to_thread.run_sync(found) != "before":
            return
        # The call waits for a disk: that is no crash, so its judgings do not count.
        await self.store.write(end_judging, thread.session_id, thread.name)
        why = await anyio.to_thread.run_sync(disk_problem, thread.workspace)
        raise Unwritable(why or failure.said) from failure

    async def _look_at(
        self,
        thread: Thread,
        call: CallRow,
        trace: ChangeTrace | None,
        result: Any,  # noqa: ANN401 - JSON
        diagnosed: Callable[[], Awaitable[dict[str, Any]]],
    ) -> None:
        """End a call with what the operator's command says about the files that it has written.

        The call itself is done: if something is cut off or fails here, it is only the check.
        """
        told: dict[str, Any] = {}
        try:
            told = await diagnosed()
        finally:
            with CancelScope(shield=True):
                await self._end(thread, call, trace, {**result, **told}, None)

    async def _end(
        self,
        thread: Thread,
        call: CallRow,
        trace: ChangeTrace | None,
        result: Any,  # noqa: ANN401 - JSON
        error: str | None,
        left: Sequence[str] | None = (),
    ) -> None:
        status = _C.COMPLETED if error is None else _C.FAILED
        await self.store.write(self._finish, thread, call, trace, status, result, error, left)

    def _may_change_anything(self, thread: Thread, gated: Gated, *, asked: bool) -> bool:
        barred = self.gate.writes_nothing(thread, gated.verdict, asked=asked)
        return not (gated.effects or barred or self._is_pure(gated.tool))

    def _way(
        self, thread: Thread, gated: Gated, *, asked: bool
    ) -> AbstractAsyncContextManager[None]:
        is_open = self._may_change_anything(thread, gated, asked=asked)
        # Changes while it runs must be its own; and a check of files must see nobody else's.
        is_followed = thread.subtask_id is not None or gated.around is not None
        alone = (is_open and is_followed) or thread.words is not None
        return self.traces.way(thread, alone=alone)

    async def _before(
        self,
        thread: Thread,
        call: CallRow,
        gated: Gated,
        checkpoint: Checkpoint | None = None,
        *,
        asked: bool,
    ) -> "Before":
        is_open = self._may_change_anything(thread, gated, asked=asked)
        if not (is_open or gated.effects):
            return Before()
        trace = await self.traces.before(thread, call, gated.effects, checkpoint, is_open=is_open)
        if not is_open:
            return Before(trace)
        return Before(trace, await self.watches.before(thread, call.id, gated, asked=asked))

    async def carry_out(
        self, thread: Thread, tool: Tool, gated: Gated, *, asked: bool = False
    ) -> tuple[Any, str | None]:
        """Run a tool's body. Gives its result, or the error that the model is told.

        Args:
            asked: A person saw the call as it was written; else a command runs as it was parsed.

        Raises:
            OutcomeUnknown: nobody can say what it did.
            Unwritable: the disk takes nothing that a subtask writes.
        """
        assert tool.run is not None  # noqa: S101 - control tools never come here
        bench = self.means.bench(self.gate, thread, gated, asked=asked)
        if tool.of_record:
            bench = replace(bench, output=partial(self._output, thread))
        try:
            return await tool.run(bench, gated.parsed), None
        except OutcomeUnknown:
            raise
        except ToolFailed as error:
            if isinstance(error, Unwritable) and thread.subtask_id is not None:
                raise
            return None, told_of(error, thread.locale)
        except OSError as error:
            _LOG.exception("tool %s failed", tool.name)
            return None, f"io_error: {error.strerror or error}"

    async def _output(self, thread: Thread, call_id: str) -> Any:  # noqa: ANN401 - JSON
        return await self.store.read(record.result_again, thread, call_id)

    # Transactions -----------------------------------------------------------------------------

    def deny(self, tx: Tx, thread: Thread, call: CallRow, gated: Gated) -> None:
        """Record that a call may not run."""
        thread.owner.check(tx)
        record.deny(tx, call, gated)

    def _whole(
        self,
        tx: Tx,
        thread: Thread,
        call: CallRow,
        gated: Gated,
        result: Any,  # noqa: ANN401 - JSON
        error: str | None,
    ) -> None:
        thread.owner.check(tx)
        ended = _C.COMPLETED if error is None else _C.FAILED
        path = (_C.ALLOWED, _C.STARTED, ended)
        record.pass_through(
            tx, call, *path, result=result, error=error, started_at=tx.now, finished_at=tx.now,
            **record.gated_columns(gated),
        )  # fmt: skip
        # A client that carries out tools leaves this one alone.
        record.tell_called(tx, call, gated, runs=not thread.remote)
        record.note_allowed(tx, call, gated, thread.locale)
        record.tell_end(tx, call, ended, result=result, error=error)
        self.rest(tx, thread)

    def _end_wait(self, tx: Tx, thread: Thread) -> None:
        """End a plan's wait for its disk, which has accepted a write again."""
        plan = plan_of(tx, thread.plan_id) if thread.plan_id else None
        if plan is not None and plan.pause_reason == DISK:
            thread.owner.answered(tx)

    def _start_allowed(
        self, tx: Tx, thread: Thread, call: CallRow, gated: Gated, before: "Before"
    ) -> CallRow:
        thread.owner.check(tx)
        to = {"started_at": tx.now, **record.gated_columns(gated), **before.begin(tx)}
        record.pass_through(tx, call, _C.ALLOWED, _C.STARTED, **to)
        record.tell_called(tx, call, gated)
        record.note_allowed(tx, call, gated, thread.locale)
        return self._started(tx, thread, call, to)

    def _start_approved(self, tx: Tx, thread: Thread, call: CallRow, before: "Before") -> CallRow:
        thread.owner.check(tx)
        to = {"started_at": tx.now, **before.begin(tx)}
        record.pass_through(tx, call, _C.STARTED, **to)
        return self._started(tx, thread, call, to)

    def _started(self, tx: Tx, thread: Thread, call: CallRow, to: Mapping[str, Any]) -> CallRow:
        if thread.remote:
            set_timer(tx, CLIENT_CALL, call.id, tx.now + self.client_timeout)
        return replace(call, status=_C.STARTED, **to)

    def _stale(self, tx: Tx, thread: Thread, call: CallRow, error: str | None) -> None:
        thread.owner.check(tx)
        record.stop_stale(tx, call, error)
        self.rest(tx, thread)

    def _finish(
        self,
        tx: Tx,
        thread: Thread,
        call: CallRow,
        trace: ChangeTrace | None,
        status: CallStatus,
        result: Any,  # noqa: ANN401 - JSON
        error: str | None,
        left: Sequence[str] | None,
    ) -> None:
        if trace is not None:
            trace.end(tx)
        if self.watches.hold(tx, call, left or (), ended=status, result=result, error=error):
            ended = True
        elif ended := record.end_call(tx, call, status, result=result, error=error):
            self.watches.over(tx, call, left)
        if ended:
            record.note_network(tx, call, result)
            self.rest(tx, thread)
