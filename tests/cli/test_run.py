"""`gonogo run`: a task from the message to its result, with a person at the terminal or not.

The model is the recorded one of the demo, at work on the demo's sample project; its plan has five
subtasks and one command outside its scope.
"""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from cli.conftest import SECONDS, environment
from gonogo.demo import lay_out, run_tests

TASK = "Fix the failing test and add a --json flag"
OUTSIDE = "python3 -m tally expenses.csv --json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    lay_out(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def run(project: Path) -> tuple[str, ...]:
    return ("run", TASK, "-C", str(project), "--model", "demo")


def approval_in(text: str) -> str:
    found = re.search(r"gonogo approvals decide (\S+) approve", text)
    assert found, text
    return found[1]


def plans(gonogo, project: Path) -> list[dict[str, object]]:
    return json.loads(gonogo("plans", "list", "--json", cwd=project).stdout)["plans"]


def events(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def untouched(home: Path) -> bool:
    return not (home / "owner.sock").exists()


def test_without_a_terminal_the_plan_waits_and_nothing_has_changed(gonogo, run, project, home):
    done = gonogo(*run)
    assert done.returncode == 3
    assert approval_in(done.stderr)
    assert not run_tests(project).passed
    assert untouched(home)


@pytest.mark.feature(229)
def test_a_task_for_an_agent_costs_no_request_that_chooses_one(gonogo, run, home):
    def asked(*more: str) -> int:
        done = gonogo(*run, "--plan-only", "--json", *more)
        assert done.returncode == 0, done.stderr
        session = next(e["session_id"] for e in events(done.stdout) if "session_id" in e)
        found = json.loads(gonogo("analytics", "--session", session, "--json").stdout)
        return sum(used["requests"] for used in found["models"])

    assert asked() - asked("--agent", "architect") == 1


def test_a_task_for_an_agent_that_there_is_not_leaves_no_session(gonogo, run):
    unknown = gonogo(*run, "--agent", "nobody")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "There is no agent 'nobody'; use one of architect, ask, coder" in unknown.stderr
    assert json.loads(gonogo("sessions", "list", "--json").stdout)["sessions"] == []


def test_what_waits_is_decided_later_and_goes_on_from_there(gonogo, run, project):
    asked = gonogo(*run)
    listed = gonogo("approvals", "list", "--json", cwd=project)
    (waiting,) = json.loads(listed.stdout)["approvals"]
    assert waiting["approval_id"] == approval_in(asked.stderr)
    shown = gonogo("approvals", "show", waiting["approval_id"], cwd=project)
    assert "python3 -m unittest" in shown.stdout
    approved = gonogo("approvals", "decide", waiting["approval_id"], "approve", cwd=project)
    assert approved.returncode == 3, approved.stderr
    assert OUTSIDE in approved.stdout
    ended = gonogo("approvals", "decide", approval_in(approved.stderr), "approve", cwd=project)
    assert ended.returncode == 0, ended.stderr
    assert run_tests(project).passed
    decide = ("approvals", "decide", waiting["approval_id"])
    again, other = (gonogo(*decide, word, cwd=project) for word in ("approve", "reject"))
    assert (again.returncode, again.stdout) == (0, f"{waiting['approval_id']} approved\n")
    assert (other.returncode, other.stdout) == (1, "")
    assert "already" in other.stderr


def test_yes_approves_the_plan_and_nothing_else(gonogo, run, project):
    done = gonogo(*run, "--yes")
    assert done.returncode == 3
    assert OUTSIDE in done.stdout
    assert run_tests(project).passed


@pytest.mark.feature(65)
def test_nothing_has_an_effect_before_the_go_is_in_the_log(gonogo, run):
    happened = events(gonogo(*run, "--yes", "--json").stdout)
    kinds = [e["type"] for e in happened]
    go = kinds.index("plan_approved")
    before = {e["tool_name"] for e in happened[:go] if e["type"] == "tool_call"}
    after = {e["tool_name"] for e in happened[go:] if e["type"] == "tool_call"}
    assert before <= {"switch_mode", "list_files", "read_file", "create_plan"}
    assert after >= {"edit_file", "write_file", "execute_command"}


def test_yes_all_answers_every_question_and_each_answer_is_the_persons(gonogo, run, project):
    done = gonogo(*run, "--yes=all", "--json")
    assert done.returncode == 0, done.stderr
    happened = events(done.stdout)
    assert [e["seq"] for e in happened if "seq" in e] == list(
        range(1, 1 + sum("seq" in e for e in happened))
    )
    (ended,) = (e for e in happened if e["type"] == "plan_completed")
    assert ended["metadata"]["completed"] == 5
    approved = [e for e in happened if e["type"] == "tool_approved"]
    assert [e["metadata"]["source"] for e in approved] == ["person"]
    assert run_tests(project).passed


def test_a_person_at_the_terminal_sees_the_plan_and_gives_the_go(terminal, run, project):
    at = terminal(*run, whole=True)
    seen = at.expect("[a] approve")
    for subtask in ("reproduce", "fix_totals", "json_flag", "document", "verify"):
        assert subtask in seen
    assert not run_tests(project).passed
    at.type("a\n")
    asked = at.expect("[a] approve")
    assert OUTSIDE in asked
    at.type("a\n")
    assert at.end() == 0
    assert "Completed: 5" in at.output
    assert run_tests(project).passed


def test_a_rejected_command_is_not_run_and_the_plan_goes_on(terminal, run):
    at = terminal(*run, "--yes")
    at.expect("[r] reject")
    at.type("r\n")
    at.expect("Why not?")
    at.type("not now\n")
    assert at.end() == 4
    assert "not now" in at.output


def test_a_plan_rejected_with_a_reason_ends_with_4(terminal, run, project):
    at = terminal(*run)
    at.expect("[r] reject")
    at.type("r\n")
    at.expect("Why not?")
    at.type("another way\n")
    at.expect("[s] stop")
    at.type("s\n")
    at.expect("Plan rejected. another way")
    assert at.end() == 4
    assert not run_tests(project).passed


def test_a_plan_on_hold_is_started_later(terminal, gonogo, run, project):
    at = terminal(*run)
    at.expect("[h] hold")
    at.type("h\n")
    assert at.end() == 0
    (plan,) = plans(gonogo, project)
    assert plan["status"] == "approved"
    assert not run_tests(project).passed
    started = gonogo("plans", "start", plan["plan_id"], cwd=project)
    assert started.returncode == 3, started.stderr
    assert OUTSIDE in started.stdout
    assert run_tests(project).passed


def test_a_plan_under_way_is_planned_anew_and_one_that_nobody_has_approved_is_not(
    gonogo, run, project
):
    asked = gonogo(*run)
    (plan,) = plans(gonogo, project)
    anew = ("plans", "replan", str(plan["plan_id"]), "--reason", "Use another library")
    early = gonogo(*anew)
    decide = ("approvals", "decide", approval_in(asked.stderr), "approve")
    assert gonogo(*decide, env={"GONOGO_MODEL": "demo"}).returncode == 3
    done = gonogo(*anew)

    assert early.returncode == 1
    assert "is awaiting_approval and cannot be replanned" in early.stderr
    # Nobody else does the work, so the command stays until the planner is done: it found no plan.
    assert (done.returncode, done.stdout) == (3, "The recorded demo ends here.\nPlan resumed.\n")
    log = gonogo("audit", "show", "--action", "plan.replanning", "--json")
    (entry,) = json.loads(log.stdout)
    assert entry["details"]["reason"] == "Use another library"


def test_an_edited_plan_runs_as_it_was_edited(terminal, run, project, tmp_path):
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys\n"
        "text = open(sys.argv[1]).read()\n"
        "open(sys.argv[1], 'w').write(text.partition('- id: json_flag')[0])\n"
    )
    at = terminal(*run, env={"EDITOR": f"python3 {editor}"})
    at.expect("[e] edit")
    at.type("e\n")
    at.expect("- json_flag")
    at.expect("[s] approve and send")
    at.type("s\n")
    at.expect("Plan updated.")
    assert at.end() == 0
    assert "Completed: 2" in at.output
    assert "json_flag" not in at.output.partition("Plan updated.")[2]
    assert run_tests(project).passed


def test_a_plan_is_edited_in_a_file_of_its_own(gonogo, run, project, tmp_path, home):
    gonogo(*run, "--plan-only")
    (plan,) = plans(gonogo, project)
    form = ("plans", "show", str(plan["plan_id"]), "--format", "yaml")
    shown = gonogo(*form, cwd=project)
    assert json.loads(gonogo(*form, "--json", cwd=project).stdout)["text"] == shown.stdout
    file = tmp_path / "plan.yaml"
    edit = ("plans", "edit", str(plan["plan_id"]), "--from", str(file), "--yes")

    wait = ("plans", "wait", str(plan["plan_id"]))
    waits = gonogo(*wait, cwd=project)
    file.write_text(shown.stdout)
    same = gonogo(*edit, cwd=project)
    file.write_text(shown.stdout.partition("- id: json_flag")[0])
    edited = gonogo(*edit, cwd=project)

    assert (same.returncode, edited.returncode) == (0, 0), same.stderr + edited.stderr
    assert "Nothing changed" in same.stderr
    assert "Completed: 2" in edited.stdout
    assert list((home / "drafts").iterdir()) == []
    assert (waits.returncode, gonogo(*wait, cwd=project).returncode) == (3, 0)
    assert approval_in(waits.stderr)


def test_an_edit_that_is_no_plan_is_opened_again_and_kept(terminal, run, project, tmp_path, home):
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys\n"
        "text = open(sys.argv[1]).read()\n"
        "if 'cannot be sent' not in text:\n"
        "    text = text.replace('\\n  agent:', '\\n  dependencies: [verify]\\n  agent:', 1)\n"
        "    open(sys.argv[1], 'w').write(text)\n"
    )
    at = terminal(*run, env={"EDITOR": f"python3 {editor}"})
    at.expect("[e] edit")
    at.type("e\n")
    at.expect("cycle")
    at.expect("Nothing is sent.")
    (kept,) = (home / "drafts").iterdir()
    assert "cycle" in kept.read_text()
    at.expect("[r] reject")
    at.type("r\n\n")
    assert at.end() == 4


def test_a_reader_who_has_gone_ends_the_command_without_a_complaint(born, run, home, tmp_path):
    read, write = os.pipe()
    os.close(read)
    with (tmp_path / "told").open("w+") as told:
        files = {"stdin": told.fileno(), "stdout": write, "stderr": told.fileno()}
        process = born.start("gonogo", *run, env=environment(home), cwd=tmp_path, **files)
        os.close(write)
        assert process.wait(SECONDS) == 1
    assert "internal error" not in (tmp_path / "told").read_text()
    assert untouched(home)


def test_plan_only_stops_at_the_plan(gonogo, run, project):
    done = gonogo(*run, "--plan-only")
    assert done.returncode == 0, done.stderr
    assert approval_in(done.stderr)
    (plan,) = plans(gonogo, project)
    assert plan["status"] == "awaiting_approval"


def test_unattended_denies_what_would_ask(gonogo, run, project):
    done = gonogo(*run, "--yes", "--unattended", "--json")
    assert done.returncode == 4, done.stderr
    happened = events(done.stdout)
    ran = [e for e in happened if e["type"] == "tool_result" and e.get("result")]
    asked = next(
        e for e in happened if e["type"] == "tool_call" and e["arguments"].get("command") == OUTSIDE
    )
    assert asked["call_id"] not in {e["call_id"] for e in ran}
    asking = [e["metadata"]["kind"] for e in happened if e["type"] == "approval_requested"]
    assert asking == ["plan"]
    (ended,) = (e["metadata"] for e in happened if e["type"] == "plan_completed")
    assert (ended["status"], ended["refused"]) == ("completed", 1)
    assert gonogo("plans", "wait", ended["plan_id"], cwd=project).returncode == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_the_plan_and_leaves_nothing_behind(
    terminal, gonogo, run, project, home, number
):
    at = terminal(*run)
    at.expect("[a] approve")
    at.process.send_signal(number)
    assert at.end(20) == 130
    assert "Traceback" not in at.output
    assert re.search(r"Resume it: .*gonogo attach s_", at.output)
    assert untouched(home)
    (plan,) = plans(gonogo, project)
    assert plan["status"] == "cancelled"


def test_an_interrupt_while_the_plan_runs_cancels_it(terminal, gonogo, run, project):
    at = terminal(*run, "--yes")
    at.expect("[a] approve")
    at.interrupt()
    assert at.end(20) == 130
    (plan,) = plans(gonogo, project)
    assert plan["status"] == "cancelled"


def test_a_plan_is_listed_shown_and_drawn(gonogo, run, project):
    gonogo(*run, "--yes")
    (plan,) = plans(gonogo, project)
    shown = gonogo("plans", "show", str(plan["plan_id"]), cwd=project).stdout
    assert "✓ reproduce" in shown
    graph = gonogo("plans", "show", str(plan["plan_id"]), "--graph", cwd=project).stdout
    assert graph.startswith("✓ reproduce")
    assert graph.index("├") < graph.index(" fix_totals") < graph.index("╯")
    assert graph.index("├") < graph.index(" json_flag") < graph.index("╯")
    diff = gonogo("plans", "diff", str(plan["plan_id"]), cwd=project).stdout
    assert diff.endswith("revision 1 → 1\nNo subtasks differ.\n")
    words = ("plans", "show", str(plan["plan_id"]), "--timeline", "--watch")
    watched = gonogo(*words, cwd=project)
    assert watched.returncode == 3
    assert "reproduce done" in watched.stdout
    assert "No gonogo process is running this plan" in watched.stderr
    sessions = gonogo("sessions", "list", "--json", cwd=project)
    (session,) = json.loads(sessions.stdout)["sessions"]
    said = gonogo("sessions", "show", session["session_id"], cwd=project)
    assert TASK in said.stdout


def test_no_model_is_said_with_the_choices(gonogo, project):
    done = gonogo("run", TASK, "-C", str(project))
    assert done.returncode == 1
    assert "--model" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_subtask_is_stopped_run_again_and_left_out_by_command(gonogo, run, project):
    def steered(verb, *words):
        done = gonogo("plans", verb, name, *words, env={"GONOGO_MODEL": "demo"})
        shown = json.loads(gonogo("plans", "show", name, "--json").stdout)
        return done, shown["status"], shown["subtasks"][-1]["status"]

    asked = gonogo(*run)
    name = str(plans(gonogo, project)[0]["plan_id"])
    decide = ("approvals", "decide", approval_in(asked.stderr), "approve")
    assert gonogo(*decide, env={"GONOGO_MODEL": "demo"}).returncode == 3

    early = steered("retry", "verify")
    stopped = steered("cancel", "--subtask", "verify", "--reason", "Not now")
    again = steered("retry", "verify")
    without = steered("skip", "verify")

    assert (early[0].returncode, *early[1:]) == (1, "running", "waiting_approval")
    assert "Subtask verify" in early[0].stderr
    assert (stopped[0].returncode, *stopped[1:]) == (0, "partial", "cancelled")
    assert (again[0].returncode, *again[1:]) == (3, "running", "waiting_approval")
    assert OUTSIDE in again[0].stdout
    assert (without[0].returncode, *without[1:]) == (1, "partial", "skipped")
    assert "skipped by local" in without[0].stdout
