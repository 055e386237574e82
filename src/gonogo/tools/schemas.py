"""JSON Schemas: those that strangers wrote, and the one that the answer of a run has to fit."""

import json
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from time import thread_time
from typing import Any, NoReturn, cast

from gonogo.domain.base import canonical_json, check_text, loads
from gonogo.domain.errors import InvalidMessage, Reason, because

# JSON Schemas that strangers wrote: what is no schema, and what does not fit one.
#
# A schema can be written so that checking against it takes for ever. So nothing is looked up
# outside of it, what would look at a value more than once is left out, and checks have so much CPU
# time and no more. What is left out only lets more through: a server checks its arguments itself
# anyway. That is why `not` and `if` are left out as well, and of `oneOf` several may fit: they
# would refuse what does fit as soon as something below them is left out.

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


# The JSON schema that the answer of a run has to fit, as the user of this machine wrote it.
#
# It is the user's own, and says all that JSON Schema can say; but nothing outside of it is fetched.

MOST = 64 << 10
"""Bytes of a schema: it goes to a model, and some models read no more than that."""
_MOST_ERRORS, _LONGEST = 5, 300
_SECONDS = 5
"""That a value may take: a pattern or references can take for ever."""
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


class AnswerSchema:
    """A schema that was read and is one; only the main thread uses it, which alone has an alarm."""

    def __init__(self, text: bytes) -> None:
        """Read it.

        Raises:
            InvalidMessage: it is no JSON, no schema, too long, or refers to what is elsewhere.
            TooLarge: it is nested too deep.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for

        if len(text) > MOST:
            raise InvalidMessage("it has more than {most} bytes; shorten it", most=MOST)
        schema: Any = loads(text)
        if not isinstance(schema, dict):
            raise InvalidMessage("it must be a JSON object")
        self._schema = cast("dict[str, Any]", schema)
        if not isinstance(self._schema.get("$schema", ""), str):
            raise InvalidMessage(
                "$schema must be the address of a version of JSON Schema, such as "
                "https://json-schema.org/draft/2020-12/schema"
            )
        self._validator: Any = validator_for(self._schema, default=Draft202012Validator)
        try:
            with _in_time():
                self._validator.check_schema(self._schema)
                _check_references(self._schema)
        except SchemaError as error:
            raise InvalidMessage(f"{error.json_path}: {error.message}"[:_LONGEST]) from None
        # Those that go round in a circle are found before anything is asked.
        self.problems_of({})

    def __str__(self) -> str:
        """The schema as JSON, on one line."""
        return json.dumps(self._schema, ensure_ascii=False)

    def problems_of(self, value: object) -> list[str]:
        """Where a value does not fit, the first few, as `where: what`; none: it fits.

        Raises:
            InvalidMessage: the schema cannot be followed, or not in a few seconds.
        """
        from referencing import Registry

        # Without a registry of its own the library asks the network.
        nothing: Registry[Any] = Registry()
        with _in_time():
            errors: Any = self._validator(self._schema, registry=nothing).iter_errors(value)
            found: list[Any] = [*islice(errors, _MOST_ERRORS)]
        return [f"{each.json_path}: {each.message}"[:_LONGEST] for each in found]


@contextmanager
def _in_time() -> Generator[None]:
    """Have what is done inside end, whatever a schema says, and its failures be the schema's."""
    from jsonschema.exceptions import SchemaError

    before = signal.signal(signal.SIGALRM, _out_of_time)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    except (InvalidMessage, SchemaError):
        raise
    except Exception as error:
        # The library raises whatever it stumbles over in what is no schema.
        raise InvalidMessage(
            "it cannot be used: {error}; correct it", error=str(error)[:_LONGEST]
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _out_of_time(number: int, frame: object) -> NoReturn:
    del number, frame
    raise InvalidMessage(
        "checking a value takes more than {seconds} seconds; simplify the patterns and references",
        seconds=_SECONDS,
    )


def _check_references(schema: dict[str, Any]) -> None:
    """Check that each reference leads to a schema in the same file."""
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012, specification_with

    kind: Any = specification_with(schema.get("$schema", ""), default=DRAFT202012)
    root = kind.create_resource(schema)
    address = root.id() or ""
    known: Registry[Any] = Registry()
    left: list[tuple[Any, Any]] = [(root, known.with_resource(address, root).resolver(address))]
    seen = set[int]()
    while left:
        resource, resolver = left.pop()
        fields: Any = resource.contents
        if not hasattr(fields, "keys") or id(fields) in seen:
            continue
        seen.add(id(fields))
        found = _referred(fields, resolver)
        left += [(kind.create_resource(each.contents), each.resolver) for each in found]
        left += [(each, resolver.in_subresource(each)) for each in resource.subresources()]


def _referred(fields: dict[str, Any], resolver: Any) -> Iterator[Any]:  # noqa: ANN401 - the library's
    """What a schema refers to."""
    for name in _REFERENCES & fields.keys():
        reference = str(fields[name])
        if not reference.startswith("#"):
            raise InvalidMessage(
                "the reference {reference} leads out of the file; begin it with #",
                reference=reference[:_LONGEST],
            )
        found = resolver.lookup(reference)
        if not isinstance(found.contents, dict | bool):
            raise InvalidMessage(
                "{reference} does not refer to a schema; correct the reference",
                reference=reference[:_LONGEST],
            )
        yield found
