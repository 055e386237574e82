"""Every text that the code names exists, and is given just the fields that it needs."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.catalogues import keys

SOURCE = Path(__file__).parent.parent.parent / "src"
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if "gonogo.i18n" in path.read_text()]


def spoken(tree: ast.Module) -> set[str]:
    """The names under which a module knows `say`."""
    return {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gonogo.i18n")
        for name in node.names
        if name.name == "say"
    }


def uses(tree: ast.Module) -> Iterator[tuple[str, set[str], int]]:
    """Each key that is named literally, with the fields and the line."""
    names = spoken(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        fields = {keyword.arg for keyword in node.keywords}
        if node.func.id in names and None not in fields:
            literals = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            for part in literals:
                if (isinstance(part.value, str) and part.value in keys("en")) or len(literals) == 1:
                    yield str(part.value), {str(field) for field in fields}, node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_each_text_that_a_file_names_exists_and_gets_its_fields(path: Path) -> None:
    known = keys("en")
    tree = ast.parse(path.read_text(encoding="utf-8"))

    wrong = [
        f"line {line}: {key}: needs {sorted(known.get(key, ()))}, gets {sorted(fields)}"
        for key, fields, line in uses(tree)
        if not _is_part(key) and not known.get(key, {"there is no such text"}) <= fields
    ]
    assert wrong == []


def _is_part(key: str) -> bool:
    """Whether a literal is only a piece of a key, as in an f-string."""
    return key.endswith("_") or key.startswith("_")
