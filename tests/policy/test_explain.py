"""What is explained is what happened: the steps that the verdict itself went through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.policy import (
    Conditions,
    Rule,
    RuleText,
    VerdictStage,
    explain,
    make_rule,
    make_rules,
    verdict,
)

HERE = Conditions(workspace="/ws", home="/home/u/.gonogo")
ORDER = [
    VerdictStage.DENY_BUILT_IN,
    VerdictStage.DENY,
    VerdictStage.ASK_BUILT_IN,
    VerdictStage.ASK,
    VerdictStage.ALLOW,
    VerdictStage.GRANT,
]


def _rules(*user, admin=()):
    made = {
        tier: [make_rule(f"{tier}:{n}", RuleText(**rule)) for n, rule in enumerate(rules, 1)]
        for tier, rules in {"admin": admin, "user": user}.items()
    }
    return make_rules(made["admin"], made["user"])


def _call(tool="write_file", tool_class=ToolClass.IDEMPOTENT, **access):
    return Call(
        tool=tool, tool_class=tool_class, agent="coder", arguments={}, access=Access(**access),
        plan_id="p1", revision=1, subtask_id="s1",
    )  # fmt: skip


def _command(text):
    return _call("execute_command", ToolClass.OTHER, command=text)


def _grant(scope=Scope()):  # noqa: B008 - it is frozen
    return Grant(grant_id="g", plan_id="p1", revision=1, subtask_id="s1", scope=scope)


def _steps(call, rules, grant=None, conditions=HERE):
    return explain(call, rules, conditions, grant)[1].steps


def _looks(steps, stage, part=None):
    return [
        (look.rule, look.misfit)
        for step in steps
        if step.stage is stage and part in (None, step.part)
        for look in step.looks
    ]


def test_a_call_that_nothing_speaks_of_goes_through_every_step_in_order():
    steps = _steps(_call(writes=("a",)), _rules())
    assert [step.stage for step in steps] == [*ORDER, VerdictStage.DEFAULT]
    assert steps[-1].decided == "default:idempotent"
    assert [step.decided for step in steps[:-1]] == [None] * 6


@pytest.mark.parametrize(
    ("rule", "misfit"),
    [
        ({"command": "ls"}, "it is about commands"),
        ({"tool": "move_file"}, "it is about the tool 'move_file'"),
        ({"tool": "write_file", "agent": "debug"}, "it is about the agent 'debug'"),
        ({"tool": "write_file", "path": "docs/**"}, "it does not cover 'a'"),
        ({"tool": "write_file"}, None),
    ],
)
def test_each_rule_says_why_it_does_not_fit_a_file(rule, misfit):
    steps = _steps(_call(writes=("a",)), _rules({"decision": "allow", **rule}))
    assert _looks(steps, VerdictStage.ALLOW) == [("user:1", misfit)]


def test_a_rule_that_forbids_says_what_it_did_not_find():
    rules = _rules({"decision": "deny", "path": "docs/**"}, {"decision": "deny", "path": "a"})
    steps = _steps(_call(writes=("a",), deletes=("b",)), rules)
    assert _looks(steps, VerdictStage.DENY) == [
        ("user:1", "it covers none of a, b"),
        ("user:2", None),
    ]
    assert steps[-1].decided == "user:2"
    assert _looks(_steps(_call(), rules), VerdictStage.DENY)[0] == ("user:1", "it covers none of -")
    allows = _rules({"decision": "allow", "tool": "write_file", "path": "a"})
    assert _looks(_steps(_call(), allows), VerdictStage.ALLOW) == [
        ("user:1", "the call touches no path")
    ]


def test_what_stands_after_the_decision_is_not_looked_at():
    rules = _rules(
        {"decision": "allow", "tool": "write_file"},
        {"decision": "allow", "tool": "write_file", "path": "a"},
        admin=[{"decision": "ask", "tool": "write_file"}],
    )
    found, trace = explain(_call(writes=("a",)), rules, HERE, _grant())
    assert (found.rule, trace.looked_at) == ("admin:1", {"admin:1"})


@pytest.mark.parametrize(
    ("rule", "misfit"),
    [
        ({"decision": "deny", "command": "rm"}, "nothing in it begins with 'rm'"),
        ({"decision": "deny", "command": "ls", "exact": True}, "nothing in it is exactly 'ls'"),
        ({"decision": "deny", "path": "infra/**"}, "it names nothing that 'infra/**' covers"),
        ({"decision": "deny", "tool": "write_file"}, "it is about the tool 'write_file'"),
        ({"decision": "deny", "command": "ls -l"}, None),
    ],
)
def test_each_rule_says_why_it_does_not_fit_a_command(rule, misfit):
    steps = _steps(_command("ls -l docs"), _rules(rule))
    assert _looks(steps, VerdictStage.DENY) == [("user:1", misfit)]


def test_a_compound_command_is_explained_part_by_part():
    rules = _rules(
        {"decision": "allow", "tool": "write_file"},
        {"decision": "allow", "command": "ls"},
        {"decision": "allow", "command": "cat", "agent": "debug"},
    )
    steps = _steps(_command("ls -l && cat x"), rules, _grant())
    assert _looks(steps, VerdictStage.ALLOW, "ls -l") == [
        ("user:1", "it is about the tool 'write_file'"),
        ("user:2", None),
    ]
    cat = dict(_looks(steps, VerdictStage.ALLOW, "cat x"))
    assert cat["user:2"] == "'cat x' does not fit: nothing in it begins with 'ls'"
    assert cat["user:3"] == "it is about the agent 'debug'"
    assert _looks(steps, VerdictStage.GRANT, "cat x") == [
        ("grant:p1#s1", "the plan declares no commands")
    ]
    assert (steps[-1].stage, steps[-1].part, steps[-1].decided) == (
        VerdictStage.DEFAULT, "cat x", "default:other",
    )  # fmt: skip


def test_a_rule_that_names_no_command_allows_none_whoever_let_it_through() -> None:
    made = Rule(name="user:1", text=RuleText(decision="allow", tool="execute_command"))
    found, trace = explain(_command("ls -l"), make_rules([], [made]), HERE, None)
    assert (found.decision, found.rule) == ("ask", "default:other")
    assert _looks(trace.steps, VerdictStage.ALLOW) == [("user:1", "it names no command")]


def test_a_rule_that_begins_so_but_may_not_vouch_for_the_rest_says_what_is_not_known():
    rules = _rules({"decision": "allow", "command": "pytest"}, {"decision": "allow", "tool": "x"})
    steps = _steps(_command("pytest -o evil"), rules)
    assert "-o" in (_looks(steps, VerdictStage.ALLOW)[0][1] or "")
    assert _looks(steps, VerdictStage.ALLOW)[1] == ("user:2", "it is about the tool 'x'")


@pytest.mark.parametrize(
    ("scope", "call", "misfit"),
    [
        (Scope(tools=("x",)), _call(writes=("a",)), "the plan does not declare 'write_file'"),
        (Scope(paths=("b",)), _call(writes=("a",)), "the plan does not declare 'a'"),
        (Scope(), _call("read_file", ToolClass.PURE, reads=("a",)), "it needs no grant"),
        (Scope(), _call(writes=("a",)), None),
        (Scope(tools=("x",)), _command("ls"), "the plan does not declare 'execute_command'"),
        (Scope(commands=("cat",)), _command("ls"), "it does not begin with 'cat'"),
        (
            Scope(commands=("bash",)),
            _command("bash x"),
            "'bash' alone can run any code; add what it should run",
        ),
        (Scope(commands=("ls",)), _command("ls"), None),
    ],
)
def test_the_grant_says_why_it_does_not_allow(scope, call, misfit):
    assert _looks(_steps(call, _rules(), _grant(scope)), VerdictStage.GRANT) == [
        ("grant:p1#s1", misfit)
    ]


@pytest.mark.parametrize("text", ["git log", "git log && make", "ls && make"])
def test_every_part_of_a_command_is_asked_about_by_what_is_built_in_before_any_allows_it(text):
    doubts = {"git log": "builtin:untrusted-repository", "make": "builtin:no-sandbox"}
    parts = text.split(" && ")
    wary = Conditions(workspace="/ws", repo_trusted=False, sandboxed=False)
    steps = [step for step in _steps(_command(text), _rules(), None, wary) if step.part]

    looked = [(step.stage, step.part, step.decided) for step in steps[: len(parts)]]
    assert looked == [(VerdictStage.ASK_BUILT_IN, part, doubts.get(part)) for part in parts]
    asks = [part for part in parts if part in doubts]
    decided = [(step.stage, step.part, step.decided) for step in steps[-len(asks) :]]
    assert decided == [(VerdictStage.ASK_BUILT_IN, part, doubts[part]) for part in asks]


@pytest.mark.parametrize(
    ("call", "stage", "name"),
    [
        (_call(writes=(".git/x",)), VerdictStage.DENY_BUILT_IN, "builtin:protected-path"),
        (_call(writes=(".env",)), VerdictStage.ASK_BUILT_IN, "builtin:protected-path"),
        (_command("rm -rf /"), VerdictStage.DENY_BUILT_IN, "builtin:never"),
        (_command("ls \u202e"), VerdictStage.DENY_BUILT_IN, "builtin:spoofing"),
        (_command(" "), VerdictStage.DENY_BUILT_IN, "builtin:empty"),
        (_command("echo $(id)"), VerdictStage.ASK_BUILT_IN, "builtin:unparsed"),
    ],
)
def test_what_is_built_in_decides_in_its_own_step(call, stage, name):
    found, trace = explain(call, _rules(), HERE, None)
    assert (trace.steps[-1].stage, trace.steps[-1].decided, found.rule) == (stage, name, name)


def test_that_nobody_can_be_asked_is_a_step_of_its_own():
    alone = Conditions(workspace="/ws", attended=False)
    found, trace = explain(_call(writes=("a",)), _rules(), alone, None)
    assert (found.decision, found.rule) == ("deny", "default:idempotent")
    assert trace.steps[-1].stage is VerdictStage.UNATTENDED
    allowed = explain(_call("read_file", ToolClass.PURE), _rules(), alone, None)[1]
    assert allowed.steps[-1].stage is VerdictStage.DEFAULT


@given(
    st.sampled_from(["ls", "cat x; rm y", "git push", "pytest && ls", "rm -rf /", "echo $(x)"]),
    st.lists(
        st.fixed_dictionaries(
            {
                "decision": st.sampled_from(["allow", "ask", "deny"]),
                "command": st.sampled_from(["ls", "cat", "git push", "pytest", "rm"]),
            }
        ),
        max_size=4,
    ),
)
def test_the_last_step_is_the_one_that_decided(text, written):
    rules = _rules(*written)
    found, trace = explain(_command(text), rules, HERE, None)
    assert found == verdict(_command(text), rules, HERE, None)
    decided = [step.decided for step in trace.steps if step.decided]
    assert set(found.rule.split("+")) <= set(decided)
    assert trace.steps[-1].decided == decided[-1] in found.rule.split("+")
