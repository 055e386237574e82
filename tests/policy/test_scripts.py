"""Python code of the workspace that a plan declares may be told all but what leads elsewhere."""

import glob
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass, Verdict
from gonogo.execution.agent.gate import leads_out
from gonogo.policy import Conditions, Rules, RuleText, make_rule, make_rules, verdict
from gonogo.policy.command_verdict import names_script, paths_in
from gonogo.policy.kinds import CommandPlace
from gonogo.policy.shell import literal
from gonogo.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for path in (
        "notes/__init__.py", "notes/__main__.py", "notes/cli.py", "notes/sub/__init__.py",
        "tool.py", "tools/check.py", "json.py", "runpy.py", "coverage/__init__.py",
        "coverage/__main__.py", "loose/__main__.py", "src/inner.py", "src/a.txt", ".env",
        "secrets/k", ".venv/bin/pip", "half/__init__.py", "conftest.py", "dirs/x.py/keep",
    ):  # fmt: skip
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/__init__.py").touch()
    (tmp_path / "elsewhere/far.py").touch()
    (root / "far.py").symlink_to(tmp_path / "elsewhere/far.py")
    (root / "farther").symlink_to(tmp_path / "elsewhere")
    (root / "half/__main__.py").symlink_to(tmp_path / "elsewhere/far.py")
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "near.py").symlink_to("tool.py")
    return root


def judge(
    root: Path, text: str, *declared: str, rules: Rules | None = None, cwd: str = ".", **more
) -> Verdict:
    """The verdict on a command of a subtask whose scope declares these beginnings."""
    grant = Grant(
        grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=Scope(commands=declared)
    )
    call = Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", arguments={},
        access=Access(command=text, cwd=cwd), plan_id="p", revision=1, subtask_id="s",
    )  # fmt: skip
    disk = {
        "outside": partial(leads_out, Workspace(root)),
        "matching": lambda pattern: glob.iglob(pattern, root_dir=root),
    }
    conditions = Conditions(workspace=str(root), **{**disk, **more})
    return verdict(call, rules or Rules(), conditions, grant)


TOLD = [
    "hello --json", "--json", "-q -v -n 5", "-c", "-m", "-i", "add note --tag=home", "-osrc/a.txt",
    "--out=src/a.txt", "--out src/a.txt", "-I src", "key=value", "@src/a.txt", "+1", "src/*.py",
    "a:b:c", "--", "-", "-- -x", "--limit=-1", "x,y,z", "100%", "''", "--no-color", "-W error",
]  # fmt: skip


@pytest.mark.spread(5)
@pytest.mark.parametrize("program", ["python", "python3", "python3.12"])
@pytest.mark.parametrize("code", ["-m notes", "tool.py", "./tools/check.py", "-m notes.cli"])
@pytest.mark.parametrize("told", TOLD)
def test_code_of_the_workspace_that_a_plan_declares_is_told_anything(root, program, code, told):
    declared = f"{program} {code}"
    found = judge(root, f"{declared} {told}", declared)
    if told == "-osrc/a.txt":
        # `-o -s -r -c/a.txt` is the same word.
        assert found.decision == "ask"
        return
    assert (found.decision, found.source) == ("allow", "grant"), found.reason


@pytest.mark.parametrize(
    "told",
    [
        "/etc/passwd", "../x", "~/x", "-o/etc/passwd", "-vo/etc/passwd", "--out=/etc/passwd",
        "--out=../x", "-o../x", "-o~/x", "--out/etc/passwd", "key=/etc/passwd", "a:/etc/passwd",
        "@/etc/passwd", "+/etc/passwd", "x,/etc/passwd", "a=b=/etc/passwd", "http://example.org",
        "file:///etc/passwd", ".env", "--env=.env", "-f.env", "-vf.env", "@.env", "a=secrets/k",
        "secrets/k", "-Isecrets/k", "k:id_rsa", "--key=x.pem", "out/far.py", "--in=out/far.py",
        "-iout/far.py", "far.py", "src/../../x", "conftest.py", "--to=Makefile", ".git/config",
        "--to=.git/hooks/pre-commit", "'a b'", "'a;b'", "'a|b'", "'$HOME'", "'`id`'", "'a&b'",
        "'a>b'", "'(a)'", "'a\"b'", "'a\\b'", "!x", "conf*", ".e*", "secrets/*",
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_and_a_word_for_a_shell_ask_all_the_same(root, told):
    found = judge(root, f"python3 -m notes {told}", "python3 -m notes")
    assert found.decision == "ask", found.rule


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        # Python has it loaded, or looks for it among what is installed first.
        ("python3 -m json", "python3 -m json --x"),
        ("python3 -m runpy notes", "python3 -m runpy notes --x"),
        ("python3 -m coverage report", "python3 -m coverage report --x"),
        ("python3 -m loose", "python3 -m loose --x"),
        ("python3 -m pip list", "python3 -m pip list --x"),
        ("python3 -m absent", "python3 -m absent --x"),
        ("python3 -m notes.absent", "python3 -m notes.absent --x"),
        ("python3 -m src.inner", "python3 -m src.inner --x"),
        ("python3 -m notes/cli", "python3 -m notes/cli --x"),
        ("python3 -m 'notes*'", "python3 -m 'notes*' --x"),
        # What a link or a name puts elsewhere, or among what was installed.
        ("python3 far.py", "python3 far.py --x"),
        ("python3 -m far", "python3 -m far --x"),
        ("python3 -m farther", "python3 -m farther --x"),
        ("python3 -m half", "python3 -m half --x"),
        ("python3 out/far.py", "python3 out/far.py --x"),
        ("python3 absent.py", "python3 absent.py --x"),
        ("python3 /usr/bin/pip", "python3 /usr/bin/pip --x"),
        ("python3 ../x.py", "python3 ../x.py --x"),
        ("python3 .venv/bin/pip", "python3 .venv/bin/pip --x"),
        ("python3 conftest.py", "python3 conftest.py --x"),
        ("python3 'tool*'", "python3 'tool*' --x"),
        # Options of the interpreter, and another program.
        ("python3 -m notes", "python3 -i -m notes"),
        ("python3 -m notes", "python3 -W ignore -m notes"),
        ("python3 -m notes", "python3 -mnotes"),
        ("python3 -m notes", "python3 -c pass"),
        ("python3 -m notes", "python3 tool.py --x"),
        ("python3 -m notes", "python3 -m notes.cli --x"),
        ("python3 tool.py", "python3 -X dev tool.py"),
        ("python3 tool.py", "python3 -"),
        ("python3 -mnotes", "python3 -mnotes --x"),
        ("python3 -i tool.py", "python3 -i tool.py --x"),
        ("python3 -m", "python3 -m notes --x"),
        ("python3", "python3 tool.py --x"),
        ("python2 tool.py", "python2 tool.py --x"),
        ("pypy3 tool.py", "pypy3 tool.py --x"),
        ("ruby tool.py", "ruby tool.py --x"),
        ("notes hello", "notes hello --json"),
        # A table is kept.
        ("python3 -m pytest", "python3 -m pytest --pdb"),
        # Where it would be looked for is not known here.
        ("python3 -m notes", "cd src && python3 -m notes --x"),
    ],
)
def test_what_is_no_code_of_the_workspace_is_told_names_and_files_only(root, declared, text):
    found = judge(root, text, declared, "cd src")
    assert found.decision == "ask", found.rule


def test_the_words_behind_it_may_be_declared_too(root):
    assert judge(root, "python3 -m notes add --x", "python3 -m notes add").decision == "allow"
    assert judge(root, "python3 -m notes rm --x", "python3 -m notes add").decision == "ask"


def test_no_pattern_stands_for_the_words_that_were_declared(root):
    (root / "note1").touch()
    assert judge(root, "python3 tool.py 'n*' -x", "python3 tool.py 'n*'").decision == "allow"
    assert judge(root, "python3 tool.py n* -x", "python3 tool.py 'n*'").decision == "ask"


def test_it_is_looked_for_in_the_folder_that_the_command_runs_in(root):
    inner = "python3 -m inner", "python3 inner.py"
    for declared in inner:
        assert judge(root, f"{declared} --x", declared, cwd="src").decision == "allow"
        assert judge(root, f"{declared} --x", declared).decision == "ask"
    assert judge(root, "python3 tool.py --x", "python3 tool.py", cwd="src").decision == "ask"
    inside = f"python3 {root}/tool.py"
    assert judge(root, f"{inside} --in={root}/src/a.txt", inside).decision == "allow"
    assert judge(root, "python3 near.py --x", "python3 near.py").decision == "allow"


def test_a_rule_vouches_for_its_own_words_only(root):
    rule = make_rule("user:1", RuleText(decision="allow", command="python3 -m notes"))
    assert not isinstance(rule, str)
    rules = make_rules([], [rule])
    assert judge(root, "python3 -m notes x", rules=rules).source == "rule"
    assert judge(root, "python3 -m notes --x", rules=rules).decision == "ask"


def test_without_a_sandbox_or_a_look_at_the_disk_it_asks(root):
    declared = "python3 -m notes"
    found = judge(root, f"{declared} --x", declared, sandboxed=False)
    assert (found.decision, found.rule) == ("ask", "builtin:no-sandbox")
    assert judge(root, f"{declared} --x", declared, matching=lambda _: ()).decision == "ask"


def test_the_other_parts_of_a_command_are_covered_by_themselves(root):
    declared = "python3 -m notes"
    assert judge(root, f"{declared} -x | {declared} -y", declared).decision == "allow"
    assert judge(root, f"{declared} -x | sh", declared).decision == "ask"


@pytest.mark.parametrize("text", ["-", "-i", "-c", "../x.py", "/etc/x.py", ".env", ""])
def test_an_option_and_a_path_elsewhere_are_no_file_of_the_workspace(text):
    place = CommandPlace(workspace="/ws", matching=lambda pattern: [pattern])
    here = names_script([literal("python3"), literal("tool.py")], place, lambda path: False)
    there = names_script([literal("python3"), literal(text)], place, lambda path: False)
    assert (here, there) == (2, 0)


@given(head=st.from_regex(r"\A(?:-[a-z]{1,4}|--[a-z-]+=|[a-z]+[=:,@+]|[=@+:,])\Z"))
def test_an_absolute_path_is_found_behind_whatever_stands_before_it(head):
    assert "/etc/passwd" in set(paths_in(f"{head}/etc/passwd"))
