"""A program that appends events to the session `s1`, and says each one that is acknowledged.

Usage: writer.py URL NAME COUNT. It says `open` when its store is, then waits for a line.
"""

import os
import sys

import anyio

from gonogo.domain.events import AssistantMessage
from gonogo.store import Store, Tx
from gonogo.store import events as log

TASKS = 8


def append(tx: Tx, text: str) -> int:
    log.tell(tx, "s1", AssistantMessage(content=text))
    log.note(tx, "s1", actor=text, action="told", subject="s1")
    return log.told_seq(tx, "s1")


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def work(store: Store, name: str, count: int) -> None:
    for _ in range(count):
        seq = await store.write(append, name)
        say(f"{seq} {name}")


async def main(url: str, name: str, count: int) -> None:
    store = Store(url, patience=30)
    say("open")
    sys.stdin.readline()
    async with anyio.create_task_group() as group:
        for _ in range(TASKS):
            group.start_soon(work, store, name, count)
    store.close()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
