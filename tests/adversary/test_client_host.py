"""Tools that a client carries out: it is told to run only what the gate let through, and it answers
only for what it was told to run."""

import pytest

from adversary.test_tricks import WRITERS, missed, outcomes
from adversary.tricks import DECLARED, Trick
from fakes.world import call, calls, of, plan, run, says, step, write
from gonogo.domain.errors import Conflict, InvalidMessage, NotFound

GIT = "diff --git a/app.py b/.git/hooks/x\n"
OUT = (
    "../x", "/etc/passwd", "a/../../x", "..\\x", "C:\\x", "c:x", "~/.bashrc", "~root/x",
    "a\\..\\..\\x", "..\u2215x", "\u2024\u2024/x", "x\u202ey", "x\ny", "x\x7f", "", "d/" * 200,
)  # fmt: skip
KEPT = (
    ".git/config", ".GIT/hooks/x", "x/../.git/config", "./.git//config", ".gonogo/rules.toml",
    ".vscode/tasks.json", ".bashrc", ".git./config", ".git /config", "git~1/config",
)  # fmt: skip


def created(path):
    return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def uses(path):
    return {
        "written": write(path), "edited": call("edit_file", path=path, old="a", new="b"),
        "a folder": call("create_directory", path=path),
        "deleted": call("delete_file", path=path),
        "moved to": call("move_file", source="a", destination=path),
        "moved from": call("move_file", source=path, destination="a"),
        "patched": call("apply_patch", patch=created(path)),
    }  # fmt: skip


REFUSED = ("bad_path", "path_outside_workspace", "not_a_regular_file", "invalid_arguments",
           "policy_denied")  # fmt: skip
TRICKS = (
    *(Trick(f"{path!r:.30} {how}", it, REFUSED) for path in (*OUT, *KEPT)
      for how, it in uses(path).items()),
    *(Trick(f"{path!r:.30} {how}", it, REFUSED) for path in OUT if path
      for how, it in {
          "read": call("read_file", path=path), "listed": call("list_files", path=path),
          "searched": call("search_in_code", pattern="x", path=path),
          "worked in": run(DECLARED, cwd=path),
      }.items()),
    Trick("a glob that climbs", call("search_in_code", pattern="x", glob="../**"), REFUSED),
    Trick("an absolute glob", call("search_in_code", pattern="x", glob="/etc/*"), REFUSED),
    Trick("renamed into git", call(
        "apply_patch", patch=f"{GIT}rename from app.py\nrename to .git/hooks/x\n"), REFUSED),
    Trick("copied into git", call(
        "apply_patch", patch=f"{GIT}copy from app.py\ncopy to .git/hooks/x\n"), REFUSED),
    Trick("a link into git", call("apply_patch", patch=(
        f"diff --git a/l b/l\nnew file mode 120000\n{created('l')}")), REFUSED),
    Trick("a quoted name", call("apply_patch", patch=(
        '--- /dev/null\n+++ "b/.git/hooks/x"\n@@ -0,0 +1 @@\n+x\n')), REFUSED),
    Trick("a name by octals", call("apply_patch", patch=(
        '--- /dev/null\n+++ "b/\\056git/hooks/x"\n@@ -0,0 +1 @@\n+x\n')), REFUSED),
    Trick("a binary", call("apply_patch", patch=(
        "diff --git a/.git/x b/.git/x\nGIT binary patch\nliteral 0\n\n")), REFUSED),
    Trick("a patch that is none", call(
        "apply_patch", patch="*** Update File: .git/config\n"), REFUSED),
    Trick("two files", call(
        "apply_patch", patch=created("fine") + created(".git/hooks/x")), REFUSED),
    Trick("a secret", call("read_file", path=".env"), ("asks",)),
    Trick("instructions", write("AGENTS.md"), ("asks",)),
    Trick("instructions in a patch", call("apply_patch", patch=created("AGENTS.md")), ("asks",)),
    Trick("a deletion", call("delete_file", path="a"), ("asks",)),
    Trick("another command", run("touch pwned"), ("asks",)),
    Trick("more than the command", run(f"{DECLARED}; touch pwned"), ("asks",)),
)  # fmt: skip


async def opened(world):
    """Open a session whose tools the client carries out."""
    world.session = (await world.runtime.sessions.open(world.ann, tool_host="client")).session_id


def result(call_id, value="forged"):
    return {"type": "tool_result", "call_id": call_id, "result": value}


@pytest.mark.feature(202)
async def test_a_client_is_told_to_run_no_trick_whatever_its_system(make):
    scope = {"tools": WRITERS, "paths": ["**"], "commands": [DECLARED]}
    lines = {
        "main/architect": [plan(step("a", scope=scope))],
        "a": [calls(*(t.call for t in TRICKS)), says("Well")],
    }
    async with make(lines) as world:
        await opened(world)
        await world.decide_plan(await world.propose())

        assert missed(TRICKS, await outcomes(world, "a")) == {}
        told = of(await world.log(), "tool_call", requires_approval=False)
        assert [event["tool_name"] for event in told if event.get("subtask_id")] == []


@pytest.mark.feature(76)
async def test_a_client_answers_for_no_call_but_those_it_was_told_to_run(make):
    lines = {
        "main/coder": [calls(write("a"), call("read_file", path="b"), write(".git/x")), says("Ok")],
        "main/orchestrator": [calls(call("ask_followup_question", question="Which?"))],
    }
    async with make(lines) as world:
        await opened(world)
        await world.send({"type": "user_message", "content": "Go", "agent_type": "coder"})
        await world.until("approval_requested")
        log = await world.log()
        ids = {event["tool_name"]: event["call_id"] for event in of(log, "tool_call")}
        denied = of(log, "tool_result")[0]["call_id"]
        [question] = await world.pending()
        other = await world.runtime.sessions.open(world.ann, tool_host="client")
        for call_id, refusal in (
            (question.call_id, Conflict), (denied, Conflict), ("call_none", NotFound),
            (question.approval_id, NotFound), (question.call_id.upper(), NotFound),
            (f" {question.call_id}", InvalidMessage), (world.session, NotFound),
        ):  # fmt: skip
            with pytest.raises(refusal):
                await world.ask(result(call_id))
        with pytest.raises(NotFound):
            await world.ask(result(ids["read_file"]), session=other.session_id)
        assert await world.log() == log

        await world.ask(result(ids["read_file"], "read"))
        with pytest.raises(Conflict):
            await world.ask(result(ids["read_file"]))
        assert [a.call_id for a in await world.pending()] == [question.call_id]
        await world.ask({"type": "cancel"})


async def test_a_client_does_not_answer_what_an_agent_asks_of_the_runtime(make):
    lines = {
        "main/architect": [
            calls(call("create_plan", goal="g", subtasks=[step("a")]), call("execute_plan")),
        ],
        "a": [calls(call("ask_followup_question", question="May I?")), says("Well")],
    }
    async with make(lines) as world:
        await opened(world)
        await world.say("Go", "architect")
        for event in of(await world.log(), "tool_call", tool_class="control"):
            with pytest.raises(Conflict):
                await world.ask(result(event["call_id"], {"status": "approved"}))
        [question] = await world.pending()

        assert question.kind == "plan"
        await world.send(
            {"type": "plan_decision", "plan_id": question.plan_id, "decision": "approve"}
        )
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        for event in of(await world.log(), "tool_call", tool_class="control"):
            with pytest.raises(Conflict):
                await world.ask(result(event["call_id"], {"answer": "yes"}))
