"""The scheduler: never early, never stuck, always an end, always the same answer."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.rows import subtask
from gonogo.domain.schedule import (
    STRATEGIES,
    Graph,
    Standings,
    SubtaskStanding,
    count_settled,
    outcome,
    remaining_minutes,
    schedule,
)
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus

S = SubtaskStatus
NOW = datetime(2026, 11, 21, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@st.composite
def graphs(draw):
    """Up to nine subtasks, in any order; each waits for some of those that come before it."""
    ids = [f"n{n}" for n in range(draw(st.integers(1, 9)))]
    rule = st.sampled_from([None, "skip", "run"])
    made = [
        subtask(
            key,
            *draw(st.lists(st.sampled_from(ids[:n]), unique=True) if n else st.just([])),
            after_skipped=draw(rule),
        )
        for n, key in enumerate(ids)
    ]
    return draw(st.permutations(made))


standings_of = st.sampled_from(list(S))


def next_round(subtasks, standings, max_parallel=2, now=NOW, **more):
    stand = Standings(Graph.of(subtasks), standings)
    return schedule(stand, max_parallel=max_parallel, now=now, **more)


@st.composite
def strategies(draw):
    """The built-in ones, and ones that say anything at all."""
    said = draw(st.lists(st.sampled_from([f"n{n}" for n in range(9)] + ["nobody"]), max_size=20))
    return draw(st.sampled_from([*STRATEGIES.values(), lambda ready, outlook: said]))


agents = st.sampled_from(["coder", "debug"])
limits = st.sampled_from([None, 1, 2])


def with_agents(subtasks, data):
    return [s.model_copy(update={"agent": data.draw(agents)}) for s in subtasks]


def running_of(subtasks, rows, agent):
    return sum(rows[s.id].status is S.RUNNING for s in subtasks if s.agent == agent)


def drawn(data):
    """Where a subtask stands: anywhere, and skipped by its own condition or not."""
    status = data.draw(standings_of)
    due = data.draw(st.sampled_from([None, NOW - SECOND, NOW + SECOND]))
    declined = status is S.SKIPPED and data.draw(st.booleans())
    return SubtaskStanding(status, due, declined=declined)


def is_met(subtask, standing):
    """Whether a dependency that stands so lets a subtask start."""
    passed_over = standing.declined and subtask.after_skipped == "run"
    return standing.status is S.COMPLETED or passed_over


def standing(**statuses):
    return {key: SubtaskStanding(S(status)) for key, status in statuses.items()}


@given(graphs(), st.data(), st.integers(1, 4), limits, strategies())
def test_nothing_starts_before_all_that_it_waits_for_is_met(
    subtasks, data, max_parallel, per_agent, strategy
):
    subtasks = with_agents(subtasks, data)
    more = {
        "max_per_agent": per_agent, "strategy": strategy,
    }  # fmt: skip
    standings = {s.id: drawn(data) for s in subtasks}
    by_id = {s.id: s for s in subtasks}
    found = next_round(subtasks, standings, max_parallel, **more)

    assert found == next_round(subtasks, standings, max_parallel, **more)
    assert len(set(found.start)) == len(found.start)
    for key in found.start:
        assert standings[key].status is S.PENDING
        assert all(is_met(by_id[key], standings[d]) for d in by_id[key].dependencies)
        assert standings[key].not_before is None or standings[key].not_before <= NOW
    running = sum(each.status is S.RUNNING for each in standings.values())
    assert running + len(found.start) <= max(max_parallel, running)
    for key, blocker in found.skip.items():
        assert standings[key].status is S.PENDING
        assert blocker in by_id[key].dependencies
        assert not is_met(by_id[key], standings[blocker])
        assert blocker in found.skip or standings[blocker].status in {
            S.FAILED,
            S.CANCELLED,
            S.SKIPPED,
        }
    assert not set(found.start) & set(found.skip)
    assert found.wake_at is None or found.wake_at > NOW


def begun(row, *, away):
    """What becomes of a subtask whose turn it is: it runs, or its condition keeps it away."""
    return SubtaskStanding(S.SKIPPED, declined=True) if away else row._replace(status=S.RUNNING)


def expected_end(rows, followed):
    done = {key for key, row in rows.items() if row.status is S.COMPLETED}
    if not {k for k in rows.keys() - done - followed if not rows[k].declined}:
        return PlanStatus.COMPLETED
    return PlanStatus.PARTIAL if done else PlanStatus.FAILED


def ended_by(word, row):
    """What became of a subtask that ran, in the words of the story."""
    if word == "retries" and row.attempt < 2:
        return SubtaskStanding(S.PENDING, NOW + 5 * SECOND, attempt=row.attempt + 1)
    return SubtaskStanding(
        {"waits": S.WAITING_APPROVAL, "retries": S.COMPLETED}.get(word) or S(word)
    )


@pytest.mark.feature(59)
@given(
    graphs(),
    st.integers(1, 4),
    st.data(),
    st.randoms(use_true_random=False),
    st.lists(
        st.sampled_from(
            ["completed", "completed", "failed", "cancelled", "retries", "waits", "declined"]
        ),
        min_size=9,
    ),
)
def test_every_plan_comes_to_its_end_whatever_its_subtasks_do(
    subtasks, max_parallel, data, chance, words
):
    subtasks = with_agents(subtasks, data)
    per_agent = data.draw(limits)
    more = {
        "max_per_agent": per_agent, "strategy": data.draw(strategies()),
    }  # fmt: skip
    fate = dict(zip([s.id for s in subtasks], words, strict=False))
    rows = {s.id: SubtaskStanding(S.PENDING) for s in subtasks}
    now, followed = NOW, set()
    for _ in range(100):
        found = next_round(subtasks, rows, max_parallel, now, **more)
        rows |= {key: SubtaskStanding(S.SKIPPED) for key in found.skip}
        followed |= found.skip.keys()
        away = [key for key in found.start if fate[key] == "declined"]
        rows |= {key: begun(rows[key], away=key in away) for key in found.start}
        running = [key for key, row in rows.items() if row.status is S.RUNNING]
        assert len(running) <= max_parallel
        for agent in ("coder", "debug"):
            assert running_of(subtasks, rows, agent) <= (per_agent or max_parallel)
        if found.outcome is not None:
            break
        assert running or away or found.wake_at or found.waiting, "the plan is stuck"
        if running:
            key = chance.choice(running)
            rows[key] = ended_by(fate[key], rows[key])
        elif found.waiting and not away:
            key = chance.choice([k for k, row in rows.items() if row.status is S.WAITING_APPROVAL])
            rows[key] = SubtaskStanding(chance.choice([S.COMPLETED, S.SKIPPED, S.FAILED]))
        else:
            now = now if away else found.wake_at
    else:
        pytest.fail("the plan has no end")
    assert all(row.status in SUBTASK.terminal for row in rows.values())
    assert found.outcome is expected_end(rows, followed)


@pytest.mark.feature(53)
def test_never_more_run_at_once_than_the_limit_says():
    five = [subtask(key) for key in "abcde"]

    assert next_round(five, standing(**dict.fromkeys("abcde", "pending"))).start == ("a", "b")
    assert next_round(five, standing(a="running", **dict.fromkeys("bcde", "pending"))).start == (
        "b",
    )
    assert (
        next_round(
            five, standing(**dict.fromkeys("abc", "running"), d="pending", e="pending")
        ).start
        == ()
    )


def test_one_that_waits_for_a_person_holds_no_place():
    three = [subtask("a"), subtask("b"), subtask("c")]
    found = next_round(three, standing(a="waiting_approval", b="pending", c="pending"))

    assert found.start == ("b", "c")
    assert not found.waiting


def test_when_all_that_is_left_waits_for_a_person_the_plan_waits():
    two = [subtask("a"), subtask("b", "a")]

    assert next_round(two, standing(a="waiting_approval", b="pending")).waiting
    assert not next_round(two, standing(a="running", b="pending")).waiting
    assert not next_round(two, standing(a="completed", b="completed")).waiting


def test_what_waits_for_a_failure_is_skipped_and_the_rest_goes_on():
    plan = [subtask("d", "c"), subtask("c", "a"), subtask("a"), subtask("b"), subtask("e", "b")]
    found = next_round(
        plan, standing(a="failed", b="completed", c="pending", d="pending", e="pending")
    )

    assert found.skip == {"c": "a", "d": "c"}
    assert found.start == ("e",)
    assert found.outcome is None


@pytest.mark.feature(115)
def test_one_that_says_so_runs_after_a_dependency_that_its_own_condition_skipped():
    plan = [
        subtask("a"), subtask("b", "a", after_skipped="run"), subtask("c", "a"),
        subtask("d", "c", after_skipped="run"), subtask("e", "b", after_skipped="run"),
    ]  # fmt: skip
    rows = standing(b="pending", c="pending", d="pending", e="pending")
    found = next_round(plan, rows | {"a": SubtaskStanding(S.SKIPPED, declined=True)})

    assert found.start == ("b",)
    assert found.skip == {"c": "a", "d": "c"}, "only a condition of its own is passed over"
    assert next_round(plan, rows | {"a": SubtaskStanding(S.SKIPPED)}).start == ()
    after = rows | {"a": SubtaskStanding(S.SKIPPED, declined=True), "b": SubtaskStanding(S.FAILED)}
    assert "e" in next_round(plan, after).skip


def test_a_retry_waits_for_its_time_and_says_when_it_is():
    two = [subtask("a"), subtask("b")]
    later = {
        "a": SubtaskStanding(S.PENDING, NOW + 9 * SECOND),
        "b": SubtaskStanding(S.PENDING, NOW + 4 * SECOND),
    }

    assert next_round(two, later).wake_at == NOW + 4 * SECOND
    assert next_round(two, later).start == ()
    assert next_round(two, later, now=NOW + 4 * SECOND).start == ("b",)
    assert next_round(two, later, now=NOW + 9 * SECOND).start == ("a", "b")


@pytest.mark.feature(59)
@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["completed", "completed"], PlanStatus.COMPLETED),
        (["completed", "failed"], PlanStatus.PARTIAL),
        (["completed", "skipped", "cancelled"], PlanStatus.PARTIAL),
        (["completed", "skipped"], PlanStatus.PARTIAL),
        (["failed", "skipped"], PlanStatus.FAILED),
        (["cancelled"], PlanStatus.FAILED),
        (["completed", "running"], None),
        (["completed", "pending"], None),
        (["waiting_approval"], None),
    ],
)
def test_a_plan_never_reports_success_that_it_did_not_have(statuses, expected):
    subtasks = [subtask(f"n{n}") for n in range(len(statuses))]
    assert outcome(subtasks, {f"n{n}": S(s) for n, s in enumerate(statuses)}) is expected


BRANCHES = [
    subtask("look"),
    subtask("mend", "look"),
    subtask("check", "mend"),
    subtask("tell", "mend", after_skipped="run"),
    subtask("file", "check", "look", after_skipped="run"),
]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ("completed skipped skipped completed skipped", PlanStatus.COMPLETED),
        ("completed skipped skipped failed skipped", PlanStatus.PARTIAL),
        # What a person skipped is not done, though a condition left another one out.
        ("completed skipped skipped skipped skipped", PlanStatus.PARTIAL),
        ("failed skipped skipped skipped skipped", PlanStatus.FAILED),
        ("completed skipped skipped running skipped", None),
    ],
)
def test_a_branch_that_its_condition_left_out_is_no_failure(statuses, expected):
    stood = dict(zip((s.id for s in BRANCHES), map(S, statuses.split()), strict=True))
    assert outcome(BRANCHES, stood, {"mend"}) is expected


def test_a_branch_that_nothing_else_left_out_is_one():
    stood = dict(zip("abc", [S.COMPLETED, S.SKIPPED, S.SKIPPED], strict=True))
    chain = [subtask("a"), subtask("b", "a"), subtask("c", "b")]

    assert outcome(chain, stood, {"b"}) is PlanStatus.COMPLETED
    assert outcome(chain, stood, {"c"}) is PlanStatus.PARTIAL
    assert outcome(chain, stood) is PlanStatus.PARTIAL


def test_what_failed_is_settled_only_once_the_plan_has_ended():
    statuses = [S.COMPLETED, S.SKIPPED, S.CANCELLED, S.FAILED, S.RUNNING, S.PENDING]
    assert count_settled(iter(statuses), ended=False) == 3
    assert count_settled(iter(statuses), ended=True) == 4


def test_a_plan_of_which_its_conditions_left_out_everything_is_completed():
    assert outcome([subtask("a")], {"a": S.SKIPPED}, {"a"}) is PlanStatus.COMPLETED


CHAINS = [
    subtask("short", estimated_time="20 min"),
    subtask("long", estimated_time="5 min"),
    subtask("after", "long", estimated_time="1 h"),
    subtask("last", estimated_time="20 min"),
]
ALL_PENDING = standing(**dict.fromkeys(["short", "long", "after", "last"], "pending"))


def first_of(name, **more):
    return next_round(
        CHAINS, ALL_PENDING, 3, strategy=STRATEGIES[name],
        **more,
    ).start  # fmt: skip


def test_the_longest_remaining_chain_starts_first_and_ties_go_by_plan_order():
    assert remaining_minutes(CHAINS) == {"short": 20, "long": 65, "after": 60, "last": 20}
    assert first_of("critical_path") == ("long", "short", "last")


def test_plan_order_is_a_strategy_too():
    assert first_of("plan_order") == ("short", "long", "last")


def test_what_a_strategy_leaves_out_comes_last_and_what_it_invents_is_ignored():
    found = next_round(
        CHAINS, ALL_PENDING, 3, strategy=lambda ready, outlook: ["last", "after", "x", "last"]
    )

    assert found.start == ("last", "short", "long")


def test_a_strategy_sees_what_is_held_as_waiting_for_a_person():
    seen = []

    def look(ready, outlook):
        seen.append({key: row.status for key, row in outlook.standings.items()})
        return [subtask.id for subtask in ready]

    subtasks = [subtask("a"), subtask("b"), subtask("c")]
    found = next_round(subtasks, standing(**dict.fromkeys("abc", "pending")), 3,
                       strategy=look, held={"b"})  # fmt: skip

    assert found.start == ("a", "c")
    assert seen == [{"a": "pending", "b": "waiting_approval", "c": "pending"}]


def test_one_agent_never_carries_out_more_than_its_limit_and_others_go_on():
    subtasks = [subtask("a"), subtask("b"), subtask("c", agent="debug"), subtask("d", agent=None)]
    rows = standing(**dict.fromkeys("abcd", "pending"))

    assert next_round(subtasks, rows, 4, max_per_agent=1).start == ("a", "c", "d")
