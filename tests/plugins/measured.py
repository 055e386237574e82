"""What of a run with coverage is measured: enough to say which code the tests reach.

To be measured makes a test twice as slow, and a process that it starts four times. A test is
measured, unless

- it is in a room that looks at all of gonogo from outside: what it runs, those inside run too;
- it tries examples at random: what is demanded must not hang on chance;
- it is told on PostgreSQL besides, and is not one of the store's;
- it is a later row of a table, and not in a room where each branch must be reached;
- it is between every third of its file, and neither in such a room nor marked `measured`: the
  stories of a file that is marked reach what decides;
- it is marked `unmeasured`: it is long because it repeats the same code.

Of the processes that measured tests start, those of every tenth test of a file are measured. What
all workers import is measured in the first of them; what is between tests is not. scripts/mutate,
which asks which test runs what, has all of it.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
import xdist
from coverage import Coverage

from fakes.modules import import_all
from plugins.fresh import forget

OUTSIDE = ("adversary", "bench", "console", "docs", "durability", "terminal", "wire")
"""Rooms of tests that are not measured."""
EACH_ROW = ("domain", "execution", "policy")
"""Rooms where each row of a table is measured; elsewhere the first shows most of the code."""
SHARE, EVERY = 3, 10
_PROCESSES = "COVERAGE_PROCESS_CONFIG"
_measures = pytest.StashKey[bool]()
_measures_processes = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart() -> None:
    """Have workers measured by pytest-cov alone, and not as processes besides."""
    os.environ.pop(_PROCESSES, None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Measure what is imported, in one process; from then on only what is chosen."""
    measuring = Coverage.current()
    if measuring is None or session.config.getoption("cov_context", None):
        return (yield)
    first = xdist.get_xdist_worker_id(session) in ("gw0", "master")
    if first and not xdist.is_xdist_controller(session):
        import_all()
    _stop()
    session.config.pluginmanager.register(_Chosen(measuring))
    return (yield)


def _stop() -> None:
    # pytest-cov starts two in a worker; where one is stopped, the other would go on.
    while measuring := Coverage.current():
        measuring.stop()
    os.environ.pop(_PROCESSES, None)


def _choose(items: list[pytest.Item]) -> None:
    """Choose what is measured, alike in all workers of a run."""
    seen: Counter[str] = Counter()
    tables: set[tuple[str, bool]] = set()
    names = {item.nodeid for item in items}
    for item in items:
        file = _file(item)
        table = item.nodeid.partition("[")[0], "postgresql" in item.nodeid
        shows = _shows_what_is_tested(item, names)
        shows = shows and (_room(item) in EACH_ROW or table not in tables)
        share = 1 if _room(item) in EACH_ROW or item.get_closest_marker("measured") else SHARE
        item.stash[_measures] = shows and seen[file] % share == 0
        item.stash[_measures_processes] = shows and seen[file] % (share * EVERY) == 0
        tables.add(table)
        seen[file] += shows


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _room(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").partition("/")[0]


def _shows_what_is_tested(item: pytest.Item, names: set[str]) -> bool:
    told = item.nodeid.replace("postgresql", "sqlite")
    return not (
        _room(item) in OUTSIDE
        or getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        or (_room(item) != "store" and told != item.nodeid and told in names)
        or item.get_closest_marker("unmeasured")
    )


def _has_fixtures(item: pytest.Item) -> bool:
    """Whether something is made for it, which has threads that are to be measured with it."""
    rows = getattr(item, "callspec", None)
    given = {*rows.params} if rows else set[str]()
    return bool({*item.fixturenames} - given - {"anyio_backend", "request"})


class _Chosen:
    """Measures each test that is chosen, and nothing else."""

    def __init__(self, measuring: Coverage) -> None:
        self._measuring, self._remembers = measuring, False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose, and have what is measured of a file come first: to forget costs much."""
        _choose(items)
        places: dict[str, int] = {}
        for item in items:
            places.setdefault(_file(item), len(places))
        items.sort(key=lambda item: (places[_file(item)], not item.stash[_measures]))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure it, or do not; and its processes."""
        if not item.stash[_measures]:
            self._remembers = True
            return (yield)
        if self._remembers:
            # What a test that is not measured has made the code remember would hide what runs.
            forget()
            self._remembers = False
        if not _has_fixtures(item):
            return (yield)
        with self._measured(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Item) -> Generator[None, object, object]:
        """Measure the test alone: what pytest does around it takes longer than most of them."""
        if not pyfuncitem.stash[_measures] or _has_fixtures(pyfuncitem):
            return (yield)
        with self._measured(pyfuncitem):
            return (yield)

    @contextmanager
    def _measured(self, item: pytest.Item) -> Iterator[None]:
        self._measuring.start()
        if not item.stash[_measures_processes]:
            os.environ.pop(_PROCESSES, None)
        try:
            yield
        finally:
            _stop()
