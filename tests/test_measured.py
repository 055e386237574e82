"""What of a run with coverage is measured, and that nothing else is."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGINS = ("xdist.plugin", "pytest_cov.plugin", "_hypothesis_pytestplugin", "plugins.measured")
"""With all that are installed it takes twice as long."""

TOLD = """
import json, os, sys, threading
from pathlib import Path

def tell(name):
    traced = []
    thread = threading.Thread(target=lambda: traced.append(sys.gettrace() is not None))
    thread.start()
    thread.join()
    told = [sys.gettrace() is not None, *traced, "COVERAGE_PROCESS_CONFIG" in os.environ]
    Path(__file__).with_name(f"{name}.json").write_text(json.dumps(told))
"""
CALLS = """
import pytest
from hypothesis import given, strategies
from told import tell

@pytest.mark.unmeasured
def test_repeats(): tell("repeats")

def test_first(): tell("first")

def test_second(): tell("second")

@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_databases(kind): tell(kind)

def test_fourth(): tell("fourth")

@pytest.mark.measured
def test_fifth(): tell("fifth")

@given(strategies.booleans())
def test_at_random(value): tell("at random")
"""
TABLE = """
import pytest
from told import tell

@pytest.mark.parametrize("row", ["{room} 1", "{room} 2"])
def test_rows(row): tell(row)
"""
ALL, TEST, NOTHING = [True, True, True], [True, True, False], [False, False, False]


def run(project: Path, calls: str, *options: str) -> dict[str, list[bool]]:
    """For each test: whether it, its threads and its processes were measured."""
    (project / "tests" / "wire").mkdir(parents=True)
    (project / "tests" / "told.py").write_text(TOLD)
    (project / "tests" / "test_calls.py").write_text(calls)
    (project / "tests" / "wire" / "test_wire.py").write_text(
        "from told import tell\ndef test_wire(): tell('from outside')\n"
    )
    (project / "tests" / "cli").mkdir()
    (project / "tests" / "cli" / "test_table.py").write_text(TABLE.format(room="cli"))
    (project / "tests" / "policy").mkdir()
    (project / "tests" / "policy" / "test_branches.py").write_text(TABLE.format(room="policy"))
    (project / "pyproject.toml").write_text(
        f'[tool.pytest.ini_options]\naddopts = "-p {" -p ".join(PLUGINS)}"\n'
        f'pythonpath = ["tests", "{ROOT / "tests"}"]\nmarkers = ["measured", "unmeasured"]\n'
        '[tool.coverage.run]\nbranch = true\nparallel = true\npatch = ["subprocess"]\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "tests", "--cov", "--cov-report=", *options]
    # Else it takes away, at its end, what earlier runs of all tests have left.
    command.append(f"--basetemp={project / 'tmp'}")
    kept = {
        name: word for name, word in os.environ.items() if not name.startswith(("COV", "PYTEST"))
    }
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    subprocess.run(command, cwd=project, env=kept, timeout=120, check=True, capture_output=True)
    told = (project / "tests").glob("*.json")
    return {path.stem: json.loads(path.read_text()) for path in told}


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["one", "several"])
def test_what_a_test_says_of_itself_decides_whether_it_is_measured(
    tmp_path: Path, workers: Iterable[str]
) -> None:
    assert run(tmp_path, CALLS, *workers) == {
        "repeats": NOTHING,
        "first": ALL,
        "second": NOTHING,
        "sqlite": NOTHING,
        "postgresql": NOTHING,
        "fourth": TEST,
        "fifth": TEST,
        "at random": NOTHING,
        "from outside": NOTHING,
        "cli 1": ALL,
        "cli 2": NOTHING,
        "policy 1": ALL,
        "policy 2": TEST,
    }
