"""A receipt says which events are the answer to a message, and where that ends."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from fakes.world import calls, plan, run, says, step, world_of
from gonogo.domain.views import DecisionAnswer
from gonogo.runtime.streams import Receipt, _answer

Body = dict[str, Any]


def receipt(**more: Any) -> Receipt:
    return Receipt(**{"session_id": "s", "after": 0, **more})


@pytest.mark.parametrize(
    ("of", "body", "covers"),
    [
        ({}, {"seq": 9}, True),
        ({"turn_id": "t"}, {"turn_id": "t", "seq": 9}, True),
        ({"turn_id": "t"}, {"turn_id": "u", "seq": 9}, False),
        ({"turn_id": "t"}, {}, False),
        ({"plan_id": "p"}, {"plan_id": "p", "seq": 9}, True),
        ({"plan_id": "p"}, {"plan_id": "q", "seq": 9}, False),
        ({"plan_id": "p"}, {"seq": 9}, False),
        ({"turn_id": "t", "plan_id": "p"}, {"plan_id": "p", "seq": 9}, True),
        ({"turn_id": "t", "told": 3}, {"seq": 3}, True),
        ({"turn_id": "t", "told": 3}, {"seq": 4}, False),
        ({"turn_id": "t", "told": 3}, {}, False),
    ],
)
def test_an_answer_is_of_its_turn_or_plan_and_what_was_told_at_once(
    of: Body, body: Body, covers: bool
) -> None:
    assert receipt(**of).covers(body) is covers


def test_a_receipt_that_was_kept_is_the_same_one() -> None:
    every = receipt(
        turn_id="t", plan_id="p", answers=(DecisionAnswer(id="c", ok=True, outcome="decided"),),
        told=1, settled=2, created=True, ends=3, approval_id="a", outcome="voted",
    )  # fmt: skip
    for given in (every, receipt()):
        assert Receipt.of_json(given.as_json()) == given
    assert receipt().as_json() == {
        "session_id": "s", "after": 0, "answers": [], "told": 0, "settled": 0, "created": False,
        "ends": 0, "approval_id": "",
    }  # fmt: skip


async def answer(of: Receipt, *bodies: Body) -> list[Body]:
    async def come() -> AsyncGenerator[Body]:
        for body in bodies:
            yield body

    return [body async for body in _answer(of, come())]


def event(seq: int, type_: str = "assistant_message", **more: Any) -> Body:
    return {"type": type_, "seq": seq, **more}


async def test_an_answer_goes_on_to_its_last_event_through_what_its_plan_does() -> None:
    delta, other = {"type": "delta", "turn_id": "t"}, event(3, turn_id="u", is_final=True)
    made = event(2, turn_id="t", plan_id="p")
    of_plan, last = event(4, plan_id="p"), event(5, turn_id="t", is_final=True)
    after = event(6, turn_id="t")

    found = await answer(receipt(turn_id="t"), delta, made, other, of_plan, last, after)
    assert found == [delta, made, of_plan, last]
    before = await answer(receipt(turn_id="t"), event(1, plan_id="p"), event(2), last, after)
    assert before == [last], "a plan that the turn has not named is not its plan"


@pytest.mark.parametrize("end", ["plan_completed", "plan_cancelled"])
async def test_a_turn_that_waited_for_a_plan_goes_on_after_its_end(end: str) -> None:
    ended = event(2, end, plan_id="p", is_final=True)
    last = event(3, turn_id="t", is_final=True)

    waited = await answer(receipt(turn_id="t", plan_id="p"), ended, last, event(4, turn_id="t"))
    alone = await answer(receipt(plan_id="p"), ended, event(3, plan_id="p"))

    assert waited == [{**ended, "is_final": False}, last]
    assert alone == [ended]


async def test_the_answer_to_a_batch_ends_after_its_last_decision() -> None:
    first, second = event(4, plan_id="p", is_final=True), event(5, plan_id="p", is_final=True)

    found = await answer(receipt(plan_id="p", settled=4), first, second, event(6, plan_id="p"))

    assert found == [{**first, "is_final": False}, second]


async def test_a_decision_that_sets_nothing_going_is_answered_by_what_it_told() -> None:
    told = receipt(plan_id="p", after=3, ends=6)
    delta, other = {"type": "delta", "plan_id": "p"}, event(5, plan_id="q")
    one, last = event(4, plan_id="p"), event(6, plan_id="q")

    found = await answer(told, delta, one, other, last, event(7, plan_id="p"))

    assert found == [{**one, "is_final": False}, {**last, "is_final": True}]
    assert await answer(receipt(after=3, ends=3), one, last) == []
    assert await answer(receipt(after=3, ends=4), one, last) == [{**one, "is_final": True}]


async def test_what_was_refused_of_a_batch_comes_first_and_ends_it_where_nothing_was_taken() -> (
    None
):
    no = DecisionAnswer(id="c1", ok=False, code="conflict", detail="why")
    mute = DecisionAnswer(id="c2", ok=False)
    yes = DecisionAnswer(id="c3", ok=True)
    last = event(1, plan_id="p", is_final=True)
    error = {
        "type": "error", "error": "why", "content": "why", "code": "conflict", "call_id": "c1",
        "is_final": False,
    }  # fmt: skip
    silent = {**error, "error": "Refused", "content": "Refused", "code": None, "call_id": "c2"}

    assert await answer(receipt(plan_id="p", answers=(yes, no)), last) == [error, last]
    assert await answer(receipt(plan_id="p", answers=(no, mute)), last) == [error, silent]
    assert await answer(receipt(plan_id="p", answers=(yes,)), last) == [last]


LINES = {
    "main/architect": [plan(step("one"))],
    "main/coder": [calls(run("make a"), run("make b")), says("done")],
    "main/orchestrator": [says("Hello")] * 2,
    "one": [says("one")],
}


async def test_each_kind_of_message_has_a_receipt_of_its_own(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        switch = {"type": "switch_agent", "agent_type": "architect", "reason": "so"}
        opened = await world.send(switch)
        assert opened == Receipt(session_id=world.session, after=0, created=True)
        log = await world.log()
        assert [each["type"] for each in log] == ["session_info", "agent_switched"]
        assert (log[1]["is_final"], log[1]["metadata"]["reason"]) == (True, "so")

        hello = {"type": "user_message", "content": "hi"}
        named = await world.send(hello, session="named")
        assert (named.session_id, named.after, named.created) == ("named", 0, True)
        await world.answer(named)
        first, *_ = await world.log("named")
        assert first["type"] != "session_info", "its name was known"
        assert not (await world.send(hello, session="named")).created

        said = await world.send({**switch, "content": "Build it"})
        events = await world.answer(said)
        [turn] = {each["turn_id"] for each in events if "turn_id" in each}
        assert said == Receipt(session_id=world.session, after=2, turn_id=turn, told=3)
        assert (events[0]["type"], events[0].get("is_final", False)) == ("agent_switched", False)

        plan_id = events[-1]["metadata"]["plan_id"]
        [question] = await world.pending()
        end = (await world.log())[-1]["seq"]
        decision = {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
        decided = await world.send(decision)
        assert decided == Receipt(
            session_id=world.session, after=end, plan_id=plan_id, outcome="decided",
            approval_id=question.approval_id,
        )  # fmt: skip


async def test_a_batch_has_an_answer_for_each_of_its_calls_once(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.say("Make it", "coder")
        first, second = [each.call_id for each in await world.pending()]
        batch = {"type": "hitl_decision", "call_ids": [first, "none", second, first]}
        end = (await world.log())[-1]["seq"]
        taken = await world.send({**batch, "decision": "reject"})

        assert taken.answers == (
            DecisionAnswer(id=first, ok=True, status="reject", outcome="decided"),
            DecisionAnswer(
                id="none",
                ok=False,
                code="not_found",
                detail="No approval found with id=none",
                template="No approval found with id={named}",
                params={"named": "none"},
            ),
            DecisionAnswer(id=second, ok=True, status="reject", outcome="decided"),
        )
        assert (taken.session_id, taken.after, taken.ends) == (world.session, end, 0)
        assert taken.settled > taken.after
        nothing = await world.send({**batch, "call_ids": ["none"], "decision": "reject"})
        assert (nothing.session_id, nothing.after, len(nothing.answers)) == (world.session, 0, 1)
