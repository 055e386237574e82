"""Votes, links that decide, and whom a question comes from: each counts once, and only while it is
good."""

from datetime import timedelta

from msgspec.structs import replace

from fakes.rows import NOW, approval, at, begin, plan, session
from gonogo.domain.records import Vote
from gonogo.domain.reviews import DecisionLink
from gonogo.domain.states import ApprovalStatus
from gonogo.store import calls, people, plans, sessions

SECOND = timedelta(seconds=1)


def vote(who: str, approval_id: str = "a1", after: int = 0, **more) -> Vote:
    given = {"name": who.title(), "ruling": {"decision": "approve"}} | more
    moment = NOW + after * SECOND
    return Vote(approval_id=approval_id, principal_id=who, created_at=moment, **given)


def asked(tx) -> None:
    begin(tx)
    for approval_id in ("a1", "a2"):
        calls.add_approval(tx, approval(approval_id))


async def test_a_person_has_one_vote_and_the_first_comes_first(store):
    await store.write(asked)
    for each in (vote("bob", after=1), vote("ann", after=2), vote("eve", after=1),
                 vote("ann", "a2")):  # fmt: skip
        await store.write(calls.keep_vote, each)
    assert await store.read(calls.votes_of, "a1") == [
        vote("bob", after=1), vote("eve", after=1), vote("ann", after=2),
    ]  # fmt: skip

    again = vote("bob", after=3, ruling={"decision": "edit"})
    await store.write(calls.keep_vote, again)
    assert await store.read(calls.votes_of, "a1") == [
        vote("eve", after=1), vote("ann", after=2), again,
    ]  # fmt: skip
    assert await store.read(calls.votes_of, "a2") == [vote("ann", "a2")]
    assert await store.read(calls.votes_of, "a3") == []


def with_tokens(tx) -> None:
    asked(tx)
    calls.add_approval(tx, approval("decided", status=ApprovalStatus.APPROVED))
    for who in ("ann", "bob"):
        people.keep_principal(tx, who, who)
        for approval_id in ("a1", "a2", "decided"):
            calls.keep_vote(tx, vote(who, approval_id))
    for token_id, who, role, revoked in (
        ("high", "ann", 3, None), ("low", "ann", 2, None), ("gone", "ann", 3, NOW),
        ("his", "bob", 3, None),
    ):  # fmt: skip
        people.add_token(tx, {
            "id": token_id, "principal_id": who, "name": "t", "role": role, "created_at": NOW,
            "secret_hash": token_id, "revoked_at": revoked,
        })  # fmt: skip


async def test_open_votes_go_with_the_last_token_that_was_good_enough_for_them(store):
    await store.write(with_tokens)
    assert await store.write(calls.forget_votes, "gone") == 0
    assert await store.write(calls.forget_votes, "low") == 0
    await store.write(people.revoke_token, "high")
    assert await store.write(calls.forget_votes, "low") == 0
    assert await store.write(calls.forget_votes, "high") == 2

    left = {each: await store.read(calls.votes_of, each) for each in ("a1", "a2", "decided")}
    who = {name: [each.principal_id for each in votes] for name, votes in left.items()}
    assert who == {"a1": ["bob"], "a2": ["bob"], "decided": ["ann", "bob"]}


async def test_a_question_comes_from_whose_message_led_to_it_or_else_from_the_owner(store):
    def made(tx):
        begin(tx)
        sessions.add_session(tx, session("s2", principal_id="eve"))
        sessions.add_turn(tx, "t1", "s1", "Do", "orchestrator", by="bob")
        sessions.add_turn(tx, "t2", "s1", "Do", "orchestrator")
        sessions.add_turn(tx, "t3", "s1", "Do", "orchestrator", by="dan")
        plans.add_plan(tx, plan("p1", turn_id="t1", asked_by=["eve", "dan"]))
        plans.add_plan(tx, plan("p2"))

    await store.write(made)
    of = [("t1", None), ("t2", None), (None, "p1"), (None, "p2"), (None, None), ("t3", "p1")]
    found = [await store.read(plans.requester_of, "s1", *each) for each in of]
    assert found == ["bob", "ann", "bob", "ann", "ann", "dan"]
    assert await store.read(plans.requester_of, "s9", None, None) is None
    assert await store.read(calls.owner_of, "s2") == "eve"
    assert await store.read(calls.owner_of, "s9") is None
    assert await store.read(calls.place_of_work, "s1") == ("/code", "server")
    askers = [await store.read(calls.askers_of_plan, each) for each in ("p1", "p2", "p9", None)]
    assert [list(each) for each in askers] == [["eve", "dan"], [], [], []]


async def test_an_open_question_is_escalated_once(store):
    def made(tx):
        asked(tx)
        calls.add_approval(tx, approval("closed", status=ApprovalStatus.APPROVED))

    review = {"people": ["eve"]}
    await store.write(made)
    first, closed = [await store.read(calls.approval_of, each) for each in ("a1", "closed")]
    assert await store.write(calls.escalate_approval, first, review)
    assert not await store.write(calls.escalate_approval, closed, review)
    seen = await store.read(calls.approval_of, "a1")
    assert (seen.review, seen.escalated_at) == (review, NOW)
    assert not await store.write(calls.escalate_approval, seen, {})
    assert await store.read(calls.approval_of, "a1") == seen
    assert (await store.read(calls.approval_of, "a2")).review is None


async def test_of_a_plan_the_questions_are_known_of_which_a_rule_of_review_spoke(store):
    def made(tx):
        begin(tx)
        for approval_id, plan_id, review in (
            ("a1", "p1", {"people": []}), ("a2", "p1", None), ("a3", "p2", {"people": []}),
            ("a4", "p1", {"votes": 2}),
        ):  # fmt: skip
            calls.add_approval(tx, approval(approval_id, plan_id=plan_id, review=review))

    await store.write(made)
    found = await store.read(calls.reviewed_of_plan, "p1")
    assert {each.id for each in found} == {"a1", "a4"}


def link(link_id: str, approval_id: str = "a1", **more) -> DecisionLink:
    given = {
        "digest": "sha256:c", "principal_id": "bob", "name": "Bob", "role": 2, "made_by": "ann",
        "created_at": NOW, "expires_at": NOW + SECOND, "used_at": None, "revoked_at": None,
    }  # fmt: skip
    return DecisionLink(id=link_id, approval_id=approval_id, **{**given, **more})


async def test_a_link_is_good_once(store):
    await store.write(asked)
    for each in (link("l3"), link("l1"), link("l2"), link("l4", "a2")):
        await store.write(calls.add_link, each)
    later = NOW + 5 * SECOND

    assert await store.read(calls.link_of, "l1") == link("l1")
    assert await store.read(calls.link_of, "l9") is None
    assert await store.read(calls.open_links, "a1") == [link("l1"), link("l2"), link("l3")]
    assert await store.write(at(later, calls.use_link), "l1")
    assert await store.write(at(later, calls.revoke_link), "l2")
    for ended in ("l1", "l2", "l9"):
        assert not await store.write(calls.use_link, ended)
        assert not await store.write(calls.revoke_link, ended)
    assert await store.read(calls.link_of, "l1") == replace(link("l1"), used_at=later)
    assert await store.read(calls.link_of, "l2") == replace(link("l2"), revoked_at=later)
    assert await store.read(calls.open_links, "a1") == [link("l3")]
    assert await store.read(calls.open_links, "a2") == [link("l4", "a2")]
