"""A plan of your own, exported and carried out again, and a checkpoint after it: no model asked."""

import json
import os
from pathlib import Path

import pytest

PLAN = """\
goal: Two files
subtasks:
- id: first
  description: Write a file
  tool: write_file
  inputs: {path: a.txt, content: "hello\\n"}
  scope: {tools: [write_file], paths: [a.txt]}
- id: second
  description: Show it
  tool: execute_command
  dependencies: [first]
  inputs: {command: cat a.txt}
  scope: {commands: [cat]}
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    return file


def listed(gonogo, what: str, *more: str) -> list[dict]:
    return json.loads(gonogo(what, "list", *more, "--json").stdout)[what]


@pytest.mark.feature(241)
def test_a_plan_file_waits_for_the_go_without_a_terminal_and_runs_with_yes(gonogo, plan, work):
    run = ("run", "--plan", str(plan), "-C", str(work))
    waits = gonogo(*run)
    assert waits.returncode == 3
    assert "Plan: Two files" in waits.stdout
    assert "Written by local" in waits.stdout
    assert "gonogo approvals decide" in waits.stderr
    assert not (work / "a.txt").exists()
    only = gonogo(*run, "--plan-only")
    assert only.returncode == 0, only.stderr
    assert not (work / "a.txt").exists()

    done = gonogo(*run, "--yes", "--unattended", "--json")
    assert done.returncode == 0, done.stderr
    happened = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["seq"] for e in happened if "seq" in e] == list(range(1, len(happened)))
    assert [event["type"] for event in happened[-2:]] == ["plan_completed", "run_ended"]
    assert (work / "a.txt").read_text() == "hello\n"


@pytest.mark.feature(241)
def test_at_a_terminal_the_person_is_asked_and_answers(terminal, plan, work):
    shown = terminal("run", "--plan", str(plan), "-C", str(work))
    shown.expect("Written by local, not by a model.")
    shown.expect("Run this plan?")
    shown.type("a\n")
    shown.expect("Plan approved")
    assert shown.end() == 0
    assert (work / "a.txt").exists()


@pytest.mark.feature(241)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAN.replace("tool: write_file", "tool: write_fil", 1), ":3: Subtask 'first'"),
        (PLAN.replace("  tool: execute_command\n", "  agent: nobody\n"), ":8: Subtask 'second'"),
        (PLAN + "  colour: red\n", ":14: there is no field colour"),
        (PLAN.replace("goal: Two files\n", ""), ":1: a plan needs a goal"),
        (
            PLAN.replace("[first]", "[third]"),
            (
                ":8: Subtask 'second' depends on unknown 'third'; add that subtask, or remove the "
                "dependency"
            ),
        ),
        (PLAN.replace("scope: {commands: [cat]}", "scope: {tools: [x_y]}"), ":8: "),
        ("goal: [", ":"),
        ("\x00", "not valid YAML"),
        (PLAN.replace("Two files", "[a, b]"), ":1: goal must be text; put it in quotes"),
        (PLAN.replace("Two files", "2024"), ":1: goal must be text; put it in quotes"),
        (PLAN.replace("Show it", '"Show \\0 it"'), ":9: the text contains NUL"),
        (PLAN.replace("Show it", '"Show \\ud800 it"'), ":9: "),
        (PLAN.replace("Two files", "g" * 16_001), "goal: "),
        (PLAN.replace('"hello\\n"', "h" * 3_000_000), "more than 2097152"),
    ],
)
def test_of_a_bad_file_the_lines_are_said_and_nothing_is_made(gonogo, plan, work, text, said):
    plan.write_text(text)
    done = gonogo("run", "--plan", str(plan), "-C", str(work))
    assert done.returncode == 2
    assert said in done.stderr
    assert f"No plan was created. Correct {plan}" in done.stderr
    assert "Traceback" not in done.stderr
    assert listed(gonogo, "sessions") == []


def test_a_pipe_is_read_where_the_shell_hands_it_over_and_else_is_no_plan_file(
    gonogo, plan, work, tmp_path
):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = gonogo("run", "--plan", str(pipe), "-C", str(work))
    assert (done.returncode, "is not a regular file" in done.stderr) == (2, True)
    taken = gonogo(
        "run", "--plan", "/dev/stdin", "-C", str(work), "--plan-only", stdin=PLAN, whole=True
    )
    assert taken.returncode == 0, taken.stderr
    assert [made["goal"] for made in listed(gonogo, "plans")] == ["Two files"]


def test_what_is_no_utf8_on_the_command_line_is_refused_as_such(gonogo, plan, work):
    gonogo("run", "--plan", str(plan), "-C", str(work))
    [made] = listed(gonogo, "plans")
    for words, whole in (
        (("checkpoints", "create", made["plan_id"], "--note", "a\udcff"), False),
        (("plans", "comment", made["plan_id"], "a\udcff"), False),
        (("run", "a\udcff", "-C", str(work)), True),
    ):
        done = gonogo(*words, whole=whole)
        assert done.returncode == 2, words
        assert "is not UTF-8" in done.stderr, words


def test_a_note_of_several_lines_is_shown_in_one(gonogo, plan, work):
    gonogo("run", "--plan", str(plan), "-C", str(work))
    taken = gonogo("checkpoints", "create", "--note", "one\ntwo")
    assert len(taken.stdout.splitlines()) == 2


def test_in_another_language_a_bad_file_and_who_wrote_a_plan_are_told_in_it(gonogo, plan, work):
    done = gonogo("--locale", "ru", "run", "--plan", str(plan), "-C", str(work))
    assert "План составлен человеком (local), без модели." in done.stdout
    plan.write_text(PLAN.replace("goal: Two files\n", ""))
    done = gonogo("run", "--plan", str(plan), "-C", str(work), env={"LANG": "ru_RU.UTF-8"})
    assert ":1: плану нужна цель" in done.stderr


def test_a_plan_file_takes_the_place_of_a_task_and_of_an_agent(gonogo, plan):
    for more in (("Do it",), ("--agent", "coder")):
        done = gonogo("run", "--plan", str(plan), *more)
        assert done.returncode == 2
        assert "replaces TASK" in done.stderr
    assert gonogo("run", "--plan", str(plan.parent / "none.yaml")).returncode == 2
    plan.write_bytes(b"\xff\xfe")
    assert "UTF-8" in gonogo("run", "--plan", str(plan)).stderr
    assert gonogo("run").returncode == 2


@pytest.mark.feature(241, 242)
def test_what_is_exported_runs_again_the_same_and_a_checkpoint_is_taken_after_it(
    gonogo, plan, work, tmp_path
):
    gonogo("run", "--plan", str(plan), "-C", str(work), "--yes")
    [made] = listed(gonogo, "plans")
    out = tmp_path / "out.yaml"
    assert gonogo("plans", "export", made["plan_id"], "-o", str(out)).returncode == 0
    assert gonogo("plans", "export", made["plan_id"]).stdout == out.read_text()
    spaced = gonogo("plans", "export", made["plan_id"], "-o", str(tmp_path / "my plan.yaml"))
    assert f"gonogo run --plan '{tmp_path}/my plan.yaml'" in spaced.stdout
    refused = gonogo("plans", "export", made["plan_id"], "-o", str(out))
    assert refused.returncode == 2
    assert "name a new file" in refused.stderr

    again = gonogo("run", "--plan", str(out), "-C", str(work), "--yes")
    assert again.returncode == 0, again.stderr
    newest = listed(gonogo, "plans")[0]
    assert newest["plan_id"] != made["plan_id"]
    for name in ("goal", "made_by", "status"):
        assert newest[name] == made[name], name
    twice = tmp_path / "twice.yaml"
    gonogo("plans", "export", newest["plan_id"], "-o", str(twice))
    assert twice.read_text() == out.read_text()

    taken = gonogo("checkpoints", "create", newest["plan_id"], "--note", "as it should be")
    assert taken.returncode == 0, taken.stderr
    named = json.loads(gonogo("checkpoints", "create", newest["session_id"], "--json").stdout)
    latest = json.loads(gonogo("checkpoints", "create", "--json").stdout)
    assert named["plan_id"] == latest["plan_id"] == newest["plan_id"]
    shown = gonogo("checkpoints", "list", newest["plan_id"]).stdout.splitlines()
    assert shown[-3].endswith("\tyes\tmade by local: as it should be")
    back = gonogo("rollback", newest["plan_id"], "--to", latest["checkpoint_id"])
    assert back.returncode == 0, back.stderr
    unknown = gonogo("checkpoints", "create", "nothing")
    assert unknown.returncode == 1
    assert "There is no plan or session nothing" in unknown.stderr
