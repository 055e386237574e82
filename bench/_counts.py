"""Counts that do not depend on the machine: what one plan takes, from the message to its end.

A plan of one subtask after another, so that nothing is written together by chance. It is the same
each time, but for the length of numbers in a count of bytes, and for a read more or less of those
who follow or look for what is due, with what is encoded, validated and handed between threads for
it. `counts.json` beside this file says what was counted last; none of it may grow.
"""

import asyncio
import json
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from pydantic import BaseModel, TypeAdapter
from scripts.talk import calls, plan_of, say
from sqlalchemy import event

from bench._calls import call_counts
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings
from gonogo.store import Store, columns

KEPT = Path(__file__).with_name("counts.json")
SLACK, READS_MORE = 0.03, 3
"""How much more a count may be that is not the same each time: a part of it, or this many."""
_BYTES, _READS = "bytes", "reads"
_LOOSE = (_BYTES, _READS, "validations", "encodings", "store", "hops")
_STEPS = ("one", "two", "three")
_WORK = (
    (os, "fsync", "fsyncs of files"),
    (json.JSONEncoder, "encode", "encodings"),
    (columns, "_encode_fast", "encodings in the store"),
    (BaseModel, "model_dump", "encodings"),
    (BaseModel, "model_dump_json", "encodings"),
    (BaseModel, "__init__", "validations"),
    (BaseModel, "model_validate", "validations"),
    (TypeAdapter, "validate_python", "validations"),
    (TypeAdapter, "validate_json", "validations"),
    (asyncio.BaseEventLoop, "call_soon_threadsafe", "thread hops"),
)
"""What is counted besides the database: where it is, and as what."""
_FRAMES = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA")


_SUBTASKS = [
    {
        "id": key, "description": f"Write {key}", "agent": "coder",
        "dependencies": list(_STEPS[max(0, place - 1) : place]),
        "scope": {"paths": [f"{key}.txt"]},
    }
    for place, key in enumerate(_STEPS)
]  # fmt: skip
_LINES = {
    **plan_of(*_SUBTASKS),
    **{
        key: [calls("write_file", path=f"{key}.txt", content=f"{key}\n"), {"text": "Made."}]
        for key in _STEPS
    },
}


async def counts() -> dict[str, int]:
    """What a plan takes, by what is counted."""
    found = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="counts-") as folder, _watched(found):
        settings = Settings(home=Path(folder, "home"), workspace=Path(folder))
        async with Runtime.open(settings, model=ScriptedModel(_LINES)) as runtime:
            store = runtime.parts.store
            listening = _statements(store, found)
            store.write = _counted(store.write, "transactions", found)  # type: ignore[method-assign]
            store.read = _counted(store.read, _READS, found)  # type: ignore[method-assign]
            with listening:
                events = await say(runtime, None, type="user_message", content="Build it")
                session, plan = events[-1]["session_id"], events[-1]["plan_id"]
                events += await say(
                    runtime, session, type="plan_decision", plan_id=plan, decision="approve"
                )
        found["events"] = len(events)
        found[f"follower's {_BYTES}"] = sum(len(msgspec.json.encode(each)) for each in events)
        found[f"database {_BYTES}"] = _size(Path(folder, "home", "gonogo.db"))
    return dict(sorted(found.items()))


def _counted(fn: Callable[..., Any], what: str, found: Counter[str]) -> Callable[..., Any]:
    def counting(*args: Any, **more: Any) -> Any:
        found[what] += 1
        return fn(*args, **more)

    return counting


@contextmanager
def _statements(store: Store, found: Counter[str]) -> Iterator[None]:
    """Count the statements of all connections: the writer's, and the readers' as they are used."""
    backend: Any = store._backend
    traced: list[sqlite3.Connection] = []

    def watch(raw: sqlite3.Connection, what: str) -> None:
        def trace(text: str) -> None:
            found[what] += not text.lstrip().startswith(_FRAMES)

        raw.set_trace_callback(trace)
        traced.append(raw)

    def reads(raw: sqlite3.Connection, *_: object) -> None:
        watch(raw, f"statements of {_READS}")

    watch(backend._conn.connection.driver_connection, "statements")
    event.listen(backend.engine, "checkout", reads)
    try:
        yield
    finally:
        event.remove(backend.engine, "checkout", reads)
        for raw in traced:
            raw.set_trace_callback(None)


@contextmanager
def _watched(found: Counter[str]) -> Iterator[None]:
    """Count what is brought to the disk besides the database, and what the processor does."""
    with ExitStack() as stack:
        for place, name, what in _WORK:
            stack.enter_context(_replaced(place, name, what, found))
        yield


@contextmanager
def _replaced(place: Any, name: str, what: str, found: Counter[str]) -> Iterator[None]:
    kept = vars(place)[name]
    if isinstance(kept, classmethod):
        setattr(place, name, classmethod(_counted(kept.__func__, what, found)))
    else:
        setattr(place, name, _counted(kept, what, found))
    try:
        yield
    finally:
        setattr(place, name, kept)


def _size(file: Path) -> int:
    with sqlite3.connect(file) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = opened.execute("SELECT sum(pgsize - unused) FROM dbstat").fetchone()
    opened.close()
    return size


def check(*, renew: bool) -> int:
    """Compare with what was counted last; the exit code says whether something grew."""
    found = {**anyio.run(counts), **anyio.run(call_counts)}
    if renew:
        KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept: dict[str, int] = json.loads(KEPT.read_text(encoding="utf-8"))
    if grown := told(kept, found):
        print("Find out why; if it has to be, say so where it is: scripts/bench --check --renew")
    return int(grown)


def told(kept: Mapping[str, int], found: Mapping[str, int]) -> bool:
    """Print what was counted beside what is kept. Whether something has grown."""
    grown = False
    for name in sorted(kept.keys() | found.keys()):
        now, before = found.get(name, 0), kept.get(name, 0)
        slack = max(before * SLACK, READS_MORE) if name.endswith(_LOOSE) else 0
        more = now > before + slack
        grown |= more
        print(f"{name:47} {before:10,} → {now:10,}{'  has grown' if more else ''}")
    return grown
