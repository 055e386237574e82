"""Who is signed in with a browser, kept by the hash of the secret that its cookie holds."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, select

from gonogo.domain.identity import Login
from gonogo.store._desk_schema import logins
from gonogo.store._rows import change, columns_of, one, put, row_of
from gonogo.store._schema import tokens

KEPT = 50
"""Logins of one principal; the oldest give way."""
_FIND = (
    select(*columns_of(logins, Login))
    .outerjoin(tokens, tokens.c.id == logins.c.token_id)
    .where(
        logins.c.secret_hash == bindparam("secret_hash"),
        logins.c.expires_at > bindparam("now"),
        tokens.c.revoked_at.is_(None),
    )
)
_EXPIRED = delete(logins).where(logins.c.expires_at <= bindparam("now"))
_NEWEST = (
    select(logins.c.secret_hash)
    .where(logins.c.principal_id == bindparam("of"))
    .order_by(logins.c.created_at.desc(), logins.c.secret_hash)
    .limit(KEPT)
)
_OLDEST = delete(logins).where(
    logins.c.principal_id == bindparam("of"), logins.c.secret_hash.not_in(_NEWEST)
)
_END = delete(logins).where(logins.c.secret_hash == bindparam("of"))


def begin(conn: Connection, login: Login) -> None:
    """Keep a login; those that are over, or too many, go."""
    put(conn, logins, row_of(login))
    conn.execute(_EXPIRED, {"now": login.created_at})
    conn.execute(_OLDEST, {"of": login.principal_id})


def find(conn: Connection, secret_hash: str, now: datetime) -> Login | None:
    """The login with that secret, unless it is over or its token was revoked."""
    return one(conn, _FIND, {"secret_hash": secret_hash, "now": now}, Login)


def renew(conn: Connection, secret_hash: str, until: datetime) -> None:
    """Have a login last longer; one that ended meanwhile stays so."""
    change(conn, logins, {"secret_hash": secret_hash}, {"expires_at": until})


def end(conn: Connection, secret_hash: str) -> None:
    """End a login; one that is over already is no error."""
    conn.execute(_END, {"of": secret_hash})
