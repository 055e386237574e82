"""When parts of a plan ran: time is not counted twice, and the path is what the end waited for."""

from datetime import UTC, datetime, timedelta

from gonogo.domain.base import elapsed
from gonogo.domain.plan import Subtask
from gonogo.domain.schedule import Span, actual_path, merged

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def span(since: float, until: float) -> Span:
    return Span(NOW + timedelta(seconds=since), NOW + timedelta(seconds=until))


def subtask(key: str, *after: str) -> Subtask:
    return Subtask(id=key, description=f"Do {key}", agent="coder", dependencies=after)


def test_times_that_overlap_are_counted_once():
    found = merged([span(5, 6), span(0, 2), span(1, 3), span(3, 4), span(9, 8)])

    assert found == [span(0, 4), span(5, 6)]
    assert sum(each.seconds for each in found) == 5
    assert merged([span(5, 5)]) == [span(5, 5)]
    assert merged([span(0, 9), span(1, 2)]) == [span(0, 9)]


def test_no_time_is_less_than_none_when_the_clock_was_set_back():
    assert elapsed(NOW, NOW + timedelta(seconds=1.5)) == 1.5
    assert elapsed(NOW, NOW - timedelta(seconds=1.5)) == span(2, 1).seconds == 0


DIAMOND = (subtask("a"), subtask("b", "a"), subtask("c", "a"), subtask("d", "b", "c"))


def test_the_path_goes_back_over_what_ended_last():
    ran = {"a": span(0, 1), "b": span(1, 9), "c": span(1, 3), "d": span(9, 10)}
    assert actual_path(DIAMOND, ran) == ("a", "b", "d")
    ran |= {"c": span(1, 12), "d": span(12, 13)}
    assert actual_path(DIAMOND, ran) == ("a", "c", "d")


def test_what_did_not_run_is_on_no_path():
    assert actual_path(DIAMOND, {"a": span(0, 1), "b": span(1, 2)}) == ("a", "b")
    assert actual_path(DIAMOND, {}) == ()
