"""Decisions, validations, and kinds that were installed: each has its runner and its result."""

import pytest

from fakes.world import call, calls, of, plan, says, step


def decide(choice="b", options=("a", "b")):
    return calls(
        call("give_decision", options=list(options), choice=choice, reasoning="It is simpler.")
    )


def judge(valid, *reasons):
    return calls(call("give_verdict", valid=valid, reasons=list(reasons) or ["seen"]))


def alone(key, *after, type_, **more):
    """A subtask without agent and tool."""
    return {
        "id": key, "description": f"Do {key}", "type": type_, "dependencies": list(after), **more,
    }  # fmt: skip


async def ended(make, lines, *subtasks, **set_):
    """Run a plan to its end. Gives its subtasks, the plan's status, and the world's model."""
    lines = {"main/architect": [plan(*subtasks)], **lines}
    async with make(lines, **set_) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        found = await world.runtime.plans.get(world.ann, plan_id)
        assert (await world.runtime.audit.verify(world.ann)).ok
        return {subtask.id: subtask for subtask in found.subtasks}, found.status, world


@pytest.mark.feature(93, 96)
async def test_a_model_alone_decides_and_others_depend_on_its_choice(make):
    found, _, world = await ended(
        make,
        {"pick": [decide("b")], "then": [says("done")]},
        alone("pick", type_="decision", inputs={"options": ["a", "b"]}),
        step("then", "pick", condition="subtasks.pick.output == 'b'"),
        step("other", "pick", condition="subtasks.pick.output == 'a'"),
    )

    result = found["pick"].result
    assert (result["status"], result["output"]) == ("completed", "b")
    assert result["metadata"]["options"] == ["a", "b"]
    assert result["metadata"]["reasoning"] == "It is simpler."
    assert (found["then"].status, found["other"].status) == ("completed", "skipped")
    [request] = world.model.asked("pick")
    assert [tool.name for tool in request.tools] == ["give_decision"]
    assert request.agent == "model"


@pytest.mark.feature(96)
async def test_an_action_with_neither_agent_nor_tool_is_what_a_model_alone_says(make):
    found, status, world = await ended(
        make,
        {"name": [says("Call it Tally.")], "use": [says("used")]},
        {"id": "name", "description": "Find a name", "scope": {"paths": ["a.txt"]}},
        step("use", "name"),
    )

    assert status == "completed"
    assert found["name"].result["output"] == "Call it Tally."
    assert found["name"].result["metadata"] == {"agent": "model"}
    [request] = world.model.asked("name")
    assert [tool.name for tool in request.tools] == ["attempt_completion"]
    assert "Call it Tally." in world.model.asked("use")[0].messages[0].content


async def test_a_model_alone_may_say_that_it_could_not(make):
    refusal = calls(call("attempt_completion", result="I know too little.", success=False))
    found, status, _ = await ended(make, {"a": [refusal]}, alone("a", type_="action"))

    assert (found["a"].status, status) == ("failed", "failed")
    assert found["a"].error["message"] == "I know too little."


async def test_a_choice_that_is_no_option_is_refused_and_may_be_corrected(make):
    found, _, world = await ended(
        make,
        {"pick": [decide("z"), decide("c", "abc"), decide("a")]},
        alone("pick", type_="decision", inputs={"options": ["a", "b"]}),
    )

    assert found["pick"].result["output"] == "a"
    assert len(world.model.asked("pick")) == 3


async def test_an_agent_decides_with_its_tools_and_ends_by_the_decision(make):
    found, _, world = await ended(
        make,
        {"pick": [calls(call("list_files", path=".")), decide("a")]},
        step("pick", type="decision", agent="ask"),
    )

    assert found["pick"].result["metadata"]["agent"] == "ask"
    offered = {tool.name for tool in world.model.asked("pick")[0].tools}
    assert {"list_files", "give_decision"} <= offered
    assert "attempt_completion" not in offered


async def test_no_other_conversation_is_offered_a_decision(make):
    async with make({"main/ask": [decide(), says("well")]}) as world:
        events = await world.say("Decide", "ask")

        assert of(events, "tool_result")[0]["error"].startswith("unknown_tool")


@pytest.mark.parametrize("type_", ["decision", "validation"])
async def test_who_answers_in_plain_text_is_told_once_and_then_fails(make, type_):
    found, _, world = await ended(
        make, {"x": [says("I say b."), says("b, really.")]}, alone("x", type_=type_)
    )

    assert found["x"].status == "failed"
    assert found["x"].error["category"] == "validation"
    first, second = world.model.asked("x")
    assert (len(first.messages), len(second.messages)) == (1, 3)
    assert "`give_" in second.messages[-1].content


@pytest.mark.feature(93)
@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("agent", [None, "debug"])
async def test_a_verdict_that_does_not_hold_is_a_failure(make, valid, agent):
    check = alone("check", type_="validation") | ({"agent": agent} if agent else {})
    found, status, _ = await ended(
        make,
        {"check": [judge(valid, "two tests fail")], "b": [says("b")]},
        check,
        step("b", "check"),
    )

    if valid:
        assert found["check"].result["output"] == {"valid": True, "reasons": ["two tests fail"]}
        assert status == "completed"
    else:
        assert found["check"].error["severity"] == "high"
        assert found["check"].error["category"] == "validation"
        assert "two tests fail" in found["check"].error["message"]
        assert (found["b"].status, status) == ("skipped", "failed")


@pytest.mark.parametrize(
    ("inputs", "category"),
    [
        ({"command": "ls here.txt"}, None),
        ({"command": "ls gone.txt", "exit_code": 2}, None),
        ({"command": "ls sub.txt", "cwd": "sub", "timeout": 30, "exit_code": 0}, None),
        ({"command": "ls gone.txt"}, "validation"),
        ({"command": "ls here.txt", "exit_code": 1}, "validation"),
        ({"file": "here.txt"}, None),
        ({"file": "here.txt", "contains": "some"}, None),
        ({"file": "here.txt", "contains": "none"}, "validation"),
        ({"file": "here.txt", "exists": False}, "validation"),
        ({"file": "gone.txt", "exists": False}, None),
        ({"file": "gone.txt"}, "validation"),
        ({"file": "../gone.txt", "exists": False}, "policy"),
    ],
)
async def test_a_command_or_a_file_is_checked_through_the_gate(make, inputs, category, tmp_path):
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "here.txt").write_text("something\n")
    (tmp_path / "work" / "sub").mkdir()
    (tmp_path / "work" / "sub" / "sub.txt").touch()
    scope = {"commands": ["ls"]} if "command" in inputs else None
    check = alone("check", type_="validation", inputs=inputs, scope=scope)
    found, _, world = await ended(make, {}, check)

    error = found["check"].error or {}
    assert error.get("category") == category, error
    if category is None:
        assert found["check"].result["output"]["valid"] is True
        looked = found["check"].result["metadata"]
        assert looked["tool"] == ("execute_command" if "command" in inputs else "read_file")
        assert evidence(looked["result"]) == seen(inputs)
    assert world.model.asked("check") == []


def evidence(result):
    """What a check saw, as its result keeps it."""
    return result and result.get("exit_code", result.get("content"))


def seen(inputs):
    """What there is to see for a check that holds."""
    if "command" in inputs:
        return inputs.get("exit_code", 0)
    return "something\n" if inputs.get("exists", True) else None


async def test_a_command_of_a_validation_asks_like_any_other(make):
    check = alone("check", type_="validation", inputs={"command": "touch made.txt"})
    async with make({"main/architect": [plan(check)]}) as world:
        events = await world.decide_plan(await world.propose())

        assert events[-1]["type"] == "approval_requested"
        [question] = await world.pending()
        assert question.arguments == {"command": "touch made.txt"}
        assert world.read("made.txt") is None
        events = await world.decide(question.call_id)
        assert events[-1]["metadata"]["status"] == "completed"
        assert world.read("made.txt") == ""


@pytest.mark.parametrize(
    ("subtask", "said"),
    [
        (alone("a", type_="decision", tool="read_file"), "tool: not for the type 'decision'"),
        (alone("a", type_="decision", inputs={"options": ["one"]}), "inputs.options"),
        (alone("a", type_="validation", inputs={"command": 1}), "inputs.command"),
        (alone("a", type_="validation", inputs={"command": "a", "file": "b"}), "inputs.file"),
        (alone("a", type_="validation", inputs={"file": "b", "exit_code": 1}), "inputs.exit_code"),
        (alone("a", type_="wait", inputs={"seconds": 1}), "type: there is no type 'wait'"),
    ],
)
async def test_a_kind_says_what_it_needs_when_the_plan_is_made(make, subtask, said):
    async with make({"main/architect": [plan(subtask), says("no")]}) as world:
        events = await world.say("Build it", "architect")

        [refused] = of(events, "tool_result", tool_name="create_plan")
        assert said in refused["error"]
