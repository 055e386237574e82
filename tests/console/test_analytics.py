"""What came of the work, in a browser: as charts, and as the same numbers in tables."""

import pytest

from console.plans import SAYS, Person
from console.test_sessions import violations

expect = pytest.importorskip("playwright.sync_api").expect


@pytest.mark.parametrize("width", [1280, 400])
def test_each_chart_has_its_numbers_as_a_table(server, ground, look, width):
    ground.model.script(SAYS)
    Person(server).carry_out("counted")
    page = look(server.link, width=width)
    page.get_by_role("heading", level=1).wait_for()
    page.goto(f"{server.url}/#/analytics")

    agents = page.get_by_role("region", name="Subtasks by agent or tool")
    agents.get_by_text("Show as a table").click()
    expect(agents.get_by_role("row", name="coder")).to_contain_text("100%")
    expect(page.get_by_role("region", name="Why subtasks failed")).to_contain_text(
        "No subtask failed"
    )
    page.locator(".recharts-bar-rectangle").first.wait_for()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
