"""Comments are kept in order, have one answer each, and the store knows which plans owe some."""

from datetime import timedelta

from fakes.rows import NOW, plan, session
from gonogo.domain.records import Comment
from gonogo.domain.states import PlanStatus
from gonogo.store.calls import (
    add_comment,
    answer_comment,
    comments_of,
    count_open_comments,
    plans_in_revision,
)
from gonogo.store.plans import add_plan, end_revising, plan_of
from gonogo.store.sessions import add_session


def comment(comment_id, plan_id="p1", after=0, **more):
    return Comment(**{
        "id": comment_id, "session_id": "s1", "plan_id": plan_id, "revision": 1,
        "subtask_id": None, "author_id": "user:ann", "author": "ann", "content": "Why?\u2028\x00",
        "created_at": NOW + timedelta(seconds=after), **more,
    })  # fmt: skip


def some(tx):
    add_session(tx, session())
    about = {"id": "r1", "by": "user:ann", "comments": ["c1"], "began": None}
    add_plan(tx, plan("p1", revising=about))
    add_plan(tx, plan("p2"))
    add_plan(tx, plan("p3", status=PlanStatus.CANCELLED, revising=about))
    add_comment(tx, comment("c2", after=1, subtask_id="a"))
    add_comment(tx, comment("c1"))
    add_comment(tx, comment("other", "p2"))


async def test_comments_come_in_the_order_in_which_they_were_said(store):
    await store.write(some)
    first, second = await store.read(comments_of, "p1")
    assert (first.id, second.id, second.subtask_id) == ("c1", "c2", "a")
    assert first.content == "Why?\u2028\ufffd"
    assert await store.read(count_open_comments, "p1") == 2


async def test_a_comment_is_answered_once(store):
    await store.write(some)
    assert await store.write(answer_comment, "c1", "So.", 2)
    assert not await store.write(answer_comment, "c1", "Otherwise.", 3)
    kept = (await store.read(comments_of, "p1"))[0]
    assert (kept.answer, kept.answered_revision, kept.answered_at) == ("So.", 2, NOW)
    assert await store.read(count_open_comments, "p1") == 1


async def test_only_plans_that_wait_and_owe_answers_are_taken_up_again(store):
    await store.write(some)
    assert await store.read(plans_in_revision) == ["p1"]
    await store.write(end_revising, "p1")
    assert await store.read(plans_in_revision) == []
    assert (await store.read(plan_of, "p1")).revising is None
