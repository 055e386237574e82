"""A plan's check may run in just its words, where it changes nothing; rules still count."""

import pytest

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.policy import Conditions, Rules, RuleText, check_asks, make_rule, make_rules, verdict

WORDS = "python3 -m pytest -q"


def judged(command=WORDS, words=WORDS, *rules, scope=None, network=(), **conditions):
    made = [make_rule(f"user:{n}", RuleText(**rule)) for n, rule in enumerate(rules, 1)]
    call = Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="gonogo", arguments={},
        access=Access(command=command, network=network), plan_id="p", revision=1, subtask_id="a",
    )  # fmt: skip
    grant = Grant(
        grant_id="g", plan_id="p", revision=1, subtask_id="a", words=words,
        scope=Scope(**scope or {}),
    )  # fmt: skip
    found = make_rules([], made) if made else Rules()
    return verdict(call, found, Conditions(workspace="/ws", **conditions), grant)


@pytest.mark.feature(225)
def test_the_very_words_are_allowed_where_they_change_nothing():
    found = judged()
    assert (found.decision, found.read_only, found.rule) == ("allow", True, "grant:p#a")
    assert (found.source, found.network, found.run_as) == ("grant", False, WORDS)
    # What a rule allows or the scope covers is held to it all the same.
    allowed = judged(WORDS, WORDS, {"decision": "allow", "command": "python3 -m pytest"})
    assert (allowed.decision, allowed.read_only) == ("allow", True)
    wide = judged(scope={"commands": ["python3 -m pytest"], "network": True})
    assert (wide.decision, wide.read_only, wide.network) == ("allow", True, False)


@pytest.mark.feature(225)
@pytest.mark.parametrize("other", [f"{WORDS} tests", "python3 -m pytest", f" {WORDS}", "rm -r x"])
def test_other_words_are_not(other):
    assert judged(other).decision == "ask"
    assert judged(WORDS, None).decision == "ask"


@pytest.mark.feature(225)
@pytest.mark.parametrize(
    ("rule", "decision"),
    [
        ({"decision": "deny", "command": "python3"}, "deny"),
        ({"decision": "ask", "command": "python3"}, "ask"),
    ],
)
def test_rules_that_deny_and_ask_come_first(rule, decision):
    found = judged(WORDS, WORDS, rule)
    assert (found.decision, found.rule) == (decision, "user:1")


@pytest.mark.feature(225)
@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("rm -rf /", "builtin:never"), ("make > log", "builtin:unparsed"),
        ("git commit -m x", "builtin:check"), ("git add -A", "builtin:check"),
    ],
)  # fmt: skip
def test_what_no_plan_allows_no_check_does(command, rule):
    found = judged(command, command)
    assert (found.decision == "allow", found.rule) == (False, rule)


def test_a_check_reaches_nothing():
    hosts = ("example.org",)
    wide = {"network": ["example.org"]}
    assert judged(network=hosts, scope=wide).rule == "builtin:check"
    assert judged(network=hosts).rule == "builtin:network"


def test_conditions_that_ask_still_ask():
    assert judged(sandboxed=False).rule == "builtin:no-sandbox"
    assert judged("git status", "git status", repo_trusted=False).decision == "ask"
    assert judged(auto_approve=False).decision == "ask"
    assert judged(attended=False, auto_approve=False).decision == "deny"


def reason_of(text: str, conditions: Conditions) -> str:
    found = check_asks(text, "gonogo", Rules(), conditions)
    return found.reason if found else ""


def test_before_a_plan_is_approved_it_is_known_which_checks_ask():
    conditions = Conditions(workspace="/")
    assert check_asks(WORDS, "gonogo", Rules(), conditions) is None
    assert "not understood" in reason_of("a > b", conditions)
    apart = Conditions(workspace="/", sandboxed=False)
    assert "no sandbox" in reason_of(WORDS, apart)
    assert "outside" in reason_of("ls", apart)
