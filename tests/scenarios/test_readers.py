"""Commands that only read ask nobody, and run where they can do nothing else."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from fakes import mortal
from fakes.world import calls, is_running, of, on_both, plan, run, says, step
from gonogo.workspace import Sandbox
from scenarios.test_killed import process, seen

pytestmark = pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
READERS = "builtin:readers"
ORDINARY = ("ls", "git status --short", "rg -n secret src", "cat src/a.py | head -1")


def coder(*commands):
    """A coder who runs commands, one after another."""
    return {"main/coder": [*(calls(run(command)) for command in commands), says("done")]}


def git(folder, *words):
    named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True, timeout=60)


def lay_out(folder: Path) -> None:
    """A repository with a secret, a link to it, one that leads out, and a pipe."""
    (folder / "src").mkdir()
    (folder / "src/a.py").write_text("secret = 1\n")
    (folder / ".env").write_text("KEY = 5d1f0c\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "One")
    (folder / "to_secret").symlink_to(".env")
    (folder / "to_host").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe")


def state(folder: Path) -> dict:
    """Every file with its content and times, links and pipes without."""
    return {
        path.relative_to(folder).as_posix(): (path.lstat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


async def outputs(world) -> list[str]:
    """What the commands printed, in order."""
    results = of(await world.log(), "tool_result", tool_name="execute_command")
    return [event["result"]["output"] for event in results if event.get("result")]


@pytest.mark.feature(37)
async def test_readers_ask_nobody_and_the_audit_names_who_let_them(make):
    async with make(coder(*ORDINARY)) as world:
        lay_out(world.folder)
        before = state(world.folder)
        os.utime(world.folder / "src/a.py", (1, 1))  # so that git would like to write its index
        await world.say("Look", "coder")
        os.utime(world.folder / "src/a.py", ns=(before["src/a.py"][0],) * 2)

        assert await world.pending() == []
        listed, status, found, shown = await outputs(world)
        assert "src" in listed
        assert "?? to_secret" in status
        assert found.startswith("src/a.py:1:")
        assert shown == "secret = 1\n"
        assert state(world.folder) == before
        noted = await world.audit("tool.allowed")
        assert [entry.details["rule"] for entry in noted] == [READERS] * len(ORDINARY)
        called = of(await world.log(), "tool_call", tool_name="execute_command")
        assert {event["metadata"]["tool_class"] for event in called} == {"pure"}


@pytest.mark.feature(37)
@pytest.mark.parametrize("auto", [True, False])
async def test_in_a_plan_readers_need_no_declaration_and_leave_no_snapshot(make, auto):
    lines = {
        "main/architect": [plan(step("a", scope={"commands": ["make"]}))],
        "a": [*(calls(run(command)) for command in ORDINARY), says("done")],
    }
    async with make(lines) as world:
        lay_out(world.folder)
        plan_id = await world.propose()
        await world.decide_plan(plan_id, auto_approve_tools=auto)

        assert await world.pending() == []
        assert len(await outputs(world)) == len(ORDINARY)
        kept = await world.runtime.checkpoints.page(world.ann, plan_id)
        assert [found.tree for found in kept.checkpoints] == [None]


@pytest.mark.parametrize(
    ("set_", "rules", "command"),
    [
        ({"readers": False}, "", "ls"),
        ({"sandbox": False}, "", "ls"),
        ({"repo_trusted": False}, "", "git status"),
        ({}, '[[rule]]\ncommand = "ls"\ndecision = "ask"\n', "ls -la"),
        ({}, '[[review]]\ncommand = "ls"\nreviewers = ["bob"]\n', "ls"),
        ({}, "", "ls && touch made"),
        ({}, "", "touch made"),
        ({}, "", "cat to_secret"),
        ({}, "", "cat to_*"),
        ({}, "", "cat pipe"),
        ({}, "", "cat .env"),
        ({}, "", "git show HEAD:.env"),
        ({}, "", "ls > made"),
        ({}, "", "cat /etc/hostname"),
        ({}, "", "BASH_ENV=x ls"),
        ({}, "", "git -c color.ui=always status"),
        ({}, "", "git --git-dir=other status"),
    ],
)
async def test_what_is_no_reader_here_asks(make, tmp_path, set_, rules, command):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rules.toml").write_text(rules)
    async with make(coder(command), **set_) as world:
        lay_out(world.folder)
        await world.say("Look", "coder")

        [asked] = await world.pending()
        assert asked.arguments["command"] == command
        assert asked.details["rule"] != READERS
        assert world.read("made") is None


async def test_a_rule_that_denies_wins(make, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rules.toml").write_text('[[rule]]\ncommand = "ls"\ndecision = "deny"\n')
    async with make(coder("ls", "pwd; ls")) as world:
        await world.say("Look", "coder")
        assert await world.pending() == []
        assert len(await world.audit("tool.denied")) == 2
        assert await outputs(world) == []


async def test_a_client_that_runs_tools_itself_asks(make):
    async with make(coder("ls")) as world:
        opened = await world.runtime.sessions.open(world.ann, tool_host="client")
        world.session = opened.session_id
        await world.say("Look", "coder")
        assert len(await world.pending()) == 1


TRICK = """
echo "secret: [$(cat .env)]"
for path in pwned src/a.py .git/pwned; do
    (echo x >> $path) 2>/dev/null && echo "wrote: $path"
done
rm -rf src .git 2>/dev/null
echo x 2>/dev/null >../pwned
(echo > /dev/tcp/127.0.0.1/PORT) 2>/dev/null && echo "reached"
cat
"""


async def test_a_reader_that_is_tricked_into_running_a_program_has_it_do_nothing(make):
    # Whoever set up the repository has git run a program over each file that it compares.
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with make(coder("git diff", "git status --short")) as world:
            lay_out(world.folder)
            (world.folder / "trick.sh").write_text(
                TRICK.replace("PORT", str(server.getsockname()[1]))
            )
            (world.folder / ".gitattributes").write_text("*.py filter=trick\n")
            git(world.folder, "config", "filter.trick.clean", "bash trick.sh")
            (world.folder / "src/a.py").write_text("secret = 2\n")
            before = state(world.folder)
            await world.say("Look", "coder")

            diff, _ = await outputs(world)
            assert "+secret: []" in diff
            assert "+secret = 2" in diff
            assert "wrote" not in diff
            assert "reached" not in diff
            assert "5d1f0c" not in diff
            assert state(world.folder) == before
            assert not (world.root / "pwned").exists()


async def test_no_setting_alias_or_variable_has_a_reader_run_another_program(
    make, monkeypatch, tmp_path
):
    trap = tmp_path / "trap"
    trap.write_text("#!/bin/sh\necho pwned\n")
    trap.chmod(0o755)
    for name in ("GIT_PAGER", "GIT_EXTERNAL_DIFF", "BASH_ENV", "LESSOPEN", "GIT_SSH_COMMAND"):
        monkeypatch.setenv(name, str(trap))
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(trap))
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo pwned; }")
    commands = ("ls", "rg -n secret src", "git status", "git diff", "git log -p")
    async with make(coder(*commands)) as world:
        lay_out(world.folder)
        (world.folder / "run").write_text("#!/bin/sh\necho pwned\n")
        (world.folder / "run").chmod(0o755)
        (world.folder / "more.cfg").write_text(
            "[core]\n\tpager = ./run\n\tfsmonitor = ./run\n[diff]\n\texternal = ./run\n"
            '[diff "x"]\n\ttextconv = ./run\n\tcommand = ./run\n[pager]\n\tlog = ./run\n'
            "[alias]\n\tstatus = !./run\n\tlog = !./run\n"
        )
        (world.folder / ".gitattributes").write_text("*.py diff=x\n")
        git(world.folder, "config", "include.path", "../more.cfg")
        (world.folder / "src/a.py").write_text("secret = 2\n")
        await world.say("Look", "coder")

        assert await world.pending() == []
        said = await outputs(world)
        assert len(said) == len(commands)
        assert [text for text in said if "pwned" in text or "5d1f0c" in text] == []
        assert "+secret = 2" in said[3]


async def test_what_walks_through_folders_meets_no_secret_and_stops_at_no_pipe(make):
    commands = (
        "grep -rn 5d1f .", "grep -Rn 5d1f .", "rg -n 5d1f .", "rg -n 5d1f", "diff -r . src",
        "find . -size +0c -name '.e*'", "wc -c src/a.py", "ls -laR", "tree -a", "du -a src",
        "git status --ignored", "git diff", "git log -p", "git show",
    )  # fmt: skip
    async with make(coder(*commands), command_timeout=30) as world:
        lay_out(world.folder)
        (world.folder / "src/.env").write_text("KEY = 5d1f0c\n")
        await world.say("Look", "coder")

        assert await world.pending() == []
        results = of(await world.log(), "tool_result", tool_name="execute_command")
        assert [event["result"]["timed_out"] for event in results] == [False] * len(commands)
        assert [text for text in await outputs(world) if "5d1f0c" in text] == []
        # There is nothing in them: not even a size.
        assert (await outputs(world))[5] == ""


async def test_a_reader_that_prints_without_end_is_ended_and_its_output_is_cut(make):
    # A busy machine begins late.
    for seconds in (1, 10, 30):
        async with make(coder("nl -w 99999999 many"), command_timeout=seconds) as world:
            (world.folder / "many").write_text("x\n" * 5_000)
            await world.say("Look", "coder")
            *_, told = of(await world.log(), "tool_result", tool_name="execute_command")
        result = told["result"]
        assert result["timed_out"]
        if result["truncated"]:
            break
    assert result["truncated"]
    assert len(result["output"]) < world.settings.command_output + 1_000


@on_both
@pytest.mark.parametrize("after", ["the same", "no readers"])
async def test_a_reader_that_was_cut_off_runs_again_unless_it_would_ask_now(
    make, born, tmp_path, db, after
):
    lines = coder("nl -w 99999991 many")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/many").write_text("x\n" * 5_000)
    go = {"type": "user_message", "content": "Look", "agent_type": "coder"}
    with process(born, tmp_path, db, lines, go) as events:
        seen(events, "tool_call", tool_name="execute_command")
        await is_running("nl -w 99999991")
    await is_running("nl -w 99999991", False)
    (tmp_path / "work/many").unlink()
    async with make(lines, readers=after == "the same") as world:
        world.session = mortal.SESSION
        if after == "the same":
            await world.until("assistant_message")
            await world.idle()
            assert await world.pending() == []
            [result] = of(await world.log(), "tool_result", tool_name="execute_command")
            assert "No such file" in json.dumps(result["result"])
        else:
            await world.until("approval_requested", kind="intervention")
            assert [question.kind for question in await world.pending()] == ["intervention"]
        assert len(of(await world.log(), "tool_call", tool_name="execute_command")) == 1
        assert (await world.runtime.audit.verify(world.ann)).ok
