"""Each rule that can decide on a call has a name that people read, in both languages.

The names are read from the source: those that the policy gives, those of a call that could not be
judged because its tool refused it, and those that are written out.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fakes.catalogues import texts
from gonogo.domain.tool_calls import ToolClass
from gonogo.workspace.files.safe_open import OF_THE_SYSTEM

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gonogo"
CONSOLE = ROOT / "console" / "src" / "shared" / "i18n"
NAME_AT = {"_ask": 0, "_deny": 0, "_builtin": 1}
"""The policy's functions that make a verdict, with the place of the rule's name."""
WRITTEN_OUT = re.compile(r"builtin:[a-z][a-z_-]*[a-z]")
NO_NAMES = {"builtin:server", "builtin:file"}
"""Beginnings of names, which the replay of a log looks for."""


def named_by_policy(tree: ast.AST) -> Iterator[str]:
    """What a verdict is made with, and what a doubt about a part of a command is called."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=made)) if made in NAME_AT:
                yield literal(node.args[NAME_AT[made]])
            case ast.Return(value=ast.Tuple(elts=[named, why])) if is_reason(why):
                yield literal(named)


def is_reason(node: ast.expr) -> bool:
    return isinstance(node, ast.Call | ast.Name)


def literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def refused_by_tools(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="ToolFailed"), args=[kind, *_]):
                yield literal(kind)


@cache
def rules() -> set[str]:
    """The names of all rules that are not the operator's, the user's or a plan's."""
    found, written = {kind for kind, _ in OF_THE_SYSTEM.values()}, set[str]()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        found.update(refused_by_tools(tree))
        written.update(WRITTEN_OUT.findall(text))
        if path.parent.name == "policy":
            found.update(named_by_policy(tree))
    classes = {f"default:{each.value}" for each in ToolClass}
    return {f"builtin:{name}" for name in found if name} | written - NO_NAMES | classes


def test_the_names_are_found_in_the_source():
    assert {
        "builtin:network", "builtin:no-sandbox", "builtin:git-alone", "builtin:outside",
        "builtin:readers", "builtin:file_exists", "builtin:begun-before", "default:pure",
    } <= rules()  # fmt: skip


@pytest.mark.parametrize("locale", ["en", "ru"])
def test_each_rule_has_a_name_for_people_and_each_name_a_rule(locale):
    assert set(texts(locale, "rule")) == rules()


@pytest.mark.parametrize("locale", ["en", "ru"])
def test_the_console_calls_each_rule_what_the_terminal_calls_it(locale):
    words = (CONSOLE / locale / "words.ts").read_text(encoding="utf-8")

    assert dict(re.findall(r'"((?:builtin|default):[^"]+)":\s+"([^"]+)"', words)) == texts(
        locale, "rule"
    )
