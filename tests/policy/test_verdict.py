"""The verdict's order: built-in deny, deny, ask, allow, the plan's grant, the default."""

import pytest
from msgspec.structs import replace

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.policy import Conditions, Rules, RuleText, make_rule, make_rules, verdict

HERE = Conditions(workspace="/ws", home="/home/u/.gonogo")
CLASSES = {
    "read_file": ToolClass.PURE,
    "write_file": ToolClass.IDEMPOTENT,
    "move_file": ToolClass.OTHER,
    "delete_file": ToolClass.IRREVERSIBLE,
    "execute_command": ToolClass.OTHER,
    "create_plan": ToolClass.CONTROL,
}


def _rules(*admin, user=()) -> Rules:
    tiers = {"admin": admin, "user": user}
    made = {
        tier: [make_rule(f"{tier}:{n}", RuleText(**rule)) for n, rule in enumerate(rules, 1)]
        for tier, rules in tiers.items()
    }
    assert not [rule for rules in made.values() for rule in rules if isinstance(rule, str)]
    return make_rules(made["admin"], made["user"])


def _call(tool, *, agent="coder", planned=True, **access) -> Call:
    plan = {"plan_id": "p1", "revision": 1, "subtask_id": "s1"} if planned else {}
    tool_class = CLASSES.get(tool, ToolClass.OTHER)
    return Call(
        tool=tool, tool_class=tool_class, agent=agent, arguments={}, access=Access(**access), **plan
    )


def _write(path, **fields):
    return _call("write_file", writes=(path,), **fields)


def _command(text, **fields):
    return _call("execute_command", command=text, **fields)


def _grant(scope=Scope(), **fields):  # noqa: B008 - it is frozen
    given = {"grant_id": "g", "plan_id": "p1", "revision": 1, "subtask_id": "s1", **fields}
    return Grant(scope=scope, **given)


def _decide(call, *, rules=None, grant=None, conditions=HERE):
    return verdict(call, rules or Rules(), conditions, grant)


def _with(**fields):
    return Conditions(**{"workspace": "/ws", **fields})


@pytest.mark.parametrize(
    ("call", "decision", "rule"),
    [
        (_call("read_file", reads=("a",)), "allow", "default:pure"),
        (_call("create_plan"), "allow", "default:control"),
        (_write("a"), "ask", "default:idempotent"),
        (_call("delete_file", deletes=("a",)), "ask", "default:irreversible"),
        (_command("ls"), "ask", "default:other"),
        (_call("mcp_tool"), "ask", "default:other"),
    ],
)
def test_without_rules_and_plan_only_what_changes_nothing_is_allowed(call, decision, rule):
    found = _decide(call)
    assert (found.decision, found.rule) == (decision, rule)


def test_an_unknown_tool_is_denied():
    found = _decide(_write("a"), conditions=_with(tools=frozenset({"read_file"})), grant=_grant())
    assert (found.decision, found.rule) == ("deny", "builtin:unknown-tool")
    known = _decide(_call("read_file"), conditions=_with(tools=frozenset({"read_file"})))
    assert known.decision == "allow"


@pytest.mark.parametrize("decision", ["deny", "ask", "allow"])
def test_a_rule_decides_before_the_plan(decision):
    rules = _rules({"decision": decision, "tool": "write_file", "path": "src/**"})
    found = _decide(_write("src/a.py"), rules=rules, grant=_grant())
    assert (found.decision, found.rule, found.source) == (decision, "admin:1", "rule")
    assert _decide(_write("b.py"), rules=rules, grant=_grant()).source == "grant"


def test_deny_beats_ask_beats_allow_whoever_wrote_them():
    allow, ask, deny = ({"decision": d, "tool": "write_file"} for d in ("allow", "ask", "deny"))
    assert _decide(_write("a"), rules=_rules(allow, user=[ask, deny])).rule == "user:2"
    assert _decide(_write("a"), rules=_rules(allow, user=[ask])).rule == "user:1"
    assert _decide(_write("a"), rules=_rules(allow, user=[allow])).rule == "admin:1"


def test_a_rule_for_another_agent_does_not_apply():
    rules = _rules({"decision": "allow", "tool": "write_file", "agent": "debug"})
    assert _decide(_write("a"), rules=rules).decision == "ask"
    assert _decide(_write("a", agent="debug"), rules=rules).decision == "allow"


def test_an_allowing_path_rule_must_cover_each_path_and_a_denying_one_any():
    move = _call("move_file", writes=("src/b",), deletes=("old/a",))
    allow = _rules({"decision": "allow", "tool": "move_file", "path": "src"})
    assert _decide(move, rules=allow).decision == "ask"
    assert _decide(move, rules=_rules({"decision": "deny", "path": "old/**"})).decision == "deny"
    assert (
        _decide(_call("mcp"), rules=_rules({"decision": "deny", "path": "old"})).decision == "ask"
    )


@pytest.mark.feature(37)
def test_inside_a_plan_delete_always_asks_and_commands_ask_unless_declared():
    scope = Scope(tools=("delete_file", "execute_command"), commands=("pytest -q",))
    delete = _decide(_call("delete_file", deletes=("a",)), grant=_grant(scope))
    assert delete.decision == "ask"
    assert "needs approval each time" in delete.reason
    assert _decide(_command("pytest -q tests"), grant=_grant(scope)).decision == "allow"
    assert _decide(_command("pytest tests"), grant=_grant(scope)).decision == "ask"
    assert _decide(_command("pytest -q; ls"), grant=_grant(scope)).decision == "ask"
    assert _decide(_command("pytest -q"), grant=_grant()).decision == "ask"


def test_an_operator_may_shorten_the_list_of_what_always_asks():
    free = _with(always_ask=frozenset())
    delete = _call("delete_file", deletes=("a",))
    assert _decide(delete, conditions=free, grant=_grant()).decision == "allow"


@pytest.mark.feature(205)
def test_inside_its_scope_a_subtask_is_not_asked_and_outside_it_the_question_names_it():
    grant = _grant(Scope(tools=("write_file",), paths=("src/**", "README.md")))
    assert _decide(_write("src/a/b.py"), grant=grant).rule == "grant:p1#s1"
    moving = _grant(Scope(tools=("move_file",), paths=("src/**",)))
    for source, decision in (("src/old.py", "allow"), ("old.py", "ask")):
        move = _call("move_file", writes=("src/new.py",), deletes=(source,))
        assert _decide(move, grant=moving).decision == decision
    assert _decide(_write("README.md"), grant=grant).source == "grant"
    outside = _decide(_write("docs/a.md"), grant=grant)
    assert outside.decision == "ask"
    assert "scope of subtask 's1'" in outside.reason
    assert _decide(_call("move_file", writes=("src/x",)), grant=grant).decision == "ask"
    assert "scope of subtask 's1'" in _decide(_command("ls"), grant=grant).reason


def test_an_undeclared_scope_is_files_anywhere_and_no_commands():
    assert _decide(_write("any/where.py"), grant=_grant()).source == "grant"
    assert _decide(_command("ls"), grant=_grant()).decision == "ask"
    assert _decide(_call("mcp_tool"), grant=_grant()).decision == "ask"
    assert _decide(_call("mcp_tool"), grant=_grant(Scope(tools=("mcp_tool",)))).decision == "allow"


def test_an_empty_list_of_a_scope_is_none_and_one_that_is_left_out_is_all():
    nowhere, toolless = _grant(Scope(paths=())), _grant(Scope(tools=()))
    assert _decide(_write("a"), grant=nowhere).decision == "ask"
    assert _decide(_write("a"), grant=toolless).decision == "ask"
    assert _decide(_write("a"), grant=_grant(Scope(tools=(), paths=("a",)))).decision == "ask"
    assert _decide(_write("a"), grant=_grant(Scope(tools=("write_file",)))).decision == "allow"
    run, words = _command("pytest -q"), ("pytest -q",)
    assert _decide(run, grant=_grant(Scope(paths=(), commands=words))).decision == "allow"
    assert _decide(run, grant=_grant(Scope(tools=(), commands=words))).decision == "ask"
    named = _grant(Scope(tools=("mcp_tool",), paths=()))
    assert _decide(_call("mcp_tool"), grant=named).decision == "allow"


@pytest.mark.feature(32, 36, 205)
@pytest.mark.parametrize("other", [{"plan_id": "p2"}, {"revision": 2}, {"subtask_id": "s2"}])
def test_a_grant_of_something_else_allows_nothing(other):
    assert _decide(_write("a"), grant=_grant(**other)).decision == "ask"
    assert _decide(_write("a", planned=False), grant=_grant()).decision == "ask"


@pytest.mark.feature(35)
def test_without_auto_approval_a_plan_allows_nothing():
    found = _decide(_write("a"), grant=_grant(), conditions=_with(auto_approve=False))
    assert found.decision == "ask"


def test_a_scope_cannot_declare_what_no_rule_may():
    scope = Scope(commands=("bash", "python -c", "pytest -q"))
    for text in ("bash x.sh", "python -c pass"):
        assert _decide(_command(text), grant=_grant(scope)).decision == "ask"


def test_a_scope_vouches_for_its_own_words_only():
    scope = Scope(commands=("ruff check --fix", "cargo test --release", "git push"))
    allowed = _decide(
        _command("ruff check --fix src && cargo test --release x"), grant=_grant(scope)
    )
    assert (allowed.decision, allowed.source) == ("allow", "grant")
    assert allowed.run_as == "ruff check --fix src && cargo test --release x"
    for text in ("ruff check --fix --add-noqa", "cargo test --release --config=x",
                 "cargo test --release /etc", "git push"):  # fmt: skip
        assert _decide(_command(text), grant=_grant(scope)).decision == "ask"


def test_a_pattern_does_not_stand_for_the_words_that_were_allowed():
    scope = Scope(commands=("cargo 'a*'",))
    assert _decide(_command("cargo 'a*'"), grant=_grant(scope)).decision == "allow"
    assert _decide(_command("cargo a*"), grant=_grant(scope)).decision == "ask"


def test_a_scope_without_the_command_tool_allows_no_command():
    scope = Scope(tools=("write_file",), commands=("pytest",))
    assert _decide(_command("pytest"), grant=_grant(scope)).decision == "ask"


def test_rules_and_the_plan_may_cover_a_command_together():
    rules = _rules({"decision": "allow", "command": "tail"})
    grant = _grant(Scope(commands=("pytest",)))
    found = _decide(_command("pytest -q | tail -n 5"), rules=rules, grant=grant)
    assert (found.decision, found.source, found.rule) == ("allow", "grant", "grant:p1#s1+admin:1")


def test_a_command_rule_says_nothing_of_files_and_a_file_rule_may_forbid_commands():
    rules = _rules(
        {"decision": "allow", "command": "cat"},
        {"decision": "deny", "path": "infra/**"},
        {"decision": "ask", "tool": "execute_command", "agent": "debug"},
    )
    assert _decide(_write("a"), rules=rules).decision == "ask"
    assert _decide(_command("cat infra/x"), rules=rules).decision == "deny"
    assert _decide(_command("cat x", cwd="infra"), rules=rules).decision == "deny"
    assert _decide(_command("cat x"), rules=rules).decision == "allow"
    assert _decide(_command("cat x", agent="debug"), rules=rules).rule == "admin:3"


@pytest.mark.parametrize("path", [".git/config", ".gonogo/x", ".bashrc", "a/.vscode/settings.json"])
def test_protected_paths_are_denied_whatever_allows_them(path):
    rules = _rules({"decision": "allow", "tool": "write_file"})
    found = _decide(_write(path), rules=rules, grant=_grant(Scope(paths=(path,))))
    assert (found.decision, found.rule) == ("deny", "builtin:protected-path")


@pytest.mark.parametrize("path", ["conftest.py", "AGENTS.md", ".env"])
def test_guarded_paths_ask_unless_they_are_named(path):
    everything = _rules({"decision": "allow", "tool": "write_file"})
    named = _rules({"decision": "allow", "tool": "write_file", "path": path})
    assert _decide(_write(path), rules=everything, grant=_grant()).decision == "ask"
    assert _decide(_write(path), rules=named).decision == "allow"
    in_plan = _decide(_write(path), grant=_grant(Scope(paths=(path,))))
    assert in_plan.decision == ("ask" if path == ".env" else "allow")


def test_reading_a_secret_asks_unless_a_rule_names_it():
    read = _call("read_file", reads=(".env",))
    assert _decide(read, grant=_grant(Scope(paths=(".env",)))).rule == "builtin:secret"
    named = _rules({"decision": "allow", "tool": "read_file", "path": ".env"})
    assert _decide(read, rules=named).decision == "allow"


def test_a_profile_limits_what_its_agent_writes():
    limited = _with(max_write_globs=("**/*.md", "docs"))
    rules = _rules(
        {"decision": "allow", "command": "make test"}, {"decision": "allow", "command": "ls"}
    )
    assert _decide(_write("a/b.md"), conditions=limited, grant=_grant()).decision == "allow"
    assert _decide(_write("docs/x.txt"), conditions=limited, grant=_grant()).decision == "allow"
    assert _decide(_write("a.py"), conditions=limited, grant=_grant()).rule == "builtin:profile"
    assert _decide(_command("make test"), rules=rules, conditions=limited).rule == "builtin:profile"
    assert _decide(_command("ls"), rules=rules, conditions=limited).decision == "allow"


def test_when_nobody_can_be_asked_asking_is_denying():
    found = _decide(_write("a"), conditions=_with(attended=False))
    assert found.decision == "deny"
    assert "there is nobody to ask" in found.reason
    allowed = _decide(_call("read_file", reads=("a",)), conditions=_with(attended=False))
    assert allowed.decision == "allow"


def test_names_that_mislead_a_reader_are_denied():
    assert _decide(_write("a\u202eb"), grant=_grant()).rule == "builtin:spoofing"
    assert _decide(_command("ls", cwd="a\u200b")).rule == "builtin:spoofing"


def test_a_command_stays_in_the_workspace():
    rules = _rules(
        {"decision": "allow", "command": "ls"}, {"decision": "allow", "command": "git status"}
    )
    assert _decide(_command("ls", cwd="../x"), rules=rules).rule == "builtin:outside"
    assert _decide(_command("ls src", cwd="sub"), rules=rules).decision == "allow"
    assert _decide(_command("git status", cwd="sub"), rules=rules).rule == "builtin:git-folder"
    assert _decide(
        _command("ls link"), rules=rules, conditions=_with(outside="link".__eq__)
    ).rule == ("builtin:outside")


def test_gonogos_own_folder_is_out_of_reach():
    found = _decide(_command("ls /home/u/.gonogo-x /home/u/.gonogo/token"))
    assert found.decision == "deny"


def test_commands_of_the_repository_need_the_sandbox_and_git_a_vetted_repository():
    rules = _rules(*({"decision": "allow", "command": c} for c in ("pytest", "ls", "git status")))
    for text, conditions in (
        ("pytest", _with(sandboxed=False)),
        ("git status", _with(repo_trusted=False)),
    ):
        assert _decide(_command(text), rules=rules, conditions=conditions).decision == "ask"
        assert _decide(_command("ls"), rules=rules, conditions=conditions).decision == "allow"
        assert _decide(_command(text), rules=rules).decision == "allow"


@pytest.mark.parametrize("text", ["", "  \n ", "# nothing"])
def test_no_command_at_all_is_not_allowed(text):
    assert _decide(_command(text)).decision != "allow"


@pytest.mark.parametrize(
    ("glob", "covered", "free"),
    [
        ("src/**", "src/a/b", "srcx/a"),
        ("src", "src/a", "src2"),
        ("*.md", "a.md", "d/a.md"),
        ("**/*.md", "d/e/a.md", "d/a.mdx"),
        ("a?.py", "ab.py", "a/.py"),
        (".", "anything/at.all", None),
        ("./docs/", "docs/x", "doc"),
    ],
)
def test_globs_of_a_scope_mean_what_they_say(glob, covered, free):
    grant = _grant(Scope(paths=(glob,)))
    assert _decide(_write(covered), grant=grant).decision == "allow"
    assert free is None or _decide(_write(free), grant=grant).decision == "ask"


@pytest.mark.parametrize("decision", ["allow", "ask", "deny"])
def test_a_tool_that_has_changed_asks_and_what_forbids_it_still_does(decision):
    rules = _rules({"decision": decision, "tool": "mcp__docs__search"})
    changed = replace(HERE, changed="mcp__docs__search has changed: its description")
    found = verdict(_call("mcp__docs__search"), rules.strict(), changed, None)

    by_rule = {"ask": "admin:1", "deny": "admin:1"}
    assert found.rule == by_rule.get(decision, "builtin:changed-tool")
    assert found.decision == ("deny" if decision == "deny" else "ask")
    assert ("has changed" in found.reason) is (decision == "allow")


def test_an_approval_of_a_changed_tool_binds_what_the_server_says_of_it():
    call = _call("mcp__docs__search")
    first, other = (call.model_copy(update={"definition": each}) for each in ("a", "b"))
    assert len({call.digest("v"), first.digest("v"), other.digest("v")}) == 3
    assert _rules().strict().version == _rules().version
