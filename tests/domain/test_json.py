"""Strict JSON: what two readers could read in two ways is refused; all else is what it says."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.base import loads
from gonogo.domain.errors import InvalidMessage, TooLarge

plain_text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | plain_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(values, st.booleans())
def test_what_is_good_json_is_read_as_any_other_reader_would(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)

    assert loads(text) == value
    assert loads(text.encode()) == value


@given(st.text(max_size=60) | st.text('[]{}"\\,:1eE.-+ntfu', max_size=40))
def test_whatever_is_not_refused_means_the_same_to_an_ordinary_reader(text):
    try:
        value = loads(text)
    except (InvalidMessage, TooLarge):
        return
    assert value == json.loads(text)
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Not valid JSON"),
        ("{", "Not valid JSON"),
        ("{} {}", "Not valid JSON"),
        ("{'a': 1}", "Not valid JSON"),
        ("\ufeff{}", "Not valid JSON"),
        ('"' + "9" * 3, "Not valid JSON"),
        ("9" * 5000, "Not valid JSON"),
        ('{"a": 1, "a": 1}', "twice"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "twice"),
        ("NaN", "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("1e999", "1e999 is out of range"),
        ('{"a": [-1.5e400]}', "-1.5e400 is out of range"),
        ('"\\u0000"', "NUL"),
        ('{"\\u0000": 1}', "NUL"),
        ('["\\ud800"]', "surrogates"),
        ('{"a": {"\\udfff": 1}}', "surrogates"),
        ('"\ud83d"', "surrogates"),
        (b"\xff", "Not valid UTF-8; send UTF-8"),
        (b'"\xed\xa0\x80"', "Not valid UTF-8; send UTF-8"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(text, said):
    with pytest.raises(InvalidMessage, match=said):
        loads(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"a": 1, "a": 1}', "An object has the same key twice; keep one of them"),
        ("NaN", "NaN is not JSON"),
        ("1e999", "The number 1e999 is out of range; use a smaller one"),
        ("1" * 39 + ".5e999", "The number " + "1" * 39 + ". is out of range; use a smaller one"),
        ('["\\u0000"]', "Text must not contain NUL or lone surrogates; remove them"),
        (b"\xff", "Not valid UTF-8; send UTF-8"),
        ("[" * 33, "The message is nested more than 32 levels deep; make it flatter"),
        ("x" * 2_097_153, "The message has more than 2097152 bytes; shorten it"),
    ],
)
def test_what_is_refused_is_told_whole(text, said):
    with pytest.raises((InvalidMessage, TooLarge)) as refused:
        loads(text)
    assert str(refused.value) == said


def test_a_pair_of_surrogates_is_one_character():
    assert loads('"\\ud83d\\ude00"') == "😀"


def test_numbers_keep_their_kind():
    assert loads("[1, 1.0, 1e2, 12345678901234567890]") == [
        1,
        1.0,
        100.0,
        12345678901234567890,
    ]
    assert isinstance(loads("1"), int)
    assert isinstance(loads("1.0"), float)


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_nesting_ends_at_32(opens, closes):
    loads(opens * 32 + "1" + closes * 32)
    with pytest.raises(TooLarge, match="more than 32 levels deep"):
        loads(opens * 33 + "1" + closes * 33)
    with pytest.raises(TooLarge):
        loads(opens * 100_000)


def test_brackets_inside_of_texts_are_no_nesting():
    assert loads(json.dumps(["[" * 100, '{"' * 100, "\\" * 9 + '"['])) is not None


def test_a_message_has_at_most_two_mebibytes_however_it_is_written():
    limit = 2_097_152
    assert len(loads('"' + "a" * (limit - 2) + '"')) == limit - 2
    for text in ('"' + "a" * (limit - 1) + '"', '"' + "я" * (limit // 2) + '"'):
        with pytest.raises(TooLarge):
            loads(text)
        with pytest.raises(TooLarge):
            loads(text.encode())


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 900_000, '"' * 1_900_001, '"a' * 900_000, '["\\' * 600_000]
)
def test_a_hostile_text_is_refused_in_time_that_grows_with_its_length(text):
    used = time.thread_time()
    with pytest.raises((InvalidMessage, TooLarge)):
        loads(text)
    # Of CPU time, of which the slowest takes 0.2 s; by the square of its length it takes hours.
    assert time.thread_time() - used < 10
