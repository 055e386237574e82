"""What model requests took, and what the database holds that the audit log has to tell of."""

from datetime import timedelta
from typing import Any

import pytest

from fakes.rows import NOW, approval, begin, begin_plan, call, grant, plan, revision, subtask
from gonogo.domain.audit_chain import Claim, Holding
from gonogo.domain.records import Comment, ModelRequestRow, SessionRule
from gonogo.domain.replanning import Used
from gonogo.domain.reviews import DecisionLink
from gonogo.domain.states import ApprovalStatus, CallStatus, PlanStatus
from gonogo.store import calls, people, plans, reports, rows, sessions
from gonogo.store.columns import stamp
from gonogo.store.schema import subtasks

SECOND = timedelta(seconds=1)
LATER, LAST = NOW + SECOND, NOW + 2 * SECOND
TOOK = {
    "input_tokens": 100, "cached_tokens": 20, "cache_write_tokens": 30, "output_tokens": 7,
    "reasoning_tokens": 3, "cost_micros": 11,
}  # fmt: skip
NOTHING = {"input_tokens": 0, "output_tokens": 0, "cost_micros": 0}


def request(name: str, **more: Any) -> ModelRequestRow:
    given = {
        "session_id": "s1", "plan_id": "p1", "subtask_id": "a", "thread": "t", "agent": "coder",
        "model": "m", "status": "done", "duration_ms": 5, "created_at": NOW, **TOOK,
    }  # fmt: skip
    return ModelRequestRow(id=name, **{**given, **more})


async def test_what_requests_took_is_summed_by_plan_subtask_and_session(store):
    def made(tx):
        begin(tx, "s1", "s2")
        for each in (
            request("r1"), request("r2", input_tokens=1, output_tokens=9, cost_micros=0),
            request("r3", subtask_id=None, cost_micros=50), request("r4", plan_id="p2"),
            request("r5", session_id="s2", plan_id=None),
            request("r6", status="failed", **NOTHING), request("r7", **NOTHING),
            request("r8", status="failed", input_tokens=1, output_tokens=0, cost_micros=0),
            request("r9", status="reserved", cost_micros=0),
        ):  # fmt: skip
            sessions.add_request(tx, each)

    await store.write(made)
    assert await store.read(reports.used_by_plan, "p1") == Used(
        requests=6, input_tokens=302, cached_tokens=140, cache_write_tokens=210, output_tokens=30,
        reasoning_tokens=21, cost_micros=61, unpriced=1, largest_output=9, largest_cost=50,
    )  # fmt: skip
    alone = Used(
        requests=1, input_tokens=100, cached_tokens=20, cache_write_tokens=30, output_tokens=7,
        reasoning_tokens=3, cost_micros=50, unpriced=0, largest_output=7, largest_cost=50,
    )  # fmt: skip
    by_subtask = await store.read(reports.used_by_subtasks, "p1")
    assert by_subtask.keys() == {"a", None}
    assert by_subtask[None] == alone
    assert by_subtask["a"].requests == 5
    assert (await store.read(reports.used_by_session, "s1")).requests == 7
    assert (await store.read(reports.used_by_session, "s2")).requests == 1
    assert await store.read(reports.used_by_plan, "p9") == Used()


async def test_a_request_ends_in_the_place_of_its_estimate(store):
    await store.write(begin)
    estimate = {"status": "reserved", "duration_ms": None, "cost_micros": 500, "model": "guess"}
    await store.write(sessions.add_request, request("r1", **estimate))
    await store.write(sessions.end_request, request("r1", subtask_id="never"))
    await store.write(sessions.end_request, request("r2", subtask_id="b"))
    one = Used(
        requests=1, input_tokens=100, cached_tokens=20, cache_write_tokens=30, output_tokens=7,
        reasoning_tokens=3, cost_micros=11, unpriced=0, largest_output=7, largest_cost=11,
    )  # fmt: skip
    assert await store.read(reports.used_by_subtasks, "p1") == {"a": one, "b": one}

    await store.write(sessions.refuse_request, "r1", free=False)
    assert (await store.read(reports.used_by_subtasks, "p1"))["a"] == one
    await store.write(sessions.refuse_request, "r1", free=True)
    free = (await store.read(reports.used_by_subtasks, "p1"))["a"]
    assert (free.requests, free.input_tokens, free.output_tokens, free.cost_micros) == (0, 0, 0, 0)


async def test_the_runs_of_a_plan_are_counted_once_over_its_revisions(store):
    def made(tx):
        begin(tx)
        begin_plan(tx)
        begin_plan(tx, plan_id="p2")
        plans.add_revision(tx, revision(subtask("a"), subtask("b", "a"), number=2), "ann", "again")
        for key, attempt, started in (
            ("p1/1/a", 2, NOW), ("p1/2/a", 3, NOW), ("p1/1/b", 1, NOW), ("p1/2/b", 1, LATER),
            ("p2/1/a", 9, NOW),
        ):  # fmt: skip
            to = {"attempt": attempt, "started_at": started}
            rows.change(tx, subtasks, {"key": key}, to)

    await store.write(made)
    counted = {"runs": 40, "limits": {}}
    assert await store.read(reports.runs_of_plan, plan("p1")) == 5
    assert await store.read(reports.runs_of_plan, plan("p1", budget={"limits": {}})) == 5
    assert await store.read(reports.runs_of_plan, plan("p1", budget=counted)) == 40
    assert await store.read(reports.runs_of_plan, plan("p9")) == 0


def done(tx) -> None:
    """One of all that the log has to tell of, and of all that it has not."""
    begin(tx, "s1", "s2")
    begin_plan(tx)
    for name, status, more in (
        ("a1", "pending", {}), ("a2", "approved", {"decided_by": "ann", "decided_at": LATER}),
        ("a3", "expired", {"decided_at": LATER, "kind": "plan", "digest": "sha256:p"}),
    ):  # fmt: skip
        calls.add_approval(tx, approval(name, status=ApprovalStatus(status), **more))
    calls.add_calls(tx, [
        call("c1", status=CallStatus.STARTED, started_at=LATER),
        call("c2", position=2), call("c3", status=CallStatus.DENIED, finished_at=LAST, position=3),
    ])  # fmt: skip
    sessions.add_rule(tx, SessionRule(
        id="r1", session_id="s1", position=1, rule={}, made_by="ann", created_at=LATER,
        ended_at=None, plan_id=None,
    ))  # fmt: skip
    calls.add_link(tx, DecisionLink(
        id="l1", approval_id="a1", digest="d", principal_id="bob", name="Bob", role=2,
        made_by="ann", created_at=LATER, expires_at=LAST, used_at=None, revoked_at=None,
    ))  # fmt: skip
    calls.add_comment(tx, Comment(
        id="m1", session_id="s1", plan_id="p1", revision=1, subtask_id=None, author_id="ann",
        author="Ann", content="?", created_at=LATER,
    ))  # fmt: skip
    plans.add_grants(tx, [
        grant("g1", status="revoked", ended_at=LAST), grant("g2", subtask_id="b"),
        grant("g3", subtask_id="c", status="ended", ended_at=LAST),
    ])  # fmt: skip
    calls.add_approval(tx, approval("other", session_id="s2"))


async def test_each_thing_that_was_decided_or_ran_is_to_have_its_entry(store):
    await store.write(done)
    found = await store.read(lambda tx: list(reports.held_of(tx, "s1")))

    def held(action: str, about: str, by: str = "", digest: str = "", at=LATER) -> Holding:
        return Holding(Claim(action, about, by, digest), stamp(at))

    digest, of_plan = "sha256:c", "sha256:p"
    assert sorted(found, key=str) == sorted([
        held("tool.asked", "a1", "", digest, NOW), held("tool.asked", "a2", "", digest, NOW),
        held("plan.asked", "a3", "", of_plan, NOW),
        held("tool.approved", "a2", "ann", digest), held("plan.expired", "a3", "gonogo", of_plan),
        held("tool.allowed", "c1", "", digest), held("tool.denied", "c3", at=LAST),
        held("rule.made", "r1"), held("link.made", "l1"), held("plan.commented", "m1"),
        held("grant.revoked", "g1", at=LAST),
    ], key=str)  # fmt: skip
    assert await store.read(reports.known_in, "s1") == {"a1", "a2", "a3", "c1", "c2", "c3", "p1"}
    assert await store.read(reports.known_in, "s2") == {"other"}


async def test_sessions_and_tokens_are_to_have_their_entries_in_the_systems_chain(store):
    def made(tx):
        begin(tx, "s1", "s2")
        sessions.set_session(tx, "s2", deleted=True)
        people.keep_principal(tx, "ann", "Ann")
        for name, revoked in (("t1", None), ("t2", NOW)):
            people.add_token(tx, {
                "id": name, "principal_id": "ann", "name": "t", "role": 1, "secret_hash": name,
                "created_at": NOW, "revoked_at": revoked,
            })  # fmt: skip
        rows.put(tx, reports.chains, {"chain": "s0", "audit_seq": 3, "audit_hash": "h"})

    await store.write(made)
    found = await store.read(lambda tx: list(reports.held_of_system(tx)))
    assert sorted((each.claim.action, each.claim.about, each.at) for each in found) == [
        ("session.deleted", "s0", ""), ("session.deleted", "s2", ""),
        ("session.opened", "s0", ""), ("session.opened", "s1", ""), ("session.opened", "s2", ""),
        ("token.created", "t1", ""), ("token.created", "t2", ""), ("token.revoked", "t2", ""),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_plan_goes_on_only_in_the_revision_that_was_approved(store):
    await store.write(begin)
    await store.write(begin_plan)
    seen = await store.read(plans.plan_of, "p1")

    assert await store.write(plans.move_plan, seen, PlanStatus.APPROVED)
    approved = await store.read(plans.plan_of, "p1")
    assert (approved.status, approved.approved_revision) == (PlanStatus.APPROVED, 1)
    assert not await store.write(plans.set_plan, seen, feedback="late")
    assert await store.write(plans.set_plan, approved, feedback="in time")
