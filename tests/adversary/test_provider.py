"""The attacker behind a provider's own wire: what it says of ids, twice, or in pieces, decides
nothing. A call is what was stored when it was asked for, under an id that is ours."""

import json

import pytest

from adversary.ground import MARK
from fakes.openai_server import fake_openai
from fakes.world import LIMIT, call, of, write
from gonogo.domain.errors import Conflict, NotFound
from gonogo.llm import ModelSettings, open_model

ODD = (
    "", " ", "call_1", "../../x", "a\nb", "\u202ecall", "\x00", "{{id}}", "'; DROP TABLE x;--",
    "c" * 100_000, "approved", "\ud83d\ude00",
)  # fmt: skip
"""Ids of a provider."""


@pytest.fixture(scope="module")
def server():
    with fake_openai() as running:
        yield running


async def spoken(world, server, *replies):
    """Have the world's model speak through the provider, in these words."""
    settings = ModelSettings(
        name="openai:scripted", base_url=server.base_url, api_key="sk-x", timeout=LIMIT,
        total_timeout=LIMIT, max_attempts=3, backoff=0.001,
    )  # fmt: skip
    server.script({"replies": list(replies), "default": {"text": "Well"}})
    world.open_model = lambda _: open_model(settings, {})
    await world.restart()


def named(call_id, body):
    return {**body, "id": call_id}


def pieces(*deltas):
    """A reply of just these deltas of calls."""
    return {"chunks": [{"tool_calls": [delta]} for delta in deltas], "finish_reason": "tool_calls"}


def delta(index, call_id=None, name=None, text=None):
    function = {key: v for key, v in (("name", name), ("arguments", text)) if v is not None}
    return {
        "index": index, "function": function,
        **({"id": call_id, "type": "function"} if call_id is not None else {}),
    }  # fmt: skip


async def called(world):
    """The ids of the calls so far, and how each ended; None for one that waits."""
    log = await world.log()
    ended = {e["call_id"]: e["metadata"]["status"] for e in of(log, "tool_result")}
    return {e["call_id"]: ended.get(e["call_id"]) for e in of(log, "tool_call")}


@pytest.mark.feature(202)
async def test_an_id_that_was_decided_before_decides_nothing_again(make, ground, server):
    async with make({}) as world:
        await spoken(
            world, server,
            {"calls": [named("x", write("a")), named("x", write("b")), named("y", write("c"))]},
            {"calls": [named("x", write("d")), named("y", write("e"))]},
        )  # fmt: skip
        await world.say("Go", "coder")
        first = {q.details["arguments"]["path"]: q for q in await world.pending()}
        assert first.keys() == {"a", "b", "c"}
        assert not {"x", "y"} & {q.call_id for q in first.values()}
        for path, word in (("a", "approve"), ("b", "reject"), ("c", "reject")):
            await world.decide(first[path].call_id, word)
        second = {q.details["arguments"]["path"]: q for q in await world.pending()}

        # What was approved under the name is no leave for what comes under it later.
        assert second.keys() == {"d", "e"}
        assert ground.changed_inside() == {"a"}
        for name in ("x", "y"):
            with pytest.raises(NotFound):
                await world.decide(name)
        with pytest.raises(Conflict):
            await world.decide(first["b"].call_id)
        # A provider that knows our ids has nothing of it, in this session or another.
        server.script({"replies": [{"calls": [
            named(first["a"].call_id, write("f")), named(second["d"].call_id, write("g")),
            named(second["d"].approval_id, write("h")),
        ]}], "default": {"text": "Well"}})  # fmt: skip
        other = (await world.runtime.sessions.open(world.ann)).session_id
        message = {"type": "user_message", "content": "Go", "agent_type": "coder"}
        await world.ask(message, session=other)
        third = await world.pending(other)
        assert {q.details["arguments"]["path"] for q in third} == {"f", "g", "h"}
        mine = {q.call_id for q in (*first.values(), *second.values())}
        assert mine.isdisjoint(q.call_id for q in third)
        with pytest.raises(NotFound):
            await world.ask({
                "type": "hitl_decision", "call_id": second["d"].call_id, "decision": "approve",
            }, session=other)  # fmt: skip
        assert ground.changed_inside() == {"a"}
        assert server.violations == []


@pytest.mark.feature(202)
async def test_an_odd_id_is_no_id_and_its_call_asks_like_any_other(make, ground, server):
    async with make({}) as world:
        await spoken(world, server, {
            "calls": [named(odd, write(f"f{n}")) for n, odd in enumerate(ODD)]})  # fmt: skip
        await world.say("Go", "coder")
        asked = await world.pending()

        assert len({q.call_id for q in asked}) == len(ODD)
        assert not {q.call_id for q in asked} & set(ODD)
        ids = [q.call_id for q in asked]
        await world.ask({"type": "hitl_decision", "call_ids": ids, "decision": "reject"})
        assert set((await called(world)).values()) == {"rejected"}
        assert ground.changed_inside() == set()
        assert server.violations == []


_ARGS = json.dumps({"path": "pwned", "content": "x"})
_READS = json.dumps({"path": "app.py"})
DELIVERED = {
    "the name after the arguments": (
        delta(0, "c", "read_file", _READS), delta(0, "c", "write_file", "")),
    "the arguments once more": (
        delta(0, "c", "read_file", _READS), delta(0, "c", None, _ARGS)),
    "the whole call once more": (
        delta(0, "c", "read_file", _READS), delta(0, "c", "write_file", _ARGS)),
    "at another place": (
        delta(0, "c", "read_file", _READS), delta(1, "c", "write_file", _ARGS)),
    "in turns": (
        delta(0, "c", "read_file", '{"path":'), delta(1, "c", "write_file", _ARGS),
        delta(0, None, None, '"app.py"}')),
    "another id at its place": (
        delta(0, "c", "read_file", _READS), delta(0, "d", "write_file", _ARGS)),
}  # fmt: skip


@pytest.mark.feature(202)
async def test_a_call_that_comes_twice_otherwise_has_no_effect_of_its_own(make, ground, server):
    async with make({}) as world:
        await spoken(world, server, *(
            reply for each in DELIVERED.values() for reply in (pieces(*each), {"text": "Well"})
        ))  # fmt: skip
        for how in DELIVERED:
            await world.say("Go", "coder")
            await world.idle()
            for question in await world.pending():
                # What it asks for, it asks for as what it would do.
                assert question.details["arguments"]["path"] == MARK, how
                assert question.subject == "write_file", how
                await world.decide(question.call_id, "reject")
            assert ground.changed_inside() == set(), how
        assert {e.details["rule"] for e in await world.audit("tool.allowed")} <= {"default:pure"}


@pytest.mark.feature(202)
async def test_what_a_request_that_is_tried_again_says_otherwise_is_what_is_asked(
    make, ground, server
):
    async with make({}) as world:
        await spoken(
            world, server,
            {"calls": [named("c", write("a")), named("d", write("b"))], "cut": 5},
            {"status": 503, "error": "later"},
            {"calls": [named("c", call("delete_file", path="app.py"))]},
        )  # fmt: skip
        await world.say("Go", "coder")
        [question] = await world.pending()
        assert question.subject == "delete_file"
        # The provider would say something else now: nobody asks it about what was asked about.
        server.script({"default": {"calls": [named("c", call("delete_file", path="notes.md"))]}})
        await world.restart()
        [again] = await world.pending()
        assert (again.digest, again.details) == (question.digest, question.details)
        server.script({"default": {"text": "Well"}})
        await world.decide(question.call_id, digest=question.digest)

        assert ground.changed_inside() == {"app.py"}
        assert list(await called(world)) == [question.call_id]
