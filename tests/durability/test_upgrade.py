"""A rolling upgrade: two versions at once, the schema goes up under them, work goes on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from durability import story
from durability.ground import Ground
from durability.machines import HELD, WORKS, asked, server, until
from durability.person import Person
from durability.server import Server, Wire
from durability.versions import LAST, NEXT, last_version, next_version
from fakes.nursery import Nursery, python
from fakes.openai_server import FakeOpenAI
from fakes.postgres import Server as Postgres
from gonogo.client import Client

_SCHEMA = "SELECT version_num FROM alembic_version"
_COLUMNS = """
SELECT string_agg(column_name, ' ' ORDER BY column_name) FROM information_schema.columns
WHERE table_name = 'nodes' AND column_name IN ('labels', 'notes')
"""
_WHO = "SELECT pid FROM nodes JOIN places ON owner = nodes.id WHERE path = %s"
_OWNED = "SELECT count(*) FROM places JOIN nodes ON owner = nodes.id WHERE pid = %s"
DONE = "The database has the schema of this version.\n"


@pytest.fixture
def ground(
    tmp_path: Path, model_server: FakeOpenAI, born: Nursery, postgres: Postgres,
    _postgres_template: str,
) -> Iterator[Ground]:  # fmt: skip
    held = json.loads(json.dumps(story.rules()).replace(story.GRANTED, HELD))
    model_server.script({**held, "default": {"text": "Well."}})
    found = Ground(tmp_path, model_server, born)
    tick = story.TICK.replace("monotonic() + 60", "monotonic() + 600")
    (found.workspace / "tick.py").write_text(tick)
    # Its schema changes, so that nobody else can have it afterwards.
    name = postgres.make(_postgres_template)
    found.environment["GONOGO_DB"] = postgres.url(name)
    yield found
    found.close()
    postgres.drop(name)


class Late(Wire):
    """A person who lets a command run only when it is time."""

    def __init__(self, client: Client, http: httpx.AsyncClient) -> None:
        super().__init__(client, http)
        self._approval = client.approval
        self.is_asked, self.may = anyio.Event(), anyio.Event()

    async def decide(self, approval_id: str, fields: dict[str, Any]) -> None:
        if (await self._approval(approval_id)).kind == "tool":
            self.is_asked.set()
            await self.may.wait()
        await super().decide(approval_id, fields)


def of_version(path: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(path), python()["PYTHONPATH"]])}


def started(ground: Ground, path: Path, *words: str) -> Server:
    """A process of another version."""
    usual = ground.environment
    ground.environment = {**usual, **of_version(path)}
    try:
        return ground.server(*words, whole=True)
    finally:
        ground.environment = usual


async def migrated(ground: Ground, path: Path) -> tuple[int, str]:
    """How `gonogo db migrate` of a version ends, and what it says."""
    where = {"GONOGO_HOME": str(ground.home), "GONOGO_CONFIG": str(ground.folder / "config")}
    done = await anyio.run_process(
        [sys.executable, "-m", "gonogo", "db", "migrate"], check=False, stderr=subprocess.STDOUT,
        env={**python(), **ground.environment, **where, **of_version(path)},
    )  # fmt: skip
    return done.returncode, done.stdout.decode()


async def left(process: Server) -> None:
    process.process.send_signal(signal.SIGTERM)
    await until(lambda: not process.is_alive)


async def is_answered(front: Server, content: str) -> bool:
    """Say something in another workspace; whether it is answered, whoever works there."""
    async with front.client() as client, front.http() as http:
        body = {"session_id": "beside", "message": {"type": "user_message", "content": content}}
        before = (await client.session("beside")).last_seq
        async with http.stream("POST", "/agent/message/stream", json=body) as answer:
            assert answer.status_code == 200, await answer.aread()
        with anyio.fail_after(30):
            async for event in client.follow("beside", before):
                if event.get("is_final"):
                    return event["content"] == "Well."
    return False


class Cluster:
    """Processes of two versions, which are there one after the other."""

    def __init__(self, ground: Ground, next_one: Path, last: Path) -> None:
        self.ground, self.next, self.last = ground, next_one, last
        self.beside = ground.workspace / "beside"
        self.beside.mkdir()
        self.old_front = server(ground)
        self.old = ground.server("worker", "--capacity", "1", "--label", "zone=a")

    async def expand(self) -> None:
        assert await migrated(self.ground, self.next) == (0, DONE)
        assert self._schema() == (NEXT, "labels notes")

    async def add_new(self) -> None:
        """The new ones, of which one has other rules."""
        self.front = started(self.ground, self.next, "serve", "--no-work").wait()
        rules = self.ground.folder / "config" / "rules.toml"
        rules.parent.mkdir(exist_ok=True)
        rules.write_text('[[rule]]\ntool = "write_file"\ndecision = "deny"\n')
        self.odd = started(self.ground, self.next, "worker")
        await until(lambda: "other rules than the server" in self.ground.log.read_text())
        rules.unlink()
        self.new = started(self.ground, self.next, "worker").wait(WORKS)

    async def try_to_contract(self) -> None:
        code, said = await migrated(self.ground, self.last)
        assert code != 0
        assert "The new schema removes what these processes still use: gonogo " in said
        assert self._schema() == (NEXT, "labels notes")

    async def contract(self) -> None:
        assert await migrated(self.ground, self.last) == (0, DONE)
        assert self._schema() == (LAST, "notes")

    async def work_beside(self) -> None:
        """In a workspace of its own, asked by either server."""
        async with self.old_front.http() as http:
            place = {"session_id": "beside", "workspace": str(self.beside)}
            (await http.post("/sessions", json=place)).raise_for_status()
        assert await is_answered(self.old_front, "Hello")
        assert await is_answered(self.front, "Hello again")
        assert self.owner_of(self.beside) == self.new.pid

    async def look(self) -> None:
        """Either server tells who is there."""
        for each in (self.old_front, self.front):
            async with each.client() as client:
                found = {node.pid: node for node in (await client.nodes()).nodes}
            news = (self.front, self.odd, self.new)
            assert {found[node.pid].version for node in news} == {"next"}
            assert found[self.odd.pid].status == "other_rules"
            assert found[self.old.pid].labels == {"zone": "a"}

    def owner_of(self, workspace: Path) -> int:
        return asked(self.ground, _WHO, str(workspace))

    def _schema(self) -> tuple[str, str]:
        return asked(self.ground, _SCHEMA), asked(self.ground, _COLUMNS)


@pytest.mark.nightly
@pytest.mark.feature(235)
async def test_two_versions_work_at_once_while_the_schema_goes_up_under_a_plan(
    ground: Ground, tmp_path: Path
) -> None:
    later = await anyio.to_thread.run_sync(next_version, tmp_path / "next")
    last = await anyio.to_thread.run_sync(last_version, tmp_path / "last", later)
    cluster = await anyio.to_thread.run_sync(Cluster, ground, later, last)
    async with (
        cluster.old_front.client() as client, cluster.old_front.http() as http,
        anyio.create_task_group() as group,
    ):  # fmt: skip
        person = Late(client, http)
        group.start_soon(Person(person, ground.told, ground.workspace).see_through)
        await until(lambda: story.starts(ground.workspace, HELD))
        await cluster.expand()
        await cluster.add_new()
        await cluster.try_to_contract()
        await cluster.work_beside()

        # The old worker goes on with its plan, whose command ran all the while.
        (ground.workspace / "go").touch()
        await person.is_asked.wait()
        assert cluster.owner_of(ground.workspace) == cluster.old.pid
        await cluster.look()

        # It leaves, and the new one goes on.
        await left(cluster.old)
        await until(lambda: cluster.owner_of(ground.workspace) == cluster.new.pid)
        person.may.set()
    await left(cluster.old_front)

    # Nobody needs what the old version used: it is taken away under the new one.
    await cluster.contract()
    assert await is_answered(cluster.front, "Is somebody there?")
    assert asked(ground, _OWNED, cluster.odd.pid) == 0
    late = ground.server("worker")
    await until(lambda: not late.is_alive)
    assert f"has the schema {LAST}, newer than" in ground.log.read_text()
    assert ground.problems() == []
