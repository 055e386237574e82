"""Several people at the door: each sees what waits for them, and several approve one thing."""

from functools import partial

import pytest

from fakes.door import client_at, door_at
from fakes.template import lay_out
from gonogo.domain.errors import Conflict, Forbidden, InvalidCursor, InvalidMessage, NotFound
from gonogo.domain.identity import Role
from gonogo.domain.views import ApprovalList, SessionView
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings

PUSH = {"name": "execute_command", "arguments": {"command": "touch made.txt"}}
OWN = {"name": "execute_command", "arguments": {"command": "make"}}
LINES = {
    "main/coder": [{"calls": [PUSH]}, {"text": "Done"}] * 3,
    "main/debug": [{"calls": [OWN]}, {"text": "Done"}],
}
RULES = (
    '[[review]]\ncommand = "touch"\napprovals = 2\nnot_requester = true\n'
    'reviewers = ["ann", "bob", "eve"]\n'
    '[[rule]]\ncommand = "pytest"\ndecision = "allow"\n'
    'match = ["pytest -q"]\nnot_match = ["pytest -p evil"]\n'
)


@pytest.fixture
async def door(tmp_path):
    """Gives clients of a served runtime, by name."""
    (tmp_path / "work").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text(RULES)
    settings = Settings(
        home=tmp_path / "home", config=tmp_path / "config", workspace=tmp_path / "work"
    )
    lay_out(settings.home)
    path = tmp_path / "s"
    async with (
        Runtime.open(settings, model=ScriptedModel(LINES)) as runtime,
        door_at(runtime, path),
    ):
        yield partial(client_at, runtime, path)


async def test_admins_are_shown_the_rules_that_hold_and_where_they_stand(door, tmp_path):
    async with door("ann") as ann, door("root", Role.ADMIN) as root:
        shown = await root.policy()
        with pytest.raises(Forbidden):
            await ann.policy()

    (rule,), (review,) = shown.rules, shown.reviews
    file = tmp_path / "config" / "rules.toml"
    assert (rule.name, rule.tier, rule.where) == ("user:1", "user", f"{file}:6")
    assert rule.rule == {
        "decision": "allow", "command": "pytest", "match": ["pytest -q"],
        "not_match": ["pytest -p evil"],
    }  # fmt: skip
    assert (review.name, review.where) == ("user:review:1", f"{file}:1")
    assert review.rule["reviewers"] == ["ann", "bob", "eve"]
    assert shown.version.startswith("sha256:")


async def asks(client, session_id):
    """Have an agent ask for a call. Gives the question."""
    message = {"type": "user_message", "content": "Touch it", "agent_type": "coder"}
    found = [event async for event in client.send(session_id, message)]
    (asked,) = [event for event in found if event["type"] == "approval_requested"]
    return await client.approval(asked["metadata"]["approval_id"])


async def test_two_others_let_a_call_run_that_its_author_may_not_approve(door, tmp_path):
    async with (
        door("ann") as ann, door("bob") as bob, door("eve") as eve, door("zoe") as zoe,
        door("vic", Role.VIEWER) as vic,
    ):  # fmt: skip
        asked = await asks(ann, "s1")
        with pytest.raises(Forbidden, match="ann asked for this"):
            await ann.decide(asked.approval_id, "approve")
        for hidden in (zoe, vic):
            with pytest.raises(NotFound):
                await hidden.approval(asked.approval_id)
        assert (await ann.approvals(mine=True)).count == 0
        (shown,) = (await bob.approvals(mine=True)).approvals
        assert (shown.review.needed, shown.votes, shown.requested_by) == (2, [], "ann")

        first = await bob.decide(shown.approval_id, "approve", digest=shown.digest)
        assert (first.status, [vote.name for vote in first.votes]) == ("pending", ["bob"])
        assert (await bob.approvals(mine=True)).count == 0
        assert not (tmp_path / "work" / "made.txt").exists()
        second = await eve.decide(shown.approval_id, "approve")
        assert (second.status, second.approved_by) == ("approved", ["bob", "eve"])
        with pytest.raises(NotFound):
            await eve.session("s1")


@pytest.mark.parametrize("word", ["approve", "reject"])
async def test_where_one_person_decides_nothing_is_said_of_votes(door, word):
    async with door("ann") as ann:
        message = {"type": "user_message", "content": "Touch it", "agent_type": "debug"}
        [asked] = [
            event async for event in ann.send("s1", message)
            if event["type"] == "approval_requested"
        ]  # fmt: skip
        yes = {"approval_id": asked["metadata"]["approval_id"], "decision": word}
        [said] = await ann.decide_many([yes])
    assert (said.ok, said.outcome, said.votes, said.needed) == (True, "decided", None, None)


async def test_identical_questions_are_answered_together_and_one_by_one(door):
    async with door("ann") as ann, door("bob") as bob, door("eve") as eve:
        one, two = await asks(ann, "s1"), await asks(ann, "s2")
        assert one.group == two.group
        assert (await bob.approvals(group=one.group)).count == 2
        voted = await bob.decide_group(one.group, "approve")
        assert [(a.ok, a.outcome, a.votes, a.needed) for a in voted] == [(True, "voted", 1, 2)] * 2
        refused = await ann.decide_group(one.group, "approve")
        assert [(a.ok, a.code) for a in refused] == [(False, "forbidden")] * 2
        decided = await eve.decide_group(one.group, "approve")
        assert {a.id for a in decided} == {one.approval_id, two.approval_id}
        assert [(a.outcome, a.status) for a in decided] == [("decided", "approved")] * 2
        with pytest.raises(NotFound):
            await eve.decide_group(one.group, "approve")


async def test_a_batch_is_one_transaction_and_says_what_came_of_each(door):
    async with door("ann") as ann, door("bob") as bob, door("eve") as eve:
        one, two = await asks(ann, "s1"), await asks(ann, "s2")
        before = (await ann.session("s2")).last_seq
        yes = {"approval_id": one.approval_id, "decision": "approve"}
        said = await bob.decide_many(
            [
                yes,
                {**yes, "digest": "sha256:0"},
                {"approval_id": "appr_none", "decision": "approve"},
                {**yes, "approval_id": two.approval_id, "decision": "never"},
                {**yes, "approval_id": two.approval_id, "decision": "reject"},
                {**yes, "approval_id": two.approval_id},
            ]
        )
        answers = [(each.id, each.outcome or each.code) for each in said]
        (vote,) = (await eve.approval(one.approval_id)).votes
        told = (await ann.session("s2")).last_seq
    assert answers == [
        (one.approval_id, "voted"), (one.approval_id, "conflict"), ("appr_none", "not_found"),
        (two.approval_id, "invalid_message"), (two.approval_id, "decided"),
        (two.approval_id, "already_decided"),
    ]  # fmt: skip
    assert vote.name == "bob"
    assert told > before


async def test_approvals_are_paged_from_the_newest_back(door):
    async with door("ann") as ann, door("bob") as bob, door("zoe") as zoe:
        asked = [(await asks(ann, f"s{n}")).approval_id for n in range(3)]
        newest = await bob._get("/approvals", ApprovalList, limit=2)
        rest = await bob._get("/approvals", ApprovalList, limit=2, before=newest.before)
        everything = await bob.approvals()
        for client, place in ((bob, "appr_none"), (zoe, newest.before)):
            with pytest.raises(InvalidCursor):
                await client._get("/approvals", ApprovalList, before=place)

    assert [each.approval_id for each in newest.approvals] == asked[1:]
    assert ([each.approval_id for each in rest.approvals], rest.before) == (asked[:1], None)
    assert ([each.approval_id for each in everything.approvals], everything.count) == (asked, 3)


async def test_a_session_that_has_a_language_can_have_none_again(door):
    async with door("ann") as ann:
        await ann.open_session(session_id="s1", locale="ru")
        renamed = await ann.edit_session("s1", title="T")
        freed = await ann.edit_session("s1", locale=None)
        with pytest.raises(InvalidMessage, match="title: leave the field out"):
            await ann._patch("/sessions/s1", SessionView, {"title": None})

    assert (renamed.locale, freed.locale, freed.title) == ("ru", None, "T")


async def test_an_edit_is_asked_about_anew_and_the_answer_shows_the_new_question(door):
    async with door("ann") as ann, door("bob") as bob:
        asked = await asks(ann, "s1")
        edited = await bob.decide(
            asked.approval_id, "edit", modified_arguments={"command": "touch other.txt"}
        )
        assert edited.approval_id != asked.approval_id
        assert (edited.status, edited.arguments["command"]) == ("pending", "touch other.txt")
        assert edited.votes == [], "whoever edits it has asked for what it says now"
        with pytest.raises(Forbidden, match="bob"):
            await bob.decide(edited.approval_id, "approve")
        with pytest.raises(Conflict):
            await ann.decide(asked.approval_id, "reject")
        assert (await ann.decide(edited.approval_id, "reject")).status == "rejected"


async def test_a_batch_is_of_named_decisions_or_of_a_group(door):
    async with door("ann") as ann:
        named = [{"approval_id": "a", "decision": "approve"}]
        bodies = ({}, {"group": "x"}, {"decision": "a"}, {"decisions": named, "group": "x"})
        for body in bodies:
            with pytest.raises(InvalidMessage):
                await ann._ask("POST", "/approvals/decisions", json=body)
