"""Checkpoints that people ask for: between the subtasks of a plan, after it, never within one."""

import anyio
import pytest
from msgspec.structs import replace

from fakes.door import client_of
from fakes.world import LIMIT, calls, of, on_both, plan, run, says, step, write
from gonogo.domain.errors import Conflict, Forbidden, InvalidMessage, ModelFailed, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.runtime.changes import Checkpoints

THREE = {
    "main/architect": [plan(step("a"), step("b", "a"), step("c", "b"))],
    "main/orchestrator": [says("Hello")],
    "a": [calls(write("a.txt", "by a\n")), says("a")],
    "b": [calls(write("a.txt", "by b\n"), write("b.txt")), says("b")],
    "c": [calls(run("make all")), says("c")],
}


async def taken(world, by=None, **more):
    return await world.runtime.checkpoints.create(by or world.ann, **more)


async def paused_after_a(world):
    """A plan whose first subtask is done and whose second was not begun."""
    held = world.model.hold("a", 2)
    plan_id = await world.begin()
    await world.asked_model("a", 2)
    await world.runtime.plans.pause(world.ann, plan_id)
    held.set()
    await world.idle()
    return plan_id


@on_both
@pytest.mark.feature(242)
async def test_between_two_subtasks_a_checkpoint_is_taken_compared_and_gone_back_to(make):
    async with make(THREE) as world:
        plan_id = await paused_after_a(world)
        made = await taken(world, plan_id=plan_id, note="before b")

        assert (made.plan_id, made.subtask_id, made.reason) == (
            plan_id, None, "made by ann: before b",
        )  # fmt: skip
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("approval_requested", kind="tool")
        listed = await world.runtime.checkpoints.page(world.ann, plan_id)
        assert [c.subtask_id for c in listed.checkpoints] == ["a", None, "b", "c"]
        state = await world.runtime.checkpoints.get(world.ann, made.checkpoint_id)
        assert state.verified
        assert [s.status for s in state.subtasks] == ["completed", "pending", "pending"]
        diff = await world.runtime.checkpoints.diff(world.ann, made.checkpoint_id)
        assert {(f.path, f.status) for f in diff.files} == {
            ("a.txt", "modified"), ("b.txt", "added"),
        }  # fmt: skip

        await world.runtime.plans.cancel(world.ann, plan_id)
        back = await world.runtime.checkpoints.rollback(
            world.ann, plan_id, checkpoint_id=made.checkpoint_id
        )
        assert back.restored == 2
        assert (world.read("a.txt"), world.read("b.txt")) == ("by a\n", None)


@pytest.mark.feature(242)
async def test_after_a_plan_too_and_it_is_told_and_audited(make):
    lines = {**THREE, "c": [says("c")]}
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        made = await taken(world, session_id=world.session)
        [told] = of(await world.log(), "checkpoint_created", checkpoint_id=made.checkpoint_id)
        assert (told["plan_id"], told["metadata"]["reason"]) == (plan_id, "made by ann")
        [entry] = await world.audit("checkpoint.created")
        assert (entry.actor, entry.subject) == ("user:ann", made.checkpoint_id)
        assert entry.details["plan_id"] == plan_id
        dry = await world.runtime.checkpoints.rollback(
            world.ann, plan_id, checkpoint_id=made.checkpoint_id, dry_run=True
        )
        assert dry.files == []


@pytest.mark.feature(242)
async def test_while_a_subtask_is_at_work_or_waits_in_the_middle_it_is_refused_by_name(make):
    async with make(THREE) as world:
        held = world.model.hold("b", 2)
        plan_id = await world.begin()
        await world.asked_model("b", 2)
        with pytest.raises(Conflict, match=r"unfinished work \(b\).*pause the plan"):
            await taken(world, plan_id=plan_id)
        held.set()
        await world.until("approval_requested", kind="tool")
        with pytest.raises(Conflict, match=r"unfinished work \(c\)"):
            await taken(world, plan_id=plan_id)
        assert await world.audit("checkpoint.created") == []
        listed = await world.runtime.checkpoints.page(world.ann, plan_id)
        assert all(c.subtask_id for c in listed.checkpoints)


def half_then_whole(*between):
    """A plan whose subtask writes half a file, does something else, and writes it whole."""
    half, whole = (calls(write("a.txt", f"{much}\n")) for much in ("half", "whole"))
    return {
        "main/architect": [plan(step("a"), step("b", "a"))],
        "a": [half, *between, whole, says("a")],
        "b": [says("b")],
    }


async def resumed_and_taken(world, plan_id):
    """Resume a plan as it was said, let it end, and take a checkpoint."""
    assert await world.audit("checkpoint.created") == []
    await world.runtime.plans.resume(world.ann, plan_id)
    await world.until("plan_completed")
    assert world.read("a.txt") == "whole\n"
    assert (await taken(world, plan_id=plan_id)).reason == "made by ann"


@pytest.mark.feature(242)
async def test_what_was_answered_while_its_plan_is_paused_is_half_done_until_it_goes_on(make):
    async with make(half_then_whole(calls(run("make all")))) as world:
        plan_id = await world.begin()
        await world.until("approval_requested", kind="tool")
        with pytest.raises(
            Conflict, match=r"\(a\).*answer its open questions \(gonogo approvals list\)"
        ):
            await taken(world, plan_id=plan_id)
        await world.runtime.plans.pause(world.ann, plan_id)
        with pytest.raises(Conflict, match=r"\(a\).*; answer its open questions"):
            await taken(world, plan_id=plan_id)
        [asked] = await world.pending()
        await world.send({"type": "hitl_decision", "call_id": asked.call_id, "decision": "reject"})
        await world.idle()
        with pytest.raises(Conflict, match=r"unfinished work \(a\).*; resume the plan, wait"):
            await taken(world, plan_id=plan_id)
        await resumed_and_taken(world, plan_id)


def answers_later(error):
    """A model that fails once, and answers from then on."""
    left = [error]

    def answer(request):
        del request
        if left:
            raise left.pop()
        return calls(run("true"))

    return answer


@pytest.mark.feature(242)
@pytest.mark.parametrize(
    ("error", "paused"),
    [
        (ModelFailed("Slow down", http_status=429, retry_after=3_600), "quota"),
        (ModelFailed("Overloaded", http_status=529, transient=True), "model"),
    ],
)
async def test_what_was_put_off_in_the_middle_is_half_done_until_it_goes_on(make, error, paused):
    async with make(half_then_whole(answers_later(error))) as world:
        plan_id = await world.begin()
        await world.until("plan_paused")
        await world.idle()
        found = await world.runtime.plans.get(world.ann, plan_id)
        assert found.pause_reason == paused
        with pytest.raises(Conflict, match=r"unfinished work \(a\).*; resume the plan, wait"):
            await taken(world, plan_id=plan_id)
        await resumed_and_taken(world, plan_id)


@pytest.mark.feature(242)
async def test_what_was_put_off_for_its_budget_is_half_done_until_that_is_answered(make):
    async with make(half_then_whole(), budget_plan_requests=1) as world:
        plan_id = await world.begin()
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        assert world.read("a.txt") == "half\n"
        with pytest.raises(Conflict, match=r"unfinished work \(a\).*; answer its open questions"):
            await taken(world, plan_id=plan_id)
        assert await world.audit("checkpoint.created") == []


async def test_while_what_runs_in_a_paused_plan_ends_one_waits_and_nothing_else(make):
    async with make(THREE) as world:
        held = world.model.hold("a", 2)
        plan_id = await world.begin()
        await world.asked_model("a", 2)
        await world.runtime.plans.pause(world.ann, plan_id)
        with pytest.raises(Conflict, match=r"unfinished work \(a\).*; wait until that work ends"):
            await taken(world, plan_id=plan_id)
        held.set()
        await world.idle()
        assert (await taken(world, plan_id=plan_id)).subtask_id is None


def waiting(world, seconds):
    """The verbs about checkpoints, with so much patience for other calls in the folder."""
    parts = world.runtime.parts
    return Checkpoints(replace(parts, by_hand=replace(parts.by_hand, patience=seconds)))


async def test_while_another_call_keeps_the_folder_it_is_refused_after_a_while_and_not_taken(make):
    async with make(THREE) as world:
        plan_id = await world.propose()
        traffic = world.runtime.parts.rollbacks.traffic
        async with traffic.shared(world.folder):
            with pytest.raises(Conflict, match="Another call is running in this folder"):
                await waiting(world, 0.01).create(world.ann, plan_id=plan_id)
            assert not traffic._ways[world.folder].queue
        assert (await world.runtime.checkpoints.page(world.ann, plan_id)).total == 0
        assert (await waiting(world, LIMIT).create(world.ann, plan_id=plan_id)).plan_id == plan_id


@pytest.mark.parametrize("instead", ["nothing", "a file"])
async def test_where_the_folder_is_gone_it_is_said_and_so_by_a_rollback_and_a_difference(
    make, instead
):
    async with make(THREE) as world, client_of(world) as client:
        plan_id = await paused_after_a(world)
        first, second = [await client.create_checkpoint(plan_id=plan_id) for _ in range(2)]
        world.folder.rename(world.root / "away")
        if instead == "a file":
            world.folder.write_text("no folder")
        for wanted in (
            client.create_checkpoint(plan_id=plan_id),
            client.rollback(plan_id, whole=True),
            client.rollback(plan_id, whole=True, dry_run=True),
            client.checkpoint_diff(first.checkpoint_id),
        ):
            with pytest.raises(Conflict, match=r"cannot be (saved|restored|compared): "):
                await wanted
        both = await client.checkpoint_diff(first.checkpoint_id, to=second.checkpoint_id)
        assert both.files == []
        if instead == "a file":
            world.folder.unlink()
        (world.root / "away").rename(world.folder)
        assert (await client.rollback(plan_id, whole=True)).restored == 1


async def test_what_is_half_done_when_the_files_are_quiet_at_last_is_refused_then(make):
    """A subtask that begins while another call keeps the files is not in a checkpoint."""
    async with make(THREE) as world:
        plan_id = await paused_after_a(world)
        traffic = world.runtime.parts.rollbacks.traffic
        refused = []

        async def take():
            with pytest.raises(Conflict, match=r"unfinished work \(b\)") as found:
                await waiting(world, LIMIT).create(world.ann, plan_id=plan_id)
            refused.append(found)

        held = world.model.hold("b")
        async with anyio.create_task_group() as group, traffic.shared(world.folder):
            group.start_soon(take)
            with anyio.fail_after(LIMIT):
                while not traffic._ways[world.folder].queue:
                    await anyio.lowlevel.checkpoint()
            await world.runtime.plans.resume(world.ann, plan_id)
            await world.asked_model("b")
        held.set()
        assert len(refused) == 1


async def test_who_may_not_act_there_takes_none_and_one_thing_is_named(make):
    async with make(THREE) as world:
        await world.say()
        with pytest.raises(Conflict, match="has no plan"):
            await taken(world, session_id=world.session)
        plan_id = await world.propose()
        viewer = Principal(id=world.ann.id, name="ann", role=Role.VIEWER)
        with pytest.raises(Forbidden):
            await taken(world, by=viewer, plan_id=plan_id)
        for wrong in ({"plan_id": plan_id}, {"session_id": world.session}):
            with pytest.raises(NotFound):
                await taken(world, by=world.bob, **wrong)
        for wrong in ({}, {"plan_id": plan_id, "session_id": world.session}):
            with pytest.raises(InvalidMessage):
                await taken(world, **wrong)
        assert (await taken(world, plan_id=plan_id)).reason == "made by ann"


async def test_where_a_client_has_the_files_there_is_none(make):
    async with make(THREE) as world:
        opened = await world.runtime.sessions.open(world.ann, tool_host="client")
        mine = await world.runtime.plans.create(world.ann, opened.session_id, "A goal", [step("a")])
        with pytest.raises(Conflict, match="there are no checkpoints"):
            await taken(world, plan_id=mine.plan_id)


@pytest.mark.feature(242)
async def test_over_http_a_repeated_request_takes_one_checkpoint(make):
    async with make(THREE) as world, client_of(world) as client:
        plan_id = await world.propose()
        key = {"Idempotency-Key": "one-checkpoint"}
        first, second = [
            await client._http.post("/api/v1/checkpoints", json={"plan_id": plan_id}, headers=key)
            for _ in range(2)
        ]
        assert (first.status_code, first.json()) == (201, second.json())
        assert (await client.checkpoints(plan_id)).total == 1
        noted = await client.create_checkpoint(session_id=world.session, note="\x1b[2Jmine")
        assert (await client.checkpoint(noted.checkpoint_id)).verified
        with pytest.raises(InvalidMessage):
            await client.create_checkpoint()
