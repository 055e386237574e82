"""What a server says of its tools is checked; nothing in it keeps us busy or leads outside."""

from datetime import UTC, datetime

import pytest
from mcp_types import CallToolResult
from msgspec.structs import replace

from gonogo.domain.errors import InvalidArguments, OutcomeUnknown, ToolFailed
from gonogo.domain.tool_calls import Sighting, ToolClass, ToolHistory
from gonogo.tools import difference
from gonogo.tools.base import touches_nothing
from gonogo.tools.mcp.tool import (
    Definition,
    ForeignArguments,
    ForeignTool,
    prepare,
    read_definition,
    shortened,
    told,
)
from gonogo.workspace import Workspace

TEXT = {"type": "string"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def schema(**properties):
    return {"type": "object", "properties": properties}


def tool(parameters):
    read = read_definition("docs", "search", "Searches.", parameters)
    assert isinstance(read, Definition)
    return ForeignTool(
        name=read.name, description=read.description, arguments=ForeignArguments,
        tool_class=ToolClass.OTHER, touches=touches_nothing, prepare=prepare, definition=read,
    )  # fmt: skip


def test_arguments_are_checked_against_the_servers_schema(tmp_path):
    search = tool({**schema(text=TEXT, count={"type": "integer"}), "required": ["text"]})
    assert search.schema().parameters["required"] == ["text"]
    given = search.parse({"text": "x", "model_config": 1})
    assert given.final() == {"text": "x", "model_config": 1}
    prepared = prepare(Workspace(tmp_path), given)
    assert prepared.preview == '{\n  "text": "x",\n  "model_config": 1\n}'
    for wrong, problem in [
        ({}, "'text' is a required property"),
        ({"text": 1}, "text: 1 is not of type 'string'"),
        ({"text": "x", "count": "y"}, "count: 'y' is not of type 'integer'"),
        ({"text": "x" * (1 << 20)}, "longer than"),
        ({"text": float("nan")}, "arguments: "),
    ]:
        with pytest.raises(InvalidArguments, match=problem):
            search.parse(wrong)


DOUBLING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}


@pytest.mark.parametrize(
    "parameters",
    [
        {**schema(a={"$ref": "#/$defs/d0"}), "$defs": {**DOUBLING, "d40": {}}},
        schema(a={"$ref": "#/properties/a"}),
        schema(a={"$ref": "#/nowhere"}),
    ],
)
def test_a_schema_that_cannot_be_followed_refuses_and_does_not_hang(parameters):
    with pytest.raises(InvalidArguments, match="cannot be followed"):
        tool(parameters).parse({"a": 1})


def test_patterns_are_left_to_the_server():
    slow = {"type": "string", "pattern": "(a+)+$"}
    assert tool(schema(a=slow)).parse({"a": "a" * 40 + "!"})
    named = {"type": "object", "patternProperties": {"(a+)+$": {}}, "additionalProperties": False}
    assert tool(schema(a=named, b={"anyOf": [named]})).parse({"a": {"a" * 40 + "!": 1}, "b": {}})


def nested(depth):
    inner = {}
    for _ in range(depth):
        inner = {"type": "object", "properties": {"a": inner}}
    return schema(a=inner)


@pytest.mark.parametrize(
    ("name", "description", "parameters", "problem"),
    [
        ("Search", "", schema(), "small letters"),
        ("s" * 60, "", schema(), "longer than 64"),
        ("search", "x" * 8_001, schema(), "its description is longer"),
        ("search", "", [], "its schema: it is not an object"),
        ("search", "", {"type": "string"}, "its schema: it does not describe an object"),
        ("search", "", {}, "its schema: it does not describe an object"),
        ("search", "", schema(a={"type": "strig"}), "its schema: it is no JSON Schema"),
        ("search", "", schema(a={"$ref": "https://x.example/s"}), "outside itself"),
        ("search", "", schema(a={"anyOf": [{"$dynamicRef": "file:x"}]}), "outside itself"),
        ("search", "", schema(a={"description": "x" * 70_000}), "its schema: it is longer"),
        ("search", "", nested(30), "nested deeper"),
        ("search", "", nested(3_000), "its schema"),
        ("search", "", schema(a=float("nan")), "its schema: it cannot be read"),
    ],
)
def test_what_does_not_fit_is_not_taken_and_it_is_said_why(name, description, parameters, problem):
    read = read_definition("docs", name, description, parameters)
    assert isinstance(read, str)
    assert problem in read


def standing(old, new):
    """A tool whose description and schema were accepted, and are others now."""

    def sighting(position, said, accepted):
        description, parameters = said
        return Sighting(
            name="mcp__docs__search", position=position, digest=str(position), seen_at=NOW,
            definition={"name": "search", "description": description, "parameters": parameters},
            accepted_at=accepted, accepted_by=None,
        )  # fmt: skip

    return ToolHistory([sighting(1, old, NOW), sighting(2, new, None)])


def test_a_change_far_back_in_a_long_line_is_shown():
    text = "x" * 5_000
    shown = difference(standing((f"{text}reads{text}", {}), (f"{text}deletes{text}", {})))
    assert any("deletes" in line for line in shown.splitlines() if line.startswith("+"))
    assert any("reads" in line for line in shown.splitlines() if line.startswith("-"))


def test_what_both_begin_and_end_with_is_left_out_however_long_it_is():
    many = [str(number) for number in range(6_000)]
    changed = [*many[:3_000], "another", *many[3_000:]]
    shown = difference(standing(("d", {"enum": many}), ("d", {"enum": changed})))
    assert [line for line in shown.splitlines() if line[0] in "+-"][2:] == ['+  "another",']
    assert "there is more" not in shown


def test_a_difference_that_is_cut_says_that_it_is():
    old, new = ("\n".join(f"{word}{n}" for n in range(300)) for word in ("old", "new"))
    shown = difference(standing((old, {}), (new, {})))
    assert shown.endswith("\n[… there is more: this is not all that has changed …]")
    assert len(shown.splitlines()) == 201
    turned = difference(
        standing(("\n".join(["a", "b"] * 900), {}), ("\n".join(["b", "a"] * 900), {}))
    )
    assert turned.endswith("this is not all that has changed …]")


def test_what_a_server_answers_that_is_no_text_is_named_in_its_place():
    address = "file:///a.txt"
    held = {"uri": address, "mimeType": "text/plain"}
    blocks = [
        ({"type": "text", "text": "Found:"}, "Found:"),
        ({"type": "image", "mimeType": "image/png", "data": "QUJD"},
         "[image of type image/png, 4 characters of base64]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": "QUJD"},
         "[audio of type audio/wav, 4 characters of base64]"),
        ({"type": "resource_link", "name": "a", "uri": address}, f"[resource {address}]"),
        ({"type": "resource", "resource": {**held, "text": "one"}}, f"[resource {address}]\none"),
        ({"type": "resource", "resource": {**held, "blob": "QUJD"}},
         f"[resource {address}]\n(not text)"),
    ]  # fmt: skip
    reply = CallToolResult.model_validate({"content": [block for block, _ in blocks]})
    assert told(reply, 10_000) == {"content": "\n".join(said for _, said in blocks)}


def reply(said, **fields):
    content = [{"type": "text", "text": said}] if said else []
    return CallToolResult.model_validate({"content": content, **fields})


def test_what_is_too_long_of_an_answer_is_left_out_of_its_middle():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdef", 5) == "ab\n[… 2 characters left out …]\nef"
    answer = told(reply("abcdef", structuredContent={"a": "é"}), 10)
    assert answer == {"content": "abcdef", "structured": {"a": "é"}}
    longer = told(reply("abcdef", structuredContent={"a": "éé"}), 10)
    cut = '{"a":\n[… 1 characters left out …]\n"éé"}'
    assert longer == {"content": "abcdef", "structured": cut, "structured_truncated": True}


def test_a_failure_is_told_in_the_servers_words_and_numbers_that_are_none_leave_a_doubt():
    for said, shown in (("no such page", "no such page"), ("", "the server does not say why")):
        with pytest.raises(ToolFailed) as failure:
            told(reply(said, isError=True), 100)
        assert (failure.value.kind, str(failure.value)) == ("server_error", shown)
    with pytest.raises(OutcomeUnknown) as doubt:
        told(reply("x", structuredContent={"a": float("inf")}), 100)
    assert str(doubt.value).startswith(
        "its server's answer cannot be read: Out of range float values are not JSON compliant"
    )


def test_a_difference_is_that_of_two_pages_with_what_stands_around_it():
    shown = difference(standing(("Reads.", {"type": "object"}), ("Deletes.", {"type": "object"})))
    assert shown.split("\n") == [
        "--- accepted", "+++ now", "@@ -1,3 +1,3 @@", "-Reads.", "+Deletes.", " {",
        '  "type": "object"',
    ]  # fmt: skip
    wide = {"b": {"type": "string"}, "a": ["é", "x" * 300]}
    new = difference(standing(("", {}), ("One\u202e", wide)))
    assert new.split("\n") == [
        "--- accepted", "+++ now", "@@ -1 +1,11 @@", "-{}", "+One\\u202e", "+{", '+ "a": [',
        '+  "é",', "+" + ('  "' + "x" * 300 + '"')[:200], "+" + "x" * 103 + '"', "+ ],",
        '+ "b": {', '+  "type": "string"', "+ }", "+}",
    ]  # fmt: skip


def test_a_tool_that_was_never_accepted_is_new_as_a_whole():
    never = standing(("Reads.", {}), ("Reads more.", {}))
    history = ToolHistory([replace(each, accepted_at=None) for each in never.sightings])
    assert difference(history).split("\n")[2:] == ["@@ -1 +1,2 @@", "+Reads more.", " {}"]


def test_what_a_server_says_of_a_tool_is_taken_within_its_bounds():
    def problem(name="search", description="", parameters=None):
        read = read_definition("docs", name, description, parameters or schema())
        return None if isinstance(read, Definition) else read

    assert problem(description="x" * 8_000) is None
    assert problem(description="x" * 8_001) == "its description is longer than 8000 characters"
    assert problem(description="a\0").startswith("its description cannot be read: Text must not")
    assert problem(parameters=nested(19)) is None
    deeper = "its schema: it is nested deeper than 40 levels"
    innermost = nested(19)
    at = innermost
    while at:
        last, at = at, at["properties"]["a"]
    last["properties"]["a"]["title"] = "x"
    assert problem(parameters=innermost) == deeper
    frame = len('{"properties":{"a":{"title":""}},"type":"object"}')
    assert problem(parameters=schema(a={"title": "x" * (65_536 - frame)})) is None
    longer = problem(parameters=schema(a={"title": "x" * (65_537 - frame)}))
    assert longer == "its schema: it is longer than 65536 characters"
    ref = problem(parameters=schema(a=[{"$dynamicRef": "x"}]))
    assert ref == "its schema: it refers to something outside itself"
    assert problem(parameters=schema(a={"const": [{"$ref": "#/x"}]})) is None


def test_a_definition_is_what_is_held_against_what_was_seen_before():
    read = read_definition("docs", "search", "Finds.", schema())
    assert isinstance(read, Definition)
    body = {"name": "search", "description": "Finds.", "parameters": schema()}
    assert (read.name, read.body) == ("mcp__docs__search", body)
    assert read.size == len(
        '{"description":"Finds.","name":"search","parameters":{"properties":{},"type":"object"}}'
    )
    assert tool(schema()).schema().model_dump() == {
        "name": "mcp__docs__search", "description": "Searches.", "parameters": schema(),
    }  # fmt: skip


def test_what_does_not_fit_a_schema_is_said_with_the_name_of_the_tool():
    search = tool(schema(a={"type": "integer"}))
    assert search.parse({"a": 1}).final(b=2) == {"a": 1, "b": 2}
    fits = {"b": "x" * ((1 << 20) - len('{"b": ""}'))}
    assert search.parse(fits).final() == fits
    for wrong, said in [
        ({"a": "x"}, "a: 'x' is not of type 'integer'"),
        ({"b": fits["b"] + "x"}, "they are longer than 1048576 characters"),
        ({"a": float("nan")}, "arguments: Out of range float values are not JSON compliant"),
    ]:
        with pytest.raises(InvalidArguments) as refused:
            search.parse(wrong)
        assert str(refused.value).removesuffix(": nan") == f"mcp__docs__search: {said}"
    long = {"a": "x" * 1_000}
    with pytest.raises(InvalidArguments) as refused:
        search.parse(long)
    assert str(refused.value) == f"mcp__docs__search: a: {repr('x' * 1_000)[:500]}"
