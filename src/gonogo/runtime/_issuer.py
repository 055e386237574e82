"""The keys of the operator's identity provider: fetched when needed, kept for a bounded time.

Keys are looked at again after ten minutes, and a key that is not known has them looked at at once,
both at most once a minute, whoever asks. When the provider does not answer, the keys that are known
count for an hour; then nobody's token can be checked, which is said as such and not as a wrong
token. Answers are bounded in time and size, redirects are not followed, and what is not a key for
signatures is passed over.
"""

import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import anyio

from gonogo.domain import strict_json
from gonogo.domain.errors import GonogoError, IdentityUnknown, NotValid
from gonogo.domain.identity import Head, fits
from gonogo.settings import is_safe_address

if TYPE_CHECKING:
    import httpx
    from joserfc.jwk import Key

FRESH, KEPT = timedelta(minutes=10), timedelta(hours=1)
AGAIN, AGAIN_WITHOUT = timedelta(minutes=1), timedelta(seconds=5)
"""Between two looks: with keys that count, and without any."""
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
            raise TypeError("its alg is no name")
        self.id = jwk.get("kid")
        self.facts = {name: jwk[name] for name in ("kty", "crv", "alg") if name in jwk}
        self.key: Key = _imported(kind, {name: jwk[name] for name in ("kty", *_PUBLIC[kind])})


class Issuer:
    """What is known of one identity provider."""

    def __init__(self, url: str, jwks_url: str | None, clock: Callable[[], datetime]) -> None:
        self._url, self._jwks_url, self._clock = url, jwks_url, clock
        self._keys: list[PublicKey] = []
        self._fetched: datetime | None = None
        self._tried: datetime | None = None
        self._fetching = anyio.Lock()

    async def key(self, head: Head) -> "Key":
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
            raise BadProvider("it takes too long") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise BadProvider(f"{type(error).__name__}: {error}") from error

    async def _discovered(self, http: "httpx.AsyncClient") -> str:
        about = await _read(http, self._url.rstrip("/") + DISCOVERY)
        where = about.get("jwks_uri")
        if about.get("issuer") != self._url:
            raise BadProvider(f"its discovery document is that of {about.get('issuer')!r}")
        if not isinstance(where, str) or not is_safe_address(where):
            raise BadProvider(f"its jwks_uri is {where!r}, which is not https")
        return where

    async def _look(self, *, known: bool) -> None:
        if self._fetching.locked() and known and self._age() <= KEPT:
            return
        async with self._fetching:
            now = self._clock()
            pause = AGAIN if self._age() <= KEPT else AGAIN_WITHOUT
            if self._tried is not None and abs(now - self._tried) < pause:
                return
            self._tried = now
            try:
                self._keys = await self.fetch()
            except BadProvider as error:
                _LOG.warning("The keys of %s cannot be had: %s", self._url, error)
                return
            self._fetched = now

    def _age(self) -> timedelta:
        return abs(self._clock() - self._fetched) if self._fetched else timedelta.max

    def _named(self, head: Head) -> list[PublicKey]:
        if head.key_id is None:
            return [key for key in self._keys if fits(head.algorithm, key.facts)]
        return [key for key in self._keys if key.id == head.key_id]


async def _read(http: "httpx.AsyncClient", url: str) -> dict[str, Any]:
    data = b""
    # Not compressed: what is read is then what was counted.
    async with http.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
        if answer.status_code != 200 or "content-encoding" in answer.headers:
            raise BadProvider(f"{url} answers {answer.status_code}")
        async for part in answer.aiter_raw():
            data += part
            if len(data) > MAX_BYTES:
                raise BadProvider(f"{url} has more than {MAX_BYTES} bytes")
    try:
        found = strict_json.loads(data)
    except GonogoError as error:
        raise BadProvider(f"{url}: {error}") from error
    if not isinstance(found, dict):
        raise BadProvider(f"{url} is no JSON object")
    return cast("dict[str, Any]", found)


def _keys_in(document: dict[str, Any]) -> list[PublicKey]:
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise BadProvider("its key set has no list of keys")
    found: list[PublicKey] = []
    for item in cast("list[Any]", listed)[:MAX_KEYS]:
        try:
            found.append(PublicKey(item))
        except Exception as error:  # whatever one key is wrong in, the others count
            _LOG.info("A key of the provider is passed over: %s", error)
    if not found:
        raise BadProvider("its key set has no key for signatures")
    return found


def _imported(kind: str, parts: dict[str, str]) -> "Key":
    from joserfc.jwk import JWKRegistry

    if kind == "RSA":
        modulus = urlsafe_b64decode(parts["n"] + "==")
        bits = int.from_bytes(modulus, "big").bit_length()
        if bits not in _RSA_BITS:
            raise ValueError(f"an RSA key of {bits} bits")
    return JWKRegistry.import_key(cast("dict[str, Any]", parts), kind)
