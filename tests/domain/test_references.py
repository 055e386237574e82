"""References name results of earlier subtasks, and nothing is computed from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.conditions import (
    Reference,
    UnmetReference,
    check_references,
    references,
    resolve,
)
from gonogo.domain.errors import InvalidPlan
from gonogo.domain.failures import classify
from gonogo.domain.plan import Subtask

BUILD = {
    "status": "completed",
    "output": {
        "path": "dist/app.whl", "size": 3, "ok": True, "none": None, "files": ["a", {"b": 1}],
        "odd name": "x", "trap": "${subtasks.build.output.path}", "п": "я",
    },
}  # fmt: skip
RESULTS = {"build": BUILD, "late-1": {"status": "skipped", "output": {"x": 1}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("a${b}$$${"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


def one(text):
    return resolve({"v": text}, RESULTS)["v"]


def step(name, *dependencies, **inputs):
    return Subtask(
        id=name, description="x", agent="coder", dependencies=dependencies, inputs=inputs or None
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${subtasks.build.output.path}", "dist/app.whl"),
        ("${subtasks.build.output.size}", 3),
        ("${subtasks.build.output.ok}", True),
        ("${subtasks.build.output.none}", None),
        ("${subtasks.build.output.files}", ["a", {"b": 1}]),
        ("${subtasks.build.output.files[1].b}", 1),
        ("${subtasks.build.output.files.0}", "a"),
        ('${subtasks["build"]["output"]["odd name"]}', "x"),
        ("${subtasks.late-1.status}", "skipped"),
        ("${subtasks.build}", BUILD),
    ],
)
def test_a_string_that_is_one_reference_becomes_the_value(text, value):
    found = one(text)

    assert found == value
    assert type(found) is type(value)


def test_in_a_longer_text_the_value_stands_as_text():
    assert one("in ${subtasks.build.output.path}!") == "in dist/app.whl!"
    assert one("${subtasks.build.output.size}${subtasks.build.output.ok}") == "3true"
    assert one(" ${subtasks.build.output.files}") == ' ["a",{"b":1}]'
    assert one("${subtasks.build.output.none} ") == "null "


def test_a_double_dollar_is_a_plain_one():
    assert one("echo $${HOME} $HOME $$ $") == "echo ${HOME} $HOME $$ $"
    assert one("$${subtasks.build.status}") == "${subtasks.build.status}"
    assert one("$$${") == "$${"


def test_what_a_reference_brings_in_is_not_read_again():
    assert one("${subtasks.build.output.trap}") == "${subtasks.build.output.path}"
    assert one("x ${subtasks.build.output.trap}") == "x ${subtasks.build.output.path}"


def test_references_are_found_at_any_depth_once_each():
    both = "${subtasks.x.output} ${subtasks.y-1.output[2]}"
    inputs = {"a": [{"b": both}], "c": "${subtasks.x.output}"}

    assert references(inputs) == (
        Reference(text="${subtasks.x.output}", subtask_id="x", path=("output",)),
        Reference(text="${subtasks.y-1.output[2]}", subtask_id="y-1", path=("output", "2")),
    )
    assert references(None) == ()
    assert references({"n": 1}) == ()


@pytest.mark.parametrize(
    "text",
    ["${HOME}", "${", "a ${subtasks}", "${subtask.a}", "${subtasks.a b}", "${subtasks..a}",
     "${subtasks.a()}", "${subtasks.a", "${ subtasks.a }", '${subtasks["a"b]}'],
)  # fmt: skip
def test_what_begins_no_reference_is_refused_with_the_way_to_write_it(text):
    with pytest.raises(InvalidPlan, match=r"\$\$\{"):
        references({"v": text})
    with pytest.raises(InvalidPlan):
        one(text)


@pytest.mark.feature(97)
def test_an_unmet_reference_fails_and_names_what_is_missing():
    with pytest.raises(
        UnmetReference, match=r"Dependency test not found .*subtasks.test.output"
    ) as no:
        one("${subtasks.test.output}")

    failure = classify(no.value)
    assert (failure.severity, failure.category) == ("critical", "dependency")


@pytest.mark.feature(97)
def test_a_subtask_that_did_not_complete_is_not_met():
    with pytest.raises(UnmetReference, match="late-1 is skipped, not completed"):
        one("see ${subtasks.late-1.output.x}")


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("output.nothing", "build.output has no 'nothing'"),
        ("output.files[2]", "build.output.files has no '2'"),
        ("output.files.b", "build.output.files has no 'b'"),
        ("output.path.x", "build.output.path has no 'x'"),
        ("output.path.0", "build.output.path has no '0'"),
        ("output.files.²", None),
    ],
)
def test_a_field_that_is_not_there_is_named(path, missing):
    expected = UnmetReference if missing else InvalidPlan
    with pytest.raises(expected, match=missing or "not a reference"):
        one(f"${{subtasks.build.{path}}}")


def test_a_text_does_not_grow_without_end():
    results = {
        "a": {"status": "completed", "output": "x" * 500_000},
        "b": {"status": "completed", "output": "y"},
    }
    half = "${subtasks.a.output} ."

    assert len(resolve({"v": half}, results)["v"]) == 500_002
    assert len(resolve({"v": [half, half]}, results)["v"]) == 2
    with pytest.raises(UnmetReference) as refused:
        resolve({"v": [half, half, "${subtasks.b.output}."]}, results)
    assert str(refused.value) == "${subtasks.b.output} is too long for a text"
    assert (refused.value.severity, refused.value.category) == ("high", "dependency")
    # By itself a value is no text, however long it is.
    assert len(resolve({"v": ["${subtasks.a.output}"] * 3}, results)["v"]) == 3


def test_inputs_that_are_nested_too_deep_are_refused():
    deep = "x"
    for _ in range(31):
        deep = [deep]
    assert references({"v": deep}) == ()
    assert resolve({"v": deep}, {}) == {"v": deep}
    for look in (lambda: references({"v": [deep]}), lambda: resolve({"v": [deep]}, {}),
                 lambda: resolve({"v": {"w": deep}}, {})):  # fmt: skip
        with pytest.raises(InvalidPlan) as refused:
            look()
        assert str(refused.value) == "inputs: nested deeper than 32; make them flatter"


@pytest.mark.parametrize(
    ("text", "said", "severity"),
    [
        ("${subtasks.test.output}",
         "Dependency test not found in execution context: ${subtasks.test.output}", "critical"),
        ("${subtasks.late-1.output.x}",
         "Dependency late-1 is skipped, not completed: ${subtasks.late-1.output.x}", "critical"),
        ("${subtasks.build.output.nothing}",
         "${subtasks.build.output.nothing}: build.output has no 'nothing'", "high"),
        ("${subtasks.build.nothing}", "${subtasks.build.nothing}: build has no 'nothing'", "high"),
    ],
)  # fmt: skip
def test_a_reference_that_is_not_met_is_told_whole(text, said, severity):
    with pytest.raises(UnmetReference) as refused:
        one(text)
    assert str(refused.value) == said
    assert (refused.value.severity, refused.value.category) == (severity, "dependency")


def test_what_is_no_reference_is_told_with_its_beginning():
    text = "a ${HOME} " + "x" * 60
    with pytest.raises(InvalidPlan) as refused:
        references({"v": text})
    assert str(refused.value) == (
        f"inputs: {text[2:42]!r} is not a reference like ${{subtasks.ID.output}};"
        " write $${ for a plain ${"
    )


def test_a_reference_may_go_to_any_subtask_that_is_over_by_then():
    check_references(
        [
            step("a"),
            step("b", "a"),
            step("c", "b", x="${subtasks.a.output}", y="${subtasks.b.status}"),
        ]
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("b", "a subtask that it does not depend on; add it to dependencies"),
        ("a", "a subtask that it does not depend on; add it to dependencies"),
        ("nobody", "an unknown subtask; correct its id"),
    ],
)
def test_a_reference_to_anything_else_is_refused_before_the_plan_runs(name, problem):
    subtasks = [step("a", x=f"${{subtasks.{name}.output}}"), step("b")]
    with pytest.raises(InvalidPlan) as refused:
        check_references(subtasks)
    assert str(refused.value) == f"Subtask 'a': ${{subtasks.{name}.output}} refers to {problem}"
    assert refused.value.subtask_id == "a"
    check_references(subtasks, done=[name])


def escaped(value):
    match value:
        case str():
            return value.replace("${", "$${")
        case list():
            return [escaped(item) for item in value]
        case dict():
            return {name: escaped(item) for name, item in value.items()}
    return value


@given(JSON)
def test_values_that_are_escaped_come_out_as_they_were(value):
    assert resolve({"v": escaped(value)}, {}) == {"v": value}
    assert references({"v": escaped(value)}) == ()


@given(JSON)
def test_a_whole_reference_gives_back_any_value_unchanged(value):
    results = {"s": {"status": "completed", "output": value}}

    assert resolve({"v": ["${subtasks.s.output}"]}, results) == {"v": [value]}
