"""A program that decides what it is told to, as fast as it can, and says what it was told.

Usage: decider.py ADDRESS NAME [TOKEN]. ADDRESS is a database, or a server's. It says `open`, then
reads lines: each is a list of `[approval, word]`, and is answered by a list of
`[approval, word, outcome, by]`.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import anyio
import anyio.to_thread

from durability.races import desk_of_races
from gonogo.client import Client
from gonogo.domain.errors import GonogoError
from gonogo.domain.identity import Principal, Role
from gonogo.domain.states import DecisionWord
from gonogo.execution.approvals import Refusal, Ruling
from gonogo.store import Store

TASKS = 8
Said = tuple[str, str]
"""An outcome, and who decided as far as was told."""
Decide = Callable[[str, str], Awaitable[Said]]


def say(line: object) -> None:
    os.write(1, f"{json.dumps(line)}\n".encode())


def refused(error: GonogoError) -> Said:
    return error.code, getattr(error, "decided_by", "?")


def by_store(address: str, name: str, stack: AsyncExitStack) -> Decide:
    store, desk = Store(address, patience=60), desk_of_races()
    stack.callback(store.close)
    who = Principal(id=name, name=name, role=Role.OPERATOR)

    async def decide(approval_id: str, word: str) -> Said:
        changes = {"by": name} if word == "edit" else None
        ruling = Ruling(word=DecisionWord(word), by=who, changes=changes)
        try:
            outcome = await store.write(desk.decide, approval_id, ruling)
        except GonogoError as error:
            return refused(error)
        if isinstance(outcome, Refusal):
            return refused(outcome.error)
        return "taken", outcome.decided_by or "nobody yet"

    return decide


async def by_client(address: str, token: str, stack: AsyncExitStack) -> Decide:
    client = await stack.enter_async_context(Client(address, token=token))

    async def decide(approval_id: str, word: str) -> Said:
        try:
            await client.decide(approval_id, word)
        except GonogoError as error:
            return refused(error)
        return "taken", "?"

    return decide


async def round_of(decide: Decide, wanted: list[list[str]]) -> list[list[str]]:
    left, answers = iter(wanted), list[list[str]]()

    async def work() -> None:
        for approval_id, word in left:
            answers.append([approval_id, word, *await decide(approval_id, word)])

    async with anyio.create_task_group() as group:
        for _ in range(TASKS):
            group.start_soon(work)
    return answers


async def main(address: str, name: str, token: str = "") -> None:
    async with AsyncExitStack() as stack:
        if token:
            decide = await by_client(address, token, stack)
        else:
            decide = by_store(address, name, stack)
        say("open")
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            say(await round_of(decide, json.loads(line)))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
