"""A plan that a person wrote: no model makes it, and all else is as for an architect's."""

import threading

import anyio
import anyio.to_thread
import pytest

from fakes.door import client_of
from fakes.world import LIMIT, call, calls, kinds, of, on_both, plan, says, step, write
from gonogo.domain.errors import Conflict, Forbidden, InvalidPlan, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import PlanDecision
from gonogo.domain.plan import MAX_DESCRIPTION, MAX_GOAL
from gonogo.store.calls import approval_of

TWO = [step("one", scope={"paths": ["one.py"]}), step("two", "one")]
LINES = {
    "main/orchestrator": [says("Hello"), says("Still here")],
    "main/architect": [plan(*TWO)],
    "one": [calls(write("one.py")), says("one is done")],
    "two": [says("two is done")],
}
CYCLE = [step("one", "two"), step("two", "one")]
ADA = Principal(id="user:ada", name="ada", role=Role.ADMIN)


async def session_of(world, by=None, **more):
    """A session of somebody's in which nothing was said."""
    opened = await world.runtime.sessions.open(by or world.ann, **more)
    world.session = opened.session_id
    return opened.session_id


async def written(world, subtasks=TWO, by=None, goal="A goal"):
    """The view of a plan that somebody wrote in the world's session."""
    return await world.runtime.plans.create(by or world.ann, world.session, goal, subtasks)


async def nothing_was_made(world, events=0):
    assert (await world.runtime.plans.page(world.ann)).total == 0
    assert len(await world.log()) == events
    assert await world.audit("plan.written") == []
    assert await world.history("user") == []


@on_both
@pytest.mark.feature(241)
async def test_a_plan_of_a_persons_own_is_shown_decided_and_carried_out_and_no_model_made_it(make):
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world)

        assert (mine.status, mine.revision, mine.made_by) == ("awaiting_approval", 1, "ann")
        assert world.model.requests == []
        assert kinds(await world.log()) == [
            "agent_switched", "approval_requested", "plan_notification",
        ]  # fmt: skip
        told = (await world.log())[-1]
        assert "agent" not in told
        assert told["is_final"] is True
        assert told["metadata"]["made_by"] == "ann"
        assert "Written by ann, not by a model." in told["content"]
        [question] = await world.pending()
        assert question.details["made_by"] == "ann"
        assert question.details["findings"] == told["metadata"]["findings"] != []

        ended = (await world.decide_plan(mine.plan_id))[-1]
        assert (ended["type"], ended["metadata"]["status"]) == ("plan_completed", "completed")
        assert world.read("one.py") == "made\n"
        assert {request.thread for request in world.model.requests} == {"one", "two"}


@pytest.mark.feature(241)
async def test_who_wrote_a_plan_is_in_the_audit_log_its_revision_and_every_view_of_it(make):
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world)
        [entry] = await world.audit("plan.written")
        assert (entry.actor, entry.subject) == ("user:ann", mine.plan_id)
        assert entry.details["digest"] == mine.digest
        [revision] = await world.runtime.plans.revisions(world.ann, mine.plan_id)
        assert (revision.created_by, revision.reason) == ("user:ann", "written")
        listed = await world.runtime.plans.page(world.ann)
        assert [plan.made_by for plan in listed.plans] == ["ann"]
        found = await world.runtime.plans.get(world.ann, mine.plan_id)
        assert found == mine

        await world.decide_plan(mine.plan_id, "reject")
        theirs = await world.propose()
        found = await world.runtime.plans.get(world.ann, theirs)
        assert found.made_by is None


@pytest.mark.feature(241)
@pytest.mark.parametrize(
    ("goal", "subtasks", "said"),
    [
        ("A goal", CYCLE, "cycle"),
        ("A goal", [step("one", agent="nobody")], "no agent 'nobody'"),
        ("A goal", [{"id": "one", "description": "Do it"}], "agent: Field required"),
        ("A goal", [step("one", scope={"tools": ["no_such_tool"]})], "no_such_tool"),
        ("A goal", [], "at least one subtask"),
        (" ", TWO, "a plan needs a goal"),
        ("g" * (MAX_GOAL + 1), TWO, "goal: at most"),
    ],
)
async def test_a_plan_with_a_defect_is_refused_and_nothing_is_made(make, goal, subtasks, said):
    async with make(LINES) as world:
        await session_of(world)
        checked = await world.runtime.plans.check_new(world.ann, goal, subtasks)
        with pytest.raises(InvalidPlan, match=said):
            await written(world, subtasks, goal=goal)
        await nothing_was_made(world)
        errors = [f.message for f in checked.findings if f.severity == "error"]
        assert not checked.ok
        assert said in " ".join([checked.problem or "", *errors])


async def test_looking_a_plan_over_says_what_its_making_would_and_changes_nothing(make):
    async with make(LINES) as world:
        await session_of(world)
        checked = await world.runtime.plans.check_new(world.ann, "A goal", TWO)
        await nothing_was_made(world)
        await written(world)
        [question] = await world.pending()
    assert checked.ok
    told = [f.model_dump(mode="json", exclude_none=True) for f in checked.findings]
    assert told == question.details["findings"]
    assert checked.critical_path == ["one", "two"]


async def test_while_a_plan_is_looked_over_everything_else_goes_on(make):
    async with make(LINES) as world:
        beats = [0]

        async def beat():
            while True:
                beats[0] += 1
                await anyio.lowlevel.checkpoint()

        many = [step(f"s{n}", *(f"s{m}" for m in range(n))) for n in range(60)]
        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            await anyio.lowlevel.checkpoint()
            before = beats[0]
            assert (await world.runtime.plans.check_new(world.ann, "A goal", many)).ok
            assert beats[0] > before + 2
            group.cancel_scope.cancel()


async def test_what_is_wrong_with_a_plan_is_found_without_keeping_others_from_writing(make):
    async with make(LINES) as world:
        await session_of(world)
        begun, over = threading.Event(), threading.Event()

        def write(tx):
            begun.set()
            assert over.wait(LIMIT)

        async with anyio.create_task_group() as group:
            group.start_soon(world.runtime.parts.store.write, write)
            await anyio.to_thread.run_sync(begun.wait, LIMIT)
            try:
                with anyio.fail_after(LIMIT / 2), pytest.raises(InvalidPlan, match="no agent"):
                    await written(world, [step("one", agent="nobody")])
                with anyio.fail_after(LIMIT / 2), pytest.raises(InvalidPlan, match="no_such_tool"):
                    await written(world, [step("one", scope={"tools": ["no_such_tool"]})])
            finally:
                over.set()
        await nothing_was_made(world)


async def test_of_a_long_goal_agents_are_told_the_beginning(make):
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world, goal="Begin " + "g" * (MAX_GOAL - 6))
        assert len(mine.goal) == MAX_GOAL
        [told] = await world.history("user")
        assert "Begin ggg" in str(told)
        assert MAX_DESCRIPTION < len(str(told)) < MAX_GOAL / 2


@pytest.mark.feature(241)
async def test_a_session_has_one_plan_that_is_not_over_and_another_is_refused(make):
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world)
        before = await world.log()
        with pytest.raises(Conflict, match=mine.plan_id):
            await written(world)
        assert await world.log() == before

        await world.decide_plan(mine.plan_id, "reject")
        again = await written(world)
        assert again.plan_id != mine.plan_id


@pytest.mark.each_database
async def test_of_several_plans_at_the_same_moment_a_session_gets_one(make):
    async with make(LINES) as world:
        await session_of(world)
        made, refused = [], []

        async def write_one():
            try:
                made.append(await written(world))
            except Conflict:
                refused.append(1)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(write_one)
        assert (len(made), len(refused)) == (1, 4)
        assert (await world.runtime.plans.page(world.ann)).total == 1
        assert len(await world.pending()) == 1


async def test_while_a_message_is_answered_a_plan_is_refused_and_after_it_taken(make):
    asks = calls(call("ask_followup_question", question="Which one?"))
    lines = {**LINES, "main/orchestrator": [asks, says("Fine")]}
    async with make(lines) as world:
        await world.say()
        with pytest.raises(Conflict, match="is answering a message"):
            await written(world)
        await world.say("The first")
        assert (await written(world)).status == "awaiting_approval"


async def test_a_message_meanwhile_waits_for_the_plan_and_its_agent_knows_the_plan(make):
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world, goal="Сделать один файл")
        assert (await world.runtime.sessions.get(world.ann, world.session)).title == mine.goal
        told = await world.say("Что дальше?")
        assert [event["content"] for event in told] == ["Ожидаю подтверждения плана..."]
        await world.decide_plan(mine.plan_id)
        await world.idle()
        [request] = world.model.asked("main")
        said = str(request.messages)
        assert "Пользователь составил этот план сам" in said
        assert "plan-1" in said


RULES = '[[review]]\nkind = "plan"\nnot_requester = true\nreviewers = ["ann", "bob", "ada"]\n'


async def approve(world, plan_id, who):
    return await world.runtime.approvals.decide(
        who, PlanDecision(plan_id=plan_id, decision="approve")
    )


@pytest.mark.feature(241)
async def test_where_a_rule_forbids_it_who_wrote_a_plan_does_not_approve_it(make, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text(RULES)
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world)
        with pytest.raises(Forbidden):
            await approve(world, mine.plan_id, world.ann)
        assert world.read("one.py") is None
        await approve(world, mine.plan_id, world.bob)
        await world.until("plan_completed")
        assert world.read("one.py") == "made\n"


def made_by(notices):
    """Who is said to have made each revision: a person, or the agent that tells of it."""
    return [(e["metadata"].get("made_by"), e.get("agent")) for e in notices]


@pytest.mark.feature(241)
async def test_what_people_edit_in_a_plan_of_their_own_no_agent_is_said_to_have_made(
    make, tmp_path
):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text(RULES)
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world)
        edit = {"decision": "edit", "modified_subtasks": [step("one")]}
        await world.runtime.approvals.decide(world.ann, PlanDecision(plan_id=mine.plan_id, **edit))
        [question] = await world.pending()
        assert (question.details["made_by"], question.details["edited_by"]) == ("ann", "ann")
        told = of(await world.log(), "plan_notification")
        assert made_by(told) == [("ann", None), ("ann", None)]
        assert "Written by ann, not by a model." in told[-1]["content"]


async def test_an_admins_plan_in_somebody_elses_session_is_asked_for_by_the_admin(make, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text(RULES)
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world, by=ADA)
        [question] = await world.pending()
        asked = await world.runtime.parts.store.read(approval_of, question.approval_id)
        assert asked.requested_by == ADA.id
        with pytest.raises(Forbidden):
            await approve(world, mine.plan_id, ADA)
        assert (await approve(world, mine.plan_id, world.ann)).outcome == "decided"


async def test_a_plan_is_written_by_who_may_send_messages_in_a_session_of_theirs(make):
    async with make(LINES) as world:
        await session_of(world)
        viewer = Principal(id=world.ann.id, name="ann", role=Role.VIEWER)
        with pytest.raises(Forbidden):
            await written(world, by=viewer)
        with pytest.raises(Forbidden):
            await world.runtime.plans.check_new(viewer, "A goal", TWO)
        with pytest.raises(NotFound):
            await written(world, by=world.bob)
        await nothing_was_made(world)


@pytest.mark.feature(241)
async def test_a_plan_of_a_persons_own_is_replanned_by_the_architect_as_any_other(make):
    lost = calls(call("attempt_completion", result="Agent x not found", success=False))
    lines = {
        **LINES, "two": [lost], "three": [says("three is done")],
        "replan-1": [plan(step("three", "one"))],
    }  # fmt: skip
    async with make(lines) as world:
        await session_of(world)
        mine = await written(world)
        asked = (await world.decide_plan(mine.plan_id))[-1]
        assert (asked["type"], asked["agent"]) == ("plan_notification", "architect")
        assert "made_by" not in asked["metadata"]
        ended = (await world.decide_plan(mine.plan_id, revision=2))[-1]
        assert ended["metadata"]["status"] == "completed"
        assert (await world.runtime.plans.get(world.ann, mine.plan_id)).made_by == "ann"


@pytest.mark.feature(241)
async def test_a_plan_that_waits_when_the_process_ends_is_decided_after_the_next_start(make):
    async with make(LINES) as world:
        await session_of(world)
        mine = await written(world)
        await world.restart()
        await world.decide_plan(mine.plan_id)
        assert world.read("one.py") == "made\n"


@pytest.mark.feature(241)
async def test_over_http_a_repeated_plan_is_one_and_what_a_plan_shows_can_be_sent_again(make):
    async with make(LINES) as world, client_of(world) as client:
        opened = await client.open_session()
        world.session = opened.session_id
        body = {"session_id": opened.session_id, "goal": "A goal", "subtasks": TWO}
        key = {"Idempotency-Key": "one-plan"}
        first, second = [
            await client._http.post("/api/v1/plans", json=body, headers=key) for _ in range(2)
        ]
        assert (first.status_code, first.json()) == (201, second.json())
        refused = await client._http.post("/api/v1/plans", json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        bad = await client._http.post("/api/v1/plans", json={**body, "subtasks": CYCLE[:1]})
        assert (bad.status_code, bad.json()["code"]) == (422, "invalid_plan")
        assert bad.json()["subtask_id"] == "one"

        mine = await client.plan(first.json()["plan_id"])
        other = await client.open_session()
        shown = [s.model_dump(mode="json", exclude_none=True) for s in mine.subtasks]
        with anyio.fail_after(LIMIT):
            again = await client.create_plan(other.session_id, mine.goal, shown)
        first_made = await client.plan_revision(mine.plan_id, 1)
        assert (await client.plan_revision(again.plan_id, 1)).subtasks == first_made.subtasks
        assert (await client.check_new_plan("A goal", CYCLE)).ok is False
        assert of(await world.log(), "plan_notification", plan_id=mine.plan_id)
