"""What the log and the audit are told of a question, word for word, from its asking to its end."""

from datetime import timedelta
from typing import Any

import pytest

from fakes.rows import NOW, at, begin, session
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Subtask
from gonogo.domain.records import Approval
from gonogo.domain.reviews import Deed, Doings, Review
from gonogo.domain.states import ApprovalStatus, DecisionWord
from gonogo.execution.approvals import EXPIRE, WARN, ApprovalService, Matter, Question, Ruling
from gonogo.policy import Reviews, RuleText
from gonogo.policy.reviewers import ReviewRule, ReviewText
from gonogo.store import events as log
from gonogo.store.calls import approval_of, votes_of
from gonogo.store.sessions import add_session, add_turn

HOUR = timedelta(hours=1)
ANN, BOB, EVE = (
    Principal(id=f"user:{name}", name=name, role=Role.OPERATOR) for name in ("ann", "bob", "eve")
)
APPROVE, REJECT = DecisionWord.APPROVE, DecisionWord.REJECT
PLACE = {"turn_id": "t1", "plan_id": "p1", "subtask_id": "build", "call_id": "call_7"}
KEYS = {"plan_id": "p1", "call_id": "call_7", "digest": "sha256:1"}


class Deploys:
    """Answers about deployments, which nobody carries out."""

    def settle(self, tx, approval: Approval, ruling: Ruling) -> None:
        pass

    def lapse(self, tx, approval: Approval) -> None:
        pass


class Drafts(Deploys):
    """Answers about drafts: an edit is asked about anew."""

    desk: ApprovalService

    def check(self, tx, approval: Approval, ruling: Ruling) -> None:
        pass

    def matter(self, tx, approval: Approval, ruling: Ruling) -> Matter:
        return Matter()

    def ask_again(self, tx, approval: Approval, ruling: Ruling) -> Approval:
        again = question(digest=f"sha256:{ruling.changes}", instead_of=approval)
        return self.desk.open(tx, again)


def office(review: Review | None = None, **more: Any) -> ApprovalService:
    rule = ReviewRule(
        name="user:review:1", text=ReviewText(), review=review or Review(), where="rules.toml:1"
    )
    given = {"kinds": {"deploy": Deploys()}, "expiry": {"deploy": 24 * HOUR}, **more}
    return ApprovalService(reviews=Reviews(rules=(rule,) if review else ()), **given)


def question(**more: Any) -> Question:
    given = {
        "session_id": "s1", "kind": "deploy", "subject": "Ship it", "reason": "asks each time",
        "details": {"arguments": {"tag": "v1"}, "original_task": "Ship"}, "digest": "sha256:1",
        "revision": 3, "agent": "coder", **PLACE,
    }  # fmt: skip
    return Question(**{**given, **more})


async def told(store, session_id="s1"):
    """The last event, without what the log itself adds."""
    event = (await store.read(log.events_after, session_id, 0))[-1]
    return {name: event.get(name) for name in (*PLACE, "type", "agent", "content", "metadata")}


async def noted(store):
    entry = (await store.read(log.entries, "s1"))[-1]
    return entry.actor, entry.action, entry.subject, entry.ts, entry.details


def facts(approval_id, status="pending", **more):
    return {
        "approval_id": approval_id, "kind": "deploy", "subject": "Ship it", "status": status,
        "expires_at": "2026-11-22T12:00:00Z", **more,
    }  # fmt: skip


@pytest.fixture
async def started(store):
    await store.write(begin)
    return store


async def ask(store, desk, **more):
    return await store.write(desk.open, question(**more))


async def test_the_record_of_a_question_holds_all_that_was_asked(started):
    await started.write(lambda tx: add_turn(tx, "t1", "s1", "Ship", "coder", "user:bob"))
    asked = await ask(started, office())

    assert asked == Approval(
        id=asked.id, session_id="s1", kind="deploy", subject="Ship it",
        details={"arguments": {"tag": "v1"}, "original_task": "Ship"}, reason="asks each time",
        digest="sha256:1", status=ApprovalStatus.PENDING, revision=3, **PLACE, created_at=NOW,
        expires_at=NOW + 24 * HOUR, decided_by=None, decided_at=None, decision=None,
        requested_by="user:bob", review=None, group_key=None, escalated_at=None,
    )  # fmt: skip
    assert asked.id.startswith("appr_")
    assert await started.read(approval_of, asked.id) == asked


async def test_who_wrote_an_edit_did_not_ask_for_the_work(started):
    await started.write(lambda tx: add_turn(tx, "t1", "s1", "Ship", "coder", "user:bob"))
    first = await ask(started, office())
    await started.write(lambda tx: add_turn(tx, "t2", "s1", "Edit", "coder", "user:ann"))
    second = await ask(started, office(), turn_id="t2", instead_of=first)

    assert second.requested_by == "user:bob"


async def test_the_asking_is_told_with_its_place_and_written_down_with_who_decides(started):
    review = Review(needed=2, reviewers=("user:ann", "user:bob"))
    asked = await ask(started, office(review))

    assert await told(started) == {
        **PLACE, "type": "approval_requested", "agent": "coder", "content": None,
        "metadata": facts(asked.id, needed=2, votes=0),
    }  # fmt: skip
    assert await noted(started) == (
        "gonogo", "deploy.asked", "Ship it", NOW,
        {"approval_id": asked.id, **KEYS, "reason": "asks each time",
         "requested_by": asked.requested_by, "review": review.model_dump(mode="json")},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spoken", "content"),
    [("en", "1 of 3 approvals (ann): Ship it"), ("ru", "Одобрений: 1 из 3 (ann): Ship it")],
)
async def test_a_vote_is_told_in_the_language_of_the_session(store, spoken, content):
    await store.write(lambda tx: add_session(tx, session("s1", spoken=spoken)))
    desk = office(Review(needed=3))
    asked = await ask(store, desk)
    later = NOW + HOUR
    await store.write(
        at(later, desk.decide), asked.id, Ruling(word=APPROVE, by=ANN, feedback="fine")
    )

    assert await told(store) == {
        **PLACE, "type": "approval_voted", "agent": None, "content": content,
        "metadata": facts(asked.id, needed=3, votes=1, voted_by=["ann"]),
    }  # fmt: skip
    assert await noted(store) == (
        "user:ann", "deploy.voted", "Ship it", later,
        {"approval_id": asked.id, **KEYS, "votes": 1, "needed": 3, "waited_seconds": 3600.0,
         "decision": {"decision": "approve", "feedback": "fine", "decided_name": "ann"}},
    )  # fmt: skip


async def test_a_second_vote_names_both_and_says_when_it_was_given(started):
    desk = office(Review(needed=3))
    asked = await ask(started, desk)
    await started.write(desk.decide, asked.id, Ruling(word=APPROVE, by=ANN))
    await started.write(at(NOW + HOUR, desk.decide), asked.id, Ruling(word=APPROVE, by=BOB))

    assert (await told(started))["content"] == "2 of 3 approvals (ann, bob): Ship it"
    votes = await started.read(votes_of, asked.id)
    assert [(vote.principal_id, vote.created_at) for vote in votes] == [
        ("user:ann", NOW), ("user:bob", NOW + HOUR),
    ]  # fmt: skip


async def test_letting_others_in_is_told_with_their_names(started):
    review = Review(
        reviewers=("user:ann",), escalate_after=60.0, escalate_to=("user:bob",),
        escalate_role="admin",
    )  # fmt: skip
    desk = office(review)
    asked = await ask(started, desk)
    later = NOW + timedelta(minutes=1)
    await started.write(at(later, desk.on_timer), "approval_escalation", asked.id)

    assert await told(started) == {
        **PLACE, "type": "approval_escalated", "agent": None,
        "content":
            "Nobody has decided yet. These people can now decide too: bob, role:admin. The "
            "question: Ship it",
        "metadata": facts(asked.id, escalated_to=["bob", "role:admin"]),
    }  # fmt: skip
    assert await noted(started) == (
        "gonogo", "deploy.escalated", "Ship it", later,
        {"approval_id": asked.id, **KEYS, "escalated_to": ["bob", "role:admin"]},
    )  # fmt: skip


@pytest.mark.parametrize(("left", "minutes"), [(90, 2), (3_600, 60), (5, 1)])
async def test_a_warning_says_how_many_minutes_are_left_and_never_none(started, left, minutes):
    desk = office()
    asked = await ask(started, desk)
    now = NOW + 24 * HOUR - timedelta(seconds=left)
    await started.write(at(now, desk.on_timer), WARN, asked.id)

    assert await told(started) == {
        **PLACE, "type": "approval_warning", "agent": None,
        "content": f"This question expires in {minutes} min: Ship it",
        "metadata": facts(asked.id),
    }  # fmt: skip


async def test_a_decision_is_told_with_how_long_it_took(started):
    desk = office()
    asked = await ask(started, desk)
    ruling = Ruling(word=REJECT, by=ANN, feedback="no")
    decided = await started.write(at(NOW + HOUR, desk.decide), asked.id, ruling)

    assert await told(started) == {
        **PLACE, "type": "approval_resolved", "agent": None, "content": None,
        "metadata": facts(asked.id, "rejected", decided_by="ann", waited_seconds=3600.0),
    }  # fmt: skip
    assert await noted(started) == (
        "user:ann", "deploy.rejected", "Ship it", NOW + HOUR,
        {"approval_id": asked.id, **KEYS, "revision": 3, "original": "Ship",
         "decision": {"decision": "reject", "feedback": "no", "decided_name": "ann"},
         "arguments": {"tag": "v1"}, "waited_seconds": 3600.0},
    )  # fmt: skip
    assert decided.decision == {"decision": "reject", "feedback": "no", "decided_name": "ann"}


async def test_an_expiry_is_told_as_nobodys(started):
    desk = office()
    asked = await ask(started, desk)
    now = NOW + 24 * HOUR
    await started.write(at(now, desk.on_timer), EXPIRE, asked.id)

    assert await told(started) == {
        **PLACE, "type": "approval_resolved", "agent": None, "content": None,
        "metadata": facts(asked.id, "expired"),
    }  # fmt: skip
    actor, action, _, ts, details = await noted(started)
    assert (actor, action, ts) == ("gonogo", "deploy.expired", now)
    assert "decision" not in details
    assert (await started.read(approval_of, asked.id)).decided_at == now


async def test_a_rejection_for_want_of_an_answer_says_so_and_that_nobody_waited_for_it(started):
    desk = office(rejects_expired=True)
    asked = await ask(started, desk)
    await started.write(at(NOW + 24 * HOUR, desk.on_timer), EXPIRE, asked.id)

    assert (await told(started))["metadata"] == facts(asked.id, "rejected", decided_by="gonogo")
    rejected = await started.read(approval_of, asked.id)
    assert rejected.decision == {
        "decision": "reject", "feedback": "nobody decided in time", "decided_name": "gonogo",
    }  # fmt: skip


async def test_a_question_is_taken_back_as_cancelled_unless_something_else_is_said(started):
    desk = office()
    asked = await ask(started, desk)
    await started.write(at(NOW + HOUR, desk.withdraw), asked)

    withdrawn = await started.read(approval_of, asked.id)
    assert (withdrawn.status, withdrawn.decided_at) == (ApprovalStatus.CANCELLED, NOW + HOUR)
    assert (await told(started))["metadata"] == facts(asked.id, "cancelled")


async def test_reviews_look_at_what_the_subtasks_of_a_question_could_do(started):
    pushes = ReviewRule(
        name="user:review:1", text=ReviewText(tool="push"), review=Review(needed=2), where="r:1"
    )

    class ByName(Doings, frozen=True):
        def of(self, subtasks):
            return tuple(Deed(tools=frozenset({each.id})) for each in subtasks)

    desk = ApprovalService(
        kinds={"deploy": Deploys()}, reviews=Reviews(rules=(pushes,)), doings=ByName()
    )
    push, pull = (Subtask(id=name, description="x", agent="coder") for name in ("push", "pull"))

    assert (await ask(started, desk, matter=Matter(subtasks=(pull, push)))).review is not None
    assert (await ask(started, desk, matter=Matter(subtasks=(pull,)))).review is None


# Votes ------------------------------------------------------------------------------------------

WRITES = RuleText(decision="allow", tool="write_file")
READS = RuleText(decision="allow", tool="read_file")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"auto_approve_tools": False}),
        ({}, {"start": False}),
        ({}, {"rule": WRITES}),
        ({"rule": WRITES}, {"rule": READS}),
        ({}, {"word": DecisionWord.HOLD}),
        ({"word": DecisionWord.EDIT, "changes": 1}, {"word": DecisionWord.EDIT, "changes": 2}),
    ],
)
async def test_a_vote_that_says_something_else_takes_the_place_of_the_first(started, first, second):
    desk = office(Review(needed=2))
    asked = await ask(started, desk)

    async def votes(said):
        await started.write(desk.decide, asked.id, Ruling(**{"word": APPROVE, "by": ANN, **said}))
        (vote,) = await started.read(votes_of, asked.id)
        return vote.ruling, len(await started.read(log.events_after, "s1", 0))

    kept, events = await votes(first)
    assert await votes(first) == (kept, events)
    other, more = await votes(second)
    assert (other != kept, more) == (True, events + 1)


@pytest.mark.parametrize(
    ("rules", "held"),
    [
        ((WRITES, WRITES, WRITES), WRITES),
        ((WRITES, READS, WRITES), None),
        ((WRITES, WRITES, READS), None),
        ((WRITES, WRITES, None), None),
        ((None, WRITES, WRITES), None),
        ((None, None, None), None),
    ],
)
async def test_what_is_allowed_for_the_rest_of_a_session_is_what_all_of_them_allow(
    started, rules, held
):
    desk = office(Review(needed=3))
    asked = await ask(started, desk)
    for name, rule in zip("abc", rules, strict=True):
        who = Principal(id=f"user:{name}", name=name, role=Role.OPERATOR)
        decided = await started.write(
            desk.decide, asked.id, Ruling(word=APPROVE, by=who, rule=rule)
        )

    assert decided.status is ApprovalStatus.APPROVED
    assert decided.decision.get("rule") == (
        held and {"decision": "allow", "tool": held.tool}
    )  # fmt: skip
    assert decided.decision["approved_by"] == ["a", "b", "c"]


@pytest.mark.parametrize("only", range(3))
async def test_a_rule_that_one_of_them_allows_one_plan_alone_holds_there_alone(started, only):
    desk = office(Review(needed=3))
    asked = await ask(started, desk)
    for number, name in enumerate("abc"):
        who = Principal(id=f"user:{name}", name=name, role=Role.OPERATOR)
        ruling = Ruling(word=APPROVE, by=who, rule=WRITES, for_plan=number == only)
        decided = await started.write(desk.decide, asked.id, ruling)

    assert (decided.decision["rule"]["tool"], decided.decision["for_plan"]) == (WRITES.tool, True)


async def test_edits_count_together_only_when_they_are_the_same(started):
    desk = office(Review(needed=2))
    asked = await ask(started, desk)

    async def edits(who, tag):
        ruling = Ruling(word=DecisionWord.EDIT, by=who, changes={"tag": tag})
        return (await started.write(desk.decide, asked.id, ruling)).status

    assert await edits(ANN, "v2") is ApprovalStatus.PENDING
    assert await edits(BOB, "v3") is ApprovalStatus.PENDING
    approves = Ruling(word=APPROVE, by=EVE)
    assert (await started.write(desk.decide, asked.id, approves)).decision is None
    assert await edits(BOB, "v2") is ApprovalStatus.EDITED


async def test_who_wrote_an_edit_that_is_asked_anew_has_approved_it_in_that_word(started):
    drafts = Drafts()
    drafts.desk = desk = office(Review(needed=2), kinds={"deploy": drafts})
    asked = await ask(started, desk)
    ruling = Ruling(word=DecisionWord.EDIT, by=ANN, changes="v2", feedback="shorter", revision=3)
    opened = await started.write(desk.decide, asked.id, ruling)

    (vote,) = await started.read(votes_of, opened.id)
    assert vote.principal_id == "user:ann"
    assert vote.ruling == {
        "decision": "approve", "feedback": "shorter", "decided_name": "ann", "start": True,
        "ballot": opened.digest, "auto_approve_tools": True,
    }  # fmt: skip
    assert opened.digest == "sha256:v2"
    superseded = await started.read(approval_of, asked.id)
    assert superseded.status is ApprovalStatus.SUPERSEDED
    assert superseded.decision["changes"] == "v2"


def test_an_answer_is_kept_with_all_that_was_said_and_nothing_that_was_not():
    whole = Ruling(
        word=DecisionWord.EDIT, by=ANN, digest="sha256:1", revision=3, feedback="", changes=[1],
        prepared=object(), rule=RuleText(decision="allow", tool="x"), after=7,
        agreed=("bob", "ann"),
    )  # fmt: skip
    assert whole.as_json() == {
        "decision": "edit", "feedback": "", "changes": [1], "decided_name": "ann", "after": 7,
        "rule": {"decision": "allow", "tool": "x"}, "approved_by": ["bob", "ann"],
    }  # fmt: skip
    assert Ruling(word=APPROVE, by=ANN).as_json() == {"decision": "approve", "decided_name": "ann"}
