"""How work goes on: after an answer, when a timer fires, and after a start."""

from msgspec import Struct

from gonogo.domain.base import elapsed
from gonogo.domain.records import CallRow, SubtaskRow, Timer
from gonogo.domain.states import CallStatus, SubtaskStatus
from gonogo.execution.agent import CLIENT_CALL, UNANSWERED, Hands, ReadyCall, doubt
from gonogo.execution.approvals import DESK_TIMERS, ApprovalService
from gonogo.execution.erasures import ERASE, SWEEP
from gonogo.execution.plans import Engine
from gonogo.execution.scheduling import PLAN_TIMERS, REPLAN, Work
from gonogo.execution.turns import Turns
from gonogo.i18n import DEFAULT, say
from gonogo.store import Stopwatch, Tx, go_on, hand_begun
from gonogo.store.calls import call_of, open_calls, plans_in_revision
from gonogo.store.jobs import AGAIN
from gonogo.store.plans import (
    WATCH,
    live_plans,
    lock_plan,
    resume_watches,
    revision_of,
    running_subtasks,
    subtask_key,
    subtask_row,
)
from gonogo.store.sessions import open_turns, session_of, spoken_in, unfinished_turns
from gonogo.webhooks import HOOK


class Continuation(Struct, frozen=True, kw_only=True):
    """Goes on with the turn or the plan of a call, once somebody answered the call."""

    engine: Engine
    turns: Turns
    hands: Hands

    def of_call(self, tx: Tx, call: CallRow, ready: ReadyCall | None = None) -> None:
        """Go on with the turn, the subtask or the replanning of a call that has its answer.

        Args:
            ready: The call itself, if it may start in this transaction.
        """
        if call.subtask_id is None and call.turn_id is None and call.plan_id is not None:
            go_on(tx, REPLAN, call.plan_id)
            return
        if call.subtask_id is None:
            self.turns.resume(tx, call.turn_id or "", ready)
            return
        # Locked, so that the job that drives the subtask does not come to rest meanwhile, unseen.
        lock_plan(tx, call.plan_id or "")
        key = subtask_key(call.plan_id or "", call.revision or 0, call.subtask_id)
        row = subtask_row(tx, key)
        if row is None:
            return
        whose = self.hands.whose_move(open_calls(tx, call.session_id, call.thread))
        running = row.status is SubtaskStatus.RUNNING
        if running and whose == "person":
            self.engine.work.park(tx, _work(tx, row))
        elif running:
            go_on(tx, "subtask", key, row.epoch)
        elif whose == "person":
            self.engine.rounds.advance(tx, row.plan_id)
        else:
            self.engine.work.resume(tx, key)
            if ready is not None:
                self._begin(tx, key, ready)

    def _begin(self, tx: Tx, key: str, ready: ReadyCall) -> None:
        """Start a call together with the subtask that waited for it, if that runs at once."""
        row = subtask_row(tx, key)
        if row is None or row.status is not SubtaskStatus.RUNNING:
            return
        thread = ready.asked.thread
        left = open_calls(tx, thread.session_id, thread.name)
        begun = self.hands.begin(tx, thread, left, ready)
        if begun is not None:
            hand_begun(tx, "subtask", key, begun)


SESSION_TIMEOUT = "session_timeout"
"""The timer of a session that was opened with a time limit."""


class Timers(Struct, frozen=True, kw_only=True):
    """What to do when a timer fires, each in its own transaction."""

    desk: ApprovalService
    engine: Engine
    hands: Hands
    went_on: Continuation

    def fire(self, tx: Tx, timer: Timer) -> None:
        """Carry out one timer."""
        match timer.kind:
            case kind if kind in DESK_TIMERS:
                self.desk.on_timer(tx, timer.kind, timer.key)
            case kind if kind in PLAN_TIMERS:
                self.engine.pauses.on_timer(tx, kind, timer.key)
            case kind if kind == CLIENT_CALL:
                self._give_up(tx, timer.key)
            case kind if kind == f"{AGAIN}subtask":
                self.engine.work.take_over(tx, timer.key)
            case kind if kind == f"{AGAIN}plan":
                self.engine.rounds.advance(tx, timer.key)
            case kind if kind == SESSION_TIMEOUT:
                self._time_out(tx, timer.key)
            case kind if kind in {
                SWEEP,
                *(f"{AGAIN}{job}" for job in ("turn", REPLAN, HOOK, SWEEP, WATCH, ERASE)),
            }:
                go_on(tx, timer.kind.removeprefix(AGAIN), timer.key)
            case _:
                pass

    def _time_out(self, tx: Tx, session_id: str) -> None:
        """Stop whatever works in a session whose time is over.

        A plan that has not begun stays as it is; who starts it then gives it their own time.
        """
        session = session_of(tx, session_id)
        seconds = (session.limits or {}).get("seconds") if session else None
        if session is None or session.deleted or seconds is None:
            return
        said = say("session_timeout", session.spoken, seconds=f"{seconds:g}")
        for turn in open_turns(tx, session_id):
            self.went_on.turns.time_out(tx, turn, said)
        if session.active_plan_id is not None:
            self.engine.pauses.stop_for_time(tx, session.active_plan_id, said)

    def _give_up(self, tx: Tx, call_id: str) -> None:
        call = call_of(tx, call_id)
        if call is None or call.status is not CallStatus.STARTED:
            return
        locale = spoken_in(tx, call.session_id) or DEFAULT
        doubt(tx, self.desk, call, UNANSWERED, locale)
        self.went_on.of_call(tx, call)


def _work(tx: Tx, row: SubtaskRow) -> Work:
    revision = revision_of(tx, row.plan_id, row.revision)
    assert revision is not None  # noqa: S101 - a foreign key away
    worked = elapsed(row.active_since, tx.now) if row.active_since else 0.0
    return Work(
        key=row.key, revision=revision, subtask=revision.subtask(row.subtask_id), epoch=row.epoch,
        watch=Stopwatch(worked),
    )  # fmt: skip


def recover(tx: Tx, engine: Engine, place: str | None = None) -> None:
    """After a start, go on with everything that does not wait for a person.

    Args:
        place: Only go on with what is in the sessions of this place.
    """
    for turn_id in unfinished_turns(tx, place):
        go_on(tx, "turn", turn_id)
    for key in running_subtasks(tx, place):
        engine.work.take_over(tx, key)
    for plan_id in live_plans(tx, place):
        engine.rounds.advance(tx, plan_id)
    for plan_id in plans_in_revision(tx, place):
        go_on(tx, REPLAN, plan_id)
    resume_watches(tx, place)
