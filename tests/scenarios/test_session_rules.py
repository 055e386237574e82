"""Rules of a session: made by its owner, obeyed at once, audited, gone with the session."""

from functools import partial

import pytest

from fakes.world import call, calls, of, plan, run, says, step, write
from gonogo.domain.errors import Forbidden, InvalidMessage, NotFound
from gonogo.domain.identity import Principal, Role

TWICE = {
    "main/coder": [
        calls(write("a.txt", "one\n")), calls(write("a.txt", "two\n")),
        calls(write("b.txt")), says("Done"),
    ],
    "main/orchestrator": [says("Yes?")],
}  # fmt: skip
BOB = Principal(id="user:bob", name="bob", role=Role.OPERATOR)


def asked(events):
    return [e["call_id"] for e in of(events, "tool_call", requires_approval=True)]


def allow(**fields):
    return {"decision": "allow", **fields}


async def test_approved_for_the_session_the_same_call_is_not_asked_again(make):
    async with make(TWICE) as world:
        [first] = asked(await world.say("Write", "coder"))
        events = await world.decide(first, for_session=True)

        assert world.read("a.txt") == "two\n"
        [third] = asked(events)
        assert [e["metadata"]["decision"] for e in of(events, "tool_call")] == ["allow", "ask"]
        [rule] = await world.runtime.sessions.rules(world.ann, world.session)
        assert (rule.name, rule.made_by) == ("session:1", "ann")
        assert rule.rule == allow(tool="write_file", agent="coder", path="a.txt", exact=True)
        [made] = await world.audit("rule.made")
        assert (made.actor, made.details["call_id"]) == (world.ann.id, first)
        allowed = await world.audit("tool.allowed")
        assert [e.details.get("rule") for e in allowed] == [None, "session:1"]
        assert allowed[1].details["reason"] == "rule session:1: allow a.txt"
        await world.decide(third, "reject")
        assert (await world.runtime.audit.verify(world.ann)).ok


async def test_a_rule_that_is_removed_asks_again_and_one_that_forbids_denies(make):
    async with make(TWICE) as world:
        [first] = asked(await world.say("Write", "coder"))
        made = await world.runtime.sessions.add_rule(
            world.ann, world.session, allow(tool="write_file", path="a*")
        )
        await world.runtime.sessions.remove_rule(world.ann, world.session, made.rule_id)
        [second] = asked(await world.decide(first))
        with pytest.raises(NotFound):
            await world.runtime.sessions.remove_rule(world.ann, world.session, "session:1")
        await world.decide(second, "reject")
        assert [e.subject for e in await world.audit("rule.removed")] == ["session:1"]
        again = await world.runtime.sessions.add_rule(world.ann, world.session, allow(command="ls"))
        assert again.name == "session:2"


async def test_a_call_that_was_approved_does_not_run_once_a_rule_forbids_it(make):
    async with make(TWICE) as world:
        [first] = asked(await world.say("Write", "coder"))
        deny = {"decision": "deny", "tool": "write_file"}
        await world.runtime.sessions.add_rule(world.ann, world.session, deny)
        events = await world.decide(first)

        assert world.read("a.txt") is None
        said = of(events, "tool_result")[0]["error"]
        assert "changed_since_approval" in said
        [stale] = [e for e in await world.audit("tool.stale") if e.details["call_id"] == first]
        assert (stale.subject, stale.details["reason"]) == ("write_file", said)
        assert of(events, "tool_call")[0]["metadata"]["decision"] == "deny"


async def test_a_call_that_was_asked_about_runs_although_a_rule_now_allows_others(make):
    async with make(TWICE) as world:
        [first] = asked(await world.say("Write", "coder"))
        await world.runtime.sessions.add_rule(world.ann, world.session, allow(command="ls"))
        await world.decide(first)
        assert world.read("a.txt") == "one\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (call("delete_file", path="a.txt"), "needs approval each time"),
        (run("git push"), "cannot be undone"),
        (run("touch b && cat a.txt"), "one simple command"),
        (run("cat /etc/hostname"), "no rule is enough"),
    ],
)
async def test_what_always_asks_is_never_approved_for_a_session(make, line, why):
    script = {"main/coder": [calls(line), says("Done")], "main/orchestrator": [says("Yes?")]}
    async with make(script) as world:
        (world.folder / "a.txt").write_text("x")
        [only] = asked(await world.say("Go", "coder"))
        with pytest.raises(InvalidMessage, match=why):
            await world.decide(only, for_session=True)
        assert len(await world.pending()) == 1
        assert await world.runtime.sessions.rules(world.ann, world.session) == []


async def test_only_an_approval_is_for_a_session(make):
    async with make(TWICE) as world:
        [first] = asked(await world.say("Write", "coder"))
        with pytest.raises(InvalidMessage, match="for_session"):
            await world.decide(first, "reject", for_session=True)


async def test_only_the_owner_or_an_admin_makes_rules_and_viewers_none(make):
    async with make(TWICE) as world:
        await world.say("Write", "coder")
        viewer = Principal(id=world.ann.id, name="ann", role=Role.VIEWER)
        rule = allow(command="ls")
        with pytest.raises(NotFound):
            await world.runtime.sessions.add_rule(BOB, world.session, rule)
        with pytest.raises(Forbidden):
            await world.runtime.sessions.add_rule(viewer, world.session, rule)
        with pytest.raises(Forbidden):
            await world.runtime.sessions.remove_rule(viewer, world.session, "session:1")
        with pytest.raises(InvalidMessage, match="can run any code"):
            await world.runtime.sessions.add_rule(world.ann, world.session, allow(command="bash"))
        with pytest.raises(InvalidMessage, match="colour"):
            await world.runtime.sessions.add_rule(
                world.ann, world.session, {**rule, "colour": "red"}
            )
        made = await world.runtime.sessions.add_rule(world.runtime.owner, world.session, rule)
        assert made.made_by == "local"


async def test_a_rule_about_a_tool_that_nobody_has_is_refused_since_it_would_deny_nothing(make):
    async with make(TWICE) as world:
        await world.say("Write", "coder")
        add = partial(world.runtime.sessions.add_rule, world.ann, world.session)
        for wrong in ("wite_file", "", "mcp__", "mcp__docs"):
            with pytest.raises(InvalidMessage, match=r"name one of these: .*write_file") as refused:
                await add({"decision": "deny", "tool": wrong})
            assert repr(wrong) in str(refused.value)
        for tool in ("write_file", "*", "mcp__docs__search"):
            made = await add({"decision": "deny", "tool": tool})
            assert made.rule["tool"] == tool


async def test_rules_survive_a_restart_and_end_with_the_session(make):
    async with make(TWICE) as world:
        await world.say("Write", "coder")
        await world.runtime.sessions.add_rule(world.ann, world.session, allow(command="ls"))
        await world.restart()
        assert len(await world.runtime.sessions.rules(world.ann, world.session)) == 1
        await world.runtime.sessions.delete(world.ann, world.session)
        with pytest.raises(NotFound):
            await world.runtime.sessions.rules(world.ann, world.session)


SAY = "touch one.txt"
SCOPE = {"tools": ["execute_command"], "commands": ["make check"]}
PLANNED = {
    "main/architect": [plan(step("a", scope=SCOPE), step("b", "a", scope=SCOPE))],
    "a": [calls(run(SAY)), says("a")],
    "b": [calls(run(SAY)), calls(run(f"{SAY} two.txt")), says("b")],
    "main/coder": [calls(run(SAY)), says("Done")],
    "main/orchestrator": [says("Yes?")],
}  # fmt: skip


async def test_words_that_are_allowed_a_plan_run_in_that_plan_and_nowhere_else(make):
    async with make(PLANNED) as world:
        await world.decide_plan(await world.propose())
        [first] = await world.pending()
        assert first.details["words_for_plan"] == SAY
        await world.decide(first.call_id, for_plan=True)

        [other] = await world.pending()
        assert other.arguments["command"] == f"{SAY} two.txt"
        assert (await world.audit("tool.allowed"))[-1].details["rule"] == "session:1"
        [rule] = await world.runtime.sessions.rules(world.ann, world.session)
        assert rule.rule == allow(tool="execute_command", agent="coder", command=SAY, exact=True)
        assert rule.plan_id == first.plan_id
        [made] = await world.audit("rule.made")
        assert made.details["plan_id"] == first.plan_id
        [decided] = await world.audit("tool.approved")
        assert decided.details["decision"]["for_plan"] is True
        await world.decide(other.call_id, "reject")
        assert len(asked(await world.say("Go", "coder"))) == 1


async def test_words_that_a_plan_was_allowed_ask_again_once_that_is_taken_back(make):
    lines = [calls(run(SAY)), calls(run(f"{SAY} two.txt")), calls(run(SAY)), says("b")]
    async with make(PLANNED | {"b": lines}) as world:
        await world.decide_plan(await world.propose())
        [first] = await world.pending()
        with pytest.raises(InvalidMessage, match="for_session, for_plan: give only one of them"):
            await world.decide(first.call_id, for_plan=True, for_session=True)
        await world.decide(first.call_id, for_plan=True)
        [other] = await world.pending()
        await world.runtime.sessions.remove_rule(world.ann, world.session, "session:1")
        await world.decide(other.call_id)
        assert [each.arguments["command"] for each in await world.pending()] == [SAY]


async def test_a_call_of_no_plan_is_allowed_no_plan(make):
    async with make(PLANNED) as world:
        [only] = asked(await world.say("Go", "coder"))
        [question] = await world.pending()
        assert "words_for_plan" not in question.details
        with pytest.raises(InvalidMessage, match="belongs to no plan"):
            await world.decide(only, for_plan=True)


@pytest.mark.parametrize(
    "command",
    ["git push", "touch b && cat a.txt", "cat /etc/hostname", "rm a.txt"],
)
async def test_a_plan_is_never_offered_words_that_always_ask(make, command):
    lines = {
        "main/architect": [plan(step("a"))], "a": [calls(run(command)), says("a")],
        "main/orchestrator": [says("Yes?")],
    }  # fmt: skip
    async with make(lines) as world:
        await world.decide_plan(await world.propose())
        [question] = await world.pending()
        assert "words_for_plan" not in question.details
        with pytest.raises(InvalidMessage, match="for_plan"):
            await world.decide(question.call_id, for_plan=True)
        assert await world.runtime.sessions.rules(world.ann, world.session) == []
