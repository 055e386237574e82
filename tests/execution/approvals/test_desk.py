"""The desk: one question, one answer; the first valid one wins, and the others learn whose it was.

A kind that only these tests know is registered, so that what holds here holds for every kind.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

import anyio
import pytest

from fakes.rows import NOW, at, begin, verify_chain
from gonogo.domain.errors import (
    AlreadyDecided,
    Conflict,
    Expired,
    IllegalTransition,
    InvalidArguments,
    RateLimited,
)
from gonogo.domain.events import Done
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import Approval, Timer
from gonogo.domain.states import ApprovalKind, ApprovalStatus, DecisionWord
from gonogo.execution.approvals import (
    EXPIRE,
    WARN,
    ApprovalService,
    Question,
    Refusal,
    Ruling,
    withdraw_all,
)
from gonogo.store import Tx, go_on
from gonogo.store import events as log
from gonogo.store.calls import approval_of, count_pending, list_approvals
from gonogo.store.jobs import due_timers, first_timer

LIMIT = 60
HOUR = timedelta(hours=1)
ANN = Principal(id="u1", name="Ann", role=Role.OPERATOR)
BOB = Principal(id="u2", name="Bob", role=Role.OPERATOR)
APPROVE, REJECT, EDIT, HOLD = (
    DecisionWord.APPROVE, DecisionWord.REJECT, DecisionWord.EDIT, DecisionWord.HOLD,
)  # fmt: skip


@dataclass
class Deploys:
    """Answers about deployments."""

    settled: list[Ruling] = field(default_factory=list)
    lapsed: list[str] = field(default_factory=list)
    refuses: Exception | None = None

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        if self.refuses:
            raise self.refuses
        self.settled.append(ruling)
        go_on(tx, "deploy", approval.id)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        self.lapsed.append(approval.id)
        log.tell(tx, approval.session_id, Done())


@pytest.fixture
def deploys():
    return Deploys()


@pytest.fixture
def desk(deploys):
    return ApprovalService(kinds={"deploy": deploys}, expiry={"deploy": 24 * HOUR}, max_pending=3)


def question(**more):
    given = {
        "session_id": "s1", "kind": "deploy", "subject": "Deploy to production",
        "details": {"arguments": {"tag": "v1"}, "original_task": "Ship it"}, "reason": "asks",
        "digest": "sha256:1", "turn_id": "t1", "agent": "coder",
    }  # fmt: skip
    return Question(**{**given, **more})


def ruling(word=APPROVE, by=ANN, **more):
    return Ruling(word=word, by=by, **more)


@pytest.fixture
async def asked(store, desk):
    await store.write(begin)
    return await store.write(desk.open, question())


async def events(store):
    return await store.read(log.events_after, "s1", 0)


async def audit(store):
    return await store.read(log.entries, "s1")


async def test_a_question_is_kept_told_and_written_in_the_audit(store, asked):
    assert await store.read(approval_of, asked.id) == asked
    assert (asked.status, asked.expires_at) == (ApprovalStatus.PENDING, NOW + 24 * HOUR)
    (event,) = await events(store)
    assert (event["type"], event["turn_id"], event["agent"]) == (
        "approval_requested",
        "t1",
        "coder",
    )
    assert event["metadata"] == {
        "approval_id": asked.id, "kind": "deploy", "subject": "Deploy to production",
        "status": "pending", "expires_at": "2026-11-22T12:00:00Z",
    }  # fmt: skip
    (entry,) = await audit(store)
    assert (entry.actor, entry.action) == ("gonogo", "deploy.asked")
    assert entry.details["digest"] == "sha256:1"


async def test_what_belongs_before_the_question_is_told_before_it(store, desk):
    await store.write(begin)

    def ask(tx):
        tells = lambda opened: log.tell(tx, "s1", Done(call_id=opened.id))  # noqa: E731
        desk.open(tx, question(), before=tells)

    await store.write(ask)
    assert [event["type"] for event in await events(store)] == ["done", "approval_requested"]


@pytest.mark.feature(25)
@pytest.mark.parametrize(
    ("word", "status"),
    [
        (APPROVE, ApprovalStatus.APPROVED),
        (HOLD, ApprovalStatus.APPROVED),
        (EDIT, ApprovalStatus.EDITED),
        (REJECT, ApprovalStatus.REJECTED),
    ],
)
async def test_a_kind_that_is_registered_is_asked_about_and_decided_like_any_other(
    store, desk, deploys, asked, word, status
):
    boxes = []
    store.deliver = boxes.append
    made = ruling(word, feedback="ok", changes={"tag": "v2"})
    decided = await store.write(at(NOW + HOUR, desk.decide), asked.id, made)

    assert decided == await store.read(approval_of, asked.id)
    assert (decided.status, decided.decided_by, decided.decided_at) == (status, "u1", NOW + HOUR)
    assert deploys.settled == [made]
    assert [job.kind for box in boxes for job in box.jobs] == ["deploy"]
    last = (await events(store))[-1]
    assert last["type"] == "approval_resolved"
    assert (last["metadata"]["status"], last["metadata"]["decided_by"]) == (status, "Ann")
    entry = (await audit(store))[-1]
    assert (entry.actor, entry.action, entry.ts) == ("u1", f"deploy.{status}", NOW + HOUR)
    assert entry.details["original"] == "Ship it"
    assert entry.details["arguments"] == {"tag": "v1"}
    assert entry.details["decision"] == {
        "decision": word, "feedback": "ok", "changes": {"tag": "v2"}, "decided_name": "Ann",
    }  # fmt: skip
    assert await store.read(first_timer) is None


@pytest.mark.feature(25)
async def test_a_kind_of_gonogos_own_is_registered_by_the_same_word(store):
    kind = Deploys()
    desk = ApprovalService(kinds={ApprovalKind.SUBTASK: kind})
    await store.write(begin)
    asked = await store.write(desk.open, question(kind=ApprovalKind.SUBTASK))
    await store.write(desk.decide, asked.id, ruling())

    assert len(kind.settled) == 1


@pytest.mark.feature(16)
@pytest.mark.parametrize("word", [APPROVE, EDIT, REJECT])
async def test_every_decision_about_a_plan_has_one_entry_that_says_all_of_it(store, word):
    edits = [{"id": "a", "description": "Less", "agent": "coder"}] if word is EDIT else None
    desk = ApprovalService(kinds={ApprovalKind.PLAN: Deploys()})
    await store.write(begin)
    plan = question(kind=ApprovalKind.PLAN, plan_id="p1", revision=2)
    asked = await store.write(desk.open, plan)
    made = ruling(word, feedback="As we said", changes=edits, revision=2)
    await store.write(at(NOW + HOUR, desk.decide), asked.id, made)

    (entry,) = [each for each in await audit(store) if "decision" in each.details]
    assert (entry.chain, entry.actor, entry.ts) == ("s1", "u1", NOW + HOUR)
    assert entry.details["plan_id"] == "p1"
    assert entry.details["revision"] == 2
    assert entry.details["original"] == "Ship it"
    said = entry.details["decision"]
    assert (said["decision"], said["feedback"], said.get("changes")) == (word, "As we said", edits)


@pytest.mark.feature(203)
async def test_of_many_who_decide_at_once_one_wins_and_the_others_are_told_who_did(
    store, desk, deploys, asked
):
    people = [Principal(id=f"u{n}", name=f"N{n}", role=Role.OPERATOR) for n in range(20)]
    said = []

    async def decides(who, word):
        said.append(await store.write(desk.decide, asked.id, ruling(word, who)))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for number, who in enumerate(people):
                group.start_soon(decides, who, REJECT if number % 2 else APPROVE)

    won = [each for each in said if isinstance(each, Approval)]
    lost = [each for each in said if isinstance(each, Refusal)]
    assert Counter(type(each) for each in said) == {Approval: 1, Refusal: 19}
    assert len(deploys.settled) == 1
    name = f"N{won[0].decided_by[1:]}"
    for refusal in lost:
        assert isinstance(refusal.error, AlreadyDecided)
        assert (refusal.error.status, refusal.error.code) == (409, "already_decided")
        assert (refusal.error.decision, refusal.error.decided_by) == (won[0].status, name)
        assert refusal.error.decided_at == NOW.isoformat()
    resolved = [e for e in await events(store) if e["type"] == "approval_resolved"]
    assert len(resolved) == 1
    assert await store.read(verify_chain, "s1") == (2, [])


async def test_the_same_decision_by_the_same_person_is_answered_again_and_changes_nothing(
    store, desk, deploys, asked
):
    first = await store.write(desk.decide, asked.id, ruling(EDIT, changes={"tag": "v2"}))
    told, noted = len(await events(store)), len(await audit(store))
    again = ruling(EDIT, changes={"tag": "v2"}, feedback="as I said")
    second = await store.write(at(NOW + HOUR, desk.decide), asked.id, again)

    assert second == first
    assert len(deploys.settled) == 1
    assert (len(await events(store)), len(await audit(store))) == (told, noted)


@pytest.mark.parametrize(
    "other",
    [
        ruling(EDIT, BOB, changes={"tag": "v2"}),
        ruling(APPROVE),
        ruling(REJECT),
        ruling(EDIT, changes={"tag": "v3"}),
        ruling(EDIT),
    ],
)
async def test_any_other_answer_after_the_first_is_told_who_decided_and_when(
    store, desk, deploys, asked, other
):
    await store.write(desk.decide, asked.id, ruling(EDIT, changes={"tag": "v2"}))
    refusal = await store.write(at(NOW + HOUR, desk.decide), asked.id, other)

    assert str(refusal.error) == (
        "Deploy to production was already edited by Ann at 2026-11-21T12:00:00+00:00"
    )
    assert len(deploys.settled) == 1


async def test_an_answer_to_something_else_than_was_shown_changes_nothing(store, desk, asked):
    with pytest.raises(Conflict, match=r"changed since .* is sha256:1, not sha256:2"):
        await store.write(desk.decide, asked.id, ruling(digest="sha256:2"))
    assert (await store.read(approval_of, asked.id)).status is ApprovalStatus.PENDING
    assert len(await events(store)) == 1

    decided = await store.write(desk.decide, asked.id, ruling(digest="sha256:1"))
    assert decided.status is ApprovalStatus.APPROVED


async def test_an_answer_that_its_kind_refuses_changes_nothing(store, desk, deploys, asked):
    deploys.refuses = InvalidArguments("tag: no such tag")
    with pytest.raises(InvalidArguments):
        await store.write(desk.decide, asked.id, ruling(EDIT))

    assert await store.read(approval_of, asked.id) == asked
    assert len(await events(store)) == 1
    assert len(await audit(store)) == 1
    assert await store.read(first_timer) == NOW + 23 * HOUR


async def fire(store, desk, now):
    """What the dispatcher does with every timer that is due."""
    for timer in await store.read(at(now, due_timers)):
        await store.write(at(now, desk.on_timer), timer.kind, timer.key)


@pytest.mark.feature(25)
async def test_a_question_warns_then_expires_with_a_notice_and_is_never_approved(
    store, desk, deploys, asked
):
    due = [Timer(kind=WARN, key=asked.id, run_at=NOW + 23 * HOUR),
           Timer(kind=EXPIRE, key=asked.id, run_at=NOW + 24 * HOUR)]  # fmt: skip
    assert await store.read(at(NOW + 24 * HOUR, due_timers)) == due
    await fire(store, desk, NOW + 22 * HOUR)
    await fire(store, desk, NOW + 23 * HOUR)
    assert [e["type"] for e in await events(store)] == ["approval_requested", "approval_warning"]
    assert (await store.read(approval_of, asked.id)).status is ApprovalStatus.PENDING

    await fire(store, desk, NOW + 24 * HOUR)
    kinds = [event["type"] for event in await events(store)]
    assert kinds.count("approval_resolved") == 1
    assert deploys.lapsed == [asked.id]
    assert deploys.settled == []
    expired = await store.read(approval_of, asked.id)
    assert (expired.status, expired.decided_by, expired.decision) == (
        ApprovalStatus.EXPIRED, None, None,
    )  # fmt: skip
    entry = (await audit(store))[-1]
    assert (entry.actor, entry.action) == ("gonogo", "deploy.expired")
    refusal = await store.write(at(NOW + 25 * HOUR, desk.decide), asked.id, ruling())
    assert isinstance(refusal.error, Expired)
    assert await store.read(first_timer) is None


@pytest.mark.feature(84)
async def test_an_answer_after_the_time_is_too_late_although_no_timer_fired(
    store, desk, deploys, asked
):
    refusal = await store.write(at(NOW + 24 * HOUR, desk.decide), asked.id, ruling())

    assert isinstance(refusal.error, Expired)
    assert deploys.settled == []
    assert deploys.lapsed == [asked.id]
    assert (await store.read(approval_of, asked.id)).status is ApprovalStatus.EXPIRED


async def test_an_answer_and_the_expiry_at_one_moment_are_one_or_the_other(
    store, desk, deploys, asked
):
    now = NOW + 24 * HOUR
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(store.write, at(now, desk.on_timer), EXPIRE, asked.id)
                group.start_soon(
                    store.write,
                    at(now - timedelta(microseconds=1), desk.decide),
                    asked.id,
                    ruling(),
                )
    assert len(deploys.settled) + len(deploys.lapsed) == 1
    resolved = [e for e in await events(store) if e["type"] == "approval_resolved"]
    assert len(resolved) == 1


@pytest.mark.feature(84)
async def test_a_timer_that_comes_early_or_late_does_nothing(store, desk, deploys, asked):
    await store.write(at(NOW + HOUR, desk.on_timer), EXPIRE, asked.id)
    await store.write(at(NOW + HOUR, desk.on_timer), EXPIRE, "nothing")
    assert (await store.read(approval_of, asked.id)).status is ApprovalStatus.PENDING

    await store.write(at(NOW + HOUR, desk.decide), asked.id, ruling())
    told = len(await events(store))
    await store.write(at(NOW + 23 * HOUR, desk.on_timer), WARN, asked.id)
    await store.write(at(NOW + 24 * HOUR, desk.on_timer), EXPIRE, asked.id)
    assert len(await events(store)) == told
    assert deploys.lapsed == []


async def test_a_kind_without_an_expiry_waits_for_ever_and_costs_no_timer(store, deploys):
    desk = ApprovalService(kinds={"deploy": deploys}, expiry={"deploy": None})
    await store.write(begin)
    asked = await store.write(desk.open, question())
    assert asked.expires_at is None
    assert await store.read(first_timer) is None

    await store.write(at(NOW + 10_000 * HOUR, desk.on_timer), EXPIRE, asked.id)
    decided = await store.write(at(NOW + 10_000 * HOUR, desk.decide), asked.id, ruling())
    assert decided.status is ApprovalStatus.APPROVED


async def test_a_life_shorter_than_the_warning_has_no_warning(store, deploys):
    desk = ApprovalService(kinds={"deploy": deploys}, expiry={"deploy": HOUR}, warning=HOUR)
    await store.write(begin)
    await store.write(desk.open, question())

    assert [t.kind for t in await store.read(at(NOW + HOUR, due_timers))] == [EXPIRE]


async def test_where_an_operator_wants_it_an_expired_question_counts_as_rejected(store, deploys):
    desk = ApprovalService(kinds={"deploy": deploys}, expiry={"deploy": HOUR}, rejects_expired=True)
    await store.write(begin)
    asked = await store.write(desk.open, question())
    await fire(store, desk, NOW + HOUR)

    rejected = await store.read(approval_of, asked.id)
    assert (rejected.status, rejected.decided_by) == (ApprovalStatus.REJECTED, "gonogo")
    assert [each.word for each in deploys.settled] == [REJECT]
    assert deploys.lapsed == []


async def test_a_session_has_a_limit_of_open_questions_and_no_other_session_feels_it(store, desk):
    await store.write(begin, "s1", "s2")
    opened = [await store.write(desk.open, question(subject=f"{n}")) for n in range(3)]
    with pytest.raises(RateLimited, match="at most 3 open questions"):
        await store.write(desk.open, question())
    assert await store.read(count_pending, "s1") == 3

    await store.write(desk.open, question(session_id="s2"))
    await store.write(desk.decide, opened[0].id, ruling())
    await store.write(desk.open, question())
    assert await store.read(count_pending, "s1") == 3


@pytest.mark.parametrize("status", [ApprovalStatus.CANCELLED, ApprovalStatus.SUPERSEDED])
async def test_a_question_that_is_withdrawn_takes_no_answer(store, desk, deploys, asked, status):
    await store.write(desk.withdraw, asked, status)
    refusal = await store.write(desk.decide, asked.id, ruling())

    assert str(refusal.error) == (
        f"Deploy to production: the question is closed ({status}); there is nothing left to decide"
    )
    assert isinstance(refusal.error, Conflict)
    assert (deploys.settled, deploys.lapsed) == ([], [])
    assert (await events(store))[-1]["metadata"]["status"] == status
    assert await store.read(first_timer) is None


async def test_a_question_is_withdrawn_once_and_not_after_its_answer(store, desk, asked):
    decided = await store.write(desk.decide, asked.id, ruling())
    with pytest.raises(Conflict, match="Somebody else has just decided this"):
        await store.write(desk.withdraw, asked)
    with pytest.raises(IllegalTransition):
        await store.write(desk.withdraw, decided)


async def test_a_session_that_goes_away_takes_its_open_questions_with_it(store, desk):
    await store.write(begin, "s1", "s2")
    first = await store.write(desk.open, question(subject="1"))
    await store.write(desk.open, question(subject="2"))
    await store.write(desk.open, question(session_id="s2"))
    await store.write(desk.decide, first.id, ruling())
    await store.write(withdraw_all, desk, "s1")

    found = await store.read(list_approvals, status=None, session_id="s1", kind=None)
    assert [each.status for each in found] == [ApprovalStatus.CANCELLED, ApprovalStatus.APPROVED]
    assert await store.read(count_pending, "s2") == 1


async def test_questions_outlive_the_process_that_asked(store, database_url, desk, deploys, asked):
    from gonogo.store import Store

    other = Store(database_url, clock=lambda: NOW)
    decided = await other.write(desk.decide, asked.id, ruling())
    other.close()

    assert decided.status is ApprovalStatus.APPROVED
    assert (await store.read(approval_of, asked.id)).decided_by == "u1"
