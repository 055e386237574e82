"""Ctrl-C while a plan runs: the plan pauses, and the person says what to do next."""

import signal
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from gonogo.cli.support import own_locale, said_of
from gonogo.cli.terminal.output import one_line, spoken
from gonogo.client import Client
from gonogo.domain.errors import GonogoError, Refused
from gonogo.domain.plan_views import PlanView, SubtaskView
from gonogo.domain.states import ENDED, PlanStatus, SubtaskStatus
from gonogo.domain.views import MOST_CHOICES, ApprovalView
from gonogo.i18n import DEFAULT, say, term

if TYPE_CHECKING:
    from gonogo.cli.terminal.input import TerminalPerson


class Interrupts:
    """The handling of Ctrl-C in a command."""

    def __init__(self) -> None:
        self._take: Callable[[], None] | None = None

    @contextmanager
    def taken_by(self, take: Callable[[], None] | None) -> Generator[None]:
        """Let Ctrl-C call a function, if one is given, for the time of a block."""
        before, self._take = self._take, take
        try:
            yield
        finally:
            self._take = before

    @asynccontextmanager
    async def heeded(self) -> AsyncGenerator[None]:
        """Let SIGINT and SIGTERM cancel the body, then raise KeyboardInterrupt."""
        caught: list[int] = []

        async def watch(*, task_status: TaskStatus[None]) -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                task_status.started()
                async for number in signals:
                    from gonogo.cli.terminal.input import at_editor

                    if number == signal.SIGINT and at_editor():
                        continue
                    if number == signal.SIGINT and self._take is not None:
                        self._take()
                        continue
                    caught.append(number)
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            await group.start(watch)
            yield
            group.cancel_scope.cancel()
        if caught:
            raise KeyboardInterrupt


# Ctrl-C at a terminal: nothing new starts, and the person says what to do next.

CANCEL, LEAVE = "cancel", "leave"
_LOOK = 0.25


class Pausing(Struct, frozen=True, kw_only=True):
    """Pauses a plan, and asks what to do with it."""

    client: Client
    person: "TerminalPerson"
    locale: str
    stays: bool
    """This process does the work, so plans stop when it ends."""

    async def pause(self, plan_id: str | None, *, anew: bool = True) -> bool:
        """Let nothing new start, and return whether the plan is now paused.

        Args:
            anew: Pause a running plan; otherwise only look whether it is paused.
        """
        if plan_id is None:
            return False
        with suppress(GonogoError):
            plan = await self.client.plan(plan_id)
            if anew and plan.status is PlanStatus.RUNNING:
                with suppress(Refused):
                    plan = await self.client.pause_plan(plan_id)
            return plan.status is PlanStatus.PAUSED
        return False

    async def ask(self, *, paused: bool, plan: bool, at_work: bool = False) -> str:
        """Ask what to do next: `resume`, `go_on`, `steer`, `message`, `cancel` or `leave`.

        Args:
            plan: There is a plan, running or not.
            at_work: There is an agent at work that can read a message.
        """
        options = {"resume": "cli_resume"} if paused else {"go_on": "cli_go_on"}
        options |= {"steer": "cli_steer"} if at_work else {}
        options |= {"message": "cli_message"}
        options |= {CANCEL: "cli_cancel_plan" if plan else "cli_cancel_turn"}
        options |= {LEAVE: "cli_leave_running" if paused and not self.stays else "cli_leave"}
        question = say("cli_paused_question" if paused else "cli_stop_question", self.locale)
        named = {word: say(key, self.locale) for word, key in options.items()}
        return await self.person.choose(question, named) or LEAVE

    async def at_work(self, plan_id: str | None) -> list[str]:
        """The subtasks of a plan whose agents are at work, up to as many as there are keys."""
        if plan_id is None:
            return []
        with suppress(GonogoError):
            plan = await self.client.plan(plan_id)
            return [each.id for each in plan.subtasks if _hears(each)][:MOST_CHOICES]
        return []

    async def steer(self, session_id: str, plan_id: str | None, at_work: Sequence[str]) -> None:
        """Let the person send a message to an agent at work; tell them if that fails.

        Args:
            at_work: The subtasks to choose from; if there are none, the session's own agent.
        """
        from gonogo.cli.terminal.input import Withdrawn

        with suppress(Withdrawn):
            subtask = await self._one_of(at_work)
            said = await self.person.line(self._prompt(subtask))
            try:
                if said and subtask:
                    await self.client.steer_subtask(plan_id or "", subtask, said)
                elif said:
                    await self.client.steer_turn(session_id, said)
            except GonogoError as error:
                self.person.tell(spoken(said_of(error)))

    def _prompt(self, subtask: str | None) -> str:
        if subtask is None:
            return say("cli_steer_turn", self.locale)
        return say("cli_steer_text", self.locale, who=one_line(subtask))

    async def _one_of(self, at_work: Sequence[str]) -> str | None:
        if len(at_work) < 2:
            return at_work[0] if at_work else None
        names = {str(n): one_line(each) for n, each in enumerate(at_work, start=1)}
        number = await self.person.choose(say("cli_steer_whom", self.locale), names)
        if number is None:
            from gonogo.cli.terminal.input import Withdrawn

            raise Withdrawn
        return at_work[int(number) - 1]

    async def resume(self, plan_id: str) -> None:
        """Resume a plan; tell the person if that fails."""
        try:
            await self.client.resume_plan(plan_id)
        except Refused as error:
            self.person.tell(spoken(said_of(error)))

    async def rest(self, plan_id: str | None) -> None:
        """Wait until nothing of a paused plan runs any more."""
        with suppress(GonogoError):
            while plan_id is not None:
                plan = await self.client.plan(plan_id)
                if not any(each.status is SubtaskStatus.RUNNING for each in plan.subtasks):
                    return
                await anyio.sleep(_LOOK)

    async def is_open(self, plan_id: str | None) -> bool:
        """Whether the plan exists and has not ended."""
        if plan_id is None:
            return False
        with suppress(GonogoError):
            return (await self.client.plan(plan_id)).status not in ENDED
        return False


def _hears(subtask: SubtaskView) -> bool:
    return subtask.status is SubtaskStatus.RUNNING and subtask.agent is not None


# Why a plan is paused, until when, and what a person can do.

BY_ITSELF = frozenset({"quota", "model", "disk", "budget", "rollback"})
"""The reasons of pauses that nobody asked for."""


def status_line(plan: PlanView) -> str:
    """A plan and its status, as commands that change a plan print them."""
    return f"{plan.plan_id} {standing(plan, own_locale())}"


def standing(plan: PlanView, locale: str = DEFAULT) -> str:
    """A plan's status in a few words: why it is paused, if nobody asked, and what was undone."""
    told = [one_line(term("pause", plan.pause_reason, locale))] if plan.pause_reason else []
    if plan.revising:
        told.append(say("cli_revising", locale))
    if undone := sum(subtask.rolled_back or False for subtask in plan.subtasks):
        told.append(say("cli_rolled_back", locale, count=undone, total=len(plan.subtasks)))
    status = term("plan", plan.status, locale)
    return f"{status} ({', '.join(told)})" if told else status


def pause_lines(plan: PlanView, pending: list[ApprovalView], locale: str) -> list[str]:
    """Why a plan is paused, and the command that resumes it; empty if it is not paused.

    Args:
        pending: The open questions of its session.
    """
    if plan.status != "paused":
        return []
    until = f"{plan.paused_until:%Y-%m-%d %H:%M:%S} UTC" if plan.paused_until else ""
    key = f"cli_paused_{plan.pause_reason}" if plan.pause_reason in BY_ITSELF else "cli_paused"
    key += "_asked" if plan.pause_reason == "model" and not until else ""
    asked = [a for a in pending if a.plan_id == plan.plan_id and not a.subtask_id]
    told = [say(key, locale, plan_id=plan.plan_id, until=until)]
    return told + [say("cli_waiting", locale, approval_id=a.approval_id) for a in asked]
