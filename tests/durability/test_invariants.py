"""The checker itself: each kind of damage is found, under the number of what it breaks."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from durability import story
from durability.invariants import check_invariants
from durability.stage import Stage

DAMAGE = {
    "I01": "UPDATE approvals SET status = 'rejected' WHERE kind = 'plan'",
    "I02": "UPDATE tool_calls SET approval_id = NULL WHERE verdict LIKE '%\"ask\"%'",
    "I03": "UPDATE tool_calls SET started_at = NULL WHERE tool = 'execute_command'",
    "I04": "UPDATE tool_calls SET status = 'started', finished_at = NULL WHERE tool = 'move_file'",
    "I06": "UPDATE tool_calls SET digest = 'sha256:0' WHERE tool = 'write_file'",
    "I07": "DELETE FROM turns WHERE position = 2",
    "I08": "UPDATE tool_calls SET finished_at = NULL WHERE tool = 'edit_file'",
    "I10": "UPDATE tool_calls SET verdict = '{\"decision\": \"deny\"}' WHERE tool = 'edit_file'",
    "I11": "UPDATE plan_revisions SET goal = 'another'",
    "I12": "UPDATE audit SET action = 'odd' WHERE action = 'plan.closed'",
    "I13": "UPDATE events SET body = json_set(body, '$.agent', 'nobody') WHERE seq = 3",
    "I14": "DELETE FROM events WHERE seq = 7",
    "I15": "UPDATE subtasks SET status = 'failed' WHERE subtask_id = 'ask'",
    "I17": "UPDATE approvals SET session_id = 'other' WHERE kind = 'tool'",
    "I20": "UPDATE turns SET status = 'parked'",
    "I23": "DELETE FROM events WHERE type = 'subtask_completed'",
    "I25": "UPDATE plans SET status = 'running'",
    "I35": "UPDATE subtasks SET status = 'waiting_approval' WHERE subtask_id = 'note'",
    "I36": "UPDATE subtasks SET attempt = 3 WHERE subtask_id = 'run'",
    "I37": "UPDATE audit SET actor = 'nobody' WHERE seq = 2",
    "I40": "UPDATE tool_calls SET retry_of = id WHERE tool = 'move_file'",
}


@pytest.fixture(scope="module")
def played(driver: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage(tmp_path_factory.mktemp("played"), driver)
    assert stage.play()["code"] == 0, stage.stderr
    assert stage.violations() == []
    return stage


@pytest.fixture
def stage(played: Stage, tmp_path: Path) -> Stage:
    """The story as it was played, to be damaged."""
    copy = Stage.__new__(Stage)
    copy.folder = tmp_path / "copy"
    shutil.copytree(played.folder, copy.folder)
    copy.workspace = copy.folder / "workspace"
    with closing(sqlite3.connect(copy.database)) as conn, conn:
        conn.execute("UPDATE sessions SET workspace = ?", (str(copy.workspace.resolve()),))
    return copy


def test_what_was_copied_is_as_whole_as_what_was_played(stage: Stage):
    assert numbers(stage) == set()


def numbers(stage: Stage) -> set[str]:
    return {problem.split()[0] for problem in stage.violations()}


@pytest.mark.parametrize("number", DAMAGE)
def test_damage_to_the_database_is_found(stage: Stage, number: str):
    with closing(sqlite3.connect(stage.database)) as conn, conn:
        conn.execute("PRAGMA foreign_keys = OFF")
        conn.execute("CREATE TEMP TABLE other AS SELECT * FROM sessions")
        conn.execute("UPDATE other SET id = 'other', workspace = '/', active_plan_id = NULL,"
                     " last_seq = 0, audit_seq = 0, audit_hash = hex(zeroblob(32))")  # fmt: skip
        conn.execute("INSERT INTO sessions SELECT * FROM other")
        conn.execute(DAMAGE[number])

    assert number in numbers(stage)


def test_a_command_that_ran_once_too_often_is_found(stage: Stage):
    with (stage.workspace / story.LEDGER).open("a") as ledger:
        ledger.write(json.dumps({"command": story.ASKED, "phase": "start"}) + "\n")

    assert numbers(stage) == {"I03"}


def test_a_file_that_is_not_what_was_written_and_one_that_was_left_behind_are_found(stage: Stage):
    (stage.workspace / "left.txt").write_text("other")
    (stage.workspace / "right" / ".gonogo-0123456789abcdef.tmp").write_text("half")

    assert numbers(stage) == {"I21", "I26"}


def test_a_request_to_the_model_with_a_call_that_has_no_result_is_found(stage: Stage):
    requests = stage.folder / "requests.jsonl"
    bodies = [json.loads(line) for line in requests.read_text().splitlines()]
    messages = bodies[-1]["messages"]
    bodies[-1]["messages"] = [m for m in messages if m["role"] != "tool"]
    requests.write_text("".join(json.dumps(body) + "\n" for body in bodies))

    assert numbers(stage) == {"I28"}


def test_a_secret_and_a_database_that_is_none_are_found(stage: Stage, tmp_path: Path):
    told = check_invariants(stage.database, None, (), (), secrets=[story.GOAL])
    (broken := tmp_path / "broken.db").write_bytes(b"no database at all" * 100)

    assert {problem.split()[0] for problem in told} == {"I33"}
    assert check_invariants(broken, None, (), ())[0].startswith("I37 the database cannot be read")
