"""A plan is proposed, shown, and decided once by a person; nothing of it happens before."""

import pytest

from fakes.world import call, calls, kinds, of, on_both, plan, says, step, write
from gonogo.domain.errors import (
    AlreadyDecided,
    Conflict,
    Forbidden,
    InvalidMessage,
    InvalidPlan,
    NotFound,
)
from gonogo.domain.identity import Principal, Role

TODO = plan(
    step("model", estimated_time="10 min"),
    step("view", "model", agent="universal"),
    step("check", "model", "view", agent="debug", estimated_time="3 min"),
    goal="Приложение TODO",
)
LINES = {
    "main/orchestrator": [
        calls(call("switch_mode", mode="architect", reason="several steps", confidence=0.9)),
        says("Всегда пожалуйста"),
    ],
    "main/architect": [TODO, says("Хорошо")],
    "model": [calls(write("model.py")), says("model is there")],
    "view": [calls(write("view.py")), says("view is there")],
    "check": [says("all is well")],
    "other": [calls(write("other.py")), says("other is there")],
}


@pytest.mark.feature(1, 2, 3, 5, 50)
async def test_a_complex_request_ends_with_a_plan_of_the_architect(make):
    async with make(LINES) as world:
        events = await world.say("Создай TODO приложение")

        switched = of(events, "agent_switched", to_agent="architect")
        shown = events[-1]
        assert kinds(events).index("agent_switched") < kinds(events).index("plan_notification")
        assert switched[0]["metadata"]["reason"] == "several steps"
        assert shown["type"] == "plan_notification"
        assert shown["is_final"] is True
        assert shown["agent"] == "architect"
        facts = shown["metadata"]
        assert facts["subtask_count"] == len(facts["subtasks"]) == 3
        assert facts["requires_approval"] is True
        assert facts["revision"] == 1
        for subtask in facts["subtasks"]:
            assert {"id", "description", "agent", "estimated_time", "dependencies"} <= set(subtask)
        assert [e for e in events if e.get("is_final")] == [shown]


@pytest.mark.feature(4, 62)
async def test_the_plan_is_shown_in_russian_with_all_that_is_decided(make):
    async with make(LINES) as world:
        content = (await world.say("Создай TODO приложение"))[-1]["content"]

        for word in (
            "model",
            "view",
            "check",
            "coder",
            "universal",
            "debug",
            "10\N{NO-BREAK SPACE}мин",
            "3\N{NO-BREAK SPACE}мин",
        ):
            assert word in content
        assert "после: `model`, `view`" in content
        assert "План" in content
        for decision in ("approve", "edit", "reject"):
            assert decision in content
        approval = (await world.pending())[0]
        assert approval.reason == "Выполнить план «Приложение TODO» (3 подзадачи)?"


@pytest.mark.feature(5, 65)
async def test_nothing_happens_before_the_decision(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        await world.idle()

        log = await world.log()
        assert not of(log, "subtask_started")
        assert [e["tool_name"] for e in of(log, "tool_call")] == ["create_plan"]
        assert list(world.folder.iterdir()) == []
        await world.decide_plan(plan_id)
        log = await world.log()
        go = kinds(log).index("plan_approved")
        effects = [n for n, e in enumerate(log) if e.get("tool_name") == "write_file"]
        assert effects
        assert min(effects) > go


@pytest.mark.each_database
@on_both
@pytest.mark.feature(6, 18, 19, 20, 21, 63)
async def test_an_approved_plan_runs_to_its_end(make):
    async with make(LINES) as world:
        await world.say("Создай TODO приложение")
        plan_id = (await world.pending())[0].plan_id
        events = await world.decide_plan(plan_id)

        approved = of(events, "plan_approved")[0]
        assert approved["content"] == "План подтвержден. Начинаю выполнение 3 подзадач..."
        assert approved["metadata"] == {"plan_id": plan_id, "revision": 1, "subtask_count": 3}
        started = of(events, "subtask_started")
        assert [e["content"] for e in started] == [
            "Subtask 1/3: Do model", "Subtask 2/3: Do view", "Subtask 3/3: Do check",
        ]  # fmt: skip
        assert {e["metadata"]["subtask_status"] for e in started} == {"in_progress"}
        assert [e["agent"] for e in started] == ["coder", "universal", "debug"]
        for event in events:
            if event.get("subtask_id") == "view":
                assert event["agent"] == "universal"
        progress = [e["metadata"] for e in of(events, "plan_progress")]
        assert [p["done"] for p in progress] == [1, 2, 3]
        assert [p["percentage"] for p in progress] == [33.3, 66.7, 100.0]
        ended = events[-1]
        assert ended["type"] == "plan_completed"
        assert ended["content"].startswith("Plan Execution Complete\n- Total: 3\n- Completed: 3")
        assert ended["agent"] == "architect"
        assert kinds(events)[-2] == "agent_switched"
        assert events[-2]["metadata"]["to_agent"] == "orchestrator"
        assert [e for e in events if e.get("is_final")] == [ended]
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert (session.agent, session.active_plan_id) == ("orchestrator", None)
        assert (await world.say("Спасибо"))[-1]["content"] == "Всегда пожалуйста"


@on_both
@pytest.mark.feature(7, 16)
@pytest.mark.parametrize(
    ("said", "task", "text"),
    [
        ("Этот подход не подходит", "Создай", "План отменен. Этот подход не подходит"),
        ("Too risky", "Build it", "Plan cancelled. Too risky"),
    ],
)
async def test_a_rejection_says_why(make, said, task, text):
    async with make(LINES) as world:
        plan_id = await world.propose(task)
        rejected = (await world.decide_plan(plan_id, "reject", feedback=said))[-1]

        assert rejected["type"] == "plan_rejected"
        assert rejected["content"] == text
        assert rejected["metadata"] == {"plan_id": plan_id, "feedback": said}
        assert rejected["is_final"] is True
        found = await world.runtime.plans.get(world.ann, plan_id)
        assert (found.status, found.feedback) == ("rejected", said)
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert (session.agent, session.active_plan_id) == ("orchestrator", None)
        entry = (await world.audit("plan.rejected"))[0]
        assert entry.details["decision"]["feedback"] == said
        assert entry.details["original"] == task


@pytest.mark.feature(8)
@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Создай", "План отменен. Чем могу помочь?"),
        ("Build it", "Plan cancelled. How can I help?"),
    ],
)
async def test_a_rejection_without_a_reason_asks_how_to_help(make, task, text):
    async with make(LINES) as world:
        plan_id = await world.propose(task)
        rejected = (await world.decide_plan(plan_id, "reject"))[-1]

        assert rejected["content"] == text
        assert "feedback" not in rejected["metadata"]


@on_both
@pytest.mark.feature(9, 39, 206)
async def test_an_edited_plan_runs_as_the_person_wrote_it(make):
    async with make(LINES) as world:
        plan_id = await world.propose("Создай")
        edited = [
            step("model", estimated_time="2 min"),
            {"description": "Do other", "agent": "coder", "dependencies": [0], "id": "other"},
        ]
        events = await world.decide_plan(plan_id, "edit", modified_subtasks=edited, revision=1)

        approved = of(events, "plan_approved")[0]
        assert approved["content"] == "План обновлен. Начинаю выполнение 2 подзадач..."
        assert approved["metadata"]["was_edited"] is True
        assert approved["metadata"]["revision"] == 2
        started = [e["subtask_id"] for e in of(events, "subtask_started")]
        assert started == ["model", "other"]
        assert not of(events, "approval_requested")
        assert world.read("view.py") is None
        assert world.read("other.py") == "made\n"
        diff = await world.runtime.plans.diff(world.ann, plan_id, 1, 2)
        assert [s.id for s in diff.added] == ["other"]
        assert [s.id for s in diff.removed] == ["view", "check"]
        assert diff.changed == [
            {"id": "model", "fields": {"estimated_time": {"from": "10 min", "to": "2 min"}}}
        ]
        revisions = await world.runtime.plans.revisions(world.ann, plan_id)
        assert [(r.revision, r.reason) for r in revisions] == [(1, "proposed"), (2, "edited")]


@pytest.mark.feature(16, 17)
async def test_every_decision_about_a_plan_is_in_the_audit(make):
    async with make(LINES) as world:
        plan_id = await world.propose("Создай")
        changes = [step("other")]
        await world.decide_plan(plan_id, "edit", modified_subtasks=changes, feedback="короче")

        entry = (await world.audit("plan.edited"))[0]
        assert (entry.chain, entry.actor) == (world.session, "user:ann")
        assert entry.details["plan_id"] == plan_id
        assert entry.details["original"] == "Создай"
        assert entry.details["decision"]["decision"] == "edit"
        assert entry.details["decision"]["changes"] == changes
        assert entry.details["decision"]["feedback"] == "короче"
        assert entry.ts is not None
        found = await world.audit()
        assert [e.seq for e in found] == list(range(1, len(found) + 1))
        assert await world.runtime.audit.entries(world.ann, "no-such-session") == []
        assert (await world.runtime.audit.verify(world.ann)).ok


@pytest.mark.feature(10)
async def test_an_edit_needs_subtasks(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        with pytest.raises(InvalidPlan, match=r"^EDIT decision requires modified_subtasks$"):
            await world.decide_plan(plan_id, "edit")

        assert [a.plan_id for a in await world.pending()] == [plan_id]
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "awaiting_approval"


@pytest.mark.feature(11)
async def test_an_unknown_decision_changes_nothing(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        before = await world.log()
        with pytest.raises(InvalidMessage, match=r"^Invalid plan decision: perhaps$"):
            await world.decide_plan(plan_id, "perhaps")

        assert await world.log() == before
        assert [a.plan_id for a in await world.pending()] == [plan_id]


@pytest.mark.feature(12)
async def test_a_decision_about_no_plan_runs_nothing(make):
    async with make(LINES) as world:
        await world.propose()
        before = await world.log()
        with pytest.raises(NotFound, match=r"^No plan found with id=plan_x$"):
            await world.decide_plan("plan_x")

        assert await world.log() == before


@pytest.mark.feature(57)
@pytest.mark.parametrize(
    ("subtasks", "message"),
    [
        ([step("a", "b"), step("b", "a")], "cycle.*a.*b.*a"),
        ([step("a", "a")], "'a' depends on itself"),
        ([step("a", "ghost")], "'a' depends on unknown 'ghost'"),
        ([step("a", agent="architect")], "cannot carry out subtasks"),
        ([step("a"), step("a")], "Two subtasks have the id 'a'; change one of them"),
    ],
)
async def test_an_edit_that_is_no_plan_changes_nothing(make, subtasks, message):
    async with make(LINES) as world:
        plan_id = await world.propose()
        before = await world.log()
        with pytest.raises(InvalidPlan, match=message):
            await world.decide_plan(plan_id, "edit", modified_subtasks=subtasks)

        assert await world.log() == before
        assert len(await world.runtime.plans.revisions(world.ann, plan_id)) == 1
        assert len(await world.pending()) == 1


@pytest.mark.feature(15)
async def test_a_plan_says_whether_it_was_approved(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        before = await world.runtime.plans.get(world.ann, plan_id)
        await world.decide_plan(plan_id)
        after = await world.runtime.plans.get(world.ann, plan_id)

        assert (before.requires_approval, before.is_approved) == (True, False)
        assert (after.requires_approval, after.is_approved) == (True, True)


@pytest.mark.feature(203)
async def test_the_first_decision_wins_and_the_other_is_told_who_and_when(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, "reject")
        with pytest.raises(AlreadyDecided, match=r"rejected by ann at 20\d\d-"):
            await world.decide_plan(plan_id, by=world.runtime.owner)
        with pytest.raises(AlreadyDecided, match="rejected by ann"):
            await world.decide_plan(plan_id, "approve")

        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "rejected"


@pytest.mark.feature(203)
async def test_the_same_decision_again_gives_the_same_answer(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        first = await world.decide_plan(plan_id)
        again = await world.decide_plan(plan_id)

        assert again == first
        assert len(await world.audit("plan.approved")) == 1


@pytest.mark.feature(201)
async def test_a_decision_about_another_digest_or_revision_is_a_conflict(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        digest = (await world.pending())[0].digest
        with pytest.raises(Conflict, match="sha256:"):
            await world.decide_plan(plan_id, digest="sha256:0")
        with pytest.raises(Conflict) as conflict:
            await world.decide_plan(plan_id, revision=2)

        assert str(conflict.value) == (
            f"The plan is at revision 1 ({digest}), not 2; look at the plan again"
        )
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "awaiting_approval"
        events = await world.decide_plan(plan_id, digest=digest)
        assert events[-1]["type"] == "plan_completed"


@pytest.mark.feature(202)
async def test_a_viewer_decides_nothing(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        viewer = Principal(id="user:ann", name="ann", role=Role.VIEWER)
        with pytest.raises(Forbidden):
            await world.decide_plan(plan_id, by=viewer)

        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "awaiting_approval"


async def test_a_plan_of_somebody_else_does_not_exist(make):
    async with make(LINES) as world:
        plan_id = await world.propose()
        with pytest.raises(NotFound, match=f"^No plan found with id={plan_id}$"):
            await world.decide_plan(plan_id, by=world.bob)

        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "awaiting_approval"


@pytest.mark.feature(13, 14, 202)
@pytest.mark.parametrize(
    ("task", "said", "text"),
    [
        ("Создай", "да, выполняй", "Ожидаю подтверждения плана..."),
        ("Build it", "yes, approve, run it", "Waiting for the plan to be decided..."),
    ],
)
async def test_words_in_the_chat_decide_nothing_and_are_answered_later(make, task, said, text):
    lines = {**LINES, "main/orchestrator": [says("Here I am")]}
    async with make(lines) as world:
        plan_id = await world.propose(task)
        events = await world.say(said)

        assert [e["content"] for e in events if e.get("is_final")] == [text]
        await world.idle()
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "awaiting_approval"
        assert len(world.model.asked("main")) == 1
        await world.decide_plan(plan_id, "reject")
        await world.until("assistant_message", content="Here I am", is_final=True)
        assert world.model.asked("main")[-1].messages[-1].content == said
