"""What must be true of rollbacks: of the files, and of the plans that go back with them.

The truth about files is what runners and people wrote; the truth about plans is how their rows
looked when each checkpoint was written.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from fakes.floor import Floor
from fakes.floor_files import Deed
from fakes.floor_undo import Rolling, Target

if TYPE_CHECKING:
    from fakes.floor_checks import Checks, PlanSeen, RowSeen, Seen

_LETTERS = {"c": "completed", "f": "failed", "s": "skipped", "x": "cancelled"}
_OVER = frozenset(_LETTERS.values())
_ENDED = frozenset({"completed", "failed", "partial", "cancelled", "rejected", "expired"})
_FRESH = ("pending", 0, 0)


class Moment(NamedTuple):
    """What was true when a checkpoint was written."""

    plan_id: str
    revision: int
    attempt_of: str | None
    files: dict[str, int]
    over: dict[str, "RowSeen"]
    """The subtasks that were over."""


class UndoChecks:
    """Looks at every step for what rollbacks did, and did not."""

    def __init__(self, floor: Floor, checks: "Checks") -> None:
        self._floor, self._checks = floor, checks
        self.moments: dict[str, Moment] = {}
        """By checkpoint, oldest first."""
        self._first: dict[str, dict[str, int]] = {}
        """Plan → how the files were before its last rollback was begun for the first time."""
        self._paused: dict[str, tuple[str | None, str | None]] = {}
        """Plan → why and until when it was paused before it was rolled back."""

    def latest(self, plan_id: str) -> str | None:
        """The youngest checkpoint of a plan."""
        return next((key for key in reversed(self.moments) if self._is_of(key, plan_id)), None)

    def of_plan(self, plan_id: str) -> list[str]:
        """The checkpoints of a plan."""
        return [key for key in self.moments if self._is_of(key, plan_id)]

    def _is_of(self, key: str, plan_id: str) -> bool:
        return self.moments[key].plan_id == plan_id

    def is_quiet(self, plan_id: str) -> bool:
        """Whether nothing of a plan runs, or is about to."""
        plan = self._checks.seen.plans[plan_id]
        statuses = {row.status for row in self._checks.rows_of(plan).values()}
        paused = plan.status == "paused" and not statuses & {"running", "waiting_approval"}
        return plan.status in _ENDED or paused

    def resolved(self, target: Target) -> Target:
        """What a rollback is about of which not all was said."""
        if target.checkpoint_id or target.subtask_id:
            return target
        unfinished = self._floor.holding.get(target.plan_id)
        return unfinished or Target(target.plan_id, checkpoint_id=self.latest(target.plan_id))

    def may_begin(self, target: Target) -> bool:
        """Whether nothing runs, and no other rollback of the plan has to be done first."""
        first = self._floor.holding.get(target.plan_id)
        return self.is_quiet(target.plan_id) and first in {None, self.resolved(target)}

    # Before -----------------------------------------------------------------------------------

    def looked(self, rolling: Rolling) -> None:
        """Know what is to come of a rollback that stands before its first transaction."""
        past = self._floor.past
        rolling.about = self.resolved(rolling.target)
        rolling.seen = past.now()
        rolling.expected = past.undone(*self._about(rolling))

    def _about(self, rolling: Rolling) -> tuple[Callable[[Deed], bool], dict[str, int]]:
        target = rolling.about
        if rolling.work is not None:
            who = f"{target.plan_id}/{rolling.work.subtask.id}"
            return lambda deed: deed.who == who, self._attempt(rolling)
        if target.subtask_id is not None:
            named = {f"{target.plan_id}/{key}" for key in self.named(target)}
            return lambda deed: deed.who in named, {}
        moment = self.moments[target.checkpoint_id]
        plan_id = target.plan_id
        ours = f"{plan_id}/"
        return lambda deed: deed.who.startswith(ours) or deed.by == plan_id, moment.files

    def _attempt(self, rolling: Rolling) -> dict[str, int]:
        plan_id, number, subtask_id = rolling.work.key.rsplit("/", 2)
        about = (plan_id, int(number), subtask_id)
        return next(
            moment.files for moment in reversed(self.moments.values())
            if (moment.plan_id, moment.revision, moment.attempt_of) == about
        )  # fmt: skip

    def named(self, target: Target) -> set[str]:
        """The subtask that a rollback is about, and its dependants."""
        revision = self._checks.seen.plans[target.plan_id].revision
        graph = self._checks.graph(target.plan_id, revision)
        found = {target.subtask_id}
        for _ in graph:
            found |= {k for k, s in graph.items() if found & set(s.get("dependencies", ()))}
        return found

    # After ------------------------------------------------------------------------------------

    def step(self, before: "Seen", checkpoints: list[Any]) -> None:
        """Check what one step did."""
        rolling, self._floor.stepped = self._floor.stepped, None
        for row in checkpoints:
            if row[0] not in self.moments:
                self._remember(*row, self._mark(rolling))
        self._files(rolling)
        for plan in before.plans.values():
            if plan.status == "paused" and plan.pause_reason != "rollback":
                self._paused[plan.id] = plan.pause_reason, plan.paused_until
        if rolling is None or rolling.work is not None or not rolling.done or rolling.died:
            return
        plan_id = rolling.target.plan_id
        was, plan = before.plans[plan_id], self._checks.seen.plans[plan_id]
        if rolling.at < 2 or rolling.clash:
            assert rolling.refused, f"{rolling.target} was carried out"
        else:
            assert not rolling.refused, f"{rolling.target}: {rolling.task.exception()}"
            self._plan(rolling, was, plan)

    def _mark(self, rolling: Rolling | None) -> dict[str, int]:
        """How the files were; before a rollback that is done again, as before it was cut off."""
        mark = self._floor.past.mark()
        if rolling is None or rolling.work is not None:
            return mark
        plan_id = rolling.target.plan_id
        self._first[plan_id] = self._first[plan_id] if rolling.again else mark
        return self._first[plan_id]

    def _remember(
        self, key: str, plan_id: str, revision: int, subtask_id: str | None, standings: str,
        files: dict[str, int],
    ) -> None:  # fmt: skip
        rows = [
            row for row in self._checks.seen.rows.values()
            if (row.plan_id, row.revision) == (plan_id, revision)
        ]  # fmt: skip
        over = {row.subtask_id: row for row in rows if row.status in _OVER}
        graph = self._checks.graph(plan_id, revision)
        told = {k: _LETTERS[c] for k, c in zip(graph, standings, strict=True) if c in _LETTERS}
        assert told == {k: row.status for k, row in over.items()}, f"{key} says {standings}"
        self.moments[key] = Moment(plan_id, revision, subtask_id, files, over)

    def _files(self, rolling: Rolling | None) -> None:
        past, found = self._floor.past, self._floor.ground.disk.read()
        truth, wanted = past.now(), {}
        if rolling is not None and rolling.at == 2 and not rolling.done:
            to = {p: t for p, t in rolling.expected.items() if t != rolling.seen[p]}
            rolling.clash = any(truth[p] != rolling.seen[p] for p in to)
            wanted = {} if rolling.clash else to
        whole = {**truth, **wanted}
        there = {path: text for path, text in whole.items() if text is not None}
        what = rolling and (rolling.target, rolling.work and rolling.work.key)
        assert found == there, f"{what}: {found}, and not {there}; it was {past.paths}"
        for path, text in wanted.items():
            past.put_back(path, text, rolling.target.plan_id)

    # Plans ------------------------------------------------------------------------------------

    def _plan(self, rolling: Rolling, was: "PlanSeen", plan: "PlanSeen") -> None:
        if was.status != "paused":
            assert plan == was, f"a rollback made {plan} of {was}"
            return
        rows, now = self._checks.rows_of(was), self._checks.rows_of(plan)
        kept = self._kept(rolling, was, rows)
        over = {key: _end(row) for key, row in rows.items() if row.status in _OVER}
        assert plan.status == "paused", f"{plan} after a rollback"
        pause = (plan.pause_reason, plan.paused_until)
        assert pause == self._paused[was.id], f"{plan} after a rollback, and not {self._paused}"
        changes = {key: _end(row) for key, row in kept.items()} != over
        last = self._checks.last_revision(plan.id)
        assert plan.revision == (last if changes else was.revision), f"{was}, {plan}: {kept}"
        self._lost(plan, rows, now)
        if changes:
            self._again(was, plan, kept, now)

    def _again(
        self, was: "PlanSeen", plan: "PlanSeen", kept: dict[str, "RowSeen"],
        now: dict[str, "RowSeen"],
    ) -> None:  # fmt: skip
        graph = self._checks.graph(plan.id, plan.revision)
        assert graph == self._checks.graph(was.id, was.revision), f"{plan} is another plan"
        for key, row in now.items():
            if key in kept:
                assert _end(row) == _end(kept[key]), f"{row} and not {kept[key]}"
            else:
                fresh = (row.status, row.attempt, row.epoch)
                assert fresh == _FRESH, f"{row.key} is to run again and is {row}"
        left = {(plan.id, plan.revision, key) for key in graph if key not in kept}
        granted = {each for each in self._checks.seen.granted if each[0] == plan.id}
        assert granted == left, f"{plan.id} allows {granted}, and not {left}"

    def _kept(
        self, rolling: Rolling, was: "PlanSeen", rows: dict[str, "RowSeen"]
    ) -> dict[str, "RowSeen"]:
        target = rolling.about
        if target.subtask_id is not None:
            named = self.named(target)
            over = {key: row for key, row in rows.items() if row.status in _OVER}
            return {key: row for key, row in over.items() if key not in named}
        moment = self.moments[target.checkpoint_id]
        then = self._checks.graph(was.id, moment.revision)
        current = self._checks.graph(was.id, was.revision)
        return {key: row for key, row in moment.over.items() if current.get(key) == then[key]}

    def _lost(
        self, plan: "PlanSeen", rows: dict[str, "RowSeen"], now: dict[str, "RowSeen"]
    ) -> None:
        done = {f"{plan.id}/{key}" for key, row in now.items() if row.status == "completed"}
        # What counts as done again does so although people changed its files meanwhile.
        self._floor.past.lost -= {
            f"{plan.id}/{key}" for key in now if rows[key].status != "completed"
        }
        lost = done & self._floor.past.lost
        assert not lost, f"{lost} count as done, and what they wrote was taken back"


def _end(row: "RowSeen") -> tuple[Any, ...]:
    return row.status, row.finished_at, row.declined, row.result, row.error
