"""A search for the next revision of a plan: a conversation with the architect that has an end.

It is stored like any other conversation, so that it goes on after a crash; the plan's row says what
it is about and when it began. An `Aim` knows what the search is for, and what to do with its
result; the plan's status says which one it is.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.base import elapsed
from gonogo.domain.errors import (
    Busy,
    Conflict,
    GonogoError,
    InvalidMessage,
    InvalidPlan,
    ModelFailed,
    because,
)
from gonogo.domain.failures import hint_of, is_away, quota_pause
from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.plan_views import plan_changes
from gonogo.domain.records import Approval, CallRow, Job, Plan, SubtaskRow
from gonogo.domain.replanning import BudgetSpent, is_progress, next_revision, stays_within
from gonogo.domain.states import (
    SUBTASK,
    ApprovalKind,
    CallStatus,
    DecisionWord,
    PlanStatus,
    SubtaskStatus,
)
from gonogo.domain.tool_calls import UserText
from gonogo.execution.agent import (
    Finished,
    Handed,
    Loop,
    ModelWait,
    Resting,
    Thread,
    end_call,
    fields_from,
    open_control,
    role_of,
)
from gonogo.execution.approvals import ApprovalService, Question, Ruling
from gonogo.execution.plans.ending import (
    ARCHITECT,
    also_asked,
    completed,
    cut,
    mint_grants,
    replan_thread,
    told_progress,
)
from gonogo.execution.plans.engine import Engine
from gonogo.execution.plans.lifecycle import Planning
from gonogo.execution.scheduling import REPLAN, Superseded
from gonogo.i18n import DEFAULT, cause_and_fix, say, told
from gonogo.store import Stopwatch, Store, Tx, go_on
from gonogo.store import events as log
from gonogo.store.calls import pending_of_plan
from gonogo.store.jobs import AGAIN, set_timer
from gonogo.store.plans import (
    add_revision,
    current_revision,
    end_grants,
    granted_subtasks,
    move_plan,
    plan_of,
    revisions_of,
    revoked_subtasks,
    set_plan,
    subtask_rows,
)
from gonogo.store.sessions import append_message, conversation, session_of, set_session, spoken_in

_TRIES = 3
"""How many proposals of one search may be refused before it is given up."""


class ArchitectTalk(Struct, frozen=True):
    """The conversation of one plan's search with the architect, its owner, and its clock."""

    column: ClassVar[Literal["replan", "revising"]]
    """The plan's column with what the search is about, and when it began."""
    plan: Plan

    @property
    def name(self) -> str:
        """The conversation's name; each search has its own."""
        raise NotImplementedError

    @property
    def script(self) -> str:
        """The name by which a scripted model finds it."""
        raise NotImplementedError

    def brief(self, tx: Tx, locale: str) -> str:
        """The first message to the architect."""
        raise NotImplementedError

    def check(self, tx: Tx) -> None:
        """Raise `Superseded` when the search is no longer wanted."""
        raise NotImplementedError

    def open(self, tx: Tx, timeout: float) -> tuple[Thread, float]:
        """Begin the conversation, or go on with it; return it and the seconds it has left."""
        session = session_of(tx, self.plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        thread = Thread(
            **fields_from(session), name=self.name, script=self.script, agent=ARCHITECT,
            plan_id=self.plan.id, revision=self.plan.revision, owner=self, role=role_of(ARCHITECT),
        )  # fmt: skip
        began = self._about(self.plan).get("began")
        if began is None:
            began = tx.now.isoformat()
            self._set_began(tx, self.plan, began)
        if not conversation(tx, session.id, thread.name):
            told = UserText(content=self.brief(tx, session.spoken))
            append_message(tx, session.id, thread.name, told, agent=ARCHITECT)
        return thread, max(0.0, timeout - elapsed(datetime.fromisoformat(began), tx.now))

    def rest(self, tx: Tx) -> None:
        """Have the search wait; the wait does not count against its time."""
        self._set_began(tx, self.plan, None)

    def wait(self, tx: Tx, error: ModelFailed, patience: float) -> bool:
        """Wait for a model that does not answer; the wait does not count against the search's time.

        False once patience has run out.
        """
        about = self._about(self.plan)
        absence = _waiting(self.plan).begin(tx, about.get("away"), error, patience)
        if absence is None:
            return False
        to = {**about, "began": None, "away": absence.as_json()}
        return set_plan(tx, self.plan, **{self.column: to})

    def is_waiting(self, tx: Tx) -> bool:
        """Whether the search waits for a model that does not answer."""
        return "away" in self._about(plan_of(tx, self.plan.id))

    def answered(self, tx: Tx) -> None:
        """End the wait for a model, which has answered."""
        self.check(tx)
        about = dict(self._about(plan_of(tx, self.plan.id)))
        about.pop("away", None)
        set_plan(tx, self.plan, **{self.column: about})
        _waiting(self.plan).end(tx)

    def park(self, tx: Tx) -> None:
        """Have the search wait for a person."""
        current = plan_of(tx, self.plan.id)
        if current is not None and self._about(current):
            self._set_began(tx, current, None)
        log.tell_final(tx, self.plan.session_id)

    def _about(self, plan: Plan | None) -> Mapping[str, Any]:
        return getattr(plan, self.column, None) or {}

    def _set_began(self, tx: Tx, plan: Plan, began: str | None) -> None:
        set_plan(tx, plan, **{self.column: {**self._about(plan), "began": began}})


class Aim(Protocol):
    """What a search is for; each method is a part of its caller's transaction."""

    def talk(self, plan: Plan) -> ArchitectTalk:
        """The conversation of the search."""
        ...

    def ready(self, tx: Tx, plan: Plan) -> bool:
        """Whether it is time to search; if a person has to be asked first, this asks them."""
        ...

    def revision(self, tx: Tx, plan: Plan, arguments: Mapping[str, Any], locale: str) -> Revision:
        """The proposed revision.

        Raises:
            InvalidPlan: it is not possible; the model is told why.
        """
        ...

    def adopt(self, tx: Tx, plan: Plan, revision: Revision, arguments: Mapping[str, Any]) -> None:
        """Make the revision the plan's own."""
        ...

    def spent(self, tx: Tx, plan: Plan, error: BudgetSpent) -> None:
        """Handle that no budget is left for the search."""
        ...

    def give_up(self, tx: Tx, plan: Plan, reason: str) -> None:
        """Handle that there is no new revision."""
        ...


class Search(Struct, frozen=True, kw_only=True):
    """Drives the searches of plans over one store."""

    store: Store
    loop: Loop
    planning: Planning
    timeout: float
    """Seconds that a search may take."""
    patience: float
    """Seconds to wait for a model that does not answer."""
    aims: Mapping[PlanStatus, Aim]
    """The aim of a search, by the plan's status."""

    async def job(self, job: Job) -> None:
        """Go on with the search for one plan's next revision, as far as it goes."""
        found = await self.store.write(self._take, job.key)
        if found is None:
            return
        aim, thread, left = found
        said = say("replan_timed_out", thread.locale, seconds=f"{self.timeout:g}")
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
                said = say("replan_gave_up", thread.locale, reason=error)
        if said is not None:
            await self._write(self._give_up, aim, thread, said)

    async def _waits(self, aim: Aim, thread: Thread, error: GonogoError) -> bool:
        """Whether the search goes on later, when its model has quota again or answers."""
        if (seconds := quota_pause(error)) is not None:
            await self._write(self._put_off, aim, thread, seconds)
            return True
        if not (isinstance(error, ModelFailed) and is_away(error)):
            return False
        with suppress(Superseded):
            return await self.store.write(self._wait, aim, thread, error)
        return True

    async def _write(self, what: Callable[..., None], *more: Any) -> None:  # noqa: ANN401
        with suppress(Superseded):
            await self.store.write(what, *more)

    def _take(self, tx: Tx, plan_id: str) -> tuple[Aim, Thread, float] | None:
        plan = plan_of(tx, plan_id)
        aim = self.aims.get(plan.status) if plan else None
        if plan is None or aim is None or not aim.ready(tx, plan):
            return None
        return aim, *aim.talk(plan).open(tx, self.timeout)

    async def _search(self, aim: Aim, thread: Thread) -> str | None:
        """Drive the conversation; return why there is no new revision; None: all is written."""
        refused: str | None = None
        for _ in range(_TRIES):
            match await self.loop.drive(thread):
                case Resting():
                    return None
                case Finished(reply):
                    return say("replan_gave_up", thread.locale, reason=reply.said[:500])
                case Handed(call) if call.tool == "create_plan":
                    refused = await self.store.write(self._propose, aim, thread, call)
                    if refused is None:
                        return None
                case Handed(call):
                    return await self.store.write(self._end_talk, thread, call)
        return say("replan_gave_up", thread.locale, reason=refused)

    # Transactions -----------------------------------------------------------------------------

    def _end_talk(self, tx: Tx, thread: Thread, call: CallRow) -> str:
        """End a conversation in which the architect made another call instead of a new plan."""
        thread.owner.check(tx)
        opened = open_control(tx, call)
        end_call(tx, opened, CallStatus.COMPLETED, result={"ended": True})
        said = call.arguments.get("result") or call.arguments.get("question") or call.tool
        return say("replan_gave_up", thread.locale, reason=str(said)[:500])

    def _propose(self, tx: Tx, aim: Aim, thread: Thread, call: CallRow) -> str | None:
        """Adopt the proposed revision; return why that is impossible, or None."""
        plan = _checked(tx, thread)
        opened = open_control(tx, call)
        try:
            revision = aim.revision(tx, plan, call.arguments, thread.locale)
        except InvalidPlan as error:
            end_call(tx, opened, CallStatus.FAILED, error=f"invalid_plan: {error}")
            return str(error)
        result = self.planning.result(revision, thread.locale)
        end_call(tx, opened, CallStatus.COMPLETED, result=result)
        aim.adopt(tx, plan, revision, call.arguments)
        return None

    def _put_off(self, tx: Tx, aim: Aim, thread: Thread, seconds: float) -> None:
        """Have the search go on when its model has quota again."""
        plan = _checked(tx, thread)
        aim.talk(plan).rest(tx)
        set_timer(tx, f"{AGAIN}{REPLAN}", plan.id, tx.now + timedelta(seconds=seconds))

    def _wait(self, tx: Tx, aim: Aim, thread: Thread, error: ModelFailed) -> bool:
        return aim.talk(_checked(tx, thread)).wait(tx, error, self.patience)

    def _spent(self, tx: Tx, aim: Aim, thread: Thread, error: BudgetSpent) -> None:
        aim.spent(tx, _checked(tx, thread), error)

    def _give_up(self, tx: Tx, aim: Aim, thread: Thread, reason: str) -> None:
        aim.give_up(tx, _checked(tx, thread), reason)


def _checked(tx: Tx, thread: Thread) -> Plan:
    thread.owner.check(tx)
    plan = plan_of(tx, thread.plan_id or "")
    assert plan is not None  # noqa: S101 - `check` found it
    return plan


def _waiting(plan: Plan) -> ModelWait:
    place = {"plan_id": plan.id, "agent": ARCHITECT}
    return ModelWait(session_id=plan.session_id, kind=REPLAN, key=plan.id, place=place)


# The brief for replanning: what failed, why, what to do about it, and what is done.

_SHOWN = 2_000
"""Characters of one subtask's result or error."""


def brief(tx: Tx, plan: Plan, locale: str) -> str:
    """The first message of the conversation in which a plan is replanned."""
    revision = current_revision(tx, plan)
    rows = {row.subtask_id: row for row in subtask_rows(tx, plan.id, plan.revision)}
    return "\n\n".join(
        [
            say("model_replan", locale),
            say("model_replan_goal", locale, goal=revision.goal),
            _what_happened(plan.replan or {}, locale),
            say("model_replan_standing", locale),
            "\n".join(_standing(s, rows[s.id], locale) for s in revision.subtasks),
        ]
    )


def reflection(about: Mapping[str, Any], locale: str) -> tuple[str | None, str | None]:
    """The root cause of the failure behind a replan, and a suggestion how to correct it.

    The text of a registered rule comes before the general text for the failure's category.
    """
    failure: Mapping[str, Any] | None = about.get("failure")
    if failure is None:
        return None, None
    cause, fix = cause_and_fix(failure.get("hint") or hint_of(failure["category"]), locale)
    return f"{failure['message']} ({cause})", failure.get("suggestion") or fix


def _what_happened(about: Mapping[str, Any], locale: str) -> str:
    failure: Mapping[str, Any] | None = about.get("failure")
    if failure is None:
        return say("model_replan_asked", locale, reason=about.get("reason"))
    root_cause, suggestion = reflection(about, locale)
    return say(
        "model_replan_failure", locale, reason=about.get("reason"),
        subtask=about.get("subtask_id"), category=failure["category"],
        severity=failure["severity"], root_cause=root_cause, suggestion=suggestion,
    )  # fmt: skip


def _standing(subtask: Subtask, row: SubtaskRow, locale: str) -> str:
    return say(
        "model_replan_subtask", locale, subtask=subtask.id, status=row.status,
        description=subtask.description, detail=_detail(row, locale),
    )  # fmt: skip


def _detail(row: SubtaskRow, locale: str) -> str:
    found = row.error or row.result or row.reason
    return "" if found is None else f"\n  {cut(found, _SHOWN, locale)}"


# Replanning: from a failure to the next revision of a plan, or to its end without one.
#
#     running ── a failure, or a person ──► replanning: what runs finishes
#       ▲                                       │ a person is asked first, after so many times
#       │ no new revision                       ▼
#       └────────────────────────── the architect is told what failed and why
#                                               │ a revision that keeps what completed
#                                               ▼
#                                       awaiting_approval, or running inside the old grant
#
# How the search goes is in `_search`.

ABOUT = "replan"
"""The word under `about` of an intervention that asks whether to replan once more."""


class ReplanTalk(ArchitectTalk, frozen=True):
    """The conversation in which a plan that was sent back is replanned."""

    column: ClassVar = "replan"

    @property
    def name(self) -> str:
        """A name for each search of the plan."""
        return replan_thread(self.plan)

    @property
    def script(self) -> str:
        """The name for scripted models, with the search's number."""
        return f"replan-{self.plan.replans}"

    def brief(self, tx: Tx, locale: str) -> str:
        """What failed, why, and what is done."""
        return brief(tx, self.plan, locale)

    def check(self, tx: Tx) -> None:
        """Raise `Superseded` when the plan is no longer being replanned, or by another search."""
        current = plan_of(tx, self.plan.id)
        if current is None or current.status is not PlanStatus.REPLANNING:
            raise Superseded(f"Plan {self.plan.id} is no longer replanned")
        if (current.revision, current.replans) != (self.plan.revision, self.plan.replans):
            raise Superseded(f"Plan {self.plan.id} is no longer replanned")


class Replanning(Struct, frozen=True, kw_only=True):
    """Searches for the next revision of plans that were sent back."""

    desk: ApprovalService
    engine: Engine
    planning: Planning
    within_grant: bool = False
    """Run a revision without a question if it needs nothing that was not approved."""

    def talk(self, plan: Plan) -> ArchitectTalk:
        """The conversation in which the next revision is searched for."""
        return ReplanTalk(plan)

    def start(self, tx: Tx, plan_id: str, reason: str, by: str) -> None:
        """Have a plan changed, as a person asked.

        Raises:
            Conflict: the plan cannot be changed now, or the session has another one.
        """
        plan = plan_of(tx, plan_id)
        session = session_of(tx, plan.session_id) if plan else None
        if session is not None and session.active_plan_id not in (None, plan_id):
            raise Conflict("The session has another plan; finish or cancel that one first")
        self.engine.controls.replan(tx, plan_id, reason, by)
        if session is not None:
            set_session(tx, session.id, active_plan_id=plan_id, agent=ARCHITECT)

    # The search -------------------------------------------------------------------------------

    def ready(self, tx: Tx, plan: Plan) -> bool:
        """Whether nothing of the plan runs, and no person has to be asked first."""
        if plan.replan is None or plan.pause_reason is not None:
            return False
        if not self.engine.rounds.is_at_rest(tx, plan.id):
            return False
        if plan.replan.get("asks"):
            self._ask_person(tx, plan)
            return False
        return True

    def revision(self, tx: Tx, plan: Plan, arguments: Mapping[str, Any], locale: str) -> Revision:
        """The proposed revision: what completed, and a new rest.

        Raises:
            InvalidPlan: it is not valid, or the same as what was tried before.
        """
        kept, current = set(completed(tx, plan)), current_revision(tx, plan)
        others = [each for each, _ in revisions_of(tx, plan.id) if each != current]
        rest = self.planning.proposed(arguments, kept)
        found = next_revision(current, kept, rest, number=len(others) + 2)
        revision = self.planning.proposals.in_order(found)
        rows = subtask_rows(tx, plan.id, plan.revision)
        failed = {row.subtask_id for row in rows if row.status is SubtaskStatus.FAILED}
        if not is_progress([*others, current], kept, failed, revision):
            raise InvalidPlan(say("model_no_progress", locale))
        return revision

    # What comes of it -------------------------------------------------------------------------

    def adopt(self, tx: Tx, plan: Plan, revision: Revision, arguments: Mapping[str, Any]) -> None:
        """Ask a person about the revision, or go on with it if it needs no approval."""
        done = completed(tx, plan)
        session = session_of(tx, plan.session_id)
        current = current_revision(tx, plan)
        assert session is not None  # noqa: S101 - the plan names its session
        granted = granted_subtasks(tx, plan.id, plan.revision)
        self._drop_unfinished(tx, plan)
        end_grants(tx, plan.id, f"revision {revision.number} took its place")
        add_revision(tx, revision, f"agent:{ARCHITECT}", "replanned", kept=done)
        left = {subtask.id for subtask in revision.subtasks} - done.keys()
        # Not subtasks from a rejected revision, nor subtasks whose grant a person has revoked.
        free = self.within_grant and plan.auto_approve_tools and left <= granted
        free = free and left.isdisjoint(revoked_subtasks(tx, plan.id))
        free = free and stays_within(current, set(done), revision)
        status = PlanStatus.RUNNING if free else PlanStatus.AWAITING_APPROVAL
        to = {
            "revision": revision.number, "digest": revision.digest,
            "approved_revision": revision.number if free else plan.approved_revision,
            "floor": told_progress(tx, plan), "again": None,
            "asked_by": also_asked(plan, (plan.replan or {}).get("by")),
            "instructions": session.instructions,
        }  # fmt: skip
        if not move_plan(tx, plan, status, **to):
            raise Superseded(f"Plan {plan.id} changed at this moment")
        revised = replace(plan, status=status, **to)
        if free:
            self._go(tx, revised, revision, set(done))
            return
        self.planning.proposals.put_before_person(
            tx, session, revised, revision, changes=plan_changes(current, revision),
            replan=_public(plan, session.spoken),
        )  # fmt: skip

    def _go(self, tx: Tx, plan: Plan, revision: Revision, done: set[str]) -> None:
        """Go on at once with a revision that needs nothing that was not approved."""
        mint_grants(tx, plan, revision, done)
        log.note(
            tx, plan.session_id, actor="gonogo", action="plan.replanned_within_grant",
            subject=plan.id, revision=revision.number, digest=revision.digest,
            reason=because("the new revision needs nothing that was not approved"), source="grant",
        )  # fmt: skip
        reason = because("the new revision needs nothing that was not approved")
        self.engine.controls.go_on_revised(tx, plan.id, reason)

    def _drop_unfinished(self, tx: Tx, plan: Plan) -> None:
        """End what waited for a person in the old revision."""
        why = told(because("the plan was changed"), spoken_in(tx, plan.session_id))
        for row in subtask_rows(tx, plan.id, plan.revision):
            if row.status not in SUBTASK.terminal:
                self.planning.ending.drop_work(tx, row, why)
        for approval in pending_of_plan(tx, plan.id):
            self.desk.withdraw(tx, approval)

    def spent(self, tx: Tx, plan: Plan, error: BudgetSpent) -> None:
        """Have the search wait until a person gives more budget."""
        self.talk(plan).rest(tx)
        self.engine.rounds.pause_search(tx, plan.id, error.excess)

    def give_up(self, tx: Tx, plan: Plan, reason: str) -> None:
        """Go on with the old revision as far as possible, as there is no new one."""
        self.planning.ending.drop_searches(tx, plan)
        self.engine.controls.go_without(tx, plan.id, reason)

    # A person is asked first ------------------------------------------------------------------

    def _ask_person(self, tx: Tx, plan: Plan) -> None:
        for approval in pending_of_plan(tx, plan.id):
            if approval.details.get("about") == ABOUT:
                return
        about: dict[str, Any] = plan.replan or {}
        locale = spoken_in(tx, plan.session_id) or DEFAULT
        reason = say("replan_question", locale, count=plan.replans - 1, reason=about["reason"])
        self.desk.open(
            tx,
            Question(
                session_id=plan.session_id, kind=ApprovalKind.INTERVENTION, subject=plan.goal,
                details={"about": ABOUT, "replans": plan.replans - 1, **_public(plan, locale)},
                reason=reason, digest=plan.digest, plan_id=plan.id, revision=plan.revision,
                agent=ARCHITECT,
            ),
        )  # fmt: skip
        log.tell_final(tx, plan.session_id)

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Carry out a person's answer whether to change the plan once more."""
        plan = plan_of(tx, approval.plan_id or "")
        if plan is None or plan.status is not PlanStatus.REPLANNING or plan.replan is None:
            raise Conflict("The plan is no longer being changed; look at it again")
        match ruling.word:
            case DecisionWord.APPROVE:
                set_plan(tx, plan, replan={**plan.replan, "asks": False})
                go_on(tx, REPLAN, plan.id)
            case DecisionWord.REJECT:
                self._end(tx, plan, "replan_declined", by=ruling.by.name)
            case _:
                raise InvalidMessage("You can approve or reject replanning, but you cannot edit it")

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """End the plan with what it has reached, as nobody answered in time."""
        plan = plan_of(tx, approval.plan_id or "")
        if plan is not None and plan.status is PlanStatus.REPLANNING:
            self._end(tx, plan, "replan_lapsed")

    def _end(self, tx: Tx, plan: Plan, key: str, **fields: str) -> None:
        reason = say(key, spoken_in(tx, plan.session_id), **fields)
        self.engine.controls.end_unfinished(tx, plan.id, reason)


def _public(plan: Plan, locale: str) -> dict[str, Any]:
    """Why a plan is changed, as people and clients see it."""
    about: dict[str, Any] = plan.replan or {}
    root_cause, suggestion = reflection(about, locale)
    found = {
        "cause": about.get("cause"), "reason": about.get("reason"), "root_cause": root_cause,
        "suggestion": suggestion, "subtask_id": about.get("subtask_id"), "by": about.get("by"),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}
