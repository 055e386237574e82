"""What of a run with coverage is measured: enough to say which code the tests reach.

To be measured makes a test twice as slow, and a process that it starts four times. Rooms that look
at all of gonogo from outside are not measured: what they run, the tests of the rooms inside run
too. Of the processes that the other tests start, those of every fifth test of a file are.
scripts/mutate, which asks which test runs what, has all of it.
"""

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage

OUTSIDE = ("adversary", "bench", "console", "docs", "durability", "terminal", "wire")
"""Rooms of tests that are not measured."""
EVERY = 5
_PROCESSES = "COVERAGE_PROCESS_CONFIG"
_measures_processes = pytest.StashKey[bool]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose the tests whose processes are measured, alike in all workers of a run."""
    seen: Counter[Path] = Counter()
    for item in items:
        item.stash[_measures_processes] = seen[item.path] % EVERY == 0
        seen[item.path] += 1


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Leave unmeasured what need not be measured."""
    measuring = Coverage.current()
    if measuring is None or item.config.getoption("cov_context", None):
        return (yield)
    outside = item.path.is_relative_to(item.config.rootpath / "tests") and (
        item.path.relative_to(item.config.rootpath / "tests").parts[0] in OUTSIDE
    )
    processes = None
    if outside or not item.stash[_measures_processes]:
        processes = os.environ.pop(_PROCESSES, None)
    if outside:
        measuring.stop()
    try:
        return (yield)
    finally:
        if outside:
            measuring.start()
        if processes is not None:
            os.environ[_PROCESSES] = processes
