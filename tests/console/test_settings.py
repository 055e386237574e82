"""Settings in a browser: what there is, what is allowed, who may come in; and a session's own."""

import re

import httpx
import pytest

from console.conftest import LIMIT
from console.test_sessions import start, violations

expect = pytest.importorskip("playwright.sync_api").expect

RULES = """
[[rule]]
command = "pytest"
decision = "allow"
reason = "tests run in the sandbox"
match = ["pytest -q"]

[[review]]
command = "git push"
approvals = 2
"""


@pytest.fixture
def server(ground):
    """A server whose administrator has rules."""
    (ground.folder / "config").mkdir()
    (ground.folder / "config" / "rules.toml").write_text(RULES)
    return ground.server().wait()


def status(server, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{server.url}/api/v1/agents", headers=headers, timeout=60).status_code


def go(page, *places: str) -> None:
    page.get_by_role("link", name="Settings").click()
    for place in places:
        page.get_by_role("tab", name=place).click()


def test_a_token_is_shown_once_and_lets_in_until_it_is_revoked(server, look):
    page = look(server.link)
    go(page, "Tokens")
    page.get_by_label("Name", exact=True).fill("ci")
    page.get_by_role("button", name="Create a token").click()
    token = page.get_by_text(re.compile("^gng_")).inner_text()
    assert status(server, token) == 200

    page.reload()
    page.get_by_role("button", name="Revoke ci").click()
    assert page.get_by_text(token).count() == 0
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("revoked", exact=True).wait_for()
    assert status(server, token) == 401


def test_a_rule_of_a_session_is_written_as_in_a_file_and_removed_again(server, look):
    page = look(server.link)
    start(page, "Careful")
    page.get_by_role("button", name="More actions for this session").click()
    page.get_by_role("menuitem", name="Rules and grants").click()
    field = page.get_by_label("Rule", exact=True)
    for wrong, said in (
        ("tool: x", "Line 1 is not a rule"),
        ('decision = "allow"', "must name a tool"),
    ):
        field.fill(wrong)
        page.get_by_role("button", name="Add a rule").click()
        page.get_by_text(said).wait_for()
        assert field.input_value() == wrong

    field.fill('[[rule]]\ndecision = "deny"\npath = "secrets/**"')
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_text("secrets/**", exact=True).wait_for()
    assert field.input_value() == ""
    page.get_by_role("button", name="Remove session:1").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("no rules of its own").wait_for()


def test_what_there_is_and_what_holds_is_shown_to_those_who_may_see_it(server, look):
    page = look(server.link)
    go(page, "Tools", "Models", "Grants", "Policy")
    page.get_by_text("tests run in the sandbox", exact=True).wait_for()
    page.get_by_text("Source", exact=True).first.click()
    page.get_by_text('match = ["pytest -q"]').wait_for()
    page.get_by_text("git push", exact=True).wait_for()
    page.get_by_text("1 example passes", exact=False).wait_for()
    page.get_by_label("Try a command").fill("pytest -q && rm -rf /")
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_role("status").get_by_text("deny", exact=True).wait_for()

    made = httpx.post(
        f"{server.url}/api/v1/tokens",
        json={"name": "vic", "role": "viewer"},
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=LIMIT / 1_000,
    )
    other = look("about:blank")
    other.context.set_extra_http_headers({"Authorization": f"Bearer {made.json()['token']}"})
    other.goto(f"{server.url}/#/settings/policy")
    other.get_by_text("Your role has no access to this").wait_for()
    other.get_by_role("tab", name="Agents").click()
    other.get_by_role("heading", name="architect").wait_for()
    other.get_by_text("vic, viewer").wait_for()
    other.get_by_role("link", name="Sessions").click()
    other.get_by_text("No sessions yet").wait_for()
    expect(other.get_by_role("button", name="New session")).to_have_count(0)


def test_a_session_is_renamed_found_and_deleted(server, look):
    page = look(server.link)
    start(page, "First")
    page.get_by_role("button", name="More actions for this session").click()
    page.get_by_role("menuitem", name="Title and language").click()
    page.get_by_role("dialog").get_by_label("Title", exact=True).fill("Вход")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Вход").wait_for()

    page.get_by_role("link", name="Sessions").click()
    page.get_by_role("searchbox").fill("nothing like it")
    page.get_by_text("No session matches").wait_for()
    page.get_by_role("searchbox").fill("вХОД")
    page.get_by_role("link", name="Вход").click()
    page.get_by_role("button", name="More actions for this session").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("No sessions yet").wait_for()


PLACES = {
    "agents": "orchestrator", "tools": "read_file", "models": "in use", "servers": "No MCP servers",
    "policy": "git push", "rules": "Choose a session", "grants": "No grants",
    "tokens": "state-folder", "browser": "Open changed files in",
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_settings_fit_a_narrow_window_and_axe_finds_nothing_serious(server, look, scheme):
    page = look(server.link, width=400, scheme=scheme)
    page.get_by_role("heading", name="Sessions").wait_for()
    for place, text in PLACES.items():
        page.goto(f"{server.url}/#/settings/{place}")
        page.get_by_role("tabpanel").get_by_text(text).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []
