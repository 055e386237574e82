"""What is counted is compared with what was counted last, and fails where it grew."""

import pytest
from bench._counts import told


@pytest.mark.parametrize(
    ("name", "before", "now", "grown"),
    [
        ("statements", 259, 259, False),
        ("statements", 259, 260, True),
        ("transactions", 22, 21, False),
        ("fsyncs of files", 0, 1, True),
        ("reads", 15, 18, False),
        ("statements of reads", 46, 50, True),
        ("database bytes", 71_600, 73_000, False),
        ("database bytes", 71_600, 74_000, True),
    ],
)
def test_a_count_may_not_grow_but_where_reads_and_bytes_differ_each_time(
    name: str, before: int, now: int, grown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told({name: before}, {name: now}) is grown
    assert ("has grown" in capsys.readouterr().out) is grown
