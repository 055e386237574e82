"""The approvals desk in a browser: what is asked, the answers, and what came of them."""

from typing import Any

import httpx
import pytest

from console.conftest import LIMIT
from console.test_sessions import say, start, tell, violations
from fakes.world import call

expect = pytest.importorskip("playwright.sync_api").expect

SWITCH = {"calls": [{"name": "switch_mode", "arguments": {"mode": "coder"}}]}


HIDDEN = call("write_file", path="notes.md", content="# \u202eNotes\n")


def rule(word: str, made: dict[str, Any]) -> dict[str, Any]:
    """The coder makes a call when a message has a word."""
    return {"when": {"user": word}, "replies": [SWITCH, {"calls": [made]}, {"text": "Well."}]}


def desk(server, ground, look, work: dict[str, Any], hide: dict[str, Any] | None = None) -> Any:
    """A page at the desk, where a call waits."""
    ground.model.script({"rules": [rule("work", work), rule("hide", hide or work)]})
    page = look(server.link)
    start(page, "Work")
    say(page, "work")
    page.get_by_role("button", name="Decide").first.wait_for()
    page.evaluate("location.hash = '#/approvals'")
    page.get_by_role("list", name="Approvals").wait_for()
    return page


def question(page: Any) -> Any:
    return page.get_by_role("region", name="The open question")


def api(server, method: str, path: str, **more: Any) -> Any:
    """Another client's request."""
    headers = {"Authorization": f"Bearer {server.token}"}
    answer = httpx.request(
        method, f"{server.url}/api/v1{path}", headers=headers, timeout=LIMIT / 1_000, **more
    )
    assert answer.is_success, answer.text
    return answer.json()


def test_a_write_is_shown_as_a_diff_and_edited_by_keys_in_a_form(server, ground, look):
    page = desk(server, ground, look, call("write_file", path="old.txt", content="bold\n"))
    expect(page).to_have_title("(1) gonogo")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    asked = question(page)
    asked.get_by_text("+bold").wait_for()
    asked.get_by_text("sha256:").wait_for()

    page.keyboard.press("e")
    content = asked.get_by_label("content", exact=False)
    content.fill("gold\n")
    page.keyboard.type("a?")
    expect(content).to_have_value("gold\na?")
    asked.get_by_role("button", name="Approve as edited").click()
    asked.get_by_text("Done:").wait_for()
    expect(page).to_have_title("gonogo")
    page.goto(page.url.partition("#")[0] + "#/sessions")
    page.get_by_role("link", name="Work").click()
    page.get_by_role("log").get_by_text("Well.").wait_for()
    assert (ground.workspace / "old.txt").read_text() == "gold\na?"
    assert violations(page) == []


def test_a_key_approves_a_long_change_only_after_reading_to_its_end(server, ground, look):
    text = "".join(f"line {number}\n" for number in range(300))
    page = desk(server, ground, look, call("write_file", path="old.txt", content=text))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    question(page).get_by_text("+line 299").wait_for()
    approve = question(page).get_by_role("button", name="Approve")
    expect(approve).not_to_be_in_viewport()

    presses = 0
    while approve.count() and not approve.evaluate(
        "each => each.getBoundingClientRect().bottom <= innerHeight"
    ):
        page.keyboard.press("a")
        presses += 1
        assert presses < 50
        assert [one["status"] for one in api(server, "GET", "/approvals")["approvals"]] == [
            "pending"
        ]

    assert presses > 3
    page.keyboard.press("a")
    question(page).get_by_text("Done:").wait_for()


def test_identical_calls_are_one_line_and_what_is_not_seen_is_shown(server, ground, look):
    page = desk(server, ground, look, call("delete_file", path="old.txt"), HIDDEN)
    for name in ("One", "Two"):
        tell(server, api(server, "POST", "/sessions", json={"title": name})["session_id"], "hide")
    line = page.get_by_role("listitem").filter(has_text="2 identical")
    line.get_by_role("link").click()
    expect(question(page).locator("pre").first).to_contain_text("202e", ignore_case=True)
    assert "\u202e" not in question(page).inner_text()
    page.keyboard.press("r")
    page.keyboard.type("not like this")
    question(page).get_by_role("button", name="Reject").click()
    # Whoever has answered is led to what else waits.
    question(page).get_by_text("old.txt").first.wait_for()

    page.get_by_role("heading", name="Approvals").click()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("select the line").wait_for()
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    page.get_by_label("Select: delete_file").check()
    page.get_by_role("button", name="Reject selected").click()
    page.get_by_role("dialog").get_by_text("old.txt").first.wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Reject (1)").click()
    page.get_by_text("No questions wait for your answer.").wait_for()
    decided = api(server, "GET", "/approvals")["approvals"]
    assert [one["status"] for one in decided] == ["rejected"] * 3
    assert [one.get("feedback") for one in decided] == [None, "not like this", "not like this"]


def test_who_was_faster_is_named_and_what_was_typed_is_kept(server, ground, look):
    page = desk(server, ground, look, call("delete_file", path="old.txt"))
    page.get_by_role("listitem").get_by_role("link").click()
    field = question(page).get_by_label("Feedback")
    field.fill("I would rather not")
    [asked] = api(server, "GET", "/approvals?status=pending")["approvals"]
    decision = {"decision": "reject", "digest": asked["digest"], "feedback": "kept"}
    api(server, "POST", f"/approvals/{asked['approval_id']}/decision", json=decision)

    question(page).get_by_text("kept", exact=True).wait_for()
    question(page).get_by_text("by ").first.wait_for()
    expect(field).to_have_value("I would rather not")
    expect(question(page).get_by_role("button", name="Approve")).to_have_count(0)


def test_the_desk_is_good_on_a_phone_in_russian(server, ground, look):
    page = desk(server, ground, look, call("write_file", path="old.txt", content="bold\n" * 40))
    page.evaluate("localStorage.setItem('gonogo-language', 'ru')")
    page.set_viewport_size({"width": 400, "height": 800})
    page.reload()
    page.get_by_role("heading", name="Одобрения").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    page.get_by_role("listitem").get_by_role("link").click()
    page.get_by_role("button", name="Одобрить", exact=True).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
