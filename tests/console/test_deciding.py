"""Decisions where they come up: in the conversation, in the bar, at the subtask."""

import pytest

from console.plans import Person
from console.test_plans import SAYS
from console.test_sessions import say, start, violations

expect = pytest.importorskip("playwright.sync_api").expect


def test_a_plan_is_planned_again_and_approved_in_the_conversation_by_subtask(server, ground, look):
    stays = {"when": {"user": "Say less"}, "reply": {"text": "It is short already."}}
    ground.model.script({"rules": [stays, *SAYS["rules"]]})
    page = look(server.link)
    start(page, "Halves")
    say(page, "Build it")
    log = page.get_by_role("log")
    card = log.get_by_role("region", name="Plan")
    card.get_by_role("button", name="Reject").click()
    after = card.get_by_role("group", name="Plan again with this feedback, or stop?")
    expect(after.get_by_role("button", name="Plan again")).to_be_disabled()
    card.get_by_role("textbox", name="Feedback").fill("Say less")
    assert violations(page) == []
    after.get_by_role("button", name="Plan again").click()
    see_it_sent_back(server, log)
    expect(after).to_have_count(0)
    card.get_by_role("button", name="Approve").click()
    answer_at_the_subtask(page, log)
    assert violations(page) == []


def see_it_sent_back(server, log):
    # Its planner may have it stay as it is; what was said of it is kept, and it still waits.
    log.get_by_text("The plan was not revised").wait_for()
    [plan] = Person(server).get("/plans")["plans"]
    [said] = Person(server).get(f"/plans/{plan['plan_id']}/comments")["comments"]
    assert (plan["status"], said["content"]) == ("awaiting_approval", "Say less")


def answer_at_the_subtask(page, log):
    # What is over is folded; a subtask that waits is not, and the bar says so on every tab.
    left = log.locator("[data-lane=left][aria-expanded]")
    expect(left).to_contain_text("completed")
    expect(left).to_have_attribute("aria-expanded", "false")
    left.click()
    log.get_by_text("It has left.").first.wait_for()
    page.get_by_role("tab", name="Plan").click()
    page.get_by_text("1 decision is waiting for you").wait_for()
    page.locator("[data-id=join]").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Start it").click()
    drawer.get_by_text("Both are there.").first.wait_for()
    expect(page.get_by_text("decision is waiting for you")).to_have_count(0)


def test_a_plan_file_is_checked_shown_and_proposed_and_a_checkpoint_is_taken(
    server, ground, look, tmp_path
):
    ground.model.script(SAYS)
    page = look(server.link)
    start(page, "Own")
    page.get_by_role("tab", name="Plan").click()
    upload = page.locator("input[type=file]")
    written = tmp_path / "plan.yaml"
    written.write_text("goal: x\nsubtasks: [\n")
    upload.set_input_files(str(written))
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("alert").get_by_text("Line").wait_for()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)

    written.write_text(
        "goal: My own\nsubtasks:\n- id: left\n  description: Write the left half\n"
        "  agent: coder\n  scope: {paths: [left.txt]}\n"
        "  done_when: [{command: test -f left.txt}]\n"
    )
    upload.set_input_files(str(written))
    dialog.get_by_text("left: Write the left half").wait_for()
    assert violations(page) == []
    dialog.get_by_role("button", name="Submit for approval").click()
    page.get_by_role("button", name="Approve and start").click()
    expect(page.locator("[data-id=left]")).to_contain_text("completed")

    page.get_by_role("tab", name="Conversation").click()
    page.locator("[data-lane=left][aria-expanded=false]").click()
    page.get_by_text("gonogo: execute_command").wait_for()

    page.get_by_role("tab", name="Checkpoints").click()
    page.get_by_label("Note").fill("by hand")
    page.get_by_role("button", name="Take a checkpoint").click()
    page.get_by_role("listitem").filter(has_text="by hand").wait_for()
    assert violations(page) == []
