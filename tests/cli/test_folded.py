"""Lines at a terminal are broken between words, wherever they come from."""

import pytest
from rich.cells import cell_len
from rich.text import Text

from gonogo.cli.terminal.output import folded, laid_out

TEXT = "     allowed: files anywhere in the workspace; commands python3 -m unittest; all tools"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_word_is_broken_and_nothing_is_lost(width):
    lines = folded(TEXT, width)
    assert max(map(cell_len, lines)) <= width
    assert " ".join(" ".join(lines).split()) == TEXT.strip()
    assert [line[:5] for line in lines] == ["     "] * len(lines)


def test_a_word_that_has_no_room_is_broken_where_it_must_be():
    assert folded("/a/very/long/path to it", 10) == ["/a/very/lo", "ng/path to", "it"]
    assert folded("  " + "x" * 9, 6) == ["  xxxx", "  xxxx", "  x"]


def test_wide_letters_count_for_two_and_lines_that_fit_stay_as_they_are():
    assert folded("日本語 日本語", 8) == ["日本語", "日本語"]
    assert folded("a\n\n  b \n", 4) == ["a", "", "  b ", ""]
    assert folded("  b ", 3) == ["  b"]
    assert folded("four word", 4) == ["four", "word"]


def test_a_text_keeps_its_style_and_one_of_several_styles_is_left_alone():
    shown = laid_out(Text("one two", style="red"), 4)
    assert (shown.plain, shown.style) == ("one\ntwo", "red")
    several = Text("one ").append("two", style="red")
    assert laid_out(several, 4) is several
    fits = Text("one two")
    assert laid_out(fits, 7) is fits


def test_a_line_of_any_length_is_broken_in_the_time_that_it_takes_to_read_it():
    for sign in ("x", "\u65e5", "ab "):
        assert "".join(folded(sign * 100_000, 80)).replace(" ", "") == (sign * 100_000).replace(
            " ", ""
        )
