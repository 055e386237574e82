"""What clients are shown of the audit chains."""

from datetime import datetime
from typing import Any

from gonogo.domain.base import View


class AuditEntry(View):
    """One link of an audit chain."""

    chain: str
    """A session's id, or `system`."""
    seq: int
    ts: datetime
    actor: str
    actor_name: str | None = None
    """The actor's name as it is now, where it is a person who is known."""
    action: str
    subject: str
    details: dict[str, Any]
    prev_hash: str
    hash: str
    seal: str | None = None
    """What the hash covers in the place of the details: SHA-256 of the salt and of them. An entry
    of an earlier version has none."""
    salt: str | None = None
    """An entry with a seal and no salt says nothing any more: its session was deleted."""
    about: str | None = None
    """The subject, and of a call the command or the file."""
    why: str | None = None
    """By which rule, grant or person, with which words: in the language that was asked for."""


class AuditHead(View):
    """A place in an audit chain, and the hash of the entry there."""

    chain: str
    seq: int
    hash: str


class AuditRemoved(AuditHead):
    """The last of the entries that were removed from a chain's beginning."""

    removed_at: datetime


class AuditReport(View):
    """What `audit verify` found."""

    ok: bool
    chains: int
    entries: int
    problems: list[str]
    removed: list[AuditRemoved] = []
    """What is not there any more, and is on record as exported and removed."""
    older: list[AuditHead] = []
    """Heads of an anchor that were removed since: the export has them."""


class AuditAnchor(View):
    """Where all audit chains stood. `text` is what to keep elsewhere."""

    text: str
    at: str
    seq: int
    hash: str
    chains: int
    heads: str
