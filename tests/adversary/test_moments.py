"""What was shown is what runs: files and folders that are changed between a question, its answer
and the run, by whoever it may be."""

import os
import threading

import pytest

from adversary.ground import MARK
from fakes.until import LIMIT, time_passes
from fakes.world import a_while, call, calls, is_running, of, plan, run, says, step, write
from gonogo.workspace.files.safe_open import exchange

INSIDE = "inside\n"
CHANGES = (
    write("d/deep.txt", MARK), write("d/new.txt", MARK),
    call("edit_file", path="d/deep.txt", old="inside", new=MARK),
    call("apply_patch", patch="--- a/d/deep.txt\n+++ b/d/deep.txt\n@@ -1 +1 @@\n-inside\n+x\n"),
    call("move_file", source="d/deep.txt", destination="d/moved.txt"),
    call("move_file", source="app.py", destination="d/app.py"),
    call("delete_file", path="d/deep.txt"), call("create_directory", path="d/sub"),
    run(f"touch {MARK}", cwd="d"),
)  # fmt: skip


def swapped(ground):
    """The folder is a link that leads out, and what it held is beside it."""
    (ground.work / "d").rename(ground.work / "was")
    (ground.work / "d").symlink_to("../outside/folder")


@pytest.mark.feature(201)
async def test_a_folder_that_became_a_link_after_the_question_takes_nothing_out(make, ground):
    (ground.work / "d").mkdir()
    (ground.work / "d" / "deep.txt").write_text(INSIDE)
    async with make({"main/coder": [calls(*CHANGES), says("Well")]}) as world:
        await world.say("Go", "coder")
        questions = await world.pending()
        assert len(questions) == len(CHANGES)
        swapped(ground)
        ids = [question.call_id for question in questions]
        await world.ask({"type": "hitl_decision", "call_ids": ids, "decision": "approve"})

        ends = [event["metadata"]["status"] for event in of(await world.log(), "tool_result")]
        assert ends == ["failed"] * len(CHANGES)
        assert ground.changed_inside() == {"d", "was", "was/deep.txt"}
        assert (ground.work / "was" / "deep.txt").read_text() == INSIDE


@pytest.mark.feature(201)
async def test_what_a_sibling_rewrote_meanwhile_is_not_what_was_approved(make, ground):
    lines = {
        "main/architect": [plan(step("a"), step("b", approval_required=True))],
        "a": [calls(call("delete_file", path="notes.md")), says("Well")],
        "b": [calls(write("notes.md", "a sibling's\n")), says("Done")],
    }
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        asked = await world.until("approval_requested", kind="tool")
        starts = await world.until("approval_requested", kind="subtask")
        await world.send({
            "type": "hitl_decision", "approval_id": starts["metadata"]["approval_id"],
            "decision": "approve",
        })  # fmt: skip
        await world.until("tool_result", tool_name="write_file")
        await world.send(
            {"type": "hitl_decision", "call_id": asked["call_id"], "decision": "approve"}
        )
        ended = await world.until("tool_result", tool_name="delete_file")

        assert ended["error"].startswith("changed_since_approval: ")
        assert world.read("notes.md") == "a sibling's\n"
        await world.until("plan_completed")


@pytest.mark.feature(32)
async def test_a_subtask_may_not_do_what_only_another_ones_scope_names(make, ground):
    scopes = {
        "a": {"tools": ["write_file"], "paths": ["a/**"]},
        "b": {"tools": ["write_file", "execute_command"], "paths": ["b/**"],
              "commands": ["printf ok"]},
    }  # fmt: skip
    lines = {
        "main/architect": [plan(*(step(key, scope=scope) for key, scope in scopes.items()))],
        "a": [calls(write("b/x"), run("printf ok"), write("a/x")), says("Well")],
        "b": [calls(write("a/y"), run("printf no"), write("b/y")), says("Well")],
    }
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        await world.until("tool_result", subtask_id="a")
        await world.until("tool_result", subtask_id="b")
        await world.idle()

        asked = [(q.subtask_id, q.tool_name) for q in await world.pending()]
        both = ["write_file", "execute_command"]
        assert sorted(asked) == sorted((key, tool) for key in "ab" for tool in both)
        assert ground.changed_inside() == {"a", "a/x", "b", "b/y"}


async def test_no_write_of_a_grant_lands_outside_while_a_folder_is_swapped_all_the_time(
    make, ground
):
    (ground.work / "d").mkdir()
    (ground.work / "link").symlink_to("../outside/folder")
    writes = [write(f"d/f{n}.txt", MARK) for n in range(60)]
    lines = {"main/architect": [plan(step("a"))], "a": [calls(*writes), says("Well")]}
    stop = threading.Event()
    async with make(lines) as world:
        plan_id = await world.propose()
        swapper = threading.Thread(target=swap, args=(ground.work, stop))
        swapper.start()
        try:
            await world.decide_plan(plan_id)
        finally:
            stop.set()
            swapper.join()

        results = of(await world.log(), "tool_result", tool_name="write_file")
        assert len(results) == len(writes)
        assert {path.split("/")[0] for path in ground.changed_inside()} <= {"d", "link"}


def swap(folder, stop):
    """Have the folder `d` and the link `link` change places again and again."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not stop.wait(0.0002):
            assert exchange(descriptor, "d", "link")
        if (folder / "d").is_symlink():
            assert exchange(descriptor, "d", "link")
    finally:
        os.close(descriptor)


LATE = a_while()
SWAPS = f"""
(setsid sleep {LATE} &)
while :; do
  mv -T d e; ln -s ../outside/folder d; rm -f d; ln -s exit d; rm -f d; mv -T e d
  ln -f ../outside/secret.txt d/f1.txt; ln -sf ../../outside/secret.txt d/f2.txt
done 2>/dev/null
"""
"""Goes on until it is ended: folders become links and come back, files become links."""


@pytest.mark.feature(202)
@pytest.mark.parametrize("sandbox", [True, False], ids=["boxed", "bare"])
async def test_a_command_that_swaps_what_others_write_takes_no_write_out_and_ends(
    make, ground, sandbox
):
    (ground.work / "d").mkdir()
    writes = [write(f"d/f{n}.txt", MARK) for n in range(30)]
    # Where the command leaves them proves nothing.
    ground.by_hand = {f"d/f{n}.txt" for n in range(30)}
    reads = [call("read_file", path=f"d/f{n}.txt") for n in range(5)]
    lines = {
        "main/architect": [plan(step("a"))], "a": [calls(*writes, *reads), says("Well")],
        "main/coder": [calls(run(SWAPS, timeout=LIMIT)), says("Well")],
    }  # fmt: skip
    async with make(lines, sandbox=sandbox) as world:
        plan_id = await world.propose()
        other = (await world.runtime.sessions.open(world.ann)).session_id
        message = {"type": "user_message", "content": "Go", "agent_type": "coder"}
        await world.ask(message, session=other)
        [question] = await world.pending(other)
        await world.send(
            {"type": "hitl_decision", "call_id": question.call_id, "decision": "approve"},
            session=other,
        )
        await is_running(LATE)
        await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        await world.asked_model("a")
        time_passes(LIMIT)
        await world.until("plan_completed")
        ended = await world.until("tool_result", session=other, tool_name="execute_command")

        assert ended["result"]["timed_out"]
        await is_running(LATE, False)
        told = str(of(await world.log(), "tool_result"))
        assert "CANARY" not in told
        assert {path.split("/")[0] for path in ground.changed_inside()} <= {"d", "e"}
