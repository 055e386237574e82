"""Two people decide at the same moment: one decision stands, and all others are told."""

import anyio
import psycopg
import pytest

from fakes.world import LIMIT, calls, of, on_both, plan, run, says, step, write
from gonogo.domain.errors import AlreadyDecided, GonogoError
from gonogo.domain.identity import Principal, Role

pytestmark = pytest.mark.each_database


def people(count):
    """Admins, who may all decide."""
    return [Principal(id=f"user:p{n}", name=f"p{n}", role=Role.ADMIN) for n in range(count)]


async def all_at_once(world, messages):
    """Send messages of several people together. Gives the winners and the refusals."""
    won, refused = [], []

    async def one(person, message):
        try:
            await world.send(message, by=person)
            won.append(person.name)
        except GonogoError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for person, message in messages:
            group.start_soon(one, person, message)
    return won, refused


@on_both
@pytest.mark.feature(203)
async def test_of_many_decisions_about_a_call_one_stands(make):
    lines = {"main/coder": [calls(write("a.txt")), says("ok")]}
    async with make(lines) as world:
        await world.say("Write", "coder")
        [question] = await world.pending()
        words = ["approve", "reject"] * 5
        won, refused = await all_at_once(world, [
            (person, {"type": "hitl_decision", "call_id": question.call_id, "decision": word})
            for person, word in zip(people(10), words, strict=True)
        ])  # fmt: skip

        assert len(won) == 1
        assert len(refused) == 9
        for error in refused:
            assert isinstance(error, AlreadyDecided)
            assert error.decided_by == won[0]
            assert error.decided_at
        await world.until("assistant_message", content="ok")
        assert len(of(await world.log(), "tool_result")) == 1
        assert len(of(await world.log(), "approval_resolved")) == 1


@on_both
@pytest.mark.feature(203)
async def test_of_many_decisions_about_a_plan_one_stands(make):
    lines = {"main/architect": [plan(step("a"))], "a": [says("a")]}
    async with make(lines) as world:
        plan_id = await world.propose()
        words = ["approve", "reject", "hold", "edit"] * 2
        won, refused = await all_at_once(world, [
            (person, {
                "type": "plan_decision", "plan_id": plan_id, "decision": word, "revision": 1,
                **({"modified_subtasks": [step("a")]} if word == "edit" else {}),
            })
            for person, word in zip(people(8), words, strict=True)
        ])  # fmt: skip

        assert len(won) == 1
        assert all(isinstance(error, AlreadyDecided) for error in refused)
        assert len(of(await world.log(), "approval_resolved")) == 1
        await world.idle()
        assert len(await world.runtime.plans.revisions(world.ann, plan_id)) <= 2


HELD_UP = """
CREATE FUNCTION held_up() RETURNS trigger AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1);
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER held_up BEFORE UPDATE ON {table} FOR EACH ROW WHEN (NEW.status = '{status}')
    EXECUTE FUNCTION held_up();
"""
LET_GO = "DROP FUNCTION held_up CASCADE"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


async def wait_for_locks(tx, count, done):
    """Wait until so many transactions wait for others, or it is done without."""
    with anyio.fail_after(LIMIT):
        while not done.is_set() and tx.execute(WAITING).fetchone()[0] < count:  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.mark.parametrize("kind", ["postgresql"])  # SQLite has one writer at a time
@pytest.mark.parametrize("of_subtask", [False, True])
async def test_an_answer_while_its_asker_comes_to_rest_is_seen(make, database_url, of_subtask):
    two = [calls(run("sleep 0.01"), write("b.txt")), says("All answered")]
    lines = {"main/architect": [plan(step("a", scope={"paths": ["none"]}))], "a": two}
    table, status = ("subtasks", "waiting_approval") if of_subtask else ("turns", "parked")
    async with make(lines | {"main/coder": two}) as world:
        await (world.begin() if of_subtask else world.say("Write", "coder"))
        await world.until("approval_requested", kind="tool")
        await world.idle()
        first, second = await world.pending()
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute(HELD_UP.format(table=table, status=status))
            conn.execute("SELECT pg_advisory_lock(1)")
            # The first one runs; that the asker then rests is held up.
            about = {"type": "hitl_decision", "decision": "approve"}
            await world.send(about | {"call_id": first.call_id})
            answered, receipts = anyio.Event(), []
            await wait_for_locks(conn, 1, answered)

            async def answer():
                receipts.append(await world.send(about | {"call_id": second.call_id}))
                answered.set()

            async with anyio.create_task_group() as group:
                group.start_soon(answer)
                await wait_for_locks(conn, 2, answered)
                conn.execute("SELECT pg_advisory_unlock(1)")
            conn.execute(LET_GO)
        # That the asker rested, which was told in between, does not end the answer.
        told = await world.answer(receipts[0])
        assert second.call_id in [event["call_id"] for event in of(told, "tool_result")]
        await world.until("assistant_message", content="All answered")
        assert world.read("b.txt") == "made\n"
