"""What strangers write is shown without its power over the terminal or the eye, and no more."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.text_safety import guarded, mark_blanks, on_one_line, visible, visible_json

DECEPTIVE = (
    "\x00\x1b\x7f\x9b\r\x85\xa0\xad\u034f\u115f\u1160\u17b4\u180b\u180e\u200b\u200d\u200e\u2028"
    "\u202e\u2028\u2066\u2800\u3000\u3164\ufe0f\ufeff\uffa0\ufff9\ufffc\ue000\ud800\udfff\u0378"
    "\U00013441\U0001d159\U000e0041\U000e0100\U000e01ef\U000f0000\U0010ffff"
)
HEX = re.compile(r"(\\+)(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
letters = st.one_of(
    st.sampled_from(DECEPTIVE),
    st.sampled_from("\\xuU0123456789abcdefABCDEF\n\t n"),
    st.characters(),
    st.characters(categories=["Cs", "Co", "Cn", "Cf", "Cc", "Zs", "Zl", "Zp", "Mn"]),
)
texts = st.lists(letters, max_size=40).map("".join)


def read(shown: str) -> str:
    """The text that was made visible, as a person reads it back."""

    def real(found: re.Match[str]) -> str:
        run = len(found[1])
        if run % 2 == 0:
            return "\\" * (run // 2) + found[0][run:]
        return "\\" * (run // 2) + chr(int(found[2] or found[3] or found[4], 16))

    return HEX.sub(real, shown)


@given(texts, st.booleans())
def test_what_is_shown_has_only_printable_characters_that_are_drawn(text, lines):
    for shown in (visible(text, lines=lines), guarded(text, lines=lines)):
        rest = shown.replace("\n", "").replace("\t", "") if lines else shown
        assert rest.isprintable()
        assert not set(rest) & set(DECEPTIVE)
        assert {unicodedata.category(c) for c in rest if c != " "}.isdisjoint(
            {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
        )


@given(texts, st.booleans())
def test_what_is_shown_can_be_read_back_so_that_no_two_texts_look_the_same(text, lines):
    assert read(visible(text, lines=lines)) == text


@given(texts, st.booleans())
def test_what_is_visible_passes_the_guard_as_it_is(text, lines):
    shown = visible(text, lines=lines)

    assert guarded(shown, lines=lines) == shown
    assert guarded(guarded(text, lines=lines), lines=lines) == guarded(text, lines=lines)


@given(st.dictionaries(texts, texts, max_size=3), st.sampled_from([None, 2]))
def test_json_stays_the_same_value_and_deceives_nobody(value, indent):
    shown = visible_json(value, indent=indent)

    assert json.loads(shown) == json.loads(json.dumps(value))
    assert shown.replace("\n", "").isprintable()
    assert not set(shown) & set(DECEPTIVE)


@pytest.mark.parametrize("character", sorted(set(DECEPTIVE)), ids=ascii)
def test_every_deceptive_character_is_shown_as_an_escape(character):
    assert visible(f"a{character}b").isprintable()
    assert character not in visible(f"a{character}b")


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
        ("selected\ufe0f", "selected\\ufe0f"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("line\u2028separator", "line\\u2028separator"),
        ("lone\ud800", "lone\\ud800"),
        ("blank\u3164letter", "blank\\u3164letter"),
        ("no\xa0break", "no\\xa0break"),
        ("back\x08space", "back\\x08space"),
        ("over\rwrite", "over\\x0dwrite"),
        ("windows\r\nline", "windows\\x0d\nline"),
        ("soft\u00adhyphen", "soft\\xadhyphen"),
        ("日本語 и emoji 🙂", "日本語 и emoji 🙂"),
        ("XYZxyz я", "XYZxyz я"),
        ("\ufe00\ufe0e\ufe10", "\\ufe00\\ufe0e\ufe10"),
        ("C:\\temp \\d+\\n", "C:\\temp \\d+\\n"),
        ("an escape that is written: \\x1b", "an escape that is written: \\\\x1b"),
        ("\\u202E and \\\\U0001F600", "\\\\u202E and \\\\\\\\U0001F600"),
        ("a backslash before it: \\\x1b", "a backslash before it: \\\\\\x1b"),
    ],
)
def test_what_could_deceive_is_shown_as_an_escape_and_a_written_escape_otherwise(written, shown):
    assert visible(written) == shown


def test_text_of_one_line_has_its_breaks_and_tabs_escaped():
    assert visible("a\nb\t", lines=False) == "a\\x0ab\\x09"
    assert guarded("a\nb\\x09\t", lines=False) == "a\\x0ab\\x09\\x09"


def test_json_uses_its_own_escapes():
    assert visible_json("\u202e\U000e0041\\u202e") == '"\\u202e\\udb40\\udc41\\\\u202e"'


def test_blanks_that_would_hide_what_comes_after_them_are_counted_and_not_drawn():
    assert mark_blanks(f"echo ok{' ' * 6_000}; touch x") == "echo ok␣×6000; touch x"
    assert mark_blanks(f"a{' ' * 41}b {chr(9) * 41}c") == "a␣×41b␣×42c"
    assert mark_blanks("echo ok\n" + "\n" * 6_000 + "touch x") == "echo ok\n⏎×6000\ntouch x"
    assert mark_blanks("+a\n" + "+  \n" * 8 + "+b\n") == "+a\n+⏎×8\n+b\n"


@pytest.mark.parametrize(
    "text",
    [f"def f():\n{' ' * 40}return 1\n", "a\n\n\n\n\n\n\n\nb", "+a\n+\n+\n+\n-\n-\n-\n-\n b\n"],
)
def test_blanks_as_people_write_them_stay(text):
    assert mark_blanks(text) == text


def test_a_text_on_one_line_shows_where_its_lines_ended():
    assert on_one_line("echo ok\n\r\n  touch\tx\n") == "echo ok ⏎ touch x"
    assert on_one_line("a\x0bb\u2028c\x1b") == "a\\x0bb\\u2028c\\x1b"


@given(texts)
def test_counting_blanks_takes_nothing_away_that_is_seen(text):
    shown = visible(text)

    assert mark_blanks(shown).split() == shown.split()
