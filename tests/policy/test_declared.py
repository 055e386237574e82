"""Before a plan is approved it is known which of its commands ask all the same."""

import pytest

from gonogo.domain.tool_calls import Verdict
from gonogo.policy import (
    Conditions,
    Rules,
    RuleText,
    asks_anyway,
    make_rule,
    make_rules,
    takes_no_more,
)


def found(command: str, *rules: dict, **conditions) -> Verdict | None:
    made = [make_rule(f"user:{n}", RuleText(**rule)) for n, rule in enumerate(rules, 1)]
    assert not [rule for rule in made if isinstance(rule, str)]
    all_of_them = make_rules([], made) if made else Rules()
    return asks_anyway(command, "coder", all_of_them, Conditions(workspace="/", **conditions))


def why(command: str, *rules: dict, **conditions) -> str | None:
    what = found(command, *rules, **conditions)
    return what and what.reason


@pytest.mark.parametrize(
    "command",
    [
        "python -m pytest -q", "pytest", "pytest -q tests", "python3 -m notes", "npm test",
        "make test", "cargo test --release", "ruff check", "git add", "git commit",
        "git status", "npm run build *",
        # More words are needed, or there is no telling.
        "sed", "tar", "cat /ws/a", "git stash",
        # What may not be declared is said elsewhere.
        "bash", "python", "hyperfine x", "a && b",
    ],
)  # fmt: skip
def test_what_runs_as_it_is_declared_is_not_spoken_of(command):
    assert why(command) is None


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("git push", "'git push' is not in the closed set of git commands"),
        ("git checkout -b x", "not in the closed set"),
        ("git commit --amend", "'--amend' is not a known option"),
        ("git branch feature", "one operand too many"),
    ],
)
def test_what_asks_all_the_same_is_said_with_the_reason(command, reason):
    what = found(command)
    assert what is not None
    assert what.decision == "ask"
    assert reason in what.reason


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("rm -rf /", "removes /"),
        ("rm -rf .git", "removes the protected .git"),
        ("systemctl restart x", "systemctl changes the host"),
        ("git config --global a.b c", "changes git's configuration outside this repository"),
    ],
)
def test_what_nobody_can_allow_is_said_to_be_denied(command, reason):
    what = found(command)
    assert what is not None
    assert (what.decision, what.reason) == ("deny", reason)


def test_rules_and_the_place_where_it_runs_count():
    assert why("pytest -q", {"decision": "deny", "command": "pytest", "reason": "no"}) == "no"
    assert why("pytest -q", {"decision": "ask", "command": "pytest", "reason": "look"}) == "look"
    denied = found("pytest -q", {"decision": "deny", "command": "pytest", "reason": "no"})
    assert denied is not None
    assert denied.decision == "deny"
    assert "there is no sandbox" in (why("pytest -q", sandboxed=False) or "")
    assert "an unvetted repository" in (why("git status", repo_trusted=False) or "")
    assert "may not" in (why("pytest -q", max_write_globs=("docs/**",)) or "")
    assert why("pytest -q", max_write_globs=(), writes_barred=True) is None


def test_words_behind_a_command_that_takes_none_ask():
    closed = [name for name in ("whoami", "git stash list") if takes_no_more(name)]
    assert closed == ["whoami", "git stash list"]
    others = ("pytest", "python3 -m notes", "echo", "git remote", "git stash", "bash", "npm test",
              "git push", "cargo test", "uname")  # fmt: skip
    assert [name for name in others if takes_no_more(name)] == []
