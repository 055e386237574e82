"""JSON Schemas that strangers wrote: what is no schema, and what does not fit one.

A schema can be written so that checking against it takes for ever. So nothing is looked up outside
of it, what would look at a value more than once is left out, and checks have so much CPU time and
no more. What is left out only lets more through: a server checks its arguments itself anyway. That
is why `not` and `if` are left out as well, and of `oneOf` several may fit: they would refuse what
does fit as soon as something below them is left out.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from time import thread_time
from typing import Any, cast

from gonogo.domain.errors import Reason, because
from gonogo.domain.strict_json import canonical_json, check_text

MOST_SCHEMA, DEEPEST = 64 << 10, 40
"""Characters of a schema as JSON, and how deep it may be nested."""
SECONDS = 1.0
"""CPU time for the arguments of one call, or of one plan."""
_KEPT = (
    "$dynamicRef", "$ref", "allOf", "const", "dependentRequired", "dependentSchemas", "enum",
    "exclusiveMaximum", "exclusiveMinimum", "items", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "prefixItems",
    "properties", "propertyNames", "required", "type",
)  # fmt: skip
_SAID = 500
_LATE = because("it cannot be followed in time")
_Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterator[Any]]
"""`(validator, value, instance, schema)`: the errors of one keyword, as the library has it."""


class SchemaChecks:
    """Checks that together have so much CPU time, whatever else the machine does."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """Begin with all of it."""
        self._left = seconds
        self._end = 0.0

    def problem_of(self, schema: object) -> str | None:
        """Why something cannot be the schema of a tool's arguments."""
        if not isinstance(schema, dict):
            return because("it is not an object")
        found = cast("dict[str, Any]", schema)
        try:
            check_text(found)
            if len(canonical_json(found)) > MOST_SCHEMA:
                return because("it is longer than {most} characters", most=MOST_SCHEMA)
            if found.get("type") != "object":
                return because("it does not describe an object")
            if strange := _strange(found, 0):
                return strange
            problem = self._first(self._validator.META_SCHEMA, found)
        except TimeoutError:
            return _LATE
        except Exception as error:
            return because("it cannot be read: {error}", error=str(error)[:_SAID])
        return problem and because("it is no JSON Schema: {problem}", problem=problem)

    def misfit(self, schema: Mapping[str, Any], value: object) -> str | None:
        """What of a value does not fit a schema, if anything, as `where: what`."""
        try:
            return self._first(schema, value)
        except TimeoutError:
            return because("arguments: the server's schema cannot be followed in time")
        except Exception:
            # Whatever a stranger's schema makes the library do.
            return because("arguments: the server's schema cannot be followed")

    def _first(self, schema: Mapping[str, Any], value: object) -> str | None:
        from referencing import Registry

        self._end = thread_time() + self._left
        try:
            # Without a registry of its own the library asks the network.
            nothing: Registry[Any] = Registry()
            validator = self._validator(schema, registry=nothing)
            error = next(validator.iter_errors(value), None)
        finally:
            self._left = self._end - thread_time()
        if error is None:
            return None
        where = ".".join(str(part) for part in error.absolute_path) or "arguments"
        said = error.message
        said = said if isinstance(said, Reason) else said[:_SAID]
        return because("{field}: {said}", field=where[:_SAID], said=said)

    def _spend(self) -> None:
        if thread_time() > self._end:
            raise TimeoutError

    @cached_property
    def _validator(self) -> Any:  # noqa: ANN401 - a class of the library's
        return _validator(self._spend)


def _strange(value: object, depth: int) -> str | None:
    """What a schema has that would lead out of it, or nowhere."""
    if depth > DEEPEST:
        return because("it is nested deeper than {most} levels", most=DEEPEST)
    if isinstance(value, list):
        items = cast("list[object]", value)
        return next(filter(None, (_strange(item, depth + 1) for item in items)), None)
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, object]", value)
    for key in ("$ref", "$dynamicRef"):
        target = fields.get(key)
        if isinstance(target, str) and not target.startswith("#"):
            return because("it refers to something outside itself")
    return next(filter(None, (_strange(item, depth + 1) for item in fields.values())), None)


# The library ------------------------------------------------------------------------------------


def _validator(spend: Callable[[], None]) -> Any:  # noqa: ANN401 - a class of the library's
    from jsonschema import Draft202012Validator, validators

    known = cast("Mapping[str, _Keyword]", Draft202012Validator.VALIDATORS)
    kept: dict[str, _Keyword] = {name: known[name] for name in _KEPT}
    kept["additionalProperties"] = _unless_by_pattern(known["additionalProperties"])
    kept |= {"anyOf": _any_of, "oneOf": _any_of, "uniqueItems": _unique}
    made = cast("Any", validators).create(
        meta_schema=Draft202012Validator.META_SCHEMA,
        validators={name: _counted(keyword, spend) for name, keyword in kept.items()},
        type_checker=Draft202012Validator.TYPE_CHECKER,
    )
    # The library's own takes another class, with every keyword, where a part names a `$schema`.
    made.evolve = _evolved
    return made


def _evolved(self: Any, **changes: Any) -> Any:  # noqa: ANN401 - a validator
    import attrs

    return attrs.evolve(self, **changes)


def _counted(keyword: _Keyword, spend: Callable[[], None]) -> _Keyword:
    def errors(*args: Any) -> Iterator[Any]:  # noqa: ANN401 - as the library has it
        spend()
        yield from keyword(*args) or ()

    return errors


def _unless_by_pattern(keyword: _Keyword) -> _Keyword:
    def errors(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ANN401
        if "patternProperties" not in schema:
            yield from keyword(validator, value, instance, schema) or ()

    return errors


def _any_of(validator: Any, branches: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ANN401
    from jsonschema import ValidationError

    del schema
    # The library's own keeps every error of every branch.
    if not any(next(validator.descend(instance, each), None) is None for each in branches):
        yield ValidationError(because("it fits none of the allowed forms"))


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ANN401
    from jsonschema import ValidationError

    del validator, schema
    # The library's own compares each item with each.
    if wanted and isinstance(instance, list):
        items = cast("list[Any]", instance)
        if len({canonical_json(item) for item in items}) < len(items):
            yield ValidationError(because("it contains something twice"))
