"""What a plan declares or a person approves is committed, and the hooks stay off."""

import subprocess
from pathlib import Path

import pytest

from fakes.world import calls, plan, run, says, step
from gonogo.workspace import Sandbox

pytestmark = pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
NEAR = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=NEAR, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "A")
    git(folder, "config", "user.email", "a@example.org")
    hook = folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\ntouch hooked; exit 1\n")
    hook.chmod(0o755)
    (folder / "a.py").write_text("one\n")


def planned(*commands: str, scope: list[str]) -> dict:
    return {
        "main/architect": [plan(step("a", scope={"commands": scope}))],
        "a": [*(calls(run(command)) for command in commands), says("done")],
    }


@pytest.mark.feature(37)
async def test_a_plan_that_declares_it_commits_without_a_question(make):
    lines = planned("git add -A", "git commit -m 'by a plan'", scope=["git add", "git commit"])
    async with make(lines) as world:
        repository(world.folder)
        await world.begin()
        await world.until("plan_completed")

        assert git(world.folder, "log", "--format=%s") == "by a plan"
        assert "a.py" in git(world.folder, "show", "--format=", "--name-only", "HEAD").split()
        assert not (world.folder / "hooked").exists()
        assert [each for each in await world.pending() if each.kind == "tool"] == []


async def test_what_a_person_approves_is_committed_in_the_same_way(make):
    async with make(
        planned("git add a.py && git commit --amend -m better", scope=["true"])
    ) as world:
        repository(world.folder)
        git(world.folder, "commit", "-q", "--no-verify", "--allow-empty", "-m", "first")
        await world.begin()
        await world.until("approval_requested", kind="tool")
        [asked] = await world.pending()
        assert "without hooks" in asked.reason
        await world.ask({"type": "hitl_decision", "call_id": asked.call_id, "decision": "approve"})
        await world.until("plan_completed")

        assert git(world.folder, "log", "--format=%s") == "better"
        assert not (world.folder / "hooked").exists()
