"""A running plan: order, limits, failure, time limits, pause, cancel; what is left at its end."""

import pytest

from fakes.until import clock_stops_after, time_passes
from fakes.world import (
    a_while,
    call,
    calls,
    ends,
    is_running,
    kinds,
    of,
    on_both,
    plan,
    run,
    says,
    step,
    write,
)
from gonogo.domain.errors import Conflict, NotFound

pytestmark = pytest.mark.measured


def planned(*subtasks, **threads):
    """A script whose architect proposes these subtasks."""
    return {
        "main/architect": [plan(*subtasks)], "main/orchestrator": [says("Yes?")], **threads,
    }  # fmt: skip


async def approve(world):
    """Have the plan proposed and approved. Gives its id and what followed."""
    plan_id = await world.propose()
    return plan_id, await world.decide_plan(plan_id)


async def begin(world):
    """Have the plan proposed and approved; it runs. Gives its id and the decision's receipt."""
    plan_id = await world.propose()
    message = {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
    return plan_id, await world.send(message)


async def grants(world):
    """The status of every grant of the session."""
    return {g.status for g in await world.runtime.plans.grants(world.ann, world.session)}


async def status(world, plan_id):
    """The plan's status, and that of each of its subtasks."""
    found = await world.runtime.plans.status(world.ann, plan_id)
    return str(found.status), {s.id: str(s.status) for s in found.subtasks}


def together(events):
    """The greatest number of subtasks that ran at once."""
    most = now = 0
    for event in events:
        now += event["type"] == "subtask_started"
        now -= event["type"] in {"subtask_completed", "subtask_failed"}
        most = max(most, now)
    return most


@pytest.mark.feature(51, 52)
async def test_independent_subtasks_run_at_once_and_a_join_waits_for_both(make):
    lines = planned(
        step("a"), step("b"), step("join", "a", "b"),
        a=[says("a", delay=1)], b=[says("b", delay=1)], join=[says("join")],
    )  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)

        order = [(e["type"], e["subtask_id"]) for e in events if e["type"].startswith("subtask_")]
        assert set(order[:2]) == {("subtask_started", "a"), ("subtask_started", "b")}
        assert set(order[2:4]) == {("subtask_completed", "a"), ("subtask_completed", "b")}
        assert order[4:] == [("subtask_started", "join"), ("subtask_completed", "join")]


async def test_commands_of_agents_that_write_nothing_run_beside_each_other(make):
    marks = {"a": a_while(), "b": a_while()}
    lines = planned(
        *(step(key, agent="debug", scope={"commands": ["sleep"]}) for key in marks),
        **{key: [calls(run(f"sleep {mark}"))] for key, mark in marks.items()},
    )
    async with make(lines) as world:
        plan_id, _receipt = await begin(world)
        for mark in marks.values():
            await is_running(mark)

        assert (await status(world, plan_id))[0] == "running"
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.idle()


@pytest.mark.feature(53)
async def test_never_more_run_at_once_than_the_limit(make):
    names = "abcde"
    scripts = {name: [says(name)] for name in names}
    async with make(planned(*(step(n) for n in names), **scripts), max_parallel=2) as world:
        held = world.model.hold("b")
        _, receipt = await begin(world)
        # While one is under way the others go one by one in the place that is left.
        await world.asked_model("e")
        held.set()
        events = await world.answer(receipt)

        assert together(events) == 2
        assert events[-1]["metadata"]["completed"] == 5


@pytest.mark.feature(59, 64)
async def test_a_failure_skips_dependants_only_and_the_plan_says_partial(make):
    lines = planned(
        step("bad"), step("next", "bad"), step("last", "next"), step("good"), good=[says("good")]
    )
    async with make(lines) as world:
        plan_id, events = await approve(world)

        [error] = of(events, "error")
        assert error["subtask_id"] == "bad"
        assert error["code"] == "model_error"
        assert "is_final" not in error or error["is_final"] is False
        assert of(events, "subtask_failed")[0]["metadata"]["error"]["severity"] == "high"
        skipped = [e["metadata"] for e in of(events, "subtask_skipped")]
        assert [(s["subtask_id"], s["reason"]) for s in skipped] == [
            ("next", "bad did not complete"), ("last", "next did not complete"),
        ]  # fmt: skip
        ended = events[-1]
        assert ended["type"] == "plan_completed"
        assert ended["content"] == (
            "Plan Execution Complete\n- Total: 4\n- Completed: 1\n- Failed: 1\n- Skipped: 2"
        )
        facts = ended["metadata"]
        assert facts["status"] == "partial"
        parts = ("completed", "failed", "skipped", "cancelled")
        assert sum(facts[name] for name in parts) == facts["total"] == 4
        assert (await status(world, plan_id))[0] == "partial"
        assert await grants(world) == {"ended"}


@pytest.mark.feature(33, 59)
async def test_a_plan_of_which_nothing_completed_failed_and_its_grants_end(make):
    async with make(planned(step("bad"))) as world:
        plan_id, events = await approve(world)

        assert events[-1]["metadata"]["status"] == "failed"
        assert await status(world, plan_id) == ("failed", {"bad": "failed"})
        assert await grants(world) == {"ended"}
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert (session.agent, session.active_plan_id) == ("orchestrator", None)


@pytest.mark.feature(64)
async def test_an_exception_inside_becomes_an_error_event_and_the_stream_closes(make, caplog):
    def breaks(request):
        raise RuntimeError("no such thing")

    async with make(planned(step("a"), step("b"), a=[breaks], b=[says("b")])) as world:
        _, events = await approve(world)

        [error] = of(events, "error")
        assert error["subtask_id"] == "a"
        assert "no such thing" not in error["error"]
        assert events[-1]["type"] == "plan_completed"
        assert events[-1]["metadata"]["completed"] == 1
        assert "no such thing" in caplog.text


@pytest.mark.feature(58)
async def test_a_transient_failure_is_tried_again_with_growing_pauses(make):
    policy = {"max_attempts": 3, "delay": 60, "backoff": 10, "on": ["environment"]}
    async with make(planned(step("a", retry_policy=policy))) as world:
        plan_id, _ = await begin(world)
        first = await world.until("subtask_retrying", attempt=1)
        await world.idle()
        await world.later(61)
        second = await world.until("subtask_retrying", attempt=2)
        await world.idle()
        await world.later(300)
        await world.idle()
        assert (await status(world, plan_id))[1] == {"a": "pending"}
        await world.later(301)
        failed = await world.until("subtask_failed")
        ended = await world.until("plan_completed")

        assert first["metadata"]["error"]["category"] == "environment"
        assert second["metadata"]["subtask_status"] == "pending"
        assert failed["metadata"]["attempt"] == 3
        assert ended["metadata"]["status"] == "failed"
        started = of(await world.log(), "subtask_started")
        assert [e["metadata"]["attempt"] for e in started] == [1, 2, 3]


@pytest.mark.feature(58)
async def test_a_retry_that_works_completes_the_plan(make):
    seen = []

    def flaky(request):
        seen.append(request)
        if len(seen) == 1:
            raise TimeoutError
        return says("at last")

    policy = {"max_attempts": 2, "delay": 0, "on": ["unknown"]}
    async with make(planned(step("a", retry_policy=policy), a=[flaky])) as world:
        _, events = await approve(world)

        assert events[-1]["metadata"]["status"] == "completed"
        assert len(of(events, "subtask_retrying")) == 1
        assert len(seen) == 2
        assert len(seen[1].messages) == 1


@pytest.mark.feature(60)
async def test_a_subtask_over_its_time_limit_is_stopped_and_failed(make):
    mark = a_while()
    slow = step("slow", timeout=100, scope={"commands": ["sleep"]})
    async with make(planned(slow, slow=[calls(run(f"sleep {mark}"))])) as world:
        _, receipt = await begin(world)
        await is_running(mark)
        time_passes(100)
        await is_running(mark, False)
        events = await world.answer(receipt)

        failed = of(events, "subtask_failed")[0]["metadata"]
        assert failed["error"]["category"] == "timeout"
        assert events[-1]["metadata"]["status"] == "failed"
        results = of(events, "tool_result")
        assert len(results) == 1
        assert "error" in results[0]


@on_both
@pytest.mark.feature(33, 61)
async def test_cancel_ends_a_running_command_within_a_second(make):
    mark = a_while()
    lines = planned(
        step("slow", scope={"commands": ["sleep"]}), step("after", "slow"), step("other"),
        slow=[calls(run(f"sleep {mark}"))], other=[says("x", delay=30)],
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, receipt = await begin(world)
        await is_running(mark)
        with clock_stops_after(1):
            await world.runtime.plans.cancel(world.ann, plan_id)
            await ends(mark)

        events = await world.answer(receipt)
        assert events[-1]["type"] == "plan_cancelled"
        assert [e for e in events if e.get("is_final")] == [events[-1]]
        assert await status(world, plan_id) == (
            "cancelled", {"slow": "cancelled", "after": "cancelled", "other": "cancelled"},
        )  # fmt: skip
        assert len(of(events, "tool_result")) == 1
        assert await grants(world) == {"ended"}
        await world.idle()
        assert not of(await world.log(), "subtask_completed")
        with pytest.raises(Conflict, match="cancelled"):
            await world.runtime.plans.cancel(world.ann, plan_id)


@pytest.mark.feature(69, 106)
async def test_a_plan_that_is_over_cannot_be_cancelled_and_tells_its_progress(make):
    lines = planned(step("a"), step("b", "a"), a=[says("a")], b=[says("b")])
    async with make(lines) as world:
        goes_on = world.model.hold("b")
        plan_id, receipt = await begin(world)
        await world.until("subtask_completed", subtask_id="a")
        half = await world.runtime.plans.status(world.ann, plan_id)
        goes_on.set()
        await world.answer(receipt)
        whole = await world.runtime.plans.status(world.ann, plan_id)

        assert (half.progress, half.total_steps, half.status) == (50.0, 2, "running")
        assert half.current_step in {1, 2}
        assert half.started_at is not None
        assert half.finished_at is None
        assert (whole.progress, whole.current_step, whole.total_steps) == (100.0, 2, 2)
        assert whole.finished_at > whole.started_at
        assert all(s.started_at and s.finished_at for s in whole.subtasks)
        with pytest.raises(Conflict, match="completed"):
            await world.runtime.plans.cancel(world.ann, plan_id)
        assert (await world.runtime.plans.status(world.ann, plan_id)) == whole


@pytest.mark.feature(33, 34)
async def test_grants_end_with_success_and_are_of_one_session(make):
    async with make(planned(step("a"), a=[calls(write("a.txt")), says("ok")])) as world:
        plan_id, _events = await approve(world)

        assert await grants(world) == {"ended"}
        [grant] = await world.runtime.plans.grants(world.ann, world.session)
        assert grant.ended_because == "the plan is completed"
        done = await world.runtime.plans.status(world.ann, plan_id)
        assert grant.ended_at == done.finished_at
        await world.restart()
        assert await grants(world) == {"ended"}


@pytest.mark.feature(207)
async def test_hold_now_and_start_after_a_restart(make):
    async with make(planned(step("a"), a=[says("a")])) as world:
        plan_id = await world.propose("Создай")
        events = await world.decide_plan(plan_id, "hold")
        assert kinds(events)[-1] == "plan_approved"
        assert events[-1]["is_final"] is True
        assert events[-1]["metadata"]["held"] is True
        await world.restart()
        await world.idle()
        assert await status(world, plan_id) == ("approved", {"a": "pending"})
        assert (await world.say("Ты тут?"))[-1]["is_final"] is True
        started = await world.runtime.plans.start(world.ann, plan_id)
        assert started.status == "running"
        await world.until("plan_completed")
        with pytest.raises(Conflict, match="completed"):
            await world.runtime.plans.start(world.ann, plan_id)


@pytest.mark.feature(207)
async def test_approve_with_start_false_is_hold(make):
    async with make(planned(step("a"), a=[says("a")])) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, start=False)
        await world.idle()
        assert await status(world, plan_id) == ("approved", {"a": "pending"})
        with pytest.raises(Conflict, match="approved"):
            await world.runtime.plans.pause(world.ann, plan_id)


@pytest.mark.feature(207)
async def test_pause_and_resume_across_a_restart(make):
    lines = planned(step("a"), step("b", "a"), a=[says("a")], b=[says("b")])
    async with make(lines) as world:
        goes_on = world.model.hold("a")
        plan_id, receipt = await begin(world)
        await world.until("subtask_started", subtask_id="a")
        await world.runtime.plans.pause(world.ann, plan_id)
        goes_on.set()
        events = await world.answer(receipt)
        assert events[-1]["is_final"] is True
        assert await status(world, plan_id) == ("paused", {"a": "completed", "b": "pending"})
        await world.restart()
        await world.idle()
        assert await status(world, plan_id) == ("paused", {"a": "completed", "b": "pending"})
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("plan_completed")
        assert len(of(await world.log(), "subtask_started", subtask_id="a")) == 1


@pytest.mark.each_database
@on_both
@pytest.mark.feature(23)
async def test_a_plan_goes_on_after_a_restart_and_repeats_nothing(make):
    lines = planned(
        step("a"), step("b", "a"), step("c", "b"),
        a=[calls(write("a.txt")), says("a")], b=[calls(write("b.txt")), says("b")],
        c=[calls(write("c.txt")), says("c")],
    )  # fmt: skip
    async with make(lines) as world:
        world.model.hold("b", 2)
        plan_id, _ = await begin(world)
        await world.until("tool_result", subtask_id="b")
        await world.restart()
        await world.until("plan_completed")

        assert await status(world, plan_id) == (
            "completed", {"a": "completed", "b": "completed", "c": "completed"},
        )  # fmt: skip
        log = await world.log()
        assert len(of(log, "tool_call")) == len(of(log, "tool_result")) == 4
        assert [e["subtask_id"] for e in of(log, "subtask_completed")] == ["a", "b", "c"]
        assert world.model.asked("a") == []
        assert (await world.runtime.audit.verify(world.ann)).ok


@pytest.mark.feature(208)
async def test_one_subtask_is_cancelled_and_its_siblings_go_on(make):
    lines = planned(
        step("slow"), step("after", "slow"), step("other"),
        slow=[says("x", delay=30)], other=[says("ok", delay=0.1)],
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, receipt = await begin(world)
        await world.until("subtask_started", subtask_id="slow")
        await world.runtime.plans.cancel_subtask(world.ann, plan_id, "slow")
        events = await world.answer(receipt)

        assert events[-1]["metadata"]["status"] == "partial"
        assert await status(world, plan_id) == (
            "partial", {"slow": "cancelled", "after": "skipped", "other": "completed"},
        )  # fmt: skip
        with pytest.raises(Conflict, match="already cancelled"):
            await world.runtime.plans.cancel_subtask(world.ann, plan_id, "slow")
        with pytest.raises(NotFound):
            await world.runtime.plans.cancel_subtask(world.ann, plan_id, "none")


@pytest.mark.feature(208)
async def test_one_subtask_is_skipped_before_it_starts(make):
    lines = planned(
        step("first"), step("left", "first"), step("next", "first"),
        first=[says("x")], next=[says("ok")],
    )  # fmt: skip
    async with make(lines) as world:
        goes_on = world.model.hold("first")
        plan_id, receipt = await begin(world)
        await world.until("subtask_started", subtask_id="first")
        with pytest.raises(Conflict, match="is running"):
            await world.runtime.plans.skip_subtask(world.ann, plan_id, "first")
        await world.runtime.plans.skip_subtask(world.ann, plan_id, "left")
        goes_on.set()
        events = await world.answer(receipt)

        assert events[-1]["metadata"]["skipped"] == 1
        assert await status(world, plan_id) == (
            "partial", {"first": "completed", "left": "skipped", "next": "completed"},
        )  # fmt: skip


@pytest.mark.feature(208)
async def test_a_failed_subtask_is_tried_again_by_a_person_and_its_siblings_stay(make):
    lines = planned(step("good"), step("bad"), step("after", "bad"), good=[says("good")])
    async with make(lines) as world:
        plan_id, events = await approve(world)
        assert events[-1]["metadata"]["status"] == "partial"
        world.lines |= {"bad": [says("now")], "after": [says("then")]}
        world.model._lines = world.lines
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "bad")
        ended = await world.until("plan_completed", after=events[-1]["seq"])

        assert ended["metadata"]["status"] == "completed"
        assert len(of(await world.log(), "subtask_started", subtask_id="good")) == 1
        assert await grants(world) == {"ended"}


@pytest.mark.feature(208)
async def test_a_failed_subtask_is_tried_again_while_its_plan_goes_on_and_no_sibling_is_disturbed(
    make,
):
    delete = calls(call("delete_file", path="old.txt"))
    lines = planned(
        step("bad"), step("after", "bad"), step("slow"), step("last", "slow"),
        slow=[delete, says("slow")], last=[says("last")],
    )  # fmt: skip
    async with make(lines) as world:
        (world.folder / "old.txt").write_text("old\n")
        plan_id = await world.begin()
        await world.until("subtask_failed", subtask_id="bad")
        await world.until("tool_call", requires_approval=True)
        await world.idle()
        world.lines |= {"bad": [says("now")], "after": [says("then")]}
        runtime, ann = world.runtime, world.ann
        with pytest.raises(
            Conflict, match="only a failed, skipped or cancelled subtask can be retried"
        ):
            await runtime.plans.retry_subtask(ann, plan_id, "slow")
        await runtime.plans.retry_subtask(ann, plan_id, "bad")
        with pytest.raises(Conflict, match="already"):
            await runtime.plans.retry_subtask(ann, plan_id, "bad")
        found = await runtime.plans.status(ann, plan_id)
        assert (found.status, found.revision, found.again) == ("running", 1, ["bad"])

        await world.restart()
        [question] = await world.pending()
        await world.send(
            {"type": "hitl_decision", "call_id": question.call_id, "decision": "approve"}
        )
        await world.until("plan_completed", status="completed")
        found = await world.runtime.plans.status(ann, plan_id)
        assert (found.revision, found.again) == (2, None)
        begun = [e["subtask_id"] for e in of(await world.log(), "subtask_started")]
        assert sorted(begun) == ["after", "bad", "bad", "last", "slow"]
        [retried] = await world.audit("plan.retried")
        assert (retried.actor, retried.details["revision"]) == (ann.id, 2)
        assert await grants(world) == {"ended"}


@pytest.mark.feature(208)
async def test_in_a_paused_plan_at_rest_a_retry_is_there_at_once_and_runs_when_it_goes_on(make):
    lines = planned(step("bad"), step("good"), step("next", "good"), next=[says("next")])
    async with make(lines | {"good": [says("good")]}) as world:
        goes_on = world.model.hold("good")
        plan_id = await world.begin()
        await world.until("subtask_failed", subtask_id="bad")
        await world.runtime.plans.pause(world.ann, plan_id)
        goes_on.set()
        await world.until("subtask_completed", subtask_id="good")
        await world.idle()
        world.lines |= {"bad": [says("now")]}
        world.model._lines = world.lines
        view = await world.runtime.plans.retry_subtask(world.ann, plan_id, "bad")
        assert (view.status, view.revision) == ("paused", 2)
        assert {s.id: str(s.status) for s in view.subtasks} == {
            "bad": "pending", "good": "completed", "next": "pending",
        }  # fmt: skip
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("plan_completed", status="completed")
        assert len(of(await world.log(), "subtask_started", subtask_id="good")) == 1


async def test_other_subtasks_run_while_one_waits_for_a_person(make):
    lines = planned(
        step("asks"), step("runs"), step("join", "asks", "runs"),
        asks=[calls(run("make thing")), says("asked")], runs=[says("ok", delay=0.2)],
        join=[says("joined")],
    )  # fmt: skip
    async with make(lines, max_parallel=1) as world:
        plan_id, events = await approve(world)

        assert events[-1]["is_final"] is True
        assert of(events, "subtask_completed", subtask_id="runs")
        found = await world.runtime.plans.status(world.ann, plan_id)
        assert {s.id: str(s.status) for s in found.subtasks}["asks"] == "waiting_approval"
        [question] = await world.pending()
        await world.restart()
        events = await world.decide(question.call_id, "reject", feedback="leave it")
        assert events[-1]["type"] == "plan_completed"
        assert events[-1]["metadata"]["completed"] == 3
        assert len(of(await world.log(), "subtask_started", subtask_id="asks")) == 1


async def test_cancelling_a_plan_ends_its_questions(make):
    lines = planned(step("asks"), asks=[calls(run("make thing")), says("asked")])
    async with make(lines) as world:
        plan_id, _ = await approve(world)
        [question] = await world.pending()
        await world.runtime.plans.cancel(world.ann, plan_id)

        assert await world.pending() == []
        with pytest.raises(Conflict, match="cancelled"):
            await world.decide(question.call_id)
        assert len(of(await world.log(), "tool_result", call_id=question.call_id)) == 1


async def test_an_undecided_plan_can_be_cancelled(make):
    async with make(planned(step("a"))) as world:
        plan_id = await world.propose()
        await world.ask({"type": "cancel"})

        assert (await status(world, plan_id))[0] == "cancelled"
        assert await world.pending() == []
        assert (await world.say("And now?"))[-1]["content"] == "Yes?"


async def test_an_answer_to_a_paused_plan_is_kept_until_it_goes_on(make):
    lines = planned(step("asks"), asks=[calls(write(".env", "A=1\n")), says("asked")])
    async with make(lines) as world:
        plan_id, events = await approve(world)
        assert events[-1]["type"] == "approval_requested"
        await world.runtime.plans.pause(world.ann, plan_id)
        [question] = await world.pending()
        events = await world.decide(question.call_id)

        assert events[-1]["is_final"] is True
        assert await status(world, plan_id) == ("paused", {"asks": "pending"})
        assert world.read(".env") is None
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("plan_completed")
        assert world.read(".env") == "A=1\n"


async def test_what_ended_is_not_changed_any_more(make):
    async with make(planned(step("a"))) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, "reject")
        runtime, ann = world.runtime, world.ann
        before = await world.log()
        for attempt in (
            runtime.plans.start(ann, plan_id), runtime.plans.pause(ann, plan_id),
            runtime.plans.resume(ann, plan_id), runtime.plans.cancel(ann, plan_id),
            runtime.plans.skip_subtask(ann, plan_id, "a"),
            runtime.plans.cancel_subtask(ann, plan_id, "a"),
            runtime.plans.retry_subtask(ann, plan_id, "a"),
        ):  # fmt: skip
            with pytest.raises(Conflict, match="rejected"):
                await attempt
        assert await world.log() == before
