"""What every command says in a session with one plan, from the task to the rollback, in both
languages, against what is kept in `golden/`.

`python -m pytest tests/cli/test_transcript.py` with `GONOGO_WRITE_GOLDEN=1` writes it anew after a
change that is meant.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.openai_server import fake_openai
from fakes.world import call, calls, plan, run, step, write

GOLDEN = Path(__file__).parent / "golden"
SCRIPT = {
    "rules": [
        {
            "when": {"user": "Your subtask (page)"},
            "replies": [calls(write("page.txt")), calls(run("printf page")), {"text": "Made."}],
        },
        {
            "when": {"user": "Your subtask (list)"},
            "replies": [
                calls(call("edit_file", path="list.txt", old="one\n", new="two\n")),
                {"text": "It has two lines now."},
            ],
        },
        {"when": {"user": "Your subtask (check)"}, "reply": {"text": "All is well."}},
        {
            "when": {"system": "You are the orchestrator", "tools": ["switch_mode"]},
            "replies": [calls(call("switch_mode", mode="architect")), {"text": "It is done."}],
        },
        {
            "when": {"tools": ["create_plan"]},
            "reply": plan(
                step("page", estimated_time="10 min"),
                step("list", "page", scope={"paths": ["list.txt"]}, timeout=120),
                step("check", "list", agent="ask", condition="subtasks.list.status == 'completed'"),
                goal="A page",
            ),
        },
    ],
    "default": {"text": "Done."},
}
STORY = """
sessions list
run "Build it" -C PROJECT
sessions list
sessions list --json
sessions show SESSION
sessions show SESSION --json
plans list
plans show PLAN
plans show PLAN --graph
plans show PLAN --json
plans comment PLAN "Why a list?" --subtask list
plans comments PLAN
plans comments PLAN --json
plans start PLAN
plans wait PLAN
approvals list
approvals list --json
approvals show APPROVAL
approvals show APPROVAL --json
approvals decide APPROVAL approve
plans show PLAN
plans pause PLAN
plans show PLAN
plans resume PLAN
approvals show APPROVAL
approvals decide APPROVAL approve --for-session
policy list SESSION
policy list SESSION --json
plans show PLAN
plans show PLAN --json
plans list --status completed
plans wait PLAN
plans diff PLAN --from 1 --to 1
plans cancel PLAN
attach
attach --json
checkpoints list PLAN
checkpoints list PLAN --json
checkpoints show CHECKPOINT
checkpoints show CHECKPOINT --json
checkpoints diff CHECKPOINT
audit show
audit show --json
audit show --action tool.
audit verify
audit verify --session SESSION
analytics
analytics --json
rollback PLAN --dry-run
rollback PLAN --subtask list
rollback PLAN
rollback PLAN --json
plans show PLAN
sessions show SESSION
policy check -- git push --force
policy check -- "cat list.txt | sort"
policy explain -- git push --force
policy explain write_file '{"path": "a.md", "content": ""}' --agent debug
policy add SESSION allow --command "pytest -q"
policy add SESSION deny --tool write_file --path "docs/**"
policy list SESSION
policy remove SESSION session:2
policy remove SESSION session:9
policy suggest --min 1
token create --role operator --name ci
token list
token list --json
token revoke nobody
tool list
tool run list_files {} -C PROJECT
tool run read_file '{"path": "none"}' -C PROJECT
sessions delete SESSION
sessions delete SESSION --yes
plans show PLAN
plans pause p_none
approvals decide none approve
audit verify
"""
FOUND = {
    "SESSION": r"\bs_[0-9a-f]{16,}\b",
    "PLAN": r"\bplan_[0-9a-f]{16,}\b",
    "APPROVAL": r"(?<=approvals decide )\S+",
    "CHECKPOINT": r"\bcheckpoint_[0-9a-f]{16,}\b",
}
"""What later commands are about, by how it is written; the last one that was named."""
ENGLISH_ONLY = ("--json", "policy ", "token ", "tool ", "audit ")
_NAMES = re.compile(r"\b([a-z]+)_[0-9a-f]{16,}\b|\b()(?:sha256:)?[0-9a-f]{32,64}\b|gng_()[\w-]{43}")
_CHANGING = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z| UTC)"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s)\b"), "<seconds>"),
    (re.compile(r'(_seconds|_ms|p50|p90|p99)": [\d.]+'), r'\1": <seconds>'),
]


class Names:
    """What is said, without what differs from run to run; the same thing has the same name."""

    def __init__(self, project: Path) -> None:
        self._project, self._known = str(project), dict[str, str]()

    def still(self, text: str) -> str:
        text = _NAMES.sub(self._name, self._plain(text))
        for pattern, instead in _CHANGING:
            text = pattern.sub(instead, text)
        return text

    def _plain(self, text: str) -> str:
        return text.replace(self._project, "/project").replace(
            f"{sys.executable} -m gonogo", "gonogo"
        )

    def _name(self, found: re.Match[str]) -> str:
        return self._known.setdefault(found[0], f"<{found[1] or 'digest'} {len(self._known) + 1}>")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "list.txt").write_text("one\n")
    return folder


@pytest.mark.parametrize("locale", ["en", "ru"])
def test_a_session_is_told_as_it_is_kept(gonogo, project, locale):
    with fake_openai(SCRIPT) as provider:
        env = {
            "GONOGO_LOCALE": locale, "COLUMNS": "100", "GONOGO_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "x",
        }  # fmt: skip
        found = "\n".join(told(gonogo, project, env))
    kept = GOLDEN / f"session.{locale}.txt"
    if os.environ.get("GONOGO_WRITE_GOLDEN"):
        kept.write_text(found)
    assert found == kept.read_text()


def told(gonogo, project: Path, env: dict[str, str]) -> Iterator[str]:
    """Each command, what it says, what it says on stderr behind a mark, and its exit code."""
    meant, names = {"PROJECT": str(project)}, Names(project)
    for line in STORY.strip().splitlines():
        if env["GONOGO_LOCALE"] != "en" and any(word in line for word in ENGLISH_ONLY):
            continue
        words = [meant.get(word, word) for word in shlex.split(line)]
        done = gonogo(*words, env=env, cwd=project)
        for name, pattern in FOUND.items():
            if seen := re.search(pattern, done.stderr + done.stdout):
                meant[name] = seen[0]
        aside = "".join(f"! {one}\n" for one in done.stderr.splitlines())
        yield names.still(f"$ gonogo {line}\n{done.stdout}{aside}= {done.returncode}\n")
