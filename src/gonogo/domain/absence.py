"""A model that is away: how long it is waited for, and when it is asked again.

A pure rule over one value, which is kept with what waits (a plan, a turn, a search), so that
waiting takes neither a task nor a thread and goes on over restarts. It is asked seldomer the longer
it is away, and for the last time when patience ends.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gonogo.domain.conversation import Stored
from gonogo.domain.errors import ModelFailed

_FIRST, _MOST = 2.0, 30.0
"""Seconds until a model is asked again: the first time, doubled each time, and at most."""
_YEAR = 366 * 86_400.0
_TOLD = 300
"""Characters of what went wrong that are kept."""


class Absence(Stored):
    """A model that does not answer somebody."""

    since: datetime
    tries: int
    """How often it was asked and did not answer."""
    error: str
    """What went wrong the last time."""
    asked: float = 0.0
    """Seconds after which it wants to be asked again, if it said so."""
    probe: str | None = None
    """Which of those who wait finds out whether it is back."""

    @classmethod
    def after(cls, kept: Mapping[str, Any] | None, error: ModelFailed, now: datetime) -> "Absence":
        """The absence that another failure makes of what is known so far."""
        before = cls.of(kept) if kept else None
        wanted = error.retry_after or 0.0
        return cls(
            since=min(before.since, now) if before else now,
            tries=before.tries + 1 if before else 1,
            error=str(error)[:_TOLD],
            asked=wanted if 0 < wanted < _YEAR else 0.0,
        )

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> "Absence":
        """An absence that was kept."""
        return cls.model_validate(kept)

    def as_json(self) -> dict[str, Any]:
        """The absence as it is kept."""
        return self.model_dump(mode="json")

    def found_out_by(self, probe: str) -> "Absence":
        """The absence while somebody finds out whether it is over."""
        return self.model_copy(update={"probe": probe})

    def ends_at(self, patience: float) -> datetime:
        """When it has lasted for as long as anybody waits.

        Args:
            patience: Seconds.
        """
        return self.since + timedelta(seconds=patience)

    def next_try(self, now: datetime, patience: float) -> datetime | None:
        """When the model is asked again; None once patience is at its end.

        Args:
            patience: Seconds.
        """
        end = self.ends_at(patience)
        if now >= end:
            return None
        pause = max(min(_MOST, _FIRST * 2.0 ** min(self.tries - 1, 10)), self.asked)
        return min(end, now + timedelta(seconds=min(pause, patience)))
