"""The shape of the source: a file is one noun, a function is short, a name has one meaning.

Linters have no rule for these.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {
    path.relative_to(ROOT / "src" / "gonogo").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src" / "gonogo").rglob("*.py"))
}
MAX_LINES, MIN_LINES, MAX_FUNCTION = 700, 40, 40
SMALL = {"workspace/files/matcher.py", "workspace/sandbox/doorway.py"}
"""Programs that run beside the sandbox and know no other module: as small as what they do."""
VALUES = {"Ending.take", "Kind.run", "Seen.look", "Sender.counted", "Step.now"}
"""Functions that are handed in as values: clocks, what carries a kind of work out, counters."""
LONG = {"runtime/build.py build"}
"""A list of what there is, one after the other."""


def lines(source: str) -> int:
    return source.count("\n")


def is_private(name: str) -> bool:
    return Path(name).name.startswith("_") and not Path(name).name.startswith("__")


def is_small(name: str, source: str) -> bool:
    exempt = Path(name).name in ("__init__.py", "__main__.py")
    return lines(source) < MIN_LINES and not exempt


def classes(tree: ast.AST) -> list[str]:
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def long_functions(tree: ast.AST) -> list[str]:
    """Those over the limit; a docstring is not counted."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            said = body[0].lineno if body else node.lineno
            if (node.end_lineno or 0) - said + 1 > MAX_FUNCTION:
                found.append(node.name)
    return found


def callable_fields(tree: ast.AST) -> set[str]:
    """Fields of classes that hold a function which whoever builds the object has to hand in."""
    return {
        f"{made.name}.{field.target.id}"
        for made in ast.walk(tree)
        if isinstance(made, ast.ClassDef)
        for field in made.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and field.value is None
        and ast.unparse(field.annotation).startswith("Callable")
    }


class Parsed(NamedTuple):
    """What is looked at in a file."""

    classes: list[str]
    long_functions: list[str]
    callable_fields: set[str]


@cache
def parsed() -> dict[str, Parsed]:
    """All files, each parsed once; to keep their trees would take hundreds of megabytes."""
    trees = ((name, ast.parse(source)) for name, source in SOURCES.items())
    return {
        name: Parsed(classes(tree), long_functions(tree), callable_fields(tree))
        for name, tree in trees
    }


def test_every_source_file_is_one_noun_of_a_length_that_can_be_read() -> None:
    assert [name for name, source in SOURCES.items() if lines(source) > MAX_LINES] == []


def test_no_source_file_is_too_small_to_be_one() -> None:
    assert {name for name, source in SOURCES.items() if is_small(name, source)} == SMALL


def test_no_source_file_has_a_private_name() -> None:
    assert [name for name in SOURCES if is_private(name)] == []


def test_no_class_has_the_name_of_another() -> None:
    named = Counter(each for file in parsed().values() for each in file.classes)

    assert {name: count for name, count in named.items() if count > 1} == {}


def test_no_function_is_long() -> None:
    long = {f"{name} {each}" for name, file in parsed().items() for each in file.long_functions}

    assert long == LONG


def test_a_docstring_is_no_part_of_a_function_that_is_too_long() -> None:
    body = "".join(f"    x = {n}\n" for n in range(MAX_FUNCTION))
    said = '    """Do.\n\n    More.\n    """\n'

    assert long_functions(ast.parse(f"def f():\n{said}{body}")) == []
    assert long_functions(ast.parse(f"def f():\n{said}{body}    y = 1\n")) == ["f"]


def test_each_function_that_leads_back_up_to_a_higher_room_has_its_reason() -> None:
    found = {
        field
        for name, file in parsed().items()
        if name.startswith(("execution/", "runtime/", "webhooks"))
        for field in file.callable_fields
    }
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    listed = re.search(r"## Functions that lead back up\n(.*?)\n## ", page, re.DOTALL)

    assert listed is not None
    named = re.findall(r"`(\w+\.\w+)`", listed[1])
    assert set(named) == found - VALUES
    assert found >= VALUES
    assert len(named) <= 10


@pytest.mark.feature(67)
def test_the_domain_knows_no_web_framework_no_database_and_no_event_loop() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [str(linter), "--no-logo", "--no-cache", "--contract", "domain-is-pure"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert "1 kept, 0 broken" in done.stdout


@pytest.mark.feature(70, 117)
def test_every_room_has_tests_and_every_kind_of_documentation_has_pages() -> None:
    rooms = {path.parent.name for path in (ROOT / "src" / "gonogo").glob("*/__init__.py")}
    tested = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    kinds = ("tutorial", "how-to", "reference", "explanation", "decisions")

    assert rooms - tested == set()
    assert [kind for kind in kinds if not list((ROOT / "docs" / kind).glob("*.md"))] == []


@pytest.mark.feature(66)
def test_nothing_lands_while_a_branch_of_what_decides_is_not_reached_by_a_test() -> None:
    landing = (ROOT / ".ci" / "run").read_text().replace("\\\n", " ")
    demands = re.findall(r"coverage report --fail-under=100 +--include='(.*)'\n", landing)
    whole = {
        *(f"src/gonogo/{room}/*" for room in ("domain", "policy")),
        *(f"src/gonogo/execution/{room}/*" for room in ("approvals", "scheduling")),
        *(f"src/gonogo/execution/plans/{part}.py" for part in ("controls", "engine")),
    }
    measured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["run"]
    left_out = [name for name, source in SOURCES.items() if "pragma: no" in source]

    assert "set -euo pipefail" in landing
    assert landing.index("scripts/test --cov") < landing.index("--fail-under=100")
    assert whole <= {each for demand in demands for each in demand.split(",")}
    assert (measured["branch"], measured["source_pkgs"], measured.get("omit")) == (
        True, ["gonogo"], None,
    )  # fmt: skip
    assert left_out == []
