"""create_plan and execute_plan: what a model is told, and what it cannot do."""

from contextlib import suppress

import pytest

from fakes.world import call, calls, of, plan, run, says, step, write
from gonogo.domain.errors import Conflict, NotFound


def offered(profile):
    """What a model is told of an agent's tools where there are no skills: long results as well."""
    return {*profile.tools, "read_output"} - {"read_skill"}


def architect(*lines, **threads):
    """A script of the architect, with those of subtasks."""
    return {"main/architect": list(lines), "main/orchestrator": [says("Yes?")], **threads}


def told(world, thread="main"):
    """What the model was told last, of its tools."""
    request = world.model.asked(thread)[-1]
    return [m.content for m in request.messages if m.role == "tool"]


@pytest.mark.feature(41, 49)
async def test_create_plan_stores_the_plan_and_answers(make):
    async with make(architect(plan(step("a"), step("b")))) as world:
        events = await world.say("Build it", "architect")

        [result] = of(events, "tool_result")
        assert result["tool_name"] == "create_plan"
        plan_id = events[-1]["metadata"]["plan_id"]
        assert set(result["result"]) == {
            "plan_id", "status", "goal", "subtasks_count", "message",
        }  # fmt: skip
        assert result["result"]["plan_id"] == plan_id
        assert result["result"]["status"] == "awaiting_approval"
        assert result["result"]["subtasks_count"] == 2
        [called] = of(events, "tool_call")
        assert called["call_id"] == result["call_id"]
        assert called["requires_approval"] is False


@pytest.mark.feature(42, 57)
@pytest.mark.parametrize(
    ("subtasks", "error"),
    [
        ([{"agent": "coder"}], "description"),
        ([{"description": "x", "agent": "coder", "tool": "read_file"}], "both an agent and a tool"),
        ([step("a", agent="architect")], "cannot carry out subtasks"),
        ([step("a", agent="orchestrator")], "cannot carry out subtasks"),
        ([step("a", agent="wizard")], "no agent 'wizard'"),
        ([step("a", "ghost")], "unknown 'ghost'"),
        ([step("a"), {"description": "x", "agent": "coder", "dependencies": [2]}], "index 2"),
        ([{"description": "x", "agent": "coder", "dependencies": [True]}], "id or an index"),
        ([step("a", "a")], "depends on itself"),
        ([step("a", "c"), step("b", "a"), step("c", "b")], "cycle: "),
    ],
)
async def test_a_plan_with_a_defect_is_told_to_the_model_and_not_stored(make, subtasks, error):
    lines = architect(plan(*subtasks), plan(step("good")))
    async with make(lines) as world:
        events = await world.say("Build it", "architect")

        first, second = of(events, "tool_result")
        assert first["error"].startswith("invalid_plan: ")
        assert error in first["error"]
        assert told(world) == [first["error"]]
        assert "error" not in second
        assert (await world.runtime.plans.page(world.ann)).total == 1
        assert events[-1]["type"] == "plan_notification"


@pytest.mark.feature(43, 44, 52)
async def test_times_are_five_minutes_and_indices_become_ids(make):
    subtasks = [
        {"description": "First", "agent": "coder"},
        {"description": "Second", "agent": "coder", "dependencies": [0]},
    ]
    lines = architect(plan(*subtasks), subtask_1=[says("1")], subtask_2=[says("2")])
    async with make(lines) as world:
        plan_id = await world.propose()
        found = await world.runtime.plans.get(world.ann, plan_id)

        assert [s.estimated_time for s in found.subtasks] == ["5 min", "5 min"]
        assert [s.dependencies for s in found.subtasks] == [[], ["subtask_1"]]
        events = await world.decide_plan(plan_id)
        order = [(e["type"], e["subtask_id"]) for e in events if e["type"].startswith("subtask_")]
        assert order == [
            ("subtask_started", "subtask_1"), ("subtask_completed", "subtask_1"),
            ("subtask_started", "subtask_2"), ("subtask_completed", "subtask_2"),
        ]  # fmt: skip


@pytest.mark.feature(46, 47, 89, 202)
async def test_execute_plan_on_an_undecided_plan_opens_no_second_question(make):
    lines = architect(
        calls(
            call("create_plan", goal="g", subtasks=[step("a")]), call("execute_plan"),
        ),
        a=[says("done")],
    )  # fmt: skip
    async with make(lines) as world:
        events = await world.say("Build it and run it", "architect")
        await world.idle()

        results = of(events, "tool_result")
        assert [r["tool_name"] for r in results] == ["create_plan", "execute_plan"]
        assert "must be approved" in results[1]["error"]
        assert len(await world.pending()) == 1
        assert events[-1]["type"] == "plan_notification"
        assert (await world.runtime.plans.page(world.ann)).plans[0].status == "awaiting_approval"
        assert not of(await world.log(), "subtask_started")


@pytest.mark.feature(47, 207)
async def test_a_held_plan_is_started_by_a_model_that_asks_for_its_result(make):
    lines = architect(
        plan(step("a")), calls(call("execute_plan")), says("It is done"), a=[says("out of a")]
    )
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, "hold")
        events = await world.say("Run it now", "architect")

        assert events[-1]["content"] == "It is done"
        [result] = of(events, "tool_result")
        assert result["result"]["status"] == "completed"


@pytest.mark.feature(45, 56)
async def test_execute_plan_gives_the_result_of_each_subtask(make):
    lines = architect(
        plan(step("good"), step("bad"), step("after", "bad")),
        calls(call("execute_plan")),
        says("As you see"),
        good=[says("well")],
    )
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, "hold")
        events = await world.say("Run it now", "architect")

        result = of(events, "tool_result")[0]["result"]
        assert (result["total"], result["completed"], result["failed"], result["skipped"]) == (
            3, 1, 1, 1,
        )  # fmt: skip
        assert result["success_rate"] == 0.3333
        assert result["status"] == "partial"
        assert result["errors"] == [
            {"subtask_id": "bad", "message": result["subtasks"]["bad"]["error"]["message"]}
        ]
        assert result["duration_seconds"] > 0
        assert result["subtasks"]["good"]["result"]["output"] == "well"
        assert {k: v["status"] for k, v in result["subtasks"].items()} == {
            "good": "completed", "bad": "failed", "after": "skipped",
        }  # fmt: skip


@pytest.mark.feature(45)
async def test_execute_plan_on_a_plan_that_is_over_reports_it_again(make):
    lines = architect(plan(step("a")), a=[says("out")])
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        world.lines["main/architect"] += [
            calls(call("execute_plan", plan_id=plan_id), call("execute_plan", plan_id="plan_x")),
            says("It was"),
        ]
        world.model._lines = world.lines
        events = await world.say("And?", "architect")

        known, unknown = of(events, "tool_result")
        assert known["result"]["status"] == "completed"
        assert unknown["error"] == "not_found: No plan found with id=plan_x"
        assert len(of(await world.log(), "subtask_started")) == 1


@pytest.mark.feature(48)
async def test_a_plan_can_be_read_after_a_restart(make):
    async with make(architect(plan(step("a")))) as world:
        plan_id = await world.propose()
        before = await world.runtime.plans.get(world.ann, plan_id)
        await world.restart()

        assert await world.runtime.plans.get(world.ann, plan_id) == before


async def test_a_second_plan_is_refused_while_the_first_is_held(make):
    lines = architect(plan(step("a")), plan(step("b")), says("I see"), a=[says("done")])
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, "hold")
        events = await world.say("Another", "architect")

        assert of(events, "tool_result")[0]["error"].startswith("conflict: ")
        assert (await world.runtime.plans.page(world.ann)).total == 1
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert session.active_plan_id == plan_id


@pytest.mark.feature(40)
async def test_only_what_was_shown_runs(make):
    lines = architect(plan(step("a")), a=[says("done")], b=[calls(write("b"))])
    async with make(lines) as world:
        plan_id = await world.propose()
        shown = (await world.pending())[0].details["subtasks"]
        events = await world.decide_plan(plan_id)

        assert [e["subtask_id"] for e in of(events, "subtask_started")] == [s["id"] for s in shown]
        grants = await world.runtime.plans.grants(world.ann, world.session)
        assert [g.subtask_id for g in grants] == ["a"]


async def test_the_plan_shows_the_commands_that_it_allows(make):
    scope = {"commands": ["pytest -q"], "paths": ["src/**"]}
    async with make(architect(plan(step("a", scope=scope)))) as world:
        content = (await world.say("Build it", "architect"))[-1]["content"]

        assert "commands `pytest -q`" in content
        assert "files `src/**`" in content


@pytest.mark.feature(31, 38)
async def test_eight_subtasks_that_write_ask_nothing(make):
    names = [f"s{n}" for n in range(8)]
    scripts = {name: [calls(write(f"{name}.txt")), says("ok")] for name in names}
    async with make(architect(plan(*(step(n) for n in names)), **scripts)) as world:
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)

        assert events[-1]["content"] == (
            "Plan Execution Complete\n- Total: 8\n- Completed: 8\n- Failed: 0"
        )
        assert not of(events, "approval_requested")
        proposed, *entries = await world.audit("tool.allowed")
        assert (proposed.subject, proposed.details["rule"]) == ("create_plan", "default:control")
        assert len(entries) == 8
        for entry in entries:
            assert entry.details["source"] == "grant"
            assert f"auto-approved tool write_file, plan {plan_id}" in entry.details["reason"]


@pytest.mark.feature(35)
async def test_without_the_flag_every_tool_that_is_not_pure_asks(make):
    lines = architect(
        plan(step("a")), a=[calls(call("list_files"), write("a.txt")), says("ok")]
    )  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id, auto_approve_tools=False)

        assert events[-1]["type"] == "approval_requested"
        assert [e["tool_name"] for e in of(events, "tool_result")] == ["list_files"]
        assert await world.runtime.plans.grants(world.ann, world.session) == []
        found = await world.runtime.plans.get(world.ann, plan_id)
        assert found.auto_approve_tools is False
        [question] = await world.pending()
        events = await world.decide(question.call_id)
        assert events[-1]["type"] == "plan_completed"
        assert world.read("a.txt") == "made\n"


@pytest.mark.feature(36, 205)
async def test_a_scope_covers_what_it_names_and_a_question_names_the_subtask(make):
    scope = {"tools": ["write_file"], "paths": ["src/*.py"]}
    lines = architect(
        plan(step("a", scope=scope)),
        a=[calls(call("create_directory", path="src")), calls(write("src/a.py")),
           calls(write("b.py")), says("ok")],
    )  # fmt: skip
    async with make(lines) as world:
        (world.folder / "src").mkdir()
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)
        [question] = await world.pending()
        assert question.tool_name == "create_directory"
        events = await world.decide(question.call_id, "reject")

        assert events[-1]["type"] == "approval_requested"
        [question] = await world.pending()
        assert question.arguments["path"] == "b.py"
        assert "'a'" in question.reason
        assert question.subtask_id == "a"
        assert world.read("src/a.py") == "made\n"
        assert world.read("b.py") is None
        [grant] = await world.runtime.plans.grants(world.ann, world.session)
        assert (grant.plan_id, grant.revision, grant.status) == (plan_id, 1, "active")
        other = (await world.runtime.sessions.open(world.ann)).session_id
        assert await world.runtime.plans.grants(world.ann, other) == []
        assert grant.scope["paths"] == ["src/*.py"]


@pytest.mark.feature(36)
async def test_a_revoked_grant_allows_nothing_more(make):
    lines = architect(
        plan(step("a"), step("b", "a")), a=[says("ok")], b=[calls(write("b.txt")), says("ok")],
    )  # fmt: skip
    async with make(lines) as world:
        goes_on = world.model.hold("a")
        plan_id = await world.propose()
        receipt = await world.send(
            {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
        )
        grants = await world.runtime.plans.grants(world.ann, world.session)
        [of_b] = [g for g in grants if g.subtask_id == "b"]
        with pytest.raises(NotFound):
            await world.runtime.plans.revoke_grant(world.bob, of_b.grant_id)
        await world.runtime.plans.revoke_grant(world.ann, of_b.grant_id)
        with pytest.raises(Conflict, match="has already ended"):
            await world.runtime.plans.revoke_grant(world.ann, of_b.grant_id)
        goes_on.set()
        events = await world.answer(receipt)

        assert events[-1]["type"] == "approval_requested"
        statuses = {g.subtask_id: g.status for g in await world.runtime.plans.grants(world.ann)}
        assert statuses == {"a": "active", "b": "revoked"}
        assert len(await world.audit("grant.revoked")) == 1


@pytest.mark.feature(36)
async def test_what_was_revoked_is_not_granted_anew_by_trying_again(make):
    gives_up = calls(call("attempt_completion", result="No", success=False))
    lines = architect(plan(step("a")), a=[gives_up])
    async with make(lines) as world:
        goes_on = world.model.hold("a")
        plan_id = await world.begin()
        [grant] = await world.runtime.plans.grants(world.ann, world.session)
        await world.runtime.plans.revoke_grant(world.ann, grant.grant_id)
        goes_on.set()
        await world.until("plan_completed", status="failed")
        world.lines["a"] = world.model._lines["a"] = [calls(write("a.txt"))]
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "a")
        await world.until("approval_requested", kind="tool")

        assert await world.audit("plan.retried")
        found = await world.runtime.plans.grants(world.ann, world.session)
        assert [(each.revision, each.status) for each in found] == [(1, "revoked")]
        assert world.read("a.txt") is None


@pytest.mark.feature(37)
async def test_deleting_always_asks_and_a_command_asks_unless_it_was_declared(make):
    lines = architect(
        plan(
            step("delete", scope={"tools": ["delete_file", "execute_command"]}),
            step("run", scope={"commands": ["ls"]}),
        ),
        delete=[calls(call("delete_file", path="old.txt"), run("ls")), says("ok")],
        run=[calls(run("ls -a")), calls(run("touch new")), says("ok")],
    )  # fmt: skip
    async with make(lines) as world:
        (world.folder / "old.txt").write_text("old")
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)

        asked = of(events, "tool_call", requires_approval=True)
        shown = {(e["subtask_id"], e["tool_name"]) for e in asked}
        assert ("delete", "delete_file") in shown
        assert ("run", "execute_command") in shown
        commands = [e["arguments"].get("command") for e in asked]
        assert "ls -a" not in commands
        assert "touch new" in commands
        assert world.read("old.txt") == "old"
        assert world.read("new") is None


@pytest.mark.feature(54)
async def test_a_subtask_has_the_tools_of_its_agent_alone(make):
    lines = architect(
        plan(step("look", agent="debug")), look=[calls(write("x.txt")), says("I may not")]
    )
    async with make(lines) as world:
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)

        request = world.model.asked("look")[0]
        assert request.agent == "debug"
        profile = next(a for a in world.runtime.agents() if a.name == "debug")
        assert {tool.name for tool in request.tools} == offered(profile)
        assert "write_file" not in profile.tools
        assert of(events, "tool_result")[0]["error"].startswith("unknown_tool: ")
        assert world.read("x.txt") is None


@pytest.mark.feature(94)
async def test_an_agent_gets_its_subtasks_description_context_and_own_tools(make):
    ask = step("b", "a", agent="ask", inputs={"file": "${subtasks.a.output}"})
    lines = architect(plan(step("a"), ask), a=[says("notes.md")], b=[says("ok")])
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)

        [request] = world.model.asked("b")
        brief = request.messages[0].content
        assert request.agent == "ask"
        assert "Do b" in brief
        assert "Do a" in brief
        assert '"file": "notes.md"' in brief
        profile = next(a for a in world.runtime.agents() if a.name == "ask")
        assert {tool.name for tool in request.tools} == offered(profile)
        found = await world.runtime.plans.get(world.ann, plan_id)
        assert found.subtasks[1].result["metadata"] == {"agent": "ask"}


@pytest.mark.feature(55)
async def test_a_dependant_is_told_what_came_before(make):
    lines = architect(
        plan(step("a"), step("b", "a", agent="ask")), a=[says("The answer is 42")], b=[says("ok")]
    )
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)

        brief = world.model.asked("b")[0].messages[0].content
        assert "Do a" in brief
        assert "coder" in brief
        assert "The answer is 42" in brief
        assert "42" not in world.model.asked("a")[0].messages[0].content


async def test_a_model_that_waits_for_a_plan_shows_what_it_does_and_where_it_waits(make):
    lines = architect(
        plan(step("a")), calls(call("execute_plan")), says("It is done"),
        a=[calls(run("make it")), says("made")],
    )  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, "hold")
        events = await world.say("Run it now", "architect")

        assert of(events, "subtask_started")
        assert events[-1]["type"] == "approval_requested"
        assert [e for e in events if e.get("is_final")] == [events[-1]]
        [question] = await world.pending()
        events = await world.decide(question.call_id, "reject")
        assert events[-1]["type"] == "plan_completed"
        await world.until("assistant_message", content="It is done", is_final=True)


@pytest.mark.parametrize(("first", "last"), [("subtask", "tool_call"), ("model", "plan_progress")])
async def test_a_model_that_waits_for_a_paused_plan_ends_its_answer(make, first, last):
    lines = architect(
        plan(step("a")), calls(call("execute_plan")), says("It is done"), a=[says("made")],
    )  # fmt: skip
    async with make(lines) as world:
        model, subtask = world.model.hold("main", 2), world.model.hold("a")
        plan_id, receipt = await held_and_asked(world)
        await world.asked_model("main", 2)
        await world.runtime.plans.start(world.ann, plan_id)
        await world.runtime.plans.pause(world.ann, plan_id)
        if first == "model":
            model.set()
            await world.until("tool_call", tool_name="execute_plan")
            subtask.set()
        else:
            subtask.set()
            await world.until("subtask_completed")
            model.set()
        events = await world.answer(receipt)

        assert (events[-1]["type"], events[-1]["is_final"]) == (last, True)
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("assistant_message", content="It is done", is_final=True)


async def test_a_message_that_a_held_plan_overtakes_is_answered_after_it(make):
    lines = architect(plan(step("a")), says("I was asked"), a=[says("made")])
    async with make(lines) as world:
        plan_id, receipt = await held_and_asked(world)
        await world.runtime.plans.start(world.ann, plan_id)
        with suppress(Conflict):
            await world.runtime.plans.pause(world.ann, plan_id)
        events = await world.answer(receipt)
        assert events[-1]["is_final"] is True
        with suppress(Conflict):
            await world.runtime.plans.resume(world.ann, plan_id)

        await world.until("assistant_message", content="I was asked", is_final=True)


async def held_and_asked(world):
    """Have the plan approved and held, then say something more to the architect."""
    plan_id = await world.propose()
    await world.decide_plan(plan_id, "hold")
    message = {"type": "user_message", "content": "Run it", "agent_type": "architect"}
    return plan_id, await world.send(message)
