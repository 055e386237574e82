"""The states S0 to S13 of tests/cases/ws_states.json, reached by the public protocol alone.

Each case has a session of its own, so the names of the cases (`s_A`, `p1`, `c1`) stand for other
ids in each; `Scene.named` translates them.
"""

import json
import re
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx

from wire.deployment import LEDGER, STREAM, WAIT, Deployment

_NAMES = re.compile(r"\b(s_A|s_B|p1|p9|c1|c2|c9)\b")
_NUMBER = count(1)


class Scene:
    """One session in its state, and what its cases call things."""

    def __init__(self, deployment: Deployment, case: str, state: str) -> None:
        self.deployment, self.state = deployment, state
        self.session_id = f"s_A.{case}.{next(_NUMBER)}"
        self.names = {"s_A": self.session_id}
        self.folder = deployment.work / self.session_id
        self.folder.mkdir()
        if state != "S0":
            self.open(self.session_id, "A", "client" if state == "S5" else "server")
            _REACH[state](self)

    def named(self, value: Any) -> Any:
        """A value of a case, with this scene's ids in the place of the case's."""
        text = json.dumps(value)
        return json.loads(_NAMES.sub(lambda name: self.names.get(name[0], name[0]), text))

    def say(self, message: dict[str, Any], who: str = "A", session: str = "s_A") -> list[dict]:
        """Send a message and read its whole answer."""
        body = {"session_id": self.names[session], "message": message}
        events = read_events(self.deployment.ask("POST", STREAM, who, json=body))
        assert events[-1]["type"] == "done", events
        return events[:-1]

    def pending(self, session: str = "s_A", who: str = "A") -> list[dict[str, Any]]:
        """The questions that a session waits for."""
        path = f"/sessions/{self.names[session]}/pending-approvals"
        return self.deployment.get(path, who)["pending_approvals"]

    @property
    def ledger(self) -> list[str]:
        """The commands that ran in the workspace, as they wrote it down themselves."""
        path = self.folder / LEDGER
        return path.read_text().split() if path.exists() else []

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until something holds, and give it."""
        end = time.monotonic() + WAIT
        while not (found := holds()):
            assert time.monotonic() < end, "it did not come about"
            time.sleep(0.01)
        return found

    # How states are reached -------------------------------------------------------------------

    def plan(self, wanted: str = "asks once", name: str = "p1", session: str = "s_A") -> None:
        """Have the architect propose a plan."""
        who = "B" if session == "s_B" else "A"
        message = {"type": "user_message", "content": wanted, "agent_type": "architect"}
        events = self.say(message, who, session)
        assert events[-1]["type"] == "plan_notification", events
        self.names[name] = events[-1]["plan_id"]

    def go(self, name: str = "p1", session: str = "s_A", calls: tuple[str, ...] = ("c1",)) -> None:
        """Approve a plan, and run on until its commands ask."""
        who = "B" if session == "s_B" else "A"
        message = {"type": "plan_decision", "plan_id": self.names[name], "decision": "approve"}
        self.say(message, who, session)
        asked = {a["subtask_id"]: a["call_id"] for a in self.pending(session, who)}
        for call, subtask in zip(calls, sorted(asked), strict=True):
            self.names[call] = asked[subtask]

    def decide(self, decision: str, call: str = "c1") -> list[dict[str, Any]]:
        """Answer a command's question."""
        message = {"type": "hitl_decision", "call_id": self.names[call], "decision": decision}
        return self.say(message)

    def allow_edited(self, command: str) -> None:
        """Allow another command in the place of the one that waits."""
        arguments = {"command": command}
        message = {
            "type": "hitl_decision", "call_id": self.names["c1"], "decision": "edit",
            "modified_arguments": arguments,
        }  # fmt: skip
        self.say(message)

    def open(self, session_id: str, who: str, tool_host: str) -> None:
        """Make a session in this scene's folder."""
        body = {
            "session_id": session_id, "workspace": str(self.folder), "locale": "en",
            "tool_host": tool_host,
        }  # fmt: skip
        answer = self.deployment.ask("POST", "/api/v1/sessions", who, json=body)
        assert answer.status_code == 201, answer.text

    def _running_at_the_client(self) -> None:
        self.plan()
        self.go()
        path = f"/api/v1/approvals/{self.pending()[0]['approval_id']}/decision"
        answer = self.deployment.ask("POST", path, json={"decision": "approve"})
        assert answer.status_code == 202, answer.text

    def _replaced(self) -> None:
        self.plan()
        message = {"type": "plan_decision", "plan_id": self.names["p1"], "decision": "reject"}
        self.say(message)
        self.plan(name="p2")

    def _deleted(self) -> None:
        self.plan()
        self.go()
        answer = self.deployment.ask("DELETE", f"/api/v1/sessions/{self.session_id}")
        assert answer.status_code == 204, answer.text

    def _beside_another(self) -> None:
        self.plan()
        self.go()
        self.names["s_B"] = f"{self.session_id}.B"
        self.open(self.names["s_B"], "B", "server")
        self.plan(name="p9", session="s_B")
        self.go("p9", "s_B", ("c9",))

    def _cancelled(self) -> None:
        self.plan()
        self.go()
        self.deployment.ask("POST", f"/api/v1/plans/{self.names['p1']}/cancel")


def _waits(scene: Scene) -> None:
    scene.plan()
    scene.go()


def _after(decision: str) -> Callable[[Scene], None]:
    def reach(scene: Scene) -> None:
        _waits(scene)
        scene.decide(decision)

    return reach


def _waits_twice(scene: Scene) -> None:
    scene.plan("asks twice")
    scene.go(calls=("c1", "c2"))


_REACH: dict[str, Callable[[Scene], None]] = {
    "S1": lambda scene: None,
    "S2": Scene.plan,
    "S3": _waits,
    "S4": _after("reject"),
    "S5": Scene._running_at_the_client,
    "S6": _after("approve"),
    "S7": _waits,
    "S8": _waits_twice,
    "S9": Scene._replaced,
    "S11": Scene._deleted,
    "S12": Scene._beside_another,
    "S13": Scene._cancelled,
}
"""S7 also moves the clock, which only its own deployment has; S10 restarts the server, which the
tests of `gonogo serve` do."""


def read_events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream that has ended."""
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.split("\n") if line[:6] == "data: "]
