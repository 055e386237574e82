"""Bearer tokens of an identity provider: who they name, once everything about them is checked.

Order matters: shape and header first, then the signature by one of the provider's own keys, and
only then a word of what the token says. The sender learns that a token is not valid; why is in
the log.
"""

import logging
import re
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gonogo.domain import strict_json
from gonogo.domain.errors import GonogoError, NotValid, Refused
from gonogo.domain.identity import (
    MAX_TOKEN,
    Expected,
    Head,
    Memory,
    Person,
    Role,
    read_claims,
    read_head,
)
from gonogo.runtime._issuer import BadProvider, Issuer
from gonogo.settings import Settings

if TYPE_CHECKING:
    from joserfc.jwk import Key

KNOWN = 4_096
SEEN_AGAIN = timedelta(minutes=1)
"""How old what is kept of when somebody was here may be."""
_PART = re.compile(r"[A-Za-z0-9_-]+")
_SAME = {"EdDSA": "Ed25519"}
"""An algorithm's older name, and the one of the curve that counts."""
_LOG = logging.getLogger("gonogo.identity")


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    words: tuple[str, ...]
    at: datetime


class Bearers:
    """The signed tokens of one provider."""

    def __init__(
        self,
        expected: Expected,
        issuer: Issuer,
        clock: Callable[[], datetime],
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


def open_bearers(settings: Settings, clock: Callable[[], datetime]) -> Bearers | None:
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
    issuer = Issuer(settings.oidc_issuer, settings.oidc_jwks_url, clock)
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
    bearers = open_bearers(settings, lambda: datetime.now(UTC))
    if bearers is None:
        return "no identity provider is set"
    try:
        found = await bearers.issuer.fetch()
    except BadProvider as error:
        raise Refused(f"{bearers.expected.issuer}: {error}") from error
    return f"{bearers.expected.issuer}: {len(found)} keys for signatures"


def _roles(settings: Settings) -> dict[str, Role]:
    return {word: Role[role.upper()] for word, role in settings.oidc_roles.items()}


def _parts(token: str) -> tuple[Head, Any, bytes, bytes]:
    parts = token.split(".")
    if len(token) > MAX_TOKEN or len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        raise NotValid("it has not the form of a signed token")
    head = read_head(_json(parts[0]))
    claims, signature = _json(parts[1]), _decoded(parts[2])
    return head, claims, f"{parts[0]}.{parts[1]}".encode(), signature


def _json(part: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return strict_json.loads(_decoded(part))
    except NotValid:
        raise
    except GonogoError as error:
        raise NotValid(f"a part of it is not plain JSON: {error}") from None


def _decoded(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise NotValid("a part of it is not base64url") from None


def _check_signature(head: Head, signed: bytes, signature: bytes, key: "Key") -> None:
    from joserfc.jws import JWSRegistry

    algorithm = JWSRegistry.algorithms[_SAME.get(head.algorithm, head.algorithm)]
    try:
        holds = algorithm.verify(signed, signature, key)
    except Exception as error:  # a signature that cannot even be read is not valid either
        raise NotValid(f"its signature cannot be read: {type(error).__name__}") from error
    if not holds:
        raise NotValid("its signature is not the provider's")
