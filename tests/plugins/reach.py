"""How long each test took, and which processes are its own, for scripts/mutate.

What a process runs that a test starts is then counted as run by that test. Needs pytest-cov.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from coverage import Coverage

TIMES = "GONOGO_TIMES"
"""Names the file for the seconds of each test that passed."""

_seconds: Counter[str] = Counter()
_passed: set[str] = set()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have what the test starts measured in its name."""
    if measuring := Coverage.current():
        measuring.config.context = item.nodeid
        os.environ["COVERAGE_PROCESS_CONFIG"] = measuring.config.serialize()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a test takes with what is made ready for it."""
    _seconds[report.nodeid] += report.duration
    if report.when == "call" and report.passed:
        _passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write it, in the process that the tests were spread from."""
    if not hasattr(session.config, "workerinput"):
        times = {test: round(_seconds[test], 3) for test in sorted(_passed)}
        Path(os.environ[TIMES]).write_text(json.dumps(times))
