"""The operator's own command looks at what was written, and the agent is told its lines."""

import json
import logging
import socket
from itertools import pairwise
from time import thread_time

import anyio
import anyio.lowlevel
import pytest
from pydantic import ValidationError

from fakes.until import time_passes
from fakes.world import a_while, call, calls, is_running, of, plan, says, step, write
from gonogo.cli.checks import findings
from gonogo.settings import Settings
from gonogo.tools import Bench, Diagnostics
from gonogo.workspace import Guards, Sandbox, Workspace

boxed = pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
TEXTS = {"paths": ["**"]}
PRINTS = 'for f in {files}; do echo "$f:1:1: W1 odd"; done; echo other.txt:1:1: W2'


def script(*replies):
    return {"main/architect": [plan(step("a", scope=TEXTS))], "a": [*replies, says("Done.")]}


async def results(make, replies, files=(), **set_):
    """Run a plan whose agent gives these replies. Gives the results of its calls."""
    async with make(script(*replies), **set_) as world:
        for path, text in dict(files).items():
            (world.folder / path).parent.mkdir(exist_ok=True)
            (world.folder / path).write_text(text)
        await world.decide_plan(await world.propose())
        answers = [m.content for m in world.model.asked("a")[-1].messages if m.role == "tool"]
        return [json.loads(answer) for answer in answers], world


@boxed
@pytest.mark.feature(228)
async def test_the_lines_about_the_files_that_were_written_come_with_the_result(make):
    patch = "--- /dev/null\n+++ b/p.txt\n@@ -0,0 +1 @@\n+x\n"
    patch += "--- a/q.txt\n+++ b/q.txt\n@@ -1 +1 @@\n-q\n+r\n"
    replies = [
        calls(write("new.txt"), call("edit_file", path="sub/b c.txt", old="b", new="c")),
        calls(call("apply_patch", patch=patch), call("create_directory", path="made")),
    ]
    files = {"sub/b c.txt": "b\n", "q.txt": "q\n"}
    (new, edit, patched, folder), _ = await results(make, replies, files, diagnostics=PRINTS)

    assert new["diagnostics"] == {"lines": ["new.txt:1:1: W1 odd"]}
    assert edit["diagnostics"] == {"lines": ["sub/b c.txt:1:1: W1 odd"]}
    assert patched["diagnostics"]["lines"] == ["p.txt:1:1: W1 odd", "q.txt:1:1: W1 odd"]
    assert "diagnostics" not in folder


@boxed
async def test_a_file_is_told_of_by_its_whole_path_alone(make):
    lines = ["a.txt:1 own", "./a.txt(2,1): own", "$PWD/a.txt:3 own", "x/a.txt:1", "a.txt.bak:1",
             "ba.txt:1", "in a.txt.", "a.txt/b:1", "-a.txt", "/a.txt:1"]  # fmt: skip
    command = "\n".join(f'echo "{line}"' for line in lines)
    (told,), _ = await results(make, [calls(write("a.txt"))], diagnostics=command)

    said = ["a.txt:1 own", "./a.txt(2,1): own", "a.txt:3 own", "in a.txt."]
    assert told["diagnostics"]["lines"] == said


@boxed
async def test_what_it_prints_is_bounded_and_shows_what_would_deceive(make):
    command = (
        r"printf '\e[31mnew.txt\e[0m:1: red\nnew.txt:2: \u202etxt.exe\nnew.txt:3: \e]0;x\a\n';"
        " for i in $(seq 100); do echo new.txt:$i: dull; echo new.txt:$i: dull; done;"
        " printf 'new.txt:4: %01000d\\n' 0"
    )
    (told,), _ = await results(make, [calls(write("new.txt"))], diagnostics=command)

    found = told["diagnostics"]
    assert found["lines"][:3] == [
        "new.txt:1: red", r"new.txt:2: \u202etxt.exe", r"new.txt:3: \x1b]0;x\x07"
    ]  # fmt: skip
    assert (len(found["lines"]), found["left_out"]) == (40, 64)
    only = command.rpartition(";")[2]
    (told,), _ = await results(make, [calls(write("new.txt"))], diagnostics=only)
    assert [len(line) for line in told["diagnostics"]["lines"]] == [301]
    escaped = r"printf 'new.txt: '; printf '\u202e%.0s' $(seq 290)"
    (told,), _ = await results(make, [calls(write("new.txt"))], diagnostics=escaped)
    assert [len(line) for line in told["diagnostics"]["lines"]] == [301]


SNOOPS = """python3 - {files} <<'END'
import socket, sys
for path, mode in (("kept.txt", "w"), ("new.txt", "a"), (".env", "r"), ("made.txt", "w")):
    try:
        file = open(path, mode)
        print(f"new.txt: {path} {mode} {file.read() if mode == 'r' else ''}")
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", PORT), 1)
    print("new.txt: reached")
except OSError:
    print("new.txt: looked")
END"""


@boxed
async def test_it_writes_nothing_and_sees_neither_secrets_nor_the_network(make):
    server = socket.create_server(("127.0.0.1", 0))
    command = SNOOPS.replace("PORT", str(server.getsockname()[1]))
    files = {"kept.txt": "kept\n", ".env": "KEY=1\n"}
    (told,), world = await results(make, [calls(write("new.txt"))], files, diagnostics=command)
    server.close()

    assert told["diagnostics"]["lines"] == ["new.txt: looked"]
    assert (world.read("kept.txt"), world.read("made.txt")) == ("kept\n", None)
    assert world.read("new.txt") == "made\n"


@boxed
async def test_names_of_files_are_words_and_no_commands(make):
    name = "$(touch made) ';-x.txt"
    command = "printf '%s: seen\\n' {files}"
    replies = [calls(write(name)), calls(write("-rf.txt"))]
    (odd, dashed), _ = await results(make, replies, diagnostics=command)

    assert odd["diagnostics"]["lines"] == [f"./{name}: seen"]
    assert dashed["diagnostics"]["lines"] == ["./-rf.txt: seen"]


@boxed
@pytest.mark.parametrize("name", ["@a.txt", "+a.txt", "!a.txt", "a=1.txt", "=a.txt", "a.txt", ".a"])
async def test_no_program_takes_a_name_for_anything_but_a_path(make, name):
    replies = [calls(write(name))]
    (told,), _ = await results(make, replies, diagnostics="printf '%s: seen\n' {files}")

    shown = name if name in {"a.txt", ".a"} else f"./{name}"
    assert told["diagnostics"]["lines"] == [f"{shown}: seen"]


@boxed
async def test_it_is_for_files_of_the_names_that_it_says(make):
    command = "for f in {files:*.py, *.pyi}; do echo $f: seen; done; echo a.txt: unseen"
    replies = [calls(write("a.txt")), calls(write("sub/a.py", ""), write("b.pyi", ""))]
    (text, python, stub), _ = await results(make, replies, diagnostics=command)

    assert "diagnostics" not in text
    assert python["diagnostics"]["lines"] == ["sub/a.py: seen"]
    assert stub["diagnostics"]["lines"] == ["b.pyi: seen"]


@boxed
async def test_one_that_takes_too_long_is_ended_and_what_it_said_is_told(make):
    mark = a_while()
    # Only the command line of what sleeps has it in one piece.
    script = f"echo new.txt:1; sleep {mark[:5]}''{mark[5:]}"
    set_ = {"diagnostics": script, "diagnostics_timeout": 30}

    async def takes_too_long() -> None:
        await is_running(mark)
        time_passes(30)

    async with anyio.create_task_group() as group:
        group.start_soon(takes_too_long)
        (told,), _ = await results(make, [calls(write("new.txt"))], **set_)

    note = "it was ended after 30 seconds"
    assert told["diagnostics"] == {"lines": ["new.txt:1"], "note": note}
    await is_running(mark, wanted=False)


@boxed
async def test_one_that_cannot_run_is_told_each_time_and_logged_once(make, caplog):
    replies = [calls(write("a.txt")), calls(write("b.txt"))]
    with caplog.at_level(logging.WARNING, "gonogo.tools.edits"):
        found, _ = await results(make, replies, diagnostics="gonogo-lint {files}")

    for told in found:
        assert "gonogo-lint: command not found" in told["diagnostics"]["note"]
    assert len(caplog.records) == 1


async def test_without_a_sandbox_it_does_not_run_and_says_so_once(make, caplog):
    set_ = {"sandbox": False, "diagnostics": "touch ran.txt; echo {files}"}
    replies = [calls(write("a.txt")), calls(write("b.txt"))]
    with caplog.at_level(logging.WARNING, "gonogo.tools.edits"):
        (first, second), world = await results(make, replies, **set_)

    assert "there is no sandbox" in first["diagnostics"]["note"]
    assert "diagnostics" not in second
    assert len(caplog.records) == 1
    assert world.read("ran.txt") is None


@boxed
async def test_a_call_that_failed_is_not_looked_at(make):
    edit = call("edit_file", path="a.txt", old="x", new="y")
    async with make(script(calls(edit)), diagnostics=PRINTS) as world:
        (world.folder / "a.txt").write_text("b\n")
        events = await world.decide_plan(await world.propose())
        [told] = of(events, "tool_result", tool_name="edit_file")
        assert "W1" not in json.dumps(told)


async def test_of_a_secret_nothing_is_told(tmp_path):
    command = Diagnostics("echo {files}", 5)

    def bench():
        return Bench(workspace=Workspace(tmp_path))

    assert await command.told(bench, ["config/.env"], Guards().look) == {}
    assert await command.told(bench, ["config/env"], Guards().look) != {}


@boxed
@pytest.mark.parametrize("goes", ["before", "after"])
async def test_that_it_cannot_be_run_is_told_and_no_error(tmp_path, goes, caplog):
    folder = tmp_path / "gone"
    folder.mkdir()
    if goes == "before":
        folder.rmdir()

    def bench():
        found = Bench(workspace=Workspace(folder), sandbox=Sandbox.detect())
        folder.rmdir()
        return found

    command = Diagnostics("echo {files}", 5)
    for name in ("a", "b"):
        if goes == "after" and not folder.exists():
            folder.mkdir()
        told = await command.told(bench, [name], Guards().look)
        assert "it could not run: " in told["diagnostics"]["note"]
    assert len(caplog.records) == 1


@boxed
async def test_one_that_fails_in_another_way_each_time_is_logged_once(tmp_path, caplog):
    command = Diagnostics("echo $RANDOM {files} >&2; exit 127", 5)

    def bench():
        return Bench(workspace=Workspace(tmp_path), sandbox=Sandbox.detect())

    notes = {str(await command.told(bench, [name], Guards().look)) for name in "abc"}
    # The lines name the file here; without them it is the program that is missing.
    assert all("lines" in note for note in notes)
    command = Diagnostics("echo $RANDOM >&2; exit 127", 5)
    notes = {str(await command.told(bench, [name], Guards().look)) for name in "abc"}
    assert len(notes) > 1
    assert all("it could not run" in note for note in notes)
    assert len(caplog.records) == 1


@boxed
async def test_many_names_and_lines_hold_nobody_else_up(tmp_path):
    names = [f"folder/of/some/length/{n}-file.py" for n in range(4_000)]
    command = Diagnostics("yes 'folder/of/some/length/4001-file.py: odd' | head -c 250000", 20)
    turns = [thread_time()]

    def bench():
        return Bench(workspace=Workspace(tmp_path), sandbox=Sandbox.detect())

    async with anyio.create_task_group() as group:

        async def turn():
            while True:
                await anyio.lowlevel.checkpoint()
                turns.append(thread_time())

        group.start_soon(turn)
        await command.told(bench, names, Guards().look)
        group.cancel_scope.cancel()
    turns.append(thread_time())
    # Of CPU time of the loop's thread: what else the machine does is not held against it.
    longest = max(after - before for before, after in pairwise(turns))
    assert longest < (turns[-1] - turns[0]) / 3


@pytest.mark.parametrize("command", ['bash -c "lint {files}"', "lint {files:*.{ts,tsx}}"])
def test_a_command_in_which_a_name_could_be_run_is_refused(tmp_path, command):
    with pytest.raises(ValidationError, match=r"must stand by itself|is not understood"):
        Settings(home=tmp_path, diagnostics=command)


@boxed
async def test_a_write_that_was_cut_off_while_it_was_looked_at_is_done_without_lines(make):
    mark = a_while()
    lines = script(calls(write("new.txt")))
    async with make(lines, diagnostics=f"sleep {mark}", diagnostics_timeout=300) as world:
        plan_id = await world.begin()
        await is_running(mark)
        await world.stop()
        await is_running(mark, wanted=False)
        world.settings = world.settings.model_copy(update={"diagnostics": None})
        await world.start()
        await world.until("plan_completed", plan_id=plan_id, status="completed")
        assert world.read("new.txt") == "made\n"
        [wrote] = of(await world.log(), "tool_result", tool_name="write_file")
        assert (wrote["metadata"]["status"], wrote["result"]["path"]) == ("completed", "new.txt")
        assert "diagnostics" not in wrote["result"]


@boxed
async def test_a_plan_that_is_cancelled_during_a_look_knows_what_was_written(make):
    mark = a_while()
    lines = script(calls(write("new.txt")))
    async with make(lines, diagnostics=f"sleep {mark}", diagnostics_timeout=300) as world:
        plan_id = await world.begin()
        await is_running(mark)
        # What a person does meanwhile takes nothing from what the call has done.
        (world.folder / "new.txt").write_text("mine\n")
        await world.runtime.plans.cancel(world.ann, plan_id)
        await is_running(mark, wanted=False)
        await world.idle()
        found = await world.runtime.changes.of_plan(world.ann, plan_id)
        assert [(file.path, file.status) for file in found.files] == [("new.txt", "added")]


@boxed
async def test_a_command_of_a_sibling_does_not_wait_for_the_look(make):
    mark = a_while()
    lines = {
        "main/architect": [plan(step("a", scope=TEXTS), step("b"))],
        "a": [calls(write("new.txt")), says("Done.")],
        "b": [calls(call("execute_command", command="touch b.txt")), says("Done.")],
    }
    set_ = {"diagnostics": f"sleep {mark}", "diagnostics_timeout": 300}
    async with make(lines, **set_) as world:
        held = world.model.hold("b")
        plan_id = await world.begin()
        await is_running(mark)
        held.set()
        asked = await world.until("approval_requested", kind="tool")
        await world.send(
            {"type": "hitl_decision", "call_id": asked["call_id"], "decision": "approve"}
        )
        done = await world.until("subtask_completed", subtask_id="b")
        assert done["plan_id"] == plan_id
        assert world.read("b.txt") == ""
        await is_running(mark)
        await world.runtime.plans.cancel(world.ann, plan_id)


@boxed
@pytest.mark.parametrize(("sandbox", "state"), [(True, "ok"), (False, "warn")])
async def test_the_doctor_says_whether_it_runs(tmp_path, sandbox, state):
    settings = Settings(home=tmp_path, sandbox=sandbox, diagnostics="ruff check {files}")
    found = {check.name: check.state async for check in findings(settings, {})}

    assert found["diagnostics"] == state
