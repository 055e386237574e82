"""A tool of a foreign server as it is here: checked, named, and no more believed than a stranger.

What a server says of its tools is text from outside: the name must fit, the schema must be one and
small, and no remark of the server's about how harmless a tool is counts.
"""

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from gonogo.domain.canonical import canonical_json, digest
from gonogo.domain.conversation import ToolSchema
from gonogo.domain.errors import InvalidArguments
from gonogo.domain.foreign import Standing, foreign_name, tool_problem
from gonogo.domain.visible import visible, visible_json
from gonogo.tools._tool import Arguments, JsonObject, Prepared, Tool
from gonogo.workspace import Workspace

MOST_SCHEMA, MOST_DESCRIPTION, MOST_ARGUMENTS = 64 << 10, 8_000, 1 << 20
"""Characters of a tool's schema as JSON, of its description, and of a call's arguments."""
_BY_PATTERN = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_DEEPEST, _MOST_REFERENCES = 40, 2_000
_MOST_LINES, _LONGEST_LINE = 200, 500


class Given(Arguments):
    """The arguments of a call, which the server's schema says what they are."""

    values: JsonObject

    def final(self, **changed: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
        """The arguments as JSON, with some of them replaced."""
        return self.values | changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTool(Tool):
    """One tool of a server."""

    definition: Definition

    def schema(self) -> ToolSchema:
        """The tool as a model is told of it."""
        return ToolSchema(
            name=self.name, description=self.description, parameters=self.definition.parameters
        )

    def parse(self, arguments: Mapping[str, Any]) -> Arguments:
        """Read the arguments of a call.

        Raises:
            InvalidArguments: naming what does not fit the server's schema.
        """
        values = dict(arguments)
        try:
            size = len(json.dumps(values, allow_nan=False))
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(f"{self.name}: arguments: {error}") from error
        problem = (
            f"they are longer than {MOST_ARGUMENTS} characters"
            if size > MOST_ARGUMENTS
            else misfit(self.definition.parameters, values)
        )
        if problem is not None:
            raise InvalidArguments(f"{self.name}: {problem}")
        return Given(values=values)


def prepare(workspace: Workspace, arguments: Given) -> Prepared:
    """What a call will do is known to its server alone: its arguments are shown."""
    del workspace
    return Prepared(arguments=arguments.values, preview=visible_json(arguments.values, indent=2))


def difference(standing: Standing) -> str:
    """How a tool differs from what was accepted of it, for a person to read; bounded."""
    accepted = [s.definition for s in standing.sightings if s.accepted_at]
    old = accepted[-1] if accepted else JsonObject()
    pages = (_page(old), _page(standing.now.definition))
    lines = difflib.unified_diff(*pages, "accepted", "now", n=2, lineterm="")
    return visible("\n".join(islice(lines, _MOST_LINES)))


def _page(definition: JsonObject) -> list[str]:
    text = str(definition.get("description", ""))
    parameters = json.dumps(
        definition.get("parameters", {}), indent=1, ensure_ascii=False, sort_keys=True
    )
    return [line[:_LONGEST_LINE] for line in (*text.splitlines(), *parameters.splitlines())]


def read_definition(server: str, name: str, description: str, schema: Any) -> Definition | str:  # noqa: ANN401
    """Check what a server says of a tool; why it is not taken, if it is not."""
    if problem := tool_problem(server, name):
        return problem
    if len(description) > MOST_DESCRIPTION:
        return f"its description is longer than {MOST_DESCRIPTION} characters"
    if problem := _schema_problem(schema):
        return f"its schema {problem}"
    return Definition(
        server=server, tool=name, description=description, parameters=cast("JsonObject", schema)
    )


def _schema_problem(schema: object) -> str | None:
    from jsonschema import Draft202012Validator, SchemaError

    if not isinstance(schema, dict):
        return "is no object"
    found = cast("JsonObject", schema)
    try:
        if len(canonical_json(found)) > MOST_SCHEMA:
            return f"is longer than {MOST_SCHEMA} characters"
        if found.get("type") != "object":
            return "is not that of an object"
        if problem := _strange(found, 0):
            return problem
        Draft202012Validator.check_schema(found)
    except SchemaError as error:
        return f"is none: {error.message[:200]}"
    except (ValueError, RecursionError) as error:
        return f"cannot be read: {error}"
    return None


def _strange(value: object, depth: int) -> str | None:
    """What a schema has that would lead out of it, or nowhere."""
    if depth > _DEEPEST:
        return f"is nested deeper than {_DEEPEST}"
    if isinstance(value, list):
        items = cast("list[object]", value)
        return next(filter(None, (_strange(item, depth + 1) for item in items)), None)
    if not isinstance(value, dict):
        return None
    fields = cast("JsonObject", value)
    for key in ("$ref", "$dynamicRef"):
        target = fields.get(key)
        if isinstance(target, str) and not target.startswith("#"):
            return "refers to something outside of itself"
    return next(filter(None, (_strange(item, depth + 1) for item in fields.values())), None)


def misfit(schema: JsonObject, values: JsonObject) -> str | None:
    """What of a call's arguments does not fit, if anything.

    Patterns are left to the server: a stranger's expression could keep us busy for ever.
    """
    from jsonschema import Draft202012Validator, ValidationError, validators
    from referencing.exceptions import Unresolvable

    left = iter(range(_MOST_REFERENCES))
    plain = Draft202012Validator.VALIDATORS
    bounded = {name: _bounded(plain[name], left) for name in ("$ref", "$dynamicRef")}
    checker: Any = cast("Any", validators).extend(
        Draft202012Validator, {**bounded, "pattern": None}
    )
    try:
        checker(_without_patterns(schema)).validate(values)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.absolute_path) or "arguments"
        return f"{where}: {error.message[:500]}"
    except (Unresolvable, RecursionError, StopIteration):
        return "arguments: the server's schema cannot be followed"
    return None


def _without_patterns(schema: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A schema that names no properties by patterns; others than those named may then be there."""
    if isinstance(schema, list):
        return [_without_patterns(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("JsonObject", schema)
    left_out = _BY_PATTERN if "patternProperties" in fields else ()
    return {name: _without_patterns(v) for name, v in fields.items() if name not in left_out}


def _bounded(follow: Callable[..., Any], left: Any) -> Callable[..., Any]:  # noqa: ANN401
    def follows(*args: Any) -> Any:  # noqa: ANN401 - as the library has it
        if next(left, None) is None:
            raise RecursionError
        return follow(*args)

    return follows
