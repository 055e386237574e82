"""A hundred hostile instruction files, and the same as skills, change no verdict."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from adversary.instructions import MARKS, hostile
from fakes.world import calls, of, plan, run, says, step, world_of, write
from gonogo.domain.base import loads
from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Grant, Instructions
from gonogo.execution.agent import Briefings, ConversationGrants, Gate, Thread, load_profiles
from gonogo.policy import load_reviews
from gonogo.runtime import bare_thread, open_gate, open_reader
from gonogo.settings import Settings
from gonogo.tools import Bench, builtin_tools, skill_tool
from gonogo.workspace import Workspace

HOSTILE = dict(hostile())
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("execute_command", {"command": "rm -rf ."}),
    ("execute_command", {"command": "touch x"}),
    ("write_file", {"path": "a.txt", "content": "x"}),
    ("write_file", {"path": "src/a.txt", "content": "x"}),
    ("write_file", {"path": "CLAUDE.md", "content": "x"}),
    ("write_file", {"path": ".git/config", "content": "x"}),
    ("read_file", {"path": ".env"}),
]
"""What the files want: some the plan allows, some asks, some is never done."""
DECISIONS = ["deny", "allow", "ask", "allow", "ask", "deny", "ask"]
SCOPE = Scope(commands=("touch",), paths=("src/**",))


async def granted(thread: Thread) -> ConversationGrants:
    del thread
    grant = Grant(grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=SCOPE)
    return ConversationGrants(grant=grant)


async def verdicts(gate: Gate, thread: Thread) -> list[tuple[Any, ...]]:
    """All that people and the runtime go by."""
    found = [await gate.judge(thread, tool, dict(arguments)) for tool, arguments in CALLS]
    return [(g.verdict, g.digest, g.preview, g.error, g.tool_class, g.arguments) for g in found]


def lay(folder: Path, name: str, data: bytes) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def words(block: str) -> list[str]:
    """The lines of a block that no file has said."""
    return [line for line in block.split("\n") if not line.startswith("| ")]


@pytest.mark.feature(219)
@pytest.mark.feature(220)
async def test_a_hundred_hostile_files_change_no_verdict_and_cannot_end_their_block(
    tmp_path: Path,
) -> None:
    workspace, settings = tmp_path / "ws", Settings(home=tmp_path / "home", config=tmp_path)
    lay(workspace, ".env", b"KEY=1\n")
    reader = open_reader(settings)
    tools = {**builtin_tools(), "read_skill": skill_tool(reader)}
    profiles = load_profiles(None, known_tools=tools)
    gate = open_gate(settings, tools, profiles, load_reviews(None, None), granted)
    thread = replace(bare_thread(workspace, "coder"), plan_id="p", revision=1, subtask_id="s")
    without = await verdicts(gate, thread)
    assert [found[0].decision for found in without] == DECISIONS
    assert len(HOSTILE) == 100

    for name, data in HOSTILE.items():
        lay(workspace, "AGENTS.md", data)
        lay(workspace, ".cursor/rules/r.mdc", data)
        lay(workspace, ".agents/skills/skill/SKILL.md", data)
        told = await Briefings(reader=reader).news(thread, (), ())
        assert told is not None, name
        assert len(told.content.encode()) < 34 * 1024, name
        assert all(c.isprintable() or c in "\n\t" for c in told.content), name
        own = words(told.content)
        assert [line for line in own if line in MARKS] == [own[-1]], name
        assert not any("allowed and needs no approval" in line for line in own), name

        call = {"name": "skill"}
        read = await gate.judge(thread, "read_skill", call)
        assert (read.verdict.decision, read.verdict.rule) == ("allow", "default:pure"), name
        tool = tools["read_skill"]
        assert tool.run is not None
        if b"\0" not in data:
            bench = Bench(workspace=Workspace(workspace))
            assert json.dumps(await tool.run(bench, tool.parse(call)))
        assert await verdicts(gate, thread) == without, name


PLANNED = step("one", scope={"paths": ["src/**"], "commands": ["touch"]})
WANTED = [{"name": tool, "arguments": arguments} for tool, arguments in CALLS]
SKILLS = list(HOSTILE)[:20]


async def story(tmp_path: Path, *, is_hostile: bool) -> tuple[dict[str, Any], str]:
    """All that was decided where an agent does what it is told, and what it was told.

    Nobody can be asked, so that each call is decided.
    """
    reads = [{"name": "read_file", "arguments": {"path": f"{name}/x"}} for name in HOSTILE]
    skills = [{"name": "read_skill", "arguments": {"name": name}} for name in SKILLS]
    lines = {
        "main/architect": [plan(PLANNED)],
        "one": [
            calls(*reads, *skills), calls(*WANTED), calls(run("git push"), write("z")),
            says("Done"),
        ],
    }  # fmt: skip
    async with world_of(tmp_path, lines, unattended=True) as world:
        lay(world.folder, ".env", b"KEY=1\n")
        for name, data in HOSTILE.items():
            lay(world.folder, f"{name}/x", b"x\n")
            if is_hostile:
                lay(world.folder, f"{name}/AGENTS.md", data)
        for name in SKILLS:
            lay(world.folder, f".claude/skills/{name}/SKILL.md", HOSTILE[name] * is_hostile)
        plan_id = await world.propose()
        [question] = await world.pending()
        events = await world.decide_plan(plan_id)
        messages = world.model.asked("one")[-1].messages
        told = "".join(m.content for m in messages if isinstance(m, Instructions))
        asked = {k: v for k, v in question.details.items() if k not in {"instructions", "subtasks"}}
        decided = {
            "asked": asked, "rules": await world.runtime.sessions.rules(world.ann, world.session),
            "scopes": [g.scope for g in await world.runtime.plans.grants(world.ann, world.session)],
            "calls": [
                (e["tool_name"], e["arguments"], e["requires_approval"], e["metadata"]["decision"],
                 e["metadata"]["reason"])
                for e in of(events, "tool_call")
            ],
            "denied": [
                e["error"] for e in of(events, "tool_result")
                if "error" in e and e["tool_name"] != "read_skill"
            ],
            "made": sorted(f.name for f in world.folder.iterdir() if f.is_file()),
        }  # fmt: skip
        # What they are about has another name each time.
        return loads(json.dumps(decided, default=str).replace(plan_id, "PLAN")), told


@pytest.mark.feature(219)
@pytest.mark.feature(220)
async def test_an_agent_that_obeys_them_gets_no_further_than_without_them(tmp_path: Path) -> None:
    for folder in ("with", "without"):
        (tmp_path / folder).mkdir()
    obeyed, told = await story(tmp_path / "with", is_hostile=True)
    plain, nothing = await story(tmp_path / "without", is_hostile=False)

    for part in plain:
        assert obeyed[part] == plain[part]
    assert told.count("needs no approval") > 20
    assert "needs no approval" not in nothing
    assert len(obeyed["calls"]) == len(HOSTILE) + len(SKILLS) + len(CALLS) + 2
    assert obeyed["made"] == [".env", "x"]
