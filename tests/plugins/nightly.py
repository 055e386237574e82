"""What takes too long for every run of the tests: `scripts/test --nightly` has it as well.

A test marked `nightly`, or named in `tests/nightly.toml` with those that hold its promise in every
run, runs only then; of the many cases of a test marked `spread(n)` every n-th runs always. A test
that tries many examples asks `examples` how many: each run takes a share of what a nightly one
takes. What is told on both kinds of database is told on PostgreSQL in every run by the store's own
tests, where the statements are, by those marked `each_database`, and by the first of each other
folder.
"""

import os
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

_NIGHTLY = "GONOGO_NIGHTLY"
SECONDS = 3600
"""The longest that a test of a nightly run may take."""


def is_nightly() -> bool:
    """Whether this run has everything; the processes that tests are spread over know it too."""
    return bool(os.environ.get(_NIGHTLY))


def examples(each_run: int, *, nightly: int) -> int:
    """How many examples to try in a run of this kind."""
    return nightly if is_nightly() else each_run


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--nightly`."""
    parser.addoption(
        "--nightly", action="store_true", help="also what is long: hours, on two processors"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Tell test modules, which ask when they are imported, and other processes of this run."""
    if early_config.known_args_namespace.nightly:
        os.environ[_NIGHTLY] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each test more time."""
    if config.option.nightly:
        config.option.timeout = SECONDS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a nightly run has, unless this is one."""
    if is_nightly():
        return
    tests = config.rootpath / "tests"
    left_out = {item for item in items if item.get_closest_marker("nightly")}
    left_out |= {*_listed(tests, items), *_told_again(tests / "store", items), *_between(items)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def listed(tests: Path) -> dict[str, list[str]]:
    """The tests that a list in the folder of tests leaves to the night, with those of every run."""
    path = tests / "nightly.toml"
    files = tomllib.loads(path.read_text()) if path.exists() else {}
    return {f"{file}::{test}": day for file, found in files.items() for test, day in found.items()}


def _listed(tests: Path, items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """What is named in it, with its case or for all of them."""
    named = listed(tests)
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name in named or name.partition("[")[0] in named:
            yield item


def _between(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases of a long list between those of every run."""
    seen: Counter[str] = Counter()
    for item in items:
        if spread := item.get_closest_marker("spread"):
            test = item.nodeid.partition("[")[0]
            if seen[test] % spread.args[0]:
                yield item
            seen[test] += 1


def _told_again(store: Path, items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """What is told on PostgreSQL besides, where SQLite has told it and no statement is new."""
    begun: set[Path] = set()
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or callspec.params.get("kind") != "postgresql":
            continue
        always = item.path.is_relative_to(store) or item.get_closest_marker("each_database")
        if item.path.parent in begun and not always:
            yield item
        begun.add(item.path.parent)
