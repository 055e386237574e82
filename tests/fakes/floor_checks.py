"""What must be true of a shop floor after every step, read from the database and the ledger alone.

Nothing here asks the engine or the domain: what they hold to be legal is written down once more.
Only of events the classes are asked, which are the form that clients know.
"""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from fakes.floor import Floor, Ground
from fakes.floor_undo_checks import UndoChecks
from gonogo.domain.events import EVENTS

OVER = frozenset({"completed", "failed", "skipped", "cancelled"})
ENDED = frozenset({"completed", "failed", "partial", "cancelled", "rejected", "expired"})
_IN_ONE_STEP = {
    # A condition without an answer fails a subtask that never ran: pending, running, failed.
    "pending": {"running", "waiting_approval", "skipped", "cancelled", "failed"},
    # A retry without a delay starts at once: running, pending, running.
    "running": {"completed", "failed", "cancelled", "waiting_approval", "pending", "running"},
    # An answer lets a subtask start, or wait for its turn, or for its dependency's quota.
    "waiting_approval": {"pending", "running", "skipped", "failed", "cancelled"},
}
_PLAN_MOVES = {
    "awaiting_approval": {
        "approved",
        "rejected",
        "expired",
        "running",
        "partial",
        "failed",
        "completed",
    },
    "approved": {"running", "partial", "failed", "completed"},
    "running": {"paused", "replanning", "completed", "failed", "partial"},
    "paused": {"running", "replanning", "completed", "failed", "partial"},
    "replanning": {"running", "awaiting_approval", "completed", "failed", "partial"},
    "failed": {"replanning"},
    "partial": {"replanning"},
}
"""Besides that whatever has not ended may be cancelled, and what begins may end in one step."""


class PlanSeen(NamedTuple):
    id: str
    session_id: str
    status: str
    revision: int
    max_parallel: int
    pause_reason: str | None
    paused_until: str | None


class RowSeen(NamedTuple):
    key: str
    plan_id: str
    revision: int
    subtask_id: str
    status: str
    attempt: int
    epoch: int
    not_before: str | None
    declined: int
    finished_at: str | None
    result: str | None
    error: str | None


class Seen(NamedTuple):
    plans: dict[str, PlanSeen]
    rows: dict[str, RowSeen]
    timers: dict[tuple[str, str], str]
    asked: list[tuple[str, int, str | None, str]]
    """Pending questions: plan, revision, subtask, kind."""
    granted: set[tuple[str, int, str]]
    """Active grants: plan, revision, subtask."""
    seqs: dict[str, int]


class Checks:
    """Looks after every step, and compares with what it saw before."""

    def __init__(self, ground: Ground, floor: Floor) -> None:
        self._ground, self._floor = ground, floor
        self._graphs: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
        self._ledger: set[tuple[str, int, int]] = set()
        self._read_to = 0
        self._told: Counter[str] = Counter()
        self._progress: dict[str, float] = {}
        self.undo = UndoChecks(floor, self)
        self.seen = self._look()

    # Looking ----------------------------------------------------------------------------------

    def _fetch(self, statement: str) -> list[Any]:
        return self._ground.raw.execute(statement).fetchall()

    def _look(self) -> Seen:
        found = Seen(
            plans={row[0]: PlanSeen(*row) for row in self._fetch(_PLANS)},
            rows={row[0]: RowSeen(*row) for row in self._fetch(_ROWS)},
            timers={(kind, key): at for kind, key, at in self._fetch(_TIMERS)},
            asked=self._fetch(_ASKED),
            granted={tuple(row) for row in self._fetch(_GRANTS)},
            seqs=dict(self._fetch(_SEQS)),
        )
        self._ground.rollback()
        return found

    def graph(self, plan_id: str, revision: int) -> dict[str, dict[str, Any]]:
        """The subtasks of a revision as they are written."""
        if (plan_id, revision) not in self._graphs:
            where = f"WHERE plan_id = '{plan_id}' AND number = {revision}"
            [(text,)] = self._fetch(f"SELECT subtasks FROM plan_revisions {where}")  # noqa: S608
            found = {subtask["id"]: subtask for subtask in json.loads(text)}
            self._graphs[plan_id, revision] = found
        return self._graphs[plan_id, revision]

    def last_revision(self, plan_id: str) -> int:
        """The number of the revision of a plan that was written last."""
        where = f"WHERE plan_id = '{plan_id}'"
        [(number,)] = self._fetch(f"SELECT max(number) FROM plan_revisions {where}")  # noqa: S608
        return number

    def rows_of(self, plan: PlanSeen) -> dict[str, RowSeen]:
        """The rows of a plan's revision, by their subtasks."""
        return {
            row.subtask_id: row
            for row in self.seen.rows.values()
            if (row.plan_id, row.revision) == (plan.id, plan.revision)
        }

    # Checking ---------------------------------------------------------------------------------

    def unchanged(self) -> None:
        """Check that a step changed nothing at all: what the dead bring is refused."""
        now = self._look()
        assert now == self.seen, f"a superseded holder changed {self.seen} to {now}"
        self.undo.step(self.seen, [])

    def step(self) -> None:
        """Check what one step did, and what is true after it."""
        before, self.seen = self.seen, self._look()
        for key, row in before.rows.items():
            self._moved(row, self.seen.rows[key])
        for row in self.seen.rows.values():
            was = before.rows.get(row.key)
            if row.status == "running" and (was is None or was.epoch != row.epoch):
                self._started(was, row)
        for plan in self.seen.plans.values():
            if plan.id in before.plans:
                self._plan_moved(before.plans[plan.id], plan)
            self._stands(plan, self.rows_of(plan))
        self._room()
        self.undo.step(before, self._fetch(_CHECKPOINTS))
        self._ground.rollback()
        self._events()
        self._ledger_lines()
        self._floor.recovered = False

    def _moved(self, was: RowSeen, row: RowSeen) -> None:
        if was.status in OVER:
            assert row == was, f"{was.key} was over and changed"
            return
        same = row.status == was.status
        assert same or row.status in _IN_ONE_STEP[was.status], f"{row.key}: {was.status} → {row}"
        assert row.epoch >= was.epoch, f"{row.key}: its epoch fell"
        assert row.attempt >= was.attempt, f"{row.key}: its attempt fell"

    def _started(self, was: RowSeen | None, row: RowSeen) -> None:
        """A subtask was begun, gone on with, or held anew after a crash."""
        assert was is None or row.epoch == was.epoch + 1, f"{row.key}: epochs in between"
        if self._floor.recovered and was is not None and was.status == "running":
            assert row.attempt == was.attempt, f"{row.key}: a crash took an attempt"
            return
        plan = self.seen.plans[row.plan_id]
        # What the budget allowed starts in the step that pauses the plan for the rest.
        runs = plan.status == "running" or plan.pause_reason == "budget"
        assert runs, f"{row.key} started in a plan that is {plan.status}"
        assert plan.id not in self._floor.intents, f"{row.key} started against a person's will"
        assert plan.id not in self._floor.holding, f"{row.key} started in the middle of a rollback"
        subtask = self.graph(row.plan_id, row.revision)[row.subtask_id]
        self._approved(row, subtask)
        self._met(row, subtask)
        if subtask.get("approval_required"):
            assert row.key in self._floor.let, f"{row.key} started and nobody let it"
        self._attempts(row, subtask)

    def _approved(self, row: RowSeen, subtask: dict[str, Any]) -> None:
        """What begins stands so in a revision that a person approved, or that needed nobody."""
        asked = {(plan_id, number) for plan_id, number in self._fetch(_APPROVED)}
        graphs = [
            self.graph(plan_id, number)
            for plan_id, number in asked | self._floor.free
            if plan_id == row.plan_id
        ]
        found = any(graph.get(row.subtask_id) == subtask for graph in graphs)
        assert found, f"{row.key} started and nobody approved it"

    def _met(self, row: RowSeen, subtask: dict[str, Any]) -> None:
        rows = self.rows_of(self.seen.plans[row.plan_id])
        for dependency in subtask.get("dependencies", ()):
            of = rows[dependency]
            declined = of.declined and of.status == "skipped"
            met = of.status == "completed" or (declined and subtask.get("after_skipped") == "run")
            assert met, f"{row.key} started although {dependency} is {of.status}"

    def _attempts(self, row: RowSeen, subtask: dict[str, Any]) -> None:
        most = (subtask.get("retry_policy") or {"max_attempts": 1})["max_attempts"]
        assert row.attempt <= most, f"{row.key}: attempt {row.attempt} of {most}"
        failed = self._floor.failures[row.key]
        assert row.attempt == failed + 1, f"{row.key}: attempt {row.attempt} after {failed} failed"

    def _plan_moved(self, was: PlanSeen, plan: PlanSeen) -> None:
        if was.status == plan.status:
            return
        if plan.status == "cancelled":
            assert was.status not in ENDED, f"{plan.id} was {was.status}, then cancelled"
            return
        allowed = _PLAN_MOVES.get(was.status, set())
        # What begins can be sent back by a condition that has no answer, in the same step, and can
        # come to the end of its budget.
        at_once = allowed | (_PLAN_MOVES["running"] - {"paused"} if "running" in allowed else set())
        at_once |= {"paused"} if "running" in allowed and plan.pause_reason == "budget" else set()
        assert plan.status in at_once, f"{plan.id}: {was.status} → {plan.status}"

    # What is true at any time -----------------------------------------------------------------

    def _stands(self, plan: PlanSeen, rows: dict[str, RowSeen]) -> None:
        self._status(plan, rows)
        if plan.status in ENDED:
            self._left_nothing(plan, rows.values())
            return
        self._pause(plan)
        for row in rows.values():
            self._goes_on(plan, row)
        if plan.status == "running":
            self._has_a_next_step(plan, rows)
            self._nothing_is_blocked(plan, rows)
        if plan.status == "replanning":
            self._is_sent_back(plan, rows.values())

    def _status(self, plan: PlanSeen, rows: dict[str, RowSeen]) -> None:
        statuses = [row.status for row in rows.values()]
        intent = self._floor.intents.get(plan.id)
        if intent == "cancelled" or plan.status == "cancelled":
            assert (intent, plan.status) == ("cancelled", "cancelled"), f"{plan} {intent}"
            return
        over = all(status in OVER for status in statuses)
        done = statuses.count("completed")
        if plan.status in {"completed", "failed", "partial"}:
            assert over, f"{plan.id} is {plan.status} with {statuses}"
            all_done = done + self._left_out(plan, rows) == len(statuses)
            # A plan that was cut short is not completed, whatever its conditions left out.
            cut = plan.status != "completed" and done < len(statuses)
            whole = "completed" if all_done and not cut else "partial" if done else "failed"
            assert plan.status == whole, f"{plan.id} is {plan.status} with {statuses}"
        assert not (over and plan.status == "running"), f"{plan.id} runs with {statuses}"

    def _left_out(self, plan: PlanSeen, rows: dict[str, RowSeen]) -> int:
        """How many subtasks a false condition left out, its own or that of one they wait for."""
        graph, skipped = self.graph(plan.id, plan.revision), dict[str, bool]()

        def is_left_out(key: str) -> bool:
            if key not in skipped:
                own, after = rows[key], graph[key]
                skipped[key] = own.status == "skipped" and (
                    bool(own.declined)
                    or any(
                        is_left_out(each)
                        and not (rows[each].declined and after.get("after_skipped") == "run")
                        for each in after.get("dependencies", ())
                    )
                )
            return skipped[key]

        return sum(map(is_left_out, rows))

    def _pause(self, plan: PlanSeen) -> None:
        wanted = self._floor.intents.get(plan.id) == "paused"
        if plan.status != "paused":
            assert plan.id not in self._floor.holding, f"{plan} goes on in a rollback"
            assert not wanted, f"{plan.id} is {plan.status} and a person has paused it"
            assert plan.paused_until is None, f"{plan.id} is {plan.status} and waits for a quota"
            assert plan.pause_reason is None, f"{plan.id} is {plan.status}: {plan.pause_reason}"
            assert ("plan_resume", plan.id) not in self.seen.timers, f"{plan.id}: no quota is out"
            return
        held = plan.id in self._floor.holding
        assert held == (plan.pause_reason == "rollback"), f"{plan}: {self._floor.holding}"
        asked = [
            each for each in self.seen.asked if each[0] == plan.id and each[3] == "intervention"
        ]
        if not held:
            assert len(asked) == (plan.pause_reason == "budget"), f"{plan} asks {asked}"
        if plan.pause_reason == "quota":
            due = self.seen.timers.get(("plan_resume", plan.id))
            assert due == plan.paused_until, f"{plan.id} wakes {due}, not {plan.paused_until}"
            return
        assert ("plan_resume", plan.id) not in self.seen.timers, f"{plan} would wake"
        if plan.pause_reason is None:
            assert wanted, f"{plan.id} is paused and nobody wants it"

    def _goes_on(self, plan: PlanSeen, row: RowSeen) -> None:
        if row.status == "running":
            jobs = {(job.kind, job.key, job.epoch) for job in self._floor.jobs}
            held = {(held.work.key, held.work.epoch) for held in self._floor.held}
            held |= {(held.work.key, held.work.epoch) for held in self._floor.interrupted}
            here = ("subtask", row.key, row.epoch) in jobs or (row.key, row.epoch) in held
            assert here, f"{row.key} runs and nobody carries it out"
        if row.status == "waiting_approval":
            about = (plan.id, plan.revision, row.subtask_id)
            asked = [each for each in self.seen.asked if tuple(each[:3]) == about]
            assert len(asked) == 1, f"{row.key} waits for {asked}"

    def _has_a_next_step(self, plan: PlanSeen, rows: dict[str, RowSeen]) -> None:
        job = any((job.kind, job.key) == ("plan", plan.id) for job in self._floor.jobs)
        waits = {row.status for row in rows.values()} & {"running", "waiting_approval"}
        due = ("plan_advance", plan.id) in self.seen.timers
        limit = self._floor.options.get("max_per_workspace")
        full = limit is not None and any(
            row.status == "running" for row in self.seen.rows.values() if row.plan_id != plan.id
        )
        assert job or waits or due or full, f"{plan.id} runs and nothing of it goes on: {rows}"

    def _nothing_is_blocked(self, plan: PlanSeen, rows: dict[str, RowSeen]) -> None:
        graph = self.graph(plan.id, plan.revision)
        for row in rows.values():
            if row.status != "pending":
                continue
            for dependency in graph[row.subtask_id].get("dependencies", ()):
                of = rows[dependency]
                blocks = of.status in OVER - {"completed"} and not of.declined
                assert not blocks, f"{row.key} is pending although {dependency} is {of.status}"

    def _is_sent_back(self, plan: PlanSeen, rows: Iterable[RowSeen]) -> None:
        job = any((job.kind, job.key) == ("replan", plan.id) for job in self._floor.jobs)
        runs = any(row.status == "running" for row in rows)
        asked = any((each[0], each[3]) == (plan.id, "intervention") for each in self.seen.asked)
        searched = plan.id in self._floor.searches
        assert job or runs or asked or searched, f"{plan.id} is sent back and nobody looks"

    def _left_nothing(self, plan: PlanSeen, rows: Iterable[RowSeen]) -> None:
        if plan.status not in {"rejected", "expired"}:
            left = [row.key for row in rows if row.status not in OVER]
            assert not left, f"{plan.id} is {plan.status} and left {left}"
        timers = [timer for timer in self.seen.timers if timer[1] == plan.id]
        assert not timers, f"{plan.id} is {plan.status} and left {timers}"
        asked = [each for each in self.seen.asked if each[0] == plan.id]
        assert not asked, f"{plan.id} is {plan.status} and asks {asked}"
        granted = [each for each in self.seen.granted if each[0] == plan.id]
        assert not granted, f"{plan.id} is {plan.status} and allows {granted}"

    def _room(self) -> None:
        running = [row for row in self.seen.rows.values() if row.status == "running"]
        plans, agents = Counter[str](), Counter[tuple[str, str]]()
        for row in running:
            assert row.revision == self.seen.plans[row.plan_id].revision, f"{row.key} is of old"
            plans[row.plan_id] += 1
            agents[row.plan_id, self.graph(row.plan_id, row.revision)[row.subtask_id]["agent"]] += 1
        options = self._floor.options
        for plan_id, count in plans.items():
            assert count <= self.seen.plans[plan_id].max_parallel, f"{plan_id} runs {count}"
        most = options.get("max_per_agent") or len(running)
        assert all(count <= most for count in agents.values()), f"{agents}"
        assert len(running) <= (options.get("max_per_workspace") or len(running)), f"{running}"

    # What was told, and what was done ---------------------------------------------------------

    def _events(self) -> None:
        for session_id, last in self.seen.seqs.items():
            told = self._told[session_id]
            if told == last:
                continue
            found = self._fetch(_EVENTS.format(session_id, told))
            seqs = [seq for seq, _, _ in found]
            assert seqs == list(range(told + 1, last + 1)), f"{session_id}: {seqs} after {told}"
            self._told[session_id] = last
            for _, kind, body in found:
                event = json.loads(body)
                self._is_told_whole(event)
                if kind == "plan_progress":
                    self._told_progress(event)
        self._ground.rollback()

    def _is_told_whole(self, event: dict[str, Any]) -> None:
        # That it is the last one is only known later.
        told = {name: value for name, value in event.items() if (name, value) != _LAST}
        whole = EVENTS.validate_python(told).body()
        assert json.dumps(whole) == json.dumps(told), f"{told} is not as its class gives it"

    def _told_progress(self, event: dict[str, Any]) -> None:
        plan_id, now = event["plan_id"], event["metadata"]["percentage"]
        assert now >= self._progress.get(plan_id, 0.0), f"{plan_id}: progress fell to {now}"
        self._progress[plan_id] = now

    def _ledger_lines(self) -> None:
        with self._ground.ledger.open("rb") as ledger:
            ledger.seek(self._read_to)
            lines = ledger.readlines()
            self._read_to = ledger.tell()
        for line in lines:
            self._carried_out(json.loads(line))

    def _carried_out(self, line: dict[str, Any]) -> None:
        once = (line["key"], line["attempt"], line["epoch"])
        assert once not in self._ledger, f"{once} was carried out twice"
        self._ledger.add(once)
        row = self.seen.rows[line["key"]]
        assert (row.status, row.attempt, row.epoch) == ("running", *once[1:]), f"{once}: {row}"
        subtask = self.graph(row.plan_id, row.revision)[row.subtask_id]
        self._met(row, subtask)
        condition = subtask.get("condition", "true")
        assert "none" not in condition, f"{once} was carried out although {condition}"


_PLANS = (
    "SELECT id, session_id, status, revision, max_parallel, pause_reason, paused_until FROM plans"
)
_ROWS = (
    "SELECT key, plan_id, revision, subtask_id, status, attempt, epoch, not_before, declined,"
    " finished_at, result, error FROM subtasks"
)
_TIMERS = "SELECT kind, key, run_at FROM timers"
_ASKED = "SELECT plan_id, revision, subtask_id, kind FROM approvals WHERE status = 'pending'"
_APPROVED = "SELECT plan_id, revision FROM approvals WHERE kind = 'plan' AND status = 'approved'"
_GRANTS = "SELECT plan_id, revision, subtask_id FROM grants WHERE status = 'active'"
_CHECKPOINTS = (
    "SELECT id, plan_id, revision, subtask_id, standings FROM checkpoints ORDER BY created_at, id"
)
_SEQS = "SELECT id, last_seq FROM sessions"
_LAST = ("is_final", True)
_EVENTS = "SELECT seq, type, body FROM events WHERE session_id = '{}' AND seq > {} ORDER BY seq"
