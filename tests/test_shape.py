"""The shape of the repository: files stay small, and nothing in them belongs elsewhere.

Linters have no rule for these; the list of exceptions may only shrink.
"""

import io
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_CODE_LINES = 300
LONGER = {
    # one page of tables, written once and never edited again
    "src/gonogo/store/migrations/versions/0001_first.py": 360,
}
"""Files that may be longer, up to this many code lines each."""

_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_ELSEWHERE = re.compile(r"pythonhosted|pypi\.org|npmjs\.(org|com)|deb\.debian|/(work|farm)/")


def code_lines(source: str) -> int:
    """Lines with code: not blank, not comments, not docstrings."""
    lines: set[int] = set()
    fresh = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _NOT_CODE:
            fresh = fresh or token.type != tokenize.COMMENT
            continue
        if not (fresh and token.type == tokenize.STRING):
            lines.update(range(token.start[0], token.end[0] + 1))
        fresh = False
    return len(lines - {0})


def test_every_source_file_is_small_enough_to_read_at_once() -> None:
    sizes = {path.relative_to(ROOT).as_posix(): code_lines(path.read_text()) for path in SOURCES}
    allowed = dict.fromkeys(sizes, MAX_CODE_LINES) | LONGER

    assert {name: size for name, size in sizes.items() if size > allowed[name]} == {}


def test_every_exception_to_the_size_limit_is_still_needed() -> None:
    sizes = {name: code_lines((ROOT / name).read_text(encoding="utf-8")) for name in LONGER}

    assert {name for name, size in sizes.items() if size <= MAX_CODE_LINES} == set()


def test_a_docstring_is_not_code_and_a_string_argument_is() -> None:
    assert (
        code_lines(
            '"""About."""\n\n# why\n\ndef f():\n    """Doc."""\n    g(\n        "x"\n    )\n'
        )
        == 4
    )


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
    whole = {f"src/gonogo/{room}/*" for room in ("domain", "policy", "approvals", "engine")}
    measured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["run"]
    left_out = [path for path in SOURCES if "pragma: no" in path.read_text()]

    assert "set -euo pipefail" in landing
    assert landing.index("scripts/test --cov") < landing.index("--fail-under=100")
    assert whole <= {each for demand in demands for each in demand.split(",")}
    assert (measured["branch"], measured["source_pkgs"], measured.get("omit")) == (
        True, ["gonogo"], None,
    )  # fmt: skip
    assert left_out == []


def test_no_tracked_file_names_a_package_host_or_a_folder_of_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    names = [name for name in listed.stdout.split("\0") if name and name != "tests/test_shape.py"]
    found = [name for name in names if _names_elsewhere(ROOT / name)]

    assert found == []


def _names_elsewhere(path: Path) -> bool:
    if not path.is_file():
        return False
    return bool(_ELSEWHERE.search(path.read_bytes().decode("utf-8", errors="ignore")))
