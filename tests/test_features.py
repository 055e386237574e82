"""The account of the acceptance table: a row is proven by a passing test, and by nothing less."""

import ast
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from plugins import nightly

ROOT = Path(__file__).parent.parent

TESTS = """
import pytest

@pytest.mark.feature(1)
def test_passes(): pass

@pytest.mark.feature(2)
def test_fails(): assert False

@pytest.mark.feature(3)
def test_is_skipped(): pytest.skip("no")

@pytest.mark.feature(4)
@pytest.mark.parametrize("ok", [True, False])
def test_passes_sometimes(ok): assert ok

@pytest.mark.feature(5, 6)
def test_passes_for_two_rows(): pass

@pytest.fixture
def spoiled():
    yield
    raise RuntimeError

@pytest.mark.feature(7)
def test_fails_to_clean_up(spoiled): pass

@pytest.mark.feature(8)
@pytest.mark.xfail
def test_is_expected_to_fail(): assert False
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our account and tests that end in every way."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p plugins.features\ntestpaths = tests\nmarkers = feature(n): row\n"
        f"pythonpath = {ROOT / 'tests'}\n"
    )
    return tmp_path


def run(project: Path, *args: str) -> str:
    """Run the project's tests in a process of their own; what it says."""
    command = [sys.executable, "-m", "pytest", "-q", *args]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    alone.pop("GONOGO_NIGHTLY", None)
    done = subprocess.run(
        command, cwd=project, env=alone, timeout=60, check=False, capture_output=True, text=True
    )
    return done.stdout


CASES = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_case(number): pass

@pytest.mark.parametrize("number", [1, 2])
def test_all(number): pass
"""

SPREAD = """
import pytest

@pytest.mark.spread(3)
@pytest.mark.parametrize("number", range(7))
def test_case(number): assert number in (0, 3, 6) or "GONOGO_NIGHTLY" in __import__("os").environ

@pytest.mark.spread(2)
@pytest.mark.parametrize("number", [1])
def test_all(number): pass
"""

NIGHTLY = """
import pytest
from plugins.nightly import examples

@pytest.mark.nightly
def test_is_long(): pass

def test_tries_more(): assert examples(1, nightly=2) == 1
"""
BOTH = """
import pytest

@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request): return request.param

def test_is_the_first(kind): pass

def test_comes_after_it(kind): pass

@pytest.mark.each_database
def test_is_about_the_database(kind): pass
"""


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("features")


def test_only_rows_with_a_passing_test_and_no_failing_one_are_proven(
    project: Path, account: Any
) -> None:
    run(project)

    assert account.proven(json.loads((project / ".features.json").read_text())) == {1, 5, 6}


@pytest.mark.parametrize("args", [("tests/test_it.py",), ("-k", "passes"), ("-m", "feature")])
def test_a_run_of_some_tests_leaves_the_account_alone(project: Path, args: tuple[str, ...]) -> None:
    run(project, *args)

    assert not (project / ".features.json").exists()


@pytest.fixture
def table(account: Any) -> dict[int, str]:
    """Each row of the real table."""
    return account.rows((ROOT / "docs" / "reference" / "features.md").read_text())


def told(folder: Path, proven: Iterable[int]) -> tuple[int, list[str]]:
    """How the script ends when these rows have a passing test, and what it says."""
    (folder / "scripts").mkdir()
    (folder / "docs" / "reference").mkdir(parents=True)
    script = folder / "scripts" / "features.py"
    script.write_text((ROOT / "scripts" / "features.py").read_text())
    table = (ROOT / "docs" / "reference" / "features.md").read_text()
    (folder / "docs" / "reference" / "features.md").write_text(table)
    rows = {str(row): {"t": "passed"} for row in proven}
    (folder / ".features.json").write_text(json.dumps({"rows": rows}))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_the_script_names_each_row_that_is_not_proven_and_counts_the_rest(tmp_path: Path) -> None:
    status, lines = told(tmp_path, [1])

    assert status == 1
    assert lines[0] == "2 missing: Switch to architect is visible"
    assert lines[-2] == "242 missing: A checkpoint by hand"
    assert lines[-1] == "1 of 159 rows proven"


def test_rows_that_are_not_built_yet_are_no_failure_and_any_other_missing_row_is_one(
    tmp_path: Path, account: Any, table: dict[int, str]
) -> None:
    built = table.keys() - account.NOT_BUILT
    (tmp_path / "all").mkdir()
    (tmp_path / "but one").mkdir()

    assert told(tmp_path / "all", built)[0] == 0
    assert told(tmp_path / "but one", built - {218})[0] == 1


def test_a_row_that_is_proven_and_still_listed_as_not_built_is_a_failure(
    tmp_path: Path, account: Any, table: dict[int, str]
) -> None:
    status, lines = told(tmp_path, table)

    assert status == (1 if account.NOT_BUILT else 0)
    assert len([line for line in lines if "take it out" in line]) == len(account.NOT_BUILT)


def test_what_is_long_runs_with_nightly_alone(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(NIGHTLY)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p plugins.nightly\nmarkers = nightly: long\n"
        f"pythonpath = {ROOT / 'tests'}\n"
    )

    usual, nightly = run(tmp_path), run(tmp_path, "--nightly")

    assert "1 passed, 1 deselected" in usual
    assert "1 failed, 1 passed" in nightly


def test_what_is_left_to_the_night_is_named_with_its_case_or_for_all_of_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\naddopts = -p plugins.nightly\npythonpath = {ROOT / 'tests'}\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(CASES)
    (tmp_path / "tests" / "nightly.toml").write_text(
        '["test_it.py"]\n"test_case[1]" = ["test_it.py::test_case"]\ntest_all = []\n'
    )

    assert "1 passed, 3 deselected" in run(tmp_path)
    assert "4 passed" in run(tmp_path, "--nightly")


def test_of_many_cases_every_run_has_a_fixed_spread_and_a_nightly_one_all(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p plugins.nightly\nmarkers = spread(n): every n-th\n"
        f"pythonpath = {ROOT / 'tests'}\n"
    )
    (tmp_path / "test_it.py").write_text(SPREAD)

    assert "4 passed, 4 deselected" in run(tmp_path)
    assert "8 passed" in run(tmp_path, "--nightly")


def test_whatever_is_left_to_the_night_has_tests_of_every_run_that_hold_its_promise() -> None:
    left = nightly.listed(ROOT / "tests")

    assert {name for name in left if not is_there(name)} == set()
    assert [name for name, day in left.items() if not day] == []
    assert {
        name for day in left.values() for name in day if name in left or not is_there(name)
    } == set()


def is_there(name: str) -> bool:
    """Whether a file of tests has a function of this name."""
    file, _, test = name.partition("::")
    return test.partition("[")[0] in named(ROOT / "tests" / file)


@cache
def named(path: Path) -> set[str | None]:
    """What has a name in a file of tests; nothing, if there is no such file."""
    found = ast.walk(ast.parse(path.read_text())) if path.exists() else ()
    return {getattr(each, "name", None) for each in found}


def test_every_run_has_on_postgresql_the_store_the_first_of_each_folder_and_what_is_marked(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p plugins.nightly\nmarkers = each_database: both\n"
        f"pythonpath = {ROOT / 'tests'}\n"
    )
    for folder in ("scenarios", "store"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        for number in range(2):
            (tmp_path / "tests" / folder / f"test_{folder}_{number}.py").write_text(BOTH)

    usual, nightly = run(tmp_path), run(tmp_path, "--nightly")
    alone = run(tmp_path, "tests/scenarios/test_scenarios_1.py::test_comes_after_it")

    assert "21 passed, 3 deselected" in usual
    assert "24 passed" in nightly
    assert "2 passed" in alone
