"""A condition is judged by its words before anybody evaluates it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.conditions import MAX_CONDITION, gives_no_answer, never_true, read_condition
from gonogo.domain.errors import InvalidPlan


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('subtasks.build.status == "completed"', {"build"}),
        ("subtasks['my-id'].output.ok && subtasks.b.output.n > 0x1F", {"my-id", "b"}),
        ("has(subtasks.a.output.path) || true", {"a"}),
        ("size(subtasks . b // here\n .output) in [1, 2u, 1e3, .5]", {"b"}),
        ("subtasks.a.output.items.exists(i, i.n > 2 && i.subtasks.b)", {"a"}),
        ('subtasks.a.output.startsWith(r"\\d") ? true : null == false', {"a"}),
        ("subtasks.a.text.matches('''it's''') || b\"x\" == b'\\'y'", {"a"}),
        ('{"k": subtasks.a}.k == """ " """', {"a"}),
    ],
)  # fmt: skip
def test_the_subtasks_that_a_condition_names_are_known(text, named):
    found = read_condition(text)

    assert (found.named, found.looks_at_all) == (named, False)


@pytest.mark.parametrize(
    "text",
    ["size(subtasks) > 1", "subtasks.exists(k, k == 'a')", "subtasks[0]", "subtasks['a' + 'b'].x",
     r"subtasks['\x41'].x", "subtasks", "subtasks."],
)  # fmt: skip
def test_a_condition_may_look_at_all_subtasks(text):
    found = read_condition(text)

    assert (found.named, found.looks_at_all) == (frozenset(), True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" // nothing", "empty"),
        ("x" * (MAX_CONDITION + 1), "longer"),
        ("a & b", "not understood"),
        ("'open", "not understood"),
        ("subtasks.a `b`", "not understood"),
        ("x > 1", "no variable 'x'"),
        ("subtasks.my-id.status == 'x'", "hyphen"),
        ("open('x')", "no function 'open'"),
        ("subtasks.a.map2(x, x)", "no function 'map2'"),
        ("subtasks.a.has(x)", "no function 'has'"),
        ("all(subtasks, x)", "no function 'all'"),
        ("math.abs(1)", "no variable 'math'"),
        ("subtasks.a.all(x)", "needs a name"),
        ("subtasks.a.all(", "needs a name"),
        ("subtasks.a.all(i, v, v > 0)", "takes one name"),
        ("subtasks.a.all(subtasks, true)", "is taken"),
        (".subtasks.a", "a dot follows"),
        ("1 == .subtasks.a", "a dot follows"),
        ("subtasks.a.cel.bind(x, 1, x)", "no function 'bind'"),
    ],
)
def test_what_there_is_not_is_refused(text, problem):
    with pytest.raises(InvalidPlan, match=problem):
        read_condition(text)


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("false", True),
        ("subtasks.a.output.ok && false", True),
        ('subtasks.a.status == "failed"', True),
        ('subtasks["a"].status == "cancelled" && subtasks.b.output.x', True),
        ('subtasks.a.status == "completed"', False),
        ('subtasks.a.status == "skipped"', False),
        ('subtasks.a.status != "failed"', False),
        ('subtasks.a.output.status == "failed"', False),
        ('subtasks.a.output == "failed"', False),
        ('subtasks.a.status == "failed" || true', False),
        ('!(subtasks.a.status == "failed")', False),
        ("true", False),
        ('"failed" == subtasks.a.status', False),
        ("subtasks.a.n - 1 == 2", False),
    ],
)
def test_what_can_never_hold_is_seen(text, never):
    assert never_true(read_condition(text)) is never


@pytest.mark.parametrize("text", ["))", "?"])
def test_what_is_no_expression_is_not_said_to_give_no_answer(text):
    assert gives_no_answer(read_condition(text)) is False


@pytest.mark.parametrize(
    ("text", "given"),
    [("size(subtasks.a.output)", True), ("!size(subtasks.a.output)", False),
     ("-size(subtasks.a.output)", True), ("!subtasks.a.output.ok", False)],
)  # fmt: skip
def test_what_is_negated_is_left_to_the_evaluation(text, given):
    assert gives_no_answer(read_condition(text)) is given


@given(st.text(alphabet="subtak.[](),'\"\\/ \nrx+=&|?:{}0-9", max_size=60))
def test_any_text_is_read_or_refused(text):
    with suppress(InvalidPlan):
        condition = read_condition(text)
        assert never_true(condition) in (True, False)
        assert gives_no_answer(condition) in (True, False)
