"""Rules of a session: below those of files, checked as they are, and narrow where a person asks."""

import pytest

from gonogo.domain.tool_calls import Access, Call, ToolClass
from gonogo.policy import (
    ALWAYS_ASK,
    Conditions,
    Rule,
    RuleText,
    kept_rule,
    make_rule,
    make_rules,
    narrowest,
    session_rule,
    verdict,
)

HERE = Conditions(workspace="/ws")


def _call(tool="write_file", tool_class=ToolClass.IDEMPOTENT, agent="coder", **access):
    return Call(
        tool=tool, tool_class=tool_class, agent=agent, arguments={}, access=Access(**access)
    )


def _command(text, **more):
    return _call("execute_command", ToolClass.OTHER, command=text, **more)


def _session(*texts):
    return [session_rule(n, RuleText(**text), "ann") for n, text in enumerate(texts, 1)]


def test_a_sessions_rules_come_after_all_others_and_deny_still_wins():
    allow = {"decision": "allow", "tool": "write_file"}
    files = make_rules((), [make_rule("user:1", RuleText(**allow))])
    both = files.with_session(_session(allow, {"decision": "deny", "path": "a"}))
    assert verdict(_call(writes=("b",)), both, HERE, None).rule == "user:1"
    assert verdict(_call(writes=("a",)), both, HERE, None).rule == "session:2"
    only = make_rules((), ()).with_session(_session(allow))
    assert verdict(_call(writes=("b",)), only, HERE, None).rule == "session:1"
    assert only.where("session:1") == ("of the session, made by ann",)


def test_what_an_approval_binds_changes_with_what_forbids_or_asks_and_not_with_what_allows():
    files = make_rules((), ())
    allow = files.with_session(_session({"decision": "allow", "command": "ls"}))
    asks = files.with_session(_session({"decision": "ask", "command": "ls"}))
    assert allow.version == files.version
    assert len({files.version, asks.version}) == 2
    assert asks.with_session(()).session == asks.session


@pytest.mark.parametrize("command", ["bash", "python -c", "env", "sudo", "xargs", "npx", "ls; id"])
def test_a_sessions_rule_is_refused_as_one_in_a_file_is(command):
    assert isinstance(session_rule(1, RuleText(decision="allow", command=command), "ann"), str)


def test_the_examples_of_a_sessions_rule_are_tried():
    text = RuleText(decision="allow", command="ls", match=("cat x",))
    assert "does not match" in str(session_rule(1, text, "ann"))


def test_a_kept_rule_that_is_not_taken_any_more_allows_nothing_and_forbids_all():
    assert isinstance(kept_rule(1, {"decision": "allow", "command": "ls"}, "ann"), Rule)
    assert kept_rule(1, {"decision": "allow", "command": "bash"}, "ann") is None
    wide = kept_rule(2, {"decision": "deny", "command": "ls; id", "exact": True}, "ann")
    assert wide is not None
    assert (wide.text, wide.name) == (RuleText(decision="deny"), "session:2")
    assert wide.where == "'ls; id' is not one simple command"
    rules = make_rules((), ()).with_session([wide])
    assert verdict(_command("cat x"), rules, HERE, None).rule == "session:2"


@pytest.mark.parametrize(
    ("call", "allowed", "asked"),
    [
        (_command("pytest -q tests"), "pytest -q tests", ["pytest -q", "pytest -q tests x"]),
        (_command("git --no-pager status"), "git status", ["git status -s", "git diff"]),
        (_command("grep 'a b' x"), "grep 'a b' x", ["grep a b x", "grep 'a b' y"]),
    ],
)
def test_the_narrowest_rule_of_a_command_allows_just_its_words(call, allowed, asked):
    text = narrowest(call, ALWAYS_ASK)
    assert isinstance(text, RuleText)
    rules = make_rules((), ()).with_session([session_rule(1, text, "ann")])
    assert verdict(_command(allowed), rules, HERE, None).decision == "allow"
    assert verdict(_command(allowed, agent="debug"), rules, HERE, None).decision == "ask"
    for other in asked:
        assert verdict(_command(other), rules, HERE, None).decision == "ask"


def test_the_narrowest_rule_of_a_file_tool_allows_just_its_path():
    text = narrowest(_call(writes=("src/a",)), ALWAYS_ASK)
    rules = make_rules((), ()).with_session([session_rule(1, text, "ann")])

    def decide(call):
        return verdict(call, rules, HERE, None).decision

    assert decide(_call(writes=("src/a",))) == "allow"
    assert decide(_call(writes=("src/a/b",))) == "ask"
    assert decide(_call(writes=("src/a",), agent="debug")) == "ask"
    assert decide(_call("edit_file", writes=("src/a",))) == "ask"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (_call("delete_file", ToolClass.IDEMPOTENT, deletes=("a",)), "needs approval each time"),
        (_call("drop", ToolClass.IRREVERSIBLE, deletes=("a",)), "needs approval each time"),
        (_command("git push origin main"), "cannot be undone"),
        (_command("rm x"), "cannot be undone"),
        (_command("ls && cat x"), "one simple command"),
        (_command("echo $(id)"), "one simple command"),
        (_call("move_file", writes=("a",), deletes=("b",)), "one path"),
        (_call("mcp_tool"), "one path"),
        (_call(writes=("a[1]",)), "pattern"),
    ],
)
def test_where_no_rule_is_so_narrow_there_is_none(call, why):
    assert why in str(narrowest(call, ALWAYS_ASK))
