"""The audit log in a browser: who did what and why, found by filters, verified."""

import pytest

from console.plans import SAYS, Person
from console.test_sessions import violations

expect = pytest.importorskip("playwright.sync_api").expect


def opened(server, look, **how):
    page = look(server.link, **how)
    page.get_by_role("heading", level=1).wait_for()
    page.goto(f"{server.url}/#/audit")
    page.get_by_role("heading", name="Audit log").wait_for()
    return page


@pytest.mark.parametrize("width", [1280, 400])
def test_each_allowed_call_says_why_and_the_log_is_verified(server, ground, look, width):
    ground.model.script(SAYS)
    Person(server).carry_out("noted")
    page = opened(server, look, width=width)

    allowed = page.get_by_role("group").filter(has_text="write_file: left.txt")
    expect(allowed.first).to_contain_text("subtask left")
    allowed.first.locator("summary").click()
    expect(allowed.first).to_contain_text("Previous hash")
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("Audit log OK").wait_for()
    page.get_by_role("button", name="Create an anchor").click()
    page.get_by_text("gonogo-anchor-1").wait_for()

    page.get_by_role("combobox", name="Action").click()
    page.get_by_role("option", name="token revoked").click()
    page.get_by_text("No entries match").wait_for()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
