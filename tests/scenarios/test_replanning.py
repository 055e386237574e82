"""Replanning: a bad failure, or a person, sends a plan back; what is done stays done."""

from itertools import pairwise

import pytest

from fakes.world import call, calls, kinds, of, on_both, plan, says, step, write
from gonogo.cli.terminal.render import question_lines
from gonogo.domain.errors import Conflict, InvalidMessage, ModelFailed
from gonogo.domain.failures import Patterns
from gonogo.store.calls import approval_of
from gonogo.store.plans import plan_of

pytestmark = pytest.mark.measured


def fails(text):
    """A scripted reply with which an agent says that it could not do its subtask."""
    return calls(call("attempt_completion", result=text, success=False))


def script(*subtasks, **threads):
    """A script whose architect proposes these subtasks first."""
    return {"main/architect": [plan(*subtasks)], "main/orchestrator": [says("Yes?")], **threads}


LOST = "Agent x not found"
TWO = (step("a"), step("b", "a"))


async def approved(world):
    """Have the first revision approved. Gives the plan's id and what followed."""
    plan_id = await world.propose()
    return plan_id, await world.decide_plan(plan_id)


async def status(world, plan_id):
    """The plan's status, its revision, and the status of each subtask."""
    found = await world.runtime.plans.get(world.ann, plan_id)
    return str(found.status), found.revision, {s.id: str(s.status) for s in found.subtasks}


def tells_what_is_otherwise(question, facts):
    for name in ("changes", "replan", "findings"):
        assert question.details.get(name, []) == facts.get(name, []), name
    assert question.details["replan"]["root_cause"]
    told = list(question_lines(question))
    assert f"because: {LOST}" in told
    assert {"- b", "Changes since the previous revision:"} <= set(told)


@pytest.mark.feature(100, 109, 206)
async def test_a_bad_failure_brings_a_new_revision_that_keeps_what_is_done_and_asks_again(make):
    lines = script(
        *TWO, a=[says("built")], b=[fails(LOST)], c=[says("mended")],
        **{"replan-1": [plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, events = await approved(world)

        sent_back = of(events, "plan_replanning")[0]["metadata"]
        assert (sent_back["cause"], sent_back["subtask_id"]) == ("dependency", "b")
        notice = events[-1]
        assert (notice["type"], notice["is_final"]) == ("plan_notification", True)
        facts = notice["metadata"]
        assert facts["revision"] == 2
        assert [s["id"] for s in facts["subtasks"]] == ["a", "c"]
        assert [s["id"] for s in facts["changes"]["added"]] == ["c"]
        assert facts["changes"]["removed"] == ["b"]
        assert facts["replan"]["reason"] == LOST
        [question] = await world.pending()
        tells_what_is_otherwise(question, facts)
        assert "c" in notice["content"]
        assert "removed: **b**" in notice["content"]
        assert await status(world, plan_id) == (
            "awaiting_approval", 2, {"a": "completed", "c": "pending"},
        )  # fmt: skip
        assert {g.status for g in await world.runtime.plans.grants(world.ann, world.session)} == {
            "ended"
        }

        [request] = world.model.asked("replan-1")
        told = request.messages[0].content
        assert LOST in told
        assert "Root cause: " in told
        assert facts["replan"]["root_cause"] in told
        assert facts["replan"]["suggestion"] in told
        assert "give the subtask to an agent that exists" in told
        assert "built" in told


@on_both
@pytest.mark.feature(23, 100)
async def test_an_approved_new_revision_does_only_what_is_left(make):
    lines = script(
        *TWO, a=[says("built")], b=[fails(LOST)], c=[says("mended")],
        **{"replan-1": [plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)

        with pytest.raises(Conflict, match="revision 2"):
            await world.decide_plan(plan_id)
        after = await world.decide_plan(plan_id, revision=2)
        assert after[-1]["metadata"]["status"] == "completed"
        assert [e["subtask_id"] for e in of(after, "subtask_started")] == ["c"]
        assert await status(world, plan_id) == (
            "completed",
            2,
            {"a": "completed", "c": "completed"},
        )
        assert len(world.model.asked("a")) == 1


@pytest.mark.feature(63, 100)
async def test_progress_never_falls_although_the_new_revision_has_more_to_do(make):
    more = [step(name, before) for before, name in pairwise("acdefg")]
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)], **{"replan-1": [plan(*more)]},
        **{name: [says(name)] for name in "cdefg"},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        await world.decide_plan(plan_id, revision=2)

        told = [e["metadata"] for e in of(await world.log(), "plan_progress")]
        # What failed is not done. Of the new revision nothing is told before as much of it is.
        assert [(each["done"], each["total"], each["percentage"]) for each in told] == [
            (1, 2, 50), (2, 2, 50), (3, 6, 50), (4, 6, 66.7), (5, 6, 83.3), (6, 6, 100),
        ]  # fmt: skip


@pytest.mark.feature(63)
async def test_progress_never_falls_although_a_revision_fails_before_it_is_as_far(make):
    second = (step("c", "a"), step("d", "c"), step("e", "c"))
    third = [step(name, before) for before, name in pairwise("afghi")]
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)], c=[fails(LOST)],
        **{"replan-1": [plan(*second)], "replan-2": [plan(*third)]},
        **{name: [says(name)] for name in "fghi"},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        await world.decide_plan(plan_id, revision=2)
        await world.decide_plan(plan_id, revision=3)

        told = [e["metadata"] for e in of(await world.log(), "plan_progress")]
        assert [(each["done"], each["total"], each["percentage"]) for each in told] == [
            (1, 2, 50), (2, 2, 50), (3, 5, 60), (4, 5, 80), (5, 5, 100),
        ]  # fmt: skip


@pytest.mark.feature(63)
async def test_progress_never_falls_although_a_person_sends_a_plan_back_that_had_ended(make):
    lines = script(
        *TWO, a=[says("a")], b=[fails("Odd")], c=[says("c")], d=[says("d")],
        **{"replan-1": [plan(step("c", "a"), step("d", "c"))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        await world.runtime.plans.replan(world.ann, plan_id, "Otherwise")
        await world.until("plan_notification", revision=2)
        await world.decide_plan(plan_id, revision=2)

        told = [e["metadata"]["percentage"] for e in of(await world.log(), "plan_progress")]
        assert told == [50, 100, 100]


@pytest.mark.feature(101)
@pytest.mark.parametrize("said", ["Some random error", "Access to the folder was odd"])
async def test_a_failure_that_is_not_bad_enough_changes_no_plan(make, said):
    async with make(script(*TWO, a=[says("a")], b=[fails(said)])) as world:
        plan_id, events = await approved(world)

        assert of(events, "plan_replanning") == []
        assert events[-1]["metadata"]["status"] == "partial"
        assert await status(world, plan_id) == ("partial", 1, {"a": "completed", "b": "failed"})


def refuses(text):
    """A model whose provider refuses to answer."""

    def reply(request):
        raise ModelFailed(text, http_status=400)

    return reply


@pytest.mark.feature(100, 101)
@pytest.mark.parametrize(
    ("said", "replanned"), [(LOST, True), ("Some random error", False), ("No such model", False)]
)
async def test_what_a_models_provider_refuses_changes_a_plan_only_if_its_words_are_known(
    make, said, replanned
):
    lines = script(
        *TWO, a=[says("a")], b=[refuses(said)], **{"replan-1": [plan(step("c", "a"))]}
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, events = await approved(world)

        assert bool(of(events, "plan_replanning")) is replanned
        found = await status(world, plan_id)
        assert found[:2] == (("awaiting_approval", 2) if replanned else ("partial", 1))


@pytest.mark.feature(102)
@pytest.mark.parametrize(
    ("said", "set_", "replanned"),
    [
        (LOST, {}, True),
        (LOST, {"auto_replanning": False}, False),
        (LOST, {"replanning_trigger_high": False}, False),
        ("Circular dependency", {}, True),
        ("Circular dependency", {"replanning_trigger_critical": False}, False),
        ("Some random error", {}, False),
        ("Some random error", {"replanning_trigger_medium": True}, True),
        (LOST, {"replanning_max_attempts": 0}, False),
    ],
)
async def test_each_setting_decides_whether_a_failure_changes_the_plan(make, said, set_, replanned):
    lines = script(*TWO, a=[says("a")], b=[fails(said)], **{"replan-1": [plan(step("c", "a"))]})
    async with make(lines, **set_) as world:
        plan_id, events = await approved(world)

        assert bool(of(events, "plan_replanning")) is replanned
        assert (await status(world, plan_id))[1] == (2 if replanned else 1)


@pytest.mark.feature(102)
async def test_a_setting_says_after_how_many_replans_a_person_is_asked_first(make):
    lines = script(*TWO, a=[says("a")], b=[fails(LOST)])
    async with make(lines, replanning_human_after=0) as world:
        plan_id, _ = await approved(world)

        waits = await world.runtime.plans.status(world.ann, plan_id)
        assert (waits.status, waits.current_step, waits.progress) == ("replanning", 2, 50)
        [question] = await world.pending()
        assert (question.kind, question.details["about"]) == ("intervention", "replan")
        assert world.model.asked("replan-1") == []


@pytest.mark.feature(102)
async def test_a_failure_too_soon_after_the_last_replan_changes_nothing(make):
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)], c=[fails(LOST)],
        **{"replan-1": [plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines, replanning_min_interval=3600) as world:
        plan_id, _ = await approved(world)
        events = await world.decide_plan(plan_id, revision=2)

        assert of(events, "plan_replanning") == []
        assert (await status(world, plan_id))[:2] == ("partial", 2)


@pytest.mark.feature(102)
async def test_a_search_that_takes_too_long_ends_without_a_new_revision(make):
    slow = {**plan(step("c", "a")), "delay": 60}
    lines = script(*TWO, a=[says("a")], b=[fails(LOST)], **{"replan-1": [slow]})
    async with make(lines, replanning_timeout=0.05) as world:
        plan_id, events = await approved(world)

        resumed = of(events, "plan_resumed")[0]["metadata"]
        assert "0.05 s" in resumed["reason"]
        assert events[-1]["metadata"]["status"] == "partial"
        assert await status(world, plan_id) == ("partial", 1, {"a": "completed", "b": "failed"})


@pytest.mark.feature(103, 104)
async def test_after_so_many_replans_a_person_is_asked_and_after_the_last_none_comes(make):
    lines = script(
        *TWO, a=[says("a")],
        **{name: [fails(LOST)] for name in ("b", "c1", "c2", "c3")},
        **{f"replan-{n}": [plan(step(f"c{n}", "a"))] for n in (1, 2, 3, 4)},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        await world.decide_plan(plan_id, revision=2)
        events = await world.decide_plan(plan_id, revision=3)

        assert (events[-1]["type"], events[-1]["is_final"]) == ("approval_requested", True)
        [question] = await world.pending()
        assert (question.kind, question.details["about"]) == ("intervention", "replan")
        assert question.request_id == question.approval_id
        assert "2" in question.reason
        assert world.model.asked("replan-3") == []
        await world.restart()
        await world.idle()
        [question] = await world.pending()

        allowed = await world.ask(
            {"type": "hitl_decision", "approval_id": question.approval_id, "decision": "approve"}
        )
        assert allowed[-1]["type"] == "plan_notification"
        last = await world.decide_plan(plan_id, revision=4)
        assert of(last, "plan_replanning") == []
        assert last[-1]["metadata"]["status"] == "partial"
        assert (await status(world, plan_id))[1] == 4


@pytest.mark.feature(104)
async def test_a_person_who_does_not_want_another_plan_ends_it_with_what_it_has(make):
    lines = script(*TWO, step("d", "b"), a=[says("a")], b=[fails(LOST)])
    async with make(lines, replanning_human_after=0) as world:
        plan_id, events = await approved(world)
        [question] = await world.pending()
        with pytest.raises(InvalidMessage):
            await world.ask(
                {
                    "type": "hitl_decision", "approval_id": question.approval_id,
                    "decision": "edit", "modified_arguments": {"result": 1},
                }
            )  # fmt: skip
        events = await world.ask(
            {"type": "hitl_decision", "approval_id": question.approval_id, "decision": "reject"}
        )

        assert events[-1]["metadata"]["status"] == "partial"
        assert await status(world, plan_id) == (
            "partial", 1, {"a": "completed", "b": "failed", "d": "skipped"},
        )  # fmt: skip


async def test_nobody_who_answers_whether_to_replan_ends_the_plan_and_says_so(make):
    lines = script(*TWO, step("d", "b"), a=[says("a")], b=[fails(LOST)])
    async with make(lines, replanning_human_after=0, approval_expiry_intervention=30) as world:
        plan_id, _ = await approved(world)
        await world.later(31)
        await world.until("plan_completed")

        found = await world.runtime.plans.status(world.ann, plan_id)
        assert str(found.status) == "partial"
        assert "nobody decided in time" in next(s.reason for s in found.subtasks if s.id == "d")


async def test_whether_to_replan_is_asked_once_and_changes_no_plan_that_is_over(
    make,
):
    lines = script(*TWO, a=[says("a")], b=[fails(LOST)])
    async with make(lines, replanning_human_after=0) as world:
        plan_id, _ = await approved(world)
        [question] = await world.pending()
        parts = world.runtime.parts
        found = await parts.store.read(plan_of, plan_id)
        assert await parts.store.write(parts.replanning.ready, found) is False
        assert await world.pending() == [question]

        asked = await parts.store.read(approval_of, question.approval_id)
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.idle()
        events = await world.log()
        await parts.store.write(parts.replanning.lapse, asked)
        assert await world.log() == events
        assert (await status(world, plan_id))[0] == "cancelled"


async def test_who_plans_anew_is_told_how_much_of_a_long_result_is_left_out(make):
    lines = script(
        *TWO, a=[says("x" * 5_000)], b=[fails(LOST)], **{"replan-1": [plan(step("c", "a"))]}
    )
    async with make(lines) as world:
        await approved(world)
        [request, *_] = world.model.asked("replan-1")
        head = request.messages[0].content
        assert "more characters)" in head
        assert "x" * 2_001 not in head


async def test_a_new_revision_that_is_rejected_ends_the_plan_with_what_it_has(make):
    lines = script(*TWO, a=[says("a")], b=[fails(LOST)], **{"replan-1": [plan(step("c", "a"))]})
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        events = await world.decide_plan(plan_id, "reject", revision=2, feedback="Enough")

        assert "plan_rejected" in kinds(events)
        assert [e["type"] for e in events if e.get("is_final")] == ["plan_completed"]
        assert events[-1]["metadata"]["status"] == "partial"
        assert await status(world, plan_id) == ("partial", 1, {"a": "completed", "b": "failed"})
        assert (await world.runtime.sessions.get(world.ann, world.session)).active_plan_id is None


async def test_a_new_revision_that_nobody_decides_ends_the_plan_with_what_it_has(make):
    lines = script(*TWO, a=[says("a")], b=[fails(LOST)], **{"replan-1": [plan(step("c", "a"))]})
    async with make(lines, approval_expiry_plan=30) as world:
        plan_id, _ = await approved(world)
        await world.later(31)
        await world.until("plan_completed")

        assert (await status(world, plan_id))[0] == "partial"


async def test_what_runs_finishes_before_another_plan_is_looked_for(make):
    lines = script(
        step("slow"), step("b"), step("never", "slow"),
        slow=[says("slow is done")], b=[fails(LOST)], **{"replan-1": [plan(step("c", "slow"))]},
    )  # fmt: skip
    async with make(lines) as world:
        goes_on = world.model.hold("slow")
        plan_id = await world.begin()
        await world.until("plan_replanning")
        goes_on.set()
        await world.until("plan_notification", revision=2)

        events = await world.log()
        events = events[kinds(events).index("plan_replanning") :]
        order = [(e["type"], e.get("subtask_id")) for e in events]
        finished = order.index(("subtask_completed", "slow"))
        assert finished < kinds(events).index("plan_notification")
        assert ("subtask_started", "never") not in order
        assert "slow is done" in world.model.asked("replan-1")[0].messages[0].content
        assert (await status(world, plan_id))[2] == {"slow": "completed", "c": "pending"}


async def test_a_restart_while_another_plan_is_looked_for_loses_nothing(make):
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)], c=[says("c")],
        **{"replan-1": [plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        world.model.hold("replan-1")
        plan_id = await world.begin()
        await world.until("plan_replanning")
        await world.restart()
        await world.until("plan_notification", revision=2)

        events = await world.decide_plan(plan_id, revision=2)
        assert events[-1]["metadata"]["status"] == "completed"
        assert len(of(await world.log(), "plan_replanning")) == 1


async def test_the_plan_that_failed_is_no_new_plan(make):
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)],
        **{"replan-1": [plan(step("b", "a")), plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, events = await approved(world)

        refused = of(events, "tool_result", tool_name="create_plan")
        assert "failed already" in refused[0]["error"]
        assert (await status(world, plan_id))[:2] == ("awaiting_approval", 2)


@pytest.mark.parametrize(
    "answers",
    [
        [plan(step("b", "a"))] * 3,
        [says("There is no other way")],
        [calls(call("attempt_completion", result="There is no other way"))],
        [plan(step("c", "nowhere"))] * 3,
        [],
    ],
    ids=["no progress", "only words", "gives up", "not valid", "the model fails"],
)
async def test_without_a_new_plan_the_old_one_goes_on_as_far_as_it_can(make, answers):
    lines = script(
        step("a"), step("b", "a"), step("after", "b"), step("late"), a=[says("a")],
        b=[fails(LOST)], late=[says("late")], **{"replan-1": answers},
    )  # fmt: skip
    async with make(lines, max_parallel=1) as world:
        plan_id, events = await approved(world)

        assert of(events, "plan_resumed")
        assert events[-1]["metadata"]["status"] == "partial"
        assert await status(world, plan_id) == (
            "partial", 1,
            {"a": "completed", "b": "failed", "after": "skipped", "late": "completed"},
        )  # fmt: skip


async def test_a_person_has_a_failed_plan_changed_however_often_it_was_before(make):
    lines = script(
        *TWO, a=[says("a")], b=[fails("Some random error")], c=[says("c")],
        **{"replan-1": [plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines, replanning_max_attempts=0) as world:
        plan_id, _ = await approved(world)
        await world.runtime.plans.replan(world.ann, plan_id, "Try it with c")
        notice = await world.until("plan_notification", revision=2)

        assert notice["metadata"]["replan"] == {
            "cause": "person", "reason": "Try it with c", "by": world.ann.id,
        }  # fmt: skip
        assert "Try it with c" in world.model.asked("replan-1")[0].messages[0].content
        [entry] = await world.audit("plan.replanning")
        assert entry.actor == world.ann.id
        events = await world.decide_plan(plan_id, revision=2)
        assert events[-1]["metadata"]["status"] == "completed"
        with pytest.raises(Conflict, match="completed"):
            await world.runtime.plans.replan(world.ann, plan_id, "again")


async def test_a_paused_plan_may_be_changed(make):
    lines = script(
        step("slow"), step("b", "slow"), slow=[says("slow")],
        **{"replan-1": [plan(step("c", "slow"))]},
    )  # fmt: skip
    async with make(lines) as world:
        goes_on = world.model.hold("slow")
        plan_id = await world.begin()
        await world.until("subtask_started")
        await world.runtime.plans.pause(world.ann, plan_id)
        await world.runtime.plans.replan(world.ann, plan_id, "Another end")
        goes_on.set()
        await world.until("plan_notification", revision=2)

        assert (await status(world, plan_id))[2] == {"slow": "completed", "c": "pending"}


async def test_a_plan_that_is_being_changed_can_be_cancelled(make):
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)],
        **{"replan-1": [{**plan(step("c", "a")), "delay": 60}]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("plan_replanning")
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.idle()

        assert (await status(world, plan_id))[:2] == ("cancelled", 1)
        assert "c" not in kinds(await world.log())


async def test_a_question_of_the_search_waits_for_a_person_and_then_goes_on(make):
    looks = calls(call("read_file", path="notes.md"))
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)],
        **{"replan-1": [looks, plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        (world.folder / "notes.md").write_text("Mine")
        (world.root / "config").mkdir(exist_ok=True)
        (world.root / "config" / "rules.toml").write_text(
            '[[rule]]\ntool = "read_file"\ndecision = "ask"\nreason = "private"\n'
        )
        await world.restart()
        plan_id, events = await approved(world)
        assert (events[-1]["type"], events[-1]["is_final"]) == ("approval_requested", True)
        await world.restart()
        [question] = await world.pending()

        events = await world.decide(question.call_id, "reject", feedback="Not that file")
        assert events[-1]["type"] == "plan_notification"
        assert "Not that file" in str(world.model.asked("replan-1")[-1].messages)
        assert (await status(world, plan_id))[:2] == ("awaiting_approval", 2)


async def test_a_new_subtask_may_use_the_result_of_one_that_is_kept(make):
    lines = script(
        *TWO, a=[says("built")], b=[fails(LOST)], c=[says("c")],
        **{"replan-1": [plan(step("c", "a", inputs={"from": "${subtasks.a.output}"}))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        events = await world.decide_plan(plan_id, revision=2)

        assert events[-1]["metadata"]["status"] == "completed"
        assert "built" in world.model.asked("c")[0].messages[0].content


async def test_an_edit_of_the_new_revision_keeps_what_is_done_too(make):
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST)], d=[says("d")],
        **{"replan-1": [plan(step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        events = await world.decide_plan(
            plan_id, "edit", revision=2, modified_subtasks=[step("a"), step("d", "a")]
        )

        assert [e["subtask_id"] for e in of(events, "subtask_started")] == ["d"]
        assert await status(world, plan_id) == (
            "completed",
            3,
            {"a": "completed", "d": "completed"},
        )


async def test_a_revision_inside_the_old_grant_runs_at_once_if_the_operator_says_so(make):
    again = {**step("b", "a"), "description": "Do b in another way"}
    lines = script(*TWO, a=[says("a")], b=[fails(LOST), says("b")], **{"replan-1": [plan(again)]})
    lines["b"] = [
        lambda request: fails(LOST) if "another" not in str(request.messages) else says("b")
    ]
    async with make(lines, replan_within_grant=True) as world:
        plan_id, events = await approved(world)

        assert events[-1]["type"] == "plan_completed"
        assert await status(world, plan_id) == (
            "completed",
            2,
            {"a": "completed", "b": "completed"},
        )
        [entry] = await world.audit("plan.replanned_within_grant")
        assert entry.details["revision"] == 2
        grants = await world.runtime.plans.grants(world.ann, world.session)
        assert {(g.subtask_id, g.revision) for g in grants} == {("a", 1), ("b", 1), ("b", 2)}


async def test_a_revision_outside_the_old_grant_asks_although_the_operator_trusts_replans(make):
    lines = script(*TWO, a=[says("a")], b=[fails(LOST)], **{"replan-1": [plan(step("c", "a"))]})
    async with make(lines, replan_within_grant=True) as world:
        plan_id, _ = await approved(world)

        assert (await status(world, plan_id))[:2] == ("awaiting_approval", 2)


def test_the_words_of_these_stories_mean_what_they_rely_on():
    patterns = Patterns()

    assert patterns.classify_text(LOST).severity == "high"
    assert patterns.classify_text("Circular dependency").severity == "critical"
    assert patterns.classify_text("Some random error").severity == "medium"


@pytest.mark.feature(36)
async def test_what_a_person_revoked_no_later_revision_brings_back(make):
    again, anew = ({**step("b", "a"), "description": f"Do b {way}"} for way in ("again", "anew"))
    lines = script(
        *TWO, a=[says("a")], b=[fails(LOST), fails(LOST)],
        **{"replan-1": [plan(again)], "replan-2": [plan(anew)]},
    )  # fmt: skip
    async with make(lines, replan_within_grant=True) as world:
        goes_on = world.model.hold("a")
        plan_id = await world.begin()
        grants = await world.runtime.plans.grants(world.ann, world.session)
        mine = next(g for g in grants if g.subtask_id == "b")
        await world.runtime.plans.revoke_grant(world.ann, mine.grant_id)
        goes_on.set()
        await world.until("plan_notification", revision=2)
        assert (await status(world, plan_id))[:2] == ("awaiting_approval", 2)

        # Who approves the revision grants it for that one, and for no other.
        await world.decide_plan(plan_id, revision=2)
        assert (await status(world, plan_id))[:2] == ("awaiting_approval", 3)
        assert await world.audit("plan.replanned_within_grant") == []


async def test_a_search_that_meets_a_used_up_quota_goes_on_when_it_is_there_again(make):
    asked = []

    def busy_once(request):
        asked.append(request)
        if len(asked) == 1:
            raise ModelFailed("slow down", http_status=429, retry_after=3_600.0)
        return plan(step("c", "a"))

    lines = script(*TWO, a=[says("a")], b=[fails(LOST)], **{"replan-1": [busy_once]})
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("plan_replanning")
        await world.idle()
        assert (await status(world, plan_id))[:2] == ("replanning", 1)

        await world.later(3_601)
        await world.until("plan_notification", revision=2)
        assert len(asked) == 2


async def test_what_was_undone_is_done_again_when_the_plan_is_changed(make):
    lines = script(
        *TWO, a=[calls(write("a.txt")), says("a")], b=[fails("Some random error")],
        **{"replan-1": [plan(step("a"), step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        assert world.read("a.txt") is None
        await world.runtime.plans.replan(world.ann, plan_id, "Again")
        await world.until("plan_notification", revision=2)

        assert (await status(world, plan_id))[2] == {"a": "pending", "c": "pending"}


async def test_what_was_undone_and_brought_back_stays_done_when_the_plan_is_changed(make):
    lines = script(
        *TWO, a=[calls(write("a.txt")), says("a")], b=[fails("Some random error")],
        **{"replan-1": [plan(step("a"), step("c", "a"))]},
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, _ = await approved(world)
        undone = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        await world.runtime.checkpoints.rollback(world.ann, plan_id, undone.checkpoint_id)
        assert world.read("a.txt") is not None
        await world.runtime.plans.replan(world.ann, plan_id, "Again")
        await world.until("plan_notification", revision=2)

        assert (await status(world, plan_id))[2] == {"a": "completed", "c": "pending"}
