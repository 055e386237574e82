"""Values inside of a run: none changes once it was made, but those that gather something."""

import sys

import anyio
import msgspec

from fakes.door import client_of
from fakes.world import LIMIT, calls, plan, run, says, step

LINES = {
    "main/architect": [plan(step("one"), step("two", "one"))],
    "one": [calls(run("make all")), says("one")],
    "two": [says("two")],
}
CHANGING = """
    cli.session.live.OpenQuestions client.transport.StreamQuery client.transport._Breaks
    domain.findings.Overlaps execution.agent.file_changes.ChangeTrace
    execution.agent.conversation._Telling execution.agent.models.ModelPool execution.jobs._Slot
    execution.event_bus._Answer execution.places._DrivenPlace execution.plans.engine._Batch
    execution.scheduling.conditions._Size
    execution.scheduling.plan_state.PlanState policy.programs.ReadCommand
    policy.programs._Words policy.rules.TraceStep policy.rules.VerdictTrace
    server.auth.ServerState server.auth.Room store.events.Pending
    store.transaction.KnownPlan store.postgres._SentStatement store.postgres._Asked
    store.sqlite._Item store.transaction.Outbox workspace.files.workspace._Place
    workspace.files.workspace._Way
    workspace.sandbox.guards.Guarded workspace.sandbox.network.Reached
    workspace.snapshots.restore._Work workspace.snapshots.scan.Index
    workspace.snapshots.scan.Scan workspace.snapshots.snapshot._Taking"""
"""Those that gather something while they live."""


def loaded():
    """The values of all modules of ours that are there, with their names."""
    for name, module in [*sys.modules.items()]:
        if not name.startswith("gonogo."):
            continue
        for kind in [*vars(module).values()]:
            is_value = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
            if is_value and kind is not msgspec.Struct:
                yield f"{kind.__module__.removeprefix('gonogo.')}.{kind.__name__}", kind


async def test_whatever_a_plan_is_carried_out_with_stays_as_it_was_made(make):
    async with make(LINES) as world, client_of(world) as client:
        with anyio.fail_after(LIMIT):
            plan_id = await world.propose()
            await world.decide_plan(plan_id)
            await client.wait_for_plan(plan_id, limit=LIMIT, or_asked=True)
            [question] = await world.pending()
            await world.decide(question.call_id, "reject")
            ended = await client.wait_for_plan(plan_id, limit=LIMIT)

    assert ended.status == "completed"
    values = dict(loaded())
    assert len(values) > 150
    changing = {name for name, kind in values.items() if not kind.__struct_config__.frozen}
    assert changing <= set(CHANGING.split())
