"""Sessions, their turns and what was said in them: each found by whose and where it is."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.rows import NOW, at, begin, call, session
from gonogo.domain.errors import Conflict
from gonogo.domain.records import MAIN
from gonogo.domain.states import CallStatus, TurnStatus
from gonogo.domain.tool_calls import Steering, UserText
from gonogo.store import calls, sessions
from gonogo.store.schema import messages

SECOND = timedelta(seconds=1)


def three(tx) -> None:
    for session_id, who, folder in (
        ("s1", "ann", "/a"), ("s2", "bob", "/a"), ("s3", "ann", "/b"), ("gone", "ann", "/c"),
    ):  # fmt: skip
        given = {"principal_id": who, "workspace": folder, "deleted": session_id == "gone"}
        sessions.add_session(tx, session(session_id, spoken="ru", **given))


async def test_sessions_are_known_by_whose_they_are_and_where(store):
    await store.write(three)

    assert sorted(await store.read(sessions.workspaces)) == [Path("/a"), Path("/b")]
    assert await store.read(sessions.spoken_in, "s1") == "ru"
    assert await store.read(sessions.spoken_in, "s9") is None


async def test_a_turn_is_queued_behind_the_others_of_its_session(store):
    def made(tx):
        begin(tx, "s1", "s2")
        first = sessions.add_turn(tx, "t1", "s1", "Do", "orchestrator", by="bob")
        return [first, *(sessions.add_turn(tx, each, of, "More", "coder")
                         for each, of in (("t2", "s1"), ("t3", "s2")))]  # fmt: skip

    one, two, three_ = await store.write(made)
    assert (one.position, one.content, one.agent, one.principal_id) == (
        1, "Do", "orchestrator", "bob",
    )  # fmt: skip
    assert (one.status, one.epoch, one.created_at, one.finished_at) == (
        TurnStatus.QUEUED, 0, NOW, None,
    )  # fmt: skip
    assert (two.position, three_.position, two.principal_id) == (2, 1, None)
    assert await store.read(sessions.turn_of, "t1") == one
    assert await store.write(sessions.lock_turn, "t2") == two
    assert await store.read(sessions.open_turns, "s1") == [one, two]
    assert await store.read(sessions.unfinished_turns) == ["t1", "t2", three_.id]


async def test_what_becomes_of_a_turn_is_written_by_who_holds_it(store):
    def made(tx):
        begin(tx)
        return sessions.add_turn(tx, "t1", "s1", "Do", "orchestrator")

    stale = await store.write(made)
    held = await store.write(sessions.take_turn, stale, TurnStatus.RUNNING)
    assert held == replace(stale, status=TurnStatus.RUNNING, epoch=1)
    assert await store.read(sessions.turn_of, "t1") == held
    for setting in (
        lambda tx, turn: sessions.set_turn_agent(tx, turn, "coder"),
        lambda tx, turn: sessions.set_turn_away(tx, turn, {"model": "m"}),
        sessions.set_turn_steered,
    ):
        assert not await store.write(setting, stale)
        assert not await store.write(setting, replace(held, epoch=2))
        assert not await store.write(setting, replace(held, status=TurnStatus.PARKED))
        assert await store.write(setting, held)
    now = replace(held, agent="coder", away={"model": "m"}, steered=True)
    assert await store.read(sessions.turn_of, "t1") == now
    assert await store.write(sessions.move_turn, now, TurnStatus.PARKED)
    with pytest.raises(Conflict, match=r"^Another worker has taken turn t1; it continues there$"):
        await store.write(sessions.take_turn, now, TurnStatus.RUNNING, "planner")
    parked = await store.read(sessions.turn_of, "t1")
    assert await store.read(sessions.unfinished_turns) == []
    assert await store.read(sessions.open_turns, "s1") == [parked]
    taken = await store.write(sessions.take_turn, parked, TurnStatus.RUNNING, "planner")
    assert (taken.agent, taken.epoch) == ("planner", 2)


def talk(tx) -> None:
    begin(tx, "s1", "s2")
    for session_id, thread, message in (
        ("s1", "main", UserText(content="one")), ("s1", "p/a", UserText(content="two")),
        ("s1", "p/b", Steering(content="three")), ("s1", "main", Steering(content="four")),
        ("s2", "main", UserText(content="five")), ("s2", "p/b", Steering(content="six")),
    ):  # fmt: skip
        sessions.append_message(tx, session_id, thread, message, agent="coder", turn_id="t1")
        tx.now += SECOND


async def test_what_was_said_is_read_conversation_by_conversation_in_order(store):
    await store.write(at(NOW, talk))
    main = await store.read(sessions.conversation, "s1", "main")
    every = await store.read(sessions.history, "s1")

    assert [(type(each).__name__, each.content) for each in main] == [
        ("UserText", "one"), ("Steering", "four"),
    ]  # fmt: skip
    assert [each.thread for each in every] == ["main", "p/a", "p/b", "main"]
    assert [(each.created_at - NOW).seconds for each in every] == [0, 1, 2, 3]
    assert {each.agent for each in every} == {"coder"}
    assert every[1].body["content"] == "two"
    assert await store.read(sessions.history_in, "s1", "main") == [every[0], every[3]]
    assert await store.read(sessions.history_in, "s2", "p/a") == []
    said = await store.read(sessions.said_in, "s1", {"main", "p/b"})
    assert [each.content for each in said] == ["three", "four"]
    assert await store.read(sessions.said_in, "s1", ["p/a"]) == []
    assert await store.read(sessions.said_in, "s1", []) == []


async def test_of_a_conversation_only_what_is_new_is_read(store):
    def say(tx, *words):
        for each in words:
            sessions.append_message(tx, "s1", "main", UserText(content=each))

    async def read(known):
        found = await store.read(sessions.conversation_since, "s1", "main", known)
        assert found == await store.read(sessions.conversation_since, "s1", "main", {})
        assert [*found.values()] == await store.read(sessions.conversation, "s1", "main")
        return found

    await store.write(begin)
    assert await read({}) == {}
    await store.write(say, "one", "two")
    first = await read({})
    await store.write(say, "three")
    second = await read(first)
    assert [each.content for each in second.values()] == ["one", "two", "three"]
    assert all(second[number] is each for number, each in first.items())
    assert await read(second) == second

    def come_to_light(tx):
        """A transaction that took its number earlier ends later."""
        row = tx.execute(messages.select().where(messages.c.id == max(first))).mappings().one()
        tx.execute(messages.delete().where(messages.c.id == max(first)))
        return dict(row)

    hidden = await store.write(come_to_light)
    known = await read({})
    await store.write(lambda tx: tx.execute(messages.insert(), hidden))
    assert await read(known) == second
    # Nor is anything told of a conversation that is there no more.
    assert await store.read(sessions.conversation_since, "s1", "other", second) == {}


async def test_of_calls_only_those_are_read_again_that_had_not_ended(store):
    ended, open_, other = (
        call("c1", status=CallStatus.COMPLETED),
        call("c2", position=2, status=CallStatus.UNKNOWN),
        call("c3", position=3, status=CallStatus.DENIED),
    )

    async def read(known):
        found = await store.read(calls.calls_since, "s1", MAIN, known)
        assert [*found.values()] == await store.read(calls.thread_calls, "s1", MAIN)
        return found

    await store.write(begin)
    assert await read({}) == {}
    await store.write(calls.add_calls, [ended, open_, other])
    first = await read({})
    assert await store.write(calls.move_call, open_, CallStatus.FAILED, error="Gone")
    await store.write(calls.add_calls, [call("c4", position=4)])
    second = await read(first)
    assert second["c1"] is first["c1"]
    assert second["c2"].error == "Gone"
    assert [*second] == ["c1", "c2", "c3", "c4"]
    # Two that ended in the same place are both there, whichever was seen first.
    await store.write(calls.add_calls, [call("c5", position=4), call("c6", position=2)])
    found = await store.read(calls.calls_since, "s1", MAIN, second)
    assert sorted(found) == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert await store.read(calls.calls_since, "s1", "other", second) == {}
