"""What of a run with coverage is measured: enough to say which code the tests reach.

To be measured makes a test twice as slow, and a process that it starts four times. Rooms that look
at all of gonogo from outside are not measured: what they run, the tests of the rooms inside run
too. Nor is what is told on PostgreSQL besides, but by the store's own tests. Of the stories, which
go the same ways again and again, every third of a file is measured, and of the processes that the
other tests start those of every fifth. scripts/mutate, which asks which test runs what, has all of
it.
"""

import os
from collections import Counter
from collections.abc import Generator

import pytest
from coverage import Coverage

OUTSIDE = ("adversary", "bench", "console", "docs", "durability", "terminal", "wire")
"""Rooms of tests that are not measured."""
EVERY = 5
STORIES = {"scenarios": 3}
"""Rooms of tests of which every n-th test of a file is measured."""
_PROCESSES = "COVERAGE_PROCESS_CONFIG"
_measures = pytest.StashKey[bool]()
_measures_processes = pytest.StashKey[bool]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose what is measured, alike in all workers of a run."""
    if Coverage.current() is None:
        return
    seen: Counter[str] = Counter()
    names = {item.nodeid for item in items}
    for item in items:
        file = item.nodeid.partition("::")[0]
        room = file.removeprefix("tests/").partition("/")[0]
        told = item.nodeid.replace("postgresql", "sqlite")
        is_told_again = room != "store" and told != item.nodeid and told in names
        is_one_of_many = bool(seen[file] % STORIES.get(room, 1))
        item.stash[_measures] = not (is_told_again or is_one_of_many or room in OUTSIDE)
        item.stash[_measures_processes] = item.stash[_measures] and seen[file] % EVERY == 0
        seen[file] += not is_told_again


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Leave unmeasured what need not be measured."""
    measuring = Coverage.current()
    if measuring is None or item.config.getoption("cov_context", None):
        return (yield)
    processes = None
    if not item.stash[_measures_processes]:
        processes = os.environ.pop(_PROCESSES, None)
    if not item.stash[_measures]:
        measuring.stop()
    try:
        return (yield)
    finally:
        if not item.stash[_measures]:
            measuring.start()
        if processes is not None:
            os.environ[_PROCESSES] = processes
