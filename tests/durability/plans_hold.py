"""Invariants of plans, subtasks and turns, and that nothing waits for what is not there."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from durability.evidence import CONTROL, OVER, SUBTASK_OVER, Evidence, Row

_ENDS = {f"subtask_{status}": status for status in SUBTASK_OVER}


def revisions_are_graphs(found: Evidence) -> Iterator[str]:
    """I11: no cycle, known dependencies, the digest of the content, rows for each subtask."""
    for (plan_id, number), row in found.revisions().items():
        name, subtasks = f"I11 {plan_id}/{number}", row["subtasks"]
        content = {"plan_id": plan_id, "number": number, "goal": row["goal"], "subtasks": subtasks}
        if _digest(content) != row["digest"]:
            yield f"{name} is not what its digest says"
        rows = [r["subtask_id"] for r in _rows(found, plan_id, number)]
        if rows != [subtask["id"] for subtask in subtasks]:
            yield f"{name} has the rows {rows}"
        yield from (f"{name} {flaw}" for flaw in _graph_flaws(subtasks))
    for plan in found.plans.values():
        current = found.revisions().get((plan["id"], plan["revision"]))
        if current is None or current["digest"] != plan["digest"]:
            yield f"I11 plan {plan['id']} is not what its revision {plan['revision']} says"


def _graph_flaws(subtasks: list[Row]) -> Iterator[str]:
    ids = [subtask["id"] for subtask in subtasks]
    graph = {subtask["id"]: subtask.get("dependencies", []) for subtask in subtasks}
    if len(set(ids)) != len(ids) or not all(ids):
        yield f"has the ids {ids}"
    if not {needed for needs in graph.values() for needed in needs} <= set(ids):
        yield "depends on what it does not have"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        yield "has a cycle"


def _digest(value: Row) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _rows(found: Evidence, plan_id: str, number: int) -> list[Row]:
    rows = [
        row
        for row in found.tables["subtasks"]
        if (row["plan_id"], row["revision"]) == (plan_id, number)
    ]
    return sorted(rows, key=lambda row: row["position"])


def log_tells_the_rows(found: Evidence) -> Iterator[str]:
    """I08, I15, I23, I25: each prefix of the log is a state, the whole log is this one."""
    for plan in found.plans.values():
        revision = found.revisions().get((plan["id"], plan["revision"]))
        if revision is not None:
            yield from _Fold(found, plan, revision).problems()


class _Fold:
    """Walks through the events of one plan's current revision."""

    def __init__(self, found: Evidence, plan: Row, revision: Row) -> None:
        self.plan, self.name = plan, plan["id"]
        self.needs = {s["id"]: s.get("dependencies", []) for s in revision["subtasks"]}
        self.rows = {r["subtask_id"]: r for r in _rows(found, plan["id"], plan["revision"])}
        events = found.events.get(plan["session_id"], [])
        self.bodies = [e["body"] for e in events if e["body"].get("plan_id") == plan["id"]]
        self.state: dict[str, str] = {}
        self.told, self.earlier = 1, dict[int, dict[str, str]]()
        self.ended: str | None = None
        self.done = 0

    def problems(self) -> Iterator[str]:
        for body in self.bodies:
            yield from self._step(body)
        told = {key: status for key, status in self.state.items() if status in SUBTASK_OVER}
        kept = {
            key: row["status"] for key, row in self.rows.items() if row["status"] in SUBTASK_OVER
        }
        if told != kept:
            yield f"I15 {self.name}: the log says {told}, the rows say {kept}"
        begun = {key for key, row in self.rows.items() if row["attempt"] > 0}
        if {key for key in begun if key not in self.state}:
            yield f"I15 {self.name}: {begun - self.state.keys()} began untold"
        yield from self._whole()

    def _step(self, body: Row) -> Iterator[str]:
        kind = body["type"]
        if kind == "subtask_started" or kind in _ENDS:
            yield from self._moves(kind, body.get("subtask_id"))
        elif kind == "plan_progress":
            yield from self._progress(body["metadata"])
        elif kind == "plan_notification":
            # Of a later revision: what is done stands, all else begins anew.
            self.earlier[self.told], self.told = self.state, body["metadata"]["revision"]
            self.state = {key: s for key, s in self.state.items() if s == "completed"}
            self.ended, self.done = None, 0
        elif _is_end(body):
            if self.ended is not None:
                yield f"I08 {self.name} ends twice"
            if (revision := body["metadata"].get("revision", self.told)) < self.told:
                # It was not approved: the plan ends in the one before.
                self.state = {**self.state, **self.earlier[revision]}
                self.state = {key: s for key, s in self.state.items() if key in self.needs}
            self.ended = body["metadata"].get("status", kind.removeprefix("plan_"))

    def _moves(self, kind: str, subtask: str) -> Iterator[str]:
        if kind == "subtask_started":
            yield from self._begins(subtask)
        elif self.state.get(subtask) in SUBTASK_OVER:
            yield f"I08 {self.name}: {subtask} is {self.state[subtask]} and then {kind}"
        self.state[subtask] = _ENDS.get(kind, "running")

    def _begins(self, subtask: str) -> Iterator[str]:
        unmet = [n for n in self.needs.get(subtask, []) if self.state.get(n) != "completed"]
        if unmet:
            yield f"I23 {self.name}: {subtask} begins before {unmet}"
        if self.state.get(subtask) in SUBTASK_OVER:
            yield f"I08 {self.name}: {subtask} is {self.state[subtask]} and begins"
        if self.ended is not None:
            yield f"I08 {self.name}: {subtask} begins after the end"

    def _progress(self, facts: Row) -> Iterator[str]:
        over = sum(status in SUBTASK_OVER for status in self.state.values())
        if facts["done"] != over or facts["total"] != len(self.needs) or facts["done"] < self.done:
            yield f"I25 {self.name}: progress {facts}, over are {over} of {len(self.needs)}"
        self.done = facts["done"]

    def _whole(self) -> Iterator[str]:
        states, status = [row["status"] for row in self.rows.values()], self.plan["status"]
        over = all(state in SUBTASK_OVER for state in states)
        if status == "completed" and not set(states) <= {"completed", "skipped"}:
            yield f"I25 {self.name} is completed, its subtasks are {states}"
        if status in ("completed", "failed", "partial", "cancelled") and not over:
            yield f"I25 {self.name} is {status}, its subtasks are {states}"
        if status == "running" and over:
            yield f"I25 {self.name} runs, its subtasks are {states}"
        if status in ("completed", "failed", "partial") and self.ended != status:
            yield f"I25 {self.name} is {status}, the log says {self.ended}"


def _is_end(body: Row) -> bool:
    """Whether a plan ends; one that had begun goes on to its end when a revision is rejected."""
    begun = body["type"] == "plan_rejected" and not body.get("is_final")
    return body["type"] in ("plan_completed", "plan_cancelled", "plan_rejected") and not begun


def only_what_was_approved_runs(found: Evidence) -> Iterator[str]:
    """I02, I40: whatever ran of a plan stands so in a revision that people approved."""
    revisions = found.revisions()
    approved: dict[str, list[Row]] = defaultdict(list)
    for plan_id, number in _approved(found):
        approved[plan_id] += revisions[plan_id, number]["subtasks"]
    for plan_id, number, subtask_id in sorted(_ran(found)):
        subtasks = {subtask["id"]: subtask for subtask in revisions[plan_id, number]["subtasks"]}
        if subtasks[subtask_id] not in approved[plan_id]:
            yield f"I02 {plan_id}/{number}/{subtask_id} ran and nobody approved it"
    for grant in found.tables["grants"]:
        key = (grant["plan_id"], grant["revision"], grant["subtask_id"])
        of = {subtask["id"]: subtask for subtask in revisions[key[:2]]["subtasks"]}
        if of[key[2]] not in approved[key[0]]:
            yield f"I40 {grant['id']} grants {key}, and nobody approved it"


def _approved(found: Evidence) -> Iterator[tuple[str, int]]:
    """Revisions that people approved, or wrote as an edit, or that needed nobody by the setting."""
    for question in found.tables["approvals"]:
        number = {"approved": question["revision"], "edited": (question["revision"] or 0) + 1}
        if question["kind"] == "plan" and question["status"] in number:
            yield question["plan_id"], number[question["status"]]
    for note in found.notes("plan.replanned_within_grant"):
        yield note["subject"], note["details"]["revision"]


def _ran(found: Evidence) -> set[tuple[str, int, str]]:
    """What was begun in any way: by its row, by a call, by a request to a model."""
    ran = {
        (row["plan_id"], row["revision"], row["subtask_id"])
        for row in found.tables["subtasks"]
        if row["attempt"] or row["status"] in ("running", "completed", "failed")
    }
    ran |= {
        (call["plan_id"], call["revision"], call["subtask_id"])
        for call in found.calls.values()
        if call["subtask_id"] is not None
    }
    threads = {row["thread"] for row in found.tables["model_requests"] if row["subtask_id"]}
    for plan_id, number, subtask_id in (t.split("#")[0].rsplit("/", 2) for t in threads):
        ran.add((plan_id, int(number), subtask_id))
    return ran


def attempts_are_counted(found: Evidence) -> Iterator[str]:
    """I36: each attempt begins once, after the one before it has failed, and no more than may."""
    for (plan_id, number), revision in found.revisions().items():
        # A later revision counts anew what it carries out again.
        if number != 1 or found.plans[plan_id]["revision"] != 1:
            continue
        told = found.events.get(found.plans[plan_id]["session_id"], [])
        bodies = [row["body"] for row in told if row["body"].get("plan_id") == plan_id]
        for subtask, row in zip(revision["subtasks"], _rows(found, plan_id, 1), strict=False):
            own = [body for body in bodies if body.get("subtask_id") == subtask["id"]]
            yield from (f"I36 {row['key']} {flaw}" for flaw in _attempt_flaws(subtask, row, own))


def _attempt_flaws(subtask: Row, row: Row, bodies: list[Row]) -> Iterator[str]:
    most = (subtask.get("retry_policy") or {"max_attempts": 1})["max_attempts"]
    begun = [b["metadata"]["attempt"] for b in bodies if b["type"] == "subtask_started"]
    failed = [b["metadata"]["attempt"] for b in bodies if b["type"] == "subtask_retrying"]
    if begun != list(range(1, row["attempt"] + 1)) or row["attempt"] > most:
        yield f"is at attempt {row['attempt']} of {most}, begun were {begun}"
    waits = row["not_before"] is not None
    if failed != (begun if waits else begun[:-1]):
        yield f"began the attempts {begun}, and failed were {failed}"


def ends_are_written_down(found: Evidence) -> Iterator[str]:
    """I12: one entry for each plan's end; no grant outlives its plan."""
    for plan in found.plans.values():
        closed = [n for n in found.notes("plan.closed") if n["subject"] == plan["id"]]
        over = int(plan["status"] in OVER)
        # A person may have had one changed, or tried again, that was over.
        if len(closed) != over and (plan["revision"] == 1 or len(closed) < over):
            yield f"I12 plan {plan['id']} is {plan['status']}, closed {len(closed)} times"
        going = plan["status"] in ("approved", "running", "paused", "replanning")
        grants = [g for g in found.tables["grants"] if g["plan_id"] == plan["id"]]
        if not going and any(grant["status"] == "active" for grant in grants):
            yield f"I02 plan {plan['id']} is {plan['status']} and still grants"


def one_turn_at_a_time(found: Evidence) -> Iterator[str]:
    """I20: a session has at most one turn under way, a plan no more than it may run at once."""
    turns: dict[str, list[str]] = defaultdict(list)
    for turn in found.tables["turns"]:
        if turn["status"] in ("running", "parked"):
            turns[turn["session_id"]].append(turn["id"])
    yield from (f"I20 session {s} has the turns {t}" for s, t in turns.items() if len(t) > 1)
    for plan in found.plans.values():
        rows = _rows(found, plan["id"], plan["revision"])
        running = [row["subtask_id"] for row in rows if row["status"] == "running"]
        if len(running) > plan["max_parallel"]:
            yield f"I20 plan {plan['id']} runs {running} at once"


# At rest ------------------------------------------------------------------------------------------


def calls_wait_for_something(found: Evidence) -> Iterator[str]:
    """I03, I35: a call that is not over has its question; only a client's may be under way."""
    again = {call["retry_of"] for call in found.calls.values() if call["finished_at"] is None}
    for call in found.calls.values():
        status, name = call["status"], f"I35 {call['tool']} {call['id']} is {call['status']}"
        asked = found.pending(call_id=call["id"])
        if status in ("proposed", "allowed"):
            yield f"{name} and nobody goes on with it"
        elif status == "awaiting_approval" and [a["kind"] for a in asked] != ["tool"]:
            yield f"{name} and {len(asked)} questions are open"
        elif status == "unknown" and call["id"] not in again:
            if [a["kind"] for a in asked] != ["intervention"]:
                yield f"{name} and {len(asked)} questions are open"
        elif status == "started" and call["tool_class"] != CONTROL:
            timers = {t["key"] for t in found.tables["timers"] if t["kind"] == "client_call"}
            if call["id"] not in timers:
                yield f"{name} and nothing runs"


def questions_are_about_something(found: Evidence) -> Iterator[str]:
    """I35: what is asked still matters."""
    for question in found.pending():
        call, plan = found.calls.get(question["call_id"]), found.plans.get(question["plan_id"])
        name = f"I35 {question['kind']} {question['id']} is asked"
        if question["kind"] == "plan" and (plan is None or plan["status"] != "awaiting_approval"):
            yield f"{name} and the plan is {plan and plan['status']}"
        if question["kind"] == "tool" and (call is None or call["status"] != "awaiting_approval"):
            yield f"{name} and the call is {call and call['status']}"
        odd = call is not None and call["status"] not in ("unknown", "started")
        if question["kind"] == "intervention" and odd:
            yield f"{name} and the call is {call['status']}"
        if found.sessions[question["session_id"]]["deleted"]:
            yield f"{name} in a session that is deleted"


def plans_wait_for_something(found: Evidence) -> Iterator[str]:
    """I35: a plan that is not over waits for a person, or for a time."""
    timers = {timer["key"] for timer in found.tables["timers"]}
    for plan in found.plans.values():
        asked = found.pending(plan_id=plan["id"])
        if plan["status"] == "awaiting_approval" and [a["kind"] for a in asked] != ["plan"]:
            yield f"I35 plan {plan['id']} waits and {len(asked)} questions are open"
        rows = _rows(found, plan["id"], plan["revision"])
        for row in rows:
            if row["status"] == "running" and not _client_works(found, row):
                yield f"I35 subtask {row['key']} is running and nobody drives it"
            asked = found.pending(plan_id=plan["id"], subtask_id=row["subtask_id"])
            if row["status"] == "waiting_approval" and not asked:
                yield f"I35 subtask {row['key']} waits and nothing is asked"
        waiting = any(row["status"] in ("waiting_approval", "running") for row in rows)
        if plan["status"] == "running" and not waiting and plan["id"] not in timers:
            yield f"I35 plan {plan['id']} is running and nothing of it is"


def _client_works(found: Evidence, row: Row) -> bool:
    return any(
        call["status"] == "started" and call["thread"] == f"{row['key']}#{row['attempt']}"
        and found.sessions[call["session_id"]]["tool_host"] == "client"
        for call in found.calls.values()
    )  # fmt: skip


def turns_wait_for_something(found: Evidence) -> Iterator[str]:
    """I35: a turn under way has a call that waits; one in the queue has something before it."""
    for turn in found.tables["turns"]:
        calls = [
            call for call in found.calls.values()
            if call["turn_id"] == turn["id"] and call["subtask_id"] is None
            and call["status"] in ("awaiting_approval", "unknown", "started")
        ]  # fmt: skip
        if turn["status"] in ("running", "parked") and not calls:
            yield f"I35 turn {turn['id']} is {turn['status']} and waits for nothing"
        if turn["status"] == "queued" and not _is_behind(found, turn):
            yield f"I35 turn {turn['id']} is queued behind nothing"


def _is_behind(found: Evidence, turn: Row) -> bool:
    plan = found.plans.get(found.sessions[turn["session_id"]]["active_plan_id"] or "")
    earlier = [
        other for other in found.tables["turns"]
        if other["session_id"] == turn["session_id"] and other["position"] < turn["position"]
        and other["status"] in ("queued", "running", "parked")
    ]  # fmt: skip
    return bool(earlier) or (plan is not None and plan["status"] not in OVER | {"approved"})


ALL = (
    revisions_are_graphs, only_what_was_approved_runs, log_tells_the_rows, attempts_are_counted,
    ends_are_written_down, one_turn_at_a_time,
)  # fmt: skip
AT_REST = (
    calls_wait_for_something, questions_are_about_something, plans_wait_for_something,
    turns_wait_for_something,
)  # fmt: skip
