"""The GitHub workflow of the examples: its steps, run here as a runner runs them."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from fakes.reader import Reader

FOLDER = Path(__file__).parent.parent.parent / "examples" / "github-action"
WORKFLOW = yaml.safe_load((FOLDER / "gonogo.yml").read_text("utf-8"))


def steps_of(job: str) -> list[dict[str, Any]]:
    return WORKFLOW["jobs"][job]["steps"]


def scripts_of(job: str) -> list[str]:
    """What a job runs; what it installs is here already."""
    return [s["run"] for s in steps_of(job) if "run" in s and s["name"] != "Install"]


def test_no_text_of_a_person_becomes_shell_code() -> None:
    runs = [step["run"] for job in WORKFLOW["jobs"] for step in steps_of(job) if "run" in step]

    assert len(runs) == 6
    assert [run for run in runs if "${{" in run] == []


def test_the_plan_is_made_in_one_job_and_carried_out_in_the_next(at_home: Reader) -> None:
    project = at_home.folder / "src" / "my-project"
    at_home.environment |= {
        **{k: v for k, v in WORKFLOW["env"].items() if "${{" not in v and k != "GONOGO_HOME"},
        "CI": "true",
        "GITHUB_STEP_SUMMARY": str(at_home.folder / "summary"),
        "TASK": 'Add a --json flag; $(touch "$HOME/injected")',
    }
    at_home.run(f"cd {project}")

    for script in scripts_of("plan"):
        at_home.run(script)

    assert "Add the flag" in (at_home.folder / "summary").read_text()
    assert (project / "out" / "audit.jsonl").exists()
    assert not (at_home.folder / "injected").exists()
    assert not (project / "tally" / "flag.py").exists()

    # The second job is another machine: only the artifact comes along.
    (project / "out").rename(project / "approved")
    at_home.environment["GONOGO_HOME"] = str(at_home.folder / "second")
    for script in scripts_of("work"):
        at_home.run(script)

    out = project / "out"
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    patch = (out / "changes.patch").read_text()
    audit = [json.loads(line) for line in (out / "audit.jsonl").read_text().splitlines()]
    assert [e["type"] for e in events if e["type"] == "plan_completed"] == ["plan_completed"]
    assert set(re.findall(r"^\+\+\+ b/(\S+)", patch, re.MULTILINE)) == {
        "README.md", "tally/flag.py",
    }  # fmt: skip
    assert "plan.written" in {entry.get("action") for entry in audit}
    assert audit[-1]["end"]["entries"] == len(audit) - 1
