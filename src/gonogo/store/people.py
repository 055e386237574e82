"""Principals, their tokens and logins, and the seen versions of tools of other servers."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Executable, bindparam, delete, exists, func, or_, select, union_all, update

from gonogo.domain.identity import Login, Principal, Role, Sight
from gonogo.domain.reviews import reviewer_name
from gonogo.domain.tool_calls import Sighting, ToolHistory
from gonogo.store import events as log
from gonogo.store.columns import Clean, Utc
from gonogo.store.rows import by, change, insert_for, many, one, put, row_of, rows, same
from gonogo.store.schema import (
    answers,
    approvals,
    login_codes,
    logins,
    plans,
    principals,
    sessions,
    sightings,
    tokens,
)
from gonogo.store.transaction import Tx

OWNER = Principal(id="local", name="local", role=Role.ADMIN)
"""The person who works on the machine with the state folder, and needs no token."""

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
    *same(answers, "principal_id", "key")
)


def keep_principal(tx: Tx, principal_id: str, name: str) -> bool:
    """Insert a principal if it is new. False: it is not new."""
    if names(tx, [principal_id]):
        return False
    put(tx, principals, {"id": principal_id, "name": name, "created_at": tx.now})
    return True


def rename_principal(tx: Tx, principal_id: str, name: str) -> None:
    """Change the name that a principal is shown under."""
    change(tx, principals, {"id": principal_id}, {"name": name})


def names(tx: Tx, ids: Iterable[str]) -> dict[str, str]:
    """The names of those principals that are known."""
    found = rows(tx, _NAMES, {"ids": sorted(set(ids))})
    return {row.id: row.name for row in found}


def name_of(tx: Tx, principal_id: str) -> str:
    """The name of a principal; if it is not known, one made from their id."""
    if principal_id == OWNER.id:
        return OWNER.name
    return names(tx, [principal_id]).get(principal_id) or reviewer_name(principal_id)


def add_token(tx: Tx, row: dict[str, Any]) -> None:
    """Insert a token: the hash of its secret, never the secret."""
    put(tx, tokens, row)


def token_by_secret(tx: Tx, secret_hash: str) -> Any:  # noqa: ANN401 - a row or None
    """The row of the token whose secret has that hash, unless it is revoked."""
    found = rows(tx, _BY_SECRET, {"secret_hash": secret_hash})
    return found[0] if found else None


def list_tokens(tx: Tx) -> list[Any]:
    """Every token's row, revoked ones too."""
    return rows(tx, _TOKENS, {})


def revoke_token(tx: Tx, token_id: str) -> bool:
    """Revoke a token. False when there is none."""
    return change(tx, tokens, {"id": token_id}, {"revoked_at": tx.now})


def standing(tx: Tx, who: str) -> Any:  # noqa: ANN401 - a row or None
    """The row `(id, name, role)` of a principal who has a token now, by id or by a unique name.

    The role is the highest one of their tokens.
    """
    found = rows(tx, _STANDING, {"who": who})
    own = [row for row in found if row.id == who]
    return own[0] if own else found[0] if len(found) == 1 else None


def keep_sight(tx: Tx, principal_id: str, sight: Sight) -> None:
    """Store what an identity provider last said of a person; nothing if nobody has that id."""
    told = {"issuer": sight.issuer, "words": list(sight.words), "at": sight.at.isoformat()}
    change(tx, principals, {"id": principal_id}, {"sight": told})


def last_sight(tx: Tx, principal_id: str) -> tuple[str, Sight] | None:
    """The name of a person, and what an identity provider last said of them."""
    found = rows(tx, _SIGHT, {"who": principal_id})
    kept = found[0].sight if found else None
    if kept is None:
        return None
    at = datetime.fromisoformat(kept["at"])
    return found[0].name, Sight(issuer=kept["issuer"], words=tuple(kept["words"]), at=at)


def kept_answer(tx: Tx, principal_id: str, key: str) -> Any:  # noqa: ANN401
    """The row `(request_digest, answer)` of an earlier request with that key, or None."""
    found = rows(tx, _ANSWER, {"principal_id": principal_id, "key": key})
    return found[0] if found else None


def keep_answer(tx: Tx, row: dict[str, Any], about: str = "") -> None:
    """Keep an answer for a repeat of its request; the first answer stays.

    An answer about a session that is gone is not kept.

    Args:
        about: The request, such as its path: the session may be named there, or in the answer.
    """
    named = {match[0] or match[1] for match in _NAMED.findall(f"{about} {_said(row['answer'])}")}
    found = rows(tx, _WHOSE, {"ids": sorted(named)}) if named else []
    if named and not found:
        return
    if kept_answer(tx, row["principal_id"], row["key"]) is None:
        whose = found[0].session_id if found else None
        put(tx, answers, {**row, "session_id": whose, "created_at": tx.now})


def forget_answers(tx: Tx, before: datetime) -> int:
    """Forget the answers to requests from before a time, and return how many there were."""
    return tx.execute(_FORGET, {"before": before}).rowcount


def _said(answer: dict[str, Any]) -> str:
    """An answer as a text to find ids in, including those within strings that are JSON."""
    return " ".join([json.dumps(answer), *(each for each in answer.values() if type(each) is str)])


# Logins with a browser, stored by the hash of the secret in the browser's cookie.

KEPT = 50
"""How many logins of one principal are kept; the oldest ones are deleted."""
_FIND = (
    by(logins, Login, "secret_hash")
    .outerjoin(tokens, tokens.c.id == logins.c.token_id)
    .where(logins.c.expires_at > bindparam("now"), tokens.c.revoked_at.is_(None))
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
LASTS = timedelta(days=1)
"""How long an unused login lasts."""
_LONG = timedelta(hours=1)
"""Longer than any code lasts."""
_TOO_LONG = (
    update(logins)
    .where(logins.c.expires_at > bindparam("until"))
    .values(expires_at=bindparam("until"))
)
_AHEAD = update(logins).where(logins.c.created_at > bindparam("at")).values(
    created_at=bindparam("at")
)  # fmt: skip
_CODES_AHEAD = delete(login_codes).where(login_codes.c.expires_at > bindparam("until"))
IS_LOGIN_AHEAD = (
    exists().where(logins.c.created_at > bindparam("later"))
    | exists().where(logins.c.expires_at > bindparam("until"))
    | exists().where(login_codes.c.expires_at > bindparam("code"))
)
"""Whether a login begins in the future, or a login or code lasts too long: a clock was ahead."""


def begin(tx: Tx, login: Login) -> None:
    """Store a login, and delete those that are over or too many."""
    put(tx, logins, row_of(login))
    tx.execute(_EXPIRED, {"now": login.created_at})
    tx.execute(_OLDEST, {"of": login.principal_id})


def find(tx: Tx, secret_hash: str) -> Login | None:
    """The login with that secret, unless it is over or its token was revoked."""
    return one(tx, _FIND, {"secret_hash": secret_hash, "now": tx.now}, Login)


def renew(tx: Tx, secret_hash: str, until: datetime) -> None:
    """Let a login last longer; a login that ended meanwhile stays ended."""
    change(tx, logins, {"secret_hash": secret_hash}, {"expires_at": until})


def end(tx: Tx, secret_hash: str) -> None:
    """End a login; one that is over already is no error."""
    tx.execute(_END, {"of": secret_hash})


def bounds_of_logins(later: datetime) -> dict[str, datetime]:
    """The parameters of `IS_LOGIN_AHEAD`."""
    return {"later": later, "until": later + LASTS, "code": later + _LONG}


def set_back_logins(tx: Tx) -> None:
    """After the clock was set back, let no login last longer than one that is used now.

    Codes that would last too long are deleted: people can get a new one.
    """
    tx.execute(_TOO_LONG, {"until": tx.now + LASTS})
    tx.execute(_AHEAD, {"at": tx.now})
    tx.execute(_CODES_AHEAD, {"until": tx.now + _LONG})


# Login codes, which let a browser in once; for several servers that share the database.

_TAKE_CODE = delete(login_codes).where(login_codes.c.digest == bindparam("of")).returning(
    login_codes.c.principal_id, login_codes.c.name, login_codes.c.role, login_codes.c.expires_at
)  # fmt: skip
_OLD_CODES = delete(login_codes).where(login_codes.c.expires_at <= bindparam("now"))


def add_login_code(tx: Tx, digest: str, principal: Principal, until: datetime) -> None:
    """Store a code, and delete those that are over."""
    tx.execute(_OLD_CODES, {"now": tx.now})
    who = {"principal_id": principal.id, "name": principal.name, "role": int(principal.role)}
    put(tx, login_codes, {"digest": digest, **who, "expires_at": until})


def take_login_code(tx: Tx, digest: str) -> Principal | None:
    """Use up a code: the principal whom it lets in; None if it is not valid."""
    row = tx.execute(_TAKE_CODE, {"of": digest}).one_or_none()
    if row is None or row.expires_at <= tx.now:
        return None
    return Principal(id=row.principal_id, name=row.name, role=Role(row.role))


# The seen versions of tools of other servers: appended, accepted, never changed.

FIRST = "first sight"
"""The `accepted_by` of a tool's first version, which is accepted automatically."""
_ALL = by(sightings, Sighting).order_by(sightings.c.name, sightings.c.position)
_OF = _ALL.where(*same(sightings, "name"))
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
"""How many sightings of one tool are kept; of older ones only the accepted ones stay."""
_FORGET_EARLIER = delete(sightings).where(
    sightings.c.name == bindparam("of"),
    sightings.c.position <= bindparam("up_to"),
    sightings.c.accepted_at.is_(None),
)
# Only two definitions are ever compared: the current one, and the one that was accepted last.
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


@cache
def _keep(dialect: str) -> Executable:
    # No look before the insert: another process may see the same change at the same time.
    return insert_for(dialect)(sightings).on_conflict_do_nothing().returning(sightings.c.name)


def standing_of(tx: Tx, name: str) -> ToolHistory | None:
    """The seen versions of a tool; None: none yet."""
    found = many(tx, _OF, {"name": name}, Sighting)
    return ToolHistory(found) if found else None


def all_standings(tx: Tx) -> dict[str, ToolHistory]:
    """The seen versions of every tool, by its name."""
    found: dict[str, list[Sighting]] = {}
    for sighting in many(tx, _ALL, {}, Sighting):
        found.setdefault(sighting.name, []).append(sighting)
    return {name: ToolHistory(several) for name, several in found.items()}


def sight(tx: Tx, name: str, digest: str, definition: Mapping[str, Any]) -> ToolHistory:
    """Store the description of a tool, if it differs from the last seen version."""
    standing = standing_of(tx, name)
    if standing is not None and standing.now.digest == digest:
        return standing
    seen = Sighting(
        name=name, position=1 if standing is None else standing.now.position + 1, digest=digest,
        definition=dict(definition), seen_at=tx.now, accepted_at=None, accepted_by=None,
    )  # fmt: skip
    if standing is None:
        seen = replace(seen, accepted_at=tx.now, accepted_by=FIRST)
    if tx.execute(_keep(tx.conn.dialect.name), row_of(seen)).first() is not None:
        log.note(
            tx, log.SYSTEM, actor="gonogo", subject=name, digest=digest,
            action="tool.seen" if standing is None else "tool.changed",
            before=None if standing is None else standing.now.digest,
        )  # fmt: skip
        tx.execute(_FORGET_EARLIER, {"of": name, "up_to": seen.position - _KEPT})
        kept = (standing and standing.as_accepted) or seen
        tx.execute(_STRIP, {"of": name, "now": seen.position, "accepted": kept.position})
    found = standing_of(tx, name)
    assert found is not None  # noqa: S101 - it is there, by us or by another process
    return found


def count_seen(tx: Tx, start: str) -> int:
    """How many tools whose names begin with `start` were ever seen."""
    return tx.execute(_COUNT, {"start": start, "length": len(start)}).scalar_one()


def accept(tx: Tx, sighting: Sighting, by: str, *, actor: str) -> bool:
    """Accept a version of a tool. False: somebody has accepted it already.

    Args:
        by: The name of the person who accepts it.
        actor: Their id.
    """
    where = {"of": sighting.name, "at": sighting.position}
    if tx.execute(_ACCEPT, {**where, "now": tx.now, "by": by}).rowcount == 0:
        return False
    log.note(
        tx, log.SYSTEM, actor=actor, action="tool.accepted", subject=sighting.name,
        digest=sighting.digest,
    )  # fmt: skip
    return True
