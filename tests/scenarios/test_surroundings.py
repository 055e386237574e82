"""Before a command runs: too many files ask, and a name means the program that was looked up."""

import os
from pathlib import Path

import pytest

from fakes.world import calls, of, plan, run, says, step

pytestmark = pytest.mark.usefixtures("few")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is soon reached."""
    monkeypatch.setattr("gonogo.workspace.sandbox.guards.SCAN_LIMIT", 30)


def fill(folder: Path, count: int = 31) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"f{number}").touch()


def program(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)


def planned(*commands: str, scope: list[str]) -> dict:
    return {
        "main/architect": [plan(step("a", scope={"commands": scope}))],
        "a": [*(calls(run(command)) for command in commands), says("done")],
    }


async def told(world) -> list[str]:
    """What the model of the subtask was told of its calls, in the end."""
    return [m.content for m in world.model.asked("a")[-1].messages if m.role == "tool"]


# Too many files -----------------------------------------------------------------------------------


async def test_where_too_many_files_lie_a_person_may_let_a_command_run_once(make):
    lines = planned("./both", "touch again", scope=["./both", "touch"])
    async with make(lines) as world:
        (world.folder / ".git/hooks").mkdir(parents=True)
        program(world.folder / "both", "; touch .git/hooks/x made")
        fill(world.folder / "data")
        await world.begin()
        await world.until("approval_requested", kind="tool")
        [asked] = await world.pending()

        assert "the workspace has too many files" in asked.reason
        assert asked.reason.endswith("not checked: data")
        assert world.read("made") is None

        await world.ask({"type": "hitl_decision", "call_id": asked.call_id, "decision": "approve"})
        assert world.read("made") == ""
        assert not (world.folder / ".git/hooks/x").exists()
        # Once: the next one asks again.
        [second] = await world.pending()
        assert second.arguments["command"] == "touch again"


async def test_what_a_person_let_pass_is_what_they_were_shown(make):
    lines = planned("touch made", scope=["touch"])
    async with make(lines) as world:
        fill(world.folder / "data")
        await world.begin()
        await world.until("approval_requested", kind="tool")
        [asked] = await world.pending()
        fill(world.folder / "more")
        await world.ask({"type": "hitl_decision", "call_id": asked.call_id, "decision": "approve"})

        assert world.read("made") is None
        [error, *_] = await told(world)
        assert error.startswith("changed_since_approval")


async def test_where_nobody_can_be_asked_a_command_is_refused_by_its_name(make):
    lines = planned("touch made", scope=["touch"])
    async with make(lines, unattended=True) as world:
        fill(world.folder / "data")
        await world.decide_plan(await world.propose())

        assert world.read("made") is None
        [error] = await told(world)
        assert error.startswith("too_many_files: ")


async def test_files_that_came_since_the_command_was_allowed_stop_it_before_it_begins(
    make, monkeypatch
):
    lines = planned("touch made", scope=["touch"])
    async with make(lines) as world:
        traces = type(world.runtime.parts.hands.traces)
        before = traces.before

        async def late(self, *args, **more):
            fill(world.folder / "late")
            return await before(self, *args, **more)

        monkeypatch.setattr(traces, "before", late)
        await world.decide_plan(await world.propose())

        assert world.read("made") is None
        [error] = await told(world)
        assert error.startswith("too_many_files: ")


async def test_a_command_that_asks_anyway_says_both(make):
    lines = {"main/coder": [calls(run("make all")), says("done")]}
    async with make(lines) as world:
        fill(world.folder / "data")
        await world.say("Go", "coder")
        [asked] = await world.pending()

        assert "no rule allows 'make'" in asked.reason
        assert "not checked: data" in asked.reason


# Programs -----------------------------------------------------------------------------------------


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The workspace's own programs come first on our PATH, as in an active environment."""
    own = tmp_path / "work" / ".venv" / "bin"
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    return own


async def test_a_reader_is_the_machines_whatever_lies_first_on_the_path(make, path):
    lines = planned("rg -n secret src", scope=["rg"])
    async with make(lines) as world:
        (world.folder / "src").mkdir()
        (world.folder / "src/a.py").write_text("secret = 1\n")
        for name in ("rg", "git", "bash", "sh", "env"):
            program(path / name, "pwned")
        await world.decide_plan(await world.propose())

        [answer] = await told(world)
        assert "src/a.py:1:secret = 1" in answer
        assert "pwned" not in answer


async def test_a_program_that_only_the_workspace_has_is_never_a_reader(make, path):
    lines = {"main/coder": [calls(run("ruff check src")), says("done")]}
    async with make(lines) as world:
        program(path / "ruff", "of the workspace")
        await world.say("Go", "coder")
        [asked] = await world.pending()

        assert asked.details["preview"].splitlines() == [
            "# programs of the workspace itself: .venv/bin/ruff", "ruff check src",
        ]  # fmt: skip
        assert "'ruff', a program of the workspace itself" in asked.reason


async def test_the_workspaces_own_programs_run_in_the_scope_that_declares_them(make, path):
    lines = planned("pytest -q && python -m pytest", scope=["pytest", "python -m pytest"])
    async with make(lines) as world:
        program(path / "pytest", "own pytest")
        program(path / "python", "own python")
        await world.decide_plan(await world.propose())

        [answer] = await told(world)
        assert "own pytest\\nown python" in answer


async def test_an_approved_command_runs_the_environments_python_and_finds_no_other_by_its_path(
    make, path
):
    script = "python -c 'x' && sh -c 'python3 --version'; echo $PATH"
    lines = {"main/coder": [calls(run(script)), says("done")]}
    async with make(lines) as world:
        program(path / "python", "of the environment")
        program(path / "python3", "pwned")
        await world.say("Go", "coder")
        [asked] = await world.pending()
        await world.decide(asked.call_id)

        [answer] = [m.content for m in world.model.requests[-1].messages if m.role == "tool"]
        assert "of the environment" in answer
        assert "Python 3" in answer
        assert str(path) not in answer


async def test_a_program_that_was_put_first_since_the_question_is_not_run(make, path):
    lines = {"main/coder": [calls(run("make all")), says("done")]}
    async with make(lines) as world:
        await world.say("Go", "coder")
        [asked] = await world.pending()
        program(path / "make", "pwned")
        events = await world.decide(asked.call_id)

        [result] = of(events, "tool_result")
        assert result["error"].startswith("changed_since_approval")


async def test_servers_of_tools_are_not_looked_for_where_agents_write(make, path, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/mcp.toml").write_text(
        '[[server]]\nname = "planted"\ncommand = "planted-server"\n'
    )
    program(path / "planted-server", "pwned")
    async with make({}) as world:
        await world.runtime.parts.servers.offered(lambda config: True)
        [server] = await world.runtime.servers.all(world.runtime.owner)

        assert "There is no program 'planted-server'" in (server.error or "")
