"""What takes too long for every run of the tests: `scripts/test --nightly` has it as well.

A test marked `nightly` runs only then. A test that tries many examples asks `examples` how many:
each run takes a share of what a nightly one takes.
"""

import os

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
    """Leave out what is marked `nightly`, unless the run is."""
    if is_nightly():
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
