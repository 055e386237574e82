"""kill -9 of a real server at many moments of a story: nothing is lost, nothing is done twice.

After each death: the database holds what clients were told, questions are still asked, a finished
subtask stays finished, a command that was under way is in doubt and asks. At the end the files are
those of a run that nobody disturbed.

`GONOGO_DURABILITY_SEED=N` picks other moments; `scripts/test --nightly` tells more
stories.
"""

import random
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from durability import story
from durability.ground import EVERYTHING, SEED, Ground
from durability.person import Person
from durability.server import Server, Wire
from gonogo.client import Unreachable

DEATHS = 6
"""How often the server of one story is killed, at most."""
STORIES = 20 if EVERYTHING else 1


@dataclass(frozen=True, slots=True)
class Moment:
    """When the server is killed: some time after the n-th of something in this life."""

    what: str
    count: int
    later: float

    @classmethod
    def pick(cls, chance: random.Random) -> "Moment":
        what = chance.choices(["event", "command", "start"], [10, 3, 2])[0]
        counts = {"event": chance.randint(1, 14), "command": chance.randint(1, 2), "start": 0}
        return cls(what, counts[what], chance.uniform(0.0, 0.6 if what == "start" else 0.06))


class Life:
    """One life of a server, and what the person sees of it."""

    def __init__(self, ground: Ground, moment: Moment | None) -> None:
        self.ground, self.moment = ground, moment
        self.over = False
        self._come = anyio.Event()
        self._events, self._lines = 0, len(story.ledger(ground.workspace))

    async def run(self, before: set[str], *, whole: bool = False) -> bool:
        """Live until the moment; True when the story came to its end before it."""
        server = self.ground.server(whole=whole)
        if self.moment and self.moment.what == "start":
            await anyio.sleep(self.moment.later)
            server.kill()
            return False
        await anyio.to_thread.run_sync(server.wait)
        async with anyio.create_task_group() as group:
            group.start_soon(self._see, server, before)
            if self.moment is not None:
                group.start_soon(self._watch_ledger)
                await self._come.wait()
                await anyio.sleep(0 if self.over else self.moment.later)
                server.kill()
                group.cancel_scope.cancel()
        server.kill()
        return self.over

    async def _see(self, server: Server, before: set[str]) -> None:
        try:
            async with server.client() as client, server.http() as http:
                wire = Wire(client, http)
                if before:
                    assert before <= {a.approval_id for a in await wire.pending()}
                await Person(wire, self.ground.told, self.ground.workspace).see_through(self._heard)
            self.over = True
        except* (Unreachable, httpx.TransportError):
            assert self._come.is_set(), "the server went away by itself"
        self._come.set()

    def _heard(self, _body: dict[str, Any]) -> None:
        self._events += 1
        if self.moment and self.moment.what == "event" and self._events == self.moment.count:
            self._come.set()

    async def _watch_ledger(self) -> None:
        assert self.moment is not None
        while not self._come.is_set() and self.moment.what == "command":
            lines = len(story.ledger(self.ground.workspace))
            if lines >= self._lines + self.moment.count:
                self._come.set()
            await anyio.sleep(0.003)


def asked(database: Path) -> set[str]:
    with sqlite3.connect(database) as conn:
        found = conn.execute("SELECT id FROM approvals WHERE status = 'pending'").fetchall()
    return {row[0] for row in found}


def finished(database: Path) -> dict[str, tuple[Any, ...]]:
    with sqlite3.connect(database) as conn:
        found = conn.execute(
            "SELECT key, status, attempt, epoch, finished_at FROM subtasks WHERE finished_at > ''"
        ).fetchall()
    return {row[0]: row[1:] for row in found}


async def test_the_story_comes_to_its_end_when_nobody_disturbs_it(ground: Ground):
    assert await Life(ground, None).run(set(), whole=True)

    assert ground.problems() == []
    assert story.contents(ground.workspace) == story.AFTERWARDS
    commands = (story.BROKEN, story.GRANTED, story.ASKED)
    assert [story.starts(ground.workspace, command) for command in commands] == [1, 1, 1]
    assert len(ground.model.requests) == story.REQUESTS
    assert story.courses(ground.told.events) == story.COURSES


@pytest.mark.feature(22)
@pytest.mark.feature(23)
@pytest.mark.feature(33)
@pytest.mark.feature(48)
@pytest.mark.feature(87)
@pytest.mark.parametrize("number", range(STORIES))
async def test_a_server_that_is_killed_again_and_again_ends_the_story_as_if_nothing_had_been(
    ground: Ground, chance: random.Random, number: int
):
    moments, before, done = [], set[str](), {}
    for _ in range(DEATHS):
        moments.append(Moment.pick(chance))
        where = f"seed {SEED}, story {number}, {moments}"
        if await Life(ground, moments[-1]).run(before, whole=len(moments) == 1):
            break
        copy = ground.snapshot()
        if not copy.exists():
            continue
        assert ground.problems(settled=False) == [], where
        now = finished(copy)
        assert done.items() <= now.items(), where
        before, done = asked(copy), now
    else:
        assert await Life(ground, None).run(before), where

    assert ground.problems() == [], where
    assert done.items() <= finished(ground.database).items(), where
    assert story.contents(ground.workspace) == story.AFTERWARDS, where
    assert turns(ground.database) == [story.FIRST, story.SECOND], where


def turns(database: Path) -> list[str]:
    with sqlite3.connect(database) as conn:
        found = conn.execute("SELECT content FROM turns ORDER BY position").fetchall()
    return [row[0] for row in found]
