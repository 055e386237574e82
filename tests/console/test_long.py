"""Long sessions and large plans in a browser: what is drawn is what is in view."""

import time
from typing import Any

import pytest

from console.conftest import LIMIT
from console.long import PER_TURN, fill
from console.test_sessions import tell
from plugins.nightly import examples

expect = pytest.importorskip("playwright.sync_api").expect

TURNS = examples(200, nightly=1_000)
MANY, WIDE = 500, 50
"""Subtasks, and how many of them wait for the same."""
MOST_NODES = 400
"""Elements of the log at once; ten thousand events would be some fifty thousand."""
DRAWN = "document.querySelectorAll('[role=log] *').length"


def scroll_up_until(log: Any, found: Any) -> None:
    """Turn the wheel, as a person does, until it is seen."""
    log.hover()
    page = log.page
    last = time.monotonic() + LIMIT / 1_000
    while found.count() == 0:
        page.mouse.wheel(0, -700)
        page.evaluate("() => new Promise(requestAnimationFrame)")
        assert time.monotonic() < last, log.inner_text()


def test_thousands_of_events_are_read_in_pages_and_drawn_as_they_come_into_view(ground, look):
    fill(ground.database, "long", TURNS)
    # The model is asked with all of it: what is shown less of is no matter here.
    ground.environment["GONOGO_MODEL_WINDOW"] = "10000000"
    ground.model.script(
        {"rules": [{"when": {"user": "more"}, "reply": {"text": ["Some", " more"] * 20}}]}
    )
    server = ground.server().wait()
    page = look(server.link)
    page.get_by_role("heading", name="Sessions").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/api/v1/")[2]))
    page.get_by_role("link", name="Long").click()
    log = page.get_by_role("log")
    log.get_by_text(f"Answer {TURNS - 1}:").wait_for()
    assert page.evaluate(DRAWN) < MOST_NODES
    assert [each for each in asked if "/log" in each] == ["sessions/long/log?limit=500"]
    assert f"sessions/long/events?after={TURNS * PER_TURN}" in asked

    scroll_up_until(log, log.get_by_text(f"Question {TURNS - 60}", exact=True))
    assert page.evaluate(DRAWN) < MOST_NODES
    to_end = page.get_by_role("button", name="To the end")
    to_end.click()
    log.get_by_text(f"Answer {TURNS - 1}:").wait_for()
    # Only who stands at the end is taken along.
    expect(to_end).to_be_hidden()

    field = page.get_by_placeholder("What should be done?")
    field.fill("more")
    field.press("Enter")
    field.press_sequentially("and then")
    log.get_by_text("Some more" * 20).wait_for()
    expect(field).to_have_value("and then")
    assert page.evaluate(DRAWN) < MOST_NODES


def step(n: int) -> dict[str, Any]:
    """One that waits for two of the layer before it."""
    last = n // WIDE * WIDE - 1
    after = [] if n < WIDE else [f"s{n - WIDE}", f"s{last - n % 7}"]
    return {"id": f"s{n}", "description": f"Step {n}", "agent": "coder", "dependencies": after}


_ANOTHER = """(drawn) => [...document.querySelectorAll(".react-flow__node")]
  .some((node) => !drawn.includes(node.dataset.id))"""


def see_what_is_dragged_into_view(page: Any) -> None:
    drawn = page.locator(".react-flow__node").evaluate_all("all => all.map((n) => n.dataset.id)")
    pane = page.locator(".react-flow__pane")
    pane.scroll_into_view_if_needed()
    frame = pane.bounding_box()
    page.mouse.move(frame["x"] + 700, frame["y"] + 200)
    page.mouse.down()
    page.mouse.move(frame["x"] + 20, frame["y"] + 200, steps=8)
    page.mouse.up()
    page.wait_for_function(_ANOTHER, arg=drawn)


def test_a_plan_of_five_hundred_subtasks_begins_as_a_list_and_is_drawn_where_it_is_looked_at(
    server, ground, look
):
    steps = [step(n) for n in range(MANY)]
    plan = {"name": "create_plan", "arguments": {"goal": "All of it", "subtasks": steps}}
    switch = {"name": "switch_mode", "arguments": {"mode": "architect"}}
    ground.model.script({"rules": [
        {"when": {"user": "all"}, "replies": [{"calls": [switch]}, {"calls": [plan]}]},
    ]})  # fmt: skip
    tell(server, "many", "all")
    page = look(server.link)
    page.get_by_role("heading", name="Sessions").wait_for()
    page.goto(f"{server.url}/#/sessions/many/plan")
    rows = page.get_by_role("list", name="Subtasks").get_by_role("listitem")
    expect(rows.first).to_have_attribute("aria-setsize", str(MANY))
    assert rows.count() < MANY / 10
    rows.first.hover()
    page.mouse.wheel(0, 1_000_000)
    page.get_by_role("list", name="Subtasks").get_by_text(f"Step {MANY - 1}").wait_for()
    assert rows.count() < MANY / 10

    page.get_by_text("Graph", exact=True).click()
    nodes = page.locator(".react-flow__node")
    nodes.first.wait_for()
    assert nodes.count() < MANY / 4
    see_what_is_dragged_into_view(page)
    # Far away all of them are a picture, in which one is chosen by the pointer.
    page.get_by_role("button", name="Fit to view").click()
    expect(nodes).to_have_count(0)
    frame = page.locator(".react-flow__pane").bounding_box()
    # Its middle is between four of them.
    page.mouse.click(frame["x"] + frame["width"] / 2 + 12, frame["y"] + frame["height"] / 2 + 5)
    page.get_by_role("dialog").get_by_text("Step ").first.wait_for()
    page.keyboard.press("Escape")

    page.get_by_text("List", exact=True).click()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("Step 0").wait_for()
