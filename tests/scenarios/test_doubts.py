"""A command of which nobody knows what came is settled by a person, and what was settled holds:
no replan, no retry and no rollback has it done once more in the dark.
"""

from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import pytest

from fakes import mortal
from fakes.world import (
    LIMIT,
    a_while,
    call,
    calls,
    is_running,
    of,
    on_both,
    plan,
    run,
    says,
    step,
    write,
)
from gonogo.domain.errors import Conflict, ModelFailed
from scenarios.test_killed import BUILD, process, seen

pytestmark = pytest.mark.measured

LOST = "Agent x not found"
FAILS = calls(call("attempt_completion", result=LOST, success=False))
DEPLOY = calls(run("sh deploy.sh"))
SCOPE = {"commands": ["sh deploy.sh"]}


def deploys(folder):
    """How often the command began; each time it writes that down, and takes long."""
    ledger = folder / "ledger.txt"
    return ledger.read_text().count("began") if ledger.exists() else 0


def lay_out(folder):
    """A command that begins, and does not end by itself before it is cut off."""
    folder.mkdir(exist_ok=True)
    mark = a_while()
    (folder / "deploy.sh").write_text(f"echo began >> ledger.txt\nsleep {mark}\n")
    return mark


def hurry(world):
    """From now on the command ends at once."""
    (world.folder / "deploy.sh").write_text("echo began >> ledger.txt\n")


def script(*proposals, first=(), **threads):
    """A plan with a deployment, and what the architect makes of it later."""
    subtasks = first or (step("x", scope=SCOPE), step("last", "x"))
    later = {f"replan-{n}": [each] for n, each in enumerate(proposals, 1)}
    return {
        "main/architect": [plan(*subtasks)], "main/orchestrator": [says("Yes?")],
        "x": [DEPLOY, says("deployed")], "last": [says("last")], "more": [says("more")],
        **later, **threads,
    }  # fmt: skip


SAME = plan(step("x", scope=SCOPE), step("more", "x"))


@asynccontextmanager
async def cut_off(make, lines, **set_):
    """A plan whose command was cut off: a person is asked what became of it."""
    async with make(lines, **set_) as world:
        mark = lay_out(world.folder)
        plan_id = await world.begin()
        await is_running(mark)
        await world.restart()
        yield world, plan_id, await doubt(world)


async def doubt(world):
    await world.until("approval_requested", kind="intervention")
    await world.idle()
    return next(q for q in await world.pending() if q.kind == "intervention")


async def settle(world, question, decision="edit"):
    """Say what became of the command: done, unless something else is said."""
    message = {"type": "hitl_decision", "approval_id": question.approval_id, "decision": decision}
    done = {"modified_arguments": {"result": {"exit_code": 0}}} if decision == "edit" else {}
    await world.send(message | done)


async def standing(world, plan_id):
    found = await world.runtime.plans.get(world.ann, plan_id)
    return str(found.status), found.revision, {s.id: str(s.status) for s in found.subtasks}


async def finished(world, plan_id, revision):
    """Approve a revision, and let it come to its end."""
    await world.decide_plan(plan_id, revision=revision)
    await world.idle()
    return (await standing(world, plan_id))[2]


@on_both
@pytest.mark.feature(33, 212)
async def test_a_replan_waits_until_it_is_settled_and_keeps_it_also_over_kills(
    make, born, tmp_path, db
):
    lines, mark = script(SAME), lay_out(tmp_path / "work")
    with process(born, tmp_path, db, lines, BUILD) as events:
        plan_id = seen(events, "plan_notification")["metadata"]["plan_id"]
    go = {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
    with process(born, tmp_path, db, lines, go) as events:
        seen(events, "tool_call", tool_name="execute_command")
        await is_running(mark)
    await is_running(mark, False)
    again = {"verb": "replan", "arguments": {"plan_id": plan_id, "reason": "More"}}
    with process(born, tmp_path, db, lines, again) as events:
        seen(events, "plan_replanning")
    async with make(lines) as world:
        world.session = mortal.SESSION
        await world.idle()
        [question] = await world.pending()
        assert (await standing(world, plan_id))[:2] == ("replanning", 1)
        assert world.model.asked("replan-1") == []
        await settle(world, question)
        await world.until("plan_notification", revision=2)

        assert "deployed" in world.model.asked("replan-1")[0].messages[0].content
        found = await finished(world, plan_id, 2)
        assert found == {"x": "completed", "more": "completed"}
        assert deploys(world.folder) == 1


@pytest.mark.feature(33)
async def test_a_failure_that_sends_the_plan_back_waits_for_it_as_well(make):
    first = (step("x", scope=SCOPE), step("y"))
    y = [lambda request: {**FAILS, "delay": 0.5}]
    async with cut_off(make, script(SAME, first=first, y=y)) as (world, plan_id, question):
        await world.until("plan_replanning")
        await world.idle()
        assert world.model.asked("replan-1") == []
        await settle(world, question)
        await world.until("plan_notification", revision=2)

        assert await finished(world, plan_id, 2) == {"x": "completed", "more": "completed"}
        assert deploys(world.folder) == 1


async def test_what_was_settled_while_the_plan_was_paused_comes_to_its_end_before_a_replan(make):
    async with cut_off(make, script(SAME)) as (world, plan_id, question):
        await world.runtime.plans.pause(world.ann, plan_id)
        await settle(world, question)
        await world.idle()
        assert (await standing(world, plan_id))[2]["x"] == "pending"
        with pytest.raises(Conflict, match="x has not stopped yet"):
            await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="last")
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        await world.until("plan_notification", revision=2)

        assert await finished(world, plan_id, 2) == {"x": "completed", "more": "completed"}
        assert deploys(world.folder) == 1


async def test_whatever_else_it_asks_is_answered_before_the_plan_is_changed(make):
    x = [DEPLOY, calls(write("Makefile")), says("deployed")]
    async with cut_off(make, script(SAME, x=x)) as (world, plan_id, question):
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        await settle(world, question)
        asked = await world.until("approval_requested", kind="tool")
        await world.idle()
        assert asked["is_final"] is True
        assert (await standing(world, plan_id))[2]["x"] == "waiting_approval"
        assert world.model.asked("replan-1") == []
        await world.restart()
        [write_question] = await world.pending()
        await world.send({
            "type": "hitl_decision", "approval_id": write_question.approval_id,
            "decision": "approve",
        })  # fmt: skip
        await world.until("plan_notification", revision=2)

        assert await finished(world, plan_id, 2) == {"x": "completed", "more": "completed"}
        assert deploys(world.folder) == 1


async def test_a_quota_and_a_restart_in_between_lose_nothing(make):
    busy = iter([True])

    def reply(request):
        if next(busy, False):
            raise ModelFailed("slow down", http_status=429, retry_after=3_600.0)
        return says("deployed")

    async with cut_off(make, script(SAME, x=[DEPLOY, reply])) as (world, plan_id, question):
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        await settle(world, question)
        await world.asked_model("x")
        await world.idle()
        assert (await standing(world, plan_id))[2]["x"] == "pending"
        assert world.model.asked("replan-1") == []
        await world.later(3_601)
        await world.until("plan_notification", revision=2)

        assert await finished(world, plan_id, 2) == {"x": "completed", "more": "completed"}
        assert deploys(world.folder) == 1


class Away:
    """A model that is away until it is said to be back."""

    def __init__(self):
        self.back, self.asked = False, 0

    def __call__(self, request):
        self.asked += 1
        if not self.back:
            raise ModelFailed("no route to host", transient=True)
        return says("deployed")


async def next_try(world, plan_id, model):
    """Let the time come in which the model is asked again, and wait for what comes of it."""
    before = model.asked
    shown = await world.runtime.plans.get(world.ann, plan_id)
    assert (shown.status, shown.pause_reason) == ("replanning", "model")
    await world.later((shown.paused_until - world.clock()).total_seconds() + 0.01)
    with anyio.fail_after(LIMIT):
        while model.asked == before:  # noqa: ASYNC110 - not told
            await anyio.sleep(0.003)
    await world.idle()


@on_both
@pytest.mark.feature(230)
async def test_a_model_that_is_away_in_between_is_waited_for_also_over_a_restart(make):
    model = Away()
    async with cut_off(make, script(SAME, x=[DEPLOY, model])) as (world, plan_id, question):
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        await settle(world, question)
        await world.until("plan_paused")
        await world.idle()
        with pytest.raises(Conflict, match="is replanning and cannot be paused"):
            await world.runtime.plans.pause(world.ann, plan_id)
        await next_try(world, plan_id, model)
        await world.restart()
        await world.idle()
        await next_try(world, plan_id, model)
        assert (model.asked, world.model.asked("replan-1")) == (3, [])
        model.back = True
        await next_try(world, plan_id, model)
        await world.until("plan_notification", revision=2)

        assert len(of(await world.log(), "plan_paused")) == 1
        assert await finished(world, plan_id, 2) == {"x": "completed", "more": "completed"}
        assert deploys(world.folder) == 1


@pytest.mark.feature(230)
@pytest.mark.parametrize(
    ("word", "ends"), [("approve", ("awaiting_approval", 2)), ("reject", ("partial", 1))]
)
async def test_where_it_takes_too_long_a_person_is_asked_and_the_plan_is_still_sent_back(
    make, word, ends
):
    model, first = Away(), (step("y"), step("x", "y", scope=SCOPE))
    lines = script(plan(step("more", "y")), first=first, x=[DEPLOY, model], y=[says("y")])
    async with cut_off(make, lines, model_patience=60) as (world, plan_id, question):
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        await settle(world, question)
        await world.until("plan_paused")
        await world.idle()
        await world.later(61)
        subject = "The model does not answer: no route to host"
        await world.until("approval_requested", subject=subject)
        await world.idle()
        [asked] = await world.pending()
        assert (await standing(world, plan_id))[:2] == ("replanning", 1)
        assert (asked.details["about"], (await world.log())[-1]["is_final"]) == ("model", True)
        assert world.model.asked("replan-1") == []
        model.back = True
        await settle(world, asked, word)
        await world.until("plan_notification" if word == "approve" else "plan_completed")
        await world.idle()

        assert (await standing(world, plan_id))[:2] == ends
        assert deploys(world.folder) == 1


async def test_time_that_is_spent_in_between_is_asked_about_and_goes_on_with_more(make):
    lines = script(SAME)
    async with cut_off(make, lines, budget_plan_seconds=600) as (world, plan_id, question):
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        world.clock.ahead += timedelta(hours=1)
        await settle(world, question)
        await world.idle()
        [asked] = await world.pending()
        assert asked.details["about"] == "budget"
        assert (await standing(world, plan_id))[0] == "replanning"
        await settle(world, asked, "approve")
        await world.until("plan_notification", revision=2)

        assert (await standing(world, plan_id))[2]["x"] == "completed"
        assert deploys(world.folder) == 1


async def test_whoever_cancels_it_has_the_plan_changed_at_once_and_it_asks_before_it_runs(make):
    async with cut_off(make, script(SAME)) as (world, plan_id, _):
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        await world.runtime.plans.cancel_subtask(world.ann, plan_id, "x")
        await world.until("plan_notification", revision=2)
        await world.decide_plan(plan_id, revision=2)
        await world.idle()

        [question] = await world.pending()
        assert (question.kind, question.details["rule"]) == ("tool", "builtin:begun-before")
        assert deploys(world.folder) == 1


@on_both
@pytest.mark.feature(212)
async def test_a_retry_asks_before_a_command_runs_again_that_a_person_declared_done(make):
    x = [DEPLOY, calls(call("attempt_completion", result="Some random error", success=False))]
    async with cut_off(make, script(x=x)) as (world, plan_id, question):
        await settle(world, question)
        await world.until("plan_completed")
        hurry(world)
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "x")
        await world.until("approval_requested", kind="tool")
        await world.idle()
        [question] = await world.pending()
        assert question.details["rule"] == "builtin:begun-before"
        assert "only a person can say" in question.reason
        assert deploys(world.folder) == 1

        await world.decide(question.call_id)
        await world.idle()
        assert deploys(world.folder) == 2
        # What came of it then is known, and the grant holds again.
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "x")
        await world.idle()
        assert await world.pending() == []
        assert deploys(world.folder) == 3


async def test_what_a_person_said_had_failed_may_be_done_again(make):
    x = [DEPLOY, DEPLOY, says("deployed")]
    async with cut_off(make, script(x=x)) as (world, plan_id, question):
        hurry(world)
        await settle(world, question, "reject")
        await world.until("plan_completed")

        assert (await standing(world, plan_id))[0] == "completed"
        assert deploys(world.folder) == 2


async def test_an_attempt_that_fails_later_does_not_do_it_again_in_the_next_one(make):
    policy = {"max_attempts": 2, "delay": 0, "on": ["network"]}
    first = (step("x", scope=SCOPE, retry_policy=policy),)
    broken = iter([True])

    def reply(request):
        if next(broken, False):
            raise ModelFailed("no route to host")
        return says("deployed")

    lines = script(first=first, x=[DEPLOY, reply])
    async with cut_off(make, lines, model_max_attempts=1) as (world, _, question):
        await settle(world, question)
        asked = await world.until("approval_requested", kind="tool")
        await world.idle()

        assert asked["metadata"]["subject"] == "execute_command"
        assert deploys(world.folder) == 1


async def test_where_nobody_can_be_asked_it_is_denied(make):
    x = [DEPLOY, calls(call("attempt_completion", result="Some random error", success=False))]
    async with cut_off(make, script(x=x)) as (world, plan_id, question):
        await settle(world, question)
        await world.until("plan_completed")
        await world.stop()
        world.settings = world.settings.model_copy(update={"unattended": True})
        await world.start()
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "x")
        await world.idle()

        [denied] = await world.audit("tool.denied")
        assert denied.details["rule"] == "builtin:begun-before"
        assert "there is nobody to ask" in denied.details["reason"]
        assert deploys(world.folder) == 1


async def test_a_tool_subtask_that_a_person_declared_done_is_kept_by_a_replan(make):
    tool = step("x", agent=None, tool="execute_command", inputs={"command": "sh deploy.sh"})
    tool = {k: v for k, v in {**tool, "scope": SCOPE}.items() if v is not None}
    lines = script(plan(tool, step("more", "x")), first=(tool, step("last", "x")))
    async with cut_off(make, lines) as (world, plan_id, question):
        await world.runtime.plans.replan(world.ann, plan_id, "More")
        await settle(world, question)
        await world.until("plan_notification", revision=2)

        assert await finished(world, plan_id, 2) == {"x": "completed", "more": "completed"}
        assert deploys(world.folder) == 1


@on_both
@pytest.mark.feature(33, 212)
@pytest.mark.parametrize(
    ("word", "ran", "told"), [("approve", 2, "exit_code"), ("reject", 1, "rejected")]
)
async def test_a_script_repaired_before_it_runs_again_is_put_to_a_person_as_it_is_now(
    make, word, ran, told
):
    async with make({"main/coder": [DEPLOY, says("I see")]}) as world:
        mark = lay_out(world.folder)
        await world.say("Deploy", "coder")
        [first] = await world.pending()
        await settle(world, first, "approve")
        await is_running(mark)
        await world.restart()
        lost = await doubt(world)
        hurry(world)
        asked_before = await world.log()
        await settle(world, lost, "approve")
        await world.until("approval_requested", kind="tool", after=len(asked_before))
        await world.idle()
        [again] = await world.pending()

        [stale] = await world.audit("tool.stale")
        assert "A file changed" in stale.details["reason"]
        assert (again.subject, again.details["preview"]) == ("execute_command", "sh deploy.sh")
        assert deploys(world.folder) == 1
        events = await world.decide(again.call_id, word)

        assert deploys(world.folder) == ran
        assert told in str(of(events, "tool_result")[0])


@pytest.mark.feature(33, 212)
async def test_within_a_plan_a_repaired_script_runs_again_as_the_plan_allows(make):
    async with cut_off(make, script()) as (world, plan_id, lost):
        hurry(world)
        await settle(world, lost, "approve")
        await world.until("plan_completed")

        assert (await standing(world, plan_id))[2] == {"x": "completed", "last": "completed"}
        assert len(await world.audit("tool.stale")) == 1
        assert deploys(world.folder) == 2


@pytest.mark.feature(33, 212)
async def test_what_a_rule_forbids_meanwhile_does_not_run_again_and_the_model_goes_on(make):
    async with cut_off(make, script()) as (world, _, lost):
        rule = {"decision": "deny", "command": "sh *"}
        await world.runtime.sessions.add_rule(world.ann, world.session, rule)
        await settle(world, lost, "approve")
        await world.until("plan_completed")

        [denied] = await world.audit("tool.denied")
        first, again, anew = of(await world.log(), "tool_result")[-3:]
        assert denied.details["call_id"] == anew["call_id"] != again["call_id"]
        assert anew["error"].startswith("policy_denied")
        assert first["call_id"] == lost.call_id
        [told] = [m.content for m in world.model.asked("x")[-1].messages if m.role == "tool"]
        assert told == anew["error"]
        assert deploys(world.folder) == 1
