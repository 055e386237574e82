"""What models and tools write is shown without its power over the terminal or the eye."""

import pytest

from gonogo.cli._escape import one_line, visible


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain text", "plain text"),
        ("две строки\n\tотступ", "две строки\n\tотступ"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("rm \u202egpj.txt", "rm \\u202egpj.txt"),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("line\u2028separator", "line\\u2028separator"),
        ("lone\ud800", "lone\\ud800"),
        ("blank\u3164letter", "blank\\u3164letter"),
        ("back\x08space", "back\\x08space"),
        ("over\rwrite", "over\\x0dwrite"),
        ("windows\r\nline", "windows\nline"),
        ("soft\u00adhyphen", "soft\\xadhyphen"),
        ("日本語 и emoji 🙂", "日本語 и emoji 🙂"),
    ],
)
def test_what_could_deceive_is_shown_as_an_escape(written, shown):
    assert visible(written) == shown


def test_one_line_has_no_breaks_and_a_bounded_length():
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"
    assert visible("a\nb", lines=False) == "a\\x0ab"
