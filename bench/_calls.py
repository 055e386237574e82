"""How many transactions a call takes, by what it is and who allows it.

Counted from the answer that lets it run (to its question, or to its plan) until everything rests.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.talk import calls, plan_of, say

from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings

_FILE = calls("write_file", path="a.txt", content="a\n")
_COMMAND = calls("execute_command", command="touch a.txt")
_DONE = {"text": "Done."}
_IN_SCOPE = {"paths": ["a.txt"], "commands": ["touch"]}
_OUT_OF_SCOPE = {"paths": ["b.txt"]}
_QUESTIONS = ("approval_requested", "plan_notification")


def _plan(call: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    subtask = {
        "id": "one", "description": "Make a.txt", "agent": "coder", "scope": dict(scope),
        "must_change": False,
    }  # fmt: skip
    return {**plan_of(subtask), "one": [call, _DONE]}


_STORIES: Mapping[str, Mapping[str, Any]] = {
    "approved file tool of a turn": {"main/coder": [_FILE, _DONE]},
    "approved command of a turn": {"main/coder": [_COMMAND, _DONE]},
    "approved file tool of a subtask": _plan(_FILE, _OUT_OF_SCOPE),
    "approved command of a subtask": _plan(_COMMAND, _OUT_OF_SCOPE),
    "allowed file tool of a subtask": _plan(_FILE, _IN_SCOPE),
    "allowed command of a subtask": _plan(_COMMAND, _IN_SCOPE),
}


async def call_counts() -> dict[str, int]:
    """The transactions of each of them."""
    found = dict[str, int]()
    for name, lines in _STORIES.items():
        with tempfile.TemporaryDirectory(prefix="counts-") as folder:
            found[f"transactions, {name}"] = await _counted(Path(folder), lines)
    return found


async def _counted(folder: Path, lines: Mapping[str, Any]) -> int:
    settings = Settings(home=folder / "home", workspace=folder)
    async with Runtime.open(settings, model=ScriptedModel(dict(lines))) as runtime:
        agent = {"agent_type": "coder"} if "main/coder" in lines else {}
        events = await say(runtime, None, type="user_message", content="Build it", **agent)
        taken = 0
        while (asked := events[-1])["type"] in _QUESTIONS:
            events, taken = await _answered(runtime, asked)
    return taken


async def _answered(runtime: Runtime, asked: Mapping[str, Any]) -> tuple[list[Any], int]:
    """Approve what is asked. Gives what followed, and how many transactions that took."""
    store, taken, write = runtime.parts.store, [0], runtime.parts.store.write

    def counting(*given: Any, **more: Any) -> Any:
        taken[0] += 1
        return write(*given, **more)

    store.write = counting  # type: ignore[method-assign]
    if asked.get("call_id") is None:
        answer = {"type": "plan_decision", "plan_id": asked["plan_id"], "decision": "approve"}
    else:
        approval = asked["metadata"]["approval_id"]
        answer = {"type": "hitl_decision", "approval_id": approval, "decision": "approve"}
    events = await say(runtime, asked["session_id"], **answer)
    store.write = write  # type: ignore[method-assign]
    return events, taken[0]
