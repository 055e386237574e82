"""A plan that two subtasks carry out, for pages that show what came of it."""

import time
from collections.abc import Callable
from typing import Any

import httpx

from console.conftest import LIMIT
from fakes.world import call

FIRST = "Write both halves"
GOAL = "Both halves are written"


def _subtask(name: str, *dependencies: str) -> dict[str, Any]:
    return {
        "id": name, "description": f"Write the {name} half", "agent": "coder",
        "dependencies": [*dependencies], "scope": {"paths": [f"{name}.txt"]},
    }  # fmt: skip


def _writes(name: str) -> dict[str, Any]:
    """Its brief names what came before it, so the later subtask's rule stands first."""
    written = call("write_file", path=f"{name}.txt", content=f"{name}\n")
    return {
        "when": {"user": f"Write the {name} half"},
        "replies": [{"calls": [written]}, {"text": f"The {name} half is there."}],
    }


SAYS = {"rules": [
    _writes("right"),
    _writes("left"),
    {"when": {"user": FIRST}, "replies": [
        {"text": "A plan.", "calls": [call("switch_mode", mode="architect")]},
        {"calls": [call(
            "create_plan", goal=GOAL, subtasks=[_subtask("left"), _subtask("right", "left")]
        )]},
        {"status": 500, "error": "out of turn"},
        {"text": "It went well."},
    ]},
]}  # fmt: skip


class Person:
    """Somebody who works by another client, signed in by a token."""

    def __init__(self, server: Any, token: str | None = None) -> None:
        self._url = f"{server.url}/api/v1"
        self._headers = {"Authorization": f"Bearer {token or server.token}"}

    def ask(self, method: str, path: str, **given: Any) -> Any:
        answer = httpx.request(
            method, self._url + path, headers=self._headers, timeout=LIMIT / 1_000, **given
        ).raise_for_status()
        return answer.json() if answer.headers["content-type"] == "application/json" else None

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, params=query)

    def post(self, path: str, **body: Any) -> Any:
        return self.ask("POST", path, json=body)

    def propose(self, session: str, task: str = FIRST) -> str:
        """Have the plan made; gives its id."""
        said = {"type": "user_message", "content": task}
        self.post("/agent/message/stream", session_id=session, message=said)
        [plan] = self.get("/plans", session_id=session)["plans"]
        return plan["plan_id"]

    def carry_out(self, session: str) -> str:
        """Have the plan made, approve it, and wait until it has ended; gives its id."""
        plan_id = self.propose(session)
        self.post(f"/plans/{plan_id}/decision", decision="approve")
        self.until(f"/plans/{plan_id}", lambda plan: plan["status"] == "completed")
        return plan_id

    def until(self, path: str, is_so: Callable[[Any], bool]) -> Any:
        """Ask until something is so."""
        end = time.monotonic() + LIMIT / 1_000
        while not is_so(found := self.get(path)):
            assert time.monotonic() < end, f"{path} does not come to it: {found}"
            time.sleep(0.05)
        return found
