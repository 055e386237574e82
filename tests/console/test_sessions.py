"""The console in a browser: to get in, to open a session, to say something and read the answer."""

import httpx
import pytest

from console.conftest import AXE, LIMIT
from fakes.relay import relay

expect = pytest.importorskip("playwright.sync_api").expect

READ = {"name": "read_file", "arguments": {"path": "old.txt"}}
SAYS = {"rules": [
    {"when": {"user": "look"}, "replies": [
        {"calls": [{"name": "switch_mode", "arguments": {"mode": "coder"}}]},
        {"text": "First I *look*.", "calls": [READ]},
        {"text": ["It says ", "something ", "<b>odd</b> ![x](http://127.0.0.1:9/seen)."]},
    ]},
]}  # fmt: skip


# What changes its colour has neither the one nor the other: all is looked at when it has changed.
# Of what is as it should be axe need not say where it stands: that is half of its work.
_LOOK = """async () => {
  const still = new CSSStyleSheet();
  still.replaceSync("*, ::before, ::after { transition: none !important; }");
  document.adoptedStyleSheets.push(still);
  const found = await axe.run(document, {resultTypes: ["violations"]});
  document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== still);
  return found.violations;
}"""


def start(page, title: str) -> None:
    page.get_by_role("button", name="New session").click()
    page.get_by_label("Title", exact=True).fill(title)
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name=title).wait_for()


def say(page, text: str) -> None:
    page.get_by_placeholder("What should be done?").fill(text)
    page.get_by_role("button", name="Send").click()


def tell(server, session_id: str, text: str) -> None:
    """Say something as another client does."""
    said = {"type": "user_message", "content": text}
    answer = httpx.post(
        f"{server.url}/agent/message/stream",
        json={"session_id": session_id, "message": said},
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=LIMIT / 1_000,
    )
    assert answer.status_code == 200


def violations(page) -> list[str]:
    """What axe finds that is serious."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate(_LOOK)
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
    ]  # fmt: skip


def test_a_link_opens_the_console_once(server, look):
    page = look(server.link)
    page.get_by_role("heading", name="Sessions").wait_for()
    assert "code=" not in page.url
    page.reload()
    page.get_by_role("heading", name="Sessions").wait_for()

    other = look(server.link)
    other.get_by_role("heading", name="Open gonogo").wait_for()
    other.get_by_text("It works once").first.wait_for()


def test_a_link_opens_the_console_in_a_tab_that_is_there_already(server, look):
    page = look(server.url)
    page.get_by_role("heading", name="Open gonogo").wait_for()

    page.goto(server.link)
    page.get_by_role("heading", name="Sessions").wait_for()
    assert "code=" not in page.url

    page.goto(f"{server.url}/#/audit")
    page.get_by_role("heading", name="Audit log").wait_for()
    page.goto(server.link)
    page.get_by_text("It works once").first.wait_for()
    assert "code=" not in page.url
    page.reload()
    page.get_by_role("heading", name="Sessions").wait_for()


def test_a_page_has_the_title_of_its_session_also_when_that_comes_later(server, ground, look):
    ground.model.script(SAYS)
    page = look(server.link)
    page.get_by_role("button", name="New session").click()
    page.get_by_role("button", name="Create").click()
    expect(page).to_have_title("Untitled · gonogo")

    say(page, "look at it")

    page.get_by_role("heading", name="look at it").wait_for()
    expect(page).to_have_title("look at it · gonogo")
    page.get_by_role("link", name="Sessions").click()
    expect(page).to_have_title("gonogo")


def test_a_command_of_several_lines_does_not_read_as_one(server, ground, look):
    made = f"echo ok\n\ntouch x{' ' * 100}; id"
    asks = {"calls": [{"name": "execute_command", "arguments": {"command": made}}]}
    coder = {"calls": [{"name": "switch_mode", "arguments": {"mode": "coder"}}]}
    ground.model.script({"rules": [{"when": {"user": "run"}, "replies": [coder, asks]}]})
    page = look(server.link)
    start(page, "Running")

    say(page, "run")

    page.get_by_role("log").get_by_text("echo ok ⏎ touch x␣×100; id").wait_for()


def test_who_is_not_signed_in_is_told_how_to(server, look):
    page = look(server.url)
    page.get_by_role("heading", name="Open gonogo").wait_for()

    page.get_by_label("Or paste the link").fill(server.link)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("heading", name="Sessions").wait_for()


def test_who_asks_for_a_page_while_signing_in_gets_that_page(server, look):
    page = look("about:blank")
    logins = []
    page.route("**/auth/session", lambda route: logins.append(route))
    with page.expect_request("**/auth/session"):
        page.goto(server.link)
    page.goto(f"{server.url}/#/audit")
    logins.pop().continue_()

    page.get_by_role("heading", name="Audit log").wait_for()


def test_a_conversation_is_seen_as_it_comes_and_again_after_a_reload(server, ground, look):
    ground.model.script(SAYS)
    page = look(server.link)
    start(page, "Reading")
    say(page, "look <i>here</i>")

    log = page.get_by_role("log")
    log.get_by_text("coder hands over to orchestrator").wait_for()
    log.get_by_text("look <i>here</i>").wait_for()
    assert log.locator("em").inner_text() == "look"
    assert log.locator("img, b, i").count() == 0, "what a model writes stays text"
    call = log.locator("details", has_text="read_file")
    assert "completed" in call.inner_text().lower()
    call.locator("summary").click()
    call.get_by_text("old.txt").first.wait_for()

    before = log.inner_text()
    page.reload()
    log.get_by_text("It says something").wait_for()
    log.locator("details", has_text="read_file").locator("summary").click()
    expect(log).to_have_text(before, use_inner_text=True)


def test_a_connection_that_breaks_is_taken_up_again_without_gap_or_repeat(server, ground, look):
    ground.model.script(SAYS)
    with relay(server.url) as line:
        page = look(server.link.replace(server.url, line.url))
        start(page, "Broken")
        log = page.get_by_role("log")
        page.get_by_text("Live", exact=True).wait_for()
        line.cut()
        page.get_by_text("reconnecting").wait_for()
        tell(server, page.url.rpartition("/")[2], "look")
        line.mend()
        log.get_by_text("coder hands over to orchestrator").wait_for()
        # What a person said is asked for by itself, and may come last; the answer has the word too.
        expect(log.get_by_text("look", exact=True)).to_have_count(2)
        seen = log.inner_text()
        page.reload()
        expect(log).to_have_text(seen, use_inner_text=True)


def test_who_comes_back_into_the_network_waits_for_no_next_try(server, look):
    with relay(server.url) as line:
        page = look(server.link.replace(server.url, line.url))
        start(page, "Away")
        page.get_by_text("Live", exact=True).wait_for()
        page.clock.install()
        page.clock.pause_at(page.evaluate("Date.now() + 1000"))
        line.cut()
        page.get_by_text("reconnecting").wait_for()
        line.mend()
        page.evaluate("dispatchEvent(new Event('online'))")
        page.get_by_text("Live", exact=True).wait_for()


@pytest.mark.parametrize("width", [1280, 400])
def test_it_speaks_russian_at_any_width_and_axe_finds_nothing_serious(server, look, width):
    page = look(server.link, width=width, locale="ru-RU")
    page.get_by_role("heading", name="Сессии").wait_for()
    page.get_by_role("button", name="Новая сессия").click()
    page.get_by_label("Название", exact=True).fill("Первая")
    page.get_by_role("button", name="Создать").click()
    page.get_by_role("heading", name="Первая").wait_for()

    assert page.locator("html").get_attribute("lang") == "ru"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
