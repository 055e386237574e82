"""Comments: what may be said, and what counts as an answer to all of them."""

import pytest

from gonogo.domain.errors import InvalidMessage, InvalidPlan
from gonogo.domain.reviews import checked_content, read_answers


def answer(key, said="So."):
    return {"comment_id": key, "answer": said}


def test_a_comment_is_kept_without_the_blanks_around_it():
    assert checked_content(" Why?\n") == "Why?"
    assert len(checked_content("x" * 4_000)) == 4_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty; write a text"), (" \n\t", "it is empty; write a text"),
        ("x" * 4_001, "at most 4000 characters, not 4001; shorten it"),
    ],
)  # fmt: skip
def test_a_comment_says_something_and_not_too_much(content, said):
    with pytest.raises(InvalidMessage) as refused:
        checked_content(content)
    assert str(refused.value) == f"content: {said}"


def test_every_comment_has_its_answer_in_any_order():
    assert read_answers([answer("b", " B "), answer("a")], ["a", "b"]) == {"a": "So.", "b": "B"}
    assert read_answers(None, []) == {}


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (None, "comments without an answer: a, b; each needs {comment_id, answer}"),
        ([], "comments without an answer: a, b; each needs {comment_id, answer}"),
        ([answer("b")], "comments without an answer: a; each needs {comment_id, answer}"),
        ([answer("a"), answer("a"), answer("b")], "comment a is answered twice; keep one answer"),
        ([answer("c")], "there is no comment 'c' to answer; those there are: a, b"),
        ([answer(["a"])], "each one is an object {comment_id, answer}"),
        ([{"answer": "So."}], "each one is an object {comment_id, answer}"),
        ([answer("a", "  ")], "the answer to comment a is empty; write one"),
        ([answer("a", None)], "the answer to comment a is empty; write one"),
        ([answer("a", {"x": 1})], "the answer to comment a is empty; write one"),
        (
            [answer("a", "x" * 4_001)],
            ("the answer to comment a has more than 4000 characters; shorten it"),
        ),
        (["a"], "each one is an object {comment_id, answer}"),
        ({"a": "So."}, "a list of {comment_id, answer} is needed"),
    ],
)
def test_what_is_no_answer_to_all_of_them_is_refused_and_says_why(raw, problem):
    with pytest.raises(InvalidPlan) as refused:
        read_answers(raw, ["a", "b"])
    assert str(refused.value) == f"answers: {problem}"


def test_an_answer_may_be_as_long_as_that_and_needs_something_to_answer():
    assert read_answers([answer("a", "x" * 4_000)], ["a"]) == {"a": "x" * 4_000}
    with pytest.raises(InvalidPlan) as refused:
        read_answers([answer("a")], [])
    assert str(refused.value) == "answers: there is no comment 'a' to answer"
