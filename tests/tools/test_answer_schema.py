"""The schema of an answer: what it may say, and that it ends, whatever it says."""

import json

import pytest

from gonogo.domain.errors import InvalidMessage
from gonogo.tools.schemas import AnswerSchema


def schema(**fields) -> bytes:
    return json.dumps(fields).encode()


def of_a(**fields) -> bytes:
    """A schema that says something of the field `a` alone."""
    return schema(properties={"a": fields})


DOUBLED = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (schema(**{"$schema": []}), "$schema must be the address"),
        (schema(**{"$schema": 5}), "$schema must be the address"),
        (schema(**{"$ref": "#"}), "it cannot be used: maximum recursion"),
        (of_a(**{"$ref": "file:///etc/passwd"}), "leads out of the file"),
        (of_a(**{"$dynamicRef": "http://127.0.0.1:9/x"}), "leads out of the file"),
        (of_a(**{"$ref": "#/none"}), "it cannot be used: '/none' does not"),
        (of_a(**{"$id": "b", "$ref": "#"})[:-1] + b', "$id": "http://["}', "Invalid IPv6 URL"),
        (
            of_a(**{"$ref": "#/required/0"})[:-1] + b', "required": ["a"]}',
            "does not refer to a schema",
        ),
        (of_a(**{"$ref": "#/required/x"})[:-1] + b', "required": ["a"]}', "it cannot be used"),
    ],
)
def test_what_cannot_be_followed_is_refused_when_it_is_read(text, said):
    with pytest.raises(InvalidMessage) as refused:
        AnswerSchema(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (of_a(pattern="^(a+)+$"), {"a": "a" * 60 + "!"}),
        (
            schema(properties={"a": {"$ref": "#/$defs/d0"}}, **{"$defs": {**DOUBLED, "d40": {}}}),
            {"a": 1},
        ),
    ],
)
def test_a_check_that_would_take_for_ever_ends(monkeypatch, text, value):
    found = AnswerSchema(text)
    monkeypatch.setattr("gonogo.tools.schemas._SECONDS", 0.2)
    with pytest.raises(InvalidMessage, match="takes more than"):
        found.problems_of(value)


def test_a_number_that_the_library_cannot_divide_is_no_crash():
    with pytest.raises(InvalidMessage, match="it cannot be used"):
        AnswerSchema(of_a(multipleOf=1e-300)).problems_of({"a": 10**400})


def test_references_within_and_words_that_only_look_like_one_work():
    text = schema(
        properties={"a": {"$ref": "#x"}, "b": {"enum": [{"$ref": "http://example.org"}]}},
        **{"$defs": {"x": {"$anchor": "x", "items": {"$ref": "#/$defs/x"}, "type": "array"}}},
    )
    found = AnswerSchema(text)
    assert found.problems_of({"a": [[], [[]]], "b": {"$ref": "http://example.org"}}) == []
    assert found.problems_of({"a": [1]}) == ["$.a[0]: 1 is not of type 'array'"]
