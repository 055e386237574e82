"""What a command leaves of guarded names stays, stops the work, and is asked about: keep or take.

The commands are real, and so is their box.
"""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.until import time_passes, until
from fakes.world import World, call, calls, kinds, of, on_both, plan, run, says, step, write
from gonogo.domain.errors import Conflict, InvalidMessage
from gonogo.i18n import say

COMMAND = "python3 make.py"
"""What the plan declares. What it does, nobody can read off its words."""
PLANTS = "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo x > .envrc; echo fine > ok"


def lines(*more: Any, **scope: Any) -> dict[str, Any]:
    """A plan whose command is allowed, and a step after it."""
    scope = {"commands": [COMMAND], **scope}
    return {
        "main/architect": [plan(step("a", scope=scope), step("b", "a"))],
        "a": [calls(run(COMMAND), *more), says("a done")],
        "b": [says("b done")],
    }


def does(world: World, script: str) -> None:
    """What the plan's command does."""
    (world.folder / "make.sh").write_text(script)
    (world.folder / "make.py").write_text("import subprocess; subprocess.run(['bash', 'make.sh'])")


async def begun(world: World, script: str) -> Any:
    """Start the plan. Gives the question that its command leads to."""
    does(world, script)
    plan_id = await world.begin()
    await world.until("approval_requested", kind="intervention")
    await world.idle()
    [asked] = await world.pending()
    assert asked.plan_id == plan_id
    return asked


async def answered(world: World, asked: Any, decision: str, **more: Any) -> list[Any]:
    return await world.ask({
        "type": "hitl_decision", "approval_id": asked.approval_id, "decision": decision, **more,
    })  # fmt: skip


async def told(world: World, thread: str = "a") -> str:
    """What the model was told of the command."""
    return next(m.content for m in world.model.asked(thread)[-1].messages if m.role == "tool")


def stands(world: World, *names: str) -> bool:
    return any(os.path.lexists(world.folder / name) for name in names)


async def shell(script: str, folder: Path) -> None:
    """Something that a person did."""
    await anyio.run_process(["bash", "-c", script], cwd=folder)


def taken(world: World, asked: Any) -> set[str]:
    """The files that were taken away."""
    folder = world.settings.home / "taken" / asked.call_id
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# Asked --------------------------------------------------------------------------------------------


@on_both
async def test_names_that_nobody_foresaw_stay_and_stop_the_subtask(make):
    async with make(lines(write("later.txt"))) as world:
        asked = await begun(world, PLANTS)

        assert asked.details["about"] == "guarded_names"
        assert asked.details["names"] == [".envrc", ".git"]
        assert "`" not in asked.reason
        assert ".envrc, .git" in asked.reason
        assert f"taken/{asked.call_id}" in asked.reason
        assert world.read(".git/hooks/pre-commit") == "evil\n"
        # Nothing of the subtask goes on, and neither does what waits for it.
        assert of(await world.log(), "tool_result", tool_name="execute_command") == []
        assert world.read("later.txt") is None
        status = await world.runtime.plans.status(world.ann, asked.plan_id)
        assert [s.status for s in status.subtasks] == ["waiting_approval", "pending"]
        [entry] = await world.audit("tool.left_names")
        assert entry.details["names"] == [".envrc", ".git"]


@on_both
async def test_who_keeps_them_has_the_work_go_on_with_them(make):
    async with make(lines()) as world:
        asked = await begun(world, PLANTS)
        events = await answered(world, asked, "approve")

        assert events[-1]["type"] == "plan_completed"
        assert world.read(".git/hooks/pre-commit") == "evil\n"
        assert '"kept": [".envrc", ".git"]' in await told(world)
        assert not (world.settings.home / "taken").exists()
        [result] = of(await world.log(), "tool_result", tool_name="execute_command")
        assert result["metadata"]["status"] == "completed"


@on_both
async def test_who_does_not_has_them_taken_away_and_loses_nothing(make):
    async with make(lines()) as world:
        asked = await begun(world, PLANTS)
        events = await answered(world, asked, "reject")

        assert events[-1]["type"] == "plan_completed"
        assert not (world.folder / ".git").exists()
        assert not (world.folder / ".envrc").exists()
        assert world.read("ok") == "fine\n"
        assert taken(world, asked) == {".git/hooks/pre-commit", ".envrc"}
        assert (await told(world)).startswith("protected_path: ")
        assert "ann" in await told(world)
        [entry] = await world.audit("tool.names_taken")
        assert (entry.details["names"], entry.details["by"]) == ([".envrc", ".git"], "ann")


async def test_an_agent_in_a_russian_session_is_told_in_russian_that_they_were_taken(make):
    async with make(lines(), locale="ru") as world:
        asked = await begun(world, PLANTS)
        await answered(world, asked, "reject")

        names = ".envrc, .git"
        assert await told(world) == (
            f"protected_path: {say('model_names_taken', 'ru', names=names, who='ann')}"
        )


async def test_there_are_no_other_answers(make):
    async with make(lines()) as world:
        asked = await begun(world, PLANTS)
        with pytest.raises(InvalidMessage, match="Approve to keep the files"):
            await world.send({
                "type": "hitl_decision", "approval_id": asked.approval_id, "decision": "edit",
                "modified_arguments": {"result": 1},
            })  # fmt: skip

        assert [a.approval_id for a in await world.pending()] == [asked.approval_id]


async def test_where_nobody_answers_in_time_they_are_taken_away(make):
    async with make(lines(), approval_expiry_intervention=60) as world:
        asked = await begun(world, PLANTS)
        await world.later(61)
        await world.until("plan_completed")

        assert taken(world, asked) == {".git/hooks/pre-commit", ".envrc"}


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("git init -q", [".git"]),
        ("git init -q sub/deep", ["sub/deep/.git"]),
        ("mkdir sub; git init -q x; mv x/.git sub/.git; rm -rf x", ["sub/.git"]),
        ("mkdir x; touch x/config; cp -r x sub; mv x/config x/HEAD; mv x .git", [".git"]),
        ("mkdir t; echo 'gitdir: t' > .git", [".git"]),
        ("mkdir t; ln -s t .git", [".git"]),
        ("mkdir -p t/.vscode; echo {} > t/.vscode/tasks.json; tar c t | tar x -C /tmp;"
         " cp -r /tmp/t/.vscode .; rm -rf t", [".vscode"]),
        ("echo x > .npmrc; mkdir -p node_modules/e; cp .npmrc node_modules/e/", [
            ".npmrc", "node_modules/e/.npmrc"]),
        ("git init -q --bare store", [
            "store/HEAD", "store/branches", "store/config", "store/hooks", "store/info",
            "store/objects", "store/refs"]),
        ("mkdir objects refs; echo 'ref: x' > HEAD", ["HEAD", "objects", "refs"]),
        ("echo x > HEAD; echo /tmp > commondir", ["HEAD", "commondir"]),
        ("mkdir hidden; echo hidden > .gitignore; git init -q hidden/r", ["hidden/r/.git"]),
        ("mkdir .GIT '.git '", [".GIT", ".git "]),
        ("touch AGENTS.md Makefile .env", [".env", "AGENTS.md", "Makefile"]),
        ("python3 -m venv --without-pip .venv; ln -s .venv venv", [".venv/bin", "venv"]),
        ("mkdir -p web/node_modules/.bin; touch web/node_modules/.bin/git Dockerfile", [
            "Dockerfile", "web/node_modules/.bin"]),
        ("mkdir -p a/b/c; cd a/b/c; touch .bashrc; ln -s .bashrc .zshrc", [
            "a/b/c/.bashrc", "a/b/c/.zshrc"]),
    ],
)  # fmt: skip
async def test_whatever_way_a_name_comes_it_is_seen(make, script, names):
    async with make(lines()) as world:
        asked = await begun(world, script)

        assert asked.details["names"] == names
        await answered(world, asked, "reject")
        assert not stands(world, *names)


async def test_of_a_folder_that_became_a_repository_only_what_came_is_taken_away(make):
    async with make(lines()) as world:
        for name in ("config", "objects"):
            (world.folder / name).mkdir()
            (world.folder / name / "mine").write_text("mine")
        asked = await begun(world, "mkdir refs; echo x > HEAD; mkdir -p hooks; touch hooks/x")
        await answered(world, asked, "reject")

        assert asked.details["names"] == ["HEAD", "hooks", "refs"]
        assert (world.read("config/mine"), world.read("objects/mine")) == ("mine", "mine")


async def test_many_names_are_one_question_that_says_how_many(make):
    async with make(lines()) as world:
        asked = await begun(world, "for n in $(seq -w 40); do mkdir d$n; touch d$n/.envrc; done")

        assert len(asked.details["names"]) == 40
        assert "d01/.envrc" in asked.reason
        assert "d40/.envrc" not in asked.reason
        assert "(+28)" in asked.reason


async def test_a_command_that_failed_or_was_ended_is_looked_after_as_well(make):
    async with make(lines()) as world:
        asked = await begun(world, f"{PLANTS}; ulimit -c 0; kill -9 $PPID; kill -9 $$")
        await answered(world, asked, "approve")

        assert "kept" in await told(world)


# Not asked ----------------------------------------------------------------------------------------


async def test_what_the_plan_named_is_expected(make, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    cargo = tmp_path / "bin/cargo"
    cargo.write_text("#!/bin/sh\ngit init -q $2; touch $2/Cargo.toml\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    script = {
        "main/architect": [plan(step("a", scope={"commands": ["cargo new"]}))],
        "a": [calls(run("cargo new app")), says("done")],
    }
    async with make(script) as world:
        await world.decide_plan(await world.propose())
        await world.idle()

        assert await world.pending() == []
        assert (world.folder / "app/.git/HEAD").exists()


async def test_what_a_person_saw_in_the_command_is_expected(make):
    command = "git init sub && touch sub/Makefile && git clone --no-hardlinks origin copy"
    script = {"main/coder": [calls(run(command)), says("done")]}
    async with make(script) as world:
        commit = "-c user.name=a -c user.email=a@b commit -qm x"
        await shell(f"git init -q origin && cd origin && touch .envrc && git add . && git {commit}",
                    world.folder)  # fmt: skip
        await world.say("Go", "coder")
        [asked] = await world.pending()
        events = await world.decide(asked.call_id)

        assert events[-1]["content"] == "done"
        assert await world.pending() == []
        assert (world.folder / "copy/.envrc").exists()


@pytest.mark.parametrize("evil", [
    "git config core.fsmonitor /tmp/x", "echo x > .git/hooks/pre-commit", "ln .git/config also",
    "git config remote.o.url ext::sh", "printf '[alias]\n x=!y\n' >> .git/config",
    "rm -rf .git/hooks; ln -s .. .git/hooks", "git config include.path ../x",
    "mv .git r; ln -s r .git", "mv .git r; echo gitdir: r > .git",
    "git config extensions.worktreeConfig true; touch .git/config.worktree",
    "echo .. > .git/commondir", "mkdir -p .git/modules/x", "ln -s ../x .git/hooks/post-merge",
])  # fmt: skip
async def test_a_named_repository_with_something_that_would_run_is_not_what_was_named(make, evil):
    command = f"git init -q && {COMMAND}"
    async with make({"main/coder": [calls(run(command)), says("done")]}) as world:
        does(world, evil)
        await world.say("Go", "coder")
        [asked] = await world.pending()
        await world.decide(asked.call_id)
        [question] = await world.pending()

        assert ".git" in question.details["names"]
        await answered(world, question, "reject")
        assert not stands(world, ".git")


async def test_a_path_that_the_scope_declares_is_made_and_changed(make):
    async with make(lines(paths=["Makefile", ".venv", "src/**"])) as world:
        kept, changed = "node_modules/.bin/tsc", ".venv/bin/ruff"
        for name in (kept, changed):
            (world.folder / name).parent.mkdir(parents=True)
            (world.folder / name).write_text("old")
        does(world, f"echo new > Makefile; echo new > {changed}; echo new > {kept}")
        await world.decide_plan(await world.propose())
        await world.idle()

        assert await world.pending() == []
        told = [world.read(name) for name in ("Makefile", changed, kept)]
        assert told == ["new\n", "new\n", "old"]


async def test_what_tools_do_as_their_work_is_nobodys_question(make):
    async with make(lines()) as world:
        for name in ("conftest.py", "package.json", ".venv/bin/python", "node_modules/x/index.js"):
            (world.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (world.folder / name).write_text("old")
        made = ["__pycache__/a.pyc", "node_modules/.cache/x", ".tox/py/bin/x", ".pytest_cache/v"]
        folders = " ".join(os.path.dirname(name) for name in made)
        does(world, f"set -e; mkdir -p {folders}; touch {' '.join(made)}; sed -i s/old/new/"
                    " conftest.py package.json; rm -rf node_modules; echo well > well")  # fmt: skip
        await world.decide_plan(await world.propose())
        await world.idle()

        assert await world.pending() == []
        told = [world.read(name) for name in ("conftest.py", "package.json", "well")]
        assert told == ["new", "new", "well\n"]


async def test_what_was_there_before_is_nobodys_question(make):
    async with make(lines()) as world:
        for name in (".git/hooks", ".vscode", "sub/.git"):
            (world.folder / name).mkdir(parents=True)
        (world.folder / ".envrc").write_text("mine")
        does(world, "mv sub moved; echo ok > ok; touch .git/hooks/x .vscode/x")
        await world.decide_plan(await world.propose())
        await world.idle()

        assert await world.pending() == []
        assert list((world.folder / ".git/hooks").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what is another's")
async def test_what_another_person_made_meanwhile_is_told_from_it(make):
    async with make(lines()) as world:
        does(world, "until [ -e go ]; do :; done; touch .npmrc")
        await world.begin()
        await world.until("tool_call", tool_name="execute_command")
        (world.folder / ".vscode").mkdir()
        os.chown(world.folder / ".vscode", 4242, 4242)
        (world.folder / "go").touch()
        await world.until("approval_requested", kind="intervention")
        [asked] = await world.pending()

        assert asked.details["names"] == [".npmrc"]


async def test_a_command_that_may_not_write_is_not_suspected(make):
    script = {"main/ask": [calls(run("rg -n x .")), says("done")]}
    async with make(script) as world:
        (world.settings.config).mkdir()
        (world.settings.config / "rules.toml").write_text(
            '[[rule]]\ncommand = "rg"\ndecision = "allow"\nreason = "reads"\n'
        )
        await world.restart()
        watched = []
        watches = type(world.runtime.parts.hands.watches)
        before = watches.before
        try:
            watches.before = lambda *args, **more: watched.append(args)
            await world.say("Look", "ask")
        finally:
            watches.before = before

        assert watched == []


# Other ends of the work ---------------------------------------------------------------------------


async def test_a_turn_waits_as_a_subtask_does(make):
    script = {"main/coder": [calls(run(f"{COMMAND} x")), says("done")]}
    async with make(script) as world:
        does(world, PLANTS)
        await world.say("Go", "coder")
        [asked] = await world.pending()
        events = await world.decide(asked.call_id)

        assert events[-1]["type"] == "approval_requested"
        [question] = await world.pending()
        assert question.details["names"] == [".envrc", ".git"]
        events = await answered(world, question, "reject")
        assert events[-1]["content"] == "done"
        assert taken(world, question) == {".git/hooks/pre-commit", ".envrc"}


@on_both
async def test_a_plan_that_is_cancelled_takes_no_question_with_it(make):
    async with make(lines()) as world:
        asked = await begun(world, PLANTS)
        await world.runtime.plans.cancel(world.ann, asked.plan_id)
        await world.idle()

        [left] = await world.pending()
        assert left.approval_id == asked.approval_id
        await answered(world, asked, "reject")
        await world.idle()
        assert taken(world, asked) == {".git/hooks/pre-commit", ".envrc"}
        with pytest.raises(Conflict):
            await answered(world, asked, "approve")


@on_both
async def test_a_command_that_is_cut_off_is_looked_after(make):
    async with make(lines()) as world:
        does(world, f"{PLANTS}; touch started; sleep 300")
        plan_id = await world.begin()
        await until((world.folder / "started").exists)
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.until("approval_requested", kind="intervention")
        [asked] = await world.pending()

        assert asked.details["names"] == [".envrc", ".git"]
        await answered(world, asked, "approve")
        assert await world.pending() == []
        assert world.read(".envrc") == "x\n"


async def test_a_subtask_that_takes_too_long_is_looked_after(make):
    async with make(lines(), subtask_timeout=100) as world:
        does(world, f"{PLANTS}; touch started; sleep 300")
        await world.begin()
        await until((world.folder / "started").exists)
        time_passes(100)
        await world.until("approval_requested", kind="intervention")
        [asked] = await world.pending()

        assert asked.details["names"] == [".envrc", ".git"]


@on_both
async def test_a_session_that_is_deleted_leaves_nothing_that_nobody_let_be_there(make):
    async with make(lines()) as world:
        asked = await begun(world, PLANTS)
        await world.runtime.sessions.delete(world.ann, world.session)
        await world.idle()

        assert taken(world, asked) == set()
        assert not (world.folder / ".git").exists()
        assert not (world.folder / ".envrc").exists()


@on_both
async def test_a_session_that_is_deleted_while_a_command_runs_has_taken_away_what_it_left(make):
    async with make(lines()) as world:
        does(world, f"{PLANTS}; touch started; sleep 300")
        await world.begin()
        await until((world.folder / "started").exists)
        await world.runtime.sessions.delete(world.ann, world.session)
        await world.idle()

        assert not stands(world, ".git", ".envrc")
        assert world.read("ok") == "fine\n"


async def test_what_cannot_be_taken_away_is_asked_about_once_more(make, monkeypatch):
    async with make(lines()) as world:
        asked = await begun(world, PLANTS)
        (world.settings.home / "taken").write_text("in the way")
        await answered(world, asked, "reject")
        await world.idle()

        [again] = await world.pending()
        assert again.approval_id != asked.approval_id
        assert again.reason.startswith("They could not be moved")
        assert world.read(".envrc") == "x\n"
        (world.settings.home / "taken").unlink()
        await answered(world, again, "reject")
        await world.idle()
        assert taken(world, asked) == {".git/hooks/pre-commit", ".envrc"}


@on_both
async def test_an_answer_survives_a_restart_at_any_place(make):
    async with make(lines()) as world:
        asked = await begun(world, PLANTS)
        await world.restart()
        [same] = await world.pending()
        assert same.approval_id == asked.approval_id
        await answered(world, asked, "reject")
        await world.idle()

        assert taken(world, asked) == {".git/hooks/pre-commit", ".envrc"}
        assert "plan_completed" in kinds(await world.log())


async def test_without_a_box_commands_are_looked_after_too(make):
    script = {"main/coder": [calls(run(COMMAND)), says("done")]}
    async with make(script, sandbox=False) as world:
        does(world, PLANTS)
        await world.say("Go", "coder")
        [asked] = await world.pending()
        await world.decide(asked.call_id)
        [question] = await world.pending()

        assert question.details["names"] == [".envrc", ".git"]


async def test_two_sessions_do_not_run_commands_in_one_workspace_at_once(make):
    script = {"main/coder": [calls(run(f"{COMMAND} 1")), says("one")]}
    async with make(script) as world:
        does(world, "mkdir busy && sleep 0.3 && rmdir busy && echo alone")
        for session in ("s1", "s2"):
            await world.say("Go", "coder", session=session)
        for session in ("s1", "s2"):
            [each] = await world.pending(session)
            yes = {"type": "hitl_decision", "call_id": each.call_id, "decision": "approve"}
            await world.send(yes, session=session)
        await world.idle()

        told = [m.content for r in world.model.requests for m in r.messages if m.role == "tool"]
        assert [("alone" in each) for each in told] == [True, True]


async def test_one_tool_by_itself_says_what_it_left(make):
    async with make({}) as world:
        (world.settings.config).mkdir()
        (world.settings.config / "rules.toml").write_text(
            f'[[rule]]\ncommand = "{COMMAND}"\ndecision = "allow"\nreason = "mine"\n'
        )
        await world.restart()
        does(world, PLANTS)
        done = await world.runtime.run_tool(
            world.ann, "execute_command", call("", command=COMMAND)["arguments"], world.folder
        )

        assert done["left"] == [".envrc", ".git"]
