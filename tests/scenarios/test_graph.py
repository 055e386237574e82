"""A plan as a graph with its times, from a real run; and how it is followed until it ends."""

from datetime import timedelta
from functools import partial

import anyio
import pytest

from fakes.door import client_of
from fakes.world import LIMIT, calls, plan, run, says, step, write
from gonogo.cli.session.live import Told, _follow
from gonogo.cli.terminal.plan_graph import graph_lines, timeline_lines
from gonogo.domain.plan_views import PlanGraph
from gonogo.domain.states import PlanStatus

LINES = {
    "main/architect": [
        plan(step("one"), step("two", "one"), step("asks", "one"), step("last", "two", "asks"))
    ],
    "one": [calls(write("one.txt")), says("one")],
    "two": [says("two")],
    "asks": [calls(run("make all")), says("asked")],
    "last": [says("last")],
}


@pytest.mark.feature(113)
async def test_the_graph_says_when_each_subtask_ran_and_how_long_it_waited_for_a_person(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        before = await world.runtime.plans.graph(world.ann, plan_id)
        await world.decide_plan(plan_id)
        [question] = await world.pending()
        world.clock.ahead += timedelta(minutes=7)
        waiting = await world.runtime.plans.graph(world.ann, plan_id)
        await world.decide(question.call_id, "reject")
        after = await world.runtime.plans.graph(world.ann, plan_id)

    assert before.actual_path == []
    assert [node.started_at for node in before.nodes] == [None] * 4
    nodes = {node.id: node for node in waiting.nodes}
    assert nodes["asks"].status == "waiting_approval"
    assert nodes["asks"].waited_seconds >= 420
    assert waiting.actual_path == ["one", "asks"]
    nodes = {node.id: node for node in after.nodes}
    assert after.status == "completed"
    assert 420 <= nodes["asks"].waited_seconds <= nodes["asks"].duration_seconds < 900
    assert nodes["two"].waited_seconds is None
    assert after.actual_path == ["one", "asks", "last"]
    assert all(node.started_at <= node.finished_at for node in after.nodes)
    [wait] = nodes["asks"].waits
    assert nodes["asks"].started_at <= wait.since < wait.until <= nodes["asks"].finished_at
    assert "░" in "".join(timeline_lines(after, width=100, locale="en"))


@pytest.mark.feature(113)
async def test_a_plan_that_is_watched_is_told_change_by_change_until_it_ends(make):
    draw = partial(graph_lines, width=100, locale="en")
    written: list[str] = []
    ended: list[PlanGraph] = []
    asked = anyio.Event()

    def write(text: str) -> None:
        written.append(text)
        if text.endswith("asks waits for a person"):
            asked.set()

    board = Told(write, draw, "en")
    async with make(LINES) as world:
        plan_id = await world.propose()
        async with client_of(world) as client:
            graph = await client.plan_graph(plan_id)
            board.show(graph)

            async def watch() -> None:
                ended.append(await _follow(client, graph, board))

            with anyio.fail_after(LIMIT):
                async with anyio.create_task_group() as group:
                    group.start_soon(watch)
                    await world.decide_plan(plan_id)
                    [question] = await world.pending()
                    # Before that the watcher may not have looked.
                    await asked.wait()
                    await world.decide(question.call_id, "reject")

    assert ended[0].status is PlanStatus.COMPLETED
    changes = [text.split(" ", 1)[1] for text in written if text[2] == ":"]
    assert changes[:4] == [f"{key} not started" for key in ("one", "two", "asks", "last")]
    assert changes.index("one done") < changes.index("two done") < changes.index("last done")
    assert written[-1] == "* actual critical path: one → asks → last"
