"""Invariants of tool calls: why each might run, that it ran once, and what is left of it."""

import hashlib
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from durability.evidence import CONTROL, TERMINAL_CALLS, Evidence, Row

ALLOWED_BY_PERSON = frozenset({"approved", "edited"})


def nothing_runs_without_leave(found: Evidence) -> Iterator[str]:
    """I02, I05, I06, I10, I12: a started call has one reason, and it is about these arguments."""
    reasons: dict[str, list[Row]] = defaultdict(list)
    for note in found.notes("tool.allowed"):
        if "call_id" in note["details"]:
            reasons[note["details"]["call_id"]].append(note)
    approvals = {row["id"]: row for row in found.tables["approvals"]}
    for call in found.started(control=True):
        name, given = f"{call['tool']} {call['id']}", reasons.get(call["id"], [])
        if len(given) != 1:
            yield f"I12 {name} has {len(given)} reasons in the audit"
        for note in given:
            yield from _reason(call, name, note)
        yield from _leave(call, name, approvals.get(call["approval_id"] or ""))
    for call_id in reasons.keys() - found.calls.keys():
        # What a deleted session did goes, bit by bit.
        if any(found.is_kept(note["chain"]) for note in reasons[call_id]):
            yield f"I12 a call {call_id} was allowed that is not there"


def _reason(call: Row, name: str, note: Row) -> Iterator[str]:
    """What an entry says of why a call might run: a person, or a rule, grant or default."""
    said = note["details"]
    by_person = said.get("source") == "person"
    if said["digest"] != call["digest"]:
        yield f"I06 {name} ran as {call['digest']}, allowed was {said['digest']}"
    if not said.get("reason") or not (by_person or said.get("rule")):
        yield f"I12 {name} was allowed for {said}"
    if by_person == note["actor"].startswith("agent:"):
        yield f"I12 {name} was allowed by {note['actor']}: {said}"
    if note["ts"] > call["started_at"]:
        yield f"I12 {name} began {call['started_at']}, its reason is of {note['ts']}"


def _leave(call: Row, name: str, approval: Row | None) -> Iterator[str]:
    verdict = call["verdict"].get("decision")
    if verdict == "deny":
        yield f"I10 {name} was denied and ran"
    if approval is None:
        if verdict != "allow" and call["retry_of"] is None:
            yield f"I02 {name} ran with the verdict {call['verdict']} and no approval"
        return
    if approval["status"] not in ALLOWED_BY_PERSON and call["retry_of"] is None:
        yield f"I02 {name} ran and its approval is {approval['status']}"
    if approval["status"] == "approved" and approval["digest"] != call["digest"]:
        yield f"I06 {name} ran as {call['digest']}, approved was {approval['digest']}"


def runs_again_only_when_told(found: Evidence) -> Iterator[str]:
    """I03, I40: a call in the place of another has a decision of its own about the other."""
    for call in found.calls.values():
        if call["retry_of"] is None:
            continue
        given = [
            row
            for row in found.tables["approvals"]
            if row["call_id"] == call["retry_of"] and row["kind"] == "intervention"
            and row["status"] == "approved" and row["decided_at"] <= call["created_at"]
        ]  # fmt: skip
        if len(given) != 1:
            yield f"I40 {call['id']} runs {call['retry_of']} again: {len(given)} decisions"
    twice = Counter(c["retry_of"] for c in found.calls.values() if c["retry_of"])
    yield from (f"I03 {call_id} was run again {n} times" for call_id, n in twice.items() if n > 1)


def commands_ran_as_written_down(found: Evidence) -> Iterator[str]:
    """I02, I03, I05: each start in the ledger is of a call of its own that was set going."""
    set_going = Counter[tuple[str, ...]]()
    for call in found.started():
        if call["tool"] == "execute_command":
            set_going[_words(call["arguments"]["command"])] += 1
    ran = Counter(_words(line["command"]) for line in found.ledger if line["phase"] == "start")
    for words, count in ran.items():
        if count > set_going[words]:
            yield f"I03 {shlex.join(words)} began {count} times in {set_going[words]} calls"


def _words(command: str) -> tuple[str, ...]:
    return tuple(shlex.split(command))


def each_has_one_result(found: Evidence) -> Iterator[str]:
    """I04, I08: one last word about each call that is over, none about others."""
    told = {kind: Counter[str]() for kind in ("tool_call", "result", "doubt")}
    for row in (row for rows in found.events.values() for row in rows):
        body = row["body"]
        if row["type"] == "tool_call":
            told["tool_call"][body["call_id"]] += 1
        elif row["type"] == "tool_result":
            doubted = body["metadata"]["status"] == "unknown"
            told["doubt" if doubted else "result"][body["call_id"]] += 1
    strangers = {call_id for counts in told.values() for call_id in counts} - found.calls.keys()
    yield from (f"I04 {call_id} is told of and is no call" for call_id in sorted(strangers))
    retried = {call["retry_of"] for call in found.calls.values()}
    for call_id, call in found.calls.items():
        counts = {kind: each[call_id] for kind, each in told.items()}
        yield from _results(call, counts, call_id in retried)


def _results(call: Row, told: dict[str, int], retried: bool) -> Iterator[str]:
    over = call["status"] in TERMINAL_CALLS
    # Of one in doubt, whatever ran in its place may have told it.
    untold = told["doubt"] == 1 and retried and told["result"] == 0
    if told["result"] != int(over) and not untold:
        yield f"I04 {call['tool']} {call['id']} is {call['status']}, told: {told}"
    if told["doubt"] > 1 or told["tool_call"] > 1:
        yield f"I08 {call['tool']} {call['id']} was told twice: {told}"
    if over != (call["finished_at"] is not None):
        yield f"I08 {call['id']} is {call['status']}, finished at {call['finished_at']}"


def denials_are_written_down(found: Evidence) -> Iterator[str]:
    """I12: one entry for each denial, with its reason."""
    noted = Counter(note["details"].get("call_id") for note in found.notes("tool.denied"))
    denied = Counter(c["id"] for c in found.calls.values() if c["status"] == "denied")
    if noted != denied:
        yield f"I12 denied are {dict(denied)}, the audit says {dict(noted)}"
    for note in found.notes("tool.denied"):
        if not note["details"].get("reason") or not note["details"].get("rule"):
            yield f"I12 {note['subject']} was denied for {note['details']}"


def effects_exist(found: Evidence, edited_by_hand: Collection[str]) -> Iterator[str]:
    """I26, I21: the last finished change of a file is what it holds; nothing half is left."""
    if found.workspace is None or not found.workspace.is_dir():
        return
    yield from (
        f"I21 {path.relative_to(found.workspace)} was left behind"
        for path in sorted(found.workspace.rglob(".gonogo-*.tmp"))
    )
    here = str(found.workspace.resolve())
    mine = [
        call for call in found.started()
        if found.sessions[call["session_id"]]["workspace"] == here
        and found.sessions[call["session_id"]]["tool_host"] == "server"
    ]  # fmt: skip
    last: dict[str, Row] = {}
    for call in sorted(mine, key=lambda call: call["started_at"]):
        last |= {effect["path"]: {**effect, **_end(call)} for effect in call["effects"]}
    for path, effect in last.items():
        if effect["status"] != "completed" or path in edited_by_hand:
            continue
        if (now := _content(found, path)) != effect["after"]:
            yield f"I26 {path} is {now}, and {effect['tool']} made it {effect['after']}"


def _end(call: Row) -> Row:
    return {"status": call["status"], "tool": call["tool"]}


def _content(found: Evidence, path: str) -> str | None:
    file = found.workspace / path
    if not file.is_file():
        return "folder" if file.is_dir() else None
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()


def classes_are_known(found: Evidence) -> Iterator[str]:
    """I03: what was set going and not ended is either running or in doubt, never forgotten."""
    for call in found.calls.values():
        here = found.sessions[call["session_id"]]["tool_host"] == "server"
        harmless = call["tool_class"] == CONTROL or (here and call["tool_class"] == "pure")
        if call["status"] == "unknown" and harmless:
            yield f"I03 {call['tool']} {call['id']} is in doubt and could simply run again"


ALL = (
    nothing_runs_without_leave, runs_again_only_when_told, commands_ran_as_written_down,
    each_has_one_result, denials_are_written_down, classes_are_known,
)  # fmt: skip
