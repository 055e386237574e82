"""A story is told whole: to clients, in the audit log, in each question, and to models.

Each is kept beside this file, a line for each thing told. `GONOGO_WRITE_GOLDEN=1` writes them anew
after a change that is meant.
"""

import json
from pathlib import Path

import pytest

from fakes.golden import kept
from fakes.whole import whole
from fakes.world import World, call, calls, is_running, plan, run, says, step, write
from gonogo.domain.errors import ModelFailed
from gonogo.workspace import Sandbox

FOLDER = Path(__file__).parent / "whole"
boxed = pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")


async def as_kept(world: World, name: str) -> None:
    """Compare what was told with the story of this name."""
    await world.idle()
    found = await whole(world)
    assert found == kept(FOLDER / f"{name}.txt", found)


async def answer(world: World, decision: str, subject: str = "", **more) -> None:
    """Answer the one open question, or the one with that subject, and wait for what follows."""
    found = [each for each in await world.pending() if subject in each.subject]
    named = {"approval_id": found[0].approval_id}
    await world.ask({"type": "hitl_decision", **named, "decision": decision, **more})
    await world.idle()


async def test_a_turn_with_questions_and_answers(make):
    asks = call("ask_followup_question", question="Left or right?", suggestions=["left", "right"])
    ends = call("attempt_completion", result="Written and checked.")
    lines = {
        "main/orchestrator": [
            calls(call("switch_mode", mode="wizard")),
            calls(call("switch_mode", mode="coder", reason="it writes", confidence="0.9")),
        ],
        "main/coder": [
            calls(call("read_file", path="here.txt"), call("read_file"), text="I look first."),
            calls(write("a.txt"), write("b.txt", "b\n")),
            calls(asks),
            calls(write("c.txt"), write("../out.txt"), call("create_plan", goal="g")),
            calls(write("c.txt", "more\n")),
            calls(ends, call("list_files")),
        ],
    }
    async with make(lines, approval_expiry_tool=3600) as world:
        (world.folder / "here.txt").write_text("here\n")
        await world.say("Write them")
        changed = {"path": "a.txt", "content": "changed\n"}
        await answer(world, "edit", modified_arguments=changed, feedback="another text")
        await answer(world, "reject", feedback="not this one")
        await world.say("Left")
        await answer(world, "approve", for_session=True)

        await as_kept(world, "turn")
        assert world.read("a.txt") == "changed\n"


@boxed
async def test_turns_that_come_to_no_end(make):
    def away(request):
        raise ModelFailed("The provider does not know the model", http_status=404)

    lines = {
        "main/coder": [calls(run("touch a; git push", cwd="."), write("b.txt"))],
        "main/ask": [away],
        "main/debug": [calls(write("a.txt")), says("I may not.")],
        "main/orchestrator": [says("", delay=0)] * 3,
    }
    async with make(lines, locale="ru") as world:
        await world.say("Сделай", "coder")
        await world.ask({"type": "user_message", "content": "И ещё", "agent_type": "debug"})
        await world.ask({"type": "cancel", "reason": "передумала"})
        await world.idle()
        await world.say("Что это?", "ask")
        await world.say("Hm")

        await as_kept(world, "turns-without-an-end")


@boxed
async def test_a_plan_from_its_proposal_to_its_end(make):
    known: list[str] = []
    first = step("look", scope={"commands": ["ls"]}, estimated_time="5 min")
    choose = {
        "id": "choose", "description": "Choose one", "type": "decision", "dependencies": ["look"],
        "inputs": {"options": ["x", "y"]},
    }  # fmt: skip
    build = step("build", "choose", agent="universal", scope={"paths": ["out/**"]},
                 inputs={"which": "${subtasks.choose.output}"},
                 done_when=[{"file_exists": "out/x"}, {"ask": "Is it x?"}])  # fmt: skip
    skipped = step("never", "choose", condition="subtasks.choose.output == 'y'")
    careful = step("careful", "build", approval_required=True)
    lines = {
        "main/architect": [
            plan(first, choose, goal="A file"),
            lambda request: calls(call("execute_plan", plan_id=known[0])), says("All is there."),
        ],
        "main/orchestrator": [says("Yes?")],
        "look": [calls(run("ls"), call("list_files")), says("There is nothing.")],
        "choose": [calls(call("give_decision", options=["x", "y"], choice="z", reasoning="z")),
                   calls(call("give_decision", options=["x", "y"], choice="x", reasoning="short"))],
        "build": [calls(write("out/y")), says("Done."), calls(write("out/x"), write("away.txt")),
                  says("Now it is.")],
        "build/checks/2/2": [calls(call("give_verdict", valid=True, reasons=["It says x."]))],
        "careful": [calls(call("attempt_completion", result="Careful."))],
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        known.append(plan_id)
        edited = [first, choose, build, skipped, careful]
        await world.decide_plan(
            plan_id, "edit", modified_subtasks=edited, feedback="more of it", start=True
        )
        while await world.pending():
            await answer(world, "reject" if (await world.pending())[0].call_id else "approve")
        await world.say("Report", "architect")

        await as_kept(world, "plan")


async def test_a_plan_in_russian_that_is_held_started_and_expires(make):
    lines = {
        "main/architect": [plan(step("a")), plan(step("b"), goal="Другое"), plan(step("c"))],
        "main/orchestrator": [says("Да?")], "a": [says("сделано")],
    }  # fmt: skip
    async with make(lines, locale="ru", approval_expiry_plan=3600) as world:
        held = await world.propose("Сделай")
        await world.decide_plan(held, "hold")
        await world.runtime.plans.start(world.ann, held)
        await world.until("plan_completed")
        await world.decide_plan(await world.propose("Ещё"), "reject", feedback="не так")
        await world.propose("И ещё")
        await world.later(3601)
        await world.until("agent_switched", reason="the plan expired")
        await world.say("Ты тут?")

        await as_kept(world, "held-rejected-expired")


async def test_attempts_that_fail_and_what_people_do_about_it(make):
    again = {"max_attempts": 2, "delay": 0, "on": ["network"]}
    lost = calls(call("attempt_completion", result="network unreachable", success=False))
    stop = calls(call("attempt_completion", result="I cannot do that", success=False))
    tries = [calls(call("attempt_completion", result="it is there")), lost]
    ask = calls(call("ask_followup_question", question="Which one?", suggestions=["a"]))
    lines = {
        "main/architect": [plan(
            step("flaky", retry_policy=again), step("bad"), step("after", "bad", "flaky"),
            step("asks", "after"), step("last", "asks"), step("gone", "asks"), goal="All of it",
        )],
        "main/orchestrator": [says("Yes?")],
        "flaky": [lambda request: tries.pop()],
        "bad": [stop], "after": [says("after")],
        "asks": [ask, calls(call("switch_mode", mode="ask")), says("The first one.")],
        "last": [says("last")],
    }  # fmt: skip
    async with make(lines, max_parallel=1) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        world.lines["bad"] = [says("mended")]
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "bad")
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        await world.runtime.plans.steer_subtask(world.ann, plan_id, "asks", "Mind the first one.")
        await world.runtime.plans.skip_subtask(world.ann, plan_id, "last")
        await world.runtime.plans.cancel_subtask(world.ann, plan_id, "gone")
        await answer(world, "approve", feedback="the first")
        await world.say("How was it?")

        await as_kept(world, "attempts")


async def test_comments_and_their_answers(make):
    def answers(request):
        comments = request.messages[0].content.rpartition("you are to answer:\n")[2]
        told = [{"comment_id": each["comment_id"], "answer": "It is gone"}
                for each in json.loads(comments.partition("\n")[0])]  # fmt: skip
        return calls(call("create_plan", goal="g", subtasks=[step("a")], answers=told))

    lines = {
        "main/architect": [plan(step("a"), step("b", "a"))], "main/orchestrator": [says("Yes?")],
        "revise-1": [plan(step("a")), answers], "revise-2": [says("I leave it as it is.")],
        "a": [says("a")],
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.runtime.plans.comment(world.ann, plan_id, "Is b needed?", "b", 1)
        await world.runtime.plans.revise(world.ann, plan_id)
        await world.until("plan_notification", revision=2)
        await world.runtime.plans.comment(world.ann, plan_id, "And a?")
        await world.runtime.plans.revise(world.ann, plan_id)
        await world.until("plan_not_revised")
        await world.decide_plan(plan_id, revision=2)

        await as_kept(world, "comments")


async def test_a_plan_that_is_replanned_and_asked_about_first(make):
    lost = calls(call("attempt_completion", result="Agent x not found", success=False))
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"), step("c", "b"))],
        "main/orchestrator": [says("Yes?")],
        "a": [says("built")], "b": [lost], "d": [lost], "e": [says("e")],
        "replan-1": [plan(step("b", "a")), plan(step("d", "a"))],
        "replan-2": [says("There is no other way.")],
    }  # fmt: skip
    async with make(lines, replanning_human_after=1, replanning_min_interval=0) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.decide_plan(plan_id, revision=2)
        await world.idle()
        await answer(world, "approve")

        await as_kept(world, "replanned")


async def test_a_budget_that_is_spent_and_given_anew(make):
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"))], "main/orchestrator": [says("Yes?")],
        "a": [calls(write("a.txt")), says("a")], "b": [calls(write("b.txt")), says("b")],
    }  # fmt: skip
    async with make(lines, budget_plan_requests=1) as world:
        await world.begin()
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        await answer(world, "edit", modified_arguments={"result": {"requests": 3}})
        await answer(world, "reject", feedback="enough")

        await as_kept(world, "budget")


async def test_a_model_that_is_away(make):
    def away(request):
        raise ModelFailed("Overloaded", http_status=529, transient=True)

    lines = {
        "main/architect": [plan(step("a"))], "main/ask": [away, away, says("It is back.")],
        "main/orchestrator": [says("Yes?")], "a": [away],
    }  # fmt: skip
    async with make(lines, model_patience=60) as world:
        await world.send({"type": "user_message", "content": "Hi", "agent_type": "ask"})
        await world.until("model_away")
        await world.idle()
        world.lines["main/ask"] = [says("It is back.")]
        await world.later(61)
        await world.until("assistant_message", content="It is back.")
        await world.begin()
        await world.until("plan_paused")
        await world.idle()
        await world.later(61)
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        await answer(world, "reject", feedback="enough")

        await as_kept(world, "model-away")


@boxed
async def test_files_that_are_put_back(make):
    lines = {
        "main/architect": [plan(
            step("a", scope={"paths": ["**"], "commands": ["touch"]}), step("b", "a"), step("c"),
        )],
        "main/orchestrator": [says("Yes?")],
        "a": [calls(write("a.txt", "by a\n"), write("deep/er/a.txt"), run("touch made")),
              says("a")],
        "b": [calls(write("a.txt", "by b\n"), write("b.txt")), says("b")],
        "c": [calls(write("c.txt")), says("c")],
    }  # fmt: skip
    async with make(lines, max_parallel=1) as world:
        (world.folder / "a.txt").write_text("mine\n")
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.idle()
        (world.folder / "b.txt").write_text("edited by a person\n")
        await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="b")
        await world.runtime.checkpoints.rollback(world.ann, plan_id, whole=True)

        await as_kept(world, "rollback")


@boxed
async def test_names_that_a_command_leaves_and_a_call_of_which_nobody_knows(make):
    does = "import os; os.makedirs('.git/hooks'); open('.envrc', 'w').close()"
    waits = (
        "import os, time\nif os.path.exists('go'): print('done')\n"
        "else: open('w', 'a').close(); time.sleep(99)"
    )
    scope = {"commands": ["python3 make.py", "python3 wait.py"]}
    lines = {
        "main/architect": [plan(step("a", scope=scope))], "main/orchestrator": [says("Yes?")],
        "a": [calls(run("python3 make.py")), calls(run("python3 wait.py")), says("a")],
    }  # fmt: skip
    async with make(lines) as world:
        (world.folder / "make.py").write_text(does)
        (world.folder / "wait.py").write_text(waits)
        await world.begin()
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        [asked] = await world.pending()
        refuse = {"type": "hitl_decision", "decision": "reject", "feedback": "take them away"}
        await world.send({**refuse, "approval_id": asked.approval_id})
        await is_running("wait.py")
        (world.folder / "go").touch()
        await world.restart()
        await world.idle()
        await answer(world, "approve")

        await as_kept(world, "left-and-lost")


async def test_what_an_architect_is_told_before_it_plans(make):
    def looks(request):
        found = [calls(call("read_file", path="a.txt"), write("b.txt")), says("In a.txt:1.")]
        silent = "Where is b?" in request.messages[0].content
        return says("") if silent else found[len(request.messages) > 1]

    asks = [calls(call("explore", questions=[f"Where is {name}?"])) for name in "ab"]
    lines = {
        "main/architect": [*asks, plan(step("a"))], "main/orchestrator": [says("Да?")],
        "explore-1": [looks] * 3,
    }  # fmt: skip
    async with make(lines, locale="ru") as world:
        (world.folder / "a.txt").write_text("a\n")
        (world.folder / "AGENTS.md").write_text("Use tabs.\n")
        (world.folder / "CLAUDE.md").write_text("Use tabs.\n")
        await world.propose("Сделай")

        await as_kept(world, "explored")


async def test_a_client_that_carries_out_the_tools(make):
    lines = {
        "main/coder": [
            calls(call("read_file", path="a.txt"), write("b.txt"), call("fly", path="a")),
            says("Read and written."),
        ],
        "main/orchestrator": [says("Yes?")],
    }  # fmt: skip
    async with make(lines) as world:
        world.session = (
            await world.runtime.sessions.open(world.ann, tool_host="client")
        ).session_id
        await world.send({"type": "user_message", "content": "Go", "agent_type": "coder"})
        called = await world.until("tool_call", tool_name="read_file")
        await world.idle()
        await world.send(
            {"type": "tool_result", "call_id": called["call_id"], "result": {"content": "mine"}}
        )
        await answer_remote(world)

        await as_kept(world, "client-tools")


async def answer_remote(world: World) -> None:
    """Approve the call that asks; its client never answers, and a person fails it."""
    await world.idle()
    [asked] = await world.pending()
    await world.send({"type": "hitl_decision", "call_id": asked.call_id, "decision": "approve"})
    await world.idle()
    await world.later(601)
    await world.until("approval_requested", kind="intervention")
    await world.idle()
    await answer(world, "reject", feedback="it was not written")
