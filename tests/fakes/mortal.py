"""A runtime in a process of its own, to be killed: `python -m fakes.mortal ROOT DB MESSAGE…`.

Opens the runtime on ROOT and the database DB (a URL; empty: SQLite in ROOT/home) with the script in
ROOT/lines.json, sends each message (JSON; `{verb, arguments}` is a verb of the runtime), follows
its session, and prints every event as a line of JSON, until it is killed. With a text in DIES_AT it
kills itself at the first statement of SQL (of SQLite) that holds it.
"""

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import anyio

from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import parse_message
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings
from gonogo.store import sqlite

SESSION = "mortal"


def die_at(text: str) -> None:
    """Have the database kill us at a statement that holds this text."""
    prepare = sqlite._prepare

    def meet(statement: str) -> None:
        if text in statement:
            os.kill(os.getpid(), signal.SIGKILL)

    def prepared(connection: sqlite3.Connection, record: object) -> None:
        connection.set_trace_callback(meet)
        prepare(connection, record)

    sqlite._prepare = prepared


async def live(root: Path, db: str, messages: list[dict[str, Any]]) -> None:
    """Send the messages and print what happens."""
    settings = Settings(
        home=root / "home", config=root / "config", workspace=root / "work", db=db or None
    )
    lines = json.loads((root / "lines.json").read_text())
    ann = Principal(id="user:ann", name="ann", role=Role.OPERATOR)
    async with Runtime.open(settings, model=ScriptedModel(lines)) as runtime:
        for message in messages:
            if verb := message.get("verb"):
                await getattr(runtime.plans, verb)(ann, **message["arguments"])
                continue
            await runtime.messages.accept(ann, SESSION, parse_message(message))
        async with runtime.streams.follow(ann, SESSION, 0) as events:
            async for event in events:
                if "token" not in event:
                    print(json.dumps({**event}), flush=True)  # noqa: T201


if __name__ == "__main__":
    if "DIES_AT" in os.environ:
        die_at(os.environ["DIES_AT"])
    anyio.run(live, Path(sys.argv[1]), sys.argv[2], [json.loads(word) for word in sys.argv[3:]])
