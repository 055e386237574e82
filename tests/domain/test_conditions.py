"""A condition is judged by its words before anybody evaluates it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.conditions import gives_no_answer, never_true, read_condition
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
        ("", "it is empty; write an expression, or leave the field out"),
        (" // nothing", "empty"),
        ("x" * 2_001, "longer"),
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
        (".subtasks.a", "a dot can stand only after"),
        ("1 == .subtasks.a", "a dot can stand only after"),
        ("subtasks.a.cel.bind(x, 1, x)", "no function 'bind'"),
    ],
)
def test_what_there_is_not_is_refused(text, problem):
    with pytest.raises(InvalidPlan, match=problem):
        read_condition(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty; write an expression, or leave the field out"),
        ("x" * 2_001, "longer than 2000 characters; shorten it"),
        ("1 == `b` and more than that", "'`b` and more' is not understood; correct the expression"),
        ("open('x')", "there is no function 'open'; correct the expression"),
        ("x > 1", "there is no variable 'x'; a subtask is subtasks.ID, and subtasks[\"ID\"]"
         " when its id has a hyphen"),
        ("subtasks.a.all(x)", "all needs a name and an expression"),
        ("subtasks.a.map(i, v, v)", "map takes one name and one expression"),
        ("subtasks.a.all(subtasks, true)", (
            "the name 'subtasks' is taken; choose another name for the element"
        )),
        ("1 == .subtasks.a", "a dot can stand only after a name or a bracket"),
    ],
)  # fmt: skip
def test_a_condition_that_is_refused_is_told_whole_what_is_wrong(text, problem):
    with pytest.raises(InvalidPlan) as refused:
        read_condition(text)
    assert str(refused.value) == f"condition: {problem}"


def test_a_condition_may_be_as_long_as_that():
    assert read_condition("true" + " " * 1_996).tokens[0].text == "true"


MACROS = ("all", "exists", "exists_one", "filter", "map")
METHODS = ("contains", "endsWith", "matches", "size", "startsWith")
FUNCTIONS = ("double", "duration", "has", "int", "size", "string", "timestamp", "uint")


@pytest.mark.parametrize(
    "text",
    [
        *(f"subtasks.a.output.x.{name}(i, i)" for name in MACROS),
        *(f"subtasks.a.output.x.{name}('x')" for name in METHODS),
        *(f"{name}(subtasks.a.output.x)" for name in FUNCTIONS),
    ],
)
def test_each_function_that_there_is_may_be_called(text):
    assert read_condition(text).named == {"a"}


@pytest.mark.parametrize(
    "text",
    [
        "1", "'x'", "null", "[true]", "{'a': 1}", "(1)", "((1 + 1))", "1 + 1", "1 - 1", "2 * 2",
        "4 / 2", "5 % 2", "(1) - 1", "-1", "- subtasks.a.output.n", "subtasks", "subtasks.a",
        "subtasks.a.status", "subtasks['a-b']", 'subtasks["a"].status', "size(subtasks)",
        "int('1')", "string(1)", "subtasks.a.output.map(i, i)", "subtasks.a.output.filter(i, i)",
        "1 || 'x'", "'a' && 1", "true ? 1 : 'x'", "true ? (false ? 1 : 2) : 3",
        "true ? false ? 1 : 2 : 3", "subtasks.a.output.n + 1", "'a' + 'b'", "[1] + [2]",
    ],
)  # fmt: skip
def test_what_is_neither_true_nor_false_is_seen(text):
    assert gives_no_answer(read_condition(text))


@pytest.mark.parametrize(
    "text",
    [
        "true", "!true", "(true)", "(1 < 2)", "1 < 2", "1 <= 2", "1 > 2", "1 >= 2", "1 == 2",
        "1 != 2", "1 in [1]", "1 == -1", "1 || true", "true || 1", "true && -1", "true ? 1 : true",
        "true ? true : 1", "[1][0]", "{'a': true}.a", "subtasks.a.output.ok",
        "subtasks.a.output.items[0]", "has(subtasks.a.output.x)", "'ab'.contains('b')",
        "'ab'.startsWith('a')", "'ab'.endsWith('b')", "'ab'.matches('b')",
        "subtasks.a.output.all(i, i)", "subtasks.a.output.exists(i, i)",
        "subtasks.a.output.exists_one(i, i)", "1 + 1 == 2", "subtasks.a.output.ok && -1 < 2",
        "size(subtasks) > 1 ? true : false", "!(1 + 1)",
    ],
)  # fmt: skip
def test_what_may_be_true_or_false_is_left_to_the_evaluation(text):
    assert not gives_no_answer(read_condition(text))


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("true ? true : true && false", False),
        ("true || true && false", False),
        ("size(subtasks) > 1 && false", False),
        ("{} == {} && false", False),
        ("subtasks.a.output.ok && true && false", True),
        ('subtasks.a.output.ok && subtasks.b.status == "failed"', True),
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
