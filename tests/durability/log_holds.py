"""Invariants of the event log, the audit chains and the database itself."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from durability.evidence import Evidence, Row
from fakes.openai_server import violations_of

GENESIS = "0" * 64


def store_is_sound(found: Evidence) -> Iterator[str]:
    """I37: the file is whole, and so is every audit chain, to the head that its owner names."""
    yield from (f"I37 {flaw}" for flaw in found.flaws)
    heads = {row["id"]: row for row in found.tables["sessions"]}
    heads |= {row["chain"]: row for row in found.tables["chains"]}
    for name, head in heads.items():
        seq, prev = 0, GENESIS
        for row in found.chains.get(name, []):
            if row["seq"] != seq + 1 or row["prev_hash"] != prev or row["hash"] != _hash(row):
                yield f"I37 audit {name} #{row['seq']} does not follow #{seq}"
            seq, prev = row["seq"], row["hash"]
        if (head["audit_seq"], head["audit_hash"]) != (seq, prev):
            yield f"I37 audit {name} ends at {seq}, should end at entry {head['audit_seq']}"
    yield from (f"I37 audit {name} is nobody's" for name in found.chains.keys() - heads.keys())


def _hash(row: Row) -> str:
    if row["seal"] is None:
        said: tuple[str, ...] = ("subject", "details")
    else:
        said = ("subject", "seal") if row["chain"] == "system" else ("seal",)
        if _seal(row) != row["seal"]:
            return "its seal is broken"
    return _sha256(
        row["prev_hash"] + _canonical(row, "chain", "seq", "ts", "actor", "action", *said)
    )


def _seal(row: Row) -> str:
    """What the hash covers in the place of what the entry says; erased, it says nothing."""
    if row["salt"] is None:
        return row["seal"] if row["details"] == {} else "it says something without a salt"
    said = ("details",) if row["chain"] == "system" else ("details", "subject")
    return _sha256(row["salt"] + _canonical(row, *said))


def _canonical(row: Row, *names: str) -> str:
    return json.dumps(
        {name: row[name] for name in names}, sort_keys=True, separators=(",", ":"),
        ensure_ascii=False,
    )  # fmt: skip


def _sha256(said: str) -> str:
    return hashlib.sha256(said.encode()).hexdigest()


def events_are_numbered(found: Evidence) -> Iterator[str]:
    """I14: 1, 2, 3 … to the number on the session."""
    for session_id, session in found.sessions.items():
        if session["deleted"]:
            continue
        rows = found.events.get(session_id, [])
        if [row["seq"] for row in rows] != list(range(1, session["last_seq"] + 1)):
            yield f"I14 session {session_id}: {len(rows)} events, the last is {session['last_seq']}"
        if any(row["type"] != row["body"]["type"] for row in rows):
            yield f"I14 session {session_id}: an event's type is not its body's"


def questions_are_decided_once(found: Evidence) -> Iterator[str]:
    """I01, I12: asked once, closed at most once; log, audit and row agree on how and by whom."""
    noted = Counter(_noted(found))
    told = Counter(_told(found))
    deciders = {note["details"].get("approval_id"): note["actor"] for note in _decisions(found)}
    for row in found.tables["approvals"]:
        # What a deleted session was asked goes, bit by bit.
        if not found.is_kept(row["session_id"]):
            continue
        expected = {"pending": 1, row["status"]: 1}
        audit = {word: n for (approval, word), n in noted.items() if approval == row["id"]}
        events = {word: n for (approval, word), n in told.items() if approval == row["id"]}
        if audit != expected:
            yield f"I12 approval {row['id']} is {row['status']}, the audit says {audit}"
        if events != expected:
            yield f"I01 approval {row['id']} is {row['status']}, the log says {events}"
        if row["decided_by"] != deciders.get(row["id"]):
            yield (
                f"I12 approval {row['id']} was {row['status']} by {row['decided_by']}, by the "
                f"audit {deciders.get(row['id'])}"
            )
        if (row["status"] == "pending") == (row["decided_at"] is not None):
            yield f"I01 approval {row['id']} is {row['status']}, decided at {row['decided_at']}"


def _noted(found: Evidence) -> Iterator[tuple[str, str]]:
    for row in found.tables["audit"]:
        kind, _, word = row["action"].partition(".")
        approval_id = row["details"].get("approval_id")
        # How many have approved, or who was let in, closes nothing.
        closes = word not in ("voted", "escalated")
        if kind in ("plan", "tool", "subtask", "intervention") and approval_id and closes:
            yield approval_id, "pending" if word == "asked" else word


def _decisions(found: Evidence) -> Iterator[Row]:
    """Entries that say what a person decided, a vote that was not the last left out."""
    for row in found.tables["audit"]:
        _, _, word = row["action"].partition(".")
        if row["details"].get("decision") and word not in ("asked", "voted"):
            yield row


def _told(found: Evidence) -> Iterator[tuple[str, str]]:
    for row in (row for rows in found.events.values() for row in rows):
        if row["type"] in ("approval_requested", "approval_resolved"):
            yield row["body"]["metadata"]["approval_id"], row["body"]["metadata"]["status"]


def model_is_told_whole_stories(found: Evidence) -> Iterator[str]:
    """I28: each tool call in a request is followed by exactly one result."""
    for number, body in enumerate(found.model_requests):
        yield from (f"I28 model request {number}: {text}" for text in violations_of(body))


def repeats_have_one_answer(found: Evidence) -> Iterator[str]:
    """I07: one answer a key, and no turn that two of them made."""
    made = [row["answer"].get("receipt", {}) for row in found.tables["answers"]]
    turns = Counter(r["turn_id"] for r in made if r.get("turn_id") and not r.get("plan_id"))
    known = {row["id"] for row in found.tables["turns"]}
    yield from (
        f"I07 turn {turn} of a stored answer is not there" for turn in turns - Counter(known)
    )


def one_session_each(found: Evidence) -> Iterator[str]:
    """I17: what belongs to a plan or a call belongs to its session."""
    for row in found.tables["tool_calls"] + found.tables["approvals"]:
        for name, owners in (("plan_id", found.plans), ("call_id", found.calls)):
            owner = owners.get(row.get(name) or "")
            if owner is not None and owner["session_id"] != row["session_id"]:
                yield f"I17 {row['id']} is of another session than its {name} {row[name]}"


def acknowledged_survives(found: Evidence, bodies: Iterable[Row]) -> Iterator[str]:
    """I13, I15: what a client was told is in the database, unchanged and without a gap."""
    seen: dict[str, list[int]] = {}
    for body in bodies:
        session_id, seq = body["session_id"], body["seq"]
        rows = found.events.get(session_id, [])
        row = rows[seq - 1] if 0 < seq <= len(rows) else None
        kept = row and {**row["body"], "seq": seq, "session_id": session_id, "ts": row["ts"]}
        if kept != body:
            yield f"I13 session {session_id} #{seq}: told {body}, kept {kept}"
        seen.setdefault(session_id, []).append(seq)
    for session_id, numbers in seen.items():
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            yield f"I15 session {session_id}: a client was told {numbers}"


def no_secret(found: Evidence, secrets: Collection[str]) -> Iterator[str]:
    """I33: none of the texts is anywhere."""
    for secret in secrets:
        for name, rows in found.tables.items():
            if any(secret in json.dumps(row, default=str) for row in rows):
                yield f"I33 a secret is in {name}"
        if any(secret in json.dumps(body) for body in found.model_requests):
            yield "I33 a secret was sent to the model"


ALL = (
    store_is_sound, events_are_numbered, questions_are_decided_once, model_is_told_whole_stories,
    repeats_have_one_answer, one_session_each,
)  # fmt: skip
