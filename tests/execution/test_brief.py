"""What a subtask is told of the results before it: all in one shape, and each of bounded length."""

import pytest

from gonogo.execution.plans.brief import cut, shaped


def test_a_long_result_is_cut_and_says_how_much_is_left_out():
    assert cut("x" * 10, 10, "en") == "x" * 10
    assert cut("x" * 17, 10, "en") == "x" * 10 + "… (7 more characters)"
    assert cut("x" * 17, 10, "ru") == "x" * 10 + "… (ещё символов: 7)"
    assert cut({"a": 1}, 4, "en") == '{"a"… (4 more characters)'


@pytest.mark.parametrize("result", [None, "text", ["a"], {"answer": 42}])
def test_a_result_of_any_other_shape_is_the_output_and_has_no_metadata(result):
    assert shaped(result, "completed") == {"status": "completed", "output": result, "metadata": {}}


def test_a_result_that_has_the_shape_keeps_what_it_says_but_not_its_status():
    given = {"output": "done", "metadata": {"files": 1}, "status": "failed"}
    assert shaped(given, "completed") == {**given, "status": "completed"}
    assert shaped({"output": 1}, "skipped") == {"output": 1, "metadata": {}, "status": "skipped"}
