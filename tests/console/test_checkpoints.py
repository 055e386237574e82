"""Checkpoints in a browser: to see what a plan did to files, and to take it back."""

import pytest

from console.plans import SAYS, Person
from console.test_sessions import violations

expect = pytest.importorskip("playwright.sync_api").expect


def opened(server, look, session, **how):
    page = look(server.link, **how)
    page.get_by_role("heading", level=1).wait_for()
    page.goto(f"{server.url}/#/sessions/{session}/checkpoints")
    page.get_by_role("listitem").first.wait_for()
    return page


def test_a_rollback_is_seen_before_it_is_done_and_can_itself_be_undone(server, ground, look):
    ground.model.script(SAYS)
    Person(server).carry_out("undone")
    left, right = ground.workspace / "left.txt", ground.workspace / "right.txt"
    right.write_text("mine\n")
    page = opened(server, look, "undone")

    page.get_by_role("button", name="Roll back to here: before the subtask left").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Nothing has changed yet").wait_for()
    expect(dialog.get_by_role("row", name="left.txt")).to_contain_text("deleted")
    expect(dialog.get_by_role("row", name="right.txt")).to_contain_text("kept as it is")
    assert left.exists()

    dialog.get_by_role("button", name="Roll back 1 file").click()
    dialog.get_by_text("Files restored: 1, kept as they are: 1").wait_for()
    assert not left.exists()
    assert right.read_text() == "mine\n"

    dialog.get_by_role("button", name="Undo this rollback").click()
    dialog.get_by_role("row", name="left.txt").wait_for()
    dialog.get_by_role("button", name="Roll back 1 file").click()
    dialog.get_by_text("Files restored: 1").wait_for()
    assert left.read_text() == "left\n"


def test_a_whole_plan_is_undone(server, ground, look):
    ground.model.script(SAYS)
    Person(server).carry_out("whole")
    page = opened(server, look, "whole")

    page.get_by_role("button", name="Undo the whole plan").click()
    dialog = page.get_by_role("dialog", name="Undo the whole plan")
    dialog.get_by_role("button", name="Roll back 2 file").click()
    dialog.get_by_text("Files restored: 2, kept as they are: 0").wait_for()
    assert not (ground.workspace / "left.txt").exists()
    assert not (ground.workspace / "right.txt").exists()
    page.goto(f"{server.url}/#/sessions/whole/plan")
    page.get_by_text("rolled back: 2", exact=True).wait_for()
    expect(page.locator("[data-id=left]")).to_contain_text("rolled back")
    assert violations(page) == []


def restore(page, button):
    """Press what undoes something; gives the dialog when that is done."""
    button.click()
    dialog = page.get_by_role("dialog", name="Undo")
    dialog.get_by_role("button", name="Roll back 1 file").click()
    dialog.get_by_text("Files restored: 1").wait_for()
    return dialog


def test_undo_is_where_one_looks_at_a_subtask_at_the_end_of_a_plan_and_at_its_changes(
    server, ground, look
):
    ground.model.script(SAYS)
    Person(server).carry_out("near")
    left, right = ground.workspace / "left.txt", ground.workspace / "right.txt"
    page = look(server.link)
    page.get_by_role("heading", level=1).wait_for()
    page.goto(f"{server.url}/#/sessions/near/plan")
    page.locator("[data-id=right]").click()
    drawer = page.get_by_role("dialog", name="right")
    done = restore(page, drawer.get_by_role("button", name="Undo this subtask"))
    done.get_by_text("Undone subtasks: right").wait_for()
    assert (left.exists(), right.exists()) == (True, False)
    assert violations(page) == []

    page.goto(f"{server.url}/#/sessions/near/chat")
    page.reload()
    end = page.get_by_role("log")
    done = restore(page, end.get_by_role("button", name="Undo the whole plan"))
    assert not left.exists()
    done.get_by_role("button", name="Undo this rollback").click()
    again = page.get_by_role("dialog", name="Roll back to")
    again.get_by_role("button", name="Roll back 1 file").click()
    again.get_by_text("Files restored: 1").wait_for()
    assert left.exists()

    page.keyboard.press("Escape")
    end.get_by_role("link", name="See the changes").click()
    restore(page, page.get_by_role("button", name="Undo the whole plan"))
    assert not left.exists()


@pytest.mark.parametrize("width", [1280, 400])
def test_a_checkpoint_tells_whether_it_is_whole_and_how_its_files_differ(
    server, ground, look, width
):
    ground.model.script(SAYS)
    Person(server).carry_out("seen")
    page = opened(server, look, "seen", width=width)
    assert violations(page) == []

    page.get_by_role("button", name="View: before the subtask left").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("verified: unchanged").wait_for()
    expect(dialog.get_by_role("region", name="left.txt")).to_contain_text("+left")
    expect(dialog.get_by_role("region", name="right.txt")).to_contain_text("+right")

    dialog.get_by_label("Compare its files with").click()
    page.get_by_role("option", name="before the subtask right").click()
    expect(dialog.get_by_role("region", name="right.txt")).to_have_count(0)
    expect(dialog.get_by_role("region", name="left.txt")).to_contain_text("+left")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.feature(239)
@pytest.mark.parametrize("width", [1280, 400])
def test_what_a_session_a_plan_and_a_subtask_changed_is_one_difference(ground, look, width):
    ground.model.script(SAYS)
    ground.environment["GONOGO_BUDGET_SESSION_TOKENS"] = "1000000"
    server = ground.server().wait()
    Person(server).carry_out("changed")
    page = look(server.link, width=width)
    page.get_by_role("heading", level=1).wait_for()
    page.goto(f"{server.url}/#/sessions/changed/changes")

    left, right = (page.get_by_role("region", name=f"{name}.txt") for name in ("left", "right"))
    expect(left).to_contain_text("+left")
    expect(right).to_contain_text("+right")
    expect(page.get_by_text("2 files")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.get_by_role("combobox", name="Changes of").click()
    page.get_by_role("option").nth(1).click()
    page.get_by_role("combobox", name="Subtask").click()
    page.get_by_role("option", name="left").click()
    expect(right).to_have_count(0)
    expect(left).to_contain_text("+left")

    page.goto(f"{server.url}/#/settings/browser")
    page.get_by_role("combobox", name="Open changed files in").click()
    page.get_by_role("option", name="VS Code").click()
    page.goto(f"{server.url}/#/sessions/changed/changes")
    link = left.get_by_role("link", name="Open in the editor")
    expect(link).to_have_attribute("href", f"vscode://file{ground.workspace}/left.txt:1")
    page.get_by_role("progressbar", name="Budget used: Tokens").wait_for()
