"""Under `--json` a command answers a program in JSON, also where it is refused."""

import json

import pytest
import typer

from gonogo.cli import app
from gonogo.cli.support import Exit, Stop, report
from gonogo.domain.errors import Busy, NotFound

OTHERWISE = {
    "serve": "runs until it is stopped",
    "worker": "runs until it is stopped",
    "acp": "speaks a protocol of its own",
    "mcp": "speaks a protocol of its own",
    "policy check": "always writes JSON",
    "audit export": "always writes lines of JSON",
}
PLAN = """\
goal: One file
subtasks:
- id: first
  description: Write a file
  tool: write_file
  inputs: {path: a.txt, content: "hello"}
  scope: {tools: [write_file], paths: [a.txt]}
"""


def commands(command, *path):
    """Every command below a group, by its words."""
    for name, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, *path, name)
        else:
            yield " ".join((*path, name)), each


def test_every_command_answers_in_json_if_it_is_asked_to():
    without = {
        name
        for name, command in commands(typer.main.get_command(app))
        if not any("--json" in each.opts for each in command.params)
    }
    assert without == set(OTHERWISE)


@pytest.fixture
def answered(gonogo):
    """Carry out a command with `--json`: its answer, once it ended with a code."""

    def carry_out(*words, code=0):
        done = gonogo(*words, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return carry_out


def test_what_changes_something_tells_a_program_what_came_of_it(answered, gonogo, tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert gonogo("run", "--plan", "plan.yaml", "--plan-only").returncode == 0
    [plan] = answered("plans", "list")["plans"]
    plan_id, session_id = plan["plan_id"], plan["session_id"]
    [asked] = answered("approvals", "list")["approvals"]
    asked_id = asked["approval_id"]

    text = answered("plans", "export", plan_id)
    assert text == {"plan_id": plan_id, "text": gonogo("plans", "export", plan_id).stdout}
    written = answered("plans", "export", plan_id, "-o", "copy.yaml")
    assert written == {"plan_id": plan_id, "file": "copy.yaml"}
    unlinked = answered("approvals", "unlink", asked_id)
    assert unlinked == {"approval_id": asked_id, "revoked": True}
    rule = answered("policy", "add", session_id, "deny", "--command", "rm")["rule_id"]
    removed = answered("policy", "remove", session_id, rule)
    assert removed == {"session_id": session_id, "rule": rule, "removed": True}
    assert answered("plans", "edit", plan_id, "--from", "copy.yaml", "--yes") == asked
    stopped = answered("plans", "cancel", plan_id)
    assert (stopped["plan_id"], stopped["status"]) == (plan_id, "cancelled")
    token = answered("token", "create", "--role", "viewer")["token_id"]
    assert answered("token", "revoke", token) == {"token_id": token, "revoked": True}
    gone = answered("sessions", "delete", session_id, "--yes")
    assert gone == {"session_id": session_id, "deleted": True}
    assert answered("db", "migrate") == {"state": "current"}
    assert answered("stop") == {"stopped": False}


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["plans", "pause", "none"], 1, "not_found"),
        (["approvals", "decide", "none", "edit"], 2, "usage"),
        (["plans", "list", "--foo"], 2, "usage"),
        (["run"], 2, "usage"),
    ],
)
def test_a_refusal_is_an_error_event_with_the_exit_code(answered, words, code, kind):
    told = answered(*words, code=code)
    assert (told["type"], told["code"], told["exit_code"]) == ("error", kind, code)
    assert told["content"] == told["error"]


def test_nobody_who_reads_words_is_told_in_json(capsys, monkeypatch):
    for words in (["plans", "list"], ["run", "--", "--json"]):
        monkeypatch.setattr("sys.argv", ["gonogo", *words])
        report("Gone", Exit.FAILED, Stop("Gone"))
    assert capsys.readouterr().out == ""


def test_an_error_has_its_own_code_and_parts_also_behind_what_a_person_is_told(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gonogo", "plans", "list", "--json"])
    missing = NotFound("There is no plan {plan_id}", plan_id="p")
    stopped = Stop("Плана нет")
    stopped.__cause__ = missing
    for error in (missing, stopped, Busy(), Stop("No", Exit.DENIED)):
        report("Нет", Exit.FAILED if error is not missing else Exit.USAGE, error)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["code"] for each in told] == ["not_found", "not_found", "unavailable", "failed"]
    assert told[0] == told[1] | {"exit_code": 2}
    assert told[0]["template"] == "There is no plan {plan_id}"
    assert told[0]["params"] == {"plan_id": "p"}
