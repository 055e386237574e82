"""Percentiles and rates say something true of what there is, and nothing of what there is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.plan import Subtask, worker_name
from gonogo.domain.plan_views import percentile, percentiles, rate

SECONDS = st.lists(st.floats(0, 1e7), min_size=1, max_size=200)


@given(SECONDS, st.floats(0, 1))
def test_a_percentile_is_a_value_that_the_given_part_does_not_exceed(values, part):
    ordered = sorted(values)
    found = percentile(ordered, part)

    assert found in values
    assert sum(value <= found for value in values) >= part * len(values)
    assert sum(value < found for value in values) < max(part * len(values), 1)


@given(SECONDS)
def test_percentiles_grow_and_count_everything(values):
    found = percentiles(values)

    assert found is not None
    assert found.count == len(values)
    assert found.p50 <= found.p90 <= found.p99 <= round(max(values), 3)


def test_percentiles_of_a_hundred_are_those_that_one_expects():
    found = percentiles(range(1, 101))

    assert found is not None
    assert (found.p50, found.p90, found.p99) == (50, 90, 99)


def test_of_nothing_there_is_no_percentile_and_no_rate():
    assert percentiles([]) is None
    assert rate(0, 0) is None
    assert rate(2, 3) == 0.6667


@pytest.mark.parametrize(
    ("fields", "worker"),
    [
        ({"agent": "coder"}, "coder"),
        ({"tool": "write_file"}, "tool:write_file"),
        ({"type": "validation", "inputs": {"command": "pytest"}}, "tool:execute_command"),
        ({"type": "validation", "inputs": {"file": "a.txt"}}, "tool:read_file"),
        ({"type": "validation"}, "model"),
        ({"type": "decision"}, "model"),
        ({"type": "wait"}, "kind:wait"),
    ],
)
def test_who_carries_a_subtask_out_is_counted_by_what_they_are(fields, worker):
    assert worker_name(Subtask(id="a", description="Do it", **fields)) == worker
