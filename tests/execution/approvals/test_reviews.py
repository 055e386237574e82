"""Who decides: reviewers, roles, several approvals of one thing, and others after a time.

Whatever people send, in whatever order and at once: a question is decided at most once, and never
approved by fewer different people than it needs, or by one who may not.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from fakes import rows
from fakes.rows import NOW, begin, plan, session, verify_chain
from gonogo.domain.errors import AlreadyDecided, Conflict, Forbidden, InvalidMessage
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import Approval
from gonogo.domain.reviews import Deed, Review
from gonogo.domain.states import ApprovalStatus, DecisionWord
from gonogo.execution.approvals import (
    ESCALATE,
    EXPIRE,
    ApprovalService,
    Matter,
    Question,
    Refusal,
    Ruling,
    is_reviewer,
    objection,
)
from gonogo.policy import BadRules, Reviews
from gonogo.policy.reviewers import ReviewRule, ReviewText
from gonogo.store import events as log
from gonogo.store.calls import approval_of, escalate_approval, list_approvals, votes_of
from gonogo.store.jobs import due_timers, first_timer
from gonogo.store.plans import add_plan
from gonogo.store.sessions import add_session, add_turn
from plugins.nightly import examples

LIMIT = 60
HOUR = timedelta(hours=1)
APPROVE, REJECT, EDIT, HOLD = (
    DecisionWord.APPROVE, DecisionWord.REJECT, DecisionWord.EDIT, DecisionWord.HOLD,
)  # fmt: skip


def person(name, role=Role.OPERATOR):
    return Principal(id=f"user:{name}", name=name, role=role)


ANN, BOB, EVE, KIM = (person(name) for name in ("ann", "bob", "eve", "kim"))
ROOT = person("root", Role.ADMIN)


@dataclass
class Deploys:
    """Answers about deployments: edits hold as they are."""

    settled: list[Any] = field(default_factory=list)
    lapsed: list[str] = field(default_factory=list)

    def settle(self, tx, approval: Approval, ruling: Ruling) -> None:
        self.settled.append((approval.id, ruling))

    def lapse(self, tx, approval: Approval) -> None:
        self.lapsed.append(approval.id)


@dataclass
class Drafts(Deploys):
    """Answers about drafts: an edit can be asked about anew. Its text is its digest."""

    desk: Any = None

    def check(self, tx, approval: Approval, ruling: Ruling) -> None:
        if ruling.revision not in (None, approval.revision):
            raise Conflict("another revision")

    def matter(self, tx, approval: Approval, ruling: Ruling) -> Matter:
        if "text" not in ruling.changes:
            raise InvalidMessage("text is needed")
        return matter(ruling.changes["text"])

    def ask_again(self, tx, approval: Approval, ruling: Ruling) -> Approval:
        asked = question("draft", ruling.changes["text"], approval.session_id, instead_of=approval)
        return self.desk.open(tx, asked)


def matter(text):
    return Matter(deeds=(Deed(tools=frozenset({text})),))


def question(kind="deploy", text="v1", session_id="s1", **more):
    told = {"details": {}, **more}
    return Question(
        session_id=session_id, kind=kind, subject="Ship it", reason="asks",
        digest=f"sha256:{text}", matter=matter(text), **told,
    )  # fmt: skip


def reviews(*rules):
    made = [
        ReviewRule(
            name=f"user:review:{n}", text=ReviewText(tool=fields.pop("tool", None)),
            review=Review(rules=(f"user:review:{n}",), **fields), where=f"rules.toml:{n}",
        )
        for n, fields in enumerate(rules, 1)
    ]  # fmt: skip
    return Reviews(rules=tuple(made))


class Office:
    """A desk over a store, with both kinds of questions."""

    def __init__(self, store, *rules, **more):
        self.store = store
        self.deploys, self.drafts = Deploys(), Drafts()
        self.desk = ApprovalService(
            kinds={"deploy": self.deploys, "draft": self.drafts}, reviews=reviews(*rules), **more
        )
        self.drafts.desk = self.desk

    async def ask(self, *args, **more):
        return await self.store.write(self.desk.open, question(*args, **more))

    async def decide(self, asked, by, word=APPROVE, now=NOW, **more):
        made = Ruling(word=word, by=by, **more)
        return await self.store.write(rows.at(now, self.desk.decide), asked.id, made)

    async def now(self, asked):
        return await self.store.read(approval_of, asked.id)

    async def names(self, asked):
        return [vote.name for vote in await self.store.read(votes_of, asked.id)]

    async def told(self, type_):
        found = await self.store.read(log.events_after, "s1", 0)
        return [event["metadata"] for event in found if event["type"] == type_]

    async def noted(self, action):
        return [each for each in await self.store.read(log.entries, "s1") if each.action == action]

    async def fire(self, now):
        for timer in await self.store.read(rows.at(now, due_timers)):
            await self.store.write(rows.at(now, self.desk.on_timer), timer.kind, timer.key)


@pytest.fixture
async def office(store):
    await store.write(begin)

    def opens(*rules, **more):
        return Office(store, *rules, **more)

    return opens


async def test_the_last_of_the_approvals_that_are_needed_is_the_decision(office):
    at = office({"needed": 2})
    asked = await at.ask()
    waits = await at.decide(asked, ANN, feedback="fine")

    assert waits == await at.now(asked) == asked
    assert await at.names(asked) == ["ann"]
    (voted,) = await at.told("approval_voted")
    assert (voted["votes"], voted["needed"], voted["voted_by"]) == (1, 2, ["ann"])
    assert voted["status"] == "pending"
    (entry,) = await at.noted("deploy.voted")
    assert (entry.actor, entry.details["digest"]) == ("user:ann", "sha256:v1")
    assert entry.details["decision"]["feedback"] == "fine"

    decided = await at.decide(asked, BOB, now=NOW + HOUR)
    assert (decided.status, decided.decided_by) == (ApprovalStatus.APPROVED, "user:bob")
    assert decided.decision["approved_by"] == ["ann", "bob"]
    assert len(at.deploys.settled) == 1
    (resolved,) = await at.told("approval_resolved")
    assert (resolved["decided_by"], resolved["voted_by"]) == ("bob", ["ann", "bob"])
    assert len(await at.told("approval_voted")) == 1
    (entry,) = await at.noted("deploy.approved")
    assert entry.details["decision"]["approved_by"] == ["ann", "bob"]


async def test_one_person_is_one_vote_however_often_they_send_it(office):
    at = office({"needed": 2})
    asked = await at.ask()
    for _ in range(3):
        assert (await at.decide(asked, ANN)).status is ApprovalStatus.PENDING
    assert len(await at.told("approval_voted")) == 1

    # A vote that says something else takes the place of the first, and is still one.
    assert (await at.decide(asked, ANN, HOLD)).status is ApprovalStatus.PENDING
    assert await at.names(asked) == ["ann"]
    assert len(await at.told("approval_voted")) == 2


async def test_the_requested_event_says_how_many_are_needed(office):
    at = office({"needed": 3})
    await at.ask()
    (told,) = await at.told("approval_requested")
    assert (told["needed"], told["votes"]) == (3, 0)
    (entry,) = await at.noted("deploy.asked")
    assert entry.details["review"]["needed"] == 3
    assert entry.details["requested_by"] == "ann"


async def test_a_reject_decides_at_once_also_from_one_who_approved_before(office):
    at = office({"needed": 3})
    asked = await at.ask()
    await at.decide(asked, ANN)
    await at.decide(asked, BOB)
    rejected = await at.decide(asked, ANN, REJECT)

    assert rejected.status is ApprovalStatus.REJECTED
    refusal = await at.decide(asked, BOB)
    assert isinstance(refusal.error, AlreadyDecided)
    assert "rejected by ann" in str(refusal.error)


async def test_everybody_whose_approval_counted_gets_the_decision_as_answer_again(office):
    at = office({"needed": 2})
    asked = await at.ask()
    await at.decide(asked, ANN)
    decided = await at.decide(asked, BOB)

    assert await at.decide(asked, ANN) == decided
    assert isinstance(await at.decide(asked, EVE), Refusal)
    assert isinstance(await at.decide(asked, ANN, REJECT), Refusal)


@pytest.mark.feature(35)
@pytest.mark.parametrize(("votes", "left"), [([True, False], False), ([False, True], False),
                                             ([True, True], True)])  # fmt: skip
async def test_nobody_loosens_that_every_tool_is_to_ask(office, votes, left):
    at = office({"needed": 2})
    asked = await at.ask()
    for who, free in zip((ANN, BOB), votes, strict=True):
        await at.decide(asked, who, auto_approve_tools=free)

    ((_, ruling),) = at.deploys.settled
    assert ruling.auto_approve_tools is left


async def test_who_comes_last_says_whether_it_starts(office):
    at = office({"needed": 2})
    asked = await at.ask()
    await at.decide(asked, ANN, start=True)
    await at.decide(asked, BOB, HOLD, start=False)
    ((_, ruling),) = at.deploys.settled
    assert (ruling.word, ruling.start) == (HOLD, False)


async def test_edits_that_nobody_can_ask_about_count_if_they_are_the_same(office):
    at = office({"needed": 2})
    asked = await at.ask()
    await at.decide(asked, ANN, EDIT, changes={"tag": "v2"})
    await at.decide(asked, BOB)
    assert (await at.decide(asked, EVE, EDIT, changes={"tag": "v3"})).decision is None
    assert at.deploys.settled == []

    decided = await at.decide(asked, KIM, EDIT, changes={"tag": "v2"})
    assert decided.status is ApprovalStatus.EDITED
    assert decided.decision["approved_by"] == ["ann", "kim"]


async def test_an_agent_that_asked_is_told_what_enough_people_said_and_remarks_divide_nobody(
    office,
):
    at = office({"needed": 2})
    asked = await at.ask(details={"question": "Which database?"})
    await at.decide(asked, ANN, feedback="the test one")
    assert (await at.decide(asked, BOB, feedback="production")).status is ApprovalStatus.PENDING
    assert (await at.decide(asked, KIM)).status is ApprovalStatus.PENDING
    assert at.deploys.settled == []
    await at.decide(asked, EVE, feedback="the test one")
    assert [ruling.feedback for _, ruling in at.deploys.settled] == ["the test one"]

    other = await at.ask(text="v2")
    await at.decide(other, ANN, feedback="nice")
    assert (await at.decide(other, BOB, feedback="fine")).status is ApprovalStatus.APPROVED


async def test_an_edit_needs_all_approvals_again_and_its_author_is_one_of_them(office):
    at = office({"needed": 2})
    asked = await at.ask("draft")
    await at.decide(asked, ANN)
    opened = await at.decide(asked, BOB, EDIT, changes={"text": "v2"})

    assert (await at.now(asked)).status is ApprovalStatus.SUPERSEDED
    assert (opened.status, opened.digest) == (ApprovalStatus.PENDING, "sha256:v2")
    assert await at.names(opened) == ["bob"]
    assert opened.requested_by == asked.requested_by
    refusal = await at.decide(asked, EVE)
    assert str(refusal.error) == (
        "Ship it: the question is closed (superseded); there is nothing left to decide"
    )
    assert (await at.decide(asked, BOB, EDIT, changes={"text": "v2"})).id == asked.id
    decided = await at.decide(opened, ANN)
    assert decided.status is ApprovalStatus.APPROVED
    assert await at.decide(opened, BOB) == decided
    assert [ruling.word for _, ruling in at.drafts.settled] == [APPROVE]


async def test_an_edit_that_is_not_valid_or_not_of_what_was_shown_changes_nothing(office):
    at = office({"needed": 2})
    asked = await at.ask("draft")
    with pytest.raises(InvalidMessage):
        await at.decide(asked, ANN, EDIT, changes={})
    with pytest.raises(Conflict):
        await at.decide(asked, ANN, EDIT, changes={"text": "v2"}, revision=7)
    with pytest.raises(Conflict):
        await at.decide(asked, ANN, revision=7)
    assert await at.now(asked) == asked
    assert await at.names(asked) == []


async def test_an_edit_into_what_another_rule_speaks_of_is_reviewed_by_that_too(office):
    at = office({"tool": "push", "reviewers": ("user:eve",)})
    asked = await at.ask("draft")
    assert asked.review is None
    opened = await at.decide(asked, ANN, EDIT, changes={"text": "push"})

    assert (opened.status, await at.names(opened)) == (ApprovalStatus.PENDING, [])
    with pytest.raises(Forbidden, match="Only these people can approve this: eve; ask one of them"):
        await at.decide(opened, ANN)
    # Away from it, the review of what was edited holds on.
    again = await at.decide(opened, EVE, EDIT, changes={"text": "pull"})
    assert again.status is ApprovalStatus.EDITED
    assert Counter(word for _, ruling in at.drafts.settled for word in [ruling.word]) == {EDIT: 1}


async def test_what_a_rule_said_when_the_question_was_opened_holds_on(office, store):
    asked = await office({"needed": 2, "reviewers": ("user:ann", "user:bob")}).ask()
    later = office()
    assert (await later.decide(asked, ANN)).status is ApprovalStatus.PENDING
    with pytest.raises(Forbidden):
        await later.decide(asked, EVE)
    assert (await later.decide(asked, BOB)).status is ApprovalStatus.APPROVED


async def test_only_the_reviewers_named_approve_and_the_text_says_who(office):
    at = office({"reviewers": ("user:bob", "user:eve")})
    asked = await at.ask()
    for who in (ANN, ROOT):
        with pytest.raises(
            Forbidden, match=("Only these people can approve this: bob, eve; ask one of them")
        ):
            await at.decide(asked, who)
    assert [is_reviewer(who, asked) for who in (ANN, BOB, ROOT)] == [False, True, False]
    assert (await at.decide(asked, EVE)).status is ApprovalStatus.APPROVED


async def test_a_role_is_needed_of_reviewers_too(office):
    at = office({"role": "admin"})
    asked = await at.ask()
    with pytest.raises(Forbidden, match="needs the role admin, and bob has the role operator"):
        await at.decide(asked, BOB)
    with pytest.raises(Forbidden):
        await at.decide(asked, BOB, REJECT)
    assert (await at.decide(asked, ROOT)).status is ApprovalStatus.APPROVED


async def test_where_rules_name_nobody_in_common_nobody_approves(office):
    at = office({"reviewers": ("user:ann",)}, {"reviewers": ("user:bob",)})
    asked = await at.ask()
    with pytest.raises(Forbidden, match="Nobody can approve this: the rules of review name no"):
        await at.decide(asked, ANN)


async def ask_of(at, store, who, kind="deploy", **more):
    """A question that a message of that person led to."""

    def say(tx):
        add_turn(tx, f"t-{who.name}", "s1", "Ship it", "coder", who.id)

    await store.write(say)
    return await at.ask(kind, turn_id=f"t-{who.name}", **more)


async def test_who_asked_may_say_no_but_not_yes(office, store):
    at = office({"not_requester": True})
    asked = await ask_of(at, store, BOB)
    assert asked.requested_by == "user:bob"
    with pytest.raises(Forbidden, match="bob asked for this, so somebody else must approve it"):
        await at.decide(asked, BOB)
    with pytest.raises(Forbidden):
        await at.decide(asked, BOB, EDIT, changes={"tag": "v2"})
    assert (await at.decide(asked, BOB, REJECT)).status is ApprovalStatus.REJECTED


async def test_whose_message_is_not_known_is_taken_for_the_owners(office, store):
    await store.write(lambda tx: add_turn(tx, "t", "s1", "Ship it", "coder"))
    assert (await office().ask(turn_id="t")).requested_by == "ann"


async def test_what_a_plan_asks_was_asked_for_by_whose_message_led_to_the_plan(office, store):
    def tell(tx):
        add_turn(tx, "t-bob", "s1", "Ship it", "coder", BOB.id)
        for plan_id, turn_id in (("p1", "t-bob"), ("p2", None)):
            add_plan(tx, plan(plan_id, turn_id=turn_id))

    await store.write(tell)
    at = office({"not_requester": True})
    assert (await at.ask(plan_id="p2")).requested_by == "ann"
    asked = await at.ask(plan_id="p1")
    assert asked.requested_by == "user:bob"
    with pytest.raises(Forbidden, match="bob asked for this"):
        await at.decide(asked, BOB)


async def test_who_asked_may_edit_and_others_approve_what_came_of_it(office, store):
    at = office({"not_requester": True})
    asked = await ask_of(at, store, BOB, "draft")
    opened = await at.decide(asked, BOB, EDIT, changes={"text": "v2"})
    assert (opened.status, await at.names(opened)) == (ApprovalStatus.PENDING, [])
    with pytest.raises(Forbidden):
        await at.decide(opened, BOB)

    edited = await at.decide(opened, EVE, EDIT, changes={"text": "v3"})
    assert (edited.status, await at.names(edited)) == (ApprovalStatus.PENDING, [])
    for asker in (BOB, EVE):
        with pytest.raises(Forbidden, match="asked for this"):
            await at.decide(edited, asker)
    assert (await at.decide(edited, ANN)).status is ApprovalStatus.APPROVED


async def test_an_edit_that_leaves_nobody_to_approve_it_says_so_and_its_author_may_take_it_back(
    office, store
):
    at = office({"not_requester": True, "reviewers": ("user:ann", "user:bob")})
    asked = await ask_of(at, store, BOB, "draft")
    edited = await at.decide(asked, ANN, EDIT, changes={"text": "v2"})
    for asker in (ANN, BOB):
        with pytest.raises(Forbidden, match="asked for this"):
            await at.decide(edited, asker)
    assert (await at.decide(edited, ANN, REJECT)).status is ApprovalStatus.REJECTED


async def test_whose_session_it_is_may_say_no_although_others_ask_and_decide(office, store):
    at = office({"reviewers": ("user:bob",)})
    asked = await ask_of(at, store, KIM)
    owner = Principal(id="ann", name="Ann", role=Role.OPERATOR)
    with pytest.raises(Forbidden):
        await at.decide(asked, owner)
    with pytest.raises(Forbidden):
        await at.decide(asked, EVE, REJECT)
    assert (await at.decide(asked, owner, REJECT)).status is ApprovalStatus.REJECTED


async def test_after_a_time_others_are_let_in_once_and_nothing_is_decided(office):
    at = office(
        {"reviewers": ("user:ann",), "escalate_after": 60.0, "escalate_to": ("user:bob",),
         "escalate_role": "admin"}
    )  # fmt: skip
    asked = await at.ask()
    assert await at.store.read(first_timer) == NOW + timedelta(minutes=1)
    with pytest.raises(Forbidden):
        await at.decide(asked, BOB)
    await at.fire(NOW + timedelta(minutes=1))
    await at.fire(NOW + timedelta(minutes=2))

    (told,) = await at.told("approval_escalated")
    assert told["escalated_to"] == ["bob", "role:admin"]
    assert len(await at.noted("deploy.escalated")) == 1
    open_ = await at.now(asked)
    assert (open_.status, open_.escalated_at) == (
        ApprovalStatus.PENDING, NOW + timedelta(minutes=1),
    )  # fmt: skip
    assert [objection(who, open_) is None for who in (ANN, BOB, ROOT, EVE)] == [
        True, True, True, False,
    ]  # fmt: skip
    assert [is_reviewer(who, open_) for who in (BOB, ROOT, EVE)] == [True, True, False]
    assert (await at.decide(asked, BOB)).status is ApprovalStatus.APPROVED
    assert not await at.store.write(escalate_approval, open_, {})


async def test_whoever_was_let_in_stays_so_after_an_edit(office):
    at = office(
        {"needed": 2, "reviewers": ("user:ann",), "escalate_after": 60.0,
         "escalate_to": ("user:bob",)}
    )  # fmt: skip
    asked = await at.ask("draft")
    await at.fire(NOW + timedelta(minutes=1))
    opened = await at.decide(asked, ANN, EDIT, changes={"text": "v2"})

    assert opened.escalated_at is not None
    assert await at.store.read(first_timer) is None
    assert (await at.decide(opened, BOB)).status is ApprovalStatus.APPROVED


async def test_who_is_let_in_early_by_one_rule_is_not_let_in_early_by_another(office):
    to = {"escalate_to": ("user:bob",)}
    at = office(
        {"tool": "v1", "reviewers": ("user:ann",), "escalate_after": 60.0, **to},
        {"tool": "push", "reviewers": ("user:ann",), "escalate_after": 3600.0, **to},
    )
    asked = await at.ask("draft")
    await at.fire(NOW + timedelta(seconds=61))
    later = NOW + timedelta(seconds=62)
    opened = await at.decide(asked, BOB, EDIT, changes={"text": "push"}, now=later)

    assert (opened.status, opened.escalated_at) == (ApprovalStatus.PENDING, None)
    with pytest.raises(Forbidden, match="Only these people can approve this: ann; ask one of them"):
        await at.decide(opened, BOB, now=later)
    await at.fire(NOW + 2 * HOUR)
    decided = await at.decide(opened, BOB, now=NOW + 2 * HOUR)
    assert decided.status is ApprovalStatus.APPROVED


async def test_a_question_that_is_closed_is_not_escalated(office):
    at = office({"escalate_after": 60.0, "escalate_role": "admin"})
    asked = await at.ask()
    await at.decide(asked, ANN)
    assert await at.store.read(first_timer) is None
    await at.store.write(rows.at(NOW + HOUR, at.desk.on_timer), ESCALATE, asked.id)
    assert await at.told("approval_escalated") == []


@pytest.mark.feature(84)
@pytest.mark.parametrize(
    ("kind", "rule", "after"),
    [(None, 60.0, 60), (HOUR, 60.0, 60), (HOUR, 7_200.0, 3_600), (HOUR, None, 3_600)],
)
async def test_a_question_lives_as_long_as_the_shorter_of_the_two_says(office, kind, rule, after):
    at = office({"expires_after": rule}, expiry={"deploy": kind})
    assert (await at.ask()).expires_at == NOW + timedelta(seconds=after)


async def test_votes_are_no_decision_when_the_time_is_over(office):
    at = office({"needed": 2, "expires_after": 60.0})
    asked = await at.ask()
    await at.decide(asked, ANN)
    assert isinstance(await at.decide(asked, BOB, now=NOW + HOUR), Refusal)
    assert (await at.now(asked)).status is ApprovalStatus.EXPIRED
    assert (at.deploys.settled, at.deploys.lapsed) == ([], [asked.id])


async def test_votes_outlive_the_process(office, store, database_url):
    from gonogo.store import Store

    asked = await office({"needed": 2}).ask()
    other = Store(database_url, clock=lambda: NOW)
    await Office(other, {"needed": 2}).decide(asked, ANN)
    other.close()
    assert (await office().decide(asked, BOB)).status is ApprovalStatus.APPROVED


async def test_identical_questions_have_a_key_in_common_and_others_have_not(office, store):
    at = office()
    await store.write(lambda tx: add_session(tx, session("s2")))
    elsewhere = session("s3", workspace="/other")
    await store.write(lambda tx: add_session(tx, elsewhere))
    one, same = await at.ask(same={"a": 1}), await at.ask(text="v2", same={"a": 1}, session_id="s2")
    others = [
        await at.ask(same={"a": 2}), await at.ask("draft", same={"a": 1}),
        await at.ask(same={"a": 1}, session_id="s3"),
    ]  # fmt: skip
    assert one.group_key == same.group_key
    assert len({one.group_key, *(other.group_key for other in others)}) == 4
    assert (await at.ask()).group_key is None
    found = await store.read(
        list_approvals, status=None, session_id=None, kind=None, group=one.group_key
    )
    assert [each.id for each in found] == [same.id, one.id]


def test_a_rule_about_a_kind_that_nobody_asks_is_refused_when_all_kinds_are_known():
    text = ReviewText(kind="deploy")
    rule = ReviewRule(name="r", text=text, review=Review(), where="rules.toml:3")
    desk = ApprovalService(reviews=Reviews(rules=(rule,)))
    with pytest.raises(BadRules, match=r"rules\.toml:3: there is no kind 'deploy'; use plan"):
        desk.register({"plan": Deploys()})
    desk.register({"deploy": Deploys()})


# Whatever happens ------------------------------------------------------------------------------

_PEOPLE = st.sampled_from([ANN, BOB, EVE, KIM, ROOT])
_WORDS = st.sampled_from([APPROVE, APPROVE, APPROVE, HOLD, EDIT, REJECT])
_ANSWER = st.tuples(_PEOPLE, _WORDS, st.sampled_from(["v1", "v2", "push"]))
_STEPS = st.lists(
    st.lists(_ANSWER, min_size=1, max_size=3) | st.sampled_from(["escalate", "expire"]),
    max_size=9,
)
_RULE = st.fixed_dictionaries(
    {"needed": st.integers(1, 3), "not_requester": st.booleans()},
    optional={
        "reviewers": st.sets(st.sampled_from(["user:ann", "user:bob", "user:eve"]), min_size=1)
        .map(sorted).map(tuple),
        "escalate_after": st.just(60.0),
        "escalate_to": st.just(("user:kim",)),
        "role": st.sampled_from(["operator", "admin"]),
        "tool": st.just("push"),
    },
)  # fmt: skip
_NUMBERS = count(1)


async def _step(at, current, step):
    """One thing that happens. Gives the question that is open then, or was last."""
    if step == "escalate":
        await at.store.write(rows.at(NOW + HOUR, at.desk.on_timer), ESCALATE, current.id)
        return await at.now(current)
    if step == "expire":
        await at.store.write(rows.at(NOW + 9 * HOUR, at.desk.on_timer), EXPIRE, current.id)
        return await at.now(current)
    opened: list[Approval] = []

    async def answers(who, word, text):
        changes = {"text": text} if word is EDIT else None
        try:
            said = await at.decide(current, who, word, changes=changes)
        except (Forbidden, Conflict):
            return
        if isinstance(said, Approval) and said.id != current.id:
            opened.append(said)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for answer in step:
                group.start_soon(answers, *answer)
    assert len(opened) <= 1
    return opened[0] if opened else await at.now(current)


def _admitted(review, requested_by, who):
    """What a rule says of one who approves, said once more and without the desk."""
    named = review["reviewers"] is None or who.id in (*review["reviewers"], *review["also"])
    ranks = {"operator": Role.OPERATOR, "admin": Role.ADMIN}
    barred = review["not_requester"] and who.id in (requested_by, *review["asked_too"])
    return named and who.role >= ranks[review["role"]] and not barred


@settings(
    max_examples=examples(30, nightly=60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@drawn(
    rules=st.lists(_RULE, max_size=2), steps=_STEPS, kind=st.sampled_from(["deploy", "draft"]),
    asker=_PEOPLE,
)  # fmt: skip
async def test_whatever_happens_one_decision_and_never_too_few_behind_it(
    store, rules, steps, kind, asker
):
    name = f"x{next(_NUMBERS)}"

    def opens(tx):
        add_session(tx, session(name, principal_id=asker.id))

    await store.write(opens)
    at = Office(store, *(dict(rule) for rule in rules), expiry={kind: HOUR})
    current = await at.ask(kind, session_id=name)
    for step in steps:
        current = await _step(at, current, step)

    asked = await store.read(list_approvals, status=None, session_id=name, kind=None)
    settled = at.deploys.settled + at.drafts.settled
    lapsed = at.deploys.lapsed + at.drafts.lapsed
    assert len(settled) + len(lapsed) <= 1
    assert sum(each.status is ApprovalStatus.PENDING for each in asked) <= 1
    assert {each.status for each in asked[1:]} <= {ApprovalStatus.SUPERSEDED}
    people = {who.id: who for who in (ANN, BOB, EVE, KIM, ROOT)}
    noted = await store.read(log.entries, name)
    for approval_id, ruling in settled:
        if ruling.word is REJECT:
            continue
        decided = await store.read(approval_of, approval_id)
        review = decided.review or Review().model_dump(mode="json")
        last = {
            entry.actor: entry.details["decision"]
            for entry in noted
            if entry.details["approval_id"] == approval_id and entry.action == f"{kind}.voted"
        }
        agreed = {who for who, said in last.items() if said.get("changes") == ruling.changes}
        behind = [people[who] for who in {*agreed, ruling.by.id}]
        assert len(behind) >= review["needed"]
        assert all(_admitted(review, asker.id, who) for who in behind)
    assert (await store.read(verify_chain, name))[1] == []
