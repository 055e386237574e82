"""Ctrl-C at a terminal: nothing new starts, and the person says what comes next."""

from contextlib import suppress
from dataclasses import dataclass

import anyio

from gonogo.cli._ask import Person
from gonogo.client import Client
from gonogo.domain.errors import GonogoError, Refused
from gonogo.domain.states import ENDED, PlanStatus, SubtaskStatus
from gonogo.texts import say

CANCEL, LEAVE = "cancel", "leave"
_LOOK = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing:
    """Stops a plan, and asks what is to become of it."""

    client: Client
    person: Person
    locale: str
    stays: bool
    """This process carries the plans out: what it leaves stands still."""

    async def pause(self, plan_id: str | None) -> bool:
        """Let nothing new start. Whether there is a plan that now stands still."""
        if plan_id is None:
            return False
        with suppress(GonogoError):
            plan = await self.client.plan(plan_id)
            if plan.status is PlanStatus.RUNNING:
                with suppress(Refused):
                    plan = await self.client.pause_plan(plan_id)
            return plan.status is PlanStatus.PAUSED
        return False

    async def ask(self, *, paused: bool, plan: bool) -> str:
        """What comes next: `resume`, `continue`, `message`, `cancel` or `leave`.

        Args:
            plan: There is one, be it under way or not.
        """
        options = {"resume": "cli_resume"} if paused else {"go_on": "cli_go_on"}
        options |= {"message": "cli_message"}
        options |= {CANCEL: "cli_cancel_plan" if plan else "cli_cancel_turn"}
        options |= {LEAVE: "cli_leave_running" if paused and not self.stays else "cli_leave"}
        question = say("cli_paused_question" if paused else "cli_stop_question", self.locale)
        named = {word: say(key, self.locale) for word, key in options.items()}
        return await self.person.choose(question, named) or LEAVE

    async def resume(self, plan_id: str) -> None:
        """Go on with a plan; that it cannot is said."""
        try:
            await self.client.resume_plan(plan_id)
        except Refused as error:
            self.person.tell(str(error))

    async def rest(self, plan_id: str | None) -> None:
        """Wait until nothing of a plan runs any more; it must be paused."""
        with suppress(GonogoError):
            while plan_id is not None:
                plan = await self.client.plan(plan_id)
                if not any(each.status is SubtaskStatus.RUNNING for each in plan.subtasks):
                    return
                await anyio.sleep(_LOOK)

    async def is_open(self, plan_id: str | None) -> bool:
        """Whether there is such a plan, and it is not over."""
        if plan_id is None:
            return False
        with suppress(GonogoError):
            return (await self.client.plan(plan_id)).status not in ENDED
        return False
