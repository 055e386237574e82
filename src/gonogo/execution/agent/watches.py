"""Guarded names that commands leave: looked for, asked about, kept or taken away.

A box binds what is there; what is not there yet a command can make: `.git` with hooks, `.envrc`,
`.vscode/tasks.json`. So what stands guarded is written down with a command's start, and when it is
over it is looked at again. What nobody foresaw stays where it is, the call is held, and a person
says what becomes of it. Where nobody can be asked any more it is taken away, and nothing is lost.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
from msgspec import Struct

from gonogo.domain.errors import Conflict, InvalidMessage, ToolFailed
from gonogo.domain.records import Approval, CallRow, Job, Watch
from gonogo.domain.states import GUARDED_NAMES, ApprovalKind, CallStatus, DecisionWord
from gonogo.domain.strict_json import digest
from gonogo.domain.text_safety import visible
from gonogo.domain.tool_calls import Access
from gonogo.domain.undo import kept_path, real_path, shown_path
from gonogo.execution.agent import call_log as record
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.gate import Gated
from gonogo.execution.agent.questions import matter_of
from gonogo.execution.approvals import NOBODY, ApprovalService, Question, Ruling
from gonogo.i18n import DEFAULT, say
from gonogo.policy import covers, products_of
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.calls import call_of, set_call
from gonogo.store.plans import drop_watch, give_away, set_found, watch_of, watches_of_session
from gonogo.store.sessions import session_of, spoken_in
from gonogo.workspace import Guards, Traffic, Workspace, is_harmless, take_away, topmost

_LOG = logging.getLogger(__name__)
_C = CallStatus
_SHOWN = 12
"""Names that a question says in its sentence; all are in its details."""


class Watches(Struct, frozen=True, kw_only=True):
    """Looks after commands."""

    store: Store
    desk: ApprovalService
    guards: Guards
    traffic: Traffic
    taken: Path
    """Where what people have taken away lies, a folder for each call."""
    resume: Callable[[Tx, CallRow], None]
    """Goes on with whatever a held call belongs to, once it has its end."""

    # Around a command -------------------------------------------------------------------------

    async def before(
        self, thread: Thread, call_id: str, gated: Gated, *, asked: bool
    ) -> Watch | None:
        """What stands guarded now; None for a call that is no command.

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
        """The names, as paths are kept, that came and that nobody foresaw.

        None: that cannot be told now; whoever looks later has to.
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
        """Keep back the end of a call that left names, and ask. False: it has no end to keep back.

        Args:
            ended: What becomes of the call once a person has answered.
            to: Its result or its error.
        """
        if not names or not set_call(tx, call, call.status, **to):
            return False
        self._ask(tx, call, names, ended=ended)
        return True

    def over(self, tx: Tx, call: CallRow, names: Sequence[str] | None) -> None:
        """End a watch after which nothing is left to be asked."""
        if names is not None:
            drop_watch(tx, call.id)

    def abandon(self, tx: Tx, session_id: str) -> None:
        """Nobody is asked in a session any more: what waits for an answer is taken away."""
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
                    # Nobody waits for it: the answer is told with this.
                    log.tell_final(tx, call.session_id)
            case _:
                raise InvalidMessage("Approve to keep the files, or reject to move them away")

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody answered: nobody let them be there."""
        call, _ = _asked(tx, approval)
        give_away(tx, call.id, NOBODY.name)

    def _go_on(self, tx: Tx, call: CallRow, watch: Watch, taken: str | None = None) -> None:
        """Give a held call its end; one that was dropped meanwhile has it."""
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
        """Look after a call whose owner is gone, or take away what a person does not want."""
        watch = await self.store.read(watch_of, job.key)
        if watch is None:
            return
        # Whoever still runs there comes to its end first.
        async with self.traffic.alone(Path(watch.workspace)):
            if watch.found is None:
                await self._look(watch)
            elif watch.taken_by is not None:
                await self._take(watch)

    async def _look(self, watch: Watch) -> None:
        call = await self.store.read(call_of, watch.call_id)
        # A call that was started is looked after by who goes on with its conversation.
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
        """It is still there: a person is asked once more."""
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
    """What came of a command, and the names that a person let it leave."""
    if not isinstance(result, dict):
        return result
    return {**cast("dict[str, Any]", result), "kept": _shown(watch.found or ())}
