"""Nothing that a test has made the code remember is there for the next one.

For scripts/mutate: an answer remembered from an earlier test would hide which code a test runs, and
with it that the test notices a change there.
"""

import sys

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin anew."""
    forget()


def forget() -> None:
    """Empty every cache of our functions."""
    for name, module in list(sys.modules.items()):
        if name.startswith("gonogo."):
            for value in vars(module).values():
                if clear := getattr(value, "cache_clear", None):
                    clear()
