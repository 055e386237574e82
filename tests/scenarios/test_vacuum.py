"""Room is given back: what was deleted is in no file of the state folder, and they get smaller."""

import secrets
import sqlite3

import anyio
import httpx
import pytest

from fakes.world import calls, on_both, plan, says, step, write
from gonogo.domain.errors import Conflict, Forbidden
from gonogo.domain.identity import Role
from gonogo.server import create_app
from gonogo.store import sqlite

PAGE = 4_096
"""Bytes of a page of SQLite."""
LONG = "".join(f"line {number}\n" for number in range(20_000))


def script(word):
    return {
        "main/architect": [plan(step("a", description=f"Write {word}"), goal=word)] * 2,
        "a": [calls(write("big.txt", f"{word}\n{LONG}")), says(f"wrote {word}")] * 2,
    }


async def big(world, session, word):
    world.session = session
    told = await world.ask(
        {"type": "user_message", "content": f"Go {word}", "agent_type": "architect"}
    )
    await world.decide_plan(told[-1]["metadata"]["plan_id"])
    await world.until("plan_completed")
    await world.idle()


def holding(home, word):
    return [path for path in home.rglob("*") if path.is_file() and word in path.read_bytes()]


@on_both
@pytest.mark.feature(238)
async def test_what_was_deleted_is_in_no_file_and_the_files_are_smaller(make):
    word = secrets.token_hex(8)
    async with make(script(word)) as world:
        await big(world, "s_big", word)
        full = await world.runtime.maintenance.vacuum(world.runtime.owner, dry_run=True)
        await world.runtime.sessions.delete(world.ann, "s_big")
        hoped = await world.runtime.maintenance.vacuum(world.runtime.owner, dry_run=True)
        done = await world.runtime.maintenance.vacuum(world.runtime.owner)

        assert holding(world.settings.home, word.encode()) == []
        assert hoped.before.snapshots < full.before.snapshots
        assert (done.dry_run, done.after.log) == (False, 0)
        if world.settings.db is None:
            # PostgreSQL keeps for itself what it will use again.
            assert done.after.database < full.before.database - len(LONG)
        report = await world.runtime.audit.verify(world.runtime.owner)
        assert (report.ok, report.problems) == (True, [])


def sizes(home):
    """How large each file is; but where audit chains end is written once a second, whoever asks."""
    files = (path for path in home.rglob("*") if path.is_file())
    return {path: path.stat().st_size for path in files if not path.name.endswith("-heads")}


async def test_what_it_would_do_is_said_and_not_done(make):
    async with make(script("x")) as world:
        await big(world, "s_big", "x")
        await world.runtime.sessions.delete(world.ann, "s_big")
        await world.idle()
        before = sizes(world.settings.home)
        said = await world.runtime.maintenance.vacuum(world.runtime.owner, dry_run=True)
        after = sizes(world.settings.home)
        done = await world.runtime.maintenance.vacuum(world.runtime.owner)

        assert before == after
        assert said.dry_run
        assert said.before.free > 0
        # Tables that are written anew may lie otherwise, by a page.
        assert done.after.database <= said.after.database + PAGE
        assert done.after.snapshots <= said.after.snapshots


async def test_what_others_can_still_undo_is_kept(make):
    async with make(script("kept")) as world:
        await big(world, "s_one", "kept")
        await big(world, "s_two", "kept")
        await world.runtime.sessions.delete(world.ann, "s_two")
        await world.runtime.maintenance.vacuum(world.runtime.owner)

        found = await world.runtime.plans.page(world.ann, limit=10)
        await world.runtime.checkpoints.rollback(world.ann, found.plans[0].plan_id)
        assert not (world.folder / "big.txt").exists()


async def test_work_goes_on_beside_it(make):
    async with make({"main/coder": [says("Hello")] * 20}) as world:
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(world.runtime.maintenance.vacuum, world.runtime.owner)
                await world.say("Hi", "coder", session=f"s{number}")

        found = await world.runtime.sessions.page(world.ann, 10, 0)
        assert found.total == 5


async def test_it_is_for_admins(make):
    async with make({}) as world:
        with pytest.raises(Forbidden):
            await world.runtime.maintenance.vacuum(world.ann)
        _, secret = await world.runtime.people.create_token(
            world.runtime.owner, "op", Role.OPERATOR
        )
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(world.runtime)), base_url="http://localhost",
            headers={"Authorization": f"Bearer {secret}"},
        ) as client:  # fmt: skip
            said = await client.post("/api/v1/maintenance/vacuum", json={})
            assert said.status_code == 403
            said = await client.post("/api/v1/maintenance/vacuum", json={"dry_run": "yes"})
            assert said.status_code == 422


async def test_without_room_for_the_copy_nothing_is_begun(make, monkeypatch):
    async with make({}) as world:
        monkeypatch.setattr(sqlite, "_COPIES", 2**60)
        with pytest.raises(Conflict, match="free in"):
            await world.runtime.maintenance.vacuum(world.runtime.owner)


async def test_a_database_that_lost_what_it_had_says_so_in_the_audit_once_it_was_accepted(make):
    async with make({"main/coder": [says("Hello")] * 2}) as world:
        await world.say("Hi", "coder")
        await world.stop()
        file = world.settings.home / "gonogo.db"
        with sqlite3.connect(file) as database:
            database.execute("DELETE FROM events WHERE seq > 1")
            database.execute("UPDATE sessions SET last_seq = 1")
        database.close()
        world.honest = False
        with pytest.raises(Conflict, match="accept-restored"):
            await world.start()
        world.settings = world.settings.model_copy(update={"accept_restored": True})
        await world.start()

        [entry] = await world.audit("database.accepted", session="system")
        assert (entry.actor, len(entry.details["missing"])) == ("local", 1)
