"""What operators and people learn of the work that was done: over HTTP, and in the terminal."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from fakes.door import client_of
from fakes.world import call, calls, plan, run, says, step, write
from gonogo.cli.commands.analytics import analytics_lines
from gonogo.domain.errors import InvalidMessage, NotFound

HOUR = timedelta(hours=1)
ONCE_MORE = {"max_attempts": 2, "delay": 0, "on": ["environment"]}
LINES = {
    "main/architect": [
        plan(
            step("one", type="validation"), step("two", agent="debug", retry_policy=ONCE_MORE),
            step("three", "two"), step("four"),
        )
    ],
    "one": [
        calls(write("one.txt")),
        calls(call("give_verdict", valid=True, reasons=["it is written"])),
    ],
    "two": [],
    "four": [calls(run("make all")), says("It was not made.")],
}  # fmt: skip


@pytest.mark.feature(114)
async def test_a_run_shows_in_the_analytics_with_its_rates_durations_and_causes(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        world.clock.ahead += timedelta(minutes=10)
        await world.decide_plan(plan_id)
        [question] = await world.pending()
        await world.decide(question.call_id, "reject")
        await world.restart()
        async with client_of(world) as client:
            found = await client.analytics(session_id=world.session)
            assert (await client.analytics()).subtasks == found.subtasks

    assert found.until - found.since == timedelta(days=30)
    assert (found.plans.ended, found.plans.partial, found.plans.success_rate) == (1, 1, 0.0)
    assert 0 < found.plans.duration_seconds.p50 < 300
    every = found.subtasks
    assert (every.ended, every.completed, every.failed, every.skipped) == (4, 2, 1, 1)
    assert (every.retries, every.success_rate) == (1, 0.6667)
    assert {one.name: one.success_rate for one in found.by_worker} == {"coder": 1.0, "debug": 0.0}
    assert {one.name: one.ended for one in found.by_type} == {"action": 3, "validation": 1}
    [cause] = found.failures
    assert (cause.category, cause.worker, cause.type) == ("environment", "debug", "action")
    asked = {one.kind: one for one in found.approvals}
    assert asked["plan"].answers == {"approved": 1}
    assert asked["tool"].answers == {"rejected": 1}
    assert 600 <= asked["plan"].latency_seconds.p90 < 900
    assert found.tool_calls.started == {"grant": 1}
    assert found.tool_calls.ended == {"completed": 1, "rejected": 1}
    lines = set(analytics_lines(found, "en"))
    assert lines > {
        "plans: 1 ended (partial 1), 0% succeeded",
        "tool calls: 2 (completed 1, rejected 1)",
    }


@pytest.mark.feature(114)
async def test_people_see_what_came_of_their_own_sessions_and_an_admin_of_all(make):
    async with make(LINES) as world:
        await world.decide_plan(await world.propose())
        [question] = await world.pending()
        await world.decide(question.call_id, "reject")
        runtime = world.runtime

        assert (await runtime.reports.analytics(world.ann)).plans.ended == 1
        assert (await runtime.reports.analytics(runtime.owner)).plans.ended == 1
        assert (await runtime.reports.analytics(world.bob)).plans.ended == 0
        with pytest.raises(NotFound):
            await runtime.reports.analytics(world.bob, world.session)
        now = world.clock()
        earlier = await runtime.reports.analytics(world.ann, until=now - timedelta(days=1))
        assert earlier.plans.ended == 0
        with pytest.raises(InvalidMessage):
            await runtime.reports.analytics(world.ann, since=now, until=now)


async def test_where_nothing_was_done_the_analytics_are_empty_and_valid(make):
    async with make({}) as world:
        found = await world.runtime.reports.analytics(world.ann)

    body = found.model_dump(mode="json", exclude_none=True)
    assert body["plans"]["ended"] == 0
    assert "success_rate" not in body["plans"]
    assert "duration_seconds" not in body["subtasks"]
    assert body["failures"] == body["approvals"] == body["models"] == []
    assert [text for text in analytics_lines(found, "en") if "None" in text] == []


async def test_days_that_there_are_not_are_refused(make):
    async with make(LINES) as world:
        for early in (datetime(1, 1, 5, tzinfo=UTC), datetime(1, 1, 1, tzinfo=timezone(HOUR * 14))):
            with pytest.raises(InvalidMessage, match="no such date"):
                await world.runtime.reports.analytics(world.ann, until=early)
