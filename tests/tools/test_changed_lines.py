"""How many lines an edit adds and removes, as its difference shows them."""

import pytest

from gonogo.tools import changed_lines, file_difference


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        (b"a\nb\n", b"a\nc\nd\n", (2, 1)),
        (None, b"x\ny\n", (2, 0)),
        (b"x\ny\n", None, (0, 2)),
        # Lines that look like the names of files are lines.
        (b"-- a\n++ b\nc\n", b"c\n", (0, 2)),
        (b"c\n", b"-- a\n++ b\nc\n", (2, 0)),
        (b"-- a\n", b"++ b\n", (1, 1)),
        (b"no end", b"no end\n", (1, 1)),
        (b"a\n", b"a\n", (None, None)),
        (b"\x00\x01", b"text\n", (None, None)),
    ],
)
def test_lines_are_counted_as_the_difference_shows_them(before, after, counted):
    assert changed_lines(file_difference("a.txt", before, after)) == counted


def test_several_files_count_together_and_what_is_no_difference_counts_nothing():
    diffs = file_difference("a", b"a\n", b"b\n") + file_difference("b", None, b"c\n")
    assert changed_lines(diffs) == (2, 1)
    assert changed_lines("new folder docs") == (None, None)
