"""Tools of foreign servers: their names here, and what was seen of them over time.

What people allowed was allowed for a tool as it was then. Each time that a server describes a tool
in other words than before is written down; what was allowed earlier counts no more, until an
operator accepts the new words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

PREFIX = "mcp__"
MOST_NAME = 64
"""Characters of a whole name; models' providers take no more."""
MOST_CHANGES = 20
"""Changes of one tool within a day that nobody has accepted."""
MOST_SEEN = 1_000
"""Tools of one server that were ever seen."""
_DAY = timedelta(days=1)
_SERVER = re.compile(r"[a-z0-9](?:[a-z0-9-]|_(?!_)){0,30}")
_TOOL = re.compile(r"[a-z0-9_-]+")


def server_problem(name: str) -> str | None:
    """Why a server cannot have a name, if it cannot."""
    if _SERVER.fullmatch(name) and not name.endswith("_"):
        return None
    return "a server's name has small letters, digits, - and single _, up to 31, no _ at its ends"


def tool_problem(server: str, tool: str) -> str | None:
    """Why a server's tool cannot have a name here, if it cannot."""
    if not _TOOL.fullmatch(tool):
        return "a tool's name has small letters, digits, - and _, and nothing else"
    if len(foreign_name(server, tool)) > MOST_NAME:
        return f"{PREFIX}{server}__ and the tool's name are longer than {MOST_NAME} together"
    return None


def foreign_name(server: str, tool: str) -> str:
    """A server's tool as agents, plans and rules call it."""
    return f"{PREFIX}{server}__{tool}"


def server_of(name: str) -> str | None:
    """The server that a tool's name speaks of; None: it is one of ours."""
    if not name.startswith(PREFIX):
        return None
    server, between, tool = name.removeprefix(PREFIX).partition("__")
    return server if between and tool else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A tool as its server described it from a moment on."""

    name: str
    position: int
    digest: str
    """Of the definition; part of what an approval of a call binds."""
    definition: dict[str, Any]
    """`{name, description, parameters}`; empty where a later one took its place."""
    seen_at: datetime
    accepted_at: datetime | None
    accepted_by: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What was seen of one tool, oldest first; at least once."""

    sightings: Sequence[Sighting]

    @property
    def now(self) -> Sighting:
        """The tool as it is."""
        return self.sightings[-1]

    @property
    def accepted(self) -> bool:
        """Whether the tool as it is was accepted: at first sight, or by an operator."""
        return any(s.accepted_at and s.digest == self.now.digest for s in self.sightings)

    @property
    def as_accepted(self) -> Sighting | None:
        """The tool as it was accepted last."""
        return next((seen for seen in reversed(self.sightings) if seen.accepted_at), None)

    def covers(self, made_at: datetime) -> bool:
        """Whether what was allowed at a moment was allowed for the tool as it is."""
        before = [s for s in self.sightings if s.seen_at <= made_at]
        return self.accepted or bool(before and before[-1].digest == self.now.digest)

    def is_restless(self, now: datetime) -> bool:
        """Whether it has changed so often that nobody can say what they allow."""
        unread = takewhile(lambda seen: not seen.accepted_at, reversed(self.sightings))
        return sum(now - seen.seen_at < _DAY for seen in unread) >= MOST_CHANGES

    @property
    def changed(self) -> tuple[str, ...]:
        """What is not as it was accepted: `description`, `parameters`, or both."""
        if self.accepted:
            return ()
        last = self.as_accepted
        old, new = last.definition if last else {}, self.now.definition
        return tuple(part for part in ("description", "parameters") if old.get(part) != new[part])
