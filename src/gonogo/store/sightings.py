"""What was seen of the tools of foreign servers: appended, accepted, never changed."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from gonogo.domain.tool_calls import Sighting, Standing
from gonogo.store import log
from gonogo.store._desk_schema import sightings
from gonogo.store._rows import columns_of, many, row_of

FIRST = "first sight"
"""Who accepts a tool that was never seen before."""
_ALL = select(*columns_of(sightings, Sighting)).order_by(sightings.c.name, sightings.c.position)
_OF = _ALL.where(sightings.c.name == bindparam("of"))
_ACCEPT = (
    update(sightings)
    .where(
        sightings.c.name == bindparam("of"),
        sightings.c.position == bindparam("at"),
        sightings.c.accepted_at.is_(None),
    )
    .values(accepted_at=bindparam("now"), accepted_by=bindparam("by"))
)
_KEPT = 50
"""Sightings of one tool; of those that are older only the accepted ones stay."""
_FORGET = delete(sightings).where(
    sightings.c.name == bindparam("of"),
    sightings.c.position <= bindparam("up_to"),
    sightings.c.accepted_at.is_(None),
)
# Two texts are compared: the tool as it is, and as it was accepted last.
_STRIP = (
    update(sightings)
    .where(
        sightings.c.name == bindparam("of"),
        sightings.c.position.not_in([bindparam("now"), bindparam("accepted")]),
    )
    .values(definition={})
)
_COUNT = select(func.count(sightings.c.name.distinct())).where(
    func.substr(sightings.c.name, 1, bindparam("length")) == bindparam("start")
)
# Not asked first: another process may see the same change at the same time.
_KEEP = {
    "sqlite": sqlite.insert(sightings).on_conflict_do_nothing().returning(sightings.c.name),
    "postgresql": postgresql.insert(sightings).on_conflict_do_nothing().returning(sightings.c.name),
}


def standing_of(conn: Connection, name: str) -> Standing | None:
    """What was seen of a tool; None: nothing yet."""
    found = many(conn, _OF, {"of": name}, Sighting)
    return Standing(found) if found else None


def all_standings(conn: Connection) -> dict[str, Standing]:
    """What was seen of every tool, by name."""
    found: dict[str, list[Sighting]] = {}
    for sighting in many(conn, _ALL, {}, Sighting):
        found.setdefault(sighting.name, []).append(sighting)
    return {name: Standing(several) for name, several in found.items()}


def sight(
    conn: Connection, name: str, digest: str, definition: Mapping[str, Any], now: datetime
) -> Standing:
    """Write down how a tool is described, if that is not as it was seen last."""
    standing = standing_of(conn, name)
    if standing is not None and standing.now.digest == digest:
        return standing
    seen = Sighting(
        name=name, position=1 if standing is None else standing.now.position + 1, digest=digest,
        definition=dict(definition), seen_at=now, accepted_at=None, accepted_by=None,
    )  # fmt: skip
    if standing is None:
        seen = replace(seen, accepted_at=now, accepted_by=FIRST)
    if conn.execute(_KEEP[conn.dialect.name], row_of(seen)).first() is not None:
        log.note(
            conn, log.SYSTEM, now, actor="gonogo", subject=name, digest=digest,
            action="tool.seen" if standing is None else "tool.changed",
            before=None if standing is None else standing.now.digest,
        )  # fmt: skip
        conn.execute(_FORGET, {"of": name, "up_to": seen.position - _KEPT})
        kept = (standing and standing.as_accepted) or seen
        conn.execute(_STRIP, {"of": name, "now": seen.position, "accepted": kept.position})
    found = standing_of(conn, name)
    assert found is not None  # noqa: S101 - it is there, by us or by another process
    return found


def count_seen(conn: Connection, start: str) -> int:
    """How many tools were ever seen whose names begin so."""
    return conn.execute(_COUNT, {"start": start, "length": len(start)}).scalar_one()


def accept(conn: Connection, sighting: Sighting, by: str, now: datetime, *, actor: str) -> bool:
    """Have a tool count as it was seen. False when somebody accepted that meanwhile.

    Args:
        by: The name of whoever accepts it.
        actor: Their id.
    """
    where = {"of": sighting.name, "at": sighting.position}
    if conn.execute(_ACCEPT, {**where, "now": now, "by": by}).rowcount == 0:
        return False
    log.note(
        conn, log.SYSTEM, now, actor=actor, action="tool.accepted", subject=sighting.name,
        digest=sighting.digest,
    )  # fmt: skip
    return True
