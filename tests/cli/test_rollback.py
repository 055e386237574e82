"""`gonogo checkpoints` and `gonogo rollback`, after a run of the sample project."""

import json
from pathlib import Path

import pytest

from gonogo.domain.plan_views import Changes, CheckpointDiff, RollbackView


def changes_are_shown(gonogo, plan, env):
    shown = gonogo("changes", plan["plan_id"], env=env)
    names = gonogo("changes", "--session", plan["session_id"], "--stat", env=env)
    facts = gonogo("changes", plan["plan_id"], "--file", "README.md", "--json", env=env)

    [readme] = Changes.model_validate_json(facts.stdout).files
    assert (readme.status, readme.withheld) == ("modified", None)
    assert f"modified  README.md  +{readme.lines_added} −{readme.lines_removed}" in shown.stdout
    assert readme.diff in shown.stdout
    assert readme.diff.splitlines()[0] not in names.stdout
    assert names.stdout.splitlines()[0].startswith("files: ")


def what_is_rolled_back_is_shown(gonogo, plan, env):
    shown = gonogo("plans", "show", plan["plan_id"], env=env).stdout
    [row] = gonogo("plans", "list", env=env).stdout.splitlines()[1:]
    drawn = gonogo("plans", "show", plan["plan_id"], "--graph", env=env).stdout
    told = gonogo("attach", plan["session_id"], env=env).stdout
    assert "completed (rolled back: 4 of 5)" in shown.splitlines()[0]
    assert (shown.count(". ↶ "), shown.count(" · rolled back\n")) == (4, 4)
    assert row.split("\t")[1:3] == ["completed (rolled back: 4 of 5)", "1/5"]
    assert "[rolled back" in drawn
    assert "completed (rolled back: 4 of 5), 1 of 5 done" in told


@pytest.mark.feature(239)
def test_what_the_demo_did_is_shown_listed_and_undone(gonogo, tmp_path):
    (tmp_path / "t").mkdir()
    gonogo("demo", "--yes", env={"TMPDIR": str(tmp_path / "t"), "GONOGO_HOME": ""}, whole=True)
    [folder] = Path(tmp_path / "t").glob("gonogo-demo-*")
    env = {"GONOGO_HOME": f"{folder}/state"}
    [plan] = json.loads(gonogo("plans", "list", "--json", env=env).stdout)["plans"]
    listed = gonogo("checkpoints", "list", plan["plan_id"], env=env)
    first = listed.stdout.splitlines()[1].split("\t")
    shown = gonogo("checkpoints", "show", first[0], env=env)

    diff = gonogo("checkpoints", "diff", first[0], env=env)
    between = gonogo("checkpoints", "diff", first[0], "--to", first[0], "--json", env=env)

    changes_are_shown(gonogo, plan, env)
    latest = gonogo("rollback", plan["plan_id"], "--to", "latest", "--dry-run", env=env)
    whole = gonogo("rollback", plan["plan_id"], "--dry-run", "--json", env=env)
    dry = gonogo("rollback", plan["plan_id"], "--to", first[0], "--dry-run", env=env)
    done = gonogo("rollback", plan["plan_id"], "--to", first[0], "--json", env=env)

    assert listed.stdout.splitlines()[0] == "checkpoint\tcreated\tsnapshot\ttaken"
    assert "verified" in shown.stdout
    assert diff.stdout.startswith(f"{first[0]} → the workspace now\nmodified README.md\n")
    assert "\n    @@ " in diff.stdout
    assert CheckpointDiff.model_validate_json(between.stdout).files == []
    assert f"gonogo checkpoints list {plan['plan_id']}" in latest.stdout
    assert "would be restored." in dry.stdout
    assert RollbackView.model_validate_json(whole.stdout).restored > 0
    assert done.returncode == 0, done.stderr
    view = RollbackView.model_validate_json(done.stdout)
    assert view.restored > 0
    assert not view.dry_run
    what_is_rolled_back_is_shown(gonogo, plan, env)


def test_an_unknown_plan_is_said_to_be_unknown(gonogo):
    done = gonogo("rollback", "plan_none")

    assert done.returncode == 1
    assert "No plan found with id=plan_none" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give the id of a plan, or --session ID"),
        (("p", "--session", "s"), "give the id of a plan, or --session ID"),
        (("--session", "s", "--subtask", "a"), "--subtask needs the id of a plan"),
    ],
)
def test_whose_changes_are_meant_has_to_be_said(gonogo, words, said):
    done = gonogo("changes", *words)

    assert (done.returncode, said in " ".join(done.stderr.split())) == (2, True)
