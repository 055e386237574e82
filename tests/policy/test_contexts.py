"""Contexts: named rules and conditions, read from a file, for trying commands."""

import json

import pytest

from gonogo.domain.errors import InvalidMessage
from gonogo.policy import PolicyContext, check_command, load_contexts, read_contexts


def one(**fields) -> PolicyContext:
    return read_contexts({"A": fields})["A"]


@pytest.mark.parametrize(
    ("fields", "command", "rule"),
    [
        ({"allow": ["pytest"]}, "pytest -q", "user:1"),
        ({"allow": ["pytest"], "sandbox": "on"}, "pytest -q", "user:1"),
        ({"allow": ["pytest"], "sandbox": "off"}, "pytest -q", "builtin:no-sandbox"),
        ({"allow": ["git log"]}, "git log", "user:1"),
        ({"allow": ["git log"], "repo_trusted": False}, "git log", "builtin:untrusted-repository"),
        ({"allow_exact": ["npm test"]}, "npm test", "user:1"),
        ({"allow_exact": ["npm test"]}, "npm test x", "default:other"),
        ({"allow": ["ls"], "allow_exact": ["cat a"]}, "cat a", "user:2"),
        ({"deny": ["ls"], "ask": ["cat"], "allow": ["wc"]}, "cat x", "user:2"),
        ({"deny": ["ls"], "ask": ["cat"], "allow": ["wc"]}, "ls", "user:3"),
        ({"allow": ["npm run <name>", "cat"]}, "npm run build", "user:1"),
        ({"allow": ["cat"]}, "cat /ws/a", "user:1"),
        ({"allow": ["cat"], "workspace": "/code"}, "cat /code/a", "user:1"),
        ({"allow": ["cat"], "workspace": "/code"}, "cat /ws/a", "default:other"),
    ],
)
def test_each_field_of_a_context_holds(fields, command, rule):
    assert check_command(command, one(**fields)).rule == rule


def test_where_nobody_attends_what_would_ask_is_denied():
    assert check_command("ls", one()).decision == "ask"
    assert check_command("ls", one(attended=True)).decision == "ask"
    found = check_command("ls", one(attended=False))
    assert (found.decision, found.reason) == ("deny", "no rule allows 'ls'; there is nobody to ask")


def test_a_rule_that_is_too_broad_is_left_out_with_its_reason_and_takes_no_number():
    context = one(allow=["bash *", "ls"], deny=["rm"])
    assert context.refused == ("bash *: 'bash' alone can run any code; add what it should run",)
    assert [rule.name for rule in context.rules.user] == ["user:1", "user:2"]
    assert [rule.text.command for rule in context.rules.user] == ["ls", "rm"]


def test_a_context_has_the_rules_of_the_one_that_it_extends_before_its_own():
    found = read_contexts(
        {
            "desc": "not a context",
            "defaults": {"workspace": "/code", "repo_trusted": False},
            "A": {"allow": ["ls"], "deny": ["rm"], "sandbox": "off"},
            "B": {"extends": "A", "allow": ["cat"], "ask": ["wc"], "allow_exact": ["date"]},
            "C": {"extends": "B", "sandbox": "on", "repo_trusted": True, "attended": False},
        }
    )
    assert sorted(found) == ["A", "B", "C"]
    written = [rule.text.command for rule in found["C"].rules.user]
    assert written == ["ls", "cat", "date", "wc", "rm"]
    assert [rule.text.command for rule in found["A"].rules.user] == ["ls", "rm"]
    conditions = [found[name].conditions for name in "ABC"]
    assert [each.workspace for each in conditions] == ["/code"] * 3
    assert [each.sandboxed for each in conditions] == [False, False, True]
    assert [each.repo_trusted for each in conditions] == [False, False, True]
    assert [each.attended for each in conditions] == [True, True, False]


def test_a_command_is_tried_as_the_coders_at_the_top_of_the_workspace():
    context = one(allow=["ls"])
    asked = []
    found = read_contexts({"A": {"allow": ["ls"]}}, lambda path: bool(asked.append(path)))["A"]
    assert check_command("ls src", found).rule == "user:1"
    assert asked == ["src"]
    assert check_command("ls src", context).reason == "rule user:1: allow ls"


@pytest.mark.parametrize("document", ["[]", '{"A": {"allow": 1}}', '{"A": {"extends": "Z"}}', "{"])
def test_a_file_of_another_form_is_refused_by_its_name(tmp_path, document):
    path = tmp_path / "contexts.json"
    path.write_text(document)
    with pytest.raises(InvalidMessage) as refused:
        load_contexts(path)
    assert str(refused.value).startswith(f"{path}: not a file of policy contexts: ")


def test_names_and_texts_of_a_file_are_read_as_utf_8(tmp_path):
    path = tmp_path / "contexts.json"
    path.write_bytes(json.dumps({"Ü": {"allow": ["ls é"]}}, ensure_ascii=False).encode())
    assert check_command("ls é", load_contexts(path)["Ü"]).rule == "user:1"
