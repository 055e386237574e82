"""The plan room in a browser: a plan is seen, decided, written anew and steered."""

import json
import re

import httpx
import pytest

from console.conftest import LIMIT
from console.test_sessions import tell, violations

expect = pytest.importorskip("playwright.sync_api").expect


def _writes(name: str) -> dict:
    written = {"path": f"{name}.txt", "content": f"{name}\n"}
    does = {"calls": [{"name": "write_file", "arguments": written}]}
    return {
        "when": {"user": f"Write the {name} half"},
        "replies": [does, {"text": f"It has {name}."}],
    }


def _step(name: str, does: str, *after: str, **more) -> dict:
    return {"id": name, "description": does, "agent": "coder", "dependencies": [*after], **more}


STEPS = [
    _step("left", "Write the left half", scope={"paths": ["left.txt"]}),
    _step("right", "Write the right half", scope={"paths": ["right.txt"]}),
    _step("join", "Say that both are there", "left", "right", approval_required=True),
]
PLAN = {"name": "create_plan", "arguments": {"goal": "Both <b>halves</b>", "subtasks": STEPS}}
SAYS = {"rules": [
    {"when": {"user": "Say that both are there"}, "reply": {"text": "Both are there."}},
    {"when": {"user": "Say it louder"}, "reply": {"text": "LOUD."}},
    _writes("left"), _writes("right"),
    {"when": {"user": "Build it"}, "replies": [
        {"calls": [{"name": "switch_mode", "arguments": {"mode": "architect"}}]},
        {"calls": [PLAN]}, {"text": "Well."},
    ]},
]}  # fmt: skip


@pytest.fixture
def plan_of(server, ground, look):
    """A browser before a plan that waits."""
    ground.model.script(SAYS)

    def opened(**how):
        tell(server, "halves", "Build it")
        page = look(server.link, **how)
        page.locator("h1").wait_for()
        page.goto(f"{server.url}/#/sessions/halves/plan")
        page.get_by_role("heading", name="Both <b>halves</b>").wait_for()
        return page

    return opened


def ask(server, method: str, path: str, **body) -> dict:
    """What another client asks."""
    answer = httpx.request(
        method,
        f"{server.url}/api/v1{path}",
        json=body or None,
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=LIMIT / 1_000,
    )
    assert answer.is_success, answer.text
    return answer.json()


@pytest.mark.feature(113)
def test_a_plan_is_approved_and_its_graph_moves_by_itself(server, plan_of):
    page = plan_of()
    node = page.get_by_role("button").and_(page.locator("[data-id=join]"))
    expect(node).to_contain_text("not started")
    page.get_by_text("left.txt").first.wait_for()
    finding = page.get_by_text("join declares no scope")
    expect(finding).to_be_visible()
    page.get_by_role("button", name="Approve and start").click()

    expect(node).to_contain_text("waiting for approval")
    expect(finding).to_have_count(0)
    expect(page.locator("[data-id=left]")).to_contain_text("completed")
    asked = ask(server, "GET", "/approvals?status=pending")["approvals"][0]
    ask(server, "POST", f"/approvals/{asked['approval_id']}/decision", decision="approve")
    expect(node).to_contain_text("completed")
    page.get_by_text("3 of 3").wait_for()

    node.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog")
    drawer.get_by_text("Both are there.", exact=False).first.wait_for()
    drawer.get_by_role("button", name="left", exact=True).click()
    drawer.get_by_text("Write the left half").wait_for()
    assert violations(page) == []


def test_a_plan_that_failed_says_so_at_once_and_is_tried_again_there(server, ground, plan_of):
    page = plan_of()
    words = SAYS["rules"]
    gives_up = {
        "calls": [
            {
                "name": "attempt_completion",
                "arguments": {"result": "The disk is odd", "success": False},
            }
        ]
    }
    failing = {"when": {"user": "Write the right half"}, "reply": gives_up}
    ground.model.script({"rules": [failing, *words]})
    page.get_by_role("button", name="Approve and start").click()

    failed = page.get_by_role("alert").filter(has_text="1 subtask failed")
    failed.get_by_text("The disk is odd").wait_for()
    page.get_by_text("1 of 3").wait_for()
    page.get_by_text("failed: 1", exact=True).wait_for()
    green = page.get_by_role("progressbar", name="Progress: completed")
    expect(green).to_have_attribute("aria-valuenow", "33.333333333333336")
    assert violations(page) == []

    ground.model.script(SAYS)
    failed.get_by_role("button", name="Retry").click()
    expect(failed).to_have_count(0)
    expect(page.locator("[data-id=right]")).to_contain_text("completed")


def test_what_comes_late_pushes_no_button_of_a_decision_from_under_the_pointer(server, plan_of):
    page = plan_of()
    held = []
    page.route("**/pending", lambda route: held.append(route))
    page.add_init_script(_FIRST_SIGHT)
    with page.expect_response("**/graph"):
        page.reload()
    page.unroute("**/pending")
    for each in held:
        each.continue_()
    page.get_by_role("button", name="Approve and start").wait_for()
    assert page.evaluate("seen") == {"finding": True, "graph": True, "progress": True}


_FIRST_SIGHT = """
const look = new MutationObserver(() => {
  const page = document.body?.innerText ?? "";
  if (page.includes("Approve and start")) {
    look.disconnect();
    window.seen = {
      finding: page.includes("join declares no scope"),
      graph: document.querySelector(".react-flow") !== null,
      progress: page.includes("0 of 3"),
    };
  }
});
look.observe(document, { childList: true, subtree: true });
"""
"""Notes what else is on the page when the buttons come."""


def test_a_browser_that_lost_its_network_still_speaks_to_a_server_beside_it(server, plan_of):
    page = plan_of()
    page.evaluate("dispatchEvent(new Event('offline'))")
    page.get_by_role("button", name="Edit", exact=True).click()
    edit = page.get_by_role("region", name="Edit the plan")
    edit.get_by_role("button", name="Remove join").click()
    edit.get_by_role("button", name="Approve as edited").click()
    expect(page.locator("[data-id=right]")).to_contain_text("completed")


def test_what_is_written_outlives_the_change_of_another_and_the_plan_is_steered(server, plan_of):
    page = plan_of()
    page.get_by_role("button", name="Edit", exact=True).click()
    edit = page.get_by_role("region", name="Edit the plan")
    send = edit.get_by_role("button", name="Approve as edited")
    edit.get_by_text("You have changed nothing yet").wait_for()
    edit.get_by_role("button", name="join").first.click()
    edit.get_by_label("Id", exact=True).fill("left")
    edit.get_by_text("Another subtask has this id.").wait_for()
    expect(send).to_be_disabled()
    edit.get_by_label("Id", exact=True).fill("louder")
    edit.get_by_label("What should be done").fill("Say it louder")
    edit.get_by_role("switch", name="Needs approval to start").press("Space")
    edit.get_by_text("New: louder").wait_for()

    other = [{**STEPS[0], "description": "Write the left half well"}, *STEPS[1:]]
    plan = ask(server, "GET", "/plans?session_id=halves")["plans"][0]
    said = {"decision": "edit", "revision": 1, "modified_subtasks": other, "start": False}
    ask(server, "POST", f"/plans/{plan['plan_id']}/decision", **said)
    edit.get_by_text("Your changes are kept").wait_for()
    expect(edit.get_by_label("What should be done")).to_have_value("Say it louder")
    expect(send).to_be_disabled()

    edit.get_by_role("button", name="Discard the changes").click()
    page.get_by_text("Changed: left").wait_for()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Resume").click()
    join = page.locator("[data-id=join]")
    expect(join).to_contain_text("waiting for approval")
    join.click()
    page.get_by_role("dialog").get_by_role("button", name="Skip").click()
    expect(join).to_contain_text("skipped")


@pytest.mark.feature(232)
def test_words_to_an_agent_at_work_are_said_in_its_drawer_and_reach_it(server, ground, plan_of):
    page = plan_of()
    slow = {"text": "Nearly.", "held": True}
    at_work = {"when": {"user": "Write the left half"}, "replies": [slow, {"text": "I heard."}]}
    ground.model.script({"rules": [at_work, *SAYS["rules"]]})
    page.get_by_role("button", name="Approve and start").click()
    left = page.locator("[data-id=left]")
    expect(left).to_contain_text("running")
    # Since when and how long are told by one clock.
    since = re.compile(r"Started\s([3-9]|\d\d)\sseconds\sago\s·\s\1\ss\sso\sfar")
    expect(page.get_by_text(since)).to_be_visible()
    left.click()
    drawer = page.get_by_role("dialog")
    field = drawer.get_by_label("Message to coder")
    field.fill("Mind <b>the</b> tests")
    drawer.get_by_role("button", name="Send").click()
    expect(field).to_have_value("")
    ground.model.go()
    drawer.get_by_text("I heard.").first.wait_for()

    # Where nobody works any more there is nobody to be told.
    expect(field).to_have_count(0)
    asked = [r for r in ground.model.requests if "Write the left half" in json.dumps(r)]
    assert ["Mind <b>the</b> tests" in json.dumps(each) for each in asked] == [False, True]
    assert violations(page) == []


def test_how_full_the_window_is_stands_beside_who_takes_it(server, ground, plan_of):
    page = plan_of()
    written = {"path": "left.txt", "content": "left\n"}
    large = {"prompt_tokens": 13_000, "completion_tokens": 300}
    at_work = {"when": {"user": "Write the left half"}, "replies": [
        {"calls": [{"name": "write_file", "arguments": written}], "usage": large},
        {"text": "It has left.", "held": True},
    ]}  # fmt: skip
    said = {"when": {"user": "How much?"}, "reply": {
        "text": "Half.", "usage": {"prompt_tokens": 16_000, "completion_tokens": 10},
    }}  # fmt: skip
    ground.model.script({"rules": [said, at_work, *SAYS["rules"]]})
    page.get_by_role("button", name="Approve and start").click()
    left = page.locator("[data-id=left]")
    expect(left).to_contain_text("context 41%")
    ground.model.go()
    expect(left).to_contain_text("completed")
    expect(left).not_to_contain_text("context")

    tell(server, "talk", "How much?")
    page.goto(f"{server.url}/#/sessions/talk/chat")
    page.get_by_text("context 50%").wait_for()
    assert violations(page) == []


def test_an_edited_plan_is_approved_and_carried_out(server, plan_of):
    page = plan_of()
    page.get_by_role("button", name="Edit", exact=True).click()
    edit = page.get_by_role("region", name="Edit the plan")
    edit.get_by_role("button", name="Remove join").click()
    edit.get_by_role("button", name="Add a subtask").click()
    edit.get_by_text("1 problem to fix").first.wait_for()
    edit.get_by_label("What should be done").fill("Say it louder")
    edit.get_by_text("New: subtask_3").wait_for()
    edit.get_by_role("listitem").filter(has_text="subtask_3").get_by_text(
        "Warning:"
    ).first.wait_for()
    edit.get_by_text("Type, inputs, limits and retries").click()
    edit.get_by_label("Attempts").fill("3")
    edit.get_by_label("Time limit, in seconds").fill("30")
    edit.get_by_label("Inputs", exact=True).fill('{"loud": tru')
    edit.get_by_text("This is not a JSON object.").wait_for()
    edit.get_by_label("Inputs", exact=True).fill('{"loud": true}')
    edit.get_by_text('inputs: {"loud":true}').wait_for()
    edit.get_by_label("Agent", exact=True).fill("teleporter")
    edit.get_by_text("teleporter").last.wait_for()
    edit.get_by_text("Subtask 'subtask_3'").wait_for()
    edit.get_by_label("Agent", exact=True).fill("coder")
    assert violations(page) == []
    edit.get_by_role("button", name="Approve as edited").click()

    expect(page.locator("[data-id=subtask_3]")).to_contain_text("completed")
    page.get_by_text("Revision 2", exact=True).first.wait_for()
    page.get_by_text("Removed: join").wait_for()
    made = ask(server, "GET", "/plans?session_id=halves")["plans"][0]["subtasks"][-1]
    assert (made["timeout"], made["inputs"]) == (30, {"loud": True})
    assert made["retry_policy"]["max_attempts"] == 3


def test_dependencies_are_drawn_and_the_graph_follows_what_is_written(server, plan_of):
    page = plan_of()
    page.get_by_role("button", name="Edit", exact=True).click()
    edit = page.get_by_role("region", name="Edit the plan")
    graph = edit.get_by_role("region", name="What waits for what")
    lines = graph.locator(".react-flow__edge")
    expect(lines).to_have_count(2)
    box = {
        name: graph.get_by_role("button", name=re.compile(f"^{name} "))
        for name in ("left", "right", "join")
    }

    # By keyboard: the one, then the other that waits for it.
    box["left"].press("Enter")
    graph.get_by_text("Now choose the subtask that waits for left.").wait_for()
    box["right"].press("Enter")
    expect(lines).to_have_count(3)
    edit.get_by_text("dependencies: ").first.wait_for()
    # A ring is not drawn.
    box["right"].press("Enter")
    box["left"].press("Enter")
    expect(lines).to_have_count(3)

    # A line that is chosen is removed.
    graph.get_by_role("group", name="join waits for left.").press("Delete")
    expect(lines).to_have_count(2)

    # By pointer, from the one to the other.
    edit.get_by_role("button", name="Add a subtask").click()
    edit.get_by_label("What should be done").fill("Say it louder")
    added = graph.get_by_role("button", name=re.compile("^subtask_4 "))
    start = box["join"].locator(".react-flow__handle-right")
    start.scroll_into_view_if_needed()
    start.drag_to(added.locator(".react-flow__handle-left"))
    expect(lines).to_have_count(3)
    assert violations(page) == []
    edit.get_by_role("button", name="Approve as edited").click()

    page.get_by_text("Revision 2", exact=True).first.wait_for()
    made = ask(server, "GET", "/plans?session_id=halves")["plans"][0]["subtasks"]
    assert {each["id"]: each["dependencies"] for each in made} == {
        "left": [], "right": ["left"], "join": ["right"], "subtask_4": ["join"],
    }  # fmt: skip


def test_what_makes_a_subtask_count_as_done_is_written_in_the_editor(server, plan_of):
    page = plan_of()
    page.get_by_role("button", name="Edit", exact=True).click()
    region = page.get_by_role("region", name="Edit the plan")
    region.get_by_role("button").filter(has_text="Write the left half").first.click()
    edit = region.get_by_role("group", name="Checks before it counts as done")
    edit.get_by_role("button", name="Add a check").click()
    edit.get_by_text("Fill in every check, or remove it.").wait_for()
    edit.get_by_label("Command", exact=True).fill("true")
    edit.get_by_label("Time limit, in seconds").last.fill("9")
    edit.get_by_role("button", name="Add a check").click()
    edit.get_by_label("Kind of check").last.click()
    page.get_by_role("option", name="a file exists").click()
    edit.get_by_label("File", exact=True).fill("a.txt")
    edit.get_by_role("button", name="Remove check 2").click()
    edit.get_by_role("button", name="Add a check").click()
    edit.get_by_label("Kind of check").last.click()
    page.get_by_role("option", name="files stay unchanged").click()
    edit.get_by_label("Files, as globs").fill("docs/**")
    edit.get_by_label("Files, as globs").press("Enter")
    region.get_by_text("done_when").first.wait_for()
    assert violations(page) == []
    region.get_by_role("button", name="Approve as edited").click()

    page.get_by_text("Revision 2", exact=True).first.wait_for()
    made = ask(server, "GET", "/plans?session_id=halves")["plans"][0]["subtasks"][0]
    assert made["done_when"] == [
        {"command": "true", "timeout": 9}, {"unchanged": ["docs/**"]},
    ]  # fmt: skip


def test_on_a_telephone_it_is_a_list_commented_and_rejected_in_russian(server, plan_of):
    page = plan_of(width=400, locale="ru-RU")
    rows = page.get_by_role("list", name="Подзадачи").get_by_role("button")
    expect(rows).to_have_count(3)
    page.get_by_label("Комментарий к плану").fill("Слишком просто")
    page.get_by_role("button", name="Добавить комментарий").click()
    page.get_by_role("button", name="Вернуть планировщику").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []

    page.get_by_role("button", name="Отклонить", exact=True).click()
    page.get_by_label("Что с ним не так").fill("Иначе")
    page.get_by_role("button", name="Отклонить и остановить").click()
    page.get_by_text("Пояснение: Иначе").wait_for()
    plan = ask(server, "GET", "/plans?session_id=halves")["plans"][0]
    assert (plan["status"], plan["feedback"]) == ("rejected", "Иначе"), json.dumps(plan)
