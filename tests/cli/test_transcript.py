"""What the commands say, word for word, against what is kept in `golden/`: in a session with one
plan from the task to the rollback, in both languages; and where people and rules are in the way.

`python -m pytest tests/cli/test_transcript.py` with `GONOGO_WRITE_GOLDEN=1` writes it anew after a
change that is meant.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.golden import kept
from fakes.openai_server import fake_openai
from fakes.world import call, calls, plan, run, step, write

GOLDEN = Path(__file__).parent / "golden"
WORK = {
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
TROUBLE = {
    "rules": [
        {
            "when": {"user": "Your subtask (tidy)"},
            "replies": [
                calls(call("delete_file", path="old.txt")),
                calls(run("rm -rf /")),
                calls(write("notes.txt", "tidy\n")),
                {"text": "Tidied."},
            ],
        },
        {
            "when": {"user": "Your subtask (build)"},
            "replies": [
                calls(run("false")),
                calls(call("attempt_completion", result="It does not build", success=False)),
                calls(write("built.txt", "built\n")),
                {"text": "Built."},
            ],
        },
        {"when": {"user": "Carry out this subtask"}, "reply": {"text": "Nothing to do."}},
        {"when": {"user": "What is this?"}, "reply": {"text": "A **project** with `old.txt`."}},
        {
            "when": {"system": "You are the orchestrator", "tools": ["switch_mode"]},
            "replies": [calls(call("switch_mode", mode="architect")), {"text": "So be it."}],
        },
        {
            "when": {"tools": ["create_plan"]},
            "reply": plan(
                {
                    "id": "look",
                    "description": "Look",
                    "tool": "list_files",
                    "inputs": {"path": "."},
                },
                step("tidy", "look", scope={"paths": ["*.txt"], "commands": ["make"]}),
                step(
                    "build",
                    "tidy",
                    approval_required=True,
                    on_reject="skip",
                    retry_policy={"max_attempts": 2, "delay": 0.01, "on": ["logic", "unknown"]},
                ),
                step("never", "build", condition="subtasks.build.status == 'failed'"),
                goal="Tidy and build",
            ),
        },
    ],
    "default": {"text": "Done."},
}
RULES = """
[[rule]]
command = "false"
decision = "allow"
reason = "it does nothing"

[[rule]]
tool = "write_file"
path = "secret/**"
decision = "deny"
reason = "kept for people"

[[review]]
kind = "plan"
approvals = 1
role = "operator"
"""
WORKING = """
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
steer PLAN page "Mind the margins"
steer PLAN check "Hey"
sessions steer SESSION "Hey"
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
STANDING_IN_THE_WAY = """
policy check
policy check -- false
policy check --rules none.toml -- ls
policy explain write_file '{"path": "secret/a.md", "content": ""}'
policy explain -- rm -rf /
policy explain -- "make && curl https://example.org"
policy explain read_file '{"path": ".env"}'
run "What is this?" -C PROJECT
run "What is this?" -C PROJECT --json
run "Tidy up" -C PROJECT --plan-only
plans show PLAN --format yaml
plans show PLAN --timeline
plans edit PLAN
> plan.yaml goal: Tidy and build
plans edit PLAN --from plan.yaml --yes
plans edit PLAN --from none.yaml --yes
plans comment PLAN "Why build?" --subtask build
plans comment PLAN "No" --subtask nobody
plans comment PLAN "Keep a copy" --json
plans revise PLAN
plans comments PLAN
plans diff PLAN
plans diff PLAN --from 7
approvals list --mine
approvals show APPROVAL
approvals decide APPROVAL edit
approvals decide APPROVAL edit --arguments "{"
approvals decide APPROVAL approve --for-session
approvals link APPROVAL
approvals unlink APPROVAL
approvals decide APPROVAL hold
plans show PLAN
plans start PLAN
approvals show APPROVAL
approvals show APPROVAL --json
approvals decide APPROVAL edit --arguments '{"path": ".git/config"}'
approvals decide APPROVAL reject --feedback "Keep it"
approvals list
approvals list --json
approvals decide APPROVAL approve
plans list --json
plans show PLAN
plans wait PLAN --json
plans cancel PLAN --reason "Enough"
approvals list --status all
checkpoints list PLAN
checkpoints diff CHECKPOINT --to CHECKPOINT
> notes.txt mine
rollback PLAN --dry-run --json
rollback PLAN
rollback PLAN --to latest
rollback PLAN --to none
checkpoints show none
audit show --actor local
audit show --session SESSION --after 3 --limit 2
audit show --session none
audit export -o log.jsonl
audit export -o log.jsonl
audit verify --export log.jsonl
audit verify --export none.jsonl
audit anchor
audit verify --anchor "gonogo-anchor nonsense"
audit verify --json
audit prune --before 2000-01-01 --export old.jsonl
policy replay none.toml
policy replay PROJECT/rules.toml
policy replay PROJECT/rules.toml --json
policy suggest
analytics --since nonsense
analytics --session SESSION --json
tool list --json
tool run write_file '{"path": "a.txt"}' -C PROJECT
tool run nothing {}
tool accept none
token create --role nobody --name x
token create --role viewer --name eve
token revoke eve
token list
run "Tidy up" -C PROJECT --unattended
sessions list
sessions show SESSION
attach SESSION
attach none
db migrate
sessions delete none --yes
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
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z| UTC)?"), "<time>"),
    (re.compile(r"\b\d+(?:[.,]\d+)?\s?(?:ms|s|мс|с)\b"), "<seconds>"),
    (re.compile(r'(_seconds|_ms|p50|p90|p99)": [\d.]+'), r'\1": <seconds>'),
]


class Names:
    """What is said, without what differs from run to run; the same thing has the same name."""

    def __init__(self, project: Path) -> None:
        self._place, self._known = str(project.parent), dict[str, str]()

    def still(self, text: str) -> str:
        text = _NAMES.sub(self._name, self._plain(text))
        for pattern, instead in _CHANGING:
            text = pattern.sub(instead, text)
        return text

    def _plain(self, text: str) -> str:
        return text.replace(self._place, "").replace(f"{sys.executable} -m gonogo", "gonogo")

    def _name(self, found: re.Match[str]) -> str:
        return self._known.setdefault(found[0], f"<{found[1] or 'digest'} {len(self._known) + 1}>")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "list.txt").write_text("one\n")
    (folder / "old.txt").write_text("old\n")
    return folder


STORIES = {
    ("work", "en"): (WORK, WORKING),
    ("work", "ru"): (WORK, WORKING),
    ("trouble", "en"): (TROUBLE, STANDING_IN_THE_WAY),
}


@pytest.mark.parametrize(("name", "locale"), STORIES)
def test_what_commands_say_in_a_session_is_as_it_is_kept(gonogo, project, name, locale):
    script, story = STORIES[name, locale]
    (project / "rules.toml").write_text(RULES)
    with fake_openai(script) as provider:
        env = {
            "GONOGO_LOCALE": locale, "COLUMNS": "100", "GONOGO_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "x", "EDITOR": "false",
            "GONOGO_CONFIG": str(project if name == "trouble" else project / "none"),
        }  # fmt: skip
        found = "\n".join(told(gonogo, project, env, story))
    assert found == kept(GOLDEN / f"{name}.{locale}.txt", found)


def told(gonogo, project: Path, env: dict[str, str], story: str) -> Iterator[str]:
    """Each command, what it says, what it says on stderr behind a mark, and its exit code.

    A line that begins with > is a person who writes a file.
    """
    meant, names = (
        {"PROJECT": str(project), "PROJECT/rules.toml": f"{project}/rules.toml"},
        Names(project),
    )
    for line in story.strip().splitlines():
        if env["GONOGO_LOCALE"] != "en" and any(word in line for word in ENGLISH_ONLY):
            continue
        if line.startswith("> "):
            file, _, text = line[2:].partition(" ")
            (project / file).write_text(f"{text}\n")
            continue
        words = [meant.get(word, word) for word in shlex.split(line)]
        done = gonogo(*words, env=env, cwd=project)
        for name, pattern in FOUND.items():
            if seen := re.search(pattern, done.stderr + done.stdout):
                meant[name] = seen[0]
        aside = "".join(f"! {one}\n" for one in done.stderr.splitlines())
        yield names.still(f"$ gonogo {line}\n{done.stdout}{aside}= {done.returncode}\n")
