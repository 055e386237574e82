"""Long texts: what several rows of a session say alike is kept once, and read as it was."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from fakes.rows import approval, begin, begin_plan, call, verify_chain
from gonogo.domain.events import AssistantMessage
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import Reply, ToolRequest, UserText
from gonogo.store import Store, part
from gonogo.store import events as log
from gonogo.store.calls import (
    add_approval,
    add_calls,
    approval_of,
    call_of,
    close_approval,
    perhaps_done,
    refused_calls,
    set_call,
)
from gonogo.store.columns import as_kept
from gonogo.store.rows import LONG
from gonogo.store.sessions import append_message, conversation, history
from plugins.nightly import examples

WRITTEN = "def f() -> None:\n    ...  # «ünï» 😀\n" * 40


def kept(tx, session="s1"):
    found = tx.execute(text("SELECT text FROM texts WHERE session_id = :of"), {"of": session})
    return sorted(found.scalars())


def raw(tx, table):
    return [str(tuple(row)) for row in tx.execute(text(f"SELECT * FROM {table}"))]  # noqa: S608


def story(tx, session="s1", written=WRITTEN):
    """One text in a reply, its call, its event, its audit entry and a question about it."""
    given = {"path": "a.py", "content": written}
    raw_ = {"parts": [{"args": json.dumps(given, ensure_ascii=False)}]}
    reply = Reply(calls=(ToolRequest(id="c1", name="write_file", arguments=given),), raw=raw_)
    append_message(tx, session, "main", reply)
    add_calls(tx, [call("c1", session_id=session, arguments=given)])
    log.tell(tx, session, AssistantMessage(content=written))
    log.note(tx, session, actor="ann", action="did", subject="x", arguments=given)
    add_approval(tx, approval("a1", session_id=session, details={"arguments": given}))
    set_call(tx, call_of(tx, "c1"), CallStatus.AWAITING_APPROVAL, result={"output": written})
    close_approval(tx, approval_of(tx, "a1"), "edited", decision={"arguments": given})


async def test_one_text_in_many_places_lies_in_the_database_once(store):
    await store.write(begin)
    await store.write(story)

    tables = ("messages", "tool_calls", "events", "audit", "approvals")
    assert await store.read(kept) == [WRITTEN]
    for table in tables:
        assert not any("def f" in row for row in await store.read(raw, table)), table


async def test_whoever_reads_gets_the_text(store, database_url):
    await store.write(begin)
    await store.write(story)
    # Nothing that this one remembers.
    other = Store(database_url)
    for each in (store, other):
        [reply] = await each.read(conversation, "s1", "main")
        [said] = await each.read(history, "s1")
        [event] = await each.read(log.events_after, "s1", 0)
        [entry] = await each.read(log.entries, "s1")
        made, asked = await each.read(call_of, "c1"), await each.read(approval_of, "a1")
        assert reply.calls[0].arguments["content"] == WRITTEN
        assert json.loads(reply.raw["parts"][0]["args"])["content"] == WRITTEN
        assert said.body["calls"][0]["arguments"]["content"] == WRITTEN
        assert event["content"] == WRITTEN
        assert entry.details["arguments"]["content"] == WRITTEN
        assert made.arguments["content"] == made.result["output"] == WRITTEN
        assert asked.details["arguments"] == asked.decision["arguments"] == made.arguments
        assert await each.read(verify_chain, "s1") == (1, [])
    other.close()


async def test_sessions_share_no_text(store):
    await store.write(begin, "s1", "s2")
    for session in ("s1", "s2"):
        await store.write(log.tell, session, AssistantMessage(content=WRITTEN))

    assert await store.read(kept, "s1") == await store.read(kept, "s2") == [WRITTEN]


async def test_a_text_that_was_changed_breaks_the_chain_that_speaks_of_it(store):
    await store.write(begin)
    await store.write(story)
    await store.write(lambda tx: tx.execute(text("UPDATE texts SET text = 'other'")))

    # It is seen by a process that still remembers the text, too.
    _, problems = await store.read(verify_chain, "s1")
    assert problems == ["s1 #1: its content was changed"]


async def test_a_text_that_is_remembered_is_not_read_again(store, engine):
    await store.write(begin)
    await store.write(story)
    with engine.begin() as other:
        other.execute(text("UPDATE texts SET text = 'other'"))

    [event] = await store.read(log.events_after, "s1", 0)
    assert event["content"] == WRITTEN


async def test_a_text_of_a_part_that_was_undone_is_kept_when_it_comes_again(store):
    def undone(tx):
        with part(tx):
            append_message(tx, "s1", "main", UserText(content=WRITTEN))
            raise KeyError

    def work(tx):
        with suppress(KeyError):
            undone(tx)
        append_message(tx, "s1", "main", UserText(content=WRITTEN))

    await store.write(begin)
    await store.write(work)

    assert await store.read(kept) == [WRITTEN]


async def test_a_text_of_a_transaction_that_failed_is_kept_when_it_comes_again(store):
    def fail(tx):
        append_message(tx, "s1", "main", UserText(content=WRITTEN))
        raise KeyError

    await store.write(begin)
    with pytest.raises(KeyError):
        await store.write(fail)
    await store.write(append_message, "s1", "main", UserText(content=WRITTEN))

    assert await store.read(kept) == [WRITTEN]


async def test_short_texts_and_odd_ones_stay_where_they_are(store):
    await store.write(begin)
    for content in ("x" * (LONG - 1), "x\x00y" * LONG, "\ud800" * LONG):
        await store.write(log.tell, "s1", AssistantMessage(content=content))
    [short, nul, half] = await store.read(log.events_after, "s1", 0)

    assert await store.read(kept) == []
    assert (short["content"], nul["content"]) == ("x" * (LONG - 1), "x\x00y" * LONG)
    assert half["content"] == "\ufffd" * LONG


LETTERS = st.text(alphabet=st.sampled_from('ab"\\{}[]$:,é\x00\ud800\n '), max_size=8)
LONG_ONES = st.builds(lambda text, more: text + more * LONG, LETTERS, LETTERS)
WORDS = st.sampled_from(["text", "json", "itself", "$", "0", WRITTEN])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | LETTERS
)
VALUES = st.recursive(
    SCALARS | LONG_ONES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$", "a", "text"]), inner, max_size=3)
        | st.dictionaries(st.just("$"), inner, max_size=1)
        | st.builds(lambda value, how: json.dumps(value, **how), inner, st.sampled_from(
            [{}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"indent": 1}]
        ))
    ),
    max_leaves=12,
)  # fmt: skip


@settings(
    max_examples=examples(50, nightly=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(VALUES)
async def test_any_value_is_read_as_it_was_written(store, value):
    def work(tx):
        if not tx.execute(text("SELECT id FROM sessions")).first():
            begin(tx)
        tx.execute(text("DELETE FROM tool_calls"))
        add_calls(tx, [call("c1", result=value, arguments={"$": value})])

    await store.write(work)
    found = await store.read(call_of, "c1")

    assert (found.result, found.arguments) == (as_kept(value), {"$": as_kept(value)})


@settings(
    max_examples=examples(50, nightly=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(VALUES)
@example({"$": LONG * ":", "a": {"$": 1e16, "a": "\ud800"}})
async def test_any_event_is_replayed_to_the_byte_as_it_was_told(store, value):
    live = []
    store.deliver = lambda box: live.extend(box.events)
    body = {"type": "tool_result", "result": value, "more": {"$": value}}

    def work(tx):
        if not tx.execute(text("SELECT id FROM sessions")).first():
            begin(tx)
        log.tell(tx, "s1", body)

    await store.write(work)
    [told] = live
    [found] = await store.read(log.events_after, "s1", told["seq"] - 1)

    place = {"seq": told["seq"], "session_id": "s1", "ts": told["ts"]}
    assert found.written == told.written
    assert {**found} == {**as_kept(body), **place}
    assert [found.get(name) for name in ("type", "seq")] == ["tool_result", told["seq"]]


async def test_an_event_of_an_earlier_version_is_replayed_without_its_blanks(store):
    await store.write(begin)
    await store.write(log.tell, "s1", AssistantMessage(content="Hello"))
    [before] = await store.read(log.events_after, "s1", 0)
    blanks = '{"type": "assistant_message", "content": "Hello"}'
    await store.write(
        lambda tx: tx.execute(text("UPDATE events SET body = :blanks"), {"blanks": blanks})
    )

    [found] = await store.read(log.events_after, "s1", 0)

    assert found.written == before.written


async def test_a_value_deeper_than_anybody_looks_is_read_as_it_was_written(store):
    value: object = WRITTEN
    for _ in range(300):
        value = [value]
    await store.write(begin)
    await store.write(add_calls, [call("c1", result=value, arguments={"a": WRITTEN})])

    assert (await store.read(call_of, "c1")).result == value


async def test_a_row_of_the_time_before_is_plain_whatever_it_holds(store):
    """References are only where a row says that it has some."""
    odd = {"$": ["text", "0" * 32]}
    await store.write(begin)
    await store.write(add_calls, [call("c1", arguments={"a": 1})])
    await store.write(
        lambda tx: tx.execute(
            text("UPDATE tool_calls SET arguments = :odd"), {"odd": json.dumps(odd)}
        )
    )

    assert (await store.read(call_of, "c1")).arguments == odd


@pytest.mark.parametrize(
    "harm",
    ['{"$": ["text", "gone"]}', '{"$": ["json", 9, 1]}', '{"$": ["json", "x", 1]}',
     '{"$": ["itself"]}', '{"$": ["text", [1]]}', '{"$": 1}', "[" * 5000],
)  # fmt: skip
async def test_a_row_that_somebody_broke_breaks_no_verification(store, harm):
    await store.write(begin)
    await store.write(log.note, "s1", actor="ann", action="did", subject="x", why=WRITTEN)
    await store.write(
        lambda tx: tx.execute(text("UPDATE audit SET details = :harm"), {"harm": f" {harm}"})
    )

    _, problems = await store.read(verify_chain, "s1")
    assert problems == ["s1 #1: its content was changed"]


async def test_what_is_told_of_calls_has_their_texts(store, database_url):
    def work(tx):
        given = {"path": "a.py", "content": WRITTEN}
        begin_plan(tx)
        for status, error in ((CallStatus.DENIED, "policy_denied: no"), (CallStatus.UNKNOWN, None)):
            add_calls(tx, [call(f"c_{status}", plan_id="p1", subtask_id="a", arguments=given)])
            set_call(tx, call_of(tx, f"c_{status}"), status, error=error)
        doubt = approval("a1", plan_id="p1", kind="intervention", call_id="c_unknown")
        add_approval(tx, doubt)

    await store.write(begin)
    await store.write(work)
    other = Store(database_url)
    for each in (store, other):
        [refused] = await each.read(refused_calls, "s1", "p1")
        [doubted] = await each.read(perhaps_done, "p1")
        assert refused.arguments["content"] == doubted.arguments["content"] == WRITTEN
    other.close()


async def test_texts_of_just_that_length_are_kept_and_many_are_read_together(store, database_url):
    long = [f"{number:03}" + "x" * (LONG - 3) for number in range(40)]
    await store.write(begin)
    await store.write(log.tell, "s1", *(AssistantMessage(content=each) for each in long))
    other = Store(database_url)
    found = await other.read(log.events_after, "s1", 0)
    other.close()

    assert [event["content"] for event in found] == long
    assert await store.read(kept) == long


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"ensure_ascii": False},
        {"separators": (",", ":")},
        {"ensure_ascii": False, "separators": (",", ":")},
    ],
)
async def test_what_is_within_json_is_kept_once_however_it_is_written(store, form):
    said = json.dumps({"é": WRITTEN, "n": [1]}, **form)
    await store.write(begin)
    await store.write(log.tell, "s1", AssistantMessage(content=said))
    [event] = await store.read(log.events_after, "s1", 0)

    assert event["content"] == said
    assert await store.read(kept) == [WRITTEN]
    odd = json.dumps({"n": WRITTEN}, indent=1)
    await store.write(log.tell, "s1", AssistantMessage(content=odd))
    assert await store.read(kept) == sorted([WRITTEN, odd])
