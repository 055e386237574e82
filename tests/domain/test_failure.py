"""Failures: typed where they happen, tried again only when that makes sense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.errors import (
    AlreadyDecided,
    Conflict,
    GonogoError,
    ModelFailed,
    ModelNotConfigured,
    PolicyDenied,
    ToolFailed,
)
from gonogo.domain.failures import (
    MAX_DELAY,
    TRANSIENT,
    Category,
    Classified,
    Failure,
    Severity,
    classify,
    quota_pause,
    retry_delay,
)
from gonogo.domain.plan import RetryPolicy


@pytest.mark.parametrize(
    ("error", "severity", "category"),
    [
        (ModelFailed("x", http_status=429), "medium", "quota"),
        (ModelFailed("x", http_status=429, transient=True), "medium", "quota"),
        (ModelFailed("x", transient=True), "medium", "network"),
        (ModelFailed("x", http_status=400), "high", "environment"),
        (ModelNotConfigured("x"), "high", "environment"),
        (PolicyDenied("x"), "medium", "policy"),
        (ToolFailed("timeout", "x"), "medium", "timeout"),
        (ToolFailed("file_not_found", "x"), "medium", "logic"),
        (Conflict("x"), "medium", "unknown"),
        (GonogoError("x"), "medium", "unknown"),
        (Classified("x", severity=Severity.LOW, category=Category.LOGIC), "low", "logic"),
    ],
)
def test_an_error_of_ours_says_what_kind_of_failure_it_is(error, severity, category):
    assert classify(error) == Failure(message="x", severity=severity, category=category)


def test_errors_carry_their_parts():
    decided = AlreadyDecided("the plan", "approved", "Ann", "2026-11-21")
    failed = ModelFailed("slow", http_status=429, retry_after=3.5, transient=True)

    assert str(decided) == "the plan was already approved by Ann at 2026-11-21"
    assert (decided.decision, decided.decided_by, decided.decided_at) == (
        "approved",
        "Ann",
        "2026-11-21",
    )
    assert (failed.http_status, failed.retry_after, failed.transient) == (429, 3.5, True)
    assert ToolFailed("timeout", "x").kind == "timeout"


def failure(category):
    return Failure(message="x", category=category)


def test_without_a_policy_nothing_is_tried_again():
    assert retry_delay(None, failure(Category.NETWORK), 1) is None


@pytest.mark.parametrize("category", Category)
def test_only_what_passes_by_itself_is_tried_again_unless_the_policy_says_more(category):
    usual = retry_delay(RetryPolicy(max_attempts=2), failure(category), 1)
    named = retry_delay(RetryPolicy(max_attempts=2, on=("logic",)), failure(category), 1)

    assert (usual == 1.0) is (category in TRANSIENT)
    assert (named == 1.0) is (category is Category.LOGIC)


def test_the_delay_grows_until_the_attempts_are_used_up():
    policy = RetryPolicy(max_attempts=4, delay=0.5, backoff=3)
    delays = [retry_delay(policy, failure(Category.TIMEOUT), n) for n in range(1, 6)]

    assert delays == [0.5, 1.5, 4.5, None, None]


@given(
    st.integers(1, 20), st.floats(0, 86_400), st.floats(1, 10), st.integers(1, 25),
)  # fmt: skip
def test_a_delay_is_never_longer_than_a_day(most, delay, backoff, attempt):
    policy = RetryPolicy(max_attempts=most, delay=delay, backoff=backoff)
    found = retry_delay(policy, failure(Category.QUOTA), attempt)

    assert (found is None) is (attempt >= most)
    assert found is None or 0 <= found <= MAX_DELAY


YEAR = 366 * 86_400


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        (None, None), (0, None), (-1, None), (0.2, 1.0), (1, 1), (90, 90), (YEAR, YEAR),
        (YEAR + 1, None), (float("inf"), None), (float("nan"), None),
    ],
)  # fmt: skip
def test_a_quota_is_waited_for_a_second_at_least_and_a_year_at_most(asked, pause):
    assert quota_pause(ModelFailed("x", http_status=429, retry_after=asked)) == pause
    assert quota_pause(ModelFailed("x", http_status=503, retry_after=asked)) is None
    assert quota_pause(Conflict("x")) is None


def test_a_failure_is_kept_with_how_bad_it_is_and_of_what_kind():
    assert Failure(message="x").facts == {
        "message": "x", "severity": "medium", "category": "unknown",
    }  # fmt: skip


def test_no_policy_makes_a_retry_wait_longer_than_a_day():
    policy = RetryPolicy(max_attempts=20, delay=86_400, backoff=10)
    found = [retry_delay(policy, failure(Category.NETWORK), n) for n in (1, 2, 19, 20)]
    assert found == [86_400, 86_400, 86_400, None]
