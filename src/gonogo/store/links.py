"""Links that decide: made, used once, ended."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, select, update

from gonogo.domain.reviews import Link
from gonogo.store._desk_schema import links
from gonogo.store._rows import by, columns_of, many, one, put, row_of

_OPEN = (
    select(*columns_of(links, Link))
    .where(
        links.c.approval_id == bindparam("of"),
        links.c.used_at.is_(None),
        links.c.revoked_at.is_(None),
    )
    .order_by(links.c.id)
)
_GOOD = update(links).where(
    links.c.id == bindparam("of"), links.c.used_at.is_(None), links.c.revoked_at.is_(None)
)
_USE = _GOOD.values(used_at=bindparam("at"))
_REVOKE = _GOOD.values(revoked_at=bindparam("at"))


def add_link(conn: Connection, link: Link) -> None:
    """Insert a link."""
    put(conn, links, row_of(link))


def link_of(conn: Connection, link_id: str) -> Link | None:
    """The link of that id."""
    return one(conn, by(links, Link, "id"), {"id": link_id}, Link)


def open_links(conn: Connection, approval_id: str) -> list[Link]:
    """The links of a question that were neither used nor revoked."""
    return many(conn, _OPEN, {"of": approval_id}, Link)


def use_link(conn: Connection, link_id: str, now: datetime) -> bool:
    """Spend a link. False when that was done before, or it was revoked."""
    return conn.execute(_USE, {"of": link_id, "at": now}).rowcount == 1


def revoke_link(conn: Connection, link_id: str, now: datetime) -> bool:
    """End a link. False when it was used or ended before."""
    return conn.execute(_REVOKE, {"of": link_id, "at": now}).rowcount == 1
