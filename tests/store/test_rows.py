"""Rows: each store function gives back what was put in, in the order that it promises."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from fakes.rows import (
    NOW,
    approval,
    at,
    begin,
    begin_plan,
    call,
    grant,
    plan,
    revision,
    session,
    subtask,
)
from gonogo.domain.records import MAIN, Timer
from gonogo.domain.schedule import SubtaskStanding
from gonogo.domain.states import (
    ENDED,
    TURN,
    ApprovalStatus,
    CallStatus,
    PlanStatus,
    SubtaskStatus,
    TurnStatus,
)
from gonogo.domain.tool_calls import Reply, ToolAnswer, ToolRequest, UserText
from gonogo.store import calls, erasing, new_id, people, plans, sessions
from gonogo.store import jobs as timers
from gonogo.store.rows import change
from gonogo.store.schema import approvals, turns

S = SubtaskStatus
SECOND = timedelta(seconds=1)


def test_ids_say_what_they_name_and_sort_by_age():
    made = [new_id("plan") for _ in range(100)]

    assert made == sorted(made)
    assert len(set(made)) == 100
    assert made[0].startswith("plan_")


async def test_a_session_is_kept_field_for_field(store):
    kept = session(title="A", locale="ru", active_plan_id="p1", last_seq=0)
    await store.write(sessions.add_session, kept)

    assert await store.read(sessions.session_of, "s1") == kept
    assert await store.read(sessions.session_of, "s2") is None
    await store.write(sessions.set_session, "s1", title="B", updated_at=NOW + SECOND)
    assert await store.read(sessions.session_of, "s1") == replace(
        kept, title="B", updated_at=NOW + SECOND
    )


async def test_sessions_in_which_nothing_happened_for_long_are_found_a_hundred_at_a_time(store):
    def made(tx):
        for number in range(102):
            at = NOW - number * SECOND
            sessions.add_session(tx, session(f"s{number:03}", created_at=at, updated_at=at))

    await store.write(made)
    found = await store.read(erasing.expired_sessions, NOW)
    assert [each.id for each in found] == [f"s{number:03}" for number in range(101, 1, -1)]


async def test_a_session_with_something_under_way_is_not_one_in_which_nothing_happened(store):
    def made(tx):
        old = NOW - SECOND
        for status in (*PlanStatus, *TurnStatus, *ApprovalStatus):
            name = f"{type(status).__name__}.{status}"
            sessions.add_session(tx, session(name, created_at=old, updated_at=old))
            if isinstance(status, PlanStatus):
                plans.add_plan(tx, plan(name, session_id=name, status=status))
            elif isinstance(status, TurnStatus):
                turn = sessions.add_turn(tx, name, name, "Hi", "ask")
                tx.execute(update(turns).where(turns.c.id == turn.id).values(status=status))
            else:
                calls.add_approval(tx, approval(name, session_id=name, status=status))
        for name, more in {"undone": {}, "gone": {"deleted": True}}.items():
            sessions.add_session(tx, session(name, created_at=old, updated_at=old, **more))
        done = plan("undone", session_id="undone", status=PlanStatus.COMPLETED)
        plans.add_plan(tx, done)
        plans.set_plan(tx, done, rollback={"checkpoint_id": "x"})
        sessions.add_session(tx, session("now", updated_at=NOW))

    await store.write(made)
    found = {each.id for each in await store.read(erasing.expired_sessions, NOW)}
    over = (*ENDED, *TURN.terminal, *set(ApprovalStatus) - {ApprovalStatus.PENDING})
    assert found == {f"{type(status).__name__}.{status}" for status in over}


async def test_turns_stand_in_line_and_leave_it_when_they_are_over(store):
    await store.write(begin, "s1", "s2")
    first = await store.write(sessions.add_turn, "t1", "s1", "Hi", "ask")
    second = await store.write(sessions.add_turn, "t2", "s1", "More", "ask")
    third = await store.write(sessions.add_turn, "t3", "s2", "Hi", "ask")

    assert (first.position, second.position, third.position) == (1, 2, 1)
    assert await store.read(sessions.turn_of, "t1") == first
    assert await store.read(sessions.turn_of, "t9") is None
    first = await store.write(sessions.take_turn, first, TurnStatus.RUNNING)
    await store.write(sessions.move_turn, first, TurnStatus.PARKED)
    assert [t.id for t in await store.read(sessions.open_turns, "s1")] == ["t1", "t2"]
    assert await store.read(sessions.unfinished_turns) == ["t2", "t3"]
    assert await store.write(sessions.set_turn_agent, second, "coder")
    assert (await store.read(sessions.turn_of, "t2")).agent == "coder"


async def test_a_conversation_is_kept_in_order_for_each_thread(store):
    await store.write(begin)
    said = [
        UserText(content="Hi"),
        Reply(calls=(ToolRequest(id="c", name="t", arguments={"a": None}),), raw={"x": [1]}),
        Reply(calls=(ToolRequest(id="d", name="t", arguments=None, problem="no JSON"),)),
        ToolAnswer(call_id="c", tool_name="t", content="ok"),
    ]  # fmt: skip

    def talk(tx):
        for message in said:
            sessions.append_message(tx, "s1", MAIN, message, turn_id="t1", agent="ask")
        sessions.append_message(tx, "s1", "p1/1/a", UserText(content="sub"))

    await store.write(talk)
    assert await store.read(sessions.conversation, "s1", MAIN) == said
    assert await store.read(sessions.conversation, "s1", "p1/1/a") == [UserText(content="sub")]
    rows = await store.read(sessions.history, "s1")
    assert [row.thread for row in rows] == [MAIN, MAIN, MAIN, MAIN, "p1/1/a"]


async def test_a_plan_and_its_revision_are_read_as_they_were_made(store):
    await store.write(begin)
    rich = subtask("a", inputs={"x": [None, 1]}, scope={"commands": ["pytest"]}, timeout=3)
    await store.write(begin_plan, rich, subtask("b", "a"))

    assert await store.read(plans.plan_of, "p1") == plan()
    assert await store.write(plans.lock_plan, "p1") == plan()
    assert await store.read(plans.plan_of, "p2") is None
    assert await store.write(plans.lock_plan, "p2") is None
    made = revision(rich, subtask("b", "a"))
    for _ in range(2):
        found = await store.read(plans.revision_of, "p1", 1)
        assert found == made
        assert found.digest == made.digest
    assert await store.read(plans.revision_of, "p1", 2) is None
    ((kept, row),) = await store.read(plans.revisions_of, "p1")
    assert (kept, row.digest, row.created_by) == (made, made.digest, "architect")
    assert await store.read(plans.count_revisions, "p1") == 1


async def test_a_revision_that_was_rolled_back_is_not_remembered(store):
    """What was shown is what runs: a number may be used again by another revision."""
    await store.write(begin)
    await store.write(begin_plan)

    def lost(tx):
        never = revision(subtask("evil"), number=2)
        plans.add_revision(tx, never, "ann", "edit")
        assert plans.revision_of(tx, "p1", 2) == never
        raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        await store.write(lost)
    assert await store.read(plans.revision_of, "p1", 2) is None
    good = revision(subtask("good"), number=2)
    await store.write(plans.add_revision, good, "ann", "edit")
    assert await store.read(plans.revision_of, "p1", 2) == good


async def test_plans_are_listed_newest_first_and_by_status(store):
    def made(tx):
        begin(tx, "s1", "s2")
        for number, where in enumerate(["s1", "s2", "s1"]):
            at = NOW + number * SECOND
            status = PlanStatus.RUNNING if number == 2 else PlanStatus.DRAFT
            one = plan(f"p{number}", session_id=where, created_at=at, status=status)
            plans.add_plan(tx, one)

    await store.write(made)

    async def listed(**wanted):
        found, total = await store.read(plans.list_plans, **wanted)
        return [each.id for each in found], total

    assert await listed() == (["p2", "p1", "p0"], 3)
    assert await listed(session_id="s1") == (["p2", "p0"], 2)
    assert await listed(session_id="s3") == ([], 0)
    assert await listed(status="draft") == (["p1", "p0"], 2)
    assert await listed(limit=1, offset=1) == (["p1"], 3)
    assert await listed(session_id="s1", status="running", limit=1, offset=1) == ([], 1)
    assert await listed(principal_id="ann") == (["p2", "p1", "p0"], 3)
    assert await listed(principal_id="nobody") == ([], 0)
    await store.write(sessions.set_session, "s1", deleted=True)
    assert await listed() == (["p1"], 1)
    assert await store.read(plans.live_plans) == ["p2"]


async def test_of_plans_that_were_made_at_one_moment_the_last_id_comes_first(store):
    def made(tx):
        begin(tx)
        for name in ("p2", "p3", "p1"):
            plans.add_plan(tx, plan(name))

    await store.write(made)
    for of in (None, "s1"):
        found, _ = await store.read(plans.list_plans, session_id=of)
        assert [each.id for each in found] == ["p3", "p2", "p1"]


async def test_the_rows_of_subtasks_begin_pending_in_plan_order(store):
    await store.write(begin)
    await store.write(begin_plan, subtask("b"), subtask("a"))
    rows = await store.read(plans.subtask_rows, "p1", 1)

    assert [(row.key, row.subtask_id, row.position) for row in rows] == [
        ("p1/1/b", "b", 1), ("p1/1/a", "a", 2),
    ]  # fmt: skip
    assert {(row.status, row.attempt, row.epoch) for row in rows} == {(S.PENDING, 0, 0)}
    assert await store.read(plans.subtask_row, "p1/1/a") == rows[1]
    assert await store.read(plans.subtask_row, "p1/1/z") is None
    assert await store.read(plans.standings, "p1", 1) == {
        "a": SubtaskStanding(S.PENDING), "b": SubtaskStanding(S.PENDING),
    }  # fmt: skip
    assert plans.split_key("p/x/1/a") == ("p/x", 1, "a")
    assert plans.subtask_key("p1", 1, "a") == "p1/1/a"


async def test_a_standing_says_who_holds_a_subtask_and_when_it_may_run_again(store):
    await store.write(begin)
    await store.write(begin_plan, subtask("a"), subtask("b"))
    to = {"epoch": 1, "attempt": 1, "active_since": NOW}
    moves = [plans.Move(f"p1/1/{k}", S.PENDING, 0, S.RUNNING, to) for k in "ab"]
    await store.write(plans.move_subtasks, moves)
    again = {"not_before": NOW + SECOND}
    await store.write(plans.move_subtasks, [plans.Move("p1/1/b", S.RUNNING, 1, S.PENDING, again)])

    assert await store.read(plans.standings, "p1", 1) == {
        "a": SubtaskStanding(S.RUNNING, None, 1, 1),
        "b": SubtaskStanding(S.PENDING, NOW + SECOND, 1, 1),
    }
    assert await store.read(plans.running_subtasks) == ["p1/1/a"]


async def test_the_next_revision_keeps_what_stands_as_it_did(store):
    await store.write(begin)
    await store.write(begin_plan, subtask("a"), subtask("b"))
    to = {"result": {"x": 1}, "attempt": 2, "finished_at": NOW, "started_at": NOW}
    running = [plans.Move("p1/1/a", S.PENDING, 0, S.RUNNING, {"epoch": 3})]
    await store.write(plans.move_subtasks, running)
    await store.write(plans.move_subtasks, [plans.Move("p1/1/a", S.RUNNING, 3, S.COMPLETED, to)])
    done = await store.read(plans.subtask_row, "p1/1/a")
    second = revision(subtask("a"), subtask("c", "a"), number=2)
    await store.write(plans.add_revision, second, "ann", "edit", kept={"a": done})
    kept, fresh = await store.read(plans.subtask_rows, "p1", 2)

    assert (kept.key, kept.status, kept.result, kept.attempt) == (
        "p1/2/a",
        S.COMPLETED,
        {"x": 1},
        2,
    )
    assert (fresh.status, fresh.attempt, fresh.epoch) == (S.PENDING, 0, 0)


@pytest.mark.feature(36)
async def test_grants_end_with_their_plan_or_by_a_person(store):
    await store.write(begin)
    await store.write(begin_plan)
    scope = {"tools": ["write_file"], "paths": ["src/**"]}
    both = [grant("g1", scope=scope), grant("g2", subtask_id="b")]
    await store.write(plans.add_grants, both)

    assert await store.read(plans.active_grant, "p1", 1, "a") == both[0]
    assert await store.read(plans.active_grant, "p1", 2, "a") is None
    assert await store.read(plans.list_grants, "s1") == both
    assert await store.read(plans.list_grants, None) == both
    assert await store.read(plans.list_grants, "s2") == []
    assert await store.write(plans.revoke_grant, "g1", "Ann")
    assert not await store.write(plans.revoke_grant, "g1", "Bob")
    assert await store.read(plans.active_grant, "p1", 1, "a") is None
    revoked = await store.read(plans.grant_of, "g1")
    assert (revoked.status, revoked.ended_because, revoked.ended_at) == (
        "revoked", "revoked by Ann", NOW,
    )  # fmt: skip
    assert await store.write(plans.end_grants, "p1", "completed") == 1
    assert await store.write(plans.end_grants, "p1", "completed") == 0
    assert (await store.read(plans.grant_of, "g2")).status == "ended"


async def test_calls_are_kept_in_order_and_found_by_what_they_wait_for(store):
    await store.write(begin)
    status = [CallStatus.COMPLETED, CallStatus.STARTED, CallStatus.AWAITING_APPROVAL]
    made = [call(f"c{n}", position=n, status=each) for n, each in enumerate(status, 1)]
    await store.write(calls.add_calls, [*made, call("other", thread="p1/1/a")])
    await store.write(calls.add_calls, [])

    assert await store.read(calls.thread_calls, "s1", MAIN) == made
    assert [c.id for c in await store.read(calls.open_calls, "s1", MAIN)] == ["c2", "c3"]
    assert await store.read(calls.next_position, "s1", MAIN) == 4
    assert await store.read(calls.next_position, "s1", "nothing yet") == 1
    assert await store.read(calls.call_of, "c9") is None


async def test_what_was_refused_is_what_a_plan_asked_for_and_was_not_to_have(store):
    told = {
        "denied": "policy_denied: no", "rejected": "rejected: no", "expired": "expired: late",
        "failed": "protected_path: no", "cancelled": "rejected: no", "unknown": "rejected: no",
    }  # fmt: skip
    other = {"failed": "file_not_found: none"}

    def made(tx):
        begin_plan(tx)
        given = {"plan_id": "p1", "revision": 1}
        for subtask_id, each in {"a": told, "b": other | {"denied": "symlink_escape: no"}}.items():
            calls.add_calls(tx, [
                call(f"{subtask_id}.{status}", subtask_id=subtask_id, status=CallStatus(status),
                     error=error, position=position, **given)
                for position, (status, error) in enumerate(each.items())
            ])  # fmt: skip
        calls.add_calls(tx, [call("c", status=CallStatus.DENIED, error="policy_denied: no")])

    await store.write(begin)
    await store.write(made)
    refused = ["a.denied", "a.rejected", "a.expired", "a.failed"]
    of_a = await store.read(calls.refused_calls, "s1", "p1", "a")
    assert [each.call_id for each in of_a] == refused
    found = await store.read(calls.refused_calls, "s1", "p1")
    assert {each.call_id for each in found} == {*refused, "b.denied"}


async def test_a_call_was_granted_by_the_grant_that_its_subtask_had_at_that_moment(store):
    grants = {
        "held": {}, "ended later": {"ended_at": NOW + SECOND},
        "ended": {"ended_at": NOW}, "made later": {"created_at": NOW + SECOND},
        "of another subtask": {"subtask_id": "x"}, "of another plan": {"plan_id": "p2"},
        "of another revision": {"revision": 2},
    }  # fmt: skip

    def made(tx):
        begin_plan(tx)
        begin_plan(tx, plan_id="p2")
        for name, fields in grants.items():
            plans.add_grants(tx, [grant(name, **{"subtask_id": name} | fields)])
            given = {"plan_id": "p1", "revision": 1, "subtask_id": name}
            calls.add_calls(tx, [call(name, status=CallStatus.COMPLETED, **given)])

    everybody = {"session_id": None, "principal_id": None, "limit": 100, "offset": 0}
    await store.write(begin)
    await store.write(made)
    found = await store.read(partial(calls.judged_calls, since=NOW, **everybody))
    assert len(found) == len(grants)
    assert {each.id for each in found if each.granted} == {"held", "ended later"}


async def test_a_call_moves_only_as_it_was_seen(store):
    await store.write(begin)
    await store.write(calls.add_calls, [call()])
    seen = await store.read(calls.call_of, "call_1")

    edited = replace(seen, digest="sha256:other")
    assert not await store.write(calls.move_call, edited, CallStatus.ALLOWED)
    assert await store.write(calls.move_call, seen, CallStatus.ALLOWED, approval_id="x")
    assert not await store.write(calls.set_call, seen, CallStatus.DENIED)
    assert (await store.read(calls.call_of, "call_1")).approval_id == "x"


async def test_questions_of_one_moment_are_in_the_order_of_their_ids(store):
    await store.write(begin, "s1")
    for approval_id in ("b", "c", "a"):
        await store.write(calls.add_approval, approval(approval_id))

    found = await store.read(calls.pending_approvals, "s1")
    assert [asked.id for asked in found] == ["a", "b", "c"]


async def test_an_open_question_is_the_latest_though_the_clock_was_set_back_since(store):
    await store.write(begin)
    await store.write(begin_plan)
    ahead = {"created_at": NOW + 3_600 * SECOND, "status": ApprovalStatus.EDITED}
    plan = {"kind": "plan", "plan_id": "p1"}
    for each in (
        approval("a4", **plan, revision=1, **ahead), approval("a2", **plan, revision=2),
        approval("a3", call_id="c", **ahead), approval("a1", call_id="c"),
    ):  # fmt: skip
        await store.write(calls.add_approval, each)
    assert (await store.read(calls.approval_of_plan, "p1")).id == "a2"
    assert (await store.read(calls.approval_of_call, "c")).id == "a1"
    decided = {"status": ApprovalStatus.APPROVED}
    await store.write(lambda tx: change(tx, approvals, {"id": "a2"}, decided))
    assert (await store.read(calls.approval_of_plan, "p1")).id == "a2"


async def test_approvals_are_found_by_what_they_are_about(store):
    await store.write(begin, "s1", "s2")
    await store.write(begin_plan)
    made = [
        approval("a1", kind="plan", plan_id="p1", revision=1),
        approval("a2", kind="plan", plan_id="p1", revision=2, created_at=NOW + SECOND),
        approval("a3", call_id="c", plan_id="p1", created_at=NOW + 2 * SECOND),
        approval("a4", call_id="c", session_id="s2", status=ApprovalStatus.REJECTED),
    ]
    for each in made:
        await store.write(calls.add_approval, each)

    async def listed(**which):
        every = {"status": None, "session_id": None, "kind": None}
        found = await store.read(calls.list_approvals, **{**every, **which})
        return [a.id for a in reversed(found)]

    assert await store.read(calls.approval_of, "a1") == made[0]
    assert await store.write(calls.lock_approval, "a1") == made[0]
    assert await store.read(calls.approval_of, "a9") is None
    assert (await store.read(calls.approval_of_plan, "p1")).id == "a2"
    assert (await store.read(calls.approval_of_call, "c")).id == "a3"
    assert await store.read(calls.approval_of_call, "z") is None
    assert [a.id for a in await store.read(calls.pending_approvals, "s1")] == ["a1", "a2", "a3"]
    assert {a.id for a in await store.read(calls.pending_of_plan, "p1")} == {"a1", "a2", "a3"}
    assert await store.read(calls.count_pending, "s1") == 3
    assert await store.read(calls.count_pending, "s2") == 0
    assert await listed() == ["a1", "a4", "a2", "a3"]
    assert await listed(status="pending", kind="plan") == ["a1", "a2"]
    assert await listed(session_id="s2", status="rejected") == ["a4"]
    assert await listed(before=made[1], most=1) == ["a4"]
    assert await listed(before=made[3]) == ["a1"]


async def test_a_timer_has_one_time_and_the_earliest_comes_first(store):
    assert await store.read(timers.first_timer) is None
    await store.write(timers.set_timer, "expiry", "a", NOW + 3 * SECOND)
    await store.write(timers.set_timer, "expiry", "b", NOW + 2 * SECOND)
    await store.write(timers.set_timer, "expiry", "a", NOW + SECOND)

    assert await store.read(timers.first_timer) == NOW + SECOND
    assert await store.read(timers.due_timers) == []
    due = await store.read(at(NOW + 2 * SECOND, timers.due_timers))
    assert [(timer.key, timer.run_at) for timer in due] == [
        ("a", NOW + SECOND), ("b", NOW + 2 * SECOND),
    ]  # fmt: skip
    await store.write(timers.drop_timer, "expiry", "b")
    await store.write(timers.drop_timer, "expiry", "nothing")
    assert await store.read(at(NOW + 2 * SECOND, timers.due_timers)) == due[:1]


async def test_a_timer_is_carried_out_by_one_and_only_as_it_was_seen(store):
    await store.write(timers.set_timer, "expiry", "a", NOW)
    seen = Timer(kind="expiry", key="a", run_at=NOW)
    await store.write(timers.set_timer, "expiry", "a", NOW + SECOND)

    assert not await store.write(timers.take_timer, seen)
    anew = Timer(kind="expiry", key="a", run_at=NOW + SECOND)
    assert await store.write(timers.take_timer, anew)
    assert not await store.write(timers.take_timer, anew)


def token(token_id, secret_hash):
    return {
        "id": token_id, "principal_id": "ann", "name": "laptop", "role": 2,
        "secret_hash": secret_hash, "created_at": NOW, "revoked_at": None,
    }  # fmt: skip


async def test_a_token_is_known_by_its_secret_until_it_is_revoked(store):
    await store.write(people.keep_principal, "ann", "Ann")
    await store.write(people.keep_principal, "ann", "Ann again")
    await store.write(people.add_token, token("t1", "h1"))
    await store.write(people.add_token, token("t2", "h2"))

    found = await store.read(people.token_by_secret, "h1")
    assert (found.id, found.principal_id, found.role) == ("t1", "ann", 2)
    assert await store.read(people.token_by_secret, "h3") is None
    assert await store.write(people.revoke_token, "t1")
    assert not await store.write(people.revoke_token, "t9")
    assert await store.read(people.token_by_secret, "h1") is None
    listed = await store.read(people.list_tokens)
    assert [(row.id, row.revoked_at) for row in listed] == [("t1", NOW), ("t2", None)]


async def test_the_first_answer_to_a_repeated_request_stays(store):
    def row(answer):
        return {
            "principal_id": "ann", "key": "k", "request_digest": "d", "answer": answer,
            "created_at": NOW,
        }  # fmt: skip

    assert await store.read(people.kept_answer, "ann", "k") is None
    await store.write(people.keep_answer, row({"n": 1}))
    await store.write(people.keep_answer, row({"n": 2}))
    found = await store.read(people.kept_answer, "ann", "k")
    assert (found.request_digest, found.answer) == ("d", {"n": 1})
    assert await store.read(people.kept_answer, "bob", "k") is None


@pytest.mark.parametrize(
    ("table", "where"),
    [("plans", ""), ("sessions", "WHERE deleted = 0 "), ("approvals", "WHERE status = 'pending' ")],
)
async def test_the_newest_rows_of_a_list_are_found_without_sorting_all(store, table, where):
    def told(tx):
        newest = f"SELECT * FROM {table} {where}ORDER BY created_at DESC LIMIT 50"  # noqa: S608
        if tx.conn.dialect.name == "postgresql":
            for way in ("seqscan", "bitmapscan", "sort"):
                tx.conn.exec_driver_sql(f"SET LOCAL enable_{way} = off")
            return str(tx.conn.exec_driver_sql(f"EXPLAIN {newest}").all())
        return str(tx.conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {newest}").all())

    how = await store.read(told)

    assert f"ix_{table}_" in how
    assert "TEMP B-TREE" not in how
    assert "Sort" not in how
