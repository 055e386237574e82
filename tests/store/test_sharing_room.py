"""Plans of one workspace share room: who else runs there, and who waits for their turn."""

from datetime import timedelta

from fakes.rows import NOW, begin, begin_plan, grant, plan, revision, session, subtask
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.store import plans, sessions
from gonogo.store.plans import Move
from gonogo.store.rows import change
from gonogo.store.schema import subtasks

S, P = SubtaskStatus, PlanStatus
WORKING = {"started_at": NOW, "attempt": 1}


def made(tx, plan_id: str, status: PlanStatus, *stands, session_id: str = "s1") -> None:
    """A plan whose subtasks stand so, with these columns besides."""
    ids = [f"t{number}" for number in range(len(stands))]
    plans.add_plan(tx, plan(plan_id, session_id=session_id, status=status))
    made_of = revision(*map(subtask, ids), plan_id=plan_id)
    plans.add_revision(tx, made_of, "architect", "proposed")
    for each, (to, more) in zip(ids, stands, strict=True):
        key = plans.subtask_key(plan_id, 1, each)
        if to is not S.PENDING:
            plans.move_subtasks(tx, [Move(key, S.PENDING, 0, to, more)])
        elif more:
            change(tx, subtasks, {"key": key}, more)


def pending(**more):
    return S.PENDING, more


RUNNING = (S.RUNNING, WORKING)


def several(tx) -> None:
    begin(tx)
    sessions.add_session(tx, session("s2"))
    sessions.add_session(tx, session("s3", workspace="/elsewhere"))
    made(tx, "m", P.RUNNING, RUNNING, pending())
    made(tx, "a", P.RUNNING, RUNNING, RUNNING, pending(), session_id="s2")
    made(tx, "z", P.REPLANNING, RUNNING, pending(attempt=1))
    made(tx, "b", P.PAUSED, RUNNING, pending(attempt=1))
    made(tx, "c", P.FAILED, RUNNING, pending(attempt=1))
    made(tx, "d", P.RUNNING, RUNNING, pending(), session_id="s3")
    made(tx, "e", P.REPLANNING, pending())
    made(tx, "f", P.REPLANNING, pending(attempt=1, not_before=NOW))
    made(tx, "x", P.RUNNING, pending(not_before=NOW))
    made(tx, "y", P.AWAITING_APPROVAL, pending())


async def test_what_other_plans_run_in_the_same_folder_is_counted(store):
    await store.write(several)
    assert await store.write(plans.count_elsewhere, "s1", "m") == 4
    assert await store.write(plans.count_elsewhere, "s2", "a") == 3
    assert await store.write(plans.count_elsewhere, "s3", "d") == 0
    assert await store.write(plans.count_elsewhere, "s3", "none") == 1


async def test_plans_with_something_left_to_start_come_in_a_circle_from_the_one_that_asks(store):
    await store.write(several)
    assert await store.read(plans.plans_that_wait, "s1", "m") == ["x", "z", "a"]
    assert await store.read(plans.plans_that_wait, "s1", "z") == ["a", "m", "x"]
    assert await store.read(plans.plans_that_wait, "s2", "a") == ["m", "x", "z"]
    assert await store.read(plans.plans_that_wait, "s3", "d") == []


async def test_only_a_subtask_of_the_current_revision_waits(store):
    await store.write(several)
    found = await store.read(plans.plan_of, "x")
    await store.write(plans.set_plan, found, revision=2, approved_revision=2)

    assert await store.read(plans.plans_that_wait, "s1", "m") == ["z", "a"]


async def test_what_runs_is_known_of_plans_and_subtasks(store):
    await store.write(several)
    assert sorted(await store.read(plans.live_plans)) == ["a", "d", "e", "f", "m", "x", "z"]
    assert sorted(await store.read(plans.running_subtasks)) == [
        "a/1/t0", "a/1/t1", "b/1/t0", "c/1/t0", "d/1/t0", "m/1/t0", "z/1/t0",
    ]  # fmt: skip


async def test_a_grant_ends_alone_or_with_its_plan_and_one_that_was_revoked_stays_so(store):
    later = NOW + timedelta(seconds=1)

    def write(tx):
        begin(tx)
        begin_plan(tx)
        begin_plan(tx, plan_id="p2")
        plans.add_grants(tx, [
            grant("g1"), grant("g2", subtask_id="b", created_at=later),
            grant("g3", subtask_id="c"), grant("g4", plan_id="p2"),
            grant("g5", revision=2, subtask_id="d"),
        ])  # fmt: skip
        plans.revoke_grant(tx, "g3", "Ann")

    async def ended():
        found = await store.read(plans.list_grants, None)
        return {each.id: (each.status, each.ended_because) for each in found}

    still = ("active", None)
    await store.write(write)
    await store.write(plans.end_grant, "p1", "a", "done")
    assert await ended() == {
        "g1": ("ended", "done"), "g2": still, "g3": ("revoked", "revoked by Ann"), "g4": still,
        "g5": still,
    }  # fmt: skip
    assert await store.read(plans.granted_subtasks, "p1", 1) == frozenset({"b"})
    assert await store.read(plans.granted_subtasks, "p1", 2) == frozenset({"d"})
    assert await store.read(plans.revoked_subtasks, "p1") == frozenset({"c"})
    assert await store.write(plans.end_grants, "p1", "over") == 2
    assert await ended() == {
        "g1": ("ended", "done"), "g2": ("ended", "over"), "g3": ("revoked", "revoked by Ann"),
        "g4": still, "g5": ("ended", "over"),
    }  # fmt: skip
    assert [each.id for each in await store.read(plans.list_grants, "s1")] == [
        "g1", "g3", "g4", "g5", "g2",
    ]  # fmt: skip
    assert await store.read(plans.list_grants, None, "nobody") == []
    assert len(await store.read(plans.list_grants, None, "ann")) == 5
    await store.write(sessions.set_session, "s1", deleted=True)
    assert await store.read(plans.list_grants) == []


async def test_the_account_of_a_plan_is_kept_until_it_is_forgotten(store):
    await store.write(begin)
    await store.write(begin_plan)
    await store.write(begin_plan, plan_id="p2")
    assert await store.read(plans.account_kept, "p1") is None
    await store.write(plans.keep_account, "p1", "It did.")
    assert await store.read(plans.account_kept, "p1") == "It did."
    assert await store.read(plans.account_kept, "p2") is None
    await store.write(plans.keep_account, "p1", None)
    assert await store.read(plans.account_kept, "p1") is None


def test_a_key_names_a_subtask_and_each_of_its_attempts():
    key = plans.subtask_key("p/1", 2, "a")

    assert (key, plans.thread_name(key, 3)) == ("p/1/2/a", "p/1/2/a#3")
    assert plans.split_key(key) == ("p/1", 2, "a")
