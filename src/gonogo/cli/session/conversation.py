"""A conversation with the runtime: messages sent, events received, and the outcome."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Struct

from gonogo.cli.folder import Folder, program
from gonogo.cli.session.answers import FOLLOWS, Answerer
from gonogo.cli.session.interrupts import BY_ITSELF, CANCEL, LEAVE, Interrupts, Pausing
from gonogo.cli.support import Exit
from gonogo.cli.terminal.input import Withdrawn
from gonogo.cli.terminal.output import spoken
from gonogo.cli.terminal.render import Event, Screen
from gonogo.client import Client
from gonogo.disks import disk_problem
from gonogo.domain.errors import GonogoError, Refused
from gonogo.domain.events import asks_person
from gonogo.domain.plan_views import PlanView
from gonogo.domain.states import PlanStatus, was_refused
from gonogo.i18n import say, told

# The streams of a session: its own, and one for each message that is sent to it.
#
# Events come from the session's own stream, in order and without gaps. The streams of messages only
# tell when the answers are complete.

T = TypeVar("T")
_BACKLOG = 1_000


class Over(Struct, frozen=True):
    """The answer to one message is complete; `seq` is its last event."""

    seq: int


Item = Event | Over


class Exchange:
    """Sends messages to a session and receives its events.

    Args:
        seen: The last event that is already known.
        due: The exchange is busy at least until this event has come.
    """

    def __init__(
        self, client: Client, session_id: str, answers: Answerer, *, seen: int, due: int
    ) -> None:
        self._client, self._session_id, self._answers = client, session_id, answers
        self.seen, self._due = seen, due
        self.open = 0
        """Number of answers that are not complete."""
        self._late: deque[Item] = deque()
        self._waiting: anyio.CancelScope | None = None

    @asynccontextmanager
    async def begun(self, beside: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
        """Follow the session for the time of a block, and run `beside` meanwhile."""
        async with anyio.create_task_group() as group:
            send, receive = anyio.create_memory_object_stream[Item](_BACKLOG)
            self._group, self._into, self._items = group, send, receive
            async with send, receive:
                group.start_soon(self._follow, send.clone(), self.seen)
                group.start_soon(beside)
                yield
                group.cancel_scope.cancel()

    def end(self) -> None:
        """End the block of `begun` at once."""
        self._group.cancel_scope.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether answers or known events are still to come."""
        return bool(self.open or self._late or self.seen < self._due)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self.open += 1
        self._group.start_soon(self._tell, message, self._into.clone())

    def start(self, act: Callable[[], Awaitable[object]], after: int | None = None) -> None:
        """Do something that has no stream of its own.

        Args:
            after: The first final event after this one ends it; by default after all known events.
        """
        self.open += 1
        since = max(self.seen, self._due) if after is None else after
        self._group.start_soon(self._act, act, self._into.clone(), since)

    async def next(self) -> Item | None:
        """Wait for the next item; None if `interrupt` ends the wait."""
        if self._late:
            return self._late.popleft()
        with anyio.CancelScope() as self._waiting:
            return await self._items.receive()
        return None

    def interrupt(self) -> None:
        """End the wait for the next item."""
        if self._waiting is not None:
            self._waiting.cancel()

    def note(self, item: Item) -> None:
        """Record that an item was handled."""
        if isinstance(item, Over):
            self.open -= 1
            self._due = max(self._due, item.seq)
        else:
            self.seen = max(self.seen, item.get("seq", 0))

    async def hearing(self, ask: Callable[[], Awaitable[T]], hear: Callable[[Item], bool]) -> T:
        """Do something, and listen to events meanwhile.

        Args:
            hear: Handles an item and returns True, or returns False to leave it for later.
        """

        async def listen() -> None:
            while True:
                item = await self._items.receive()
                if not hear(item):
                    self._late.append(item)

        answers: list[T] = []
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            answers.append(await ask())
            group.cancel_scope.cancel()
        return answers[0]

    async def _act(
        self,
        act: Callable[[], Awaitable[object]],
        into: MemoryObjectSendStream[Item],
        after: int,
    ) -> None:
        """Act, and wait for the first final event after `after`."""
        async with into:
            events = self._client.follow(self._session_id, after)
            await act()
            async with aclosing(events):
                async for event in events:
                    if "seq" in event and _ends(event):
                        await into.send(Over(event["seq"]))
                        return

    async def _tell(self, message: dict[str, Any], into: MemoryObjectSendStream[Item]) -> None:
        last = 0
        async with into:
            async for event in self._client.send(self._session_id, message):
                last = max(last, event.get("seq", 0))
                if event["type"] == "approval_voted" and event.get("is_final"):
                    self._answers.waits(event["metadata"]["approval_id"])
                if event["type"] == "error" and "seq" not in event:
                    await self._answers.refused(message, str(event.get("code")))
                    await into.send(event)
            await into.send(Over(last))

    async def _follow(self, into: MemoryObjectSendStream[Item], after: int) -> None:
        async with into:
            async for event in self._client.follow(self._session_id, after):
                await into.send(event)


def _ends(event: Event) -> bool:
    held = event["type"] == "plan_approved" and bool(event["metadata"].get("held"))
    return held or bool(event.get("is_final"))


# The outcome of the work, derived from its events: the exit code, and open questions.

_ENDS = {"completed": Exit.DONE, "rejected": Exit.DENIED}


class Outcome:
    """The outcome of the last message so far."""

    def __init__(self) -> None:
        self.plan_id: str | None = None
        """The plan that the person was shown, until it ends."""
        self.latest_plan: str | None = None
        """The same, but also after its end."""
        self.is_paused = False
        """A person has paused it."""
        self.is_held = False
        """A person has approved it to start later."""
        self.failed_plan: str | None = None
        """A plan that has ended with a failed subtask."""
        self.failed_subtask = "SUBTASK"
        """The subtask that failed last, if that was seen."""
        self.answer = ""
        """The last final text for the person."""
        self._exit = Exit.DONE
        self._denied = False
        self._asked: tuple[str, str] | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything ended successfully, even if calls were denied on the way."""
        return self._exit is Exit.DONE and self.plan_id is None and self._asked is None

    @property
    def exit(self) -> Exit:
        """The exit code so far. A denial or rejection takes precedence over how the work ended."""
        return Exit.DENIED if self._denied else self._exit

    @property
    def question(self) -> str | None:
        """The agent's question to the user that nobody has answered."""
        return self._asked[1] if self._asked else None

    def fresh(self) -> None:
        """Forget the outcome of earlier messages, because another one was sent."""
        self._exit, self._asked, self.failed_plan = Exit.DONE, None, None

    def note(self, event: Mapping[str, Any]) -> None:
        """Update the outcome with one event."""
        facts: Mapping[str, Any] = event.get("metadata") or {}
        match event["type"]:
            case "plan_notification":
                self.plan_id = self.latest_plan = facts["plan_id"]
            case "plan_paused" | "plan_resumed":
                by_itself = facts.get("reason") in BY_ITSELF
                self.is_paused = event["type"] == "plan_paused" and not by_itself
            case "plan_approved":
                self.is_held = bool(facts.get("held"))
            case "plan_completed":
                self.answer = str(event.get("content") or "")
                self.failed_plan = facts["plan_id"] if facts.get("failed") else None
                self._end(_ENDS.get(facts["status"], Exit.FAILED))
            case "plan_rejected" | "plan_cancelled":
                rejected = event["type"] == "plan_rejected"
                self._end(Exit.DENIED if rejected else Exit.FAILED)
            case "error" if "subtask_id" not in event:
                denied = event.get("code") == "policy_denied"
                self._exit = Exit.DENIED if denied else Exit.FAILED
            case "tool_call" | "tool_rejected" | "tool_result":
                self._note_call(event)
            case _:
                self._note_end(event)

    def _end(self, how: Exit) -> None:
        self.plan_id, self.is_paused, self._exit = None, False, how

    def _note_end(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "subtask_failed":
            self.failed_subtask = event["metadata"]["subtask_id"]
        said = event["type"] == "assistant_message" and event.get("is_final")
        if said and "subtask_id" not in event:
            self.answer = str(event.get("content") or "")

    def _note_call(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "tool_rejected" or was_refused(event.get("error")):
            self._denied = True
        if event["type"] == "tool_result" and self._asked and event["call_id"] == self._asked[0]:
            self._asked = None
        elif event["type"] == "tool_call" and _is_question(event):
            self._asked = event["call_id"], str(event["arguments"].get("question", ""))


def _is_question(event: Mapping[str, Any]) -> bool:
    """Whether the call asks the user something; a subtask's question is an approval instead."""
    return event["tool_name"] == "ask_followup_question" and "subtask_id" not in event


# A conversation with the runtime: it shows events, asks the person, and sends their answers.
#
# Everything on the screen comes from the session's own stream, in order and without gaps. Each
# message opens another stream, which tells when its answer is complete. The command may end only
# when all answers are complete and no question is left.

_FAREWELL = 10.0
"""Seconds that the cancellation of running work may take."""
_LOOK = 3.0
"""Seconds between two checks of the state folder's disk."""
_MOVES = frozenset({"plan_resumed", "plan_replanning", "plan_cancelled", "plan_completed"})
"""Events that end a pause."""


class Manner(Struct, frozen=True, kw_only=True):
    """How a command takes part in a session."""

    after: int = 0
    """The last event that is already known."""
    due: int = 0
    """The command follows at least until this event has come."""
    stays: bool = False
    """When nothing runs and no question is open, prompt the person instead of ending."""
    ours: bool = True
    """The running work belongs to this command, which cancels it when it is interrupted."""


class Conversation:
    """One session, from this command's point of view."""

    def __init__(
        self,
        client: Client,
        session_id: str,
        screen: Screen,
        answers: Answerer,
        *,
        manner: Manner | None = None,
        interrupts: Interrupts | None = None,
        owns: bool = False,
        folder: Folder | None = None,
    ) -> None:
        """Take part in a session.

        Args:
            interrupts: The handler of Ctrl-C, if that pauses and asks instead of ending.
            owns: This process does the work, which stops when the process ends.
            folder: The state folder; the person is told when its disk is full.
        """
        self._client = client
        self._session_id = session_id
        self._screen, self._folder = screen, folder
        self._answers = answers
        self._person, self._wish, self._locale = answers.person, answers.wish, answers.locale
        self._manner = manner or Manner()
        self._interrupts = interrupts or Interrupts()
        self._pausing = Pausing(client=client, person=self._person, locale=self._locale, stays=owns)
        self.outcome = Outcome()
        self._exchange = Exchange(
            client, session_id, answers, seen=self._manner.after, due=self._manner.due
        )
        self._stays = self._manner.stays and self._person.is_there
        self._stopping = self._leaving = False
        self._pressed = False
        """`_stopping` is set because of Ctrl-C."""
        self._cancelling = False
        """Open questions are being cancelled, so the person is not asked about them."""

    async def carry(self, message: dict[str, Any]) -> Exit:
        """Send a message and follow all work that results from it to its end.

        If this is cancelled, it cancels that work.
        """
        return await self._see_through(lambda: self._send(message))

    async def watch(self, act: Callable[[], Awaitable[object]]) -> Exit:
        """Do something that has no stream of its own, and follow the resulting work to its end."""
        return await self._see_through(lambda: self._exchange.start(act))

    async def join(self, *, running: bool) -> Exit:
        """Follow work and questions that are already there to their end.

        Args:
            running: Work is running, so a final event is still to come.
        """
        return await self._see_through(lambda: self._exchange.start(_is_done) if running else None)

    @property
    def waiting(self) -> list[str]:
        """The ids of the questions that nobody has answered."""
        return list(self._answers.left)

    def recall(self, plan: PlanView | None) -> None:
        """Set the state of the session's plan from before this command joined."""
        self.outcome.plan_id = plan.plan_id if plan else None
        self.outcome.is_paused = plan is not None and plan.status is PlanStatus.PAUSED
        if plan is not None:
            self._screen.look_at(plan.plan_id)

    def remember(self, event: Event) -> None:
        """Take an event from before this command joined into account."""
        self.outcome.note(event)
        if event["type"] in {"window_used", "tool_call"}:
            self._screen.glance(event)

    def know(self, approval_id: str) -> None:
        """Do not ask about an approval whose answer is already on the way."""
        self._answers.know(approval_id)

    async def is_sent_back(self, plan_id: str) -> None:
        """Do not ask about a plan while its planner answers comments on it."""
        await self._answers.is_sent_back(plan_id)

    async def _see_through(self, begin: Callable[[], None]) -> Exit:
        settled, ended = False, Exit.INTERRUPTED
        take = self._interrupted if self._person.has_keys and self._wish.keeps else None
        try:
            with self._interrupts.taken_by(take):
                async with self._exchange.begun(self._stay):
                    begin()
                    ended = await self._go_through()
            settled = True
        except Exception:
            settled = True
            raise
        finally:
            if not settled:
                await self._give_up()
        if self._leaving:
            await self._leave()
        return ended

    async def _stay(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._screen.stay)
            if self._folder is not None:
                await self._tell_of_disk(self._folder)

    async def _tell_of_disk(self, folder: Folder) -> None:
        """Tell the person once when the state folder cannot be written, and once when it can."""
        known = None
        while True:
            await anyio.sleep(_LOOK)
            problem = await anyio.to_thread.run_sync(disk_problem, folder.home)
            if problem == known:
                continue
            known = problem
            if problem is None:
                self._person.tell(say("cli_home_writable", self._locale, home=folder.home))
            else:
                why = told(problem, self._locale)
                self._person.tell(say("cli_home_waits", self._locale, problem=why))

    async def _go_through(self) -> Exit:
        over = await self._rest()
        while not over:
            if self._stopping:
                word = await self._stopped()
                if word == LEAVE:
                    return Exit.DONE
                self._cancelling = word == CANCEL
                if not self._cancelling:
                    await self._ask()
                over = await self._rest()
            elif (item := await self._exchange.next()) is not None:
                over = await self._take(item)
        return self._end()

    async def _take(self, item: Item) -> bool:
        """Handle an item, and return whether it was the last one."""
        self._note(item)
        if not isinstance(item, Over):
            if "token" in item:
                return False
            if item["type"] == "plan_not_revised":
                self._answers.comes_back(item["plan_id"])
            if asks_person(item) and not self._cancelling:
                await self._ask()
        return await self._rest()

    def _note(self, item: Item) -> None:
        self._exchange.note(item)
        if not isinstance(item, Over):
            self._screen.show(item)
            self.outcome.note(item)

    async def _rest(self) -> bool:
        """If nothing is running: ask what is open, and return whether everything is over."""
        if self._exchange.is_busy or self._stopping:
            return False
        self._cancelling = False
        if self.outcome.is_paused and self._person.has_keys:
            self._stopping = True
            return False
        await self._ask()
        if self._exchange.is_busy or self._stopping:
            return False
        return not self._stays or await self._prompted()

    async def _ask(self) -> None:
        for message in await self._exchange.hearing(self._answers.to_what_waits, self._overhear):
            if message["type"] == FOLLOWS:
                self._exchange.start(_is_done)
            else:
                self._send(message)
        if self._exchange.open or self._stopping or not self.outcome.question:
            return
        if message := await self._exchange.hearing(self._answered, self._overhear):
            self._send(message)

    async def _answered(self) -> dict[str, Any] | None:
        with suppress(Withdrawn):
            return await self._answers.to_question(self.outcome.question or "")
        return None

    async def _prompted(self) -> bool:
        """Prompt the person for a message, and return whether they end the conversation instead."""
        said = await self._exchange.hearing(self._words, self._interject)
        if said:
            self._send({"type": "user_message", "content": said})
        return said is None

    async def _words(self) -> str | None:
        said = ""
        with suppress(Withdrawn):
            while said == "":
                said = await self._person.line(">", ahead=True)
        return said

    def _overhear(self, item: Item) -> bool:
        """Handle an item while a question is open: keep it visible, unless it is answered."""
        if not isinstance(item, Over):
            self._screen.glance(item)
            self._answers.overhear(item)
        return False

    def _interject(self, item: Item) -> bool:
        """Handle an item while the person may type: show it, unless it asks them something."""
        if isinstance(item, Over) or self._exchange.is_busy or _tells(item):
            self._person.withdraw()
            return False
        self._note(item)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        self.outcome.fresh()
        self._exchange.send(message)

    def _interrupted(self) -> None:
        """Handle Ctrl-C: the first one asks what to do next, the second one leaves."""
        if self._stopping:
            self._leave_now()
            return
        self._stopping = self._pressed = True
        self._person.withdraw()
        self._exchange.interrupt()

    async def _stopped(self) -> str:
        """Pause, ask the person what to do, do it, and return the chosen word."""
        plan_id, pressed, self._pressed = self.outcome.plan_id, self._pressed, False
        since = (await self._client.session(self._session_id)).last_seq
        paused = await self._pausing.pause(plan_id, anew=pressed)
        if not paused and not pressed:
            return self._go_on()
        if not paused and not self._exchange.open and not await self._pausing.is_open(plan_id):
            self._leave_now()
            return LEAVE
        at_work = await self._pausing.at_work(plan_id)
        is_heard = bool(at_work) or (plan_id is None and bool(self._exchange.open))
        word = await self._unless_it_moves(
            lambda: self._pausing.ask(paused=paused, plan=plan_id is not None, at_work=is_heard),
            since,
        )
        self._stopping = False
        if word == "steer":
            await self._exchange.hearing(
                lambda: self._pausing.steer(self._session_id, plan_id, at_work), self._overhear
            )
            # After the message the work continues as before; after another Ctrl-C we ask again.
            word = "resume" if paused and not self._stopping else "go_on"
        return await self._do(word, plan_id, paused=paused)

    async def _unless_it_moves(self, ask: Callable[[], Awaitable[str]], since: int) -> str:
        """Ask what to do next; stop asking if somebody else ends the pause."""
        with anyio.CancelScope() as asking:

            def hear(item: Item) -> bool:
                if not isinstance(item, Over) and _ends_pause(item, since):
                    asking.cancel()
                    if not item.get("is_final"):
                        self._go_on(item["seq"])
                return self._overhear(item)

            return await self._exchange.hearing(ask, hear)
        return "go_on"

    def _go_on(self, after: int | None = None) -> str:
        """Follow a plan that somebody else has resumed."""
        self._stopping = self.outcome.is_paused = False
        self._exchange.start(_is_done, after)
        return "go_on"

    async def _do(self, word: str, plan_id: str | None, *, paused: bool) -> str:
        after = (await self._client.session(self._session_id)).last_seq
        match word:
            case "resume":
                self._exchange.start(lambda: self._pausing.resume(plan_id or ""), after)
            case _ if word == CANCEL and plan_id is not None:
                self._exchange.start(lambda: self._client.cancel_plan(plan_id), after)
            case _ if word == CANCEL:
                self._send({"type": "cancel"})
            case "message":
                if said := await self._exchange.hearing(self._words, self._overhear):
                    # The answer may come only after the plan has ended.
                    self._stays = True
                    self._send({"type": "user_message", "content": said})
            case _ if word == LEAVE:
                await self._part(plan_id, paused=paused)
            case _:
                pass
        return word

    async def _part(self, plan_id: str | None, *, paused: bool) -> None:
        if paused and not self._pausing.stays:
            await self._pausing.resume(plan_id or "")
            self._tell_way_back("cli_left_running")
            return
        # Running subtasks finish, unless another Ctrl-C cuts them off.
        self._stopping = True
        if paused:
            await self._exchange.hearing(lambda: self._pausing.rest(plan_id), self._overhear)
        self._leave_now()

    def _leave_now(self) -> None:
        self._leaving = True
        self._exchange.end()

    async def _leave(self) -> None:
        """End as Ctrl-C does, and keep everything."""
        plan_id = self.outcome.plan_id
        if not await self._pausing.pause(plan_id) and plan_id is None and self._manner.ours:
            await self._cancel_turn()
        self._tell_way_back("cli_left")
        raise KeyboardInterrupt

    def _tell_way_back(self, key: str) -> None:
        command = f"{self._wish.prefix}{program()} attach {self._session_id}"
        self._person.tell(say(key, self._locale, command=command))

    async def _cancel_turn(self) -> None:
        with suppress(GonogoError):
            async for _ in self._client.send(self._session_id, {"type": "cancel"}):
                pass

    def _end(self) -> Exit:
        for approval_id in self._answers.left:
            self._tell_how("cli_waiting", approval_id=approval_id)
        plan_id = self.outcome.plan_id
        if self._wish.plan_only and plan_id:
            return Exit.DONE
        if question := self.outcome.question:
            self._person.tell(spoken(question))
            self._tell_way_back("cli_asked")
        if self.outcome.is_paused:
            self._tell_how("cli_paused", plan_id=plan_id)
        if failed := self.outcome.failed_plan:
            subtask = self.outcome.failed_subtask
            self._tell_how("cli_plan_failed", plan_id=failed, subtask=subtask)
        if self._answers.left or question or (plan_id and not self.outcome.is_held):
            return Exit.WAITS
        return self.outcome.exit

    def _tell_how(self, key: str, **fields: object) -> None:
        """Tell the person a text with a command, written as they would type it here."""
        said = say(key, self._locale, **fields)
        self._person.tell(said.replace("gonogo ", f"{self._wish.prefix}{program()} "))

    async def _give_up(self) -> None:
        with anyio.move_on_after(_FAREWELL, shield=True), suppress(GonogoError):
            if self._manner.ours:
                await self._cancel_all()
        how = "cli_interrupted" if self._wish.keeps else "cli_demo_interrupted"
        self._tell_way_back(how)

    async def _cancel_all(self) -> None:
        if self.outcome.plan_id:
            with suppress(Refused):
                await self._client.cancel_plan(self.outcome.plan_id)
        await self._cancel_turn()


async def _is_done() -> None:
    """Do nothing: the work is already running."""


def _ends_pause(event: Event, since: int) -> bool:
    return event["type"] in _MOVES and event.get("seq", 0) > since


def _tells(event: Event) -> bool:
    """Whether the event may need something other than a message from the person."""
    return asks_person(event) or bool(event.get("is_final"))
