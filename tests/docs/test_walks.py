"""The walks of docs/tutorial/first-plan.md do what the page says, in each language.

A real server in a process of its own, real `curl`, a model that is scripted at the other end of
HTTP. What the page shows of a stream is what came.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from fakes.golden import kept
from fakes.reader import Block, Reader, read_through

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = {
    "en": DOCS / "tutorial" / "first-plan.md",
    "ru": DOCS / "ru" / "tutorial" / "first-plan.md",
}
SAID = {
    "en": {
        "approved": "Plan approved. Starting 2 subtasks...",
        "edited": "Plan updated. Starting 1 subtask...",
        "rejected": "Plan cancelled. Use one file only",
    },
    "ru": {
        "approved": "План подтвержден. Начинаю выполнение 2 подзадач...",
        "edited": "План обновлен. Начинаю выполнение 1 подзадачи...",
        "rejected": "План отменен. Этот подход не подходит",
    },
}
pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


class Watcher:
    """Keeps, of each stream that a page asks for, its events and the files after it."""

    def __init__(self, reader: Reader) -> None:
        self.streams: list[tuple[list[dict[str, Any]], set[str]]] = []
        self._do = reader.do
        self._reader = reader

    def do(self, block: Block) -> None:
        self._do(block)
        if self._reader.events:
            files = {path.name for path in (self._reader.folder / "todo").iterdir()}
            self.streams.append((self._reader.events, files))


@pytest.mark.feature(27, 28, 29)
@pytest.mark.parametrize("language", PAGES)
def test_the_walks_approve_reject_and_edit_a_plan(
    language: str, at_home: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(at_home)
    monkeypatch.setattr(at_home, "do", watcher.do)
    page, said = PAGES[language], SAID[language]

    text = page.read_text("utf-8")
    seen = read_through(at_home, text)

    asked, approved, *rest = watcher.streams
    asked_again, rejected, once_more, edited = rest
    for created, _ in (asked, asked_again, once_more):
        assert one(created, "agent_switched")["metadata"]["to_agent"] == "architect"
        assert types(created)[-2:] == ["plan_notification", "done"]
        assert created[-2]["is_final"] is True
    assert asked[1] == set()

    assert one(approved[0], "plan_approved")["content"] == said["approved"]
    assert types(approved[0])[-2:] == ["plan_completed", "done"]
    assert approved[0][-2]["content"] == (
        "Plan Execution Complete\n- Total: 2\n- Completed: 2\n- Failed: 0"
    )
    assert approved[1] == {"todo.py", "README.md"}

    assert one(rejected[0], "plan_rejected")["content"] == said["rejected"]
    assert one(rejected[0], "plan_rejected")["is_final"] is True
    assert types(rejected[0])[-1] == "done"
    assert rejected[1] == approved[1]

    updated = one(edited[0], "plan_approved")
    assert updated["content"] == said["edited"]
    assert (updated["metadata"]["was_edited"], updated["metadata"]["revision"]) == (True, 2)
    assert one(edited[0], "subtask_started")["metadata"]["subtask_id"] == "subtask_1"
    assert types(edited[0])[-2:] == ["plan_completed", "done"]
    assert edited[1] == {*approved[1], "NOTES.md"}

    assert text == seen or kept(page, seen) == seen


def one(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (event for event in events if event["type"] == kind)
    return found


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]
