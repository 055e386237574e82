"""The loop itself.

    while the conversation is not over:
        settle the calls that have no result: run, ask, deny, recover
        if any waits for a person: rest
        if one speaks to the runtime: hand it over
        ask the model, or who speaks in its place; a reply without calls is the end,
            unless it is empty or was cut off: then the model is asked on

Every step is read from and written to the database, so the loop can be stopped anywhere and
started again by anybody.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import GonogoError, PromptTooLong
from gonogo.domain.errors import InternalFailure as FailedError
from gonogo.domain.events import (
    AssistantMessage,
    FallbackFacts,
    ModelFellBack,
    WindowFacts,
    WindowUsed,
)
from gonogo.domain.failures import NoWork
from gonogo.domain.records import CallRow, Checkpoint
from gonogo.domain.replanning import stuck
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import (
    Message,
    ModelRequest,
    Reply,
    ToolClass,
    UserText,
    answered_by,
    unfinished,
)
from gonogo.execution.agent import call_log as record
from gonogo.execution.agent.compaction import Contexts
from gonogo.execution.agent.context import (
    Frame,
    StoredThread,
    ThreadRecord,
    cache_key,
    with_filling,
)
from gonogo.execution.agent.conversation import Explorers, Thread, usable
from gonogo.execution.agent.executor import Hands, ReadyCall
from gonogo.execution.agent.gate import ConversationGrants, Gate, Gated, given_to, offered_schemas
from gonogo.execution.agent.models import ModelPool, keep_usage
from gonogo.execution.agent.questions import question_of_call
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.event_bus import LiveText
from gonogo.i18n import say, told
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.calls import begin_judging, end_judging, open_calls, thread_calls
from gonogo.store.sessions import append_message, conversation
from gonogo.tools.control import questions_of

_C = CallStatus
_MOST_PARTS = 8
"""Replies in a row that a model may be cut off in."""
_TOLD = 300
"""Characters of a model's error that followers see."""
MOST_JUDGINGS = 3
"""How often a call that others left behind is judged before gonogo gives it up."""


class Finished(Struct, frozen=True):
    """The model's last word; not stored yet."""

    reply: Reply


class Handed(Struct, frozen=True):
    """A call that speaks to the runtime; the owner of the thread answers it."""

    call: CallRow


class Resting(Struct, frozen=True):
    """Nothing to do until a person or a client answers; all of it is written."""


class NextStep(Struct, frozen=True, kw_only=True):
    """What a conversation goes on with, as one transaction found it."""

    calls: Sequence[CallRow] = ()
    """Its open calls."""
    given: ConversationGrants | None = None
    """The grants for the first of them; None: not read."""
    checkpoint: Checkpoint | None = None
    """The one before its attempt; None: not read."""
    stored: StoredThread | None = None
    """What the model is asked next, where no call is open; None: not read."""


class Loop(Struct, frozen=True, kw_only=True):
    """Drives conversations."""

    store: Store
    desk: ApprovalService
    gate: Gate
    hands: Hands
    models: ModelPool
    live: LiveText
    contexts: Contexts
    """What models are shown of a conversation."""
    max_requests: int = 100
    """Requests to the model between two messages of the user."""

    async def drive(
        self, thread: Thread, step: NextStep | None = None, begun: ReadyCall | None = None
    ) -> Finished | Handed | Resting:
        """Go on with a conversation as far as it goes.

        Args:
            step: Its state, if the caller has just taken up its open calls.
            begun: A call of it that started when it was approved, and must run first.

        Raises:
            Superseded: somebody else holds the thread's work now.
            ModelFailed: the model did not answer.
            NoWork: it answered, and said nothing.
        """
        if begun is not None:
            await self.hands.run_begun(thread, begun)
            step = None
        with self.contexts.remembered(thread):
            return await self._driven(thread, step or await self._taken_up(thread))

    async def _driven(self, thread: Thread, step: NextStep) -> Finished | Handed | Resting:
        while True:
            if not step.calls:
                reply = await self._reply(thread, step.stored)
                if not reply.calls:
                    return Finished(reply)
                step = await self.store.write(self._keep, thread, reply)
                continue
            settled = await self._settle(thread, step)
            if isinstance(settled, Handed | Resting):
                return settled
            step = settled

    async def _taken_up(self, thread: Thread) -> NextStep:
        step = await self.store.read(self._found, thread)
        if thread.remote or not any(_is_to_judge(call) for call in step.calls):
            return step
        return await self.store.write(self._count, thread)

    def _count(self, tx: Tx, thread: Thread) -> NextStep:
        thread.owner.check(tx)
        return taken_up(tx, thread)

    # Calls ------------------------------------------------------------------------------------

    async def _settle(self, thread: Thread, step: NextStep) -> Handed | Resting | NextStep:
        asks: list[tuple[CallRow, Gated]] = []
        controls: list[CallRow] = []
        looks: list[tuple[CallRow, Gated]] = []
        for call in step.calls:
            mark = self.hands.mark(thread)
            gated = await self._judged(thread, call, step.given)
            if gated is None or gated.verdict.decision == "deny":
                await self._look(thread, looks)
                await self._go_on(thread, call, gated)
            elif gated.verdict.decision == "ask":
                asks.append((call, await self.gate.with_words(thread, gated)))
            elif gated.tool_class is ToolClass.CONTROL:
                controls.append(replace(call, arguments=gated.arguments))
            elif self.hands.only_looks(thread, call):
                looks.append((call, gated))
            else:
                # Calls that only look may take long, and people may change files meanwhile.
                mark = None if looks else mark
                await self._look(thread, looks)
                await self.hands.run_allowed(thread, call, gated, mark, step.checkpoint)
            # What was read with the first call may not hold any more for the next one.
            step = NextStep()
        await self._look(thread, looks)
        left = await self._left(thread, asks)
        if left is None:
            return Resting()
        return Handed(controls[0]) if controls else left

    async def _left(self, thread: Thread, asks: Sequence[tuple[CallRow, Gated]]) -> NextStep | None:
        """What to go on with, without a write where nothing changes; None: the loop rests."""
        if not asks:
            step = await self.store.read(self._held, thread)
            counted = any(call.judgings for call in step.calls)
            if not counted and self.hands.whose_move(step.calls) == "ours":
                return step
        return await self.store.write(self._rest, thread, asks)

    def _held(self, tx: Tx, thread: Thread) -> NextStep:
        thread.owner.check(tx)
        return self._found(tx, thread)

    def _found(self, tx: Tx, thread: Thread) -> NextStep:
        """A conversation as it stands."""
        left = open_calls(tx, thread.session_id, thread.name)
        asks = not left and thread.speak is None
        return NextStep(calls=left, stored=self.contexts.look(tx, thread) if asks else None)

    async def _judged(
        self, thread: Thread, call: CallRow, given: ConversationGrants | None
    ) -> Gated | None:
        """The verdict on a call that is new, if it may be judged once more."""
        if call.status is not _C.PROPOSED or _is_hopeless(call):
            return None
        problem = call.verdict.get("problem")
        arguments = None if problem else call.arguments
        return await self.gate.judge(thread, call.tool, arguments, problem, given)

    async def _look(self, thread: Thread, looks: list[tuple[CallRow, Gated]]) -> None:
        """Run the calls that only look, before anything changes, and empty their list."""
        if looks:
            await self.hands.look(thread, looks, self._explore)
            looks.clear()

    async def _explore(
        self, thread: Thread, call: CallRow, gated: Gated
    ) -> tuple[dict[str, Any], None]:
        """Have explorers answer the questions of a call."""
        explorers = Explorers(self.store, self._last_word)
        try:
            answers = await explorers.answers(thread, call.id, questions_of(gated.arguments))
        except GonogoError:
            # The call waits for a model: that is no crash, so its judgings do not count.
            await self.store.write(end_judging, thread.session_id, thread.name)
            raise
        return {"answers": answers}, None

    async def _last_word(self, thread: Thread) -> Reply | None:
        """Drive a conversation in which nobody else takes part, and store its last reply."""
        step = await self.drive(thread)
        if not isinstance(step, Finished):
            return None
        await self.store.write(self._keep, thread, step.reply)
        return step.reply

    async def _go_on(self, thread: Thread, call: CallRow, denied: Gated | None) -> None:
        if denied is not None:
            await self.store.write(self.hands.deny, thread, call, denied)
        elif _is_hopeless(call):
            await self.hands.give_up(thread, call)
        elif call.status is _C.ALLOWED:
            await self.hands.run_approved(thread, call)
        elif call.is_at_work:
            await self.hands.recover(thread, call)

    def _rest(
        self, tx: Tx, thread: Thread, asks: Sequence[tuple[CallRow, Gated]]
    ) -> NextStep | None:
        """Open the questions, and let go if nothing is left to run; None: the loop rests."""
        thread.owner.check(tx)
        left = open_calls(tx, thread.session_id, thread.name)
        if any(call.judgings for call in left):
            end_judging(tx, thread.session_id, thread.name)
        for call, gated in asks:
            self._ask_person(tx, call, gated)
        if self.hands.rest(tx, thread):
            return None
        return NextStep(calls=open_calls(tx, thread.session_id, thread.name))

    def _ask_person(self, tx: Tx, call: CallRow, gated: Gated) -> None:
        approval = self.desk.open(
            tx,
            question_of_call(call, gated),
            before=lambda opened: record.tell_called(tx, call, gated, opened),
        )
        record.pass_through(
            tx, call, _C.AWAITING_APPROVAL, approval_id=approval.id,
            **record.gated_columns(gated),
        )  # fmt: skip

    # The model --------------------------------------------------------------------------------

    async def _reply(self, thread: Thread, stored: StoredThread | None) -> Reply:
        """The next reply: one with calls, or a last one that is whole and not empty.

        Raises:
            NoWork: the model says nothing, or never comes to an end.
        """
        if thread.speak is not None:
            return thread.speak(await self.store.read(thread_calls, thread.session_id, thread.name))
        while (reply := await self._ask_model(thread, stored)).is_unfinished:
            left = await self.store.write(self._keep_part, thread, reply)
            _check_parts(left, thread.locale)
            stored = None
        return reply

    async def _ask_model(self, thread: Thread, stored: StoredThread | None) -> Reply:
        found = await self.contexts.briefed(thread, stored)
        self._check(thread, found.whole)
        frame = await self.frame(thread, found)
        found = await self.contexts.fitted(thread, found, frame)
        try:
            reply = await self._send(thread, found, frame)
        except PromptTooLong:
            shorter = await self.contexts.compacted(thread, found, frame, refused=True)
            if shorter is None:
                raise
            found = shorter
            reply = await self._send(thread, found, frame)
        if found.waited:
            await self.store.write(thread.owner.answered)
        return reply.model_copy(update={"begun": found.begun, "heard": found.said or None})

    def _check(self, thread: Thread, messages: Sequence[Message]) -> None:
        """Check that the conversation may go on.

        Raises:
            InternalFailure: it has gone on for too long, or it turns in a circle.
        """
        most = thread.max_requests or self.max_requests
        if _requests(messages) >= most:
            raise FailedError(say("turn_limit", thread.locale, count=most))
        loop = stuck(messages)
        if loop is not None:
            tools = ", ".join(loop.tools)
            said = say(loop.key, thread.locale, count=loop.count, tools=tools, detail=loop.detail)
            raise FailedError(said)

    async def frame(self, thread: Thread, found: ThreadRecord) -> Frame:
        """What stands before the messages of every request of a thread."""
        system = _system(self.gate.profile(thread).prompt, thread)
        return Frame(system, usable(await offered_schemas(self.gate, thread), found.whole))

    async def _send(self, thread: Thread, found: ThreadRecord, frame: Frame) -> Reply:
        request = ModelRequest(
            agent=thread.agent, thread=thread.script, system=frame.system, tools=frame.tools,
            messages=found.messages, cache_key=cache_key(frame, found.whole), earlier=found.earlier,
            session=thread.session_id,
        )  # fmt: skip
        model = self.models(thread.model, thread.role)
        async with self._shown(thread) as show:
            reply = await self.contexts.meter.ask(
                thread, request, lambda: model.request(request, show)
            )
        reply = found.aliases.read(reply)
        passed = "" if answered_by(found.whole) == reply.model else reply.passed
        reply = with_filling(reply, found.whole, self.contexts.window(thread, found))
        return reply.model_copy(update={"passed": passed})

    @asynccontextmanager
    async def _shown(self, thread: Thread) -> AsyncGenerator[Callable[[str], None]]:
        """Show followers what is not kept: text as it is written."""
        if thread.quiet:
            yield lambda _: None
            return
        async with self.live.answer(thread.session_id, thread.place) as show:
            yield show

    def _keep_part(self, tx: Tx, thread: Thread, reply: Reply) -> list[Reply]:
        """Store an unfinished reply; return all of these since the last finished one."""
        thread.owner.check(tx)
        _remember(tx, thread, reply)
        return unfinished(conversation(tx, thread.session_id, thread.name))

    def _keep(self, tx: Tx, thread: Thread, reply: Reply) -> NextStep:
        thread.owner.check(tx)
        keep_reply(tx, thread, reply)
        record.propose(tx, thread, reply)
        left = open_calls(tx, thread.session_id, thread.name)
        return NextStep(calls=left, given=given_to(tx, thread), checkpoint=thread.checkpoint(tx))


def taken_up(tx: Tx, thread: Thread) -> NextStep:
    """A conversation as it stands, with its open calls taken up."""
    left = open_calls(tx, thread.session_id, thread.name)
    return NextStep(calls=take_up(tx, left, remote=thread.remote))


def take_up(tx: Tx, left: Sequence[CallRow], *, remote: bool) -> list[CallRow]:
    """Count calls that others left behind, before judging them: that may have ended the others.

    Args:
        remote: A client carries the calls out, so nobody judges them again.
    """
    to_judge = [] if remote else [call for call in left if _is_to_judge(call)]
    begin_judging(tx, to_judge)
    return [replace(c, judgings=c.judgings + 1) if c in to_judge else c for c in left]


def _is_to_judge(call: CallRow) -> bool:
    if call.status is _C.STARTED:
        return call.tool_class is not ToolClass.CONTROL
    return call.status in {_C.PROPOSED, _C.ALLOWED}


def _is_hopeless(call: CallRow) -> bool:
    """Whether a call has ended every process that judged it, too often to try again."""
    return call.judgings > MOST_JUDGINGS and _is_to_judge(call)


def keep_reply(tx: Tx, thread: Thread, reply: Reply, *, final: bool = False) -> None:
    """Store a model's reply and its usage, and tell followers its whole text."""
    _remember(tx, thread, reply)
    if (reply.said or final) and not thread.quiet:
        event = AssistantMessage(content=reply.said, is_final=final, **thread.place)
        log.tell(tx, thread.session_id, event)


def _remember(tx: Tx, thread: Thread, reply: Reply) -> None:
    keep_usage(tx, thread, reply)
    if reply.passed:
        tell_fallback(tx, thread, reply)
    if reply.window and not thread.quiet:
        facts = WindowFacts(window=reply.window, tokens=reply.taken)
        log.tell(tx, thread.session_id, WindowUsed(metadata=facts, **thread.place))
    append_message(
        tx, thread.session_id, thread.name, reply, turn_id=thread.turn_id, agent=thread.agent,
    )  # fmt: skip


def tell_fallback(tx: Tx, thread: Thread, reply: Reply) -> None:
    """Tell that another model answers from now on, in the place of the one that should."""
    facts = FallbackFacts(model=reply.model, error=reply.passed[:_TOLD])
    error = told(reply.passed, thread.locale)[:_TOLD]
    said = say("model_fallback", thread.locale, model=reply.model, error=error)
    log.tell(tx, thread.session_id, ModelFellBack(content=said, metadata=facts, **thread.place))


def _check_parts(parts: Sequence[Reply], locale: str) -> None:
    """Check that a model may be asked to say more.

    Raises:
        NoWork: it said nothing twice, or was cut off too often.
    """
    if sum(part.asked for part in parts if part.is_empty) > 1:
        raise NoWork(say("no_work_empty", locale))
    if len(parts) >= _MOST_PARTS:
        raise NoWork(say("no_work_cut", locale, count=len(parts)))


def _requests(messages: Sequence[Message]) -> int:
    count = 0
    for message in reversed(messages):
        if isinstance(message, UserText):
            break
        count += isinstance(message, Reply)
    return count


def _system(prompt: str, thread: Thread) -> str:
    language = {"ru": "Russian", "en": "English"}[thread.locale]
    return f"{prompt}\n\nAnswer in {language}."
