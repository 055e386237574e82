"""Tools of MCP servers: gated, bounded, granted by name, and asked about anew when they change."""

import json
import os
import sys

import pytest

from fakes.mcp_server import write_tools
from fakes.world import call, calls, of, plan, says, step

TOOL = "mcp__docs__search"


@pytest.fixture
def served(tmp_path):
    """A server named `docs` is configured; gives the folder that says what it does."""
    folder = tmp_path / "docs"
    folder.mkdir()
    write_tools(folder, "search", "fetch")
    configure(tmp_path, folder)
    return folder


def configure(root, folder, **more):
    """Write the configuration of one server."""
    (root / "config").mkdir(exist_ok=True)
    path = os.pathsep.join(part for part in sys.path if part)
    fields = {
        "name": "docs", "command": "env",
        "args": [f"PYTHONPATH={path}", sys.executable, "-m", "fakes.mcp_server", str(folder)],
        **more,
    }  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    (root / "config" / "mcp.toml").write_text("\n".join(["[[server]]", *lines]) + "\n")


def done(folder):
    """What the server was called for."""
    calls = folder / "calls"
    return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


async def test_a_tool_of_a_server_asks_and_its_answer_reaches_the_agent(make, served):
    lines = {
        "main/coder": [calls(call(TOOL, text="anyio")), says("found it")],
    }  # fmt: skip
    async with make(lines) as world:
        await world.say("Look it up", "coder")
        [question] = await world.pending()
        assert (question.subject, done(served)) == (TOOL, [])
        offered = {tool.name: tool for tool in world.model.asked("main")[0].tools}
        assert offered[TOOL].description == "Does search."

        events = await world.decide(question.call_id)
        assert of(events, "tool_result")[0]["result"] == {
            "content": "search: anyio", "structured": {"said": "search: anyio"},
        }  # fmt: skip
        assert done(served) == [["search", {"text": "anyio"}]]
        assert events[-1]["content"] == "found it"


async def test_a_plan_allows_a_tool_of_a_server_only_where_its_scope_names_it(make, served):
    lines = {
        "main/architect": [
            plan(
                step("named", scope={"tools": [TOOL]}), step("open", "named"),
                {"id": "alone", "description": "One call", "tool": "mcp__docs__fetch",
                 "inputs": {"text": "x"}, "scope": {"tools": ["mcp__docs__fetch"]},
                 "dependencies": ["named"]},
            )
        ],
        "named": [calls(call(TOOL, text="one")), says("done")],
        "open": [calls(call(TOOL, text="two")), says("done")],
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        [create_plan] = [t for t in world.model.asked("main")[0].tools if t.name == "create_plan"]
        assert (
            f"- `{TOOL}` (agents: coder, debug, universal): Does search." in create_plan.description
        )
        events = await world.decide_plan(plan_id)

        [question] = await world.pending()
        assert (question.subtask_id, question.subject) == ("open", TOOL)
        assert sorted(done(served)) == [["fetch", {"text": "x"}], ["search", {"text": "one"}]]
        events = await world.decide(question.call_id)
        assert events[-1]["metadata"]["status"] == "completed"
        assert len(done(served)) == 3
