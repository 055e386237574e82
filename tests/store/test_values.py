"""Values: what is written is read, and the same on both databases, however odd."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from fakes.rows import NOW, approval, begin, begin_plan, call, session, verify_chain
from gonogo.domain.errors import because
from gonogo.domain.events import AssistantMessage
from gonogo.domain.states import ApprovalKind, ApprovalStatus
from gonogo.domain.tool_calls import ToolClass, UserText
from gonogo.store import audit as audit_log
from gonogo.store import events as log
from gonogo.store.calls import add_approval, add_calls, approval_of, call_of, list_approvals
from gonogo.store.columns import Flag, Json, Utc, WordColumn, clean, json_text, stamp
from gonogo.store.plans import subtask_rows
from gonogo.store.sessions import add_session, append_message, conversation, session_of, set_session

PLAIN = [
    "",
    "Привет, 世界",
    "😀🏳️‍🌈",
    "a\u202eb\u200bc",
    "é e\u0301",
    "\x01\x7f\x85\ufeff",
    "'; --\\",
]
ODD = [("a\x00b", "a\ufffdb"), ("\ud800", "\ufffd"), ("x\udfff\ud83dy", "x\ufffd\ufffdy"),
       ("\ud83d\ude00", "😀"), ("\x00" * 3, "\ufffd" * 3)]  # fmt: skip


@pytest.mark.parametrize("title", PLAIN)
async def test_text_is_kept_to_the_letter(store, title):
    await store.write(add_session, session(title=title))

    assert (await store.read(session_of, "s1")).title == title


@pytest.mark.parametrize(("title", "kept"), ODD)
async def test_what_one_database_could_not_keep_is_replaced_on_both(store, title, kept):
    await store.write(add_session, session(title=title))

    assert (await store.read(session_of, "s1")).title == kept
    assert clean(title) == kept


@pytest.mark.parametrize(("odd", "kept"), ODD)
async def test_an_id_that_nobody_can_have_is_not_found(store, odd, kept):
    await store.write(begin)

    assert await store.read(session_of, odd) is None
    assert await store.read(log.events_after, odd, 0) == []
    assert await store.read(list_approvals, status=odd, session_id=odd, kind=odd) == []
    wanted = audit_log.Sieve(actors=(odd,), action=odd)
    assert await store.read(audit_log.newest_entries, None, None, 9, wanted) == ([], None)


async def test_json_keeps_nul_and_loses_only_halves_of_characters(store):
    await store.write(begin)
    await store.write(append_message, "s1", "main", UserText(content="a\x00b\ud800"))
    await store.write(log.tell, "s1", AssistantMessage(content="a\x00b\ud800"))

    assert await store.read(conversation, "s1", "main") == [UserText(content="a\x00b\ufffd")]
    (event,) = await store.read(log.events_after, "s1", 0)
    assert event["content"] == "a\x00b\ufffd"


async def test_an_audit_entry_of_odd_text_is_still_true_to_its_hash(store):
    await store.write(begin)
    odd = {"actor": "a\x00\ud800", "subject": "\udfff", "why": {"\ud83d\ude00": ["\x00", "\ud800"]}}
    await store.write(log.note, "s1", action="did", **odd)

    assert await store.read(verify_chain, "s1") == (1, [])
    (entry,) = await store.read(log.entries, "s1")
    assert entry.actor == "a\ufffd\ufffd"
    assert entry.details == {"why": {"😀": ["\x00", "\ufffd"]}}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)
async def test_any_json_is_read_as_it_was_written(store, details):
    def written_and_read(tx):
        if session_of(tx, "s1") is None:
            begin(tx)
        tx.execute(text("DELETE FROM tool_calls"))
        add_calls(tx, [call(arguments=details, result=details)])
        return call_of(tx, "call_1")

    found = await store.write(written_and_read)
    assert found.arguments == found.result == details


async def test_a_null_is_no_value_and_an_empty_one_is(store):
    await store.write(begin)
    await store.write(
        add_calls, [call("a", result=None, error=""), call("b", result={}, error=None)]
    )

    none, empty = await store.read(call_of, "a"), await store.read(call_of, "b")
    assert (none.result, none.error) == (None, "")
    assert (empty.result, empty.error) == ({}, None)


async def test_words_come_back_as_members_and_flags_as_yes_or_no(store):
    await store.write(begin)
    await store.write(begin_plan)
    await store.write(add_calls, [call()])
    await store.write(add_approval, approval())

    found = await store.read(approval_of, "appr_1")
    assert found.kind is ApprovalKind.TOOL
    assert found.status is ApprovalStatus.PENDING
    assert (await store.read(call_of, "call_1")).tool_class is ToolClass.IDEMPOTENT
    assert (await store.read(session_of, "s1")).deleted is False
    await store.write(set_session, "s1", deleted=True)
    assert (await store.read(session_of, "s1")).deleted is True


async def test_a_kind_of_approval_that_only_an_extension_knows_stays_its_word(store):
    await store.write(begin)
    await store.write(add_approval, approval(kind="deploy"))

    assert (await store.read(approval_of, "appr_1")).kind == "deploy"
    assert len(await store.read(list_approvals, status=None, session_id=None, kind="deploy")) == 1


async def test_a_word_that_the_code_does_not_know_is_not_read_as_another(store, engine):
    await store.write(begin)
    await store.write(begin_plan)
    with engine.begin() as conn:
        conn.execute(text("UPDATE subtasks SET status = 'dancing'"))

    with pytest.raises((KeyError, ValueError), match="dancing"):
        await store.read(subtask_rows, "p1", 1)


@pytest.mark.parametrize(
    "moment",
    [
        NOW,
        NOW + timedelta(microseconds=1),
        datetime(2026, 11, 21, 15, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
)
async def test_a_moment_is_kept_in_utc_to_the_microsecond(store, moment):
    await store.write(add_session, session(created_at=moment))
    found = (await store.read(session_of, "s1")).created_at

    assert found == moment
    assert found.utcoffset() == timedelta(0)


def test_moments_sort_as_their_texts_do_and_need_a_time_zone():
    late = [NOW + timedelta(microseconds=n) for n in (0, 1, 10, 999_999, 1_000_000)]
    moments = [datetime.min.replace(tzinfo=UTC), NOW.replace(year=999), *late]

    assert sorted(stamp(each) for each in moments) == [stamp(each) for each in moments]
    with pytest.raises(ValueError, match=r"^a moment without a time zone cannot be stored$"):
        stamp(NOW.replace(tzinfo=None))


def test_what_is_not_there_stays_so_in_every_type():
    for column in (Utc(), Json(), Flag(), WordColumn(ToolClass)):
        assert column.process_bind_param(None, None) is None
        assert column.process_result_value(None, None) is None
    assert Flag().process_result_value(1, None) is True


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, True, "é\x00\u2028"], "b": {}}, {"a": None}, 2**80, "\U0001f600",
        {"a": because("{n} left", n=2)}, [ToolClass.PURE], "null", 1e300, -0.0,
    ],
    ids=repr,
)  # fmt: skip
def test_whatever_writes_a_value_as_text_it_is_the_same_when_it_is_read(value):
    assert json.loads(json_text(value)) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_has_no_text(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text({"a": [number]})


async def test_a_number_that_is_none_is_never_stored(store):
    await store.write(begin)
    with pytest.raises(Exception, match="JSON compliant"):
        await store.write(add_calls, [call(arguments={"a": float("nan")})])
    assert await store.read(call_of, "call_1") is None
