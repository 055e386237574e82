"""Replanning: when a failure changes the plan, what is kept, and what is no progress."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.checks import DoneCheck
from gonogo.domain.errors import InvalidPlan
from gonogo.domain.failures import Failure, Severity
from gonogo.domain.plan import RetryPolicy, Revision, Scope, Subtask
from gonogo.domain.plan_views import plan_changes
from gonogo.domain.replanning import (
    COVERS,
    WITHIN,
    ReplanRules,
    ReplanVerdict,
    is_progress,
    next_revision,
    replan_verdict,
    stays_within,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RULES = ReplanRules()


def failed(severity: Severity) -> Failure:
    return Failure(message="broke", severity=severity)


def subtask(key: str, *after: str, **more) -> Subtask:
    return Subtask(id=key, description=f"Do {key}", agent="coder", dependencies=after, **more)


def revision(*subtasks: Subtask, number: int = 1) -> Revision:
    return Revision(plan_id="p", number=number, goal="g", subtasks=subtasks)


@pytest.mark.parametrize("severity", list(Severity))
def test_by_default_critical_and_high_failures_change_a_plan_and_no_others(severity):
    found = replan_verdict(RULES, failed(severity), 0, None, NOW)

    changes = severity in {Severity.CRITICAL, Severity.HIGH}
    assert found is (ReplanVerdict.GO if changes else ReplanVerdict.NO)


@given(
    replans=st.integers(0, 12), most=st.integers(0, 10), human=st.integers(0, 10),
    ago=st.none() | st.integers(0, 100), interval=st.integers(0, 50),
)  # fmt: skip
def test_a_plan_is_never_changed_more_often_or_sooner_than_the_rules_say(
    replans, most, human, ago, interval
):
    rules = ReplanRules(
        max_attempts=most, human_after=human, min_interval=timedelta(seconds=interval)
    )
    last = None if ago is None else NOW - timedelta(seconds=ago)

    found = replan_verdict(rules, failed(Severity.CRITICAL), replans, last, NOW)

    if replans >= most or (ago is not None and ago < interval):
        assert found is ReplanVerdict.NO
    else:
        assert found is (ReplanVerdict.ASK if replans >= human else ReplanVerdict.GO)


def test_by_default_a_person_is_asked_after_two_replans_and_there_are_three():
    found = [replan_verdict(RULES, failed(Severity.HIGH), n, NOW, NOW) for n in range(5)]
    assert found == ["go", "go", "ask", "no", "no"]


def test_a_revision_may_have_a_number_of_its_own():
    current = revision(subtask("a"))
    assert next_revision(current, (), [subtask("b")], 7).number == 7
    assert next_revision(current, (), [subtask("b")]).number == 2


def test_the_next_revision_keeps_what_is_done_as_it_was_and_takes_the_rest():
    current = revision(subtask("a"), subtask("b", "a"), subtask("c", "b"))
    changed = subtask("a").model_copy(update={"description": "Something else"})

    found = next_revision(current, {"a"}, [changed, subtask("d", "a")])

    assert (found.number, found.goal, found.plan_id) == (2, "g", "p")
    assert found.subtasks == (subtask("a"), subtask("d", "a"))
    difference = plan_changes(current, found)
    assert [s.id for s in difference.added] == ["d"]
    assert [s.id for s in difference.removed] == ["b", "c"]
    assert difference.changed == ()


def test_a_revision_with_nothing_left_to_do_or_an_unknown_dependency_is_refused():
    current = revision(subtask("a"), subtask("b", "a"))

    with pytest.raises(
        InvalidPlan,
        match=(r"^The new plan has no work left; add a subtask that is still to be done$"),
    ):
        next_revision(current, {"a"}, [subtask("a")])
    with pytest.raises(InvalidPlan, match="unknown 'b'"):
        next_revision(current, {"a"}, [subtask("c", "b")])


def test_the_same_rest_as_any_earlier_revision_had_is_no_progress():
    first = revision(subtask("a"), subtask("b", "a"))
    second = next_revision(first, {"a"}, [subtask("c", "a")])
    back = next_revision(second, {"a"}, [subtask("b", "a")])
    other = next_revision(second, {"a"}, [subtask("b", "a"), subtask("d", "a")])

    assert is_progress([first], {"a"}, {"b"}, second)
    assert not is_progress([first, second], {"a"}, {"c"}, back)
    assert is_progress([first, second], {"a"}, {"c"}, other)


def test_leaving_out_the_rest_is_no_progress_while_what_failed_is_done_again_as_it_was():
    current = revision(subtask("a"), subtask("b", "a"), subtask("c", "b"), subtask("d"))
    again = next_revision(current, {"a"}, [subtask("b", "a")])
    without = next_revision(current, {"a"}, [subtask("d")])
    longer = next_revision(current, {"a"}, [subtask("b", "a", timeout=600)])

    assert not is_progress([current], {"a"}, {"b"}, again)
    assert is_progress([current], {"a"}, {"b"}, without)
    assert is_progress([current], {"a"}, {"b"}, longer)


SCOPE = Scope(
    tools=("write_file", "read_file"),
    paths=("src/**",),
    commands=("pytest -q",),
    network=("a.org",),
)


@pytest.mark.parametrize(
    ("change", "inside"),
    [
        ({"description": "Do it otherwise"}, True),
        ({"scope": Scope(tools=("write_file",), paths=("src/**",))}, True),
        ({"scope": SCOPE.model_copy(update={"paths": ("src/**", "docs/**")})}, False),
        ({"scope": SCOPE.model_copy(update={"commands": ("pytest -q", "rm")})}, False),
        ({"scope": SCOPE.model_copy(update={"tools": ()})}, True),
        ({"scope": SCOPE.model_copy(update={"tools": None})}, False),
        ({"scope": SCOPE.model_copy(update={"paths": ()})}, True),
        ({"scope": SCOPE.model_copy(update={"paths": None})}, False),
        ({"scope": SCOPE.model_copy(update={"network": True})}, False),
        ({"scope": SCOPE.model_copy(update={"network": ("a.org",)})}, True),
        ({"scope": SCOPE.model_copy(update={"network": False})}, True),
        ({"scope": SCOPE.model_copy(update={"network": ("a.org", "b.org")})}, False),
        ({"scope": None}, False),
        ({"agent": "debug"}, False),
        ({"approval_required": True}, True),
        ({"id": "new"}, False),
        ({"condition": "true"}, False),
        ({"on_reject": "fail"}, False),
        ({"agent": None, "tool": "write_file", "inputs": {"path": "x"}}, False),
        ({"inputs": {"x": 1}, "estimated_time": "2 h"}, True),
        ({"timeout": 60}, False),
        ({"retry_policy": RetryPolicy(max_attempts=2)}, False),
        ({"retry_policy": RetryPolicy(on=("logic",))}, False),
        ({"after_skipped": "run"}, False),
        ({"type": "validation"}, False),
        ({"done_when": (DoneCheck(file_exists="a"),)}, False),
        ({"must_change": False}, False),
    ],
)
def test_a_revision_stays_within_what_was_approved_only_if_it_names_nothing_new(change, inside):
    current = revision(subtask("a"), subtask("b", "a", scope=SCOPE))
    wanted = subtask("b", "a", scope=SCOPE).model_copy(update=change)

    found = next_revision(current, {"a"}, [wanted])

    assert stays_within(current, {"a"}, found) is inside


@pytest.mark.parametrize("change", [{"timeout": 599}, {"timeout": 601}, {"timeout": None}])
def test_another_time_limit_is_asked_about(change):
    current = revision(subtask("a"), subtask("b", timeout=600))
    found = next_revision(current, {"a"}, [subtask("b", timeout=600).model_copy(update=change)])

    assert not stays_within(current, {"a"}, found)


def test_what_was_approved_and_has_not_completed_may_not_be_left_out():
    b, check = subtask("b", "a"), subtask("check", "b")
    current = revision(subtask("a"), b, check)
    other = b.model_copy(update={"description": "Do it otherwise"})

    def inside(*rest: Subtask) -> bool:
        return stays_within(current, {"a"}, next_revision(current, {"a"}, rest))

    assert inside(other, check)
    assert inside(check, other)
    assert not inside(other)
    assert not inside(subtask("check", "a"))
    assert not inside(other, check, subtask("c"))


class Later(Subtask):
    """A subtask with a field that nobody has thought of yet."""

    power: int = 0


class LaterScope(Scope):
    power: int = 0


def test_a_field_that_nobody_has_classified_must_be_as_it_was():
    def inside(before: Subtask, after: Subtask) -> bool:
        return stays_within(revision(before), (), revision(after, number=2))

    given = {"id": "b", "description": "Do b", "agent": "coder"}
    assert inside(Later(**given, power=1), Later(**given, power=1))
    assert not inside(Later(**given, power=1), Later(**given, power=2))
    assert not inside(Subtask(**given), Later(**given, power=2))
    assert not inside(Later(**given, power=2), Subtask(**given))
    narrow = {**given, "scope": LaterScope(paths=("a", "b"), power=1)}
    assert inside(Later(**narrow), Later(**{**narrow, "scope": LaterScope(paths=("a",), power=1)}))
    assert not inside(Later(**narrow), Later(**{**narrow, "scope": LaterScope(paths=("a",))}))


def test_each_field_of_a_subtask_and_of_its_scope_is_classified():
    assert set(WITHIN) == set(Subtask.model_fields)
    assert set(COVERS) == set(Scope.model_fields)


def test_a_tool_that_gets_other_inputs_or_no_question_is_outside_what_was_approved():
    runs = Subtask(
        id="b", description="b", tool="write_file", inputs={"path": "x"}, approval_required=True
    )
    current = revision(subtask("a"), runs)

    def inside(**change) -> bool:
        found = next_revision(current, {"a"}, [runs.model_copy(update=change)])
        return stays_within(current, {"a"}, found)

    assert inside(description="other")
    assert not inside(inputs={"path": "y"})
    assert not inside(approval_required=False)


def test_a_subtask_without_a_scope_that_gets_one_is_asked_about():
    current = revision(subtask("a"), subtask("b"))
    found = next_revision(current, {"a"}, [subtask("b", scope=SCOPE)])

    assert not stays_within(current, {"a"}, found)


def test_what_guarded_a_subtask_and_has_not_come_still_guards_it_within_what_was_approved():
    gate = Subtask(id="gate", description="Check", type="validation")
    deploy = Subtask(
        id="deploy", description="Deploy", type="deploy", dependencies=("gate",),
        inputs={"env": "staging"},
    )  # fmt: skip
    current = revision(subtask("a"), gate, deploy)

    def inside(kept: set[str], **change) -> bool:
        wanted = [gate, deploy.model_copy(update=change)]
        return stays_within(current, kept, next_revision(current, kept, wanted))

    assert inside({"a"})
    assert not inside({"a"}, inputs={"env": "production"})
    assert not inside({"a"}, dependencies=())
    assert inside({"a", "gate"}, dependencies=())
