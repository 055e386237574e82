"""The OpenAI Agents SDK with its SQLite session and a scripted model: each step is a tool call.

It has no durable steps below a turn, so layers have no counterpart, and nothing goes on by itself
after a kill. Run in an environment of its own, see `beside.py`. `python run_agents.py FOLDER WORK`.
"""

import asyncio
import sqlite3
import sys
import time
from pathlib import Path
from statistics import median

from agents.testing import assistant_message, function_call

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    RunState,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)

set_tracing_disabled(True)
RAN: list[float] = []


class Script(Model):
    """A model that gives one answer after the other, and keeps no copy of what it was asked."""

    def __init__(self, answers: list[list]) -> None:
        self._answers = iter(answers)

    async def get_response(self, *asked: object, **named: object) -> ModelResponse:
        """The next answer."""
        return ModelResponse(output=next(self._answers), usage=Usage(), response_id=None)

    def stream_response(self, *asked: object, **named: object) -> object:
        """Nobody streams here."""
        raise NotImplementedError


@function_tool
def no_op(number: int) -> int:
    """Do nothing."""
    return number


@function_tool(needs_approval=True)
def act(number: int) -> int:
    """Say when it ran."""
    RAN.append(time.perf_counter())
    return number


def session(folder: Path, name: str) -> SQLiteSession:
    """A conversation in a file."""
    return SQLiteSession(name, folder / "peer.db")


def agent(tool: object, calls: int) -> Agent:
    """An agent that calls the tool so often, and ends."""
    name = tool.name
    script = [
        [function_call(name, {"number": number}, call_id=f"c{number}")] for number in range(calls)
    ]
    return Agent(name="peer", tools=[tool], model=Script([*script, [assistant_message("done")]]))


async def _sequence(folder: Path) -> float:
    took = []
    for run in range(4):
        began = time.perf_counter()
        await Runner.run(
            agent(no_op, 200), "Go", session=session(folder, f"run-{run}"), max_turns=300
        )
        took.append(time.perf_counter() - began)
    return median(took[1:]) * 1000 / 200


def sequence(folder: Path) -> float:
    """Milliseconds for each of 200 tool calls in sequence."""
    return asyncio.run(_sequence(folder))


async def _decided(folder: Path, kept: sqlite3.Connection, name: str, count: int) -> list[float]:
    made, took = agent(act, count), []
    found = await Runner.run(made, "Go", session=session(folder, name), max_turns=count + 5)
    for _ in range(count):
        state = found.to_state()
        # What waits for a person has to outlive the process.
        with kept:
            kept.execute("REPLACE INTO waiting VALUES (?, ?)", (name, state.to_string()))
        began = time.perf_counter()
        (text,) = kept.execute("SELECT state FROM waiting WHERE name = ?", (name,)).fetchone()
        state = await RunState.from_string(made, text)
        state.approve(state.get_interruptions()[0])
        found = await Runner.run(made, state, session=session(folder, name), max_turns=count + 5)
        took.append(RAN[-1] - began)
    return took


def waiting(folder: Path) -> sqlite3.Connection:
    """A table of what waits for a person, as an application would keep it."""
    kept = sqlite3.connect(folder / "waiting.db")
    kept.execute("PRAGMA journal_mode=WAL")
    kept.execute("PRAGMA synchronous=FULL")
    kept.execute("CREATE TABLE waiting (name TEXT PRIMARY KEY, state TEXT NOT NULL)")
    return kept


def decision(folder: Path) -> float:
    """Milliseconds from an answer until the approved tool runs."""
    return median(asyncio.run(_decided(folder, waiting(folder), "decision", 20))) * 1000


async def _woken(folder: Path, count: int) -> float:
    kept, parked = waiting(folder), []
    for number in range(count):
        made = agent(act, 1)
        found = await Runner.run(made, "Go", session=session(folder, f"parked-{number}"))
        parked.append((number, made, found.to_state().to_string()))
    with kept:
        kept.executemany(
            "INSERT INTO waiting VALUES (?, ?)", [(str(number), text) for number, _, text in parked]
        )

    async def wake(number: int, made: Agent, text: str) -> None:
        state = await RunState.from_string(made, text)
        state.approve(state.get_interruptions()[0])
        await Runner.run(made, state, session=session(folder, f"parked-{number}"))

    began = time.perf_counter()
    await asyncio.gather(*(wake(*each) for each in parked))
    return count / (time.perf_counter() - began)


def woken(folder: Path) -> float:
    """Parked runs whose approved tool runs, a second."""
    return asyncio.run(_woken(folder, 200))


WORKS = {"sequence": sequence, "decision": decision, "woken": woken}

if __name__ == "__main__":
    print(WORKS[sys.argv[2]](Path(sys.argv[1])))
