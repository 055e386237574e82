"""A database of an older gonogo, taken up in the middle of its work, goes on to the end."""

from datetime import timedelta

import pytest

from fakes.world import calls, of, says, world_of, write
from gonogo.domain.states import PlanStatus
from gonogo.execution.plans.ending import take_up
from gonogo.store import Store
from gonogo.store.plans import list_plans, revision_of
from store.older import KILLED, OPEN, RUNNING, load

LINES = {
    "anywhere": [calls(write("anywhere.txt")), says("written")],
    "unsaid": [says("tested")],
    "bare": [says("bare")],
    "narrow": [calls(write("src/a.py", "a = 1\n")), says("narrow")],
    "online": [calls(write("online.txt")), says("online")],
    "asks": [says("never asked again"), says("asked")],
    "works": [says("never asked again"), calls(write("more.txt")), says("works")],
    "later": [says("later")],
}


@pytest.fixture
async def world(empty_url, kind, tmp_path):
    """A runtime on the older database, a minute after it was killed."""
    home = tmp_path / "home"
    home.mkdir()
    url = empty_url if kind == "postgresql" else f"sqlite:///{home / 'gonogo.db'}"
    load(url, tmp_path / "work")

    async with world_of(tmp_path, LINES, at=KILLED + timedelta(minutes=1), db=url) as world:
        yield world


async def test_what_was_left_out_of_a_scope_of_its_plans_still_means_all(world):
    world.session = OPEN
    [question] = await world.pending()

    plan = await world.runtime.plans.get(world.ann, question.plan_id)
    scopes = {subtask.id: subtask.scope for subtask in plan.subtasks}

    # `[]` was written for what had been left out, and its digest is that of what was written.
    assert plan.digest == question.digest
    assert scopes["anywhere"] == {"commands": [], "network": False}
    assert scopes["unsaid"] == {"commands": ["pytest -q"], "network": False}
    assert scopes["narrow"]["paths"] == ["src/**"]
    revision = await world.runtime.parts.store.read(revision_of, question.plan_id, 1)
    assert revision.digest == question.digest


async def test_what_is_edited_of_its_plan_is_written_in_the_new_form(world):
    world.session = OPEN
    [question] = await world.pending()
    kept = [
        {"id": "anywhere", "description": "Write", "agent": "coder"},
        {"id": "bare", "description": "Look", "agent": "coder", "scope": {"paths": []}},
    ]

    await world.decide_plan(question.plan_id, "edit", modified_subtasks=kept)
    edited = await world.runtime.parts.store.read(revision_of, question.plan_id, 2)

    assert [s.scope and s.scope.paths for s in edited.subtasks] == [None, ()]
    assert edited.written is None


async def test_what_is_done_again_of_its_plan_is_bound_in_the_new_form(empty_url, tmp_path):
    load(empty_url, tmp_path / "work")
    store = Store(empty_url, clock=lambda: KILLED)
    [running], _ = await store.read(list_plans, session_id=RUNNING)

    plan = await store.write(take_up, running, {}, "user:ann", "again")
    again = await store.read(revision_of, plan.id, 2)
    store.close()

    assert again.digest == plan.digest != running.digest
    paths = [again.by_id[key].scope.paths for key in ("first", "last")]
    assert paths == [None, ("last.txt",)]


async def test_its_plan_that_waits_is_approved_and_carried_out(world):
    world.session = OPEN
    [question] = await world.pending()

    events = await world.decide_plan(question.plan_id)

    assert events[-1]["metadata"]["status"] == PlanStatus.COMPLETED
    # None of its questions is new: what the person read is what the scopes allow.
    assert of(events, "approval_requested") == []
    assert world.read("anywhere.txt") == world.read("online.txt") == "made\n"
    assert world.read("notes.txt") == "noted\n"


async def test_its_plan_that_ran_goes_on_where_it_was(world):
    world.session = RUNNING
    [question] = await world.pending()
    await world.decide(question.call_id)

    ended = await world.until("plan_completed")

    assert (ended["metadata"]["completed"], ended["metadata"]["total"]) == (5, 5)
    assert [r.thread for r in world.model.requests if r.thread == "first"] == []
    assert world.read("more.txt") == "made\n"
    assert (world.read("elsewhere.txt"), world.read("last.txt")) == ("asked\n", "done\n")


async def test_its_audit_is_whole_before_and_after_more_is_written(world):
    before = await world.runtime.audit.verify(world.runtime.owner)
    world.session = OPEN
    [question] = await world.pending()
    await world.decide_plan(question.plan_id)
    after = await world.runtime.audit.verify(world.runtime.owner)

    assert (before.problems, after.problems) == ([], [])
    assert after.entries > before.entries > 20


async def test_its_sessions_are_as_they_were(world):
    found = await world.runtime.sessions.page(world.ann, 10, 0)
    world.session = OPEN
    said = [message.content for message in await world.history("user")]
    [question] = await world.pending()
    comments = await world.runtime.plans.comments(world.ann, question.plan_id)

    assert {session.session_id for session in found.sessions} == {OPEN, RUNNING}
    assert {(session.model, session.unattended) for session in found.sessions} == {(None, False)}
    assert said[0] == "Note that we sell shoes"
    assert [comment.content for comment in comments.comments] == ["Which sizes?"]
