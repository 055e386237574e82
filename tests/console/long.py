"""A session of so many events, as if people had worked in it for weeks."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from fakes.rows import NOW, call, session
from gonogo.domain.events import (
    AssistantMessage,
    CallFacts,
    Event,
    ResultFacts,
    ToolCalled,
    ToolResulted,
)
from gonogo.domain.records import MAIN, CallRow
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import Reply, ToolRequest, UserText
from gonogo.store import Store, Tx, patiently
from gonogo.store import events as log
from gonogo.store.calls import add_calls
from gonogo.store.sessions import add_session, append_message

CALLS = 4
PER_TURN = 2 * CALLS + 2
"""Events that one message causes."""


def fill(database: Path, session_id: str, turns: int) -> None:
    """Put the session into a database that nobody has open."""
    with ThreadPoolExecutor(1) as elsewhere:
        # The driver of the browser holds the event loop of the test's own thread.
        elsewhere.submit(_write, database, session_id, turns).result()


def _write(database: Path, session_id: str, turns: int) -> None:
    store = Store(f"sqlite:///{database}")
    try:
        with patiently():
            anyio.run(store.write, _fill, session_id, turns)
    finally:
        store.close()


def _fill(tx: Tx, session_id: str, turns: int) -> None:
    add_session(tx, session(session_id, principal_id="local", title="Long"))
    for turn in range(turns):
        calls = [f"call_{turn}_{n}" for n in range(CALLS)]
        append_message(tx, session_id, MAIN, UserText(content=f"Question {turn}"))
        asks = tuple(ToolRequest(id=each, name="read_file", arguments={}) for each in calls)
        append_message(tx, session_id, MAIN, Reply(text="Let me look.", calls=asks), agent="coder")
        add_calls(tx, [_read(session_id, each, turn * CALLS + n) for n, each in enumerate(calls)])
        append_message(tx, session_id, MAIN, Reply(text=_answer(turn)), agent="coder")
        log.tell(tx, session_id, *_events(turn, calls))


def _read(session_id: str, call_id: str, place: int) -> CallRow:
    return call(
        call_id, session_id=session_id, position=place + 1, tool="read_file", finished_at=NOW,
        status=CallStatus.COMPLETED, result={"content": "line\n" * 20},
    )  # fmt: skip


def _events(turn: int, calls: Iterable[str]) -> Iterable[Event]:
    envelope = {"turn_id": f"turn_{turn}", "agent": "coder"}
    facts = CallFacts(digest="sha256:d", reason="only reads", tool_class="pure", decision="allow")
    yield AssistantMessage(content="Let me look.", **envelope)
    for each in calls:
        path = {"path": f"src/{each}.py"}
        yield ToolCalled(
            call_id=each, tool_name="read_file", arguments=path, requires_approval=False,
            metadata=facts, **envelope,
        )  # fmt: skip
        yield ToolResulted(
            call_id=each, tool_name="read_file", result={"content": "line\n" * 20},
            metadata=ResultFacts(status="completed", duration_ms=3), **envelope,
        )  # fmt: skip
    yield AssistantMessage(content=_answer(turn), is_final=True, **envelope)


def _answer(turn: int) -> str:
    return (
        f"Answer {turn}: it says **line**, "
        + "and so on, " * (turn % 7 * 10)
        + "\n\n- one\n- two\n"
    )
