"""The story that is interrupted: a message, a plan of five subtasks, a retry, questions, the end.

What the model says depends on the request alone, so a run that was broken off and taken up again
hears the same lines. The commands write down themselves that they ran, in a file that gonogo does
not know: the ledger.

One subtask fails at its first attempt, whose command finds no line. The second one, a conversation
of its own, sees what the first left behind, and runs another command.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gonogo.domain.tool_calls import ModelRequest

SESSION = "story"
FIRST, SECOND = "Bring both halves together", "How did it go?"
LEDGER = "ledger.jsonl"
PYTHON = "python3"
BROKEN, GRANTED, ASKED = (f"{PYTHON} tick.py {word}" for word in ("broken", "granted", "asked"))
NO_LINE = "connection refused"
"""What the command that fails says, which is a failure that may pass."""
DELAY = 0.1
"""Seconds between the two attempts."""

TICK = '''"""Says in the ledger that it began and ended; `held` waits for a file named `go`."""

import json
import os
import sys
import time


def put(phase: str) -> None:
    line = {"command": " ".join(["python3", *sys.argv]), "phase": phase, "pid": os.getpid()}
    line["at"] = time.time_ns()
    ledger = os.open("ledger.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(ledger, json.dumps(line).encode() + b"\\n")
    os.fsync(ledger)
    os.close(ledger)


put("start")
until = time.monotonic() + 60
while sys.argv[1] == "held" and not os.path.exists("go") and time.monotonic() < until:
    time.sleep(0.01)
put("end")
if sys.argv[1] == "broken":
    sys.exit("connection refused")
sys.stdout.write(f"{sys.argv[1]} ticked\\n")
'''

FILES = {"tick.py": TICK, "notes.md": "# Notes\n", "old.txt": "old\n"}
AFTERWARDS = {
    "tick.py": TICK,
    "notes.md": "# Notes\n\nBoth halves are there.\n",
    "new.txt": "old\n",
    "left.txt": "left\n",
    "right/half.txt": "right\n",
}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _subtask(name: str, does: str, *dependencies: str, **scope: Any) -> dict[str, Any]:
    subtask = {"id": name, "description": does, "agent": "coder", "dependencies": [*dependencies]}
    return {**subtask, "scope": scope} if scope else subtask


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply that depends on what the conversation heard last."""

    what: str
    then: dict[str, Any]
    otherwise: dict[str, Any]

    def __call__(self, request: ModelRequest) -> dict[str, Any]:
        """The reply, as `ScriptedModel` asks for it."""
        return self.then if self.what in request.messages[-1].model_dump_json() else self.otherwise


SUBTASKS = [
    _subtask("left", "Write the left half", paths=["left.txt"]),
    _subtask("right", "Write the right half", paths=["right", "right/**"]),
    {
        **_subtask(
            "run", "Run the granted command", "left", "right", commands=[f"{PYTHON} tick.py"]
        ),
        "retry_policy": {"max_attempts": 2, "delay": DELAY},
    },
    _subtask("note", "Say so in the notes", "run", paths=["notes.md"]),
    _subtask("ask", "Ask, and run what was not granted", "run"),
]
GOAL, QUESTION = "Both halves are there", "Which of the two?"

_SWITCH = {"text": "A plan is needed.", "calls": [_call("switch_mode", mode="architect")]}
_LOOK = {"text": "First a look.", "calls": [_call("list_files", path=".")]}
_PLAN = {"calls": [_call("create_plan", goal=GOAL, subtasks=SUBTASKS)]}
_WELL = {"text": "It went well."}
_FAILS = _call("attempt_completion", result=f"No line: {NO_LINE}", success=False)
LINES: dict[str, list[dict[str, Any] | Heard]] = {
    "left": [
        {"calls": [_call("write_file", path="left.txt", content="left\n")]},
        {"text": "The left half is there."},
    ],
    "right": [
        {
            "calls": [
                _call("create_directory", path="right"),
                _call("write_file", path="right/half.txt", content="right\n"),
            ]
        },
        {"calls": [_call("read_file", path="right/half.txt")]},
        {"text": "The right half is there."},
    ],
    "run": [
        {"calls": [_call("list_files", path=".")]},
        Heard(
            LEDGER,
            then={"calls": [_call("execute_command", command=GRANTED)]},
            otherwise={"calls": [_call("execute_command", command=BROKEN)]},
        ),
        Heard(NO_LINE, then={"calls": [_FAILS]}, otherwise={"text": "It ran."}),
    ],
    "note": [
        {
            "calls": [
                _call(
                    "edit_file",
                    path="notes.md",
                    old="# Notes\n",
                    new="# Notes\n\nBoth halves are there.\n",
                )
            ]
        },
        {"text": "Noted."},
    ],
    "ask": [
        {"calls": [_call("ask_followup_question", question=QUESTION)]},
        {"calls": [_call("execute_command", command=ASKED)]},
        {"calls": [_call("move_file", source="old.txt", destination="new.txt")]},
        {"calls": [_call("attempt_completion", result="Asked and done.")]},
    ],
    "main/orchestrator": [_SWITCH, _WELL],
    "main/architect": [_LOOK, _PLAN],
}
"""By thread, as `ScriptedModel` wants them."""
REQUESTS = sum(map(len, LINES.values())) + len(LINES["run"])
"""What the model is asked when nobody disturbs the story; `run` is carried out twice."""
COURSES = {s["id"]: Counter({"subtask_started": 1, "subtask_completed": 1}) for s in SUBTASKS}
COURSES["run"] = Counter({"subtask_started": 2, "subtask_retrying": 1, "subtask_completed": 1})
DECISIONS = [
    ("plan", None, GOAL, "approved"),
    ("intervention", "ask", QUESTION, "approved"),
    ("tool", "ask", "execute_command", "approved"),
]
"""By kind, subtask and subject, in order; about calls in doubt there may be more."""


def rules() -> dict[str, Any]:
    """The same lines for the OpenAI-compatible server.

    A brief names what came before it, so a subtask's rule stands before those of its dependencies.
    """
    found = [
        rule
        for subtask in reversed(SUBTASKS)
        for rule in _rules_of(subtask["description"], LINES[subtask["id"]])
    ]
    # The account of the plan is said by nobody, but counts as an answer.
    main = [_SWITCH, _LOOK, _PLAN, {"status": 500, "error": "out of turn"}, _WELL]
    # Whoever changes a line does so for itself alone.
    return deepcopy({"rules": [*found, {"when": {"user": FIRST}, "replies": main}]})


def _rules_of(description: str, lines: list[dict[str, Any] | Heard]) -> Iterator[dict[str, Any]]:
    """What depends on what was heard last is a rule of its own, before the others."""
    for place, line in enumerate(lines):
        if isinstance(line, Heard):
            when = {"user": description, "assistants": place, "last": line.what}
            yield {"when": when, "reply": line.then}
    replies = [line.otherwise if isinstance(line, Heard) else line for line in lines]
    yield {"when": {"user": description}, "replies": replies}


def courses(events: Iterable[dict[str, Any]]) -> dict[str, Counter[str]]:
    """What the log tells of each subtask, to be held against `COURSES`."""
    found: dict[str, Counter[str]] = {}
    for body in events:
        if body["type"].startswith("subtask_"):
            found.setdefault(body["subtask_id"], Counter())[body["type"]] += 1
    return found


def lay_out(workspace: Path) -> Path:
    """Make the workspace as it is before the story."""
    workspace.mkdir(parents=True)
    for name, content in FILES.items():
        (workspace / name).write_text(content)
    return workspace


def contents(workspace: Path) -> dict[str, str]:
    """Every file of the workspace but the ledger."""
    return {
        path.relative_to(workspace).as_posix(): path.read_text()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and path.name != LEDGER
    }


def ledger(workspace: Path) -> list[dict[str, Any]]:
    """What the commands wrote down; a line that is being written is left out."""
    path = workspace / LEDGER
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def starts(workspace: Path, command: str) -> int:
    """How often a command began."""
    return sum(e["phase"] == "start" and e["command"] == command for e in ledger(workspace))


def answer_to(approval: Any, workspace: Path) -> dict[str, Any]:
    """What the person of this story decides, who can look at the files and at the ledger."""
    tool = approval.details.get("tool")
    if approval.kind != "intervention" or "question" in approval.details:
        return {"decision": "approve"}
    arguments = approval.details["arguments"]
    if _is_done(tool, arguments, workspace):
        seen = NO_LINE if arguments.get("command") == BROKEN else "it is done"
        return {"decision": "edit", "modified_arguments": {"result": {"seen": seen}}}
    return {"decision": "approve"}


def _is_done(tool: str, arguments: dict[str, Any], workspace: Path) -> bool:
    if tool == "move_file":
        return (workspace / arguments["destination"]).exists()
    if tool != "execute_command":
        return False
    wanted = shlex.split(arguments["command"])
    phases = [e["phase"] for e in ledger(workspace) if shlex.split(e["command"]) == wanted]
    return phases[-1:] == ["end"]
