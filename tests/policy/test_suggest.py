"""What is suggested loads as it is printed, covers what was approved and nothing that was not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gonogo.domain.tool_calls import Access, Call, ToolClass
from gonogo.policy import Answered, Conditions, as_toml, load_rules, suggest, verdict

HERE = Conditions(workspace="/")


def _command(text, agent="coder"):
    return Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent=agent, arguments={},
        access=Access(command=text),
    )  # fmt: skip


def _file(path, tool="write_file", **more):
    access = more or {"writes": (path,)}
    return Call(
        tool=tool, tool_class=ToolClass.IDEMPOTENT, agent="coder", arguments={},
        access=Access(**access),
    )  # fmt: skip


def _yes(*calls):
    return [Answered(call, True) for call in calls]


def _no(*calls):
    return [Answered(call, False) for call in calls]


def _found(*answered, least=2):
    return [
        rule.model_dump(include={"command", "path", "exact"}, exclude_defaults=True)
        for rule in suggest([one for group in answered for one in group], least)
    ]


@pytest.mark.parametrize(
    ("commands", "suggested"),
    [
        (["pytest -q", "pytest -q"], [{"command": "pytest -q", "exact": True}]),
        (["npm run a", "npm run b"], [{"command": "npm run"}]),
        (["npm run a x", "npm run a y"], [{"command": "npm run a"}]),
        (["pytest a", "pytest b"], [{"command": "pytest"}]),
        (["pytest", "pytest"], [{"command": "pytest", "exact": True}]),
        (["make a", "make b"], []),
        (["pytest a"], []),
        (["ls && cat x", "ls && cat x"], []),
        (["git push", "git push"], []),
        (["rm a", "rm b"], []),
        (["echo $(x)", "echo $(x)"], []),
        (["ls\nls", "ls\nls"], []),
        (["ls \u202e", "ls \u202e"], []),
    ],
)
def test_the_narrowest_rule_of_commands(commands, suggested):
    assert _found(_yes(*map(_command, commands))) == suggested


@pytest.mark.parametrize(
    ("paths", "suggested"),
    [
        (["a.txt", "a.txt"], [{"path": "a.txt", "exact": True}]),
        (["docs/a", "docs/b"], [{"path": "docs/**"}]),
        (["docs/x/a", "docs/x/b"], [{"path": "docs/x/**"}]),
        (["docs/x/a", "docs/y/b"], [{"path": "docs/**"}]),
        (["a.txt", "b.txt"], []),
        (["d*/a", "d*/b"], []),
        ([".env", ".env"], [{"path": ".env", "exact": True}]),
        (["x/.env", "x/conftest.py"], []),
        (["a\u202etxt.b", "a\u202etxt.b"], []),
        (["a\nb", "a\nb"], []),
        (["a\tb", "a\tb"], []),
    ],
)
def test_the_narrowest_rule_of_paths(paths, suggested):
    assert _found(_yes(*map(_file, paths))) == suggested


def test_what_was_rejected_is_never_covered_and_becomes_an_example():
    approved = _yes(_file("docs/a"), _file("docs/b"))
    assert _found(approved, _no(_file("docs/c"))) == []
    [rule] = suggest([*approved, *_no(_file("src/a"))], 2)
    assert (rule.match, rule.not_match) == (("docs/a", "docs/b"), ("src/a",))
    assert rule.reason == "approved 2 times, never rejected"
    commands = _yes(_command("npm run a"), _command("npm run b"))
    assert _found(commands, _no(_command("npm run c"))) == []


def test_a_folder_is_suggested_once_for_all_that_lies_in_it_at_whatever_depth():
    [rule] = suggest(_yes(_file("docs/a"), _file("docs/b"), _file("docs/x/c")), 2)
    assert (rule.path, rule.reason) == ("docs/**", "approved 3 times, never rejected")


def test_a_rule_is_written_in_the_letters_that_it_is_about():
    text = as_toml(suggest(_yes(_file("é/a"), _file("é/b")), 2), "x")
    assert 'path = "é/**"' in text


def test_each_agent_and_tool_has_its_own_and_what_always_asks_has_none():
    assert _found(_yes(_command("ls a"), _command("ls b", agent="debug"))) == []
    assert _found(_yes(*[_file("a", "delete_file", deletes=("a",))] * 3)) == []
    assert _found(_yes(*[_file("a", "move_file", writes=("a",), deletes=("b",))] * 3)) == []


def test_nothing_suggested_is_a_file_without_rules(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(as_toml([], "Nothing\nto see"))
    assert path.read_text() == "# Nothing\n# to see\n"
    assert load_rules(None, path).user == ()


COMMANDS = st.sampled_from(
    ["ls", "ls -l", "ls a b", "cat 'a b'", "cat x", "npm run a", "npm run b", "npm test", "bash x",
     "git status", "git push", "pytest -q", "pytest -p x", "make a", "a && b", "echo $x", "\u202e"]
)  # fmt: skip
PATHS = st.lists(
    st.sampled_from(["a", "docs", "é", '"', "x.y", "*", ".git", ".env"]), min_size=1, max_size=3
).map("/".join)
ANSWERS = st.builds(Answered, COMMANDS.map(_command) | PATHS.map(_file), st.booleans())


@settings(deadline=None)
@given(st.lists(ANSWERS, max_size=25), st.integers(1, 3))
def test_what_is_suggested_loads_and_allows_the_approved_and_none_of_the_rejected(
    tmp_path_factory, answered, least
):
    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    found = suggest(answered, least)
    path.write_text(as_toml(found, "Suggested"), encoding="utf-8")
    rules = load_rules(None, path)
    assert [rule.text for rule in rules.user] == found
    by_subject = {one.subject: one.call for one in answered}
    for rule in found:
        for subject in rule.match:
            assert verdict(by_subject[subject], rules, HERE, None).decision == "allow"
    for one in answered:
        if not one.approved:
            assert verdict(one.call, rules, HERE, None).decision != "allow"
