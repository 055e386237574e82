"""A deleted session leaves nothing of what was said and done in it but that it was."""

import json
import secrets
import subprocess
from datetime import UTC, datetime, timedelta

import anyio
import httpx
import pytest
from sqlalchemy import text

from fakes.world import LIMIT, a_while, calls, is_running, on_both, plan, run, says, step, write
from gonogo.domain.errors import NotFound
from gonogo.domain.events import Done
from gonogo.domain.identity import Role
from gonogo.domain.tool_calls import UserText
from gonogo.execution.erasures import SWEEP
from gonogo.server import create_app
from gonogo.store import events as log
from gonogo.store.jobs import first_timer, set_timer
from gonogo.store.plans import plan_of, set_plan
from gonogo.store.schema import METADATA
from gonogo.store.sessions import add_turn, append_message

API = "/api/v1"
RECORD = ("session.opened", "session.deleted", "session.erased")


@pytest.fixture
def canary():
    """A word that is nowhere else, as long as what is kept once, and a short one."""
    return secrets.token_hex(8)


def long(word):
    return f"{word} " * 40


def lines(word):
    """A plan that says a word wherever a plan can say something."""
    one = step(
        f"a_{word}", description=f"Do {word}", scope={"paths": [f"{word}/**", "deep/**"]},
        retry_policy={"max_attempts": 2},
    )  # fmt: skip
    two = step(f"b_{word}", f"a_{word}", description=long(word))
    return {
        "main/architect": [plan(one, two, goal=f"Reach {word}")],
        "main/coder": [calls(write(f"{word}.txt", long(word)), text=word), says(long(word))],
        f"a_{word}": [
            calls(write(f"{word}/made.txt", long(word)), write(f"deep/{word}.txt", word)),
            calls(run(f"cat {word}/made.txt; echo {word} > found_{word}.txt")),
            says(f"made {word}"),
        ],
        f"b_{word}": [calls(run(f"echo {long(word)}")), says(word)],
    }


async def story(world, word):
    """A session in which everything that people can say was said with that word."""
    session = await world.runtime.sessions.open(world.ann, title=f"About {word}")
    world.session = session.session_id
    await world.runtime.sessions.add_rule(
        world.ann, world.session, {"decision": "allow", "command": f"echo {word}"}
    )
    await world.say(f"Write {word}", "coder")
    (asked,) = await world.pending()
    await world.decide(asked.call_id, "reject", feedback=f"not {word}")
    plan_id = await world.propose(long(word))
    await world.runtime.plans.comment(world.ann, plan_id, f"why {word}?", f"a_{word}")
    await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
    await world.idle()
    while pending := await world.pending():
        for question in pending:
            await world.decide(question.call_id, feedback=f"do {word}")
        await world.idle()
    await world.until("plan_completed")
    (world.settings.drafts).mkdir(exist_ok=True)
    (world.settings.drafts / f"{plan_id}-1.md").write_text(f"typed {word}")
    [*_, called] = await world.audit("tool.allowed")
    taken = world.settings.taken / called.details["call_id"] / "closed"
    taken.mkdir(parents=True)
    (taken / "x").write_text(f"made {word}")
    taken.chmod(0o000)
    await world.idle()
    return plan_id


def found_in(home, word):
    """The files of the state folder, and the objects in it, that hold a word."""
    wanted = word.encode()
    for path in home.rglob("*"):
        if wanted in str(path).encode() or (path.is_file() and wanted in path.read_bytes()):
            yield str(path.relative_to(home))
    store = home / "snapshots"
    if (store / "HEAD").exists():
        command = ["git", "-C", str(store), "cat-file", "--batch-all-objects", "--batch"]
        if wanted in subprocess.run(command, capture_output=True, check=True).stdout:
            yield "an object of the snapshots"


def rows_with(tx, word):
    """The tables that hold a word."""
    for table in METADATA.tables.values():
        for row in tx.execute(text(f"SELECT * FROM {table.name}")):  # noqa: S608
            if word in str(tuple(row)):
                yield table.name, dict(row._mapping)


async def left(world, word):
    """Where a word is, in the tables and in the state folder."""
    tables = await world.runtime.parts.store.read(lambda tx: list(rows_with(tx, word)))
    return [*tables, *found_in(world.settings.home, word)]


@on_both
@pytest.mark.feature(238)
async def test_nothing_of_what_was_said_and_done_stays(make, canary):
    async with make(lines(canary)) as world:
        await story(world, canary)
        assert len(await left(world, canary)) > 20
        entries = await world.audit()

        await world.runtime.sessions.delete(world.ann, world.session)

        assert await left(world, canary) == []
        gone = await world.audit()
        assert [e.hash for e in gone] == [e.hash for e in entries]
        assert {(e.subject, e.salt, str(e.details)) for e in gone} == {("", None, "{}")}
        assert [(e.actor, e.action, e.ts) for e in gone] == [
            (e.actor, e.action, e.ts) for e in entries
        ]
        report = await world.runtime.audit.verify(world.runtime.owner)
        assert report.problems == []


async def test_what_cannot_be_taken_out_of_the_snapshots_is_said_in_the_log(make, caplog):
    async with make({"main/orchestrator": [says("Hello")]}) as world:
        await world.say("Hi")
        store = world.settings.home / "snapshots"
        store.mkdir(exist_ok=True)
        (store / "HEAD").write_text("This is no store any more")

        await world.runtime.sessions.delete(world.ann, world.session)
        await world.idle()

        said = [r for r in caplog.records if "snapshots of" in r.getMessage()]
        assert {record.name for record in said} == {"gonogo.execution.erasures"}
        assert all("are still there" in record.getMessage() for record in said)


@on_both
@pytest.mark.feature(238)
async def test_who_opened_and_deleted_it_and_when_stays_on_record(make, canary):
    async with make(lines(canary)) as world:
        await world.say("Hello", "coder")
        deleted, session = world.clock(), world.session
        await world.runtime.sessions.delete(world.ann, session)
        entries = [e for e in await world.audit(session="system") if e.subject == session]

        assert [(e.action, e.actor) for e in entries] == [
            (RECORD[0], world.ann.id), (RECORD[1], world.ann.id), (RECORD[2], "gonogo"),
        ]  # fmt: skip
        assert entries[0].details == {}
        assert deleted <= entries[1].ts <= entries[2].ts <= world.clock()
        assert entries[2].details["last"] == len(await world.audit(session=session))


@on_both
async def test_its_id_is_taken_for_ever_and_it_is_unknown_to_everybody(make):
    async with make({"main/coder": [says("Hello")] * 2}) as world:
        await world.say("Hello", "coder")
        session = world.session
        await world.runtime.sessions.delete(world.ann, session)
        owner = world.runtime.owner
        _, secret = await world.runtime.people.create_token(owner, "root", Role.ADMIN)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(world.runtime)), base_url="http://localhost",
            headers={"Authorization": f"Bearer {secret}"},
        ) as root:  # fmt: skip
            again = await root.post(f"{API}/sessions", json={"session_id": session})
            found = await root.get(f"{API}/sessions/{session}")
            log = await root.get(f"{API}/sessions/{session}/history")
            said = {"type": "user_message", "content": "x"}
            sent = await root.post(
                f"{API}/agent/message/stream", json={"session_id": session, "message": said}
            )
            verified = await root.get(f"{API}/audit/verify", params={"session_id": session})

        assert [a.status_code for a in (again, found, log, sent)] == [409, 404, 404, 404]
        assert verified.json()["ok"]


@on_both
async def test_a_stored_answer_about_it_goes_with_it_and_none_comes_later(make, canary):
    async with make({"main/architect": [plan(step("a"), goal=canary)]}) as world:
        plan_id = await world.propose()
        keep = world.runtime.answers.keep
        body = (await world.runtime.plans.get(world.ann, plan_id)).model_dump_json()
        problem = json.dumps({"detail": f"{canary} was decided by bob"})
        for number, (answer, path) in enumerate([
            ({"status": 200, "body": body}, ""), ({"status": 409, "problem": problem}, plan_id),
            ({"status": 409, "problem": problem}, f"/sessions/{world.session}/rules"),
        ]):  # fmt: skip
            await keep(world.ann, f"before {number}", "d", answer, path)
        await keep(world.ann, "mine", "d", {"status": 204}, "/audit/anchors")
        assert "answers" in {where[0] for where in await left(world, canary)}

        await world.runtime.sessions.delete(world.ann, world.session)
        assert await left(world, canary) == []
        await keep(world.ann, "later", "d", {"status": 200, "body": body}, "")
        assert await left(world, canary) == []
        assert await world.runtime.answers.find(world.ann, "mine", "d") == {"status": 204}


@on_both
async def test_whoever_writes_into_it_at_that_moment_is_told_that_it_is_gone(make):
    async with make({"main/coder": [says("Hello")]}) as world:
        await world.say("Hello", "coder")
        store, session = world.runtime.parts.store, world.session
        await world.runtime.sessions.delete(world.ann, session)

        for late in (
            lambda tx: log.tell(tx, session, Done()),
            lambda tx: log.note(tx, session, actor="a", action="b", subject="c"),
            lambda tx: append_message(tx, session, "main", UserText(content="late")),
            lambda tx: add_turn(tx, "t", session, "late", "coder"),
        ):
            with pytest.raises(NotFound):
                await store.write(late)
        assert await left(world, "late") == []


async def test_what_runs_in_it_is_ended_first(make, canary):
    mark = a_while()
    script = {
        "main/architect": [plan(step("a", scope={"commands": ["sleep"]}))],
        "a": [calls(run(f"sleep {mark}")), says(canary)],
    }
    async with make(script) as world:
        await world.begin()
        await is_running(mark)
        await world.runtime.sessions.delete(world.ann, world.session)
        await is_running(mark, wanted=False)

        assert await left(world, mark) == []
        assert world.runtime.is_idle


@on_both
async def test_others_keep_what_they_have_and_what_they_share(make, canary):
    """Two plans in one workspace write the same content, and one of them is deleted."""
    shared = long(canary)
    script = {
        "main/architect": [plan(step("first")), plan(step("second"))],
        "first": [calls(write("a.txt", shared)), says("done")],
        "second": [calls(write("b.txt", shared), write("a.txt", "other")), says("done")],
    }
    async with make(script) as world:
        for session in ("one", "two"):
            world.session = session
            message = {"type": "user_message", "content": "Go", "agent_type": "architect"}
            told = await world.ask(message)
            script["main/architect"].pop(0)
            await world.decide_plan(plan_id := told[-1]["metadata"]["plan_id"])
        await world.runtime.sessions.delete(world.ann, "one")

        # It is in the workspace, in the second one's snapshot, and in what can be undone.
        assert [where for where in await left(world, canary) if isinstance(where, str)]
        undone = await world.runtime.checkpoints.rollback(world.ann, plan_id)
        assert {(file.path, file.action) for file in undone.files} == {
            ("a.txt", "restore"), ("b.txt", "delete"),
        }  # fmt: skip
        assert world.read("a.txt") == shared
        await world.runtime.sessions.delete(world.ann, "two")
        assert await left(world, canary) == []


# What nobody touches ---------------------------------------------------------------------------


async def swept(world):
    """Have the daily sweep come."""
    store = world.runtime.parts.store
    world.time_went_by()
    await store.write(set_timer, SWEEP, "snapshots", datetime(2000, 1, 1, tzinfo=UTC))
    with anyio.fail_after(LIMIT):
        while await store.read(is_due):  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.003)
    await world.idle()


def is_due(tx):
    """Whether a timer is: a sweep that was under way may have set the next one anew."""
    first = first_timer(tx)
    return first is not None and first <= tx.now


@on_both
@pytest.mark.feature(238)
async def test_sessions_that_are_over_are_deleted_once_nothing_happened_in_them_for_long(
    make, canary
):
    script = {"main/coder": [says(canary)] * 3}
    async with make(script, retention_days=30) as world:
        await world.say(canary, "coder", session="old")
        world.clock.ahead += timedelta(days=20)
        await world.say(canary, "coder", session="new")
        world.clock.ahead += timedelta(days=10, hours=1)
        await swept(world)

        found = await world.runtime.sessions.page(world.ann, 10, 0)
        assert [session.session_id for session in found.sessions] == ["new"]
        [deleted] = await world.audit("session.deleted", session="system")
        assert (deleted.actor, deleted.subject) == ("gonogo", "old")
        assert deleted.details["reason"] == "nothing happened in it for 30 days"
        world.clock.ahead += timedelta(days=20)
        await swept(world)
        assert await left(world, canary) == []


async def test_by_default_all_are_kept(make):
    async with make({"main/coder": [says("Hello")]}) as world:
        await world.say("Hello", "coder")
        world.clock.ahead += timedelta(days=4_000)
        await swept(world)

        assert (await world.runtime.sessions.page(world.ann, 10, 0)).total == 1


@on_both
async def test_a_session_that_waits_for_a_person_or_has_a_plan_to_go_on_with_is_kept(make):
    script = {
        "main/architect": [plan(step("a"))] * 3,
        "main/coder": [calls(run("touch x"))],
        "a": [calls(write("a.txt")), says("done")],
    }
    async with make(script, retention_days=1, approval_expiry_tool=None) as world:
        await world.say("Run it", "coder", session="asks")
        await world.ask(
            {"type": "user_message", "content": "Go", "agent_type": "architect"}, session="waits"
        )
        world.session = "held"
        await world.decide_plan(await world.propose(), "hold")
        world.session = "paused"
        plan_id = await world.propose()
        await world.runtime.parts.store.write(
            lambda tx: set_plan(tx, plan_of(tx, plan_id), rollback={"checkpoint_id": "x"})
        )
        await world.decide_plan(plan_id, "reject")
        world.clock.ahead += timedelta(days=400)
        await swept(world)

        found = await world.runtime.sessions.page(world.ann, 10, 0)
        assert {s.session_id for s in found.sessions} == {"asks", "waits", "held", "paused"}


@on_both
async def test_answers_to_requests_are_forgotten_after_a_week(make):
    async with make({}) as world:
        keep, ask = world.runtime.answers.keep, world.runtime.answers.find
        await keep(world.ann, "old", "d", {"status": 204})
        world.clock.ahead += timedelta(days=6, hours=23)
        await keep(world.ann, "new", "d", {"status": 204})
        await swept(world)
        assert await ask(world.ann, "old", "d") == {"status": 204}
        world.clock.ahead += timedelta(hours=2)
        await swept(world)
        assert await ask(world.ann, "old", "d") is None
        assert await ask(world.ann, "new", "d") == {"status": 204}
