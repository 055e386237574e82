"""The JSON schema that the answer of a run has to fit, as the user of this machine wrote it.

It is the user's own, and says all that JSON Schema can say; but nothing outside of it is fetched.
"""

import json
from typing import Any, cast

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.strict_json import loads

MOST = 64 << 10
"""Bytes of a schema: it goes to a model, and some models read no more than that."""
_MOST_ERRORS, _LONGEST = 5, 300


class AnswerSchema:
    """A schema that was read and is one."""

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
            raise InvalidMessage(
                "it has {count} bytes, and at most {most} are allowed; shorten it",
                count=len(text),
                most=MOST,
            )
        schema: Any = loads(text)
        if not isinstance(schema, dict):
            raise InvalidMessage("it must be a JSON object")
        self._schema = cast("dict[str, Any]", schema)
        _check_references(self._schema)
        self._validator: Any = validator_for(self._schema, default=Draft202012Validator)
        try:
            self._validator.check_schema(self._schema)
        except SchemaError as error:
            raise InvalidMessage(f"{error.json_path}: {error.message}"[:_LONGEST]) from None
        # What its references do not lead to is found before anything is asked.
        self.problems_of({})

    def __str__(self) -> str:
        """The schema as JSON, on one line."""
        return json.dumps(self._schema, ensure_ascii=False)

    def problems_of(self, value: object) -> list[str]:
        """Where a value does not fit, the first few, as `where: what`; none: it fits.

        Raises:
            InvalidMessage: the schema cannot be followed.
        """
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        # Without a registry of its own the library asks the network.
        nothing: Registry[Any] = Registry()
        try:
            found = list(self._validator(self._schema, registry=nothing).iter_errors(value))
        except (Unresolvable, RecursionError) as error:
            raise InvalidMessage(f"its references cannot be followed: {error}"[:_LONGEST]) from None
        return [f"{each.json_path}: {each.message}"[:_LONGEST] for each in found[:_MOST_ERRORS]]


def _check_references(schema: object) -> None:
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            _check_references(each)
    if not isinstance(schema, dict):
        return
    fields = cast("dict[str, Any]", schema)
    reference = fields.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise InvalidMessage(
            "the reference {reference} leads out of the file; begin it with #", reference=reference
        )
    for each in fields.values():
        _check_references(each)
