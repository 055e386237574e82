"""Comments: what may be said, and what counts as an answer to all of them."""

import pytest

from gonogo.domain.errors import InvalidMessage, InvalidPlan
from gonogo.domain.reviews import checked_content, read_answers


def answer(key, said="So."):
    return {"comment_id": key, "answer": said}


def test_a_comment_is_kept_without_the_blanks_around_it():
    assert checked_content(" Why?\n") == "Why?"
    assert len(checked_content("x" * 4_000)) == 4_000


@pytest.mark.parametrize("content", ["", " \n\t", "x" * 4_001])
def test_a_comment_says_something_and_not_too_much(content):
    with pytest.raises(InvalidMessage):
        checked_content(content)


def test_every_comment_has_its_answer_in_any_order():
    assert read_answers([answer("b", " B "), answer("a")], ["a", "b"]) == {"a": "So.", "b": "B"}
    assert read_answers(None, []) == {}


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (None, "without an answer: a, b"),
        ([], "without an answer: a, b"),
        ([answer("b")], "without an answer: a;"),
        ([answer("a"), answer("a"), answer("b")], "a is answered twice"),
        ([answer("c")], "no comment 'c' to answer; those there are: a, b"),
        ([answer(["a"])], "no comment"),
        ([{"answer": "So."}], "no comment None"),
        ([answer("a", "  ")], "comment a is empty"),
        ([answer("a", None)], "comment a is empty"),
        ([answer("a", {"x": 1})], "comment a is empty"),
        ([answer("a", "x" * 4_001)], "over 4000 characters"),
        (["a"], r"^answers: each one is an object \{comment_id, answer\}$"),
        ({"a": "So."}, r"^answers: a list of \{comment_id, answer\} is needed$"),
    ],
)
def test_what_is_no_answer_to_all_of_them_is_refused_and_says_why(raw, problem):
    with pytest.raises(InvalidPlan, match=problem):
        read_answers(raw, ["a", "b"])
