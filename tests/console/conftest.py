"""A real server, a real browser, and a person who sits before it."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from durability.ground import Ground
from durability.server import Server
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI, fake_openai
from gonogo.server.routes import static

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # Its driver holds the thread's event loop: it is over before other modules' tests begin.
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    if not (static.FOLDER / "index.html").is_file():
        if os.environ.get("CI"):
            pytest.fail("the console was not built")
        pytest.skip("the console was not built: run scripts/console")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=LIMIT)
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=_QUIET)
        yield found
        found.close()


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
