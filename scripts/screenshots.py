"""Take the pictures of the console for the docs: a real server, a scripted model, a sample project.

Times, durations, ids and digests are made to read the same whenever this runs, so that a picture
changes only where the console does. The analytics show a made-up week. Pictures are WebP, which
takes a third of what a PNG takes.
"""

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from console.browser import find_chromium
from console.plans import Person
from durability.server import Server
from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.world import call
from gonogo import demo

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SESSION = "tally-json"
TASK = "Add a --json flag to tally, with a test, and describe it in the README."
LIMIT = 60_000
QUALITY = 82
HELD = 600.0
"""Seconds that a reply is kept back, so that its subtask is still at work in a picture."""


def _step(name: str, description: str, *after: str, **more: object) -> dict[str, Any]:
    return {
        "id": name, "description": description, "agent": "coder", "dependencies": [*after], **more,
    }  # fmt: skip


STEPS = [
    _step("sums", "Add the amounts of one category instead of keeping the last",
          estimated_time="4 min", must_change=False,
          scope={"paths": ["tally/report.py"], "commands": ["python3 -m unittest"]}),
    _step("flag", "Print the totals as JSON when --json is given", "sums", estimated_time="6 min",
          scope={"paths": ["tally/cli.py"]}),
    _step("tests", "Test the flag, also with an empty file", "flag", estimated_time="5 min",
          scope={"paths": ["tests/**"], "commands": ["python3 -m unittest"]},
          retry_policy={"max_attempts": 2}),
    _step("readme", "Describe the flag in the README", "flag", estimated_time="2 min",
          scope={"paths": ["README.md"]}),
    _step("check", "Run all tests and look the change over", "tests", "readme", agent="debug",
          estimated_time="3 min", approval_required=True),
]  # fmt: skip
GOAL = "tally prints JSON, tested and described"
CLI = '''"""The command line."""

import argparse
import json
from pathlib import Path

from tally.report import read_expenses, totals


def main(argv: list[str]) -> int:
    """Print the totals of one file."""
    parser = argparse.ArgumentParser(prog="tally")
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="print an object, in cents")
    options = parser.parse_args(argv)
    spent = totals(read_expenses(options.file))
    if options.json:
        print(json.dumps(spent))
        return 0
    whole = sum(spent.values())
    for category, cents in spent.items():
        print(f"{category:<10} {cents / 100:>9.2f} {100 * cents / whole:>5.1f} %")
    print(f"{'all':<10} {whole / 100:>9.2f}")
    return 0
'''
CHANGES = """# Changes

- `--json` prints the totals as an object, in cents.
- The amounts of one category are added.
"""


def _work(step: dict[str, Any], *replies: dict[str, Any]) -> dict[str, Any]:
    return {"when": {"user": step["description"]}, "replies": [*replies]}


def _says() -> dict[str, Any]:
    """What the model says. Whose brief names what came before stands before it."""
    sums, flag, tests, readme, check = STEPS
    return {"rules": [
        _work(check, {"text": "Everything passes."}),
        _work(readme, {"calls": [call("write_file", path="CHANGELOG.md", content=CHANGES)]},
              {"text": "The README says it."}),
        _work(tests, {"text": "The flag is tested.", "delay": HELD}),
        _work(flag, {"calls": [call("read_file", path="tally/cli.py")]},
              {"calls": [call("write_file", path="tally/cli.py", content=CLI)]},
              {"text": "`--json` prints an object."}),
        _work(sums, {"calls": [call("read_file", path="tally/report.py")]},
              {"text": "They are added now."}),
        {"when": {"user": TASK}, "replies": [
            {"text": "This takes several steps; the architect plans them.",
             "calls": [call("switch_mode", mode="architect")]},
            {"text": "I read the project first.",
             "calls": [call("list_files", path="."), call("read_file", path="tally/cli.py")]},
            {"calls": [call("create_plan", goal=GOAL, subtasks=STEPS)]},
            {"text": "The plan is ready."},
        ]},
    ]}  # fmt: skip


STEADY = """(folder) => {
  const spans = ["41 s", "1 min 12 s", "38 s", "2 min 5 s", "55 s"];
  let place = 0;
  const changes = [
    [new RegExp(folder.replaceAll("/", "[/]"), "g"), () => "/home/ann/src/tally"],
    [folder.split("/").slice(-2).join("/"), () => "src/tally"],
    [/sha256:[0-9a-f]{64}/g, () => "sha256:5d0c7b1a" + "94e2f3a60b8d".repeat(4) + "17c4e0f2"],
    [/\\b[0-9a-f]{64}\\b/g, () => "94e2f3a60b8d".repeat(5) + "17c4"],
    [/\\b(plan|call|apr|approval|chk|turn)_[0-9a-z]{8,}/g, (_, kind) => kind + "_019c2b7e"],
    [/\\b\\d+([.]\\d+)? (seconds?|minutes?) ago\\b|\\bnow\\b/g, () => "3 minutes ago"],
    [/\\b\\d+ (секунд|минут)[уы]? назад|сейчас/g, () => "3 минуты назад"],
    [/\\b\\d+([.]\\d+)? (s|ms)\\b/g, () => spans[place++ % spans.length]],
    [/\\b[A-Z][a-z]{2} \\d{1,2}, \\d{4}, [\\d:]+\\s[AP]M/g, () => "Nov 22, 2026, 2:05:11 PM"],
    [/expires in [\\d:]+/g, () => "expires in 29:00"],
  ];
  for (const field of document.querySelectorAll("input")) {
    if (field.value === folder) field.value = "/home/ann/src/tally";
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    let text = node.data;
    for (const [found, put] of changes) text = text.replace(found, put);
    if (text !== node.data) node.data = text;
  }
}"""


def _outcomes(name: str, *counts: int, seconds: float) -> dict[str, Any]:
    completed, failed, skipped, cancelled, retries = counts
    ended = sum(counts[:4])
    return {
        "name": name, "completed": completed, "failed": failed, "skipped": skipped,
        "cancelled": cancelled, "retries": retries, "ended": ended,
        "success_rate": completed / (completed + failed), "duration_seconds": _took(ended, seconds),
    }  # fmt: skip


def _took(count: int, half: float) -> dict[str, float]:
    return {"count": count, "p50": half, "p90": 2.4 * half, "p99": 4.1 * half}


WEEK = {
    "since": "2026-11-16T00:00:00Z", "until": "2026-11-23T00:00:00Z",
    "plans": {
        "completed": 31, "partial": 2, "failed": 1, "cancelled": 3, "ended": 37, "replans": 4,
        "rollbacks": 2, "success_rate": 31 / 34, "duration_seconds": _took(37, 410),
    },
    "subtasks": _outcomes("", 168, 9, 7, 6, 14, seconds=95),
    "by_worker": [
        _outcomes("coder", 109, 7, 4, 5, 12, seconds=120),
        _outcomes("debug", 34, 2, 3, 1, 2, seconds=88),
        _outcomes("execute_command", 25, 0, 0, 0, 0, seconds=12),
    ],
    "by_type": [
        _outcomes("action", 131, 6, 5, 6, 11, seconds=104),
        _outcomes("validation", 37, 3, 2, 0, 3, seconds=41),
    ],
    "failures": [
        {"category": "validation", "worker": "coder", "type": "action", "count": 5},
        {"category": "timeout", "worker": "debug", "type": "validation", "count": 3},
        {"category": "network", "worker": "coder", "type": "action", "count": 1},
    ],
    "approvals": [
        {"kind": "plan", "asked": 41, "answers": {"approved": 33, "edited": 4, "rejected": 4},
         "latency_seconds": _took(41, 75)},
        {"kind": "tool", "asked": 58, "pending": 1, "answers": {"approved": 51, "rejected": 6},
         "latency_seconds": _took(57, 22)},
    ],
    "tool_calls": {
        "asked": 58, "ended": {"completed": 1204, "failed": 31, "denied": 4, "rejected": 6},
        "started": {"rule": 812, "grant": 372, "person": 51},
    },
    "models": [
        {"model": "anthropic:claude-sonnet-4-5", "requests": 1320, "failed": 3,
         "input_tokens": 8_400_000, "cached_tokens": 7_100_000, "output_tokens": 610_000,
         "reasoning_tokens": 120_000, "cost_dollars": 16.42},
        {"model": "openai:gpt-5-mini", "requests": 212, "failed": 0, "input_tokens": 640_000,
         "cached_tokens": 310_000, "output_tokens": 41_000, "cost_dollars": 0.31},
    ],
}  # fmt: skip


class Camera:
    """Windows of a browser that is signed in."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self._browser, self._server = browser, server
        self._state: Any = None

    @contextmanager
    def window(
        self, place: str, *, width: int = 1280, scheme: str = "light", locale: str = "en-US"
    ) -> Iterator[Page]:
        """A page of the console."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, locale=locale,
            reduced_motion="reduce", storage_state=self._state, timezone_id="UTC",
        )  # fmt: skip
        context.set_default_timeout(LIMIT)
        page = context.new_page()
        if self._state is None:
            page.goto(self._server.link)
            page.get_by_role("heading", name="Sessions").wait_for()
            self._state = context.storage_state()
        page.goto(f"{self._server.url}/#/{place}")
        yield page
        context.close()

    def take(self, page: Page, name: str) -> None:
        """Write a picture."""
        page.wait_for_load_state("networkidle")
        page.evaluate(STEADY, str(self._server.workspace))
        how = {"format": "webp", "quality": QUALITY}
        taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", how)
        (IMAGES / f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))


def waiting(camera: Camera) -> None:
    """The plan, before anybody has decided."""
    with camera.window(f"sessions/{SESSION}/plan") as page:
        page.locator("[data-id=check]").wait_for()
        asked = page.get_by_role("region", name="waits for your decision")
        asked.evaluate("node => node.scrollIntoView({ block: 'end' })")
        camera.take(page, "plan")
    with camera.window(f"sessions/{SESSION}/plan", width=400) as page:
        page.get_by_role("list", name="Subtasks").wait_for()
        page.get_by_role("region", name="waits for your decision").scroll_into_view_if_needed()
        camera.take(page, "phone")
    with camera.window(f"sessions/{SESSION}/plan", locale="ru-RU") as page:
        page.locator("[data-id=check]").wait_for()
        asked = page.get_by_role("region", name="ждёт вашего решения")
        asked.evaluate("node => node.scrollIntoView({ block: 'end' })")
        camera.take(page, "plan-ru")


def running(camera: Camera, asked: str) -> None:
    """The plan at work, and what it asks meanwhile."""
    with camera.window(f"sessions/{SESSION}/plan", scheme="dark") as page:
        page.locator("[data-id=check]").wait_for()
        camera.take(page, "running")
    with camera.window(f"approvals/{asked}") as page:
        page.get_by_role("region", name="The open question").get_by_text(
            "CHANGELOG"
        ).first.wait_for()
        camera.take(page, "question")
    with camera.window("audit") as page:
        page.get_by_text("approved plan").first.wait_for()
        camera.take(page, "audit")
    with camera.window("sessions") as page:
        page.get_by_role("list", name="Sessions").get_by_text("2 of 5").wait_for()
        camera.take(page, "home")
    with camera.window("sessions") as page:
        page.route("**/api/v1/analytics?*", lambda route: route.fulfill(json=WEEK))
        page.evaluate("location.hash = '/analytics'")
        page.locator(".recharts-bar-rectangle").first.wait_for()
        camera.take(page, "analytics")


def main() -> None:
    """Take them all."""
    IMAGES.mkdir(exist_ok=True)
    chromium = find_chromium(windows=True)
    with tempfile.TemporaryDirectory() as found, fake_openai(_says()) as model:
        _take_all(Path(found), model, chromium)


def _take_all(folder: Path, model: FakeOpenAI, chromium: str | None) -> None:
    demo.lay_out(folder / "workspace")
    server = Server(folder, model.base_url, None, 0).wait()
    try:
        person = Person(server)
        person.post("/sessions", session_id=SESSION, title="JSON for tally")
        plan = person.propose(SESSION, TASK)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            camera = Camera(browser, server)
            waiting(camera)
            person.post(f"/plans/{plan}/decision", decision="approve")
            status = f"/plans/{plan}/status"
            person.until(
                status, lambda s: sum(t["status"] == "completed" for t in s["subtasks"]) == 2
            )
            pending = f"/sessions/{SESSION}/pending-approvals"
            asked = person.until(pending, lambda p: p["count"] == 1)["pending_approvals"][0]
            running(camera, asked["approval_id"])
            browser.close()
    finally:
        server.kill()


if __name__ == "__main__":
    main()
