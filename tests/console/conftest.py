"""A real server, a real browser, and a person who sits before it."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from console.browser import find_chromium
from durability.ground import Ground
from durability.server import Server
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI, fake_openai
from gonogo.server import app as serving

HERE = Path(__file__).parent
ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
LIMIT = 60_000
"""Milliseconds after which a page that does not come to where it should is given up."""
_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
    # A page lives for seconds: to make its code faster takes longer than it saves.
    "--js-flags=--no-opt --no-maglev --no-sparkplug",
)  # fmt: skip


@pytest.fixture(scope="session")
def model_server() -> Iterator[FakeOpenAI]:
    with fake_openai() as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First of all, so that one worker has them in a row while the others do the rest."""
    items.sort(key=lambda item: not _is_here(item))


def _is_here(item: pytest.Item | None) -> bool:
    return item is not None and item.path.is_relative_to(HERE)


_OPEN = pytest.StashKey[tuple[Any, ExitStack]]()
"""The browser, and what ends it."""


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Any:
    """One for all the tests of this room that a worker has in a row."""
    stash = request.config.stash
    if _OPEN not in stash:
        stash[_OPEN] = _start()
        # A run that is stopped has no last test.
        request.config.add_cleanup(stash[_OPEN][1].close)
    return stash[_OPEN][0]


def _start() -> tuple[Any, ExitStack]:
    if (chromium := find_chromium()) is None:
        pytest.skip("chromium is not installed")
    if not serving.has_console():
        if os.environ.get("CI"):
            pytest.fail("the console was not built")
        pytest.skip("the console was not built: run scripts/console")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=LIMIT)
    with ExitStack() as stack:
        driver = stack.enter_context(playwright.sync_playwright())
        launched = driver.chromium.launch(executable_path=chromium, args=_QUIET)
        stack.callback(launched.close)
        return launched, stack.pop_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """End the browser after the last: its driver holds the thread's event loop."""
    try:
        return (yield)
    finally:
        if _OPEN in item.config.stash and not _is_here(nextitem):
            item.config.stash[_OPEN][1].close()
            del item.config.stash[_OPEN]


@pytest.fixture
def ground(tmp_path: Path, model_server: FakeOpenAI, born: Nursery) -> Iterator[Ground]:
    found = Ground(tmp_path, model_server, born)
    yield found
    found.close()


@pytest.fixture
def server(ground: Ground) -> Server:
    """A server that listens."""
    return ground.server().wait()


_SEEN = pytest.StashKey[list[Any]]()
"""The pages that a test has opened."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if call.when == "call" and report.failed:
        for page in item.stash.get(_SEEN, []):
            with suppress(Exception):  # a page that has died shows nothing
                report.sections.append((page.url, page.locator("body").aria_snapshot()))
    return report


@pytest.fixture
def look(browser: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Opens a window of its own, as another person's browser would; nothing may go wrong in it."""
    contexts: list[Any] = []
    pages = request.node.stash[_SEEN] = []
    wrong: list[str] = []

    def opened(
        address: str, *, width: int = 1280, locale: str = "en-US", scheme: str = "light"
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, locale=locale, color_scheme=scheme
        )
        contexts.append(context)
        context.set_default_timeout(LIMIT)
        page = context.new_page()
        pages.append(page)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: _note(wrong, said))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def _note(wrong: list[str], said: Any) -> None:
    # That a request was refused is the browser's to say, and a test's to want.
    if said.type == "error" and "Failed to load resource" not in said.text:
        wrong.append(said.text)
