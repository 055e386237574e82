"""The account of the acceptance table: a row is proven by a passing test, and by nothing less."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(project: Path, *args: str) -> None:
    """Run the project's tests in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", *args]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=project, env=alone, timeout=60, check=False, capture_output=True)


def account(project: Path) -> set[int]:
    """The rows that scripts/features would call proven."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import features
    finally:
        sys.path.pop(0)
    return features.proven(json.loads((project / ".features.json").read_text()))


def test_only_rows_with_a_passing_test_and_no_failing_one_are_proven(project: Path) -> None:
    run(project)

    assert account(project) == {1, 5, 6}


@pytest.mark.parametrize("args", [("tests/test_it.py",), ("-k", "passes"), ("-m", "feature")])
def test_a_run_of_some_tests_leaves_the_account_alone(project: Path, args: tuple[str, ...]) -> None:
    run(project, *args)

    assert not (project / ".features.json").exists()


def test_the_script_names_each_row_that_is_not_proven_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    script = tmp_path / "scripts" / "features.py"
    script.write_text((ROOT / "scripts" / "features.py").read_text())
    table = (ROOT / "docs" / "reference" / "features.md").read_text()
    (tmp_path / "docs" / "reference" / "features.md").write_text(table)
    (tmp_path / ".features.json").write_text('{"rows": {"1": {"t": "passed"}}}')

    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=True
    )

    lines = done.stdout.splitlines()
    assert lines[0] == "2 missing: Switch to architect is visible"
    assert lines[-2] == "218 missing: Causal rollback"
    assert lines[-1] == "1 of 135 rows proven"
