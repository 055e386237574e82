"""What every value that crosses a border is: immutable, and strict about its fields."""

from functools import cache
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator
from pydantic_core import to_jsonable_python

ID = r"^[A-Za-z0-9_.:-]{1,128}$"
Id = Annotated[str, StringConstraints(pattern=ID, strict=True)]
Text = Annotated[str, StringConstraints(strict=True)]


class Frozen(BaseModel):
    """A value that crosses a process boundary: immutable, and strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class View(BaseModel):
    """An immutable body."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Request(BaseModel):
    """A message from a client: immutable, no unknown fields, no coercion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
    nulls: ClassVar[frozenset[str]] = frozenset()
    """The fields of which null is a value."""


class LenientRequest(Request):
    """A message, or a decision by any path: a field that is null was left out."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, fields: Any) -> Any:  # noqa: ANN401 - as a stranger wrote it
        if not isinstance(fields, dict):
            return fields
        given = cast("dict[str, Any]", fields)
        return {n: value for n, value in given.items() if value is not None or n in cls.nulls}


class Fact(BaseModel):
    """A part of an event: immutable, open to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    def body(self) -> dict[str, Any]:
        """It as it is stored and sent, without what the store adds."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def plain(cls, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
        """What `body` gives, of JSON values that are known to be right: nobody looks at them.

        It takes a tenth of the time. A test compares what is told so with what its class gives.

        Raises:
            TypeError: it has no such field.
        """
        names, defaults = _form(cls, tuple(fields))
        said = {**defaults, **fields}
        return {name: value for name in names if (value := said[name]) is not None}


def plain_json(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """A value as a field of any type has it: what JSON cannot say becomes what it can."""
    return to_jsonable_python(value, inf_nan_mode="null")


@cache
def _form(fact: type[Fact], given: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The fields that may be there where those are given, in their order, and their defaults."""
    if unknown := {*given} - fact.model_fields.keys():
        raise TypeError(f"{fact.__name__} has no {', '.join(sorted(unknown))}")
    fields = fact.model_fields.items()
    defaults = {name: f.default for name, f in fields if not f.is_required()}
    names = (name for name in fact.model_fields if name in given or defaults.get(name) is not None)
    return tuple(names), defaults
