"""A search for the next revision of a plan: a conversation with the architect that has an end.

It is kept like any other conversation, so that it goes on after a crash; what it is about and when
it began stands with the plan. What it is for, and what becomes of it, is the business of an `Aim`;
which one a plan has, its status says.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio

from gonogo.agents import Finished, Handed, Loop, Resting, Thread, drop_call, end_call, open_control
from gonogo.approvals import Desk
from gonogo.dispatch import AGAIN
from gonogo.domain.errors import Busy, GonogoError, InvalidPlan, ModelFailed
from gonogo.domain.failures import is_away, quota_pause
from gonogo.domain.plan import Revision
from gonogo.domain.records import CallRow, Job, Plan
from gonogo.domain.replanning import BudgetSpent
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import CallStatus, PlanStatus
from gonogo.domain.tool_calls import UserText
from gonogo.engine import REPLAN, Superseded
from gonogo.orchestrator._planning import Planning
from gonogo.orchestrator._proposal import ARCHITECT
from gonogo.orchestrator.absences import ModelWait
from gonogo.store import Connection, Stopwatch, Store
from gonogo.store import events as log
from gonogo.store.calls import open_calls
from gonogo.store.jobs import set_timer
from gonogo.store.plans import plan_of, set_plan
from gonogo.store.sessions import conversation, say, session_of
from gonogo.texts import say as text

_TRIES = 3
"""Proposals of one search that are refused before it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """The conversation of a search with the architect, and its clock."""

    column: Literal["replan", "revising"]
    """Where the plan keeps what the search is about, and when it began."""
    name: Callable[[Plan], str]
    """The conversation's name, another one for each search."""
    script: Callable[[Plan], str]
    """What a scripted model knows it by."""
    brief: Callable[[Connection, Plan, str], str]
    """What the architect is told first, in a language."""
    check: Callable[[Connection, Plan], None]
    """Raises `Superseded` when the search is no longer wanted."""

    def open(
        self, conn: Connection, plan: Plan, timeout: float, now: datetime
    ) -> tuple[Thread, float]:
        """The conversation to begin or to go on with, and the seconds it has left."""
        session = session_of(conn, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        thread = Thread(
            session_id=session.id, name=self.name(plan), script=self.script(plan), agent=ARCHITECT,
            locale=session.spoken, workspace=Path(session.workspace),
            remote=session.tool_host == "client", plan_id=plan.id, revision=plan.revision,
            check=lambda conn: self.check(conn, plan),
            park=lambda conn, now: self._park(conn, plan),
            is_waiting=lambda conn: "away" in self._about(plan_of(conn, plan.id)),
            answered=lambda conn, now: self._answered(conn, plan, now),
        )  # fmt: skip
        began = self._about(plan).get("began")
        if began is None:
            began = now.isoformat()
            self._set_began(conn, plan, began)
        if not conversation(conn, session.id, thread.name):
            told = UserText(content=self.brief(conn, plan, session.spoken))
            say(conn, session.id, thread.name, told, now, agent=ARCHITECT)
        return thread, max(0.0, timeout - elapsed(datetime.fromisoformat(began), now))

    def rest(self, conn: Connection, plan: Plan) -> None:
        """The search waits; what that takes is not the search's."""
        self._set_began(conn, plan, None)

    def wait(
        self, conn: Connection, plan: Plan, error: ModelFailed, patience: float, now: datetime
    ) -> bool:
        """Wait for a model that does not answer; what that takes is not the search's.

        False once patience is at its end.
        """
        about = self._about(plan)
        absence = _waiting(plan).begin(conn, about.get("away"), error, patience, now)
        if absence is None:
            return False
        to = {**about, "began": None, "away": absence.as_json()}
        return set_plan(conn, plan, **{self.column: to})

    def _answered(self, conn: Connection, plan: Plan, now: datetime) -> None:
        self.check(conn, plan)
        about = dict(self._about(plan_of(conn, plan.id)))
        about.pop("away", None)
        set_plan(conn, plan, **{self.column: about})
        _waiting(plan).end(conn, now)

    def drop_calls(self, conn: Connection, desk: Desk, plan: Plan, now: datetime) -> None:
        """End what the search asked for and has no answer to."""
        for call in open_calls(conn, plan.session_id, self.name(plan)):
            drop_call(conn, desk, call, "cancelled: the search has ended", now)

    def _park(self, conn: Connection, plan: Plan) -> None:
        """The search waits for a person."""
        current = plan_of(conn, plan.id)
        if current is not None and self._about(current):
            self.rest(conn, current)
        log.tell_final(conn, plan.session_id)

    def _about(self, plan: Plan | None) -> Mapping[str, Any]:
        return getattr(plan, self.column, None) or {}

    def _set_began(self, conn: Connection, plan: Plan, began: str | None) -> None:
        set_plan(conn, plan, **{self.column: {**self._about(plan), "began": began}})


class Aim(Protocol):
    """What a search is for; each method is a part of its caller's transaction."""

    @property
    def talk(self) -> Talk:
        """The conversation in which it is looked for."""
        ...

    def ready(self, conn: Connection, plan: Plan, now: datetime) -> bool:
        """Whether it is time to search; where a person is to be asked first, they are."""
        ...

    def revision(
        self, conn: Connection, plan: Plan, arguments: Mapping[str, Any], locale: str
    ) -> Revision:
        """The revision that is proposed.

        Raises:
            InvalidPlan: it cannot be; the model is told why.
        """
        ...

    def adopt(
        self,
        conn: Connection,
        plan: Plan,
        revision: Revision,
        arguments: Mapping[str, Any],
        now: datetime,
    ) -> None:
        """Make the revision the plan's own."""
        ...

    def spent(self, conn: Connection, plan: Plan, error: BudgetSpent, now: datetime) -> None:
        """No budget is left for the search."""
        ...

    def give_up(self, conn: Connection, plan: Plan, reason: str, now: datetime) -> None:
        """There is no new revision."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Drives the searches of plans over one store."""

    store: Store
    loop: Loop
    planning: Planning
    clock: Callable[[], datetime]
    timeout: float
    """Seconds that a search may take."""
    patience: float
    """Seconds for which a model is waited for that does not answer."""
    aims: Mapping[PlanStatus, Aim]
    """What is looked for while a plan is in a state."""

    async def job(self, job: Job) -> None:
        """Go on with the search for one plan's next revision, as far as it goes."""
        found = await self.store.write(self._take, job.key, self.clock())
        if found is None:
            return
        aim, thread, left = found
        said = text("replan_timed_out", thread.locale, seconds=f"{self.timeout:g}")
        with anyio.move_on_after(left) as scope, Stopwatch().holding(scope):
            try:
                said = await self._search(aim, thread)
            except Superseded:
                return
            except Busy:
                raise
            except BudgetSpent as error:
                await self._write(self._spent, aim, thread, error)
                return
            except GonogoError as error:
                if await self._waits(aim, thread, error):
                    return
                said = text("replan_gave_up", thread.locale, reason=error)
        if said is not None:
            await self._write(self._give_up, aim, thread, said)

    async def _waits(self, aim: Aim, thread: Thread, error: GonogoError) -> bool:
        """Whether the search goes on later: its quota will be there again, or its model answer."""
        if (seconds := quota_pause(error)) is not None:
            await self._write(self._put_off, aim, thread, seconds)
            return True
        if not (isinstance(error, ModelFailed) and is_away(error)):
            return False
        with suppress(Superseded):
            return await self.store.write(self._wait, aim, thread, error, self.clock())
        return True

    async def _write(self, what: Callable[..., None], *more: Any) -> None:  # noqa: ANN401
        with suppress(Superseded):
            await self.store.write(what, *more, self.clock())

    def _take(
        self, conn: Connection, plan_id: str, now: datetime
    ) -> tuple[Aim, Thread, float] | None:
        plan = plan_of(conn, plan_id)
        aim = self.aims.get(plan.status) if plan else None
        if plan is None or aim is None or not aim.ready(conn, plan, now):
            return None
        return aim, *aim.talk.open(conn, plan, self.timeout, now)

    async def _search(self, aim: Aim, thread: Thread) -> str | None:
        """Drive the conversation. Gives why there is no new revision; None when all is written."""
        refused: str | None = None
        for _ in range(_TRIES):
            match await self.loop.drive(thread):
                case Resting():
                    return None
                case Finished(reply):
                    return text("replan_gave_up", thread.locale, reason=reply.said[:500])
                case Handed(call) if call.tool == "create_plan":
                    refused = await self.store.write(self._propose, aim, thread, call, self.clock())
                    if refused is None:
                        return None
                case Handed(call):
                    return await self.store.write(self._end_talk, thread, call, self.clock())
        return text("replan_gave_up", thread.locale, reason=refused)

    # Transactions -----------------------------------------------------------------------------

    def _end_talk(self, conn: Connection, thread: Thread, call: CallRow, now: datetime) -> str:
        """The architect calls something else that speaks to the runtime: there is no other plan."""
        thread.check(conn)
        opened = open_control(conn, call, now)
        end_call(conn, opened, CallStatus.COMPLETED, now, result={"ended": True})
        said = call.arguments.get("result") or call.arguments.get("question") or call.tool
        return text("replan_gave_up", thread.locale, reason=str(said)[:500])

    def _propose(
        self, conn: Connection, aim: Aim, thread: Thread, call: CallRow, now: datetime
    ) -> str | None:
        """Put the next revision before a person. Gives why it cannot be."""
        plan = _checked(conn, thread)
        opened = open_control(conn, call, now)
        try:
            revision = aim.revision(conn, plan, call.arguments, thread.locale)
        except InvalidPlan as error:
            end_call(conn, opened, CallStatus.FAILED, now, error=f"invalid_plan: {error}")
            return str(error)
        result = self.planning.result(revision, thread.locale)
        end_call(conn, opened, CallStatus.COMPLETED, now, result=result)
        aim.adopt(conn, plan, revision, call.arguments, now)
        return None

    def _put_off(
        self, conn: Connection, aim: Aim, thread: Thread, seconds: float, now: datetime
    ) -> None:
        """A model's quota is used up: search on when it is there again."""
        plan = _checked(conn, thread)
        aim.talk.rest(conn, plan)
        set_timer(conn, f"{AGAIN}{REPLAN}", plan.id, now + timedelta(seconds=seconds))

    def _wait(
        self, conn: Connection, aim: Aim, thread: Thread, error: ModelFailed, now: datetime
    ) -> bool:
        return aim.talk.wait(conn, _checked(conn, thread), error, self.patience, now)

    def _spent(
        self, conn: Connection, aim: Aim, thread: Thread, error: BudgetSpent, now: datetime
    ) -> None:
        aim.spent(conn, _checked(conn, thread), error, now)

    def _give_up(
        self, conn: Connection, aim: Aim, thread: Thread, reason: str, now: datetime
    ) -> None:
        aim.give_up(conn, _checked(conn, thread), reason, now)


def _checked(conn: Connection, thread: Thread) -> Plan:
    thread.check(conn)
    plan = plan_of(conn, thread.plan_id or "")
    assert plan is not None  # noqa: S101 - `check` found it
    return plan


def _waiting(plan: Plan) -> ModelWait:
    place = {"plan_id": plan.id, "agent": ARCHITECT}
    return ModelWait(session_id=plan.session_id, kind=REPLAN, key=plan.id, place=place)
