"""What every value that crosses a border is: immutable, and strict about its fields."""

from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

ID = r"^[A-Za-z0-9_.:-]{1,128}$"
Id = Annotated[str, StringConstraints(pattern=ID, strict=True)]
Text = Annotated[str, StringConstraints(strict=True)]
Filter = Annotated[str | None, StringConstraints(pattern=ID)]
"""An id in a query."""


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


class Page(BaseModel):
    """Which part of a long list is asked for."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    offset: Annotated[int, Field(ge=0, lt=2**31)] = 0
