"""`gonogo attach` where nobody is at a terminal: what a session did, and what comes of it yet."""

import json

import pytest

from gonogo.demo import lay_out, run_tests


@pytest.fixture
def project(tmp_path):
    lay_out(tmp_path / "project")
    return tmp_path / "project"


def test_a_session_is_told_in_short_and_its_plan_goes_on_from_there(gonogo, project):
    nothing = gonogo("attach", cwd=project)
    assert (nothing.returncode, "gonogo run TASK" in nothing.stderr) == (1, True)
    gonogo("run", "Fix the test and add a flag", "-C", str(project), "--model", "demo")

    waits = gonogo("attach", cwd=project)
    assert waits.returncode == 3, waits.stderr
    session, *told = waits.stdout.splitlines()
    assert session.endswith(f"in {project}: Fix the test and add a flag")
    assert told[0] == "user: Fix the test and add a flag"
    assert any("is awaiting_approval, 0 of 5" in text for text in told)
    assert any("reproduce: Run the tests" in text for text in told)
    assert "approvals decide" in waits.stderr

    done = gonogo("attach", session.split()[1], "--yes=all", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    events = [json.loads(text) for text in done.stdout.splitlines()]
    seqs = [event["seq"] for event in events if "seq" in event]
    assert seqs == list(range(1, len(seqs) + 1))
    assert "plan_completed" in {event["type"] for event in events}
    assert run_tests(project).passed
    over = gonogo("attach", cwd=project)
    assert (over.returncode, "Completed: 5" in over.stdout) == (0, True)
