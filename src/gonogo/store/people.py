"""Principals, tokens, and the answers kept for repeated requests."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select

from gonogo.store._rows import change, put, rows
from gonogo.store._schema import answers, principals, tokens

_PRINCIPAL = select(principals).where(principals.c.id == bindparam("of"))
_BY_SECRET = select(tokens).where(
    tokens.c.secret_hash == bindparam("secret_hash"), tokens.c.revoked_at.is_(None)
)
_TOKENS = select(tokens).order_by(tokens.c.created_at, tokens.c.id)
_ANSWER = select(answers.c.request_digest, answers.c.answer).where(
    answers.c.principal_id == bindparam("principal_id"), answers.c.key == bindparam("key")
)


def keep_principal(conn: Connection, principal_id: str, name: str, now: datetime) -> None:
    """Insert a principal if it is new."""
    if not rows(conn, _PRINCIPAL, {"of": principal_id}):
        put(conn, principals, {"id": principal_id, "name": name, "created_at": now})


def add_token(conn: Connection, row: dict[str, Any]) -> None:
    """Insert a token: the hash of its secret, never the secret."""
    put(conn, tokens, row)


def token_by_secret(conn: Connection, secret_hash: str) -> Any:  # noqa: ANN401 - a row or None
    """The row of the token whose secret has that hash, unless it is revoked."""
    found = rows(conn, _BY_SECRET, {"secret_hash": secret_hash})
    return found[0] if found else None


def list_tokens(conn: Connection) -> list[Any]:
    """Every token's row, revoked ones too."""
    return rows(conn, _TOKENS, {})


def revoke_token(conn: Connection, token_id: str, now: datetime) -> bool:
    """Revoke a token. False when there is none."""
    return change(conn, tokens, {"id": token_id}, {"revoked_at": now})


def kept_answer(conn: Connection, principal_id: str, key: str) -> Any:  # noqa: ANN401
    """The row `(request_digest, answer)` of an earlier request with that key, or None."""
    found = rows(conn, _ANSWER, {"principal_id": principal_id, "key": key})
    return found[0] if found else None


def keep_answer(conn: Connection, row: dict[str, Any]) -> None:
    """Keep an answer for a repeat of its request; the first one stays."""
    if kept_answer(conn, row["principal_id"], row["key"]) is None:
        put(conn, answers, row)
