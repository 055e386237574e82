"""Several people and several lives of a server: each page shows the same, and goes on by itself."""

from typing import Any

import pytest

from console.plans import Person
from console.test_approvals import SWITCH
from console.test_sessions import say, start, tell
from fakes.sockets import held_port
from fakes.world import call

expect = pytest.importorskip("playwright.sync_api").expect

ASKS = {"rules": [{"when": {"user": "work"}, "replies": [
    SWITCH, {"calls": [call("write_file", path="a.txt", content="bold\n")]}, {"text": "Well."},
]}]}  # fmt: skip
NOTICES = """
window.told = [];
window.Notification = class extends window.Notification {
  constructor(title, how) { super(title, how); window.told.push(`${title}: ${how.body}`); }
};
Object.defineProperty(document, "hidden", { get: () => window.isAway === true });
"""
"""Collects what the browser shows; the page is in the background as soon as it is told so."""


def enter(look: Any, server: Any, name: str) -> Any:
    """A browser of somebody who was given a token."""
    token = Person(server).post("/tokens", name=name, role="admin")["token"]
    page = look(server.url)
    page.get_by_label("Or paste the link").fill(token)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("heading", name="Sessions").wait_for()
    return page


def transcript(page: Any) -> str:
    """What stands in the conversation, of which what a person said may come last."""
    page.get_by_role("log").get_by_text("work", exact=True).wait_for()
    return page.get_by_role("log").inner_text()


def test_two_people_see_the_same_and_the_slower_one_keeps_what_was_written(server, ground, look):
    ground.model.script(ASKS)
    ann, bob = (enter(look, server, name) for name in ("ann", "bob"))
    start(ann, "Shared")
    bob.goto(ann.url)
    say(ann, "work")
    for page in (ann, bob):
        asked = page.get_by_role("log").get_by_role("region", name="Tool call")
        asked.get_by_text("+bold").wait_for()
    question = bob.get_by_role("log").get_by_role("region", name="Tool call")
    question.get_by_role("button", name="Edit").click()
    question.get_by_label("content", exact=False).fill("gold\n")
    ann.get_by_role("button", name="Approve", exact=True).click()

    question.get_by_text("by ann").first.wait_for()
    expect(question.get_by_label("content", exact=False)).to_have_value("gold\n")
    question.get_by_role("button", name="Discard the edit").click()
    for page in (ann, bob):
        page.get_by_role("log").get_by_text("Well.").wait_for()
    assert transcript(ann) == transcript(bob)
    assert (ground.workspace / "a.txt").read_text() == "bold\n"


@pytest.fixture
def port():
    """A port that stays free for a server between its two lives."""
    with held_port() as found:
        yield found


def test_a_page_goes_on_when_the_server_was_killed_in_the_middle_of_an_answer(ground, look, port):
    slow = {"text": ["Half ", *(["of "] * 300)], "pause": 0.2}
    whole = {"text": ["Half ", "of it."]}
    ground.model.script({"rules": [{"when": {"user": "work"}, "replies": [
        {"text": "First.", "calls": [call("switch_mode", mode="coder")]},
        {"text": "Look.", "calls": [call("list_files", path=".")]}, [slow, whole],
    ]}]})  # fmt: skip
    ground.environment["GONOGO_PORT"] = str(port)
    server = ground.server().wait()
    page = look(server.link)
    start(page, "Killed")
    log = page.get_by_role("log")
    say(page, "work")
    log.get_by_text("Half").wait_for()
    server.kill()
    page.get_by_text("reconnecting").wait_for()
    server = ground.server().wait()

    log.get_by_text("Half of it.", exact=True).wait_for()
    expect(log.locator("[aria-busy=true]")).to_have_count(0)
    seen = transcript(page)
    told = Person(server).get(f"/sessions/{page.url.rpartition('/')[2]}/log")["events"]
    texts = [each["content"] for each in told if each["type"] == "assistant_message"]
    assert texts == ["First.", "Look.", "Half of it."]
    assert [seen.count(text) for text in texts] == [1, 1, 1], seen
    calls = sum(each["type"] == "tool_call" for each in told)
    expect(log.locator("details")).to_have_count(calls)
    page.reload()
    expect(log).to_have_text(seen, use_inner_text=True)


def test_a_question_is_told_while_the_page_is_in_the_background(server, ground, look):
    ground.model.script(ASKS)
    page = look(server.link)
    page.get_by_role("heading", name="Sessions").wait_for()
    page.context.grant_permissions(["notifications"])
    page.add_init_script(NOTICES)
    page.reload()
    page.get_by_role("link", name="Approvals").click()
    page.get_by_role("button", name="Notify me about new questions").click()
    page.get_by_role("button", name="Turn off notifications").wait_for()
    page.evaluate("window.isAway = true")
    Person(server).post("/sessions", session_id="asks")
    tell(server, "asks", "work")

    expect(page).to_have_title("(1) gonogo")
    assert page.evaluate("window.told") == ["gonogo needs an answer: write_file"]
    [asked] = Person(server).get("/approvals?status=pending")["approvals"]
    decision = {"decision": "reject", "digest": asked["digest"]}
    Person(server).post(f"/approvals/{asked['approval_id']}/decision", **decision)
    expect(page).to_have_title("gonogo")
