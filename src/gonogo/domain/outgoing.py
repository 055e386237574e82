"""What goes out to people who are not at a client: deliveries to other programs, and links.

A link lets one person decide one question once. Its token is the link's id and a signature over
all that it stands for, so that no token is kept anywhere and none can be made without the key.
"""

import base64
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from gonogo.domain.canonical import canonical_json

_TOKEN = re.compile(r"(link_[0-9a-f]{32})\.([A-Za-z0-9_-]{43})")


class DeliveryStatus(StrEnum):
    """Where a delivery stands. `failed`: it was tried often enough, and is given up."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message for one hook, written with the change that it tells of."""

    id: str
    session_id: str
    approval_id: str
    hook: str
    event: str
    status: DeliveryStatus
    attempt: int
    """Attempts that were begun."""
    epoch: int
    body: dict[str, Any]
    """What is sent, without what only the sender knows; empty once it has arrived."""
    error: str | None
    """Why the last attempt did not arrive."""
    created_at: datetime
    not_before: datetime
    """When it may be tried; while it is being tried, when that has to be over."""
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A right to decide one question once, in somebody's name."""

    id: str
    approval_id: str
    digest: str
    """Of what was asked when the link was made; it decides nothing else."""
    principal_id: str
    name: str
    role: int
    """What the person was when the link was made; it is over when they are less."""
    made_by: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None


class LinkState(StrEnum):
    """What a link is good for."""

    OPEN = "open"
    VOTED = "voted"
    """Just used: the approval counts, and others have to approve too."""
    DONE = "done"
    """Just used: the question is decided."""
    USED = "used"
    DECIDED = "decided"
    """Somebody decided the question in another way."""
    EXPIRED = "expired"
    REVOKED = "revoked"
    STALE = "stale"
    """What was asked has changed since."""
    REFUSED = "refused"
    """The person may not decide this any more."""


def link_token(link: Link, key: bytes) -> str:
    """The secret part of a link's address."""
    signed = canonical_json(
        [link.id, link.approval_id, link.digest, link.principal_id, link.expires_at.isoformat()]
    )
    mac = hmac.digest(key, signed.encode(), "sha256")
    return f"{link.id}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def link_id_of(token: str) -> str | None:
    """The link that a token is of, if it is one at all; whether it is genuine is not checked."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def is_genuine(token: str, link: Link, key: bytes) -> bool:
    """Whether a token is that of the link."""
    return hmac.compare_digest(token.encode(), link_token(link, key).encode())
