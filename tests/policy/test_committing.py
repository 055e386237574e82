"""`git add` and `git commit`: a plan or a person lets them write in the repository, alone."""

import shlex

import pytest

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass, Verdict
from gonogo.policy import Conditions, Rules, RuleText, make_rule, make_rules, verdict

BOTH = ("git add", "git commit")
OFF = [
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.sshCommand=false",
    "core.alternateRefsCommand=", "credential.helper=", "gpg.program=false",
    "gpg.ssh.program=false", "gpg.x509.program=false", "log.showSignature=false",
    "protocol.allow=never", "submodule.recurse=false",
]  # fmt: skip
OFF_IN_WRITING = [
    "core.editor=true", "core.attributesFile=/dev/null", "commit.gpgSign=false", "gc.auto=0",
    "maintenance.auto=false",
]  # fmt: skip


def judge(text: str, *declared: str, rules: Rules | None = None, cwd: str = ".", **more) -> Verdict:
    call = Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", arguments={},
        access=Access(command=text, cwd=cwd), plan_id="p", revision=1, subtask_id="s",
    )  # fmt: skip
    grant = Grant(
        grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=Scope(commands=declared)
    )
    return verdict(call, rules or Rules(), Conditions(workspace="/ws", **more), grant)


@pytest.mark.parametrize(
    "text",
    [
        "git add -A", "git add -u", "git add --all", "git add .", "git add src/a.py docs",
        "git add -- src/a.py", "git add -A -- src", "git add src/*.py", "git add /ws/src",
        "git commit -m x", "git commit -m 'two words; rm x'", "git commit -am x", "git commit -mx",
        "git commit --message=x", "git commit -a -m x -m y", "git commit -m x src/a.py",
        "git commit -m x -- src/a.py", "git commit -m -F", "git --no-pager commit -m x",
        "git add -A && git commit -m x", "git add a; git add b; git commit -qm x",
        "git commit -m x >/dev/null 2>&1",
    ],
)  # fmt: skip
def test_what_a_plan_declares_runs_and_nothing_beside_git_with_it(text):
    found = judge(text, *BOTH)
    assert (found.decision, found.source) == ("allow", "grant"), found.reason
    assert found.git_as == found.run_as
    for part in found.run_as.split("&&"):
        off = _git(*OFF, *OFF_IN_WRITING)
        assert shlex.split(part)[: len(off)] == off


def _git(*settings: str) -> list[str]:
    """git, with these settings in the place of a repository's own."""
    options = [word for setting in settings for word in ("-c", setting)]
    return ["git", "--no-pager", "--no-optional-locks", *options]


def test_git_that_only_reads_starts_nothing_either():
    found = judge("git log", "git log")
    never = ["--no-ext-diff", "--no-textconv", "--no-show-signature"]
    assert shlex.split(found.run_as) == [*_git(*OFF), "log", *never]


@pytest.mark.parametrize(
    "text",
    [
        "git commit -F /etc/passwd", "git commit -F msg", "git commit --file=msg",
        "git commit --no-verify -m x", "git commit -n -m x", "git commit --amend -m x",
        "git commit -c HEAD", "git commit -C HEAD", "git commit -e -m x", "git commit -S -m x",
        "git commit --gpg-sign -m x", "git commit --author=x -m x", "git commit --date=x -m x",
        "git commit -t msg", "git commit --template=msg", "git commit --fixup=HEAD",
        "git commit --trailer=a:b -m x", "git commit --pathspec-from-file=f -m x",
        "git commit --mess=x", "git commit -m", "git commit -uno -m x", "git commit -p -m x",
        "git commit --interactive", "git commit -v -m x", "git commit --allow-empty -m x",
        "git commit -m x ':(exclude)a'", "git commit -m x -- ':!a'", "git commit -m x .env",
        "git commit -m x /etc/passwd", "git commit -m x ../a", "git commit -m *.py",
        "git add -f a", "git add --force a", "git add -p", "git add -i", "git add -e",
        "git add -N a",
        "git add --chmod=+x a", "git add --renormalize .", "git add --pathspec-from-file=f",
        "git add --sparse a", "git add ':(exclude)a' .", "git add ':/'", "git add ':!a'",
        "git add ':^a'", "git add 'a*'", "git add '.en?'", "git add '[.]env'", "git add 'a\\b'",
        "git add .env", "git add secrets/k", "git add x.pem", "git add ../x", "git add /etc/passwd",
        "git add src/*.pem", "git -C sub add -A",
        "git --git-dir=x add -A", "git --work-tree=/ add -A", "git --exec-path=x commit -m x",
        "git --attr-source=x add -A", "git --namespace=x commit -m x",
        "GIT_DIR=x git add -A", "GIT_EDITOR=x git commit", "env GIT_DIR=x git add -A",
        "git --literal-pathspecs add a", "git stage -A", "git rm a", "git mv a b", "git push",
        "git commit-tree x", "git update-index a",
        "git add -A | cat >x",
    ],
)  # fmt: skip
def test_whatever_may_start_something_or_change_what_was_committed_asks(text):
    assert judge(text, *BOTH, "git --git-dir=x", "git -C sub").decision == "ask"


def test_what_git_is_told_to_run_is_denied():
    assert judge("git -c core.hooksPath=h commit -m x", *BOTH).decision == "deny"


@pytest.mark.parametrize("word", [":(top)a", ":!a", "a*", "[.]env", "a\\b"])
@pytest.mark.parametrize("command", BOTH)
def test_what_is_more_to_git_than_a_path_is_named(command, word):
    found = judge(f"{command} {shlex.quote(word)}", *BOTH)
    assert (found.decision, found.rule) == ("ask", "default:other")
    assert found.reason.startswith(f"git reads {word!r} as more than a path")


def test_words_that_ask_are_not_declared_either():
    for text in ("git commit --amend", "git commit --no-verify -m x", "git add -f"):
        assert judge(text, text).decision == "ask"


@pytest.mark.parametrize("text", ["git add -A", "git commit -m x", "git commit --amend -m x"])
def test_what_a_person_is_asked_about_runs_in_the_same_way(text):
    found = judge(text)
    assert (found.decision, found.run_as) == ("ask", None)
    assert found.git_as.endswith(text[4:])
    assert not [setting for setting in OFF if setting not in found.git_as]
    assert "without hooks, filters, an editor or a signature" in found.reason


def test_only_a_sweep_that_nobody_looks_at_leaves_secrets_out():
    for text in ("git add -A", "git add -u", "git add src", "git add -- src"):
        assert "':(exclude,icase,glob)**/'{.env," in judge(text, "git add").git_as
        assert "exclude" not in judge(text).git_as
    assert "exclude" not in judge("git add", "git add").git_as
    assert "exclude" not in judge("git commit -m x src", "git commit").git_as


@pytest.mark.parametrize(
    "text",
    ["git add -A && pytest -q", "git commit -m x; git status", "python3 x.py && git commit -m x",
     "git add -A | tail -n 1"],
)  # fmt: skip
def test_where_something_else_runs_it_does_not(text):
    found = judge(text, *BOTH, "pytest", "python3 x.py", "tail", "git status")
    assert (found.decision, found.rule, found.git_as) == ("ask", "builtin:git-alone", None)
    assert "as separate commands" in found.reason


def test_a_command_that_nobody_understands_is_no_matter_of_git():
    for text in ("git add $(x)", "git add -A > x", "ls", "git push"):
        assert judge(text, *BOTH).git_as is None


def test_no_rule_is_enough():
    rule = make_rule("user:1", RuleText(decision="allow", command="git commit"))
    assert not isinstance(rule, str)
    found = judge("git commit -m x", rules=make_rules([], [rule]))
    assert (found.decision, found.git_as is None) == ("ask", False)
    assert "only a plan or a person" in found.reason


def test_what_is_denied_stays_so_and_an_ask_rule_asks():
    for decision in ("deny", "ask"):
        rule = make_rule("user:1", RuleText(decision=decision, command="git commit"))
        assert not isinstance(rule, str)
        found = judge("git commit -m x", *BOTH, rules=make_rules([], [rule]))
        assert (found.decision, found.rule) == (decision, "user:1")
        assert (found.git_as is None) == (decision == "deny")


@pytest.mark.parametrize(
    ("conditions", "rule"),
    [
        ({"sandboxed": False}, "builtin:no-sandbox"),
        ({"repo_trusted": False}, "builtin:untrusted-repository"),
        ({"cwd": "sub"}, "builtin:git-folder"),
        ({"max_write_globs": ("docs/**",)}, "builtin:profile"),
        ({"max_write_globs": (), "writes_barred": True}, "builtin:profile"),
        ({"auto_approve": False}, "default:other"),
    ],
)
def test_it_asks_where_the_box_cannot_hold_it_or_the_agent_may_not_write(conditions, rule):
    found = judge("git add -A", *BOTH, **conditions)
    assert (found.decision, found.rule) == ("ask", rule)
