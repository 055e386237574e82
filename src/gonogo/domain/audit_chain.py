"""The audit chain: what an entry's hash covers, what makes a chain whole, and what an anchor is.

The same rules hold for the rows of the database and for the lines of an exported file. An entry's
hash is SHA-256 of the hash before it and the entry's canonical JSON; a chain begins with
`GENESIS`. The heads of many chains fold into one digest: SHA-256 of their lines `chain seq hash`,
sorted.

What an entry says stands beside the chain: the hash covers it by a seal, SHA-256 of a random salt
and of what is said. Once what is said is erased, and the salt with it, the seal keeps the chain
whole and tells nothing. Entries that were made before there were seals are covered as they stand.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Self, cast

from msgspec import Struct

from gonogo.domain.base import canonical_json
from gonogo.domain.errors import InvalidCursor, InvalidMessage, because
from gonogo.domain.states import ApprovalStatus

SYSTEM = "system"
"""The chain of what belongs to no session: sessions, tokens, policy, the audit log itself."""
GENESIS = "0" * 64
ANCHORED, PRUNED = "audit.anchored", "audit.pruned"
OPENED, DELETED, ERASED = "session.opened", "session.deleted", "session.erased"
_PLACES = (PRUNED, ERASED)
_ANCHOR = re.compile(
    r"gonogo-anchor-1 (?P<at>\S+) system#(?P<seq>[1-9]\d{0,9}) (?P<hash>[0-9a-f]{64}) "
    r"chains=(?P<chains>\d{1,10}) heads=(?P<heads>[0-9a-f]{64})"
)


class ChainLink(Struct, frozen=True, kw_only=True):
    """One entry, as its hash sees it: the time is text."""

    chain: str
    seq: int
    ts: str
    actor: str
    action: str
    subject: str
    details: Any
    prev_hash: str
    hash: str
    seal: str | None = None
    """None: it was made before there were seals."""
    salt: str | None = None
    """None in a sealed entry: what it said was erased."""

    @property
    def is_erased(self) -> bool:
        """Whether what it said is gone, and its seal left."""
        return self.seal is not None and self.salt is None

    @property
    def is_true(self) -> bool:
        """Whether it says what its hash covers."""
        at = (self.chain, self.seq, self.ts, self.actor, self.action, self.subject)
        if self.seal is None:
            return entry_hash(self.prev_hash, hashed(*at, self.details)) == self.hash
        if self.salt is None:
            said = self.details == {} and (self.chain == SYSTEM or not self.subject)
        else:
            said = seal_of(self.salt, self.chain, self.subject, self.details) == self.seal
        return said and entry_hash(self.prev_hash, sealed(*at, self.seal)) == self.hash

    def line(self) -> str:
        """The entry as a line of an export: JSON in plain ASCII."""
        names = _FIELDS if self.seal is None else (*_FIELDS, *_SEALED)
        return json.dumps({name: getattr(self, name) for name in names})


_SEALED = ("seal", "salt")
_FIELDS = tuple(name for name in ChainLink.__annotations__ if name not in _SEALED)
_TYPES: dict[str, tuple[type, ...]] = {"seq": (int,), "salt": (str, type(None))}


class ChainHead(Struct, frozen=True, kw_only=True):
    """A place in a chain, and the hash of the entry there."""

    chain: str
    seq: int
    hash: str


class Anchor(Struct, frozen=True, kw_only=True):
    """Where all chains stood: an entry of the system's chain, which names the others' heads."""

    at: str
    seq: int
    hash: str
    chains: int
    heads: str

    def text(self) -> str:
        """The one line that is kept elsewhere."""
        return (
            f"gonogo-anchor-1 {self.at} system#{self.seq} {self.hash} "
            f"chains={self.chains} heads={self.heads}"
        )


def read_anchors(text: str) -> list[Anchor]:
    """Every anchor in a text.

    Raises:
        InvalidMessage: there is none.
    """
    found = [
        Anchor(
            at=each["at"], seq=int(each["seq"]), hash=each["hash"],
            chains=int(each["chains"]), heads=each["heads"],
        )
        for each in _ANCHOR.finditer(text)
    ]  # fmt: skip
    if not found:
        raise InvalidMessage("This is not an anchor; gonogo audit anchor prints one")
    return found


def entry_hash(prev_hash: str, entry: Mapping[str, Any]) -> str:
    """The hash of an entry: SHA-256 of the previous hash and the entry's canonical JSON."""
    return hashlib.sha256((prev_hash + canonical_json(entry)).encode()).hexdigest()


def hashed(
    chain: str, seq: int, ts: str, actor: str, action: str, subject: str, details: object
) -> dict[str, Any]:
    """What the hash of an entry without a seal covers."""
    return {
        "chain": chain, "seq": seq, "ts": ts, "actor": actor, "action": action,
        "subject": subject, "details": details,
    }  # fmt: skip


def sealed(
    chain: str, seq: int, ts: str, actor: str, action: str, subject: str, seal: str
) -> dict[str, Any]:
    """What the hash of a sealed entry covers."""
    covered = {
        "chain": chain, "seq": seq, "ts": ts, "actor": actor, "action": action, "seal": seal,
    }  # fmt: skip
    # That a session was opened and deleted stays said, by its id, once all else is erased.
    return covered | {"subject": subject} if chain == SYSTEM else covered


def seal_of(salt: str, chain: str, subject: str, details: object) -> str:
    """The seal of what an entry says: its details, and in a session's chain its subject."""
    said = {"details": details} if chain == SYSTEM else {"details": details, "subject": subject}
    return hashlib.sha256((salt + canonical_json(said)).encode()).hexdigest()


def new_salt() -> str:
    """What keeps a seal from telling what was sealed: 128 bits that nobody can guess."""
    return secrets.token_hex(16)


def read_json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read what can have been hashed.

    Raises:
        ValueError: it is no JSON, a key stands twice in one object, or it holds NaN, half of a
            surrogate pair, or too many levels.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique)
        canonical_json(value).encode()
    except RecursionError:
        raise ValueError(because("it is nested too deeply")) from None
    return value


def heads_digest(heads: Iterable[ChainHead]) -> str:
    """Many heads as one digest."""
    lines = sorted(f"{head.chain} {head.seq} {head.hash}\n" for head in heads)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class Walk:
    """One chain, entry by entry."""

    def __init__(self, chain: str, floor: ChainHead | None = None) -> None:
        """Begin where a chain does, or after what was removed of it."""
        self.chain = chain
        self.seq, self.hash = (floor.seq, floor.hash) if floor else (0, GENESIS)
        self.erased: dict[str, int] = {}
        """Sessions of which entries say nothing any more, each with the first of those."""

    def step(self, link: ChainLink) -> Iterator[str]:
        """Take the next entry, and tell what is wrong with it."""
        where: dict[str, Any] = {"chain": link.chain, "seq": link.seq}
        if link.seq != self.seq + 1:
            yield because(
                "{chain} #{seq}: expected entry {next}; one is missing", next=self.seq + 1, **where
            )
        if link.prev_hash != self.hash:
            yield because("{chain} #{seq}: it does not follow the entry before it", **where)
        if not link.is_true:
            yield because("{chain} #{seq}: its content was changed", **where)
        if link.is_erased:
            session = link.subject if link.chain == SYSTEM else link.chain
            self.erased.setdefault(session, link.seq)
        self.seq, self.hash = link.seq, link.hash


class Record:
    """What the system's chain says of the others: which there are, what was removed, anchors."""

    def __init__(self, anchors: Iterable[Anchor] = ()) -> None:
        self.anchors = {anchor.seq: anchor for anchor in anchors}
        self.sessions: set[str] = set()
        self.deleted: set[str] = set()
        self.ends: dict[str, ChainHead] = {}
        """Where the chains of erased sessions ended; nothing is added to them."""
        self.removed: dict[str, ChainHead] = {}
        self.since: dict[str, str] = {}
        """By chain, the time from before which all that was removed is."""
        self.heads: dict[str, ChainHead] = {}
        self.moved: dict[tuple[str, int], str] = {}
        """By place, the hash that the chain itself says stood there."""
        self.anchored: set[ChainHead] = set()
        """Where the given anchors say that the chains stood."""
        self.problems: list[str] = []

    def take(self, link: ChainLink) -> None:
        """Look at the next entry of the system's chain."""
        # What was tampered with is told by its hash; here it must only do no harm.
        match link.action, link.details:
            case action, _ if action == OPENED:
                self.sessions.add(link.subject)
            case action, _ if action == DELETED:
                self.deleted.add(link.subject)
            case action, {"last": int(last), "hash": str(digest)} if action in _PLACES:
                places = self.removed if action == PRUNED else self.ends
                places[link.subject] = ChainHead(chain=link.subject, seq=last, hash=digest)
                self.since[link.subject] = str(link.details.get("before", ""))
            case action, {"moved": moved} if action == ANCHORED and isinstance(moved, list):
                self._move(cast("list[Any]", moved))
            case _:
                pass
        anchor = self.anchors.pop(link.seq, None)
        if anchor is not None:
            self._compare(anchor, link)

    def _move(self, moved: list[Any]) -> None:
        for each in moved:
            match each:
                case [str(chain), int(seq), str(digest)]:
                    self.heads[chain] = ChainHead(chain=chain, seq=seq, hash=digest)
                    self.moved[chain, seq] = digest
                case _:
                    pass

    def not_deleted(self, chain: str, erased: Mapping[str, int]) -> Iterator[str]:
        """Entries of a chain that say nothing any more, although their session was not deleted."""
        for session, seq in sorted(erased.items()):
            if session not in self.deleted:
                yield because(
                    "{chain} #{seq}: its content is gone, and no deletion is on record",
                    chain=chain, seq=seq,
                )  # fmt: skip

    def end(self) -> None:
        """There are no more entries."""
        self.problems += [
            because(
                "system #{seq}: the anchor of {at} names it, and it does not exist",
                seq=seq, at=anchor.at,
            )
            for seq, anchor in self.anchors.items()
        ]  # fmt: skip

    def _compare(self, anchor: Anchor, link: ChainLink) -> None:
        if link.hash != anchor.hash or link.action != ANCHORED:
            said = because(
                "system #{seq}: this is another entry; the anchor of {at} has the hash {hash}",
                seq=link.seq, at=anchor.at, hash=anchor.hash,
            )  # fmt: skip
            self.problems.append(said)
        if heads_digest(self.heads.values()) != anchor.heads:
            said = because(
                "system #{seq}: the ends of the chains are not those of the anchor", seq=link.seq
            )
            self.problems.append(said)
        self.anchored.update(self.heads.values())


class FileCheck:
    """An exported file, line by line, by the rules of the chain.

    Args:
        anchors: Kept elsewhere; the file must hold the entries that they name.
        heads: Places that must be in the file, with their hashes.
    """

    def __init__(self, anchors: Iterable[Anchor] = (), heads: Iterable[ChainHead] = ()) -> None:
        self.record = Record(anchors)
        self.problems: list[str] = []
        self.begins: list[ChainHead] = []
        """Chains of which the file has not the beginning."""
        self.ends: list[ChainHead] = []
        self.older: list[ChainHead] = []
        """Wanted places that are before what the file has of their chain."""
        self.entries = self._lines = 0
        self._walk: Walk | None = None
        self._seen: set[str] = set()
        self._wanted = {(head.chain, head.seq): head.hash for head in heads}
        self._digest = hashlib.sha256()
        self._is_whole = False
        self._erased: dict[str, dict[str, int]] = {}

    def take(self, text: str) -> None:
        """Look at the next line. Of a file without entries, only the first wrong line is said."""
        self._lines += 1
        if self._is_whole:
            self.problems.append(because("the file has more lines after its last one"))
        try:
            value = _read_line(text)
            if set(value) == {"end"}:
                self._close(value["end"])
            else:
                self._take_link(_link(value))
        except InvalidMessage as error:
            if self.entries or not self.problems:
                said = because("line {line}: {problem}", line=self._lines, problem=error)
                self.problems.append(said)

    def finish(self) -> None:
        """There are no more lines."""
        self._end_chain()
        self.record.end()
        self.problems += self.record.problems
        # A file that has not all of the system's chain cannot tell what was deleted.
        if SYSTEM in self._seen and all(head.chain != SYSTEM for head in self.begins):
            for chain, erased in self._erased.items():
                self.problems += self.record.not_deleted(chain, erased)
        if not self._is_whole:
            self.problems.append(because("the file has no last line: a part of it is missing"))
        begins = {head.chain: head.seq for head in self.begins}
        for chain, seq in sorted(self._wanted):
            if seq < begins.get(chain, 0):
                self.older.append(ChainHead(chain=chain, seq=seq, hash=self._wanted[chain, seq]))
            else:
                said = because("{chain} #{seq}: it is not in the file", chain=chain, seq=seq)
                self.problems.append(said)

    def _take_link(self, link: ChainLink) -> None:
        self.entries += 1
        walk = self._walk
        if walk is None or walk.chain != link.chain:
            walk = self._next_chain(link)
        self.problems.extend(walk.step(link))
        if link.chain == SYSTEM:
            self.record.take(link)
        self._compare(link.chain, link.seq, link.hash)

    def _compare(self, chain: str, seq: int, digest: str) -> None:
        if self._wanted.pop((chain, seq), digest) != digest:
            self.problems.append(other_hash(chain, seq))

    def _next_chain(self, link: ChainLink) -> Walk:
        self._end_chain()
        if link.chain in self._seen:
            said = because("{chain}: the file contains this chain twice", chain=link.chain)
            self.problems.append(said)
        self._seen.add(link.chain)
        floor = None
        if link.seq > 1:
            floor = ChainHead(chain=link.chain, seq=link.seq - 1, hash=link.prev_hash)
            self.begins.append(floor)
            self._compare(floor.chain, floor.seq, floor.hash)
        self._walk = Walk(link.chain, floor)
        return self._walk

    def _end_chain(self) -> None:
        if self._walk is not None:
            head = ChainHead(chain=self._walk.chain, seq=self._walk.seq, hash=self._walk.hash)
            self._digest.update(f"{head.chain} {head.seq} {head.hash}\n".encode())
            self.ends.append(head)
            self._erased[self._walk.chain] = self._walk.erased
            self._walk = None

    def _close(self, end: object) -> None:
        self._end_chain()
        self._is_whole = True
        if end != end_of(len(self.ends), self.entries, self._digest.hexdigest()):
            self.problems.append(because("the file's last line does not fit its entries"))


def other_hash(chain: str, seq: int) -> str:
    """What is said of an entry for which an anchor has another hash."""
    return because("{chain} #{seq}: an anchor has another hash", chain=chain, seq=seq)


def end_of(chains: int, entries: int, digest: str) -> dict[str, Any]:
    """What the last line of an export says of those before it."""
    return {"chains": chains, "entries": entries, "digest": digest}


def _read_line(text: str) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise InvalidMessage("it is not valid JSON: {error}", error=error.args[0]) from None
    if not isinstance(value, dict):
        raise InvalidMessage("it is not a JSON object")
    return cast("dict[str, Any]", value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError(because("an object contains the same key twice"))
    return value


def _link(value: dict[str, Any]) -> ChainLink:
    if set(value) not in ({*_FIELDS}, {*_FIELDS, *_SEALED}):
        raise InvalidMessage("it does not have the fields of an audit entry")
    for name, found in value.items():
        if name != "details" and type(found) not in _TYPES.get(name, (str,)):
            raise InvalidMessage("its {name} has the wrong type", name=name)
    return ChainLink(**value)


# Reading the audit log: which entries are wanted, and where a page of them ends.
#
# Over all chains, entries stand by their time, then by their chain and their number in it. A place
# is written as text, so that a client can ask for what stands before it; entries that come later
# change no page that begins at a place.

_MOST = 2**31
_NOT_A_PLACE = (
    "before: there is no such place in the audit log; use the `before` of the page that you have"
)


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries are wanted; what is None does not matter."""

    actor: str | None = None
    """An id as the entries have it, or a person's name."""
    action: str | None = None
    """How it begins: `tool.` is everything about tool calls."""
    since: datetime | None = None
    until: datetime | None = None
    """Not itself included."""


class AuditPlace(Struct, frozen=True, kw_only=True):
    """Where an entry stands among those of all chains."""

    ts: datetime
    chain: str
    seq: int

    def text(self) -> str:
        """The place as clients keep it."""
        return f"{self.ts.isoformat()}~{self.seq}~{self.chain}"

    @classmethod
    def read(cls, text: str) -> Self:
        """The place that a text names.

        Raises:
            InvalidCursor: it names none.
        """
        at, _, rest = text.partition("~")
        seq, _, chain = rest.partition("~")
        try:
            moment = datetime.fromisoformat(at)
            place = cls(ts=moment.astimezone(UTC), chain=chain, seq=int(seq))
        except (ValueError, OverflowError):
            raise InvalidCursor(_NOT_A_PLACE) from None
        if moment.tzinfo is None or not chain or not 0 <= place.seq < _MOST:
            raise InvalidCursor(_NOT_A_PLACE)
        return place


# Reconciliation: what a chain says is held against what the database holds, both ways.
#
# A chain whose end was cut off with its head, or that was emptied, is whole by its hashes. But what
# people decided and what ran is in the database too, and each of those needs its entry; and
# whatever an entry speaks of has to be there.

_ASKED, ALLOWED = "asked", "tool.allowed"
_CLOSED = frozenset(str(status) for status in ApprovalStatus if status != ApprovalStatus.PENDING)
_ABOUT = {
    ALLOWED: "call_id", "tool.denied": "call_id", "rule.made": "rule_id",
    "link.made": "link_id", "plan.commented": "comment_id",
}  # fmt: skip
"""By action, the name under which an entry's details have the id of what it is about."""
_OF_SUBJECTS = frozenset({OPENED, DELETED, "token.created", "token.revoked", "grant.revoked"})
"""Actions whose subject is the id of what they are about."""
_REFERENCES = ("approval_id", "call_id", "plan_id", "rule_id", "link_id", "comment_id")


class Claim(Struct, frozen=True):
    """That something was done, as an entry or a row of the database says it."""

    action: str
    about: str
    """The id of what was asked, ran, was made or ended."""
    by: str = ""
    """Who decided, where both say it."""
    digest: str = ""
    """Of what was decided or ran, where both say it."""


class Holding(Struct, frozen=True):
    """A claim of the database."""

    claim: Claim
    at: str
    """When; entries from before some time may have been removed."""


class Reconciliation:
    """What one chain says, to be held against the database once all of it was seen."""

    def __init__(self) -> None:
        self._claims: dict[Claim, int] = {}
        self._references: dict[str, int] = {}

    def take(self, link: ChainLink) -> None:
        """Look at the next entry."""
        given: object = link.details
        if not isinstance(given, dict):
            return
        details = cast("Mapping[str, Any]", given)
        claim = _claim(link, details)
        if claim is not None:
            self._claims.setdefault(claim, link.seq)
        if link.chain != SYSTEM:
            for name in _REFERENCES:
                if name in details:
                    self._references.setdefault(str(details[name]), link.seq)

    def problems(
        self, chain: str, facts: Iterable[Holding], known: Iterable[str], since: str
    ) -> Iterator[str]:
        """What one side says and the other does not.

        Args:
            facts: What the database holds that the chain has to tell of.
            known: The ids of all that its entries may be about.
            since: Entries from before this may have been removed.
        """
        held = {fact.claim: fact.at for fact in facts}
        for claim in sorted(held.keys() - self._claims.keys(), key=lambda each: each.about):
            if held[claim] >= since:
                yield because(
                    "{chain}: {about} is in the database, and there is no entry {action} for it",
                    chain=chain, about=claim.about, action=claim.action,
                )  # fmt: skip
        missing = {
            seq: claim.about
            for claim, seq in self._claims.items()
            # What was allowed need not have run.
            if claim not in held and claim.action != ALLOWED
        }
        there = {*known, *(claim.about for claim in held)}
        missing |= {seq: about for about, seq in self._references.items() if about not in there}
        for seq, about in sorted(missing.items()):
            yield because(
                "{chain} #{seq}: the database does not contain what the entry says of {about}",
                chain=chain, seq=seq, about=about,
            )  # fmt: skip


def _claim(link: ChainLink, details: Mapping[str, Any]) -> Claim | None:
    if link.action in _OF_SUBJECTS:
        return Claim(link.action, link.subject)
    if "approval_id" in details and link.action.rpartition(".")[2] in {_ASKED, *_CLOSED}:
        return claim_of_question(
            link.action, details["approval_id"], link.actor, details.get("digest")
        )
    about = details.get(_ABOUT.get(link.action, ""))
    if about is None:
        return None
    digest = details.get("digest") if link.action == ALLOWED else None
    return Claim(link.action, str(about), digest=str(digest or ""))


def claim_of_question(action: str, approval_id: object, by: str, digest: object) -> Claim:
    """That a question was asked, or closed by somebody."""
    decided = "" if action.endswith(f".{_ASKED}") else by
    return Claim(action, str(approval_id), decided, str(digest or ""))
