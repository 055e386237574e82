"""Every message that docs/reference/protocol.md prints is accepted as it is printed.

Only the ids, the digests and the dots are filled in; so a dialog that sends these lines can list,
approve, edit and reject.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from wire.deployment import STREAM
from wire.states import Scene, read_events

PROTOCOL = Path(__file__).parent.parent.parent / "docs" / "reference" / "protocol.md"
_BLOCK = re.compile(r"## 2\. Client messages.*?```json lines\n(.*?)```", re.DOTALL)


def printed() -> list[dict[str, Any]]:
    """The messages of the page."""
    block = _BLOCK.search(PROTOCOL.read_text(encoding="utf-8"))
    assert block is not None
    return [json.loads(line) for line in block[1].splitlines()]


def place(shared, message: dict[str, Any]) -> tuple[Scene, dict[str, Any]]:
    """A session in which a message makes sense, and the message with its ids filled in."""
    match message:
        case {"type": "plan_decision"}:
            scene = Scene(shared, "printed", "S2")
            asked = scene.pending()[0]
            filled = {"plan_id": asked["plan_id"], "digest": asked["digest"]}
        case {"type": "hitl_decision", "call_ids": _}:
            scene = Scene(shared, "printed", "S8")
            filled = {"call_ids": [scene.names["c1"], scene.names["c2"]]}
        case {"type": "hitl_decision"}:
            scene = Scene(shared, "printed", "S1")
            scene.say({"type": "user_message", "content": "x", "agent_type": "universal"})
            asked = scene.pending()[0]
            filled = {
                "call_id": asked["call_id"], "digest": asked["digest"],
                "modified_arguments": {"path": "edited.txt", "content": "…"},
            }  # fmt: skip
        case {"type": "tool_result"}:
            scene = Scene(shared, "printed", "S5")
            filled = {"call_id": scene.names["c1"]}
        case {"type": "steer", "subtask_id": _}:
            scene = Scene(shared, "printed", "S3")
            filled = {"plan_id": scene.names["p1"], "subtask_id": scene.pending()[0]["subtask_id"]}
        case {"type": "steer"}:
            scene = Scene(shared, "printed", "S1")
            scene.say({"type": "user_message", "content": "x", "agent_type": "universal"})
            filled = {}
        case {"type": "cancel"}:
            scene = Scene(shared, "printed", "S1")
            events = scene.say({"type": "user_message", "content": "x", "agent_type": "universal"})
            filled = {"turn_id": events[-1]["turn_id"]}
        case _:
            return Scene(shared, "printed", "S1"), message
    return scene, {name: filled.get(name, value) for name, value in message.items()}


@pytest.mark.feature(26)
@pytest.mark.parametrize("message", printed(), ids=lambda m: f"{m['type']} {m.get('decision', '')}")
def test_a_printed_message_is_accepted(shared, message) -> None:
    scene, sent = place(shared, message)
    before = shared.get(f"/sessions/{scene.session_id}")["last_seq"]

    body = {"session_id": scene.session_id, "message": sent}
    headers = shared.headers("A")
    with shared.http.stream("POST", STREAM, json=body, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        if scene.state != "S5":
            answer.read()
            events = read_events(answer)
            assert [event for event in events if event["type"] == "error"] == []
            assert events[-1] == {"type": "done", "is_final": True}

    assert shared.get(f"/sessions/{scene.session_id}")["last_seq"] > before
    decided = [a for a in approvals(shared, scene) if a["status"] != "pending"]
    words = {"approve": {"approved"}, "edit": {"edited"}, "reject": {"rejected"}}
    if message["type"] in {"plan_decision", "hitl_decision"}:
        assert {a["status"] for a in decided} == words[message["decision"]]
        assert {a.get("feedback") for a in decided} == {message.get("feedback")}
    check_effects(scene, message)


def check_effects(scene: Scene, message: dict[str, Any]) -> None:
    """What the universal agent wanted to write is there as it was decided."""
    path = scene.folder / "asked.txt"
    match message:
        case {"type": "hitl_decision", "decision": "edit"}:
            assert (scene.folder / "edited.txt").read_text() == "…"
            assert not path.exists()
        case {"type": "hitl_decision", "call_id": _, "decision": "approve"}:
            assert path.read_text() == "x\n"
        case _:
            assert not path.exists()


def approvals(shared, scene: Scene) -> list[dict[str, Any]]:
    """Every question of a session so far."""
    return shared.get(f"/approvals?session_id={scene.session_id}")["approvals"]


@pytest.mark.feature(26)
def test_a_dialog_finds_what_it_shows_in_the_list_of_questions(shared) -> None:
    plan = Scene(shared, "listed", "S2").pending()[0]
    tool = Scene(shared, "listed", "S3").pending()[0]

    assert plan["request_id"] == f"plan-approval-{plan['plan_id']}"
    assert (plan["kind"], plan["request_type"], plan["revision"]) == ("plan", "plan", 1)
    assert [s["id"] for s in plan["details"]["subtasks"]] == ["st1", "st2", "st3"]
    assert tool["request_id"] == tool["call_id"]
    assert (tool["kind"], tool["tool_name"]) == ("tool", "execute_command")
    assert "ledger.txt" in tool["arguments"]["command"]
    for asked in (plan, tool):
        assert asked["digest"].startswith("sha256:")
        assert asked["reason"]
        assert asked["subject"]
