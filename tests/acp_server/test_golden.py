"""The whole conversation about a plan, message by message, as it was written down once.

`python -m pytest tests/acp_server/test_golden.py` with `GONOGO_WRITE_GOLDEN=1` writes it anew.
"""

import json
import re
from pathlib import Path
from typing import Any

from acp import schema

from fakes.golden import kept
from fakes.world import call, calls, plan, step, write
from gonogo.acp_server.session import plain

DONE = calls(call("attempt_completion", result="made"))
SCRIPT = {
    "rules": [
        {"when": {"user": "Do readme"}, "replies": [calls(write("README.md")), DONE]},
        {"when": {"user": "Do app"}, "replies": [calls(write("app.py")), DONE]},
        {
            "when": {"tools": ["create_plan"], "last": "Build it"},
            "reply": plan(step("app"), step("readme", "app"), goal="A small app"),
        },
    ],
}
GOLDEN = Path(__file__).parent / "golden" / "plan.jsonl"
_MODELS = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
}
_NAMES = re.compile(r"\b(s|appr|call|plan|turn|p)_?[0-9a-f]{20,}\b|sha256:[0-9a-f]{64}")


async def test_the_conversation_about_a_plan_is_what_was_written_down(editor, folder, provider):
    provider.script(SCRIPT)
    async with editor() as pad:
        session = await pad.open(folder)
        await pad.agent.set_session_mode(session_id=session.session_id, mode_id="architect")
        assert await pad.say(session.session_id, "Build it") == "end_turn"
    said = [dict(body) for way, body in pad.wire if way == "incoming"]
    for body in said:
        check(body)
    # Where the numbers of requests begin is left to chance.
    for number, asked in enumerate(body for body in said if {"method", "id"} <= body.keys()):
        asked["id"] = number
    lines = named(said, folder)
    assert lines == kept(GOLDEN, "".join(f"{line}\n" for line in lines)).splitlines()


def check(body: dict[str, Any]) -> None:
    """What the agent sends is whole by the protocol's schema: no field is unknown or mended."""
    model = _MODELS.get(body.get("method", ""))
    if model is not None:
        assert plain(model.model_validate(body["params"])) == body["params"]


def named(said: list[dict[str, Any]], folder: Path) -> list[str]:
    """The messages with the names of things in the order in which they came."""
    known: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return known.setdefault(found[0], f"<{found[1] or 'sha256'} {len(known) + 1}>")

    version = re.compile(r'"version": "[^"]*"')
    lines: list[str] = []
    for body in said:
        text = json.dumps(body, sort_keys=True, ensure_ascii=False).replace(str(folder), "/project")
        lines.append(version.sub('"version": "…"', _NAMES.sub(name, text)))
    return lines
