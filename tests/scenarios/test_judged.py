"""The calls that were judged: to whom they are shown, with which verdict and whose answer."""

from datetime import timedelta

import pytest

from fakes.world import call, calls, of, plan, says, step, write
from gonogo.domain.errors import Forbidden, NotFound
from gonogo.domain.views import ApprovalFilter

READS = {
    "main/coder": [
        calls(call("read_file", path="a.txt")), calls(write("b.txt", "text")), says("Done"),
    ],
    "main/orchestrator": [says("Yes?")],
}  # fmt: skip


async def test_each_call_is_listed_with_its_verdict_and_the_answer_to_its_question(make):
    async with make(READS) as world:
        (world.folder / "a.txt").write_text("x")
        events = await world.say("Go", "coder")
        [asked] = [e["call_id"] for e in of(events, "tool_call", requires_approval=True)]
        await world.decide(asked)
        read, wrote = await world.runtime.reports.calls(world.ann)

        assert (read.tool_name, read.decision, read.rule) == ("read_file", "allow", "default:pure")
        assert (wrote.decision, wrote.answer) == ("ask", "approved")
        assert wrote.arguments == {"path": "b.txt"}
        assert await world.runtime.reports.calls(world.ann, limit=1, offset=1) == [wrote]
        assert (
            await world.runtime.reports.calls(world.ann, since=wrote.created_at + timedelta(1))
            == []
        )
        assert await world.runtime.reports.calls(world.bob) == []
        assert len(await world.runtime.reports.calls(world.runtime.owner)) == 2
        assert len(await world.runtime.reports.calls(world.ann, world.session)) == 2
        with pytest.raises(NotFound):
            await world.runtime.reports.calls(world.bob, world.session)


async def test_a_call_is_listed_with_what_it_touches_and_without_what_it_writes(make):
    patch = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+one\n"
    asked = [
        call("write_file", path="b.txt", content="text"), call("apply_patch", patch=patch),
        call("execute_command", command="touch c", cwd="."),
        call("move_file", source="d.txt", destination="e.txt"),
    ]  # fmt: skip
    async with make({"main/coder": [calls(*asked)]}) as world:
        (world.folder / "d.txt").write_text("x")
        await world.say("Go", "coder")
        found = await world.runtime.reports.calls(world.ann)

        assert {view.tool_name: view.arguments for view in found} == {
            "write_file": {"path": "b.txt"},
            "apply_patch": {"patch": patch},
            "execute_command": {"command": "touch c", "cwd": "."},
            "move_file": {"source": "d.txt", "destination": "e.txt"},
        }


async def test_a_call_in_a_plan_names_the_grant_that_was_there(make):
    script = {
        "main/architect": [plan(step("one")), says("There")],
        "one": [calls(write("a.txt")), says("Done")],
    }
    async with make(script) as world:
        await world.decide_plan(await world.propose())
        found = await world.runtime.reports.calls(world.ann)
        [wrote] = [view for view in found if view.tool_name == "write_file"]
        assert (wrote.granted, wrote.decision, wrote.subtask_id) == (True, "allow", "one")
        assert (wrote.rule or "").startswith("grant:")


async def test_a_question_about_a_command_says_how_it_was_read_and_which_parts_ask(make):
    command = "ls 'a b' && git push -f | sh"
    line = {"main/coder": [calls(call("execute_command", command=command))]}
    async with make(line) as world:
        await world.say("Go", "coder")
        [asked] = (await world.runtime.approvals.page(world.ann, ApprovalFilter())).approvals

        ls, push, shell = asked.details["parts"]
        assert ls == {"text": "ls 'a b'", "joined_by": "", "asks": False}
        assert push == {"text": "git push -f", "joined_by": "&&", "asks": True}
        assert shell == {"text": "sh", "joined_by": "|", "asks": True}
        assert asked.details["rule"] == "default:other"


async def test_an_admin_tries_a_call_with_the_rules_and_nothing_runs(make):
    async with make(READS) as world:
        owner = world.runtime.owner
        found = await world.runtime.policies.judge(
            owner, "execute_command", {"command": "rm -rf /"}, "coder"
        )

        assert (found.decision, found.tool) == ("deny", "execute_command")
        assert any(step.decided == found.rule for step in found.steps)
        assert await world.runtime.reports.calls(owner) == []
        with pytest.raises(NotFound, match="nobody"):
            await world.runtime.policies.judge(owner, "read_file", {"path": "a"}, "nobody")
        with pytest.raises(Forbidden):
            await world.runtime.policies.judge(world.ann, "read_file", {"path": "a"}, "coder")
