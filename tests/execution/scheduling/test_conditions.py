"""Conditions hold or do not, or fail with a reason; none takes long."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gonogo.domain.conditions import gives_no_answer, read_condition
from gonogo.domain.errors import InvalidPlan
from gonogo.domain.failures import classify
from gonogo.execution.scheduling import check_condition
from gonogo.execution.scheduling.conditions import ConditionFailed, _cost, _said, _Size, holds
from plugins.nightly import examples

RESULTS = {
    "build": {
        "status": "completed",
        "output": {
            "path": "dist/a.whl", "n": 3, "rate": 0.5, "ok": True, "none": None,
            "items": [{"name": "a", "bad": False}, {"name": "b", "bad": True}],
        },
        "result": "it's done",
    },
    "my-id": {"status": "skipped", "output": None},
}  # fmt: skip


@pytest.mark.feature(115)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('subtasks.build.status == "completed"', True),
        ("subtasks.build.output.n > 3", False),
        ("subtasks.build.output.n + 1 == 4 && subtasks.build.output.rate < 1.0", True),
        ('subtasks["my-id"].status != "completed"', True),
        ("has(subtasks.build.output.url) ? false : true", True),
        ('subtasks.build.output.path.endsWith(".whl")', True),
        ("subtasks.build.output.items.exists(i, i.bad)", True),
        ("subtasks.build.output.items.all(i, i.bad)", False),
        ('subtasks.build.output.items.filter(i, i.bad).map(i, i.name) == ["b"]', True),
        ('subtasks.build.result.matches("^it.s d[a-z]+$")', True),
        ("subtasks.build.output.none == null", True),
        ("subtasks.build.output.ok", True),
        ("size(subtasks) == 2", True),
        ('"my-id" in subtasks', True),
        ("subtasks.all(name, has(subtasks[name].status))", True),
        ("true", True),
        ('int("3") == size("abc") && double("0.5") < 1.0 && uint(3) == 3u', True),
        ("string(subtasks.build.output.n) == '3'", True),
        ('timestamp("2026-01-02T00:00:00Z") > timestamp("2026-01-01T00:00:00Z")', True),
        ('duration("90s") < duration("1m")', False),
    ],
)  # fmt: skip
def test_a_condition_is_about_the_results_before_it(text, expected):
    check_condition(text)

    assert holds(text, RESULTS) is expected


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "subtasks.a.", "(" * 900 + "1" + ")" * 900, "has(subtasks)", "x > 1", "open('a')",
     "'\\ud800' == ''", "subtasks.a b"],
)  # fmt: skip
def test_a_condition_that_cannot_be_read_is_refused(text):
    with pytest.raises(InvalidPlan, match="condition: "):
        check_condition(text)
    with pytest.raises(InvalidPlan):
        holds(text, RESULTS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("subtasks.nobody.status == 'x'", "'nobody' has no result"),
        ("subtasks.build.output.url == 'x'", "there is no url"),
        ("subtasks['a' + 'b'].status == 'x'", "there is no ab"),
        ("subtasks.build.output.items[7].bad", "out of bounds"),
        ("subtasks.build.output.n > 'a'", "No such overload"),
        ("subtasks.build.output.n / 0 == 1", "division by zero"),
        ("subtasks.build.output.n + 9223372036854775807 > 0", "overflow"),
        ("int(subtasks.build.output.path) == 1", "int"),
        ("subtasks.build.output.path.matches('(')", "regex"),
        ("subtasks.build.output.n", "gives int, not true or false"),
        ("subtasks.build.output.path", "gives str"),
        ("subtasks.build.output.none", "gives NoneType"),
        ("subtasks.build.output.none.x", "condition: "),
    ],
)
def test_a_condition_without_an_answer_fails_and_says_why(text, problem):
    with pytest.raises(ConditionFailed, match=problem) as failed:
        holds(text, RESULTS)

    assert classify(failed.value).severity == "high"
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("value", ["\ud800", object(), {object(): 2}])
def test_a_result_that_is_no_json_fails_too(value):
    with pytest.raises(ConditionFailed):
        holds("subtasks.a.output == 1", {"a": {"output": value}})


@pytest.mark.parametrize(
    "text",
    [
        "subtasks.a.output.all(x, subtasks.a.output.all(y, subtasks.a.output.all(z, true)))",
        "subtasks.a.output.map(x, x).map(x, x).map(x, x).size() > 0",
        'subtasks.a.output.all(x, "a".matches("\\\\w{99}"))',
        "subtasks.a.output.map(x, [x, x, x, x, x, x, x, x]).map(x, [x, x, x, x, x]).size() > 0",
        '["aa"]' + ".map(a, a + a)" * 100 + ".size() > 0",
        "subtasks.a.output.all(x, " * 3 + "true" + ")" * 3,
    ],
)
def test_a_condition_that_would_take_long_is_not_begun(text):
    with pytest.raises(ConditionFailed, match="too many values") as failed:
        holds(text, {"a": {"status": "completed", "output": list(range(3_000))}})

    assert classify(failed.value).category == "resource"


def test_what_is_usual_is_not_too_long():
    items = [{"name": f"item {n}", "severity": "low", "tags": ["a", "b"]} for n in range(2_000)]
    results = {"scan": {"status": "completed", "output": {"items": items, "text": "x" * 200_000}}}

    assert not holds('subtasks.scan.output.items.exists(i, i.severity == "high")', results)
    assert holds("subtasks.scan.output.text.size() > 10 || subtasks.scan.output.n > 1", results)
    few = {"scan": {"status": "completed", "output": {"items": items[:100]}}}
    assert holds("subtasks.scan.output.items.filter(i, i.severity == 'low').size() == 100", few)


@pytest.mark.parametrize("deep", [True, False])
def test_results_that_are_too_large_or_too_deep_are_not_looked_at(deep):
    value = "x" * 2_000_001
    for _ in range(100 if deep else 0):
        value = ["x"] if value == "x" * 2_000_001 else [value]
    with pytest.raises(ConditionFailed, match="too large"):
        holds("subtasks.a.output == 1", {"a": {"output": value}})


def test_results_that_a_condition_does_not_name_cost_nothing():
    results = {"a": {"output": 1}, "b": {"output": "x" * 3_000_000}}

    assert holds("subtasks.a.output == 1", results)


ATOMS = """subtasks subtasks.a subtasks.a.o.n subtasks.a.o.l subtasks.a.t 1 -1 2.5 1u null true "a"
    [] {} timestamp("2020-01-01T00:00:00Z") duration("1h") x""".split()
BINARY = st.sampled_from([" + ", " == ", " / ", " && ", " in ", " < "])
UNARY = st.sampled_from(["size(", "int(", "string(", "has(", "!(", "-(", "double("])
AFTER = st.sampled_from([".map(x, ", ".all(x, ", ".filter(x, ", ".matches("])
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(st.just("("), inner, BINARY, inner, st.just(")")),
        st.tuples(UNARY, inner, st.just(")")),
        st.tuples(inner, AFTER, inner, st.just(")")),
        st.tuples(inner, st.just("["), inner, st.just("]")),
    ).map("".join),
    max_leaves=8,
)


@settings(max_examples=examples(100, nightly=300), deadline=None)
@given(EXPRESSIONS)
def test_every_expression_has_an_answer_or_a_reason(text):
    results = {"a": {"status": "completed", "o": {"n": 3, "l": [1, "a", None]}, "t": "é"}}
    outcomes = Counter()
    try:
        outcomes[holds(text, results)] += 1
    except (InvalidPlan, ConditionFailed) as problem:
        outcomes[str(problem).startswith("condition: ")] += 1

    assert outcomes[True] + outcomes[False] == 1


@pytest.mark.parametrize(
    "text",
    [
        "1 + 1", '"x"', "'a' + 'b'", "null", "[true]", '{"k": true}', "-1", "(2)", "size('ab')",
        "string(true)", "subtasks", "subtasks.a", "subtasks.a.status", "subtasks['a'].status",
        "true ? 1 : 2", "true ? (false ? 1 : 2) : 'x'", "1 && 2", "[1, 2].map(i, i > 1)",
        "subtasks.a.output.n + 1", "'ab'.size()",
    ],
)  # fmt: skip
def test_what_is_neither_true_nor_false_is_told_from_its_text(text):
    assert gives_no_answer(read_condition(text))
    with pytest.raises(ConditionFailed):
        holds(text, {"a": {"status": "completed", "output": {"n": 1}}})


_PARTS = st.sampled_from(
    ["1", '"x"', "true", "false", "subtasks.a.status", "subtasks.a.output.ok", "[true]", "null"]
)
_EXPRESSIONS = st.recursive(
    _PARTS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||", "==", "+", "in", "<"]), inner).map(" ".join),
        st.tuples(inner, inner, inner).map(lambda each: "{} ? {} : {}".format(*each)),
        inner.map("({})".format), inner.map("!{}".format), inner.map("[{}][0]".format),
        inner.map("[true].exists(i, {})".format), inner.map("size([{}])".format),
    ),
    max_leaves=6,
)  # fmt: skip


@given(_EXPRESSIONS)
def test_nothing_that_has_an_answer_is_refused_for_having_none(text):
    try:
        holds(text, {"a": {"status": "completed", "output": {"ok": True}}})
    except (ConditionFailed, InvalidPlan):
        return
    assert not gives_no_answer(read_condition(text)), text


@pytest.mark.parametrize(
    ("text", "cost", "least"),
    [
        ("true", 12, 1),
        ("subtasks.a.output == 1", 84, 7),
        ("subtasks.a.output.all(x, x > 1)", 168, 14),
        ("subtasks.a.output.filter(x, x > 1).size() == 0", 1_200, 40),
        ("subtasks.a.output.map(x, [x, x]).size() > 0", 5_280, 264),
        ("subtasks.a.output.all(x, subtasks.b.output.exists(y, x == y))", 15_000, 450),
        ("subtasks.all(k, subtasks[k].status == 'x')", 1_800, 60),
        ("subtasks.a.output.matches('a+')", 300_120, 300_010),
        ("subtasks.a.output.all(x, x.matches('a'))", 1_500_204, 600_017),
    ],
)
def test_what_a_condition_may_cost_is_the_same_on_every_machine(text, cost, least):
    condition = read_condition(text)

    assert _cost(condition, _Size(values=10, characters=128, longest=5)) == cost
    assert _cost(condition, _Size()) == least


def test_how_much_there_is_to_look_at_is_counted_through_all_of_it():
    size = _Size()
    size.add({"a": ["bc", {"d": 1}]}, 9)

    assert size == _Size(values=7, characters=4, longest=2)
    assert size.volume == 7
    assert _Size(values=1, characters=129).volume == 3


@pytest.mark.unmeasured
def test_the_bounds_of_what_a_condition_looks_at_are_what_they_are():
    def answer(value):
        try:
            return holds("subtasks.a.output == 1", {"a": {"output": value}})
        except ConditionFailed as problem:
            return str(problem)

    def nested(depth):
        value = 1
        for _ in range(depth):
            value = [value]
        return value

    large = "condition: the results are too large to compare"
    names = len("a" + "output")
    assert [answer("x" * (2_000_000 - names + more)) for more in (0, 1)] == [False, large]
    assert [answer(nested(62)), answer(nested(63))] == [False, large]
    many = "condition: it would look at too many values"
    assert [answer([0] * count) for count in (714_280, 714_281)] == [False, many]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError(), "there is no such field"),
        (KeyError("x"), "there is no x"),
        (ValueError("one\ntwo"), "one"),
        (ValueError("before ERROR: it is\nafter"), "it is"),
        (ValueError("x" * 301), "x" * 300),
    ],
)
def test_what_the_library_says_is_told_in_one_line(error, said):
    assert _said(error) == said


def test_why_a_condition_has_no_answer_is_said_with_its_kind():
    with pytest.raises(ConditionFailed) as failed:
        holds("subtasks.b.status == 'x' && subtasks.a.status == 'x'", {})
    assert (str(failed.value), str(failed.value.category), str(failed.value.severity)) == (
        "condition: subtask 'a' has no result", "dependency", "high",
    )  # fmt: skip
    with pytest.raises(ConditionFailed) as failed:
        holds("1 + 1", {})
    assert (str(failed.value), str(failed.value.category)) == (
        "condition: it gives int, not true or false", "logic",
    )  # fmt: skip
