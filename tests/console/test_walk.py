"""The whole way in one browser: planned, edited, run, asked, failed, planned anew, undone."""

from typing import Any

import pytest

from console.plans import Person
from console.test_sessions import say, start, violations
from fakes.world import call

expect = pytest.importorskip("playwright.sync_api").expect

LOST = "Agent fixer not found"
HELD = "python3 tick.py held"
"""A command that ends when there is a file named `go`."""
FIRST = "Build it"


def does(what: str, *calls: dict[str, Any]) -> dict[str, Any]:
    """What the coder does for a subtask with that description."""
    replies = [*({"calls": [each]} for each in calls), {"text": f"{what}: done."}]
    return {"when": {"user": what}, "replies": replies}


def step(name: str, what: str, *after: str, **scope: Any) -> dict[str, Any]:
    subtask = {"id": name, "description": what, "agent": "coder", "dependencies": [*after]}
    return {**subtask, "scope": scope} if scope else subtask


def proposed(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"calls": [call("create_plan", goal="Both are there", subtasks=[*steps])]}


STEPS = [
    step("left", "Wait on the left", commands=["python3 tick.py"]),
    step("right", "Wait on the right", commands=["python3 tick.py"]),
    step("note", "Take a note", "left", "right", paths=["elsewhere.txt"]),
    step("lost", "Have it lost", "note"),
]
# What is planned anew is told of every subtask before it, and so has the first rule; a brief names
# what came before it, so that the later subtask's rule stands before those of the earlier.
SAYS = {"rules": [
    {
        "when": {"user": LOST, "tools": ["create_plan"]},
        "reply": proposed(step("mend", "Mend it", "note", paths=["mended.txt"])),
    },
    does("Mend it", call("write_file", path="mended.txt", content="mended\n")),
    does("Ask the fixer", call("attempt_completion", result=LOST, success=False)),
    does("Take a note", call("write_file", path="taken.txt", content="bold\n")),
    does("Wait on the right", call("execute_command", command=HELD)),
    does("Wait on the left", call("execute_command", command=HELD)),
    {"when": {"user": FIRST}, "replies": [
        {"text": "A plan.", "calls": [call("switch_mode", mode="architect")]},
        proposed(*STEPS), {"status": 500, "error": "out of turn"}, {"text": "It went well."},
    ]},
]}  # fmt: skip


def test_from_a_message_to_a_rollback(server, ground, look):
    ground.model.script(SAYS)
    page = look(server.link)
    start(page, "Walk")
    room = page.url
    say(page, FIRST)
    page.get_by_role("link", name="Open the plan").click()
    edit_and_approve(page)
    see_both_run(page, ground)
    answer_with_other_arguments(page)
    page.goto(room)
    page.get_by_role("log").get_by_text("Plan, revision 3").wait_for()
    page.goto(f"{room}/plan")
    approve_what_is_planned_anew(page)
    mended, taken = (ground.workspace / name for name in ("mended.txt", "taken.txt"))
    assert (mended.read_text(), taken.read_text()) == ("mended\n", "gold\n")
    take_back(page, mended)
    assert taken.exists()


def edit_and_approve(page: Any) -> None:
    page.get_by_role("button", name="Edit", exact=True).click()
    edit = page.get_by_role("region", name="Edit the plan")
    edit.get_by_role("button", name="lost").first.click()
    edit.get_by_label("What should be done").fill("Ask the fixer")
    edit.get_by_role("button", name="Approve as edited").click()


def see_both_run(page: Any, ground: Any) -> None:
    """Each ends only after both were seen."""
    for name in ("left", "right"):
        expect(page.locator(f"[data-id={name}]")).to_contain_text("running")
    (ground.workspace / "go").write_text("")
    expect(page.locator("[data-id=note]")).to_contain_text("waiting for approval")


def answer_with_other_arguments(page: Any) -> None:
    page.get_by_role("tab", name="Conversation").click()
    asked = page.get_by_role("log").get_by_role("region", name="Tool call")
    asked.get_by_text("+bold").wait_for()
    asked.get_by_role("button", name="Edit").click()
    asked.get_by_label("content", exact=False).fill("gold\n")
    asked.get_by_role("button", name="Approve as edited").click()
    expect(asked).to_have_count(0)


def approve_what_is_planned_anew(page: Any) -> None:
    page.get_by_text("New: mend").wait_for()
    page.get_by_text("Removed: lost").wait_for()
    page.get_by_role("button", name="I have seen the changes").click()
    page.get_by_role("button", name="Approve and start").click()
    expect(page.locator("[data-id=mend]")).to_contain_text("completed")


def take_back(page: Any, file: Any) -> None:
    page.get_by_role("tab", name="Checkpoints").click()
    page.get_by_role("button", name="Roll back to here: before the subtask mend").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name=file.name)).to_contain_text("deleted")
    assert file.exists()
    dialog.get_by_role("button", name="Roll back 1 file").click()
    dialog.get_by_text("Files restored: 1").wait_for()
    assert not file.exists()


def test_on_a_telephone_in_russian(server, ground, look):
    rules = SAYS["rules"]
    small = [*rules[:-1], {"when": {"user": FIRST}, "replies": [
        rules[-1]["replies"][0], proposed(step("note", "Take a note", paths=["else.txt"])),
    ]}]  # fmt: skip
    ground.model.script({"rules": small})
    person = Person(server)
    person.post("/sessions", session_id="walk", title="Путь", locale="ru")
    page = look(server.link, width=400, locale="ru-RU")

    def is_good() -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []

    page.get_by_role("link", name="Путь").click()
    page.get_by_placeholder("Что нужно сделать?").fill(FIRST)
    page.get_by_role("button", name="Отправить").click()
    page.get_by_role("link", name="Открыть план").wait_for()
    is_good()
    page.get_by_role("link", name="Открыть план").click()
    page.get_by_role("button", name="Одобрить и начать").click()
    note = page.get_by_role("list", name="Подзадачи").get_by_role("button")
    expect(note).to_contain_text("ждёт одобрения")
    page.get_by_role("tab", name="Разговор").click()
    page.get_by_role("status").get_by_role("button", name="Решить").click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("button", name="Изменить").click()
    asked.get_by_label("content", exact=False).fill("золото\n")
    is_good()
    asked.get_by_role("button", name="Одобрить с изменениями").click()
    expect(asked).to_have_count(0)
    page.get_by_role("log").get_by_text("Take a note: done.").wait_for()
    assert (ground.workspace / "taken.txt").read_text() == "золото\n"
    is_good()
