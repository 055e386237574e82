"""A conversation with the runtime: shows what happens, asks the person, sends their answers.

What is shown comes from one stream, the session's own, in order and without gaps. Each message that
is sent opens a stream of its own, which tells when the answer to it is over; only then, and with
nothing left to ask, the command may end.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio

from gonogo.cli._answers import FOLLOWS, Answers
from gonogo.cli._ask import Withdrawn
from gonogo.cli._escape import spoken
from gonogo.cli._exchange import Exchange, Item, Over
from gonogo.cli._exits import Exit
from gonogo.cli._interrupts import Interrupts
from gonogo.cli._outcome import Outcome
from gonogo.cli._pausing import CANCEL, LEAVE, Pausing
from gonogo.cli._setup import program
from gonogo.cli._show import Event, Screen
from gonogo.client import Client
from gonogo.domain.errors import GonogoError, Refused
from gonogo.domain.plan_views import PlanView
from gonogo.domain.states import PlanStatus
from gonogo.texts import say

_FAREWELL = 10.0
"""Seconds that the cancelling of what runs may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
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
        answers: Answers,
        *,
        manner: Manner | None = None,
        interrupts: Interrupts | None = None,
        owns: bool = False,
    ) -> None:
        """Take part in a session.

        Args:
            interrupts: Ctrl-C, where it pauses and asks instead of ending this.
            owns: This process carries out what happens; it stands still once we end.
        """
        self._client = client
        self._session_id = session_id
        self._screen = screen
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

    def recall(self, plan: PlanView | None) -> None:
        """Know how the session's plan stands, from before this command took part."""
        self.outcome.plan_id = plan.plan_id if plan else None
        self.outcome.is_paused = plan is not None and plan.status is PlanStatus.PAUSED
        if plan is not None:
            self._screen.look_at(plan.plan_id)

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
                async with self._exchange.begun(self._screen.stay):
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

    async def _go_through(self) -> Exit:
        over = await self._rest()
        while not over:
            if self._stopping:
                word = await self._stopped()
                if word == LEAVE:
                    return Exit.DONE
                if word != CANCEL:
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
            if _asks(item):
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
        self._stopping = True
        self._person.withdraw()
        self._exchange.interrupt()

    async def _stopped(self) -> str:
        """Pause, ask, and do what the person says; gives the word for it."""
        plan_id = self.outcome.plan_id
        paused = await self._pausing.pause(plan_id)
        if not paused and not self._exchange.open and not await self._pausing.is_open(plan_id):
            self._leave_now()
            return LEAVE
        word = await self._exchange.hearing(
            lambda: self._pausing.ask(paused=paused, plan=plan_id is not None), self._overhear
        )
        self._stopping = False
        return await self._do(word, plan_id, paused=paused)

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


def _tells(event: Event) -> bool:
    """Whether there may be something else to do for the person than to say something."""
    return _asks(event) or bool(event.get("is_final"))


def _asks(event: Event) -> bool:
    """Whether a person has now seen what they are to decide about."""
    if event["type"] in {"plan_notification", "plan_not_revised"}:
        return True
    return event["type"] == "approval_requested" and event["metadata"]["kind"] != "plan"
