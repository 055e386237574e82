"""`gonogo demo`: from a failing test to a green one, on a copy of the sample, without a key."""

import re
from pathlib import Path

import pytest

from gonogo.demo import run_tests


def folder_in(text: str) -> Path:
    found = re.search(r"(\S+gonogo-demo-\S+?)/tally", text)
    assert found, text
    return Path(found[1])


@pytest.fixture
def temporary(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "t").mkdir()
    return {"TMPDIR": str(tmp_path / "t"), "GONOGO_HOME": ""}


def test_yes_runs_the_whole_path_and_ends_with_the_tests_green(gonogo, temporary):
    done = gonogo("demo", "--yes", env=temporary, whole=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED (failures=1)" in done.stdout
    assert "OK" in done.stdout
    # It is a cassette: if this fails, scripts/demo_cassettes.py makes it anew.
    assert "20 of 20 requests to the model were the recorded ones, byte for byte" in done.stdout
    folder = folder_in(done.stdout)
    assert run_tests(folder / "tally").passed
    assert f"GONOGO_HOME={folder}/state" in done.stdout
    verified = gonogo("audit", "verify", env={"GONOGO_HOME": f"{folder}/state"})
    assert verified.returncode == 0, verified.stderr


def test_at_a_terminal_the_plan_and_the_command_are_asked(terminal, temporary):
    at = terminal("demo", env=temporary)
    assert "json_flag" in at.expect("[a] approve")
    at.type("a\n")
    assert "python3 -m tally expenses.csv --json" in at.expect("[a] approve")
    at.type("r\n")
    at.expect("Why")
    at.type("\n")
    assert at.end() == 4
    # Who goes another way is answered by the story.
    assert "19 of 20 requests to the model were the recorded ones" in at.output
    assert "gonogo audit verify" in at.output


def test_without_a_terminal_it_waits_for_a_person(gonogo, temporary):
    done = gonogo("demo", env=temporary)
    assert done.returncode == 3
    assert "FAILED (failures=1)" in done.stdout


def test_an_interrupted_demo_leaves_no_folder(terminal, temporary):
    at = terminal("demo", env=temporary)
    at.expect("[a] approve")
    at.interrupt()
    at.expect("The sample project was removed")
    assert at.end(20) == 130
    assert list(Path(temporary["TMPDIR"]).glob("gonogo-demo-*")) == []


@pytest.mark.feature(217)
def test_the_demo_speaks_russian(gonogo, temporary):
    done = gonogo("demo", "--yes", env={**temporary, "GONOGO_LOCALE": "ru"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "План одобрен. Начинаю выполнение 5 подзадач..." in done.stdout
    assert "из них совпали с записанными до байта: 20" in done.stdout
