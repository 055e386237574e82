"""What must hold after several servers and workers shared one database, whatever became of them.

    assert check(database, workspaces, told) == []

It believes nothing that gonogo says of itself where something else can tell: it reads the tables
with plain SQL, the audit log, the ledgers that the commands wrote, the files, and what clients were
told. Each line it gives begins with the number of what does not hold:

- M1 events of a session are numbered without a gap, and audit chains are whole
- M2 a place's fence only rises, and its row and its sessions have the last one
- M3 a fence has one owner
- M4 what a client was told, or had acknowledged, is there
- M5 no effect was done twice, and none while another worker had the place
- M6 what is said to be done was done
- M7 nothing is stuck: no open turn, no place that has work and no owner

The invariants of one process (I…) are those of `invariants`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from durability import calls_hold, log_holds, story
from durability.evidence import TABLES, Evidence, Row, read

MORE = ("places", "nodes", "handoffs")
OWNED = "place.owned"
STUCK = "M7"
"""What passes by itself, in the time that a worker takes to be found dead."""
_STALE = timedelta(seconds=6)
OVER = frozenset({"done", "failed", "cancelled"})
Problems = Iterator[str]


@dataclass
class Told:
    """What the clients of all servers know."""

    events: list[Row] = field(default_factory=list[Row])
    said: dict[str, str] = field(default_factory=dict[str, str])
    """Messages that were taken: what was said, by its session and words."""
    decided: set[str] = field(default_factory=set[str])
    """Questions whose answer was taken."""


@dataclass
class History:
    """All that there is to look at."""

    found: Evidence
    ledgers: Mapping[str, Sequence[Row]]
    """By workspace."""
    files: Mapping[str, Mapping[str, str]]
    """By workspace: what each file holds."""
    told: Told


def check(database: str, workspaces: Iterable[Path], told: Told) -> list[str]:
    """What does not hold, a line each; empty when all is well."""
    folders = list(workspaces)
    found = read(database, None, (), (), (*TABLES, *MORE))
    if found.flaws:
        return [f"M1 {flaw}" for flaw in found.flaws]
    history = History(
        found=found, told=told,
        ledgers={str(folder): story.ledger(folder) for folder in folders},
        files={str(folder): story.contents(folder) for folder in folders},
    )  # fmt: skip
    common = (*log_holds.ALL[:3], *calls_hold.ALL)
    problems = [problem for each in common for problem in each(found)]
    return [*problems, *check_history(history)]


def check_history(history: History) -> list[str]:
    """What does not hold of several processes."""
    checks = (
        _log_has_no_gap, _fences_rise, _a_fence_has_one_owner, _told_is_there, _taken_is_there,
        _no_effect_twice, _owners_do_not_overlap, _done_is_done, _nothing_is_stuck,
    )  # fmt: skip
    return [problem for each in checks for problem in each(history)]


def _log_has_no_gap(history: History) -> Problems:
    for session_id, session in history.found.sessions.items():
        seqs = [row["seq"] for row in history.found.events.get(session_id, [])]
        if seqs != list(range(1, session["last_seq"] + 1)):
            yield f"M1 session {session_id} has {len(seqs)} events, the last is {seqs[-1:]}"
    for chain, rows in history.found.chains.items():
        if [row["seq"] for row in rows] != list(range(1, len(rows) + 1)):
            yield f"M1 audit {chain} has a gap"


def _appointments(history: History) -> dict[str, list[tuple[int, str]]]:
    """By place, in the order of the audit log: the fence and who got it."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for note in sorted(history.found.notes(OWNED), key=lambda row: row["seq"]):
        found[note["subject"]].append((note["details"]["fence"], note["actor"]))
    return found


def _fences_rise(history: History) -> Problems:
    places = {row["id"]: row for row in history.found.tables["places"]}
    for place, given in _appointments(history).items():
        fences = [fence for fence, _ in given]
        if fences != sorted(set(fences)):
            yield f"M2 place {place} had the fences {fences}"
        if place not in places or places[place]["fence"] < fences[-1]:
            yield f"M2 place {place} has fallen below {fences[-1]}"
    for session_id, session in history.found.sessions.items():
        place = places.get(session["place_id"] or "")
        # Whoever drove alone before had its fence counted over by the first of several.
        if place is None or session["fence"] > place["fence"]:
            yield f"M2 session {session_id} has the fence {session['fence']}, its place {place}"


def _a_fence_has_one_owner(history: History) -> Problems:
    for place, given in _appointments(history).items():
        owners: dict[int, set[str]] = defaultdict(set)
        for fence, owner in given:
            owners[fence].add(owner)
        for fence, several in owners.items():
            if len(several) > 1:
                yield f"M3 fence {fence} of {place} had the owners {sorted(several)}"
    for place in history.found.tables["places"]:
        last = _appointments(history).get(place["id"], [])
        if place["owner"] and (place["fence"], f"node:{place['owner']}") not in last:
            yield f"M3 {place['owner']} has {place['id']}, and was never given it"


def _told_is_there(history: History) -> Problems:
    for body in history.told.events:
        rows = history.found.events.get(body["session_id"], [])
        row = rows[body["seq"] - 1] if body["seq"] <= len(rows) else None
        kept = row and {
            **row["body"], "seq": row["seq"], "session_id": row["session_id"], "ts": row["ts"],
        }  # fmt: skip
        if kept != body:
            yield f"M4 session {body['session_id']} #{body['seq']}: told {body}, kept {kept}"


def _taken_is_there(history: History) -> Problems:
    turns = Counter(f"{row['session_id']} {row['content']}" for row in _turns(history))
    for said in history.told.said:
        if turns[said] != 1:
            yield f"M4 {said!r} was taken, and is there {turns[said]} times"
    closed = {row["id"] for row in history.found.tables["approvals"] if row["decided_by"]}
    yield from (f"M4 the answer to {a} was taken" for a in history.told.decided - closed)


def _turns(history: History) -> list[Row]:
    return history.found.tables["turns"]


def _effects(history: History, phase: str) -> dict[str, Counter[str]]:
    return {
        folder: Counter(line["command"] for line in lines if line["phase"] == phase)
        for folder, lines in history.ledgers.items()
    }


def _no_effect_twice(history: History) -> Problems:
    allowed = Counter[tuple[str, str]]()
    for call in history.found.started():
        if call["tool"] == "execute_command":
            folder = history.found.sessions[call["session_id"]]["workspace"]
            allowed[folder, call["arguments"]["command"]] += 1
    for folder, effects in _effects(history, "start").items():
        for command, count in effects.items():
            # Whoever answers in these histories never has anything run again.
            if count > 1:
                yield f"M5 {command} began {count} times in {folder}"
            if not allowed[folder, command]:
                yield f"M5 {command} began in {folder}, and nothing had set it going"


def _owners_do_not_overlap(history: History) -> Problems:
    """Of one workspace's commands, which come one after the other, none lives into the next."""
    for folder, lines in history.ledgers.items():
        running = None
        for line in sorted(lines, key=lambda line: line["at"]):
            if line["phase"] == "start":
                running = line["command"]
            elif line["command"] != running:
                yield f"M5 {line['command']} ended in {folder} when {running} had begun"


def _done_is_done(history: History) -> Problems:
    ended = _effects(history, "end")
    for call in history.found.started():
        folder = history.found.sessions[call["session_id"]]["workspace"]
        # A person may have said what came of it.
        if call["status"] != "completed" or folder not in history.ledgers or _is_told(call):
            continue
        command = call["arguments"].get("command")
        if command is not None and ended[folder][command] != 1:
            yield f"M6 {command} is completed, and ended {ended[folder][command]} times in {folder}"
        path = call["arguments"].get("path")
        written = history.files[folder].get(path) if path else None
        if path and written != call["arguments"]["content"]:
            yield f"M6 {path} was written in {folder}, and holds {written!r}"


def _is_told(call: Row) -> bool:
    result: Any = call["result"]
    return isinstance(result, dict) and "seen" in result


def _moment(written: str) -> datetime:
    return datetime.fromisoformat(written)


def _nothing_is_stuck(history: History) -> Problems:
    for turn in _turns(history):
        if turn["status"] not in OVER:
            yield f"M7 turn {turn['id']} is {turn['status']}"
    for call in history.found.calls.values():
        if call["status"] == "started":
            yield f"M7 call {call['id']} is under way"
    beats = {row["id"]: _moment(row["beat_at"]) for row in history.found.tables["nodes"]}
    alive = {node for node, beat in beats.items() if max(beats.values()) - beat < _STALE}
    for place in history.found.tables["places"]:
        if place["placed"] and place["owner"] not in alive:
            yield f"M7 place {place['id']} has work, and the owner {place['owner']}"
    for handed in history.found.tables["handoffs"]:
        yield f"M7 {handed['op']} {handed['kind']} of {handed['place_id']} was taken by nobody"
