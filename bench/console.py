"""`python -m bench.console`: how soon the console is there, and how a large plan moves.

A real server and a real browser; nothing of a page is kept from one measurement to the next. First
load is measured as Lighthouse does: the first contentful paint, and the time to interactive, which
is the end of the last task of more than 50 ms before five seconds without one. The slow profile is
Lighthouse's slow 4G: 150 ms, 1.6 Mbit/s, a processor four times slower.

Writes CONSOLE.md.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from bench._report import Figure, say, write_console
from bench._rig import layers, median
from console.browser import find_chromium
from console.plans import Person
from durability.server import Server
from fakes.openai_server import fake_openai
from gonogo.store import utc_now

WIDE = 50
"""Subtasks that wait for the layer before."""
LIMIT = 120_000
ZOOMED = 3_000
QUIET = 5_000
"""Milliseconds; see the module."""
FAST = {"latency": 0, "down": -1, "up": -1, "slower": 1}
SLOW = {"latency": 150, "down": 1.6e6 / 8, "up": 750e3 / 8, "slower": 4}
WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => {
  const ends = list.getEntries().map(({ startTime, duration }) => startTime + duration);
  window.longTasks.push(...ends);
}).observe({ type: "longtask", buffered: true });
"""
LOADED = """(quiet) => new Promise((done) => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const look = setInterval(() => {
    const last = Math.max(painted() ?? Infinity, ...window.longTasks);
    if (performance.now() - last < quiet) return;
    clearInterval(look);
    const { domContentLoadedEventEnd } = performance.getEntriesByType("navigation")[0];
    done({ paint: painted(), ready: Math.max(last, domContentLoadedEventEnd) });
  }, 100);
})"""
PRESS = """([what, name, wanted]) => new Promise((done) => {
  // From within: a driver that looks for elements takes time of the page itself.
  [...document.querySelectorAll(what)].find((each) => each.textContent === name).click();
  const look = setInterval(() => {
    if (document.querySelector(wanted) === null) return;
    clearInterval(look);
    requestAnimationFrame(() => requestIdleCallback(done));
  }, 20);
})"""
IDLE = """(milliseconds) => new Promise((done) => {
  const frames = [];
  function turn(now) {
    frames.push(now);
    if (now - frames[0] < milliseconds) return requestAnimationFrame(turn);
    done((1000 * (frames.length - 1)) / (now - frames[0]));
  }
  requestAnimationFrame(turn);
})"""
ZOOM = """(milliseconds) => new Promise((done) => {
  const pane = document.querySelector(".react-flow__pane");
  const { left, top, width, height } = pane.getBoundingClientRect();
  const begun = performance.now();
  const frames = [];
  function turn(now) {
    frames.push(now);
    const past = now - begun;
    if (past >= milliseconds) {
      return done((1000 * (frames.length - 1)) / (frames.at(-1) - frames[0]));
    }
    // Out for the first half, and in for the second.
    const deltaY = past < milliseconds / 2 ? 4 : -4;
    const clientX = left + width / 2, clientY = top + height / 2;
    const how = { ctrlKey: true, bubbles: true, cancelable: true, deltaY, clientX, clientY };
    pane.dispatchEvent(new WheelEvent("wheel", how));
    requestAnimationFrame(turn);
  }
  requestAnimationFrame(turn);
})"""


class Desk:
    """A browser that is signed in."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self._browser, self.server = browser, server
        with self.window() as page:
            page.goto(server.link)
            page.get_by_role("heading", name="Sessions").wait_for()
            self._state: Any = page.context.storage_state()

    _state = None

    @contextmanager
    def window(self) -> Iterator[Page]:
        """An empty page that has nothing of an earlier one but the sign-in."""
        context: BrowserContext = self._browser.new_context(
            viewport={"width": 1280, "height": 800}, locale="en-US", storage_state=self._state
        )
        context.set_default_timeout(LIMIT)
        yield context.new_page()
        context.close()

    def first_load(self, profile: dict[str, float]) -> tuple[float, float]:
        """Milliseconds to the first paint, and until the page can be used."""
        with self.window() as page:
            page.add_init_script(WATCH)
            to = page.context.new_cdp_session(page)
            to.send("Network.enable")
            to.send("Network.emulateNetworkConditions", {
                "offline": False, "latency": profile["latency"],
                "downloadThroughput": profile["down"], "uploadThroughput": profile["up"],
            })  # fmt: skip
            to.send("Emulation.setCPUThrottlingRate", {"rate": profile["slower"]})
            page.goto(f"{self.server.url}/#/sessions")
            page.get_by_role("form", name="Start a task").wait_for()
            found = page.evaluate(LOADED, QUIET)
            return found["paint"], found["ready"]

    def empty_frames(self) -> float:
        """Frames a second of a page that does nothing: no page gets more here."""
        with self.window() as page:
            return page.evaluate(IDLE, ZOOMED)

    def large_plan(self, session: str) -> tuple[float, float, float, float, int]:
        """What a plan takes.

        Seconds of the processor until its list is drawn, then its graph, and for a frame of zoom;
        frames a second, and requests at rest.
        """
        with self.window() as page:
            to = page.context.new_cdp_session(page)
            to.send("Performance.enable")
            # What every page loads is another figure.
            page.goto(f"{self.server.url}/#/sessions/{session}")
            page.get_by_role("tab", name="Plan").wait_for()
            page.wait_for_load_state("networkidle")
            opened = _busy(to)
            page.evaluate(PRESS, ["[role=tab]", "Plan", "ol li button"])
            listed = _busy(to)
            page.evaluate(PRESS, ["label", "Graph", ".react-flow__node"])
            drawn = _busy(to)
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            before = _busy(to)
            frames = page.evaluate(ZOOM, ZOOMED)
            each = (_busy(to) - before) / (frames * ZOOMED / 1_000)
            page.wait_for_timeout(QUIET)
            return listed - opened, drawn - listed, each, frames, len(asked)


def _busy(to: CDPSession) -> float:
    """Seconds of processor time that the page's process took, in all of its threads."""
    found = to.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in found if each["name"] == "ProcessTime")


def propose(person: Person, session: str, count: int) -> None:
    """Have a large plan wait for a decision."""
    person.post("/sessions", session_id=session, title=f"{count} subtasks")
    steps = [
        each.model_dump(mode="json", exclude_unset=True) for each in layers(count // WIDE, WIDE)
    ]
    person.post("/plans", session_id=session, goal="All of it", subtasks=steps)


def _loads(desk: Desk, runs: int) -> Iterator[Figure]:
    for name, profile, targets in (
        ("as this machine is", FAST, ("≤ 1500", "≤ 1500")),
        ("slow 4G, processor ÷ 4", SLOW, (None, None)),
    ):
        say(f"first_load {name}")
        found = [desk.first_load(profile) for _ in range(runs)]
        for what, values, target in zip(
            ("first contentful paint", "time to interactive"), zip(*found, strict=True), targets,
            strict=True,
        ):  # fmt: skip
            yield Figure(work=f"{what}, {name}", unit="ms", value=median(values), target=target)


def _plans(desk: Desk, runs: int) -> Iterator[Figure]:
    yield Figure(work="an empty page", unit="frames/s", value=desk.empty_frames())
    for count in (300, 500):
        say(f"large_plan {count}")
        propose(Person(desk.server), f"p{count}", count)
        found = [desk.large_plan(f"p{count}") for _ in range(runs)]
        listed, drawn, each, frames, asked = (median(one) for one in zip(*found, strict=True))
        of = f"a plan of {count} subtasks"
        for what, took in (
            (f"{of}: processor time of its list", listed),
            ("then of its graph", drawn),
        ):
            yield Figure(work=what, unit="s", value=took, target="≤ 1.0")
        yield Figure(
            work=f"{of}: processor time of a frame of zoom", unit="ms", value=1_000 * each,
            target="≤ 20",
        )  # fmt: skip
        yield Figure(work=f"{of}: zoom", unit="frames/s", value=frames, target="≥ 50")
        yield Figure(work=f"{of}: requests at rest", unit="", value=asked, target="≤ 0")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run of each, no file")
    quick = parser.parse_args().quick
    chromium = find_chromium(windows=True)
    with tempfile.TemporaryDirectory() as folder, fake_openai({"rules": []}) as model:
        (Path(folder) / "workspace").mkdir()
        server = Server(Path(folder), model.base_url, None, 0).wait()
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                desk, runs = Desk(browser, server), 1 if quick else 5
                figures = [*_loads(desk, runs), *_plans(desk, runs)]
                browser.close()
        finally:
            server.kill()
    table = write_console(figures, os.getloadavg()[1], utc_now(), keep=not quick)
    print(table)


if __name__ == "__main__":
    main()
