"""Text that is shown is text that can be stored, and nothing is shown twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gonogo.llm.model import CUT_OFF, clean, clean_json, read_arguments
from gonogo.llm.provider import Relay, joined


def relayed(*attempts):
    shown = []
    relay = Relay(shown.append)
    for pieces in attempts:
        relay.restart()
        for piece in pieces:
            relay.feed(piece)
    relay.finish()
    return "".join(shown)


@given(some.text())
def test_clean_text_can_be_encoded_and_holds_no_nul(text):
    assert b"\x00" not in clean(text).encode()


@given(some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_storable_text_is_left_alone(text):
    assert clean(text) == text


@given(some.lists(some.text()))
def test_pieces_give_the_same_as_the_whole(pieces):
    assert relayed(pieces) == clean("".join(pieces))


@given(some.text(some.characters(exclude_categories=["Cs"])), some.integers(0, 20))
def test_a_second_attempt_shows_only_what_is_new(text, shown):
    assert relayed([text[:shown]], [text]) == clean(text)


def test_text_parts_are_kept_apart():
    shown = []
    relay = Relay(shown.append)
    relay.part()
    relay.feed("one")
    relay.part()
    relay.feed("two")
    relay.finish()
    assert "".join(shown) == "one\n\ntwo"


def test_keys_and_values_are_cleaned():
    assert clean_json({"a\x00": ["\ud800", 1, None]}) == {"a\ufffd": ["\ufffd", 1, None]}


def test_an_empty_part_adds_nothing():
    shown = []
    relay = Relay(shown.append)
    for text in ("", "one", "", "two", ""):
        relay.part()
        relay.feed(text)
    assert "".join(shown) == joined(["", "one", "", "two", ""]) == "one\n\ntwo"


LATE = "The reply reached the output limit before the arguments were complete"
RANGE = "Arguments: a number is out of range"


@pytest.mark.parametrize(
    ("written", "cut_off", "read"),
    [
        (None, False, ({}, None)), ("", False, ({}, None)), (" \n", False, ({}, None)),
        ({}, False, ({}, None)), (None, True, (None, LATE)), (" ", True, (None, LATE)),
        ({}, True, (None, LATE)), ({"a": 1}, True, (None, LATE)),
        ({"a": 1}, False, ({"a": 1}, None)),
        ('{"a": 1}', True, ({"a": 1}, None)), ('{"a": 1}', False, ({"a": 1}, None)),
        ('{"a": 1, "a": 1}', False, (None, (
            "Arguments: An object has the same key twice; keep one of them"
        ))),
        ('{"a": 1, "a": 1}', True, (None, LATE)), ('{"a": 1e999}', False,
         (None, "Arguments: The number 1e999 is out of range; use a smaller one")),
        ({"a": float("inf")}, False, (None, RANGE)),
        ("[1]", False, (None, "Arguments must be a JSON object, not list")),
        ("7", False, (None, "Arguments must be a JSON object, not int")),
        ("null", False, (None, "Arguments must be a JSON object, not NoneType")),
        ("[" * 33 + "]" * 33, False, (None, (
            "Arguments: The message is nested more than 32 levels deep; make it flatter"
        ))),
    ],
)  # fmt: skip
def test_arguments_are_read_or_what_is_wrong_with_them_is_told_whole(written, cut_off, read):
    assert read_arguments(written, cut_off=cut_off) == read
    assert CUT_OFF == LATE
    assert cut_off or read_arguments(written) == read
