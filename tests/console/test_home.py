"""Home: the first thing is what is to be done; below it each session says how it stands."""

import pytest

from console.plans import Person
from console.test_sessions import say, start, violations

expect = pytest.importorskip("playwright.sync_api").expect

ANSWERS = {"rules": [{"when": {"user": "tell"}, "reply": {"text": "It is told."}}]}


def test_a_task_is_sent_in_one_step_to_the_folder_that_was_chosen(server, ground, look):
    ground.model.script(ANSWERS)
    (ground.workspace / "inner").mkdir()
    page = look(server.link)
    prompt = page.get_by_role("form", name="Start a task")
    folder = prompt.get_by_role("combobox", name="Workspace")
    expect(folder).to_have_value(str(ground.workspace))
    for name in ("Workspace", "Agent", "Model"):
        expect(prompt.get_by_text(name, exact=True)).to_be_visible()
    folder.fill(f"{ground.workspace}/inner")
    prompt.get_by_label("Agent", exact=True).click()
    page.get_by_role("option", name="ask", exact=True).click()
    assert violations(page) == []
    prompt.get_by_label("What should be done?").fill("tell me")
    prompt.get_by_role("button", name="Send").click()

    page.get_by_role("log").get_by_text("It is told.").wait_for()
    [made] = Person(server).get("/sessions")["sessions"]
    assert made["workspace"] == f"{ground.workspace}/inner"
    assert made["session_id"] in page.url
    page.get_by_role("link", name="Sessions").click()
    row = page.get_by_role("list", name="Sessions").get_by_role("listitem")
    expect(row).to_contain_text("completed")
    expect(folder).to_have_value(f"{ground.workspace}/inner")


def test_a_task_that_is_refused_stays_where_it_was_typed(server, ground, look):
    page = look(server.link)
    prompt = page.get_by_role("form", name="Start a task")
    prompt.get_by_role("combobox", name="Workspace").fill("/etc")
    prompt.get_by_label("What should be done?").fill("tell me")
    prompt.get_by_label("What should be done?").press("Enter")

    page.get_by_role("alert").get_by_text("/etc").wait_for()
    expect(prompt.get_by_label("What should be done?")).to_have_value("tell me")
    assert Person(server).get("/sessions")["total"] == 0


def test_the_list_goes_on_where_it_was_and_is_narrowed_by_state(server, ground, look):
    ground.model.script(ANSWERS)
    person = Person(server)
    for number in range(53):
        person.post("/sessions", session_id=f"s{number}", title=f"Number {number}")
    said = {"type": "user_message", "content": "tell me"}
    person.post("/agent/message/stream", session_id="s7", message=said)
    page = look(server.link)
    rows = page.get_by_role("list", name="Sessions").get_by_role("listitem")
    expect(rows).to_have_count(50)
    person.post("/sessions", session_id="later", title="Later")
    expect(rows.first).to_contain_text("Later")
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(54)
    assert len(set(rows.get_by_role("link").all_inner_texts())) == 54

    page.get_by_text("Completed", exact=True).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Number 7")
    page.get_by_text("Failed", exact=True).click()
    page.get_by_text("No session matches").wait_for()


def test_nothing_is_fetched_while_nothing_changes_and_news_come_at_once(server, ground, look):
    ground.model.script(ANSWERS)
    page = look(server.link)
    start(page, "Quiet")
    say(page, "tell me")
    page.get_by_role("log").get_by_text("It is told.").wait_for()
    other = page.context.new_page()
    other.goto(f"{server.url}/#/approvals")
    other.get_by_text("No questions wait for your answer.").wait_for()
    asked: list[str] = []
    for each in (page, other):
        each.clock.install()
        each.on("request", lambda request: asked.append(request.url))
    # The last events of the turn may still be answered by one more look; who polls is never silent.
    for _ in range(5):
        asked.clear()
        for each in (page, other):
            each.clock.run_for(120_000)
        if not asked:
            break
    assert asked == []
    for each in (page, other):
        each.clock.resume()

    # A tab that does not read the stream is told by the one that does.
    Person(server).ask("PATCH", f"/sessions/{page.url.split('/')[-1]}", json={"title": "Loud"})
    page.get_by_role("heading", name="Loud").wait_for()
