"""Readers: what is known to only read is allowed where the caller holds it to that."""

import itertools
import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.i18n import told
from gonogo.policy import Conditions, check_command, explain, load_contexts, make_rule, make_rules
from gonogo.policy.programs import _git
from gonogo.policy.rules import RuleText
from gonogo.policy.verdict import PolicyContext

CASES = Path(__file__).parents[1] / "cases"
CONTEXTS = load_contexts(CASES / "policy_contexts.json")
READERS = "builtin:readers"


def _rules(*each):
    made = [make_rule(f"user:{n}", RuleText.model_validate(fields)) for n, fields in each]
    assert not [rule for rule in made if isinstance(rule, str)]
    return make_rules((), made)


def _context(*rules, **conditions):
    rules = _rules(*enumerate(rules, 1))
    held = Conditions(**{"workspace": "/ws", "readers": True, **conditions})
    return PolicyContext(rules=rules, conditions=held)


def _call(command, **access):
    return Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", plan_id="p", revision=1,
        subtask_id="s", arguments={}, access=Access(command=command, **access),
    )  # fmt: skip


def _grant(*commands, network=False):
    scope = Scope(commands=commands, network=network)
    return Grant(grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=scope)


READS = """
ls
ls -la src
cat src/a.py
rg -n x src
grep -rn x .
cat a.py | grep x | head -3
ls && git status; pwd
! grep -q x a || echo no
find . -name '*.py'
git status
git status --short --branch
git diff
git diff --stat HEAD~1
git diff main..side -- src
git diff -- abc123 src/*.py
git log --oneline -5
git log -p -1 abc123
git log --follow --oneline a.py
git show
git show HEAD~2:src/a.py
git blame -L 1,10 src/a.py
git branch --list
git remote
""".strip().splitlines()


@pytest.mark.feature(37)
@pytest.mark.parametrize("command", READS)
def test_what_only_reads_is_allowed_where_it_can_do_nothing_else_and_only_there(command):
    found = check_command(command, _context())
    assert (found.decision, found.rule, found.source) == ("allow", READERS, "rule")
    assert found.read_only
    assert found.network is False
    assert found.run_as

    bare = check_command(command, _context(readers=False))
    assert (bare.decision, bare.rule, bare.read_only) == ("ask", "default:other", False)


MORE = [
    ("touch x", "'touch x' may do more than read"),
    ("ls && touch x", "'touch x' may do more than read"),
    ("pytest", "'pytest' may do more than read"),
    ("ls --unknown", "'ls --unknown' may do more than read"),
    ("cat ../x", "'cat ../x' may do more than read"),
    ("cat .env", "'cat .env' may do more than read"),
    ("find . -delete", "'find . -delete' may do more than read"),
    ("git push", "'git push' may do more than read"),
    ("git remote -v", "'git remote -v' may show a secret under another name"),
    ("git log --follow -p a", "'git log --follow -p a' may show a secret under another name"),
    ("git log -L1,2:a", "'git log -L1,2:a' may show a secret under another name"),
    ("ls; git show abc123", "'git show abc123' may show a secret under another name"),
    ("git show v1-2-gABC123", "'git show v1-2-gABC123' may show a secret under another name"),
    ("git show abc123:a", "'git show abc123:a' may show a secret under another name"),
    ("git show src/*.py", "'git show src/*.py' may show a secret under another name"),
    ("git diff main..abc123", "'git diff main..abc123' may show a secret under another name"),
    ("git diff HEAD:a b", "'git diff HEAD:a b' may show a secret under another name"),
]


@pytest.mark.parametrize(("command", "why"), MORE, ids=[command for command, _ in MORE])
def test_what_may_do_more_or_show_more_asks_as_it_does_anywhere(command, why):
    context = _context()
    found, trace = explain(_call(command), context.rules, context.conditions, None)
    bare, _ = explain(_call(command), context.rules, Conditions(workspace="/ws"), None)

    assert (found.decision, found) == ("ask", bare)
    looks = [look for step in trace.steps if step.stage == "readers" for look in step.looks]
    assert {(look.rule, look.misfit) for look in looks} == {(READERS, why)}
    assert told(why, "ru") == why
    assert told(looks[0].misfit, "ru") != why


RULES = [
    ({"decision": "deny", "command": "ls"}, "ls -la", "deny", "user:1"),
    ({"decision": "ask", "command": "ls"}, "cat a; ls -la", "ask", "user:1"),
    ({"decision": "ask", "tool": "execute_command"}, "ls", "ask", "user:1"),
    ({"decision": "deny", "path": "db/**"}, "cat db/x", "deny", "user:1"),
    ({"decision": "allow", "command": "ls"}, "ls", "allow", "user:1"),
    ({"decision": "allow", "command": "ls"}, "ls | wc -l", "allow", f"user:1+{READERS}"),
    ({"decision": "allow", "command": "touch"}, "ls; touch x", "ask", "default:other"),
]


@pytest.mark.parametrize(("rule", "command", "decision", "by"), RULES)
def test_rules_go_before(rule, command, decision, by):
    found = check_command(command, _context(rule))
    assert (found.decision, found.rule, found.read_only) == (decision, by, READERS in by)


@pytest.mark.parametrize(
    ("conditions", "command", "rule"),
    [
        ({"repo_trusted": False}, "git status", "builtin:untrusted-repository"),
        ({"outside": {"link"}.__contains__}, "cat link", "builtin:outside"),
        ({"matching": lambda pattern: ["a/link"], "outside": {"a/link"}.__contains__}, "cat a/*",
         "builtin:outside"),
        ({"own_programs": {"ls"}}, "ls", "default:other"),
    ],
)  # fmt: skip
def test_what_always_asks_still_asks(conditions, command, rule):
    assert check_command(command, _context(**conditions)).rule == rule


def test_what_nobody_looked_at_and_git_in_a_subfolder_still_ask():
    context = _context()
    for call, rule in (
        (_call("ls", unlooked=("data",)), "builtin:too-many-files"),
        (_call("git status", cwd="sub"), "builtin:git-folder"),
        (_call("ls", network=("a.org",)), "builtin:network"),
    ):
        assert explain(call, context.rules, context.conditions, None)[0].rule == rule


def test_what_asks_for_the_network_is_not_held_to_reading_though_a_plan_has_it():
    context, call = _context(), _call("ls", network=("a.org",))
    found, trace = explain(call, context.rules, context.conditions, _grant(network=("a.org",)))
    assert (found.decision, found.rule) == ("ask", "default:other")
    assert trace.steps[-2].looks[0].misfit == "it needs the network"


def test_beside_what_a_plan_declares_a_reader_has_no_network_and_writes_nothing():
    context, grant = _context(), _grant("ls", "touch", network=True)
    both, _ = explain(_call("ls; cat a"), context.rules, context.conditions, grant)
    assert (both.rule, both.source) == (f"grant:p#s+{READERS}", "grant")
    assert (both.read_only, both.network) == (True, False)

    declared, _ = explain(_call("ls"), context.rules, context.conditions, grant)
    assert (declared.rule, declared.read_only, declared.network) == ("grant:p#s", False, True)
    more, _ = explain(_call("touch x && cat a"), context.rules, context.conditions, grant)
    assert (more.decision, more.read_only) == ("ask", False)


def test_readers_need_nobody_so_they_run_unattended():
    assert check_command("ls", _context(attended=False)).rule == READERS
    assert check_command("touch x", _context(attended=False)).decision == "deny"


def test_of_the_cases_only_those_without_any_rule_are_decided_otherwise_by_readers():
    changed = set()
    for line in (CASES / "commands.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        if not isinstance(case["cmd"], str):
            continue
        context = CONTEXTS[case["policy_context"]]
        looked = replace(context.conditions, outside={"link-to-outside"}.__contains__)
        before = check_command(case["cmd"], replace(context, conditions=looked))
        held = replace(context, conditions=replace(looked, readers=True))
        found = check_command(case["cmd"], held)
        if found.decision != before.decision:
            changed.add((case["policy_context"], case["cmd"]))
    assert changed == {("P0", "ls"), ("P0", "cat README.md")}


# What was committed -----------------------------------------------------------------------------

_AS = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
_VALUES = {"-L": "1,1:a.py", "-S": "KEY", "-G": "KEY", "--diff-filter": "AMDT"}


def _git_run(folder, *words):
    subprocess.run(["git", *_AS, *words], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Secrets in its history, in a merge, in the index and in the folder, and none in `a.py`."""
    folder = tmp_path_factory.mktemp("repository")
    _git_run(folder, "init", "-q", "-b", "main")
    for number, begin in enumerate((None, None, "HEAD~1", None)):
        if begin:
            _git_run(folder, "checkout", "-q", "-b", "side", begin)
        for name in (".env", "deep/.ENV.local", "secrets/x.txt", ".aws/config"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"KEY = 5d1f0c {number} \n")
        (folder / "a.py").write_text(f"shown = {number} \n")
        _git_run(folder, "add", "-A", "-f")
        _git_run(folder, "commit", "-q", "-m", f"Commit {number}")
    _git_run(folder, "checkout", "-q", "main")
    _git_run(folder, "merge", "-q", "-s", "ours", "-m", "Merge", "side")
    (folder / ".env").write_text("KEY = 5d1f0c in the index \n")
    _git_run(folder, "add", "-A", "-f")
    (folder / ".env").unlink()
    (folder / "a.py").write_text("shown = here \n")
    return folder


def _shown(command, folder):
    """What a command shows as a reader, outside of the sandbox; None where it is none."""
    found = check_command(command, _context())
    if found.rule != READERS:
        return None
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", found.run_as or ""], cwd=folder, check=False,
        timeout=60, env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, capture_output=True,
    )  # fmt: skip
    return done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("command", ["git diff", "git log -p", "git show HEAD~1", "git log -p --cc",
                                     "git diff --cached", "git show HEAD:a.py"])  # fmt: skip
def test_the_history_is_shown_without_what_may_hold_secrets(command, repository):
    said = _shown(command, repository)
    assert said is not None
    assert "5d1f0c" not in said
    if command != "git diff --cached":
        assert "shown" in said


def _tried(subcommand):
    """Each option of a subcommand by itself and beside another, with what it may be given."""
    for name, option in _git()[subcommand].options.items():
        value = _VALUES.get(name, "1")
        joined = f"{name}={value}" if name.startswith("--") else f"{name}{value}"
        bare = [name] if option.optional or not option.kinds else []
        for word, more in itertools.product([*bare, *([joined] if option.kinds else [])],
                                            ("", " -p", " HEAD~1")):  # fmt: skip
            yield f"git {subcommand} '{word}'{more}"


@pytest.mark.parametrize(
    "subcommand",
    [
        pytest.param(name, marks=pytest.mark.nightly if name in {"diff", "log", "show"} else ())
        for name in _git()
    ],
)
def test_no_option_of_git_has_a_reader_show_a_secret_that_was_committed(subcommand, repository):
    said = {command: _shown(command, repository) for command in _tried(subcommand)}
    assert [command for command, text in said.items() if text and "5d1f0c" in text] == []


def test_no_id_of_an_object_has_a_reader_show_what_was_in_it(repository):
    listed = subprocess.run(
        ["git", "rev-list", "--all", "--objects", "--no-object-names"], cwd=repository, check=True,
        capture_output=True, text=True, timeout=60,
    ).stdout.split()  # fmt: skip
    for each in (*listed, *(name[:7] for name in listed)):
        for command in (f"git log -p -1 {each}", f"git log -p {each}~1..{each}"):
            assert "5d1f0c" not in (_shown(command, repository) or "")
        for command in (f"git show {each}", f"git diff {each}", f"git diff HEAD {each}^{{tree}}"):
            assert _shown(command, repository) is None
