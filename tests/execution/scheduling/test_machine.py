"""Whatever happens to plans, in whatever order: the engine keeps its promises after every step.

Hypothesis makes up plans, and what becomes of them: outcomes, answers, pauses, quotas, cancels,
replans, timers, crashes in the middle of a transaction and results that come from the dead.
`fakes/floor_checks.py` says what must be true after each step; at the end everything that waits is
answered, and each plan must come to its end.
"""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fakes import rows
from fakes.floor import ANN, OUTCOMES, Floor, Ground, Held
from fakes.floor_checks import ENDED, OVER, Checks
from fakes.floor_files import Crash, Folder, Shelf
from fakes.floor_undo import Rolling, Target
from gonogo.domain.plan import RetryPolicy, Subtask
from gonogo.domain.replanning import ReplanRules
from gonogo.domain.states import ApprovalKind, DecisionWord
from gonogo.store import Store
from plugins.nightly import examples, is_nightly

EXAMPLES = examples(120, nightly=2000)
SEEDS = range(8)
"""The examples are tried in as many tests, which run at the same time."""
STEPS = 6
LONGEST_END = 250
"""Steps that bring everything to its end, where nothing new goes wrong."""

_RETRIED = {"retry_policy": RetryPolicy(max_attempts=3, delay=5)}
_AT_ONCE = {"retry_policy": RetryPolicy(max_attempts=2, delay=0, on=("unknown", "logic"))}
CONDITIONS = {
    "holds": ("1 == 1", "subtasks.{}.status != ''"),
    "does not": ("'none' == ''", "subtasks.{}.status == 'none'"),
    "has no answer": ("subtasks.none.status == ''", "subtasks.{}.none == 1"),
}
"""Of subtasks that wait for none, and of those that do; one that keeps its subtask says `none`."""
SHAPES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, _RETRIED, _RETRIED, _RETRIED, _AT_ONCE, {"after_skipped": "run"},
    {"after_skipped": "run", **_RETRIED}, {"approval_required": True},
    {"approval_required": True, "on_reject": "fail", **_RETRIED}, {"condition": "holds"},
    {"condition": "does not"}, {"condition": "does not", "after_skipped": "run"},
    {"condition": "has no answer"}, {"condition": "holds", "approval_required": True},
)  # fmt: skip
NAMES = "abcdefghijklmnop"

numbers = st.integers(0, 6)
WRITES = st.sampled_from([2, 2, 2, 2, 1, 1, 0])
"""Transactions of a rollback, before something else happens."""
steps = st.lists(st.tuples(st.integers(0, 127), st.sampled_from(SHAPES)), min_size=1, max_size=7)
EXPIRY = dict.fromkeys(ApprovalKind, timedelta(seconds=100))
OPTIONS = {
    "max_per_agent": st.sampled_from([None, None, 1, 2]),
    "max_per_workspace": st.sampled_from([None, None, 1, 2]),
    "strategy": st.sampled_from(["critical_path", "plan_order"]),
    "plan_timeout": st.sampled_from([None, None, 60.0, 120.0]),
    "budget": st.sampled_from([{}, {}, {"subtasks": 2}, {"subtasks": 4}]),
    "expiry": st.sampled_from([None, None, None, EXPIRY]),
    "retreats": st.sampled_from([False, False, True]),
    "replanning": st.sampled_from([
        None, None, ReplanRules(max_attempts=2, human_after=1),
        ReplanRules(max_attempts=3, human_after=3, min_interval=timedelta(seconds=3)),
    ]),
}  # fmt: skip
VERBS = (
    "pause", "pause", "resume_plan", "cancel", "replan", "skip_subtask", "cancel_subtask", "start",
)  # fmt: skip
PATHS = ("common.txt", "a.txt", "b.txt")
"""Files that people edit."""
FAILED = frozenset({"broken", "network", "wrong", "slow", "interrupted"})
WORDS = (DecisionWord.APPROVE, DecisionWord.APPROVE, DecisionWord.APPROVE, DecisionWord.REJECT)


def subtasks_of(drawn: list[tuple[int, dict[str, Any]]], known: list[str]) -> tuple[Subtask, ...]:
    """A graph: each of its subtasks may wait for those before it, and for what is known."""
    names = [name for name in NAMES if name not in known][: len(drawn)]
    found: list[Subtask] = []
    for name, (bits, shape) in zip(names, drawn, strict=True):
        before = [*known, *(subtask.id for subtask in found)]
        after = [key for n, key in enumerate(before) if bits >> n & 1 and bits & 96]
        more = dict(shape)
        if "condition" in more:
            more["condition"] = CONDITIONS[more["condition"]][bool(after)].format(*after)
        agent = "debug" if bits & 1 else "coder"
        found.append(rows.subtask(name, *after, agent=agent, **more))
    return tuple(found)


class Machine(RuleBasedStateMachine):
    """One example: a floor, and what happens on it."""

    ground: Ground

    @initialize(
        options=st.fixed_dictionaries(OPTIONS), first=steps, parallel=st.integers(1, 3),
        second=st.none() | st.none() | steps, other=st.none() | steps,
    )  # fmt: skip
    def begin(self, options, first, parallel, second, other) -> None:
        self.floor = Floor(self.ground, options)
        self.checks = Checks(self.ground, self.floor)
        self.plans, self.other, self.edits = [], other, 0
        for drawn in (first, second):
            if drawn is not None:
                self.propose(subtasks_of(drawn, []), parallel)

    def propose(self, subtasks: tuple[Subtask, ...], parallel: int) -> None:
        plan_id = f"p{len(self.plans)}"
        self.plans.append(plan_id)
        self.floor.propose(plan_id, subtasks, parallel)
        self.checks.step()
        if len(self.plans) == 1:
            self.answer(0, DecisionWord.APPROVE)

    # What happens ------------------------------------------------------------------------------
    #
    # A rule that finds nothing to be about does what lies nearest, so that no example is wasted.

    @rule(words=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=4))
    def work(self, words) -> None:
        self.take_up(0, len(self.floor.jobs))
        for word in words:
            if self.floor.held:
                self.finish(0, [word])

    @rule(n=numbers, many=st.integers(1, 3), words=st.lists(st.sampled_from(OUTCOMES), max_size=3))
    def in_any_order(self, n, many, words) -> None:
        self.take_up(n, many)
        if self.floor.held and words:
            self.finish(n, words)

    @rule(n=numbers)
    def park(self, n) -> None:
        if not self.floor.held:
            self.goes_on()
            return
        self.floor.park(self.floor.held[n % len(self.floor.held)])
        self.checks.step()

    @rule(n=numbers, word=st.sampled_from(OUTCOMES))
    def a_dead_holder_hands_over(self, n, word) -> None:
        if not self.floor.ghosts:
            self.goes_on()
            return
        self.floor.finish((self.floor.ghosts[n % len(self.floor.ghosts)], word))
        self.checks.unchanged()

    @rule(rest=st.none() | steps, free=st.booleans())
    def a_search_ends(self, rest, free) -> None:
        if self.floor.searches:
            self.end_search(rest, free=free)
        else:
            self.goes_on()

    @rule(n=numbers, word=st.sampled_from(WORDS))
    def a_person_answers(self, n, word) -> None:
        if self.checks.seen.asked:
            self.answer(n, word)
        else:
            self.goes_on()

    @rule(verb=st.sampled_from(VERBS), n=numbers)
    def a_person_does(self, verb, n) -> None:
        self.a_person_does_to(self.plans[n % len(self.plans)], verb, n)

    def a_person_does_to(self, plan_id: str, verb: str, n: int) -> None:
        what = self.aim(verb, plan_id, n)
        expected = self.allowed(verb, plan_id, *what)
        assert self.floor.does(verb, plan_id, *what) == expected, f"{verb} {plan_id} {what}"
        if expected:
            self.checks.step()

    @rule(
        n=numbers, of=st.sampled_from(["subtask", "subtask", "checkpoint"]), steps=WRITES,
        first=st.integers(0, 4), dies=st.booleans(), verb=st.none() | st.sampled_from(VERBS),
    )  # fmt: skip
    def a_person_rolls_back(self, n, of, first, steps, dies, verb) -> None:
        plan_id = self.plans[n % 4 % len(self.plans)]
        for _ in range(first):
            self.carry_on(plan_id)
        if n < 6:
            self.bring_to_rest(plan_id)
        self.roll(self.target(plan_id, of, n))
        for _ in range(steps):
            self.roll_on()
        if self.floor.undo.under_way and verb is not None:
            self.a_person_does_to(plan_id, verb, n)
        if dies and self.floor.undo.under_way:
            self.floor.crash()
            self.checks.step()

    @rule(path=st.sampled_from(PATHS))
    def a_person_edits(self, path) -> None:
        self.edits += 1
        self.floor.edit(path, f"edit {self.edits} of {path}\n")
        self.checks.step()

    @rule(seconds=st.sampled_from([1, 5, 130, 130, None, None]))
    def time_passes(self, seconds) -> None:
        first = self.floor.first_timer()
        due = first or self.floor.now
        later = self.floor.now + timedelta(seconds=seconds or 0)
        self.floor.now = later if seconds else max(due, self.floor.now)
        self.fire()

    @rule(verb=st.sampled_from((*VERBS, None, None)), n=numbers)
    def crash(self, verb, n) -> None:
        if self.has_ended() and not self.floor.undo.under_way:
            return
        if self.floor.undo.under_way and n > 3:
            self.crash_before_the_files()
        elif verb is None:
            self.floor.crash()
        else:
            plan_id = self.plans[n % len(self.plans)]
            what = self.aim(verb, plan_id, n)
            verb_of = getattr(self.floor.engine.controls, verb)
            self.floor.crash(verb_of, plan_id, *what, ANN.id)
        self.checks.step()

    # Steps -------------------------------------------------------------------------------------

    def take_up(self, n: int, many: int) -> None:
        for _ in range(min(many, len(self.floor.jobs))):
            job = self.floor.jobs[n % len(self.floor.jobs)]
            if job.kind == "subtask":
                # It changes files, so it waits while they are put back.
                self.let_roll()
            if job in self.floor.jobs:
                self.floor.take_up(job)
                self.checks.step()
            for held in list(self.floor.interrupted):
                self.hand_over([(held, "interrupted")])

    def finish(self, n: int, words: list[str]) -> None:
        """Hand over what came of some subtasks of a plan, together."""
        first = self.floor.held[n % len(self.floor.held)]
        others = [h for h in self.floor.held if h.plan_id == first.plan_id and h is not first]
        together = [first, *others][: len(words)]
        self.hand_over(list(zip(together, words, strict=False)))

    def hand_over(self, done: list[tuple[Held, str]]) -> None:
        for held, word in done:
            if word in FAILED and self.floor.options["retreats"]:
                self.let_roll()
                self.roll(Target(held.plan_id), held)
                self.let_roll()
        self.floor.finish(*done)
        self.checks.step()

    def carry_on(self, plan_id: str) -> None:
        """Have all of a plan done that can be done."""
        self.take_up(0, len(self.floor.jobs))
        for held in self.held_of(plan_id):
            self.hand_over([(held, "done")])

    def bring_to_rest(self, plan_id: str) -> None:
        """Pause a plan, and let what runs of it, or waits for an answer, come to its end."""
        if self.checks.seen.plans[plan_id].status == "running":
            assert self.floor.does("pause", plan_id)
            self.checks.step()
        for held in self.held_of(plan_id):
            self.hand_over([(held, "done")])
        for approval in self.floor.pending(plan_id):
            if approval.subtask_id is not None:
                assert self.floor.answer(approval, DecisionWord.APPROVE)
                self.checks.step()

    def held_of(self, plan_id: str) -> list[Held]:
        return [held for held in self.floor.held if held.plan_id == plan_id]

    def target(self, plan_id: str, of: str, n: int) -> Target:
        made = self.checks.undo.of_plan(plan_id)
        if of == "checkpoint" and made:
            # The youngest ones are those before rollbacks, most of the time.
            return Target(plan_id, checkpoint_id=made[-1 - n % len(made)] if n else None)
        rows = self.checks.rows_of(self.checks.seen.plans[plan_id])
        over = [key for key, row in rows.items() if row.status in OVER]
        found = [Target(plan_id, subtask_id=key) for key in over or rows]
        # Those on which most was built come first.
        found.sort(key=lambda each: len(self.checks.undo.named(each) & set(over)), reverse=True)
        return found[n % len(found)]

    def roll(self, target: Target, held: Held | None = None) -> None:
        """Begin with a rollback; whether it may begin is known beforehand."""
        may = self.checks.undo.may_begin(target)
        rolling = self.floor.roll(target, held and held.work)
        if held is None:
            assert rolling.done != may, f"{target}: {rolling.task}"
        self.has_looked(rolling)

    def roll_on(self) -> None:
        """Let the rollback that is under way write once more; then the next one may look."""
        if not self.floor.undo.under_way:
            return
        rolling = self.floor.roll_on()
        self.checks.step()
        if rolling.done and self.floor.undo.under_way:
            self.has_looked(self.floor.undo.wait())

    def has_looked(self, rolling: Rolling) -> None:
        if rolling.at and not rolling.done:
            self.checks.undo.looked(rolling)
        self.checks.step()

    def let_roll(self) -> None:
        """Let every rollback come to its end."""
        while self.floor.undo.under_way:
            self.roll_on()

    def crash_before_the_files(self) -> None:
        """The process dies once a rollback has its checkpoint, and nothing has gone back."""
        rolling = self.floor.undo.under_way[0]
        self.floor.ground.disk.dies = True
        try:
            self.floor.roll_on()
        except Crash:
            self.floor.stepped = rolling
        self.floor.crash()

    def end_search(self, drawn: list[Any] | None, *, free: bool) -> None:
        found = None if drawn is None else lambda kept: subtasks_of(drawn, sorted(kept))
        self.floor.search(self.floor.searches[0], found, free=free)
        self.checks.step()

    def fire(self) -> None:
        for timer in self.floor.due():
            self.floor.fire(timer)
            self.checks.step()

    def answer(self, n: int, word: DecisionWord) -> None:
        asked = [each for plan_id in self.plans for each in self.floor.pending(plan_id)]
        approval = asked[n % len(asked)]
        if approval.kind == ApprovalKind.PLAN and n > 4:
            word = DecisionWord.HOLD
        about_budget = approval.details.get("about") == "budget"
        under_way = approval.plan_id in self.floor.holding
        taken = word is DecisionWord.REJECT or not (about_budget and under_way)
        assert self.floor.answer(approval, word) == taken, f"{approval}"
        self.checks.step()

    def aim(self, verb: str, plan_id: str, n: int) -> list[str]:
        """What else is said with a verb."""
        keys = list(self.checks.graph(plan_id, self.checks.seen.plans[plan_id].revision))
        what = {"replan": ["better"], "skip_subtask": [keys[n % len(keys)]]}
        what["cancel_subtask"] = what["skip_subtask"]
        return what.get(verb, [])

    def allowed(self, verb: str, plan_id: str, *what: str) -> bool:
        """Whether a person may do that now."""
        plan = self.checks.seen.plans[plan_id]
        if verb in {"skip_subtask", "cancel_subtask"}:
            row = self.checks.seen.rows[f"{plan_id}/{plan.revision}/{what[0]}"]
            runs = row.status == "running" and verb == "skip_subtask"
            return plan.status not in ENDED and row.status not in OVER and not runs
        free = plan.pause_reason != "budget" and plan_id not in self.floor.holding
        return {
            "pause": plan.status == "running" or plan.pause_reason == "quota",
            "resume_plan": plan.status == "paused" and free,
            "cancel": plan.status not in ENDED,
            "replan": plan.status in {"running", "paused", "failed", "partial"} and free,
            "start": plan.status == "approved",
        }[verb]

    # The end ----------------------------------------------------------------------------------

    def has_ended(self) -> bool:
        return {plan.status for plan in self.checks.seen.plans.values()} <= ENDED

    def teardown(self) -> None:
        if not hasattr(self, "checks"):
            return
        try:
            # What has failed, or is given up, need not come to its end as well.
            if sys.exc_info()[0] is None:
                self.come_to_the_end()
        finally:
            self.floor.undo.die()

    def come_to_the_end(self) -> None:
        for _ in range(LONGEST_END):
            if not self.goes_on():
                break
        seen = self.checks.seen
        assert self.has_ended(), f"{seen.plans}"
        assert not seen.timers
        assert not seen.asked

    def goes_on(self) -> bool:
        """Do what lies nearest. False when nothing is left to do."""
        floor, seen = self.floor, self.checks.seen
        if floor.undo.under_way or floor.holding:
            # First of all: in the middle of it no question about a budget can be answered.
            self.finish_rollback()
        elif floor.jobs:
            self.take_up(0, 3)
        elif floor.held:
            self.finish(0, ["done"] * 3)
        elif floor.searches:
            first = self.checks.seen.plans[floor.searches[0]].revision == 1
            self.end_search(self.other if first else None, free=False)
        elif seen.asked:
            self.answer(0, DecisionWord.APPROVE)
        elif any(self.goes_on_if_told(plan.id) for plan in seen.plans.values()):
            pass
        elif any(key for kind, key in seen.timers if kind != "plan_timeout"):
            floor.now = max(floor.now, floor.first_timer())
            self.fire()
        else:
            return False
        return True

    def finish_rollback(self) -> None:
        if self.floor.undo.under_way:
            self.roll_on()
        else:
            self.roll(next(iter(self.floor.holding.values())))

    def goes_on_if_told(self, plan_id: str) -> bool:
        verb = {"paused": "resume_plan", "approved": "start"}
        found = verb.get(self.checks.seen.plans[plan_id].status)
        if found is not None:
            assert self.floor.does(found, plan_id)
            self.checks.step()
        return found is not None


@pytest.fixture
def ground(database_url: str, tmp_path: Path) -> Iterator[Ground]:
    yield from _opened(database_url, tmp_path, Shelf())


@pytest.fixture
def ground_on_disk(database_url: str, tmp_path: Path) -> Iterator[Ground]:
    yield from _opened(database_url, tmp_path, Folder(tmp_path / "work", tmp_path / "snapshots"))


def _opened(database_url: str, tmp_path: Path, disk: Shelf | Folder) -> Iterator[Ground]:
    store = Store(database_url)
    found = Ground(store, tmp_path / "ledger", disk)
    yield found
    found.close()
    store.close()


def _run(ground: Ground, count: int, part: int) -> None:
    machine = type("Example", (Machine,), {"ground": ground})
    run_state_machine_as_test(
        machine if is_nightly() else seed(part)(machine),
        settings=settings(
            max_examples=max(1, count), stateful_step_count=STEPS, deadline=None,
            verbosity=Verbosity.normal, suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False, phases=set(Phase) - {Phase.explain},
        ),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def soon_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing example is told after a minute of making it smaller, not after five."""
    monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", 60)


@pytest.mark.unmeasured
@pytest.mark.parametrize("part", SEEDS)
def test_the_engine_keeps_its_promises_whatever_happens(ground: Ground, part: int) -> None:
    # On PostgreSQL a run has the first part alone.
    _run(ground, EXAMPLES // (len(SEEDS) if ground.is_sqlite else 20), part)


@pytest.mark.unmeasured
def test_files_on_disk_go_back_and_stay_as_they_should_whatever_happens(
    ground_on_disk: Ground,
) -> None:
    _run(ground_on_disk, EXAMPLES // 20 if ground_on_disk.is_sqlite else EXAMPLES // 50, 0)


def test_a_rollback_whose_process_died_before_the_files_went_back_is_done_again(
    ground: Ground,
) -> None:
    one = _begun(ground, [(0, {})])
    one.a_person_rolls_back(n=0, of="subtask", first=1, steps=0, dies=False, verb=None)
    one.crash(n=4, verb="pause")
    one.a_person_edits(path="b.txt")
    one.teardown()


def test_a_skip_by_a_person_is_told_from_one_by_a_condition_at_the_same_moment(
    ground: Ground,
) -> None:
    asks = {"approval_required": True}
    shapes = [(0, {"condition": "does not"}), (33, {}), (0, asks), (0, asks), (33, {}), (0, {})]
    one = _begun(ground, shapes)
    one.a_person_rolls_back(n=0, of="checkpoint", first=1, steps=2, dies=False, verb=None)
    for n in (1, 1, 0):
        one.a_person_rolls_back(n=n, of="subtask", first=0, steps=2, dies=False, verb=None)
    one.a_person_rolls_back(n=0, of="checkpoint", first=0, steps=1, dies=False, verb="skip_subtask")
    one.teardown()


def _begun(ground: Ground, first: list[tuple[int, dict[str, Any]]]) -> Machine:
    """An example with one plan, whose steps a test says itself."""
    one = type("Example", (Machine,), {"ground": ground})()
    options = {"strategy": "critical_path", "budget": {}, "retreats": False}
    one.begin(
        options=dict.fromkeys(OPTIONS) | options, first=first, parallel=1, second=None, other=None
    )
    return one
