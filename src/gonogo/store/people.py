"""Principals, tokens, and the answers kept for repeated requests."""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, or_, select, union_all

from gonogo.domain.identity import Sight
from gonogo.store._rows import change, put, rows
from gonogo.store._schema import answers, approvals, plans, principals, sessions, tokens
from gonogo.store._types import Clean, Utc

_NAMES = select(principals.c.id, principals.c.name).where(
    principals.c.id.in_(bindparam("ids", expanding=True))
)
_BY_SECRET = select(tokens).where(
    tokens.c.secret_hash == bindparam("secret_hash"), tokens.c.revoked_at.is_(None)
)
_TOKENS = select(tokens).order_by(tokens.c.created_at, tokens.c.id)
_STANDING = (
    select(principals.c.id, principals.c.name, func.max(tokens.c.role).label("role"))
    .join(tokens, tokens.c.principal_id == principals.c.id)
    .where(
        or_(principals.c.id == bindparam("who"), principals.c.name == bindparam("who")),
        tokens.c.revoked_at.is_(None),
    )
    .group_by(principals.c.id, principals.c.name)
    .order_by(principals.c.id)
)
_SIGHT = select(principals.c.id, principals.c.name, principals.c.sight).where(
    principals.c.id == bindparam("who")
)
_NAMED = re.compile(
    r'"session_id": ?"([^"\\\\]+)"|\b((?:plan|appr)_[0-9a-f]{32}|(?<=/sessions/)[\w.:-]+)'
)
_IDS = bindparam("ids", type_=Clean(), expanding=True)
_WHOSE = union_all(
    select(sessions.c.id.label("session_id")).where(sessions.c.id.in_(_IDS)),
    select(plans.c.session_id).where(plans.c.id.in_(_IDS)),
    select(approvals.c.session_id).where(approvals.c.id.in_(_IDS)),
)
_FORGET = delete(answers).where(answers.c.created_at < bindparam("before", type_=Utc()))
_ANSWER = select(answers.c.request_digest, answers.c.answer).where(
    answers.c.principal_id == bindparam("principal_id"), answers.c.key == bindparam("key")
)


def keep_principal(conn: Connection, principal_id: str, name: str, now: datetime) -> bool:
    """Insert a principal if it is new. False when it is not."""
    if names(conn, [principal_id]):
        return False
    put(conn, principals, {"id": principal_id, "name": name, "created_at": now})
    return True


def rename_principal(conn: Connection, principal_id: str, name: str) -> None:
    """Change the name that a principal is shown under."""
    change(conn, principals, {"id": principal_id}, {"name": name})


def names(conn: Connection, ids: Iterable[str]) -> dict[str, str]:
    """The names of those principals that are known."""
    found = rows(conn, _NAMES, {"ids": sorted(set(ids))})
    return {row.id: row.name for row in found}


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


def standing(conn: Connection, who: str) -> Any:  # noqa: ANN401 - a row or None
    """The row `(id, name, role)` of who has a token now, by id or by a name that only one has.

    The role is the highest of their tokens.
    """
    found = rows(conn, _STANDING, {"who": who})
    own = [row for row in found if row.id == who]
    return own[0] if own else found[0] if len(found) == 1 else None


def keep_sight(conn: Connection, principal_id: str, sight: Sight) -> None:
    """Note how somebody of a provider was seen; nothing where nobody has that id."""
    told = {"issuer": sight.issuer, "words": list(sight.words), "at": sight.at.isoformat()}
    change(conn, principals, {"id": principal_id}, {"sight": told})


def last_sight(conn: Connection, principal_id: str) -> tuple[str, Sight] | None:
    """The name of somebody of a provider, and how they were seen last."""
    found = rows(conn, _SIGHT, {"who": principal_id})
    kept = found[0].sight if found else None
    if kept is None:
        return None
    at = datetime.fromisoformat(kept["at"])
    return found[0].name, Sight(issuer=kept["issuer"], words=tuple(kept["words"]), at=at)


def kept_answer(conn: Connection, principal_id: str, key: str) -> Any:  # noqa: ANN401
    """The row `(request_digest, answer)` of an earlier request with that key, or None."""
    found = rows(conn, _ANSWER, {"principal_id": principal_id, "key": key})
    return found[0] if found else None


def keep_answer(conn: Connection, row: dict[str, Any], about: str = "") -> None:
    """Keep an answer for a repeat of its request; the first one stays.

    One about a session that is gone is not kept.

    Args:
        about: What was asked, such as a path: it may name the session, as the answer may.
    """
    named = {match[0] or match[1] for match in _NAMED.findall(f"{about} {_said(row['answer'])}")}
    found = rows(conn, _WHOSE, {"ids": sorted(named)}) if named else []
    if named and not found:
        return
    if kept_answer(conn, row["principal_id"], row["key"]) is None:
        put(conn, answers, {**row, "session_id": found[0].session_id if found else None})


def forget_answers(conn: Connection, before: datetime) -> int:
    """Forget the answers to requests from before a time. Gives how many there were."""
    return conn.execute(_FORGET, {"before": before}).rowcount


def _said(answer: dict[str, Any]) -> str:
    """An answer as a text in which ids are found, also in what it holds as JSON."""
    return " ".join([json.dumps(answer), *(each for each in answer.values() if type(each) is str)])
