"""Who asks: a principal with a role, and how a token says who that is."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from hashlib import sha256
from typing import Any, Literal, cast

from msgspec import Struct

from gonogo.domain.base import Frozen
from gonogo.domain.errors import Forbidden, NoRole, NotValid
from gonogo.domain.text_safety import visible

RoleWord = Literal["viewer", "operator", "admin"]


class Role(IntEnum):
    """Each role may do what those below it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> RoleWord:
        """The role's name on the wire."""
        return cast("RoleWord", self.name.lower())


class Principal(Frozen):
    """A person or a machine account, as authenticated."""

    id: str
    name: str
    role: Role
    until: datetime | None = None
    """When the credential ends by itself; None: when it is revoked."""

    def require(self, role: Role) -> None:
        """Check that this principal's role is enough.

        Raises:
            Forbidden: it is not.
        """
        if self.role < role:
            raise Forbidden(
                "This needs the role {role}, and {name} has the role {own_role}; ask an admin",
                role=role.word, name=self.name, own_role=self.role.word,
            )  # fmt: skip


class Login(Struct, frozen=True, kw_only=True):
    """Somebody who is signed in with a browser."""

    secret_hash: str
    principal_id: str
    name: str
    role: int
    token_id: str | None
    """The token that was shown; with it the login ends."""
    created_at: datetime
    expires_at: datetime
    """When it is over unless it is used."""
    ends_at: datetime | None
    """When it is over even if it is."""


# What a signed token of an identity provider must say before it counts.
#
# Only asymmetric signatures are known: with a shared secret whoever checks a token could make one.
# Nothing in a token's header is followed (`jku`, `x5u`, `jwk`, `x5c`): keys come from the provider
# that the operator named. The signature itself is checked elsewhere; here is what it covers.

LEEWAY = timedelta(seconds=60)
"""How far the provider's clock may be ahead of ours. None for `exp`: over is over."""
MAX_TOKEN = 16_384
"""Characters that a token may have."""
ALGORITHMS: Mapping[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None), "RS384": ("RSA", None), "RS512": ("RSA", None),
    "PS256": ("RSA", None), "PS384": ("RSA", None), "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"), "Ed25519": ("OKP", "Ed25519"),
}  # fmt: skip
"""The signatures that count, each with the one type and curve of key that it needs."""
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_ID_SHOWN = len("oidc:") + 10
_MAX_NAME, _MAX_SUBJECT, _MAX_KID = 100, 255, 256
_END_OF_TIME = 253_402_300_799


class TokenHeader(Struct, frozen=True, kw_only=True):
    """How a token says that it is signed."""

    algorithm: str
    key_id: str | None


class Expected(Struct, frozen=True, kw_only=True):
    """Whose tokens count, and what their words mean here."""

    issuer: str
    audience: str
    role_claim: str
    roles: Mapping[str, Role]
    """The provider's words → our roles."""
    name_claim: str


class Person(Struct, frozen=True, kw_only=True):
    """Whom a valid token names."""

    id: str
    subject: str
    name: str
    role: Role
    until: datetime
    words: tuple[str, ...] = ()
    """The provider's words that gave the role, and others that count."""

    @property
    def shown(self) -> str:
        """The name with the beginning of the id, since the provider's people choose their names.

        Only the last brackets are ours: a name has none.
        """
        name = self.name.translate({ord("("): "[", ord(")"): "]"})
        return f"{name} ({self.id[:_ID_SHOWN]})"


class Sight(Struct, frozen=True, kw_only=True):
    """How somebody of a provider was when they were here last."""

    issuer: str
    words: tuple[str, ...]
    at: datetime


class Memory(Struct, frozen=True, kw_only=True):
    """What the people of a provider may do while they are not there: what they last could.

    By the mapping of now, for a time, and for people of this provider alone.
    """

    issuer: str
    roles: Mapping[str, Role]
    kept: timedelta

    def role(self, sight: Sight | None, now: datetime) -> Role | None:
        """The role that somebody still has; None: none, or nobody knows."""
        if sight is None or sight.issuer != self.issuer:
            return None
        if not timedelta() <= now - sight.at <= self.kept:
            return None
        return best_role(sight.words, self.roles)


def looks_signed(token: str) -> bool:
    """Whether a credential has the shape of a signed token; ours have no dot."""
    return token.count(".") == 2


def read_head(header: Any) -> TokenHeader:  # noqa: ANN401 - any JSON value
    """Read a token's header.

    Raises:
        NotValid: another kind of signature or token, or something in it that must be understood.
    """
    if not isinstance(header, dict):
        raise NotValid("the header is not an object")
    fields = cast("dict[str, Any]", header)
    algorithm, key_id = fields.get("alg"), fields.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise NotValid("its algorithm is none of those that count")
    if "crit" in fields or "b64" in fields:
        raise NotValid("its header has a part that must be understood and is not")
    kind = fields.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise NotValid("it is a token for something else (typ)")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > _MAX_KID):
        raise NotValid("its kid is not the name of a key")
    return TokenHeader(algorithm=algorithm, key_id=key_id)


def read_claims(claims: Any, expected: Expected, now: datetime) -> Person:  # noqa: ANN401
    """Whom a token names, once its signature was checked.

    Raises:
        NotValid: it is another issuer's, for somebody else, over, or not yet valid.
        NoRole: it gives no role here.
    """
    if not isinstance(claims, dict):
        raise NotValid("its claims are not an object")
    fields = cast("dict[str, Any]", claims)
    _check_origin(fields, expected)
    until = _check_times(fields, now)
    subject = fields.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT:
        raise NotValid("it names nobody (sub)")
    who, words = principal_id(expected.issuer, subject), _mapped(fields, expected)
    role = best_role(words, expected.roles)
    if role is None:
        raise NoRole(who)
    return Person(
        id=who, subject=subject, name=_name(fields, expected) or subject[:_MAX_NAME], role=role,
        until=until, words=words,
    )  # fmt: skip


def best_role(words: Iterable[str], roles: Mapping[str, Role]) -> Role | None:
    """The best of the roles that the provider's words give; None when they give none."""
    return max((roles[word] for word in words if word in roles), default=None)


def principal_id(issuer: str, subject: str) -> str:
    """The id of somebody whom an issuer knows: another issuer's namesake has another one."""
    # Their lengths are told apart: no issuer and subject read as another pair.
    text = f"{len(issuer)}:{issuer}{subject}"
    return "oidc:" + sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def fits(algorithm: str, key: Mapping[str, Any]) -> bool:
    """Whether a public key, as a JWK, may check signatures of that algorithm."""
    kind, curve = ALGORITHMS[algorithm]
    named = key.get("alg")
    same = named is None or named == algorithm or {named, algorithm} == {"EdDSA", "Ed25519"}
    return same and key.get("kty") == kind and (curve is None or key.get("crv") == curve)


def _check_origin(claims: Mapping[str, Any], expected: Expected) -> None:
    if claims.get("iss") != expected.issuer:
        raise NotValid("another issuer made it")
    if expected.audience not in _words(claims.get("aud")):
        raise NotValid("it is for another audience")
    if "cnf" in claims:
        raise NotValid("it is bound to a key that its sender would have to prove (cnf)")


def _check_times(claims: Mapping[str, Any], now: datetime) -> datetime:
    until = _moment(claims, "exp")
    if until is None:
        raise NotValid("it has no end (exp)")
    if until <= now:
        raise NotValid("it has expired", "The token has expired")
    for name in ("nbf", "iat"):
        since = _moment(claims, name)
        if since is not None and since > now + LEEWAY:
            raise NotValid(f"it is from the future ({name})")
    return until


def _moment(claims: Mapping[str, Any], name: str) -> datetime | None:
    seconds = claims.get(name)
    if name not in claims:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise NotValid(f"its {name} is not a number")
    if not 0 <= seconds <= _END_OF_TIME:
        raise NotValid(f"its {name} is out of range")
    return datetime.fromtimestamp(seconds, UTC)


def _mapped(claims: Mapping[str, Any], expected: Expected) -> tuple[str, ...]:
    words = _words(_at(claims, expected.role_claim))
    if expected.role_claim in {"scope", "scp"}:
        words = frozenset(part for word in words for part in word.split())
    return tuple(sorted(word for word in words if word in expected.roles))


def _name(claims: Mapping[str, Any], expected: Expected) -> str | None:
    found = _at(claims, expected.name_claim)
    if not isinstance(found, str) or not found.strip():
        return None
    return visible(found.strip()[:_MAX_NAME], lines=False)


def _at(claims: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - any JSON value
    """A claim by its name; else by a path with dots, as claims within claims have one."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(part)
    return value


def _words(value: Any) -> Collection[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return frozenset({value})
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return frozenset(item for item in items if isinstance(item, str))
    return frozenset()


def secret_hash(secret: str) -> str:
    """What is kept of a secret: enough to know it by."""
    return sha256(secret.encode(errors="replace")).hexdigest()
