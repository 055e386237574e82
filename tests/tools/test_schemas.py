"""A stranger's schema keeps nobody busy, leads nowhere, and refuses only what its server would."""

import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from gonogo.tools import SchemaChecks

MANY = list(range(50_000))
REFERENCES = 40


def schema(**properties):
    return {"type": "object", "properties": properties}


def chain(part, count=REFERENCES):
    """A schema of parts, each of which is made of the reference to the next one."""
    parts = {f"d{n}": part({"$ref": f"#/$defs/d{n + 1}"}) for n in range(count)}
    return {**schema(a={"$ref": "#/$defs/d0"}), "$defs": {**parts, f"d{count}": {}}}


HARD = {
    "all of": (chain(lambda to: {"allOf": [to, to]}), 1),
    "any of": (chain(lambda to: {"anyOf": [{"allOf": [to, {"type": "null"}]}, to]}), 1),
    "one of": (chain(lambda to: {"oneOf": [to, to]}), 1),
    "not": (chain(lambda to: {"allOf": [{"not": {"not": to}}, to]}), 1),
    "if": (chain(lambda to: {"if": to, "then": to, "else": to}), 1),
    "properties": (chain(lambda to: {"properties": {"b": to}, "allOf": [to]}), {"b": {"b": {}}}),
    "names": (chain(lambda to: {"propertyNames": to, "allOf": [to]}), {"b": 1}),
    "dependent": (
        chain(lambda to: {"dependentSchemas": {"b": to, "c": to}, "unevaluatedProperties": False}),
        {"b": 1, "c": 2},
    ),
    "unevaluated": (
        chain(lambda to: {"allOf": [to], "anyOf": [to], "unevaluatedItems": False}), [1, 2]
    ),
    "unique": (schema(a={"uniqueItems": True}), MANY),
    "unique of two kinds": (schema(a={"uniqueItems": True}), [*MANY, "x", [1], {"a": 1}]),
    "contains": (schema(a={"contains": {"minimum": -1}, "minContains": 10**9}), MANY),
    "branches": (schema(a={"items": {"anyOf": [{"enum": ["x", n]} for n in range(2_000)]}}), MANY),
    "long texts": (schema(a={"anyOf": [{"type": "null"}] * 3_000}), "x" * 1_000_000),
    "enum": (schema(a={"items": {"enum": [f"{n}" for n in range(9_000)]}}), MANY),
    "pattern": (schema(a={"pattern": "(a+)+$"}), "a" * 60 + "!"),
    "named by pattern": (schema(a={"patternProperties": {"(a+)+$": {}}}), {"a" * 60 + "!": 1}),
    "name by pattern": (schema(a={"propertyNames": {"pattern": "(a+)+$"}}), {"a" * 60 + "!": 1}),
    "another dialect": (
        schema(a={"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(a+)+$"}),
        "a" * 60 + "!",
    ),
    "its own dialect": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **schema(a={"anyOf": [{"$ref": "#"}, {"pattern": "(a+)+$"}]}),
            "type": ["object", "string"], "pattern": "(a+)+$",
        },
        "a" * 60 + "!",
    ),
    "format": (schema(a={"format": "regex"}), "(" * 5_000),
    "itself": (schema(a={"$ref": "#/properties/a"}), 1),
    "dynamic": ({**schema(a={"$dynamicRef": "#x"}), "$dynamicAnchor": "x"}, {"a": {"a": {}}}),
    "nowhere": (schema(a={"$ref": "#/nowhere"}), 1),
    "a long way": (schema(a={"$ref": "#/" + "a/" * 15_000}), 1),
    "large steps": (schema(a={"multipleOf": 10**4_000}), 10**4_200),
    "small steps": (schema(a={"multipleOf": 0.1}), 10**400),
    "tiny steps": (schema(a={"multipleOf": 1e-300}), 1e300),
    "large bounds": (schema(a={"minimum": 10**4_000, "maxLength": 10**4_000}), 1.5),
    "deep": (schema(a={"const": [[[[[1]]]]]}), [[[[[2]]]]]),
}  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_a_check_comes_to_an_end_whatever_the_schema_and_what_is_held_against_it(name):
    parameters, value = HARD[name]
    used = time.thread_time()
    SchemaChecks(0.2).misfit(parameters, {"a": value})
    # Of CPU time, of which it gets 0.2 s: nothing that a busy machine takes longer for.
    assert time.thread_time() - used < 10


def test_what_takes_too_long_is_refused_and_says_so():
    doubling, value = HARD["all of"]
    checks = SchemaChecks(0.05)
    late = "arguments: the server's schema cannot be followed in time"
    assert checks.misfit(doubling, {"a": value}) == late
    assert checks.misfit(schema(a={"type": "string"}), {"a": "x"}) == late, "all of it is spent"
    assert SchemaChecks(5).misfit(schema(a={"type": "string"}), {"a": "x"}) is None


def test_only_checking_takes_of_the_time():
    checks = SchemaChecks(0.05)
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    assert checks.misfit(schema(a={"type": "string"}), {"a": "x"}) is None


@pytest.mark.parametrize("name", ["small steps", "itself", "nowhere"])
def test_what_the_library_fails_on_is_refused(name):
    parameters, value = HARD[name]
    found = SchemaChecks().misfit(parameters, {"a": value})
    assert found == "arguments: the server's schema cannot be followed"


@pytest.mark.parametrize(
    ("given", "value", "problem"),
    [
        ({"type": "integer"}, "x", "a: 'x' is not of type 'integer'"),
        ({"enum": [1, 2]}, 3, "a: 3 is not one of [1, 2]"),
        ({"anyOf": [{"type": "null"}, {"minimum": 5}]}, 3, "a: it fits none of the allowed forms"),
        ({"oneOf": [{"type": "null"}, {"minimum": 5}]}, 3, "a: it fits none of the allowed forms"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 3, None),
        ({"uniqueItems": True}, [1, [2], [2]], "a: it contains something twice"),
        ({"uniqueItems": True}, [1, True, 1.0, "1", [1], {}], None),
        ({"uniqueItems": False}, [1, 1], None),
        ({"properties": {"b": {}}, "additionalProperties": False}, {"c": 1}, "a: Additional prop"),
        (
            {"patternProperties": {"^c": {}}, "additionalProperties": False}, {"c": 1}, None,
        ),
        ({"required": ["b"]}, {}, "a: 'b' is a required property"),
        ({"items": {"maxLength": 1}}, ["x", "xy"], "a.1: 'xy' is too long"),
        (False, 1, "arguments: False schema does not allow 1"),
        (True, 1, None),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_place(given, value, problem):
    found = SchemaChecks().misfit(schema(a=given), {"a": value})
    assert (found or "").startswith(problem) if problem else found is None


def test_nothing_is_looked_up_in_the_network():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        odd = {**schema(a={"$ref": "#/odd"}), "odd": {"$id": url, "$ref": "#/y"}}
        within = schema(a={"$id": url, "$ref": "#/y"})
        for parameters in (odd, within):
            assert SchemaChecks().problem_of(parameters) is None
            assert "cannot be followed" in (SchemaChecks().misfit(parameters, {"a": 1}) or "")
        with pytest.raises(TimeoutError):
            listener.accept()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"type": "object", "required": ["a", "a"]},
            "it is no JSON Schema: required: it contains something twice",
        ),
        ({"type": "object", "required": ["a", [1]] * 5_000}, "it is no JSON Schema: required"),
        (
            {"type": "object", "$schema": 1},
            "it is no JSON Schema: $schema: 1 is not of type 'string'",
        ),
        ({"type": "object", "$id": []}, "it is no JSON Schema: $id"),
        ({"type": "object", "allOf": []}, "it is no JSON Schema: allOf"),
        ({"type": "object", "title": "a\x00b"}, "it cannot be read: Text must not contain NUL"),
        (
            {"type": "object", "title": "\ud800"},
            "it cannot be read: Text must not contain NUL or lone",
        ),
        ({"type": "object", "a\x00": 1}, "it cannot be read"),
        ({"type": "object", "minProperties": 10**5_000}, "it cannot be read"),
    ],
)
def test_what_is_no_schema_is_refused(given, problem):
    assert (SchemaChecks().problem_of(given) or "").startswith(problem)


def test_patterns_of_a_schema_are_not_even_read():
    slow = {f"p{n}": {"pattern": "(?i)[\u0001-\U0010ffff]"} for n in range(1_000)}
    broken = schema(a={"pattern": "("})
    assert SchemaChecks(5).problem_of(schema(**slow)) is None
    assert SchemaChecks().problem_of(broken) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from("abc"), inner, max_size=3
    ),
    max_leaves=6,
)  # fmt: skip
NUMBER = st.integers(0, 3)


def _schemas(inner):
    by_name = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=3)
    return st.booleans() | st.fixed_dictionaries({}, optional={
        "type": st.sampled_from(["string", "integer", "object", "array", "null", "boolean"]),
        "enum": st.lists(VALUES, min_size=1, max_size=3), "const": VALUES,
        "not": inner, "if": inner, "then": inner, "else": inner,
        "allOf": several, "anyOf": several, "oneOf": several,
        "properties": by_name, "additionalProperties": inner, "propertyNames": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=2),
        "dependentSchemas": by_name, "unevaluatedProperties": inner,
        "items": inner, "prefixItems": several, "contains": inner, "unevaluatedItems": inner,
        "uniqueItems": st.booleans(), "minContains": NUMBER, "maxContains": NUMBER,
        "pattern": st.sampled_from(["^a", "b$"]), "minLength": NUMBER, "maxItems": NUMBER,
        "minimum": NUMBER, "multipleOf": st.integers(1, 3), "maxProperties": NUMBER,
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
    })  # fmt: skip


@given(st.recursive(st.booleans(), _schemas, max_leaves=8), VALUES)
def test_what_is_left_out_only_lets_more_through(written, value):
    try:
        Draft202012Validator(written).validate(value)
    except ValidationError:
        return
    parameters = written if isinstance(written, dict) else {"allOf": [written]}
    assert SchemaChecks(60).misfit(parameters, value) is None
