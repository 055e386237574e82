"""The Python client against the real runtime: as the page on it says, and waiting for a plan."""

import re
from pathlib import Path

import anyio
import pytest

from fakes.door import client_of
from fakes.world import LIMIT, call, calls, plan, run, says, step
from gonogo.domain.errors import NotFound

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "python-client.md"
LINES = {
    "main/architect": [plan(step("one"), step("two", "one"))],
    "one": [calls(run("make all")), says("one")],
    "two": [says("two")],
}


async def test_the_program_that_the_page_prints_carries_a_task_out(make, capsys):
    [program] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    names = {"__name__": "page"}
    exec(compile(program, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    switch = calls(call("switch_mode", mode="architect", reason="several steps"))
    lines = {**LINES, "main/orchestrator": [switch], "one": [says("one")]}
    async with make(lines) as world, client_of(world) as client:
        with anyio.fail_after(LIMIT):
            status = await names["main"](client, "Make it")

    assert status == "completed"
    assert "plan_notification" in capsys.readouterr().out


async def test_a_plan_is_waited_for_until_a_person_is_asked_until_it_is_over_or_the_limit(make):
    async with make(LINES) as world, client_of(world) as client:
        plan_id = await world.propose()
        asked = await client.wait_for_plan(plan_id, limit=LIMIT, or_asked=True)
        with pytest.raises(TimeoutError):
            await client.wait_for_plan(plan_id, limit=0)
        with pytest.raises(NotFound):
            await client.wait_for_plan("plan_1", limit=LIMIT)
        ended = []

        async def wait() -> None:
            ended.append(await client.wait_for_plan(plan_id, limit=LIMIT))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await world.decide_plan(plan_id)
            again = await client.wait_for_plan(plan_id, limit=LIMIT, or_asked=True)
            [question] = await world.pending()
            await world.decide(question.call_id, "reject")

    assert (asked.status, again.status) == ("awaiting_approval", "running")
    assert [plan.status for plan in ended] == ["completed"]
