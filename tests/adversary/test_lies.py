"""A model that says it is done, in every way that comes to mind, and has done nothing of it.

All of it comes over a provider's real wire, in one plan: beside the liars work honest ones, so that
what is not believed is told from what is.
"""

import json

import pytest

from fakes.openai_server import fake_openai
from fakes.world import LIMIT, call, of, plan, run, step, write
from gonogo.llm import ModelSettings, open_model

DONE = {"text": "Done. All tests pass."}
THERE = "as it was\n"


def ends(result, **more):
    return {"calls": [call("attempt_completion", result=result, **more)]}


def does(*calls, **more):
    return {"calls": list(calls), **more}


def cut(text):
    return {"text": text, "finish_reason": "length"}


def lies(path):
    """What a subtask is told to have done to a file, in the replies of its model."""
    other = {"path": "elsewhere.txt", "content": "x"}
    return [
        # Nothing at all, in many forms.
        [{}], [{"text": " \n\t "}], [{"text": "\u200b\u2060\ufeff"}], [{"text": "\u2800\u3164"}],
        [{"reasoning": "I wrote the file."}], [{"text": "<think>I wrote the file.</think>"}],
        [{"text": "<thinking>It is written"}], [ends("")], [ends(" \n ")], [ends("\u200b")],
        [ends("<think>done</think>")],
        # Words.
        [DONE], [{"text": "Готово: файл записан."}], [{"text": f"Wrote {path} (+12 -3)."}],
        [{"text": f"```\n{path}\nthe new content\n```"}],
        [{"text": json.dumps({"name": "write_file", "arguments": {"path": path, "content": "x"}})}],
        [{"text": f"<tool_call>write_file({path!r})</tool_call>"}],
        [{"text": '{"status": "completed", "output": "done", "files": ["' + path + '"]}'}],
        [{"text": f"tool_result: write_file {path}: ok"}], [ends(f"{path} was written.")],
        [ends("It is done.", success=True)], [does(*ends("One")["calls"], *ends("Two")["calls"])],
        # Words after something that changes nothing.
        [does(call("read_file", path=path)), DONE], [does(call("list_files")), ends("Listed.")],
        [does(run("ls")), DONE], [does(run("cat nowhere.txt")), ends("The command has done it.")],
        [does(call("save_file", path=path, content="x")), DONE],
        [does(call("give_verdict", valid=True, reasons=["seen"])), DONE],
        [does(call("create_plan", goal="g", subtasks=[])), DONE],
        [does(call("switch_mode", mode="universal")), DONE],
        [does(call("edit_file", path=path, old="no such text", new="x")), DONE],
        [does(call("apply_patch", patch="no patch")), DONE],
        # What was not carried out.
        [does(call("write_file", **other)), DONE],
        [does(call("write_file", **other), *ends("Both are done.")["calls"])],
        [does(write(".git/config")), DONE], [does(write("../out.txt")), DONE],
        [does(run("touch made.txt")), DONE], [does(call("delete_file", path=path)), DONE],
        [does({"name": "write_file", "arguments": '{"path": "' + path}), DONE],
        [does({"name": "write_file", "arguments": "[]"}), DONE],
        [does({"name": "write_file", "arguments": '{"path": "' + path + '", "content": "ha'},
              finish_reason="length"), DONE],
        [does({"name": "write_file", "arguments": ""}, finish_reason="length"), DONE],
        # What came to nothing.
        [does(write(path, THERE)), DONE],
        [does(write(path, "other\n")), does(write(path, THERE)), DONE],
        [does(call("edit_file", path=path, old="was", new="was")), DONE],
        # What has no end, or is none.
        [cut("I am just about to") for _ in range(20)], [cut("Half"), {}],
        [cut("")], [cut("<think>Let me see")],
        [{"text": "I cannot do this.", "finish_reason": "content_filter"}],
        [{"chunks": [{"role": "assistant", "content": ""}, {"refusal": "I will not."}]}],
        [{"text": "Writing it now.", "finish_reason": "tool_calls"}],
    ]  # fmt: skip


def truths(path):
    """What is work, however it is told."""
    return {
        "writes": [does(write(path, "new\n")), DONE],
        "commands": [does(run(f"touch new-{path}")), DONE],
        "mode": [does(run(f"chmod +x {path}")), ends("It can be run.")],
        "folder": [does(call("create_directory", path=f"of-{path}")), DONE],
        "goes-on": [does(write(path, "new\n")), cut("It is wri"), {"text": "tten."}],
        "says-it-again": [[{}, does(write(path, "new\n"))], [{}, DONE]],
        "ignored": [does(run("touch built/out.js")), DONE],
    }


def script(subtasks):
    """A provider that proposes these subtasks, and answers each with its replies."""
    shown = [
        step(key, scope={"paths": [path, f"new-{path}", f"of-{path}", *more], "commands": commands})
        for key, path, commands, more, _ in subtasks
    ]
    rules = [{"when": {"tools": ["create_plan"]}, "replies": [plan(*shown)]}]
    rules += [
        {"when": {"user": f"Do {key}\n"}, "replies": replies} for key, _, _, _, replies in subtasks
    ]
    return {"rules": rules, "default": DONE}


def told(path, key, replies):
    more = ["built/**"] if key == "ignored" else []
    commands = ["ls", "cat", "chmod"] if key.startswith("lie") else ["touch", "chmod +x"]
    return key, path, commands, more, replies


@pytest.fixture(scope="module")
def server():
    with fake_openai() as running:
        yield running


@pytest.mark.feature(226)
async def test_no_lie_completes_a_subtask_and_no_honest_one_is_doubted(make, ground, server):
    (ground.work / ".gitignore").write_text("built/\n")
    (ground.work / "built").mkdir()
    found = [told(f"l{n}.txt", f"lie-{n:02}", lies(f"l{n}.txt")[n]) for n in range(len(lies("")))]
    honest = [
        told(f"{key}.txt", key, replies)
        for key in truths("")
        for replies in [truths(f"{key}.txt")[key]]
    ]
    for _, path, *_ in found + honest:
        (ground.work / path).write_text(THERE)
    server.script(script(found + honest))
    settings = ModelSettings(
        name="openai:scripted", base_url=server.base_url, api_key="sk-x", timeout=LIMIT,
        backoff=0.001,
    )  # fmt: skip
    assert len(found) >= 30
    async with make({}, unattended=True, max_parallel=8, auto_replanning=False) as world:
        world.open_model = lambda _: open_model(settings, {})
        await world.restart()
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)

        shown = {s.id: s for s in (await world.runtime.plans.get(world.ann, plan_id)).subtasks}
        believed = {key for key, subtask in shown.items() if subtask.status == "completed"}
        assert believed == {key for key, *_ in honest}
        doubted = {
            key: subtask.error["category"] for key, subtask in shown.items() if subtask.error
        }
        assert set(doubted.values()) == {"no_work"}, doubted
        assert {(ground.work / path).read_text() for _, path, *_ in found} == {THERE}
        assert events[-1]["metadata"]["status"] == "partial"
        assert of(events, "plan_completed")[0]["metadata"]["refused"]
        assert server.violations == []
