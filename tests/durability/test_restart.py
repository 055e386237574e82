"""What a restart finds again: questions, plans that were held or paused, commands in doubt.

Each server here is a real process, ended by SIGKILL at a known place.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest

from durability import story
from durability.evidence import read
from durability.ground import Ground
from durability.invariants import fingerprint
from durability.person import Person
from durability.server import Server, Wire, processes_in
from gonogo.client import Client
from gonogo.domain.messages import PlanDecision

HELD = f"{story.PYTHON} tick.py held"
LIMIT = 60


@asynccontextmanager
async def living(
    ground: Ground, *, whole: bool = False
) -> AsyncIterator[tuple[Server, Client, Wire]]:
    """A life of the server that ends by SIGKILL."""
    server = ground.server(whole=whole)
    await anyio.to_thread.run_sync(server.wait)
    async with server.client() as client, server.http() as http:
        yield server, client, Wire(client, http)
        server.kill()


async def until(
    client: Client, holds: Callable[[dict[str, Any]], bool], after: int = 0
) -> list[dict[str, Any]]:
    """The session's events up to the first of which something holds."""
    seen: list[dict[str, Any]] = []
    with anyio.fail_after(LIMIT):
        async with aclosing(client.follow(story.SESSION, after)) as events:
            async for event in events:
                seen += [event] if "seq" in event else []
                if "seq" in event and holds(event):
                    break
    return seen


async def waiting(wire: Wire) -> Any:
    """The one question that is open."""
    (question,) = await wire.pending()
    return question


async def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait for what nobody tells about: a line in a file, the end of a process."""
    until_ = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < until_, what
        await anyio.sleep(0.005)


def is_a(type_: str, /, **fields: Any) -> Callable[[dict[str, Any]], bool]:
    def holds(event: dict[str, Any]) -> bool:
        flat = {**event.get("metadata", {}), **event}
        return event["type"] == type_ and all(flat.get(n) == v for n, v in fields.items())

    return holds


def times(number: int, holds: Callable[[dict[str, Any]], bool]) -> Callable[[Any], bool]:
    """Whether something holds of an event for the n-th time."""
    seen: set[int] = set()

    def counted(event: dict[str, Any]) -> bool:
        seen.update([event["seq"]] if holds(event) else [])
        return len(seen) == number

    return counted


def statuses(ground: Ground) -> dict[str, str]:
    found = read(ground.snapshot(), None, (), ())
    return {row["subtask_id"]: row["status"] for row in found.tables["subtasks"]}


@pytest.mark.feature(22)
@pytest.mark.feature(23)
@pytest.mark.feature(48)
@pytest.mark.feature(87)
async def test_a_question_that_was_open_when_the_server_was_killed_is_answered_after_the_restart(
    ground: Ground,
):
    async with living(ground) as (_, client, wire):
        await wire.say(story.FIRST)
        notified = (await until(client, is_a("plan_notification")))[-1]
        asked = await waiting(wire)

    plan_id = notified["plan_id"]
    async with living(ground) as (_, client, wire):
        again, plan = await waiting(wire), await client.plan(plan_id)
        assert again == asked
        assert (plan.status, plan.digest) == ("awaiting_approval", notified["metadata"]["digest"])
        approve = PlanDecision(type="plan_decision", plan_id=plan_id, decision="approve")
        await client.decide_plan(approve)
        await until(client, is_a("subtask_completed", subtask_id="note"))
        await until(client, is_a("approval_requested", subtask_id="ask"))
        question = await waiting(wire)

    done = {row: status for row, status in statuses(ground).items() if status == "completed"}
    requests = len(ground.model.requests)
    async with living(ground) as (_, client, wire):
        assert await waiting(wire) == question
        assert (await client.plan(plan_id)).status == "running"
        assert len(ground.model.requests) == requests
        await Person(wire, ground.told, ground.workspace).see_through()
        assert (await client.plan(plan_id)).status == "completed"

    assert set(done) == {"left", "right", "run", "note"}
    assert story.starts(ground.workspace, story.GRANTED) == 1
    assert story.contents(ground.workspace) == story.AFTERWARDS
    assert ground.problems() == []


@pytest.mark.feature(212)
async def test_a_command_that_ran_at_the_kill_is_in_doubt_and_runs_again_only_when_told(
    ground: Ground,
):
    ran = [{"calls": [{"name": "execute_command", "arguments": {"command": HELD}}]}, {"text": "Ok"}]
    ground.model.script({"replies": [{"text": "To whom?"}], "rules": [
        {"when": {"user": "hold"}, "replies": [
            {"calls": [{"name": "switch_mode", "arguments": {"mode": "coder"}}]}, *ran]}
    ]})  # fmt: skip

    async with living(ground) as (_, client, wire):
        await wire.say("hold")
        await until(client, is_a("approval_requested"))
        question = await waiting(wire)
        await wire.decide(question.approval_id, {"decision": "approve"})
        await eventually(lambda: story.starts(ground.workspace, HELD) == 1, "the command starts")
    await eventually(lambda: not processes_in(ground.folder), "the command's processes are gone")

    for life in (1, 2):
        async with living(ground) as (_, client, wire):
            await until(client, times(life, is_a("approval_requested", kind="intervention")))
            doubt = await waiting(wire)
            assert (doubt.kind, doubt.details["arguments"]["command"]) == ("intervention", HELD)
            assert story.starts(ground.workspace, HELD) == life
            assert ground.problems(settled=False) == []
            await wire.decide(doubt.approval_id, {"decision": "approve"})
            again = life + 1
            await eventually(
                lambda n=again: story.starts(ground.workspace, HELD) == n, "it starts again"
            )

    async with living(ground) as (_, client, wire):
        doubts = times(3, is_a("approval_requested", kind="intervention"))
        seen = await until(client, doubts)
        doubt = await waiting(wire)
        (ground.workspace / "go").touch()
        await wire.decide(doubt.approval_id, {"decision": "approve"})
        await until(client, is_a("assistant_message", is_final=True), after=seen[-1]["seq"])

    assert story.starts(ground.workspace, HELD) == 4
    assert ground.problems() == []


@pytest.mark.feature(207)
async def test_hold_start_pause_and_resume_outlive_the_server(ground: Ground):
    async with living(ground) as (_, client, wire):
        await wire.say(story.FIRST)
        plan_id = (await until(client, is_a("plan_notification")))[-1]["plan_id"]
        hold = PlanDecision(type="plan_decision", plan_id=plan_id, decision="hold")
        assert (await client.decide_plan(hold)).status == "approved"

    async with living(ground) as (_, client, wire):
        assert (await client.plan(plan_id)).status == "approved"
        assert set(statuses(ground).values()) == {"pending"}
        assert (await client.start_plan(plan_id)).status == "running"
        await until(client, is_a("approval_requested", subtask_id="ask"))
        await until(client, is_a("subtask_completed", subtask_id="note"))
        assert (await client.pause_plan(plan_id)).status == "paused"

    async with living(ground) as (_, client, wire):
        assert (await client.plan(plan_id)).status == "paused"
        question = await waiting(wire)
        await wire.decide(question.approval_id, {"decision": "approve"})
        requests = len(ground.model.requests)
        assert statuses(ground)["ask"] == "pending"

    async with living(ground) as (_, client, wire):
        assert len(ground.model.requests) == requests
        assert (await client.plan(plan_id)).status == "paused"
        assert (await client.resume_plan(plan_id)).status == "running"
        await Person(wire, ground.told, ground.workspace).see_through()

    assert story.contents(ground.workspace) == story.AFTERWARDS
    assert ground.problems() == []


async def test_what_was_asked_before_the_kill_under_a_key_is_answered_alike_after_it(
    ground: Ground,
):
    async with living(ground) as (server, client, wire):
        await wire.say(story.FIRST)
        await until(client, is_a("plan_notification"))
        question = await waiting(wire)
        path, body = f"/approvals/{question.approval_id}/decision", {"decision": "reject"}
        keyed = {"Idempotency-Key": "no"}
        async with server.http() as http:
            first = await http.post(path, json=body, headers=keyed)
        await until(client, is_a("plan_rejected"))
        before = fingerprint(ground.snapshot())

    async with living(ground) as (server, _, wire):
        await wire.say(story.FIRST)
        async with server.http() as http:
            again = await http.post(path, json=body, headers=keyed)
            other = await http.post(path, json={"decision": "approve"}, headers=keyed)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert other.status_code == 409
        assert fingerprint(ground.snapshot()) == before

    assert first.status_code == 202
    assert ground.problems() == []
