"""Ids, languages and moments in requests."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, StringConstraints

from gonogo.domain.messages import ID, possible

Name = Annotated[str, AfterValidator(possible)]
"""An id in a path: what cannot be an id is answered like one that is not known."""
Filter = Annotated[str | None, StringConstraints(pattern=ID)]
"""An id in a query."""
LANGUAGE = r"^[A-Za-z]{2}(-[A-Za-z]{2})?$"
Language = Annotated[str | None, StringConstraints(pattern=LANGUAGE)]
"""A language in a query or a body."""


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this is in no year from 1 to 9999") from None


Moment = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_in_utc)]
"""A time, of whatever zone it was written in."""


class Page(BaseModel):
    """Which part of a long list is shown."""

    limit: Annotated[int, Query(ge=1, le=500)] = 50
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0
