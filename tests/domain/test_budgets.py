"""Budgets: what requests took in all, and the first limit that one more step would pass."""

import pytest
from msgspec.structs import asdict

from gonogo.domain.replanning import (
    DEFAULT_OUTPUT,
    OF_REQUESTS,
    OF_SESSIONS,
    OF_STARTS,
    WORDS,
    BudgetSpent,
    Excess,
    Used,
    excess,
    in_force,
    tokens_of,
)

ONE = Used(
    requests=1, input_tokens=2, cached_tokens=3, cache_write_tokens=4, output_tokens=5,
    reasoning_tokens=6, cost_micros=2_500_000, unpriced=8, largest_output=5, largest_cost=7,
)  # fmt: skip
OTHER = Used(
    requests=10, input_tokens=20, cached_tokens=30, cache_write_tokens=40, output_tokens=50,
    reasoning_tokens=60, cost_micros=1, unpriced=80, largest_output=3, largest_cost=9,
)  # fmt: skip


def test_what_several_requests_took_is_their_sum_and_of_the_largest_the_largest():
    assert asdict(Used.total([ONE, OTHER])) == {
        "requests": 11, "input_tokens": 22, "cached_tokens": 33, "cache_write_tokens": 44,
        "output_tokens": 55, "reasoning_tokens": 66, "cost_micros": 2_500_001, "unpriced": 88,
        "largest_output": 5, "largest_cost": 9,
    }  # fmt: skip
    assert set(asdict(Used.total([])).values()) == {0}
    assert Used.total([]) == Used()


def test_what_was_used_stands_under_the_words_of_limits():
    assert ONE.by_word() == {"tokens": 7, "cost": 2.5, "requests": 1}
    assert ONE.by_word("session_") == {
        "session_tokens": 7, "session_cost": 2.5, "session_requests": 1,
    }  # fmt: skip


def test_each_limit_has_a_word():
    assert {"tokens", "cost", "requests"} == OF_REQUESTS
    assert {"session_tokens", "session_cost", "session_requests"} == OF_SESSIONS
    assert {"seconds", "subtasks"} == OF_STARTS
    assert WORDS == OF_REQUESTS | OF_SESSIONS | OF_STARTS


@pytest.mark.parametrize(
    ("what", "setting"),
    [
        ("tokens", "GONOGO_BUDGET_PLAN_TOKENS"), ("subtasks", "GONOGO_BUDGET_PLAN_SUBTASKS"),
        ("session_cost", "GONOGO_BUDGET_SESSION_COST"),
    ],
)  # fmt: skip
def test_a_limit_that_would_be_passed_names_its_setting(what, setting):
    passed = Excess(what=what, used=1, limit=2)
    assert passed.setting == setting
    spent = BudgetSpent("No more", passed)
    assert (str(spent), spent.excess) == ("No more", passed)


def test_what_people_set_takes_the_place_of_the_settings_where_there_are_any():
    settings = {"tokens": 10.0, "cost": 1.0}
    assert in_force(settings, None) == in_force(settings, {}) == settings
    assert in_force(settings, {"runs": 3}) == settings
    assert in_force(settings, {"limits": {"cost": 5.0, "seconds": 9.0}}) == {
        "tokens": 10.0, "cost": 5.0, "seconds": 9.0,
    }  # fmt: skip
    assert in_force({}, {"limits": {"cost": 5.0}}) == {}


def test_a_limit_may_be_reached_and_not_passed_and_the_first_one_is_told():
    limits = {"requests": 5.0, "tokens": 10.0, "cost": 1.0}
    assert excess(limits, {"tokens": 6}, {"tokens": 4}) is None
    assert excess(limits, {"tokens": 6}, {"tokens": 5}) == Excess(what="tokens", used=6, limit=10.0)
    both = excess(limits, {"tokens": 6, "cost": 0.5}, {"cost": 1, "tokens": 5})
    assert both == Excess(what="tokens", used=6, limit=10.0)
    # What nothing was used of yet counts from nothing.
    assert excess(limits, {}, {"cost": 1.5}) == Excess(what="cost", used=0, limit=1.0)
    assert excess(limits, {}, {"cost": 1}) is None
    assert excess(limits, {"tokens": 99}, {"seconds": 1}) is None


def test_four_bytes_are_a_token_and_what_is_left_is_one_too():
    assert [tokens_of(size) for size in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]
    assert DEFAULT_OUTPUT == 1_000
