"""The JSON schema that the answer of a run has to fit, as the user of this machine wrote it.

It is the user's own, and says all that JSON Schema can say; but nothing outside of it is fetched.
"""

import json
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NoReturn, cast

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.strict_json import loads

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
