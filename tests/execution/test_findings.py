"""What the orchestrator says of a plan before a decision, and how it stops what goes nowhere."""

from pathlib import Path

import pytest

from fakes.world import call, calls, of, plan, says, step, world_of, write


@pytest.mark.feature(204)
async def test_findings_stand_beside_the_plan_and_in_its_text(tmp_path: Path) -> None:
    twins = plan(
        step("one", scope={"paths": ["src/**"]}),
        step("two", scope={"paths": ["src/app.py"], "tools": ["write_file", "delete_file"]}),
    )
    async with world_of(tmp_path, {"main/architect": [twins]}) as world:
        shown = (await world.say("Build it", agent="architect"))[-1]

        codes = {finding["code"] for finding in shown["metadata"]["findings"]}
        assert {"overlapping_writers", "irreversible_tool", "no_verification"} <= codes
        for finding in shown["metadata"]["findings"]:
            assert finding["severity"] in {"warning", "info"}
            assert finding["message"] in shown["content"]


@pytest.mark.feature(204)
async def test_a_declared_command_that_asks_all_the_same_is_said_in_the_language_of_the_session(
    tmp_path: Path,
) -> None:
    one = plan(step("one", scope={"commands": ["git push", "python3 -m notes", "whoami"]}))
    async with world_of(tmp_path, {"main/architect": [one]}, locale="ru") as world:
        shown = (await world.say("Сделай", agent="architect"))[-1]

        said = {f["code"]: f["message"] for f in shown["metadata"]["findings"]}
        assert said["command_asks"] == (
            "one: git push всё равно потребует одобрения: команды «git push» нет в списке "
            "разрешённых команд git"
        )
        assert said["command_whole"].startswith("one: whoami выполняется ровно в этом виде")
        assert not any("notes" in message for message in said.values())


@pytest.mark.feature(204)
async def test_a_finding_that_is_an_error_keeps_the_plan_from_a_person_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    wrong = plan(step("one", scope={"tools": ["teleport"]}))
    right = plan(step("one", scope={"tools": ["write_file"], "paths": ["a.txt"]}))
    async with world_of(tmp_path, {"main/architect": [wrong, right]}) as world:
        events = await world.say("Build it", agent="architect")

        refused, stored = of(events, "tool_result", tool_name="create_plan")
        assert refused["error"].startswith("invalid_plan: ")
        assert "teleport" in refused["error"]
        assert stored["result"]["subtasks_count"] == 1
        assert len(of(events, "plan_notification")) == 1


@pytest.mark.feature(204)
async def test_an_edit_is_looked_over_before_it_is_sent_and_nothing_changes(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, {"main/architect": [plan(step("one"))]}) as world:
        plan_id = await world.propose()

        async def check(**fields: object):
            draft = {"id": "one", "description": "One", "agent": "coder", **fields}
            return await world.runtime.plans.check(world.ann, plan_id, [draft])

        good = await check(scope={"paths": ["a.txt"]})
        assert (good.ok, good.problem) == (True, None)
        assert {f.code for f in (await check(scope=None)).findings} >= {"no_scope"}
        wrong = await check(scope={"tools": ["teleport"]})
        [error] = [f for f in wrong.findings if f.severity == "error"]
        assert (wrong.ok, error.subtask_id) == (False, "one")
        assert "teleport" in error.message
        unread = await check(timeout=-1)
        assert not unread.ok
        assert "timeout" in (unread.problem or "")
        assert len(await world.runtime.plans.revisions(world.ann, plan_id)) == 1


@pytest.mark.feature(215)
async def test_the_same_call_with_the_same_result_again_and_again_is_stopped_and_said(
    tmp_path: Path,
) -> None:
    again = calls(call("list_files", path="."))
    async with world_of(tmp_path, {"main/ask": [again] * 50}) as world:
        last = (await world.say("What is there?", agent="ask"))[-1]

        assert (last["type"], last["is_final"]) == ("error", True)
        assert "same call" in last["error"]
        assert len(world.model.asked("main")) < 10


@pytest.mark.feature(115)
async def test_a_subtask_with_a_false_condition_is_skipped_with_the_reason(tmp_path: Path) -> None:
    lines = {
        "main/architect": [
            plan(step("look"), step("mend", "look", condition="subtasks.look.output == 'bad'"))
        ],
        "look": [says("good")],
        "mend": [calls(write("mended.txt"))],
    }
    async with world_of(tmp_path, lines) as world:
        events = await world.decide_plan(await world.propose())

        (skipped,) = of(events, "subtask_skipped", subtask_id="mend")
        assert "condition is false" in skipped["metadata"]["reason"]
        ended = events[-1]["metadata"]
        assert (ended["status"], ended["completed"], ended["skipped"]) == ("completed", 1, 1)
        assert world.read("mended.txt") is None


@pytest.mark.feature(208)
async def test_a_failed_subtask_is_tried_again_as_the_next_revision_and_what_completed_is_kept(
    tmp_path: Path,
) -> None:
    lines = {
        "main/architect": [plan(step("good"), step("bad"), step("after", "bad"))],
        "good": [calls(write("good.txt")), says("good is there")],
        "bad": [],
        "after": [says("after is there")],
    }
    async with world_of(tmp_path, lines) as world:
        plan_id = await world.propose()
        first = await world.decide_plan(plan_id)
        assert first[-1]["metadata"]["status"] == "partial"
        world.lines["bad"] = [says("bad is mended")]

        await world.runtime.plans.retry_subtask(world.ann, plan_id, "bad")
        done = await world.until("plan_completed", status="completed")

        assert done["metadata"]["completed"] == 3
        view = await world.runtime.plans.get(world.ann, plan_id)
        assert view.revision == 2
        assert len(of(await world.log(), "subtask_started", subtask_id="good")) == 1


@pytest.mark.feature(105)
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_subtask_that_asks_starts_only_when_a_person_lets_it(
    tmp_path: Path, decision: str
) -> None:
    lines = {
        "main/architect": [
            plan(step("one"), step("careful", "one", approval_required=True), step("b", "careful"))
        ],
        "one": [says("one is done")],
        "careful": [calls(write("careful.txt")), says("careful is done")],
        "b": [says("b is done")],
    }
    async with world_of(tmp_path, lines) as world:
        first = await world.decide_plan(await world.propose())
        assert (first[-1]["type"], first[-1]["is_final"]) == ("approval_requested", True)
        (asked,) = await world.pending()
        assert (asked.kind, asked.subtask_id) == ("subtask", "careful")
        await world.restart()
        assert world.read("careful.txt") is None

        answer = {"type": "hitl_decision", "approval_id": asked.approval_id, "decision": decision}
        events = await world.ask(answer)

        assert events[-1]["type"] == "plan_completed"
        let = decision == "approve"
        assert events[-1]["metadata"]["status"] == ("completed" if let else "partial")
        assert events[-1]["metadata"]["skipped"] == (0 if let else 2)
        assert (world.read("careful.txt") is not None) is let
        assert len(of(await world.log(), "subtask_started", subtask_id="one")) == 1
        assert len(of(await world.log(), "subtask_started", subtask_id="careful")) == int(let)


@pytest.mark.feature(105)
async def test_a_subtask_whose_start_is_rejected_fails_if_it_says_so(tmp_path: Path) -> None:
    careful = step("careful", approval_required=True, on_reject="fail")
    lines = {"main/architect": [plan(careful, step("b", "careful"))]}
    async with world_of(tmp_path, lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        (asked,) = await world.pending()
        events = await world.ask({
            "type": "hitl_decision", "approval_id": asked.approval_id, "decision": "reject",
            "feedback": "too early",
        })  # fmt: skip

        assert events[-1]["metadata"]["status"] == "failed"
        careful, b = (await world.runtime.plans.get(world.ann, plan_id)).subtasks
        assert (careful.status, b.status) == ("failed", "skipped")
        assert careful.error["category"] == "permission"
        assert "too early" in careful.error["message"]
        assert len(of(events, "subtask_failed", subtask_id="careful")) == 1
        assert of(events, "subtask_started", subtask_id="careful") == []


async def test_cancelling_a_plan_withdraws_the_question_of_its_subtask(tmp_path: Path) -> None:
    lines = {"main/architect": [plan(step("careful", approval_required=True))]}
    async with world_of(tmp_path, lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        assert len(await world.pending()) == 1

        await world.runtime.plans.cancel(world.ann, plan_id)

        assert await world.pending() == []
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "cancelled"
