"""Other people's clients, as they are on npm: what they are sent is what the protocol says."""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from jsonschema import Draft202012Validator

from fakes.asked import until_commented
from fakes.openai_server import FakeOpenAI
from fakes.world import call, calls, plan, run, says, step, write

HERE = Path(__file__).parent
NODE = HERE / "node"
SCHEMA = NODE / "node_modules" / "@agentclientprotocol" / "sdk" / "schema" / "v1" / "schema.json"
LIMIT = 120
"""Seconds that a program may run; it waits for nothing by itself."""
STEPS = [step("app"), step("readme", "app")]
DONE = calls(call("attempt_completion", result="made"))
RULES: list[dict[str, Any]] = [
    {"when": {"user": "in blue"}, "reply": {"status": 503, "held": True}},
    {"when": {"user": "Do readme"}, "replies": [calls(write("README.md")), DONE]},
    {"when": {"user": "Do app"}, "replies": [calls(write("app.py")), DONE]},
    {"when": {"tools": ["create_plan"], "last": "Build it"}, "reply": plan(*STEPS)},
    {"when": {"last": "make"}, "reply": calls(write("a.txt", "one\n"))},
    {"when": {"last": "again"}, "reply": calls(write("b.txt", "two\n"))},
]  # fmt: skip
SWITCH = {
    "when": {"tools": ["switch_mode"], "last": "Build it"},
    "reply": calls(call("switch_mode", mode="architect", reason="It takes a plan.")),
}
PLAN = {
    "when": {"tools": ["create_plan"], "user": "Build it", "assistants": 1},
    "reply": plan(step("app")),
}
APP = {"when": {"user": "Do app"}, "replies": [calls(run("echo hello > app.txt")), DONE]}


@pytest.fixture(scope="session")
def node() -> Path:
    """Node, with the clients of the lock file beside it."""
    build = runpy.run_path(str(HERE.parents[1] / "hatch_build.py"))
    try:
        build["install"](NODE)
        return build["node"]() / "bin" / "node"
    except build["NotBuilt"] as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the clients of npm are not installed: {error}")


class Node:
    """Programs of npm, run to their ends."""

    def __init__(self, program: Path, folder: Path, env: Mapping[str, str]) -> None:
        self._program, self._folder, self._env = program, folder, env

    def run(self, *words: str | Path, **streams: Any) -> str:
        """What a program writes beside the protocol."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE} | streams
        done = subprocess.run(
            [self._program, *words], cwd=self._folder, env=self._env, timeout=LIMIT, check=False,
            text=True, stderr=subprocess.PIPE, **streams,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout or "") + done.stderr
        return done.stdout


async def test_the_typescript_client_is_served_and_all_messages_fit_the_official_schema(
    node, begin, env, folder, provider, tmp_path
):
    provider.script({"rules": RULES, "default": says("Done.")})
    transcript = tmp_path / "transcript"
    editor = Node(node, folder, env)

    def play(act: str) -> None:
        process, into, out = begin()
        try:
            script = NODE / "editor.mjs"
            editor.run(script, act, folder, transcript, stdin=out, stdout=into)
        finally:
            os.close(into)
            os.close(out)
        assert process.wait(LIMIT) == 0

    async with anyio.create_task_group() as group:
        group.start_soon(answer_comment, provider)
        await anyio.to_thread.run_sync(play, "work")
    await anyio.to_thread.run_sync(play, "again")
    check(transcript)
    check(HERE / "golden" / "plan.jsonl")


async def answer_comment(provider: FakeOpenAI) -> None:
    answers = [{"comment_id": await until_commented(provider), "answer": "It is blue now."}]
    made = calls(call("create_plan", goal="Blue", subtasks=STEPS, answers=answers))
    rules = [{"when": {"user": "in blue"}, "reply": made}, *RULES]
    provider.script({"rules": rules, "default": says("Done.")})
    provider.go()


def check(transcript: Path) -> None:
    """What the agent sends is what the protocol says; answers, where it is noted what was asked."""
    whole = json.loads(SCHEMA.read_text())
    kinds = {
        (kind["x-method"], name.endswith("Response")): name
        for name, kind in whole["$defs"].items()
        if "x-method" in kind
    }
    asked: dict[Any, str] = {}
    for line in transcript.read_text().splitlines():
        message = json.loads(line)
        if message.get("to_agent"):
            asked[message["id"]] = message["method"]
        elif "method" in message:
            fits(whole, kinds[message["method"], False], message["params"])
        elif message["id"] in asked:
            fits(whole, kinds[asked[message["id"]], True], message["result"])


def fits(whole: dict[str, Any], kind: str, value: object) -> None:
    schema = {"$defs": whole["$defs"], "$ref": f"#/$defs/{kind}"}
    Draft202012Validator(schema).validate(value)


def test_acpx_asks_for_a_plan_and_has_it_carried_out(node, env, folder, provider):
    provider.script({"rules": [SWITCH, PLAN, APP], "default": says("Done.")})
    acpx = Node(node, folder, {**env, "HOME": str(folder.parent)})
    cli = NODE / "node_modules" / "acpx" / "dist" / "cli.js"
    words = [cli, "--agent", f"{sys.executable} -m gonogo acp", "--approve-all", "--ttl", "1"]
    acpx.run(*words, "sessions", "new")
    shown = acpx.run(*words, "Build it")
    assert (folder / "app.txt").read_text() == "hello\n"
    assert shown.count("session/request_permission") == 2, "for the plan, and for the command"
    assert "Plan Execution Complete" in shown
    assert "[done] end_turn" in shown
