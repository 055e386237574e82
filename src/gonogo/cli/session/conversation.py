"""A conversation with the runtime: what is sent, what comes, how it ended."""

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
# What happened comes from the session's own, in order and without gaps. Those of messages tell only
# when the answers to them are over.

T = TypeVar("T")
_BACKLOG = 1_000


class Over(Struct, frozen=True):
    """The answer to one message has ended, with the event of that seq."""

    seq: int


Item = Event | Over


class Exchange:
    """What is sent in a session, and what comes.

    Args:
        seen: The last event that is not news.
        due: The event up to which there is no end.
    """

    def __init__(
        self, client: Client, session_id: str, answers: Answerer, *, seen: int, due: int
    ) -> None:
        self._client, self._session_id, self._answers = client, session_id, answers
        self.seen, self._due = seen, due
        self.open = 0
        """Answers that are not over."""
        self._late: deque[Item] = deque()
        self._waiting: anyio.CancelScope | None = None

    @asynccontextmanager
    async def begun(self, beside: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
        """Follow the session for the time of a block, and do something beside."""
        async with anyio.create_task_group() as group:
            send, receive = anyio.create_memory_object_stream[Item](_BACKLOG)
            self._group, self._into, self._items = group, send, receive
            async with send, receive:
                group.start_soon(self._follow, send.clone(), self.seen)
                group.start_soon(beside)
                yield
                group.cancel_scope.cancel()

    def end(self) -> None:
        """End the block, wherever it is."""
        self._group.cancel_scope.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether more is to come, of what was sent or of what has happened."""
        return bool(self.open or self._late or self.seen < self._due)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self.open += 1
        self._group.start_soon(self._tell, message, self._into.clone())

    def start(self, act: Callable[[], Awaitable[object]], after: int | None = None) -> None:
        """Do something that has no stream of its own.

        Args:
            after: Its end is the first final event after that; by default, after what is known.
        """
        self.open += 1
        since = max(self.seen, self._due) if after is None else after
        self._group.start_soon(self._act, act, self._into.clone(), since)

    async def next(self) -> Item | None:
        """What happened next; None where that is interrupted."""
        if self._late:
            return self._late.popleft()
        with anyio.CancelScope() as self._waiting:
            return await self._items.receive()
        return None

    def interrupt(self) -> None:
        """Have nobody wait for what happens next."""
        if self._waiting is not None:
            self._waiting.cancel()

    def note(self, item: Item) -> None:
        """Something has been taken in."""
        if isinstance(item, Over):
            self.open -= 1
            self._due = max(self._due, item.seq)
        else:
            self.seen = max(self.seen, item.get("seq", 0))

    async def hearing(self, ask: Callable[[], Awaitable[T]], hear: Callable[[Item], bool]) -> T:
        """Do something, and hear meanwhile what happens.

        Args:
            hear: Takes an item in, or leaves it for later.
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
        """What follows from it ends with the first final event after those that are known."""
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


# What came of the work, told from its events: the exit code, and what still asks.

_ENDS = {"completed": Exit.DONE, "rejected": Exit.DENIED}


class Outcome:
    """How the last message that was sent has ended, so far."""

    def __init__(self) -> None:
        self.plan_id: str | None = None
        """The plan that was put before the person, while it is not over."""
        self.latest_plan: str | None = None
        """The same, over or not."""
        self.is_paused = False
        """A person has paused it."""
        self.is_held = False
        """A person has approved it, to be started later."""
        self.failed_plan: str | None = None
        """One that is over, and of which a subtask failed."""
        self.failed_subtask = "SUBTASK"
        """The one that failed last, where that was seen."""
        self.answer = ""
        """What was said last to the person, when something was over."""
        self._exit = Exit.DONE
        self._denied = False
        self._asked: tuple[str, str] | None = None

    @property
    def is_done(self) -> bool:
        """Whether all came to its end by itself, whatever was denied on the way."""
        return self._exit is Exit.DONE and self.plan_id is None and self._asked is None

    @property
    def exit(self) -> Exit:
        """The exit code, if this was all. What was denied or rejected comes before how it ended."""
        return Exit.DENIED if self._denied else self._exit

    @property
    def question(self) -> str | None:
        """What the agent asked the user and nobody has answered."""
        return self._asked[1] if self._asked else None

    def fresh(self) -> None:
        """Another message was sent: what came of earlier ones does not count."""
        self._exit, self._asked, self.failed_plan = Exit.DONE, None, None

    def note(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
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
    """Whether an agent asks the user; in a subtask that is a question like any other."""
    return event["tool_name"] == "ask_followup_question" and "subtask_id" not in event


# A conversation with the runtime: shows what happens, asks the person, sends their answers.
#
# What is shown comes from one stream, the session's own, in order and without gaps. Each message
# that is sent opens a stream of its own, which tells when the answer to it is over; only then, and
# with nothing left to ask, the command may end.

_FAREWELL = 10.0
"""Seconds that the cancelling of what runs may take."""
_LOOK = 3.0
"""Seconds between two looks at the disk of the state folder."""
_MOVES = frozenset({"plan_resumed", "plan_replanning", "plan_cancelled", "plan_completed"})
"""What ends a pause."""


class Manner(Struct, frozen=True, kw_only=True):
    """How a command takes part in a session."""

    after: int = 0
    """The last event that is not news."""
    due: int = 0
    """The event up to which there is no end."""
    stays: bool = False
    """Where nothing runs and nothing asks, the person may say something, instead of an end."""
    ours: bool = True
    """What runs is this command's: where it is cut off, that is cancelled."""


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
            interrupts: Ctrl-C, where it pauses and asks instead of ending this.
            owns: This process carries out what happens; it stands still once we end.
            folder: The state folder: the person is told when its disk has no room.
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
        """Ctrl-C is why this is stopping."""
        self._cancelling = False
        """What asks is being cancelled, and is not put before the person any more."""

    async def carry(self, message: dict[str, Any]) -> Exit:
        """Send a message and see it through, with all that follows from it.

        Cancelled, it cancels what the message set going.
        """
        return await self._see_through(lambda: self._send(message))

    async def watch(self, act: Callable[[], Awaitable[object]]) -> Exit:
        """Do something that has no stream of its own, and see through what follows from it."""
        return await self._see_through(lambda: self._exchange.start(act))

    async def join(self, *, running: bool) -> Exit:
        """See through what goes on already, and what waits.

        Args:
            running: Something goes on, so that there is an end of it to come.
        """
        return await self._see_through(lambda: self._exchange.start(_is_done) if running else None)

    @property
    def waiting(self) -> list[str]:
        """The ids of the questions that nobody has answered."""
        return list(self._answers.left)

    def recall(self, plan: PlanView | None) -> None:
        """Know how the session's plan stands, from before this command took part."""
        self.outcome.plan_id = plan.plan_id if plan else None
        self.outcome.is_paused = plan is not None and plan.status is PlanStatus.PAUSED
        if plan is not None:
            self._screen.look_at(plan.plan_id)

    def remember(self, event: Event) -> None:
        """Know an event from before this command took part."""
        self.outcome.note(event)
        if event["type"] in {"window_used", "tool_call"}:
            self._screen.glance(event)

    def know(self, approval_id: str) -> None:
        """Do not ask about an approval that has its answer on the way."""
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
        """Say once what keeps the state folder from being written, and once that it is over."""
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
        """Take in what happened; whether that was the last of it."""
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
        """Whether everything is over, once nothing is under way."""
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
        """Have the person say something; whether they end it instead."""
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
        """While a question is open: it stays in sight, unless it has its answer already."""
        if not isinstance(item, Over):
            self._screen.glance(item)
            self._answers.overhear(item)
        return False

    def _interject(self, item: Item) -> bool:
        """While the person may say something: what happens is shown, and may ask them."""
        if isinstance(item, Over) or self._exchange.is_busy or _tells(item):
            self._person.withdraw()
            return False
        self._note(item)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        self.outcome.fresh()
        self._exchange.send(message)

    def _interrupted(self) -> None:
        """Ctrl-C: the first asks what comes next, the second leaves."""
        if self._stopping:
            self._leave_now()
            return
        self._stopping = self._pressed = True
        self._person.withdraw()
        self._exchange.interrupt()

    async def _stopped(self) -> str:
        """Pause, ask, and do what the person says; gives the word for it."""
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
            # Once it is told, all goes on as before; after another Ctrl-C the person is asked anew.
            word = "resume" if paused and not self._stopping else "go_on"
        return await self._do(word, plan_id, paused=paused)

    async def _unless_it_moves(self, ask: Callable[[], Awaitable[str]], since: int) -> str:
        """Ask what comes next, until somebody else has said so."""
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
        """See a plan through that goes on by somebody else's word."""
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
                    # Its answer may come only after the plan.
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
        # What runs comes to its end, or is cut off by another Ctrl-C.
        self._stopping = True
        if paused:
            await self._exchange.hearing(lambda: self._pausing.rest(plan_id), self._overhear)
        self._leave_now()

    def _leave_now(self) -> None:
        self._leaving = True
        self._exchange.end()

    async def _leave(self) -> None:
        """End as Ctrl-C does, with everything kept."""
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
        """Say something that names a command, as it is called from here."""
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
    """What there is to see through was set going already."""


def _ends_pause(event: Event, since: int) -> bool:
    return event["type"] in _MOVES and event.get("seq", 0) > since


def _tells(event: Event) -> bool:
    """Whether there may be something else to do for the person than to say something."""
    return asks_person(event) or bool(event.get("is_final"))
