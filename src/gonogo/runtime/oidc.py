"""Bearer tokens of an identity provider: who they name, once everything about them is checked.

Order matters: shape and header first, then the signature by one of the provider's own keys, and
only then a word of what the token says. The sender learns that a token is not valid; why is in
the log.
"""

import logging
import re
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING, Any, cast

import anyio
from msgspec import Struct

from gonogo.domain.base import loads
from gonogo.domain.errors import GonogoError, IdentityUnknown, NotValid, Refused, because
from gonogo.domain.identity import (
    MAX_TOKEN,
    Expected,
    Memory,
    Person,
    Role,
    TokenHeader,
    fits,
    read_claims,
    read_head,
)
from gonogo.settings import Settings, is_safe_address
from gonogo.store import Clock, seconds_passed, utc_now

if TYPE_CHECKING:
    import httpx
    from joserfc.jwk import Key


# The keys of the operator's identity provider: fetched when needed, kept for a bounded time.
#
# Keys are looked at again after ten minutes, and a key that is not known has them looked at at
# once, both at most once a minute, whoever asks. When the provider does not answer, the keys that
# are known count for an hour; then nobody's token can be checked, which is said as such and not as
# a wrong token. Their age is counted in seconds that pass, so whoever sets the clock changes
# nothing. Answers are bounded in time and size, redirects are not followed, and what is not a
# key for signatures is passed over.

FRESH, KEPT = 600.0, 3_600.0
AGAIN, AGAIN_WITHOUT = 60.0, 5.0
"""Seconds between two looks: with keys that count, and without any."""
SECONDS = 5.0
MAX_BYTES = 262_144
MAX_KEYS = 64
DISCOVERY = "/.well-known/openid-configuration"
_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_RSA_BITS = range(2_048, 8_193)
_LOG = logging.getLogger("gonogo.identity")


class BadProvider(Exception):
    """The provider did not answer as it should; the text says how."""


class PublicKey:
    """One key of the provider, ready to check signatures."""

    def __init__(self, jwk: Mapping[str, Any]) -> None:
        """Take the public parts of a JWK.

        Raises:
            ValueError, TypeError: it is none that may check signatures.
        """
        kind = jwk.get("kty")
        if kind not in _PUBLIC:
            raise ValueError("its type is none of those that count")
        if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ["verify"]):
            raise ValueError("it is not for signatures")
        if not isinstance(jwk.get("alg", ""), str):
            raise TypeError("its alg is not a name")
        self.id = jwk.get("kid")
        self.facts = {name: jwk[name] for name in ("kty", "crv", "alg") if name in jwk}
        self.key: Key = _imported(kind, {name: jwk[name] for name in ("kty", *_PUBLIC[kind])})


class Issuer:
    """What is known of one identity provider."""

    def __init__(
        self, url: str, jwks_url: str | None, seconds: Callable[[], float] = seconds_passed
    ) -> None:
        self._url, self._jwks_url, self._seconds = url, jwks_url, seconds
        self._keys: list[PublicKey] = []
        self._fetched = self._tried = -inf
        self._fetching = anyio.Lock()

    async def key(self, head: TokenHeader) -> "Key":
        """The key that a token names.

        Raises:
            NotValid: the provider has no such key, or one of another type.
            IdentityUnknown: the provider does not answer, and has not for too long.
        """
        if self._age() > FRESH or not self._named(head):
            await self._look(known=bool(self._named(head)))
        if self._age() > KEPT:
            raise IdentityUnknown("The identity provider does not answer; try again later")
        found = [key for key in self._named(head) if fits(head.algorithm, key.facts)]
        if len(found) != 1:
            raise NotValid("it names no key of the provider that fits its algorithm")
        return found[0].key

    async def fetch(self) -> list[PublicKey]:
        """Ask the provider for its keys.

        Raises:
            BadProvider: it does not answer as it should.
        """
        import httpx

        try:
            with anyio.fail_after(2 * SECONDS):
                # With a transport of its own it obeys no proxy of the environment: whoever set one
                # could hand out keys. Certificates are trusted as the environment says.
                async with httpx.AsyncClient(
                    timeout=SECONDS, follow_redirects=False, transport=httpx.AsyncHTTPTransport()
                ) as http:
                    where = self._jwks_url or await self._discovered(http)
                    return _keys_in(await _read(http, where))
        except TimeoutError:
            raise BadProvider(because("it takes too long to answer")) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise BadProvider(f"{type(error).__name__}: {error}") from error

    async def _discovered(self, http: "httpx.AsyncClient") -> str:
        about = await _read(http, self._url.rstrip("/") + DISCOVERY)
        where = about.get("jwks_uri")
        if about.get("issuer") != self._url:
            said = because(
                "its discovery document is for {issuer!r}", issuer=str(about.get("issuer"))
            )
            raise BadProvider(said)
        if not isinstance(where, str) or not is_safe_address(where):
            raise BadProvider(because("its jwks_uri {where!r} is not https", where=str(where)))
        return where

    async def _look(self, *, known: bool) -> None:
        if self._fetching.locked() and known and self._age() <= KEPT:
            return
        async with self._fetching:
            now = self._seconds()
            pause = AGAIN if self._age() <= KEPT else AGAIN_WITHOUT
            if now - self._tried < pause:
                return
            self._tried = now
            try:
                self._keys = await self.fetch()
            except BadProvider as error:
                _LOG.warning("The keys of %s cannot be had: %s", self._url, error)
                return
            self._fetched = now

    def _age(self) -> float:
        return self._seconds() - self._fetched

    def _named(self, head: TokenHeader) -> list[PublicKey]:
        if head.key_id is None:
            return [key for key in self._keys if fits(head.algorithm, key.facts)]
        return [key for key in self._keys if key.id == head.key_id]


async def _read(http: "httpx.AsyncClient", url: str) -> dict[str, Any]:
    data = b""
    # Not compressed: what is read is then what was counted.
    async with http.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
        if answer.status_code != 200 or "content-encoding" in answer.headers:
            raise BadProvider(
                because("{url} answered {status}", url=url, status=answer.status_code)
            )
        async for part in answer.aiter_raw():
            data += part
            if len(data) > MAX_BYTES:
                said = because("{url} has more than {most} bytes", url=url, most=MAX_BYTES)
                raise BadProvider(said)
    try:
        found = loads(data)
    except GonogoError as error:
        raise BadProvider(because("{url}: {error}", url=url, error=error)) from error
    if not isinstance(found, dict):
        raise BadProvider(because("{url} is not a JSON object", url=url))
    return cast("dict[str, Any]", found)


def _keys_in(document: dict[str, Any]) -> list[PublicKey]:
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise BadProvider(because("its key set has no list of keys"))
    found: list[PublicKey] = []
    for item in cast("list[Any]", listed)[:MAX_KEYS]:
        try:
            found.append(PublicKey(item))
        except Exception as error:  # whatever one key is wrong in, the others count
            _LOG.info("A key of the provider is passed over: %s", error)
    if not found:
        raise BadProvider(because("its key set has no key for signatures"))
    return found


def _imported(kind: str, parts: dict[str, str]) -> "Key":
    from joserfc.jwk import JWKRegistry

    if kind == "RSA":
        modulus = urlsafe_b64decode(parts["n"] + "==")
        bits = int.from_bytes(modulus, "big").bit_length()
        if bits not in _RSA_BITS:
            raise ValueError(f"an RSA key of {bits} bits")
    return JWKRegistry.import_key(cast("dict[str, Any]", parts), kind)


KNOWN = 4_096
SEEN_AGAIN = timedelta(minutes=1)
"""How old what is kept of when somebody was here may be."""
_PART = re.compile(r"[A-Za-z0-9_-]+")
_SAME = {"EdDSA": "Ed25519"}
"""An algorithm's older name, and the one of the curve that counts."""


class _Seen(Struct, frozen=True):
    name: str
    words: tuple[str, ...]
    at: datetime


class Bearers:
    """The signed tokens of one provider."""

    def __init__(
        self,
        expected: Expected,
        issuer: Issuer,
        clock: Clock,
        memory: Memory | None = None,
    ) -> None:
        self.expected = expected
        self.issuer, self._clock = issuer, clock
        self.memory = memory
        self._known: OrderedDict[str, _Seen] = OrderedDict()

    async def read(self, token: str) -> Person:
        """Whom a token names.

        Raises:
            Unauthorized: it is not valid.
            Forbidden: it is, and gives no role here.
            IdentityUnknown: the provider's keys cannot be had.
        """
        try:
            head, claims, signed, signature = _parts(token)
            key = await self.issuer.key(head)
            _check_signature(head, signed, signature, key)
            return read_claims(claims, self.expected, self._clock())
        except NotValid as error:
            _LOG.info("A signed token was refused: %s", error.reason)
            raise

    def is_news(self, person: Person) -> bool:
        """Whether this process has not yet kept who that is, or when they were here last."""
        known = self._known.get(person.id)
        if known is None or known.name != person.name:
            return True
        if self.memory is None:
            return False
        return known.words != person.words or abs(self._clock() - known.at) >= SEEN_AGAIN

    def has_role(self, principal_id: str) -> bool:
        """Whether what this process knows of somebody is anything else than that they have none."""
        known = self._known.get(principal_id)
        return self.memory is not None and (known is None or bool(known.words))

    def kept(self, principal_id: str, name: str, words: tuple[str, ...]) -> None:
        """Remember that it has."""
        self._known[principal_id] = _Seen(name, words, self._clock())
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)


def open_bearers(settings: Settings, clock: Clock) -> Bearers | None:
    """What the settings say of an identity provider; None without one.

    Raises:
        Refused: the library that checks signatures is not installed.
    """
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return None
    if find_spec("joserfc") is None:
        raise Refused("GONOGO_OIDC_ISSUER needs another library: pip install 'gonogo[oidc]'")
    expected = Expected(
        issuer=settings.oidc_issuer, audience=settings.oidc_audience,
        role_claim=settings.oidc_role_claim, name_claim=settings.oidc_name_claim,
        roles=_roles(settings),
    )  # fmt: skip
    issuer = Issuer(settings.oidc_issuer, settings.oidc_jwks_url)
    return Bearers(expected, issuer, clock, memory_of(settings))


def memory_of(settings: Settings) -> Memory | None:
    """What the settings say of roles of people who are not there; None: nothing counts."""
    if settings.oidc_issuer is None or not settings.oidc_role_kept:
        return None
    return Memory(
        issuer=settings.oidc_issuer, roles=_roles(settings),
        kept=timedelta(seconds=settings.oidc_role_kept),
    )  # fmt: skip


async def look_for_keys(settings: Settings) -> str:
    """Ask the provider for its keys, as `gonogo doctor` does, and say what came.

    Raises:
        Refused: the library that checks signatures is not installed, or the provider does not
            answer as it should.
    """
    bearers = open_bearers(settings, utc_now)
    if bearers is None:
        return because("no identity provider is set")
    try:
        found = await bearers.issuer.fetch()
    except BadProvider as error:
        raise Refused(
            "{issuer}: {error}", issuer=bearers.expected.issuer, error=error.args[0]
        ) from error
    return because(
        "{issuer}: keys for signatures: {count}", issuer=bearers.expected.issuer, count=len(found)
    )


def _roles(settings: Settings) -> dict[str, Role]:
    return {word: Role[role.upper()] for word, role in settings.oidc_roles.items()}


def _parts(token: str) -> tuple[TokenHeader, Any, bytes, bytes]:
    parts = token.split(".")
    if len(token) > MAX_TOKEN or len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        raise NotValid("it has not the form of a signed token")
    head = read_head(_json(parts[0]))
    claims, signature = _json(parts[1]), _decoded(parts[2])
    return head, claims, f"{parts[0]}.{parts[1]}".encode(), signature


def _json(part: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return loads(_decoded(part))
    except NotValid:
        raise
    except GonogoError as error:
        raise NotValid(f"a part of it is not plain JSON: {error}") from None


def _decoded(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise NotValid("a part of it is not base64url") from None


def _check_signature(head: TokenHeader, signed: bytes, signature: bytes, key: "Key") -> None:
    from joserfc.jws import JWSRegistry

    algorithm = JWSRegistry.algorithms[_SAME.get(head.algorithm, head.algorithm)]
    try:
        holds = algorithm.verify(signed, signature, key)
    except Exception as error:  # a signature that cannot even be read is not valid either
        raise NotValid(f"its signature cannot be read: {type(error).__name__}") from error
    if not holds:
        raise NotValid("its signature is not the provider's")
