"""`gonogo run` where nobody looks on: answers in files, limits of money and time, exit codes."""

import json
import os
import re
import signal
import stat
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from cli.conftest import SECONDS, environment
from cli.test_transcript import Names
from fakes.golden import kept
from fakes.openai_server import fake_openai
from fakes.world import call, calls, plan, run, step, write
from gonogo.cli.session.conversation import Outcome
from gonogo.cli.session.run import AnswerFile, write_answer
from gonogo.cli.support import Exit, Stop

DOCS = Path(__file__).parents[2] / "docs" / "reference"
TODOS = {
    "type": "object",
    "properties": {"todos": {"type": "array", "items": {"$ref": "#/$defs/todo"}}},
    "required": ["todos"],
    "additionalProperties": False,
    "$defs": {
        "todo": {
            "type": "object",
            "properties": {"file": {"type": "string"}, "line": {"type": "integer"}},
            "required": ["file", "line"],
        }
    },
}
RIGHT = {"todos": [{"file": "a.py", "line": 3}]}
ASKED = "Give the answer to the task above as JSON"
AGAIN = "That does not fit the schema"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "schema.json").write_text(json.dumps(TODOS))
    return folder


@pytest.fixture
def headless(gonogo, project):
    """Run a task with a scripted model; gives what the command did and what the model was asked."""

    def carry_out(script, *words, model="scripted", **env):
        with fake_openai(script) as provider:
            env |= {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "x"}
            env |= {"GONOGO_MODEL": f"openai:{model}"}
            done = gonogo("run", *words, "-C", str(project), env=env, cwd=project)
            return done, provider.requests

    return carry_out


def said(request) -> str:
    return str(request["messages"][-1]["content"])


def rules(*replies, asked=ASKED):
    """A model that answers in words, and then, when it is asked for JSON, with these."""
    reader = [
        {"when": {"last": asked if n == 0 else AGAIN, "assistants": n + 1}, "reply": {"text": text}}
        for n, text in enumerate(replies)
    ]
    return {"rules": reader, "default": {"text": "There is one in a.py."}}


SCHEMA = ("--output-schema", "schema.json", "-o", "out.json")
ASK = ("Which TODOs are there?", "--agent", "ask")


def test_the_answer_is_json_of_the_schema_in_the_file(headless, project):
    done, asked = headless(rules(json.dumps(RIGHT)), *ASK, *SCHEMA)
    assert done.returncode == 0, done.stderr
    assert json.loads((project / "out.json").read_text()) == RIGHT
    assert [ASKED in said(each) for each in asked] == [False, True]
    assert '"additionalProperties": false' in said(asked[1])
    assert sorted(each.name for each in project.iterdir()) == ["out.json", "schema.json"]


def test_what_does_not_fit_is_asked_for_again_with_what_is_wrong(headless, project):
    wrong = '```json\n{"todos": [{"file": "a.py", "line": "three"}]}\n```'
    right = f"```\n{json.dumps(RIGHT)}\n```"
    done, asked = headless(rules("No JSON at all.", wrong, right), *ASK, *SCHEMA)
    assert done.returncode == 0, done.stderr
    assert json.loads((project / "out.json").read_text()) == RIGHT
    assert "Not valid JSON" in said(asked[2])
    assert "$.todos[0].line: 'three' is not of type 'integer'" in said(asked[3])


def test_after_three_requests_it_fails_with_the_reason_and_writes_nothing(headless, project):
    done, asked = headless(rules(*['{"todos": 1}'] * 9), *ASK, *SCHEMA)
    assert done.returncode == Exit.FAILED
    assert len(asked) == 4
    assert "does not fit the schema (requests: 3)" in done.stderr
    assert "$.todos: 1 is not of type 'array'" in done.stderr
    assert not (project / "out.json").exists()


def test_an_answer_that_fits_already_costs_no_request_more(headless, project):
    done, asked = headless({"default": {"text": json.dumps(RIGHT)}}, *ASK, *SCHEMA)
    assert (done.returncode, len(asked)) == (0, 1)
    assert json.loads((project / "out.json").read_text()) == RIGHT


PLANNED = {
    "rules": [
        {"when": {"last": ASKED}, "reply": {"text": json.dumps(RIGHT)}},
        {
            "when": {"user": "Your subtask (page)"},
            "replies": [calls(write("page.txt")), {"text": "Made."}],
        },
        {
            "when": {"system": "You are the orchestrator", "tools": ["switch_mode"]},
            "reply": calls(call("switch_mode", mode="architect")),
        },
        {"when": {"tools": ["create_plan"]}, "reply": plan(step("page"), goal="A page")},
    ],
    "default": {"text": "Done."},
}


def test_of_a_plan_the_answer_is_asked_for_when_it_is_over(headless, project):
    done, asked = headless(PLANNED, "Make a page", "--yes", *SCHEMA)
    assert done.returncode == 0, done.stderr
    assert json.loads((project / "out.json").read_text()) == RIGHT
    assert (project / "page.txt").exists()
    assert ASKED in said(asked[-1])


def test_without_a_schema_the_answer_is_text(headless, project):
    done, _ = headless({"default": {"text": "It is *so*.\n"}}, *ASK, "-o", "out.md")
    assert done.returncode == 0, done.stderr
    assert (project / "out.md").read_text() == "It is *so*.\n"


def test_work_that_waits_or_fails_writes_no_answer_and_keeps_its_code(headless, project):
    done, _ = headless(PLANNED, "Make a page", *SCHEMA)
    assert done.returncode == Exit.WAITS
    assert (
        "out.json was not written, because the work was not completed. See what happened "
        "above, then run the command again"
    ) in done.stderr
    done, _ = headless({"default": {"status": 400, "error": "no"}}, *ASK, *SCHEMA)
    assert done.returncode == Exit.FAILED
    assert not (project / "out.json").exists()


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ("{", "Not valid JSON"),
        ("[]", "it must be a JSON object"),
        ('{"type": "thing"}', "is not valid under any of the given schemas"),
        ('{"$ref": "https://example.org/s.json"}', "leads out of the file"),
        ('{"$ref": "#/$defs/none"}', "it cannot be used"),
        ('{"a": "' + "x" * 70_000 + '"}', "it has more than 65536 bytes; shorten it"),
    ],
)
def test_what_is_no_schema_is_refused_before_anything_begins(headless, project, schema, wrong):
    (project / "bad.json").write_text(schema)
    done, asked = headless({}, *ASK, "--output-schema", "bad.json", "-o", "out.json")
    assert (done.returncode, asked) == (Exit.USAGE, [])
    assert wrong in done.stderr


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--output-schema", "schema.json"), "Name the file for the answer with -o"),
        (("-o", "none/out.json"), "the answer cannot be written there"),
        (("-o", "."), "the answer cannot be written there"),
        (("-o", "out.json", "--plan-only"), "A plan has no answer until it is carried out"),
        (("--max-cost", "0"), "give US dollars above zero"),
        (("--max-cost", "nan"), "give US dollars above zero"),
        (("--max-time", "soon"), "give a time such as 90s, 10m or 1h30m"),
        (("--max-time", "0"), "give a time such as 90s, 10m or 1h30m"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_begins(headless, words, wrong):
    done, asked = headless({}, *ASK, *words)
    assert (done.returncode, asked) == (Exit.USAGE, [])
    assert wrong in done.stderr


def test_a_place_where_no_answer_can_be_written_is_refused_before_anything_begins(project):
    (project / "loop").symlink_to("loop")
    (project / "shut").mkdir(mode=0o500)
    places = ["loop", "x" * 256, "schema.json/out", "/proc/self/fd/none/out"]
    if os.geteuid():
        places.append("shut/out.json")
    for place in places:
        with pytest.raises(Stop, match="the answer cannot be written there"):
            AnswerFile.of(None, project / place)


def test_a_device_or_a_pipe_is_written_to_and_stays_what_it_is(project):
    pipe = project / "pipe"
    os.mkfifo(pipe)
    with anyio.from_thread.start_blocking_portal() as portal:
        read = portal.start_task_soon(anyio.to_thread.run_sync, pipe.read_text)
        AnswerFile.of(None, pipe).write("Yes.\n")
        assert read.result(SECONDS) == "Yes.\n"
    assert pipe.is_fifo()
    with pytest.raises(Stop, match="more than 65536 bytes"):
        AnswerFile.of(Path("/dev/zero"), project / "out.json")


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_that_is_there_keeps_its_permissions(project, mode):
    file, new = project / "out.txt", project / "new.txt"
    file.write_text("Before")
    file.chmod(mode)
    AnswerFile(file=file).write("Now\n")
    assert (stat.S_IMODE(file.stat().st_mode), file.read_text()) == (mode, "Now\n")
    AnswerFile(file=new).write("Now\n")
    (project / "usual.txt").touch()
    assert new.stat().st_mode == (project / "usual.txt").stat().st_mode


def test_a_link_stays_a_link_and_the_file_that_it_names_has_the_answer(project):
    (project / "link").symlink_to("out.md")
    AnswerFile.of(None, project / "link").write("Yes.\n")
    assert (project / "link").is_symlink()
    assert (project / "out.md").read_text() == "Yes.\n"


# Limits: what the engine does at them is told in tests/scenarios/test_session_limits.py.

DEAR = {"usage": {"prompt_tokens": 100_000, "completion_tokens": 10}}


def dear(script):
    """The same script, each of whose replies costs a quarter of a dollar with gpt-4o."""
    return json.loads(
        json.dumps(script), object_hook=lambda o: o | DEAR if "text" in o or "calls" in o else o
    )


def test_a_plan_that_would_cost_more_pauses_and_waits_even_with_yes_to_all(headless, gonogo):
    words = ("Make a page", "--yes=all", "--max-cost", "0.60")
    done, asked = headless(dear(PLANNED), *words, model="gpt-4o")
    assert done.returncode == Exit.WAITS, done.stdout + done.stderr
    assert len(asked) == 2
    (waiting,) = json.loads(gonogo("approvals", "list", "--json").stdout)["approvals"]
    assert waiting["details"]["what"] == "session_cost"
    assert waiting["approval_id"] in done.stderr
    (shown,) = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    assert (shown["status"], shown["pause_reason"]) == ("paused", "budget")


async def test_when_the_time_is_over_nothing_more_is_asked(tmp_path, capsys):
    # The limit of the session ends what is under way; between two requests that is nothing.
    class Talk:
        outcome, cut_off = Outcome(), 0

        async def carry(self, _: object) -> Exit:
            try:
                await anyio.sleep_forever()
            finally:
                self.cut_off += 1

    (tmp_path / "schema.json").write_text(json.dumps(TODOS))
    wanted = AnswerFile.of(tmp_path / "schema.json", tmp_path / "out.json")
    talk: Any = Talk()
    with anyio.fail_after(SECONDS):
        now = anyio.current_time()
        ended = await write_answer(talk, Exit.DONE, wanted, "en", until=now + 0.01)
    assert (ended, talk.cut_off) == (Exit.FAILED, 1)
    assert "out.json" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_when_the_time_is_over_the_run_fails(headless, gonogo, project):
    script = {**PLANNED, "rules": [dict(rule) for rule in PLANNED["rules"]]}
    script["rules"][1] = {
        "when": {"user": "Your subtask (page)"}, "reply": {**calls(write("page.txt")), "delay": 90},
    }  # fmt: skip
    # On a busy machine the plan comes late.
    for seconds in (4, 16, 50):
        done, _ = headless(script, "Make a page", "--yes", "--max-time", f"{seconds}s")
        assert done.returncode == Exit.FAILED, done.stdout + done.stderr
        if f"reached its time limit of {seconds} s" in done.stdout:
            break
    *_, shown = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    assert shown["status"] == "failed"
    assert not (project / "page.txt").exists()


# Exit codes: the table of docs/reference/cli.md, each of them.

DENIED = {
    "rules": [{"when": {"user": "Remove"}, "replies": [calls(run("rm -rf /")), {"text": "No."}]}]
}


def test_the_table_of_exit_codes_has_each_of_them():
    text = (DOCS / "cli.md").read_text()
    table = text[text.index("| code | meaning |") :].split("\n\n")[0]
    assert [int(each) for each in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == list(Exit)


def test_each_way_to_end_has_its_code(headless):
    ends = {
        Exit.DONE: ({"default": {"text": "Yes."}}, ASK),
        Exit.FAILED: ({"default": {"status": 400, "error": "no"}}, ASK),
        Exit.USAGE: ({}, ("",)),
        Exit.WAITS: (PLANNED, ("Make a page",)),
        Exit.DENIED: (DENIED, ("Remove it", "--agent", "coder", "--unattended")),
    }
    found = {code: headless(script, *words)[0].returncode for code, (script, words) in ends.items()}
    assert found == {code: code for code in ends}


def test_a_signal_ends_it_with_130(project, home, born):
    with fake_openai({"default": {"text": "Yes.", "delay": 60}}) as provider:
        env = environment(home, {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "x"})
        env["GONOGO_MODEL"] = "openai:scripted"
        with (project / "out").open("wb") as out:
            files = {"stdout": out.fileno(), "stderr": out.fileno()}
            process = born.start(
                "gonogo", "run", *ASK, "-C", str(project), env=env, cwd=project, **files
            )
            # Each look waits for a second at most.
            assert any(provider.news(0) for _ in range(SECONDS))
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=SECONDS) == Exit.INTERRUPTED


# Lines of JSON: docs/reference/json-lines.md.

GOLDEN = Path(__file__).parent / "golden" / "run.jsonl"


def test_the_lines_of_json_of_a_run_are_as_they_are_kept(headless, project):
    done, _ = headless(PLANNED, "Make a page", "--yes", "--json", *SCHEMA)
    assert (done.returncode, done.stderr) == (0, "")
    found = Names(project).still(done.stdout)
    assert found == kept(GOLDEN, found)


def test_every_line_is_an_object_whose_type_is_documented(headless):
    done, _ = headless(PLANNED, "Make a page", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    page = (DOCS / "json-lines.md").read_text() + (DOCS / "protocol.md").read_text()
    assert {line["type"] for line in lines if f"`{line['type']}`" not in page} == set()
    assert [line["type"] for line in lines].count("run_ended") == 1
    last = lines[-1]
    assert (last["type"], last["exit_code"], done.returncode) == ("run_ended", 3, 3)
    assert last["plan_id"] == next(e["plan_id"] for e in lines if "plan_id" in e)
    (approval_id,) = last["waiting"]
    assert approval_id in done.stderr
    assert last["usage"]["requests"] == 2
