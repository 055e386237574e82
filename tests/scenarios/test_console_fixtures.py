"""The events that the console's own tests read are those that the runtime writes.

`GONOGO_WRITE_GOLDEN=1` writes them anew after a change that is meant.
"""

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

from fakes.golden import kept
from fakes.world import calls, plan, run, says, step, write

FOLDER = Path(__file__).resolve().parents[2] / "console" / "src" / "shared" / "events" / "fixtures"
_ID = re.compile(r"\b(?:[a-z]+_)?[0-9a-f]{24,64}\b")
_TIMES = {"ts", "created_at", "expires_at", "decided_at", "started_at", "finished_at"}
_LENGTHS = {"duration_seconds", "duration_ms", "waited_seconds"}


def plain(events: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Events without what differs from run to run: ids, times, folders."""
    text = json.dumps(events, ensure_ascii=False).replace(str(folder), "/work")
    numbers = count(1)
    names: dict[str, str] = {}
    for found in _ID.findall(text):
        if found not in names:
            names[found] = f"{found.partition('_')[0] if '_' in found else 'id'}-{next(numbers)}"
    for found, name in names.items():
        text = text.replace(found, name)
    return [_still(event, event["seq"]) for event in json.loads(text)]


def _still(value: Any, seq: int) -> Any:
    if isinstance(value, list):
        return [_still(each, seq) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _part(name, part, seq) for name, part in value.items()}


def _part(name: str, part: Any, seq: int) -> Any:
    if name in _TIMES:
        return f"2026-01-01T00:{seq // 60:02}:{seq % 60:02}Z"
    return 1 if name in _LENGTHS else _still(part, seq)


async def test_the_consoles_fixture_of_a_walk_is_what_the_runtime_writes(make, tmp_path):
    lines = {
        "main/architect": [plan(step("first"), step("second", "first", approval_required=True))],
        "main/orchestrator": [says("Yes?")],
        "first": [calls(write("a.txt"), run("printf hello")), says("Made.")],
        "second": [says("Nothing was left to do.")],
    }
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        while pending := await world.pending():
            (question,) = pending
            changed = {"command": "echo changed"} if question.subject == "execute_command" else None
            named = (
                {"call_id": question.call_id}
                if question.call_id
                else {"approval_id": question.approval_id}
            )
            message = {"type": "hitl_decision", **named, "decision": "approve"}
            if changed:
                message |= {"decision": "edit", "modified_arguments": changed}
            await world.ask(message)
        events = [event for event in await world.log() if "seq" in event]

    found = json.dumps(plain(events, tmp_path), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    assert found == kept(FOLDER / "walk.json", found)
