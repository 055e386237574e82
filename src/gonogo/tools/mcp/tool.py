"""A tool of a foreign server as it is here: checked, named, and no more believed than a stranger.

What a server says of its tools is text from outside: the name must fit, the schema must be one and
small, and no remark of the server's about how harmless a tool is counts.
"""

import difflib
import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, cast

from msgspec import Struct

from gonogo.domain.base import canonical_json, check_text, digest
from gonogo.domain.errors import (
    InvalidArguments,
    InvalidMessage,
    OutcomeUnknown,
    ToolFailed,
    because,
)
from gonogo.domain.text_safety import visible, visible_json
from gonogo.domain.tool_calls import ToolHistory, ToolSchema, foreign_name, tool_problem
from gonogo.tools.base import Arguments, JsonObject, Prepared, Tool
from gonogo.tools.schemas import SchemaChecks
from gonogo.workspace import Workspace

MOST_DESCRIPTION, MOST_ARGUMENTS = 8_000, 1 << 20
"""Characters of a tool's description, and of a call's arguments as JSON."""
_MOST_LINES, _MOST_COMPARED, _LINE, _AROUND = 200, 400, 200, 2
"""Of a difference: lines, lines of one side, characters of a line, and like lines around."""
_CUT = "[… there is more: this is not all that has changed …]"


class ForeignArguments(Arguments):
    """The arguments of a call, which the server's schema says what they are."""

    values: JsonObject

    def final(self, **changed: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
        """The arguments as JSON, with some of them replaced."""
        return self.values | changed


class Definition(Struct, frozen=True, kw_only=True):
    """What a server says of one tool."""

    server: str
    tool: str
    description: str
    parameters: JsonObject
    """JSON Schema of its arguments."""

    @property
    def name(self) -> str:
        """What it is called here."""
        return foreign_name(self.server, self.tool)

    @property
    def body(self) -> JsonObject:
        """All that is held against what was seen before."""
        return {
            "name": self.tool, "description": self.description, "parameters": self.parameters,
        }  # fmt: skip

    @property
    def digest(self) -> str:
        """Of all that."""
        return digest(self.body)

    @property
    def size(self) -> int:
        """Characters of all that."""
        return len(canonical_json(self.body))


class ForeignTool(Tool, frozen=True, kw_only=True):
    """One tool of a server."""

    definition: Definition

    def schema(self) -> ToolSchema:
        """The tool as a model is told of it."""
        return ToolSchema(
            name=self.name, description=self.description, parameters=self.definition.parameters
        )

    def parse(self, arguments: Mapping[str, Any], within: SchemaChecks | None = None) -> Arguments:
        """Read the arguments of a call.

        Raises:
            InvalidArguments: naming what does not fit the server's schema.
        """
        values = dict(arguments)
        try:
            size = len(json.dumps(values, allow_nan=False))
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(
                "{name}: arguments: {error}", name=self.name, error=error
            ) from error
        problem = (
            because("they are longer than {most} characters", most=MOST_ARGUMENTS)
            if size > MOST_ARGUMENTS
            else (within or SchemaChecks()).misfit(self.definition.parameters, values)
        )
        if problem is not None:
            raise InvalidArguments("{name}: {problem}", name=self.name, problem=problem)
        return ForeignArguments(values=values)


def prepare(workspace: Workspace, arguments: ForeignArguments) -> Prepared:
    """What a call will do is known to its server alone: its arguments are shown."""
    del workspace
    return Prepared(arguments=arguments.values, preview=visible_json(arguments.values, indent=2))


def difference(standing: ToolHistory) -> str:
    """How a tool differs from what was accepted of it, for a person to read; bounded."""
    accepted = standing.as_accepted
    pages = _unlike(_page(accepted.definition if accepted else {}), _page(standing.now.definition))
    # Comparing takes time with more than the square of what there is to compare.
    compared = [page[:_MOST_COMPARED] for page in pages]
    lines = list(
        difflib.unified_diff(*compared, fromfile="accepted", tofile="now", n=_AROUND, lineterm="")
    )
    cut = len(lines) > _MOST_LINES or any(len(page) > _MOST_COMPARED for page in pages)
    return visible("\n".join([*lines[:_MOST_LINES], *([_CUT] if cut else [])]))


def _unlike(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Two pages without what both begin and end with."""
    pairs = list(zip(old, new, strict=False))
    start = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
    backwards = zip(reversed(old[start:]), reversed(new[start:]), strict=False)
    same = list(takewhile(lambda pair: pair[0] == pair[1], backwards))
    begin, end = max(0, start - _AROUND), max(0, len(same) - _AROUND)
    return old[begin : len(old) - end], new[begin : len(new) - end]


def _page(definition: JsonObject) -> list[str]:
    text = str(definition.get("description", ""))
    parameters = json.dumps(
        definition.get("parameters", {}), indent=1, ensure_ascii=False, sort_keys=True
    )
    # Cut up and not cut off: a change may be far back in a long line.
    return [
        line[at : at + _LINE]
        for line in (*text.splitlines(), *parameters.splitlines())
        for at in range(0, max(1, len(line)), _LINE)
    ]


def read_definition(
    server: str,
    name: str,
    description: str,
    schema: Any,  # noqa: ANN401 - as a stranger wrote it
    checks: SchemaChecks | None = None,
) -> Definition | str:
    """Check what a server says of a tool; why it is not taken, if it is not."""
    if problem := tool_problem(server, name):
        return problem
    if len(description) > MOST_DESCRIPTION:
        return because("its description is longer than {most} characters", most=MOST_DESCRIPTION)
    try:
        check_text(description)
    except InvalidMessage as error:
        return because("its description cannot be read: {error}", error=error)
    if problem := (checks or SchemaChecks()).problem_of(schema):
        return because("its schema: {problem}", problem=problem)
    return Definition(
        server=server, tool=name, description=description, parameters=cast("JsonObject", schema)
    )


# What a server answers to a call, as agents are told it: text of a bounded size, and no more.


def told(reply: Any, cap: int) -> JsonObject:  # noqa: ANN401 - mcp_types.CallToolResult
    """The result of a call.

    Args:
        cap: Characters of text that are kept: the first and the last half.

    Raises:
        ToolFailed: `server_error`: the server says that the call failed.
        OutcomeUnknown: it cannot be kept, as it holds numbers that are none.
    """
    text = shortened("\n".join(_text(block) for block in reply.content), cap)
    if reply.is_error:
        raise ToolFailed("server_error", text or because("the server does not say why"))
    result: JsonObject = {"content": text}
    if reply.structured_content is not None:
        return result | _structured(reply.structured_content, cap)
    return result


def shortened(text: str, cap: int) -> str:
    """The first and the last half of a text that is too long, and how much is left out."""
    if len(text) <= cap:
        return text
    half = cap // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _structured(value: Any, cap: int) -> JsonObject:  # noqa: ANN401 - any JSON value
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        why = because("its server's answer cannot be read: {why}", why=str(error))
        raise OutcomeUnknown(why) from error
    if len(written) > cap:
        return {"structured": shortened(written, cap), "structured_truncated": True}
    return {"structured": value}


def _text(block: Any) -> str:  # noqa: ANN401 - mcp_types.ContentBlock
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return (
                f"[{block.type} of type {block.mime_type}, {len(block.data)} characters of base64]"
            )
        case "resource_link":
            return f"[resource {block.uri}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return f"[resource {block.resource.uri}]\n{text or '(not text)'}"
        case _:
            return f"[{block.type}]"
