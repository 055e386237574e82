"""Each heading of a table at the terminal stands in both languages."""

import ast
from pathlib import Path

import gonogo.cli
from fakes.catalogues import keys

SOURCES = sorted(Path(gonogo.cli.__file__).parent.rglob("*.py"))


def heads(tree: ast.Module):
    """The tuples that tables are headed with, and what they are named by."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="table"), args=[head, *_]):
                yield from ast.walk(head)
            case ast.Assign(targets=[ast.Name(id="_HEAD")], value=head):
                yield from ast.walk(head)


def test_every_heading_has_a_text_and_every_text_a_heading():
    used = {
        f"head_{node.value.replace(' ', '_')}"
        for path in SOURCES
        for node in heads(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert used == {key for key in keys("en") if key.startswith("head_")}
