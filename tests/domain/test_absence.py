"""A model that is away is asked again, seldomer and seldomer, until patience ends."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.errors import Conflict, ModelFailed
from gonogo.domain.failures import Absence, is_away

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DOWN = ModelFailed("answered 503", http_status=503, transient=True)


def seconds(number):
    return timedelta(seconds=number)


def tries(patience, error=DOWN):
    """When a model is asked that never answers, in seconds from its first failure."""
    kept, now, found = None, NOW, []
    while True:
        absence = Absence.after(kept, error, now)
        until = absence.next_try(now, patience)
        if until is None:
            return found
        found.append((until - NOW).total_seconds())
        kept, now = absence.as_json(), until


@pytest.mark.feature(230)
def test_it_is_asked_seldomer_and_seldomer_and_for_the_last_time_when_patience_ends():
    assert tries(60) == [2, 6, 14, 30, 60]
    assert tries(600)[:7] == [2, 6, 14, 30, 60, 90, 120]
    assert tries(600)[-1] == 600
    assert tries(1) == [1]
    assert tries(0) == []


def test_a_wish_to_be_left_alone_for_a_while_is_granted_as_far_as_patience_goes():
    busy = ModelFailed("busy", http_status=503, retry_after=40, transient=True)
    assert tries(60, busy) == [40, 60]
    assert tries(10, busy) == [10]
    for odd in (float("inf"), float("nan"), -5.0, 1e12):
        wish = ModelFailed("busy", http_status=503, retry_after=odd, transient=True)
        assert tries(60, wish) == tries(60)


def test_a_wish_of_a_year_or_more_is_none():
    for wished, granted in ((31_622_399.0, 31_622_399.0), (31_622_400.0, 0.0), (0.5, 0.5)):
        error = ModelFailed("busy", retry_after=wished, transient=True)
        assert Absence.after(None, error, NOW).as_json() == {
            "since": "2026-11-23T12:00:00Z", "tries": 1, "error": "busy", "asked": granted,
            "probe": None,
        }  # fmt: skip


@given(st.integers(0, 20_000))
def test_there_is_an_end_and_no_try_comes_after_it(patience):
    found = tries(patience)

    assert all(0 < at <= patience for at in found)
    assert found == sorted(set(found))
    assert len(found) <= 10 + patience / 30


def test_a_clock_that_goes_back_makes_nobody_wait_longer():
    first = Absence.after(None, DOWN, NOW)
    again = Absence.after(first.as_json(), DOWN, NOW - seconds(3600))

    assert again.ends_at(600) == NOW - seconds(3000)


def test_an_absence_is_kept_as_it_is_and_begins_once():
    first = Absence.after(None, ModelFailed("x" * 1_000), NOW)
    second = Absence.after(first.as_json(), DOWN, NOW + seconds(2)).found_out_by("a")

    assert Absence.of(second.as_json()) == second
    assert (second.since, second.tries, second.error) == (NOW, 2, "answered 503")
    assert (len(first.error), first.probe, second.probe) == (300, None, "a")


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (DOWN, True),
        (ModelFailed("refused", transient=True), True),
        (ModelFailed("quota", http_status=429, transient=True, retry_after=60.0), False),
        (ModelFailed("quota", http_status=429, transient=True), True),
        (ModelFailed("quota", http_status=429, transient=True, retry_after=1e300), True),
        (ModelFailed("used up", http_status=429), False),
        (ModelFailed("bad request", http_status=400), False),
        (Conflict("x"), False),
    ],
)
def test_who_refuses_is_not_away(error, away):
    assert is_away(error) is away
