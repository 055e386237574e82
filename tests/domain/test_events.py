"""Events: frozen facts whose form survives newer servers, older rows and every client."""

import json
from datetime import UTC, datetime
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gonogo.domain import events
from gonogo.domain.base import WrittenEvent, as_line
from gonogo.domain.events import (
    EVENTS,
    AnyEvent,
    AssistantMessage,
    Done,
    ErrorHappened,
    Event,
    Fact,
    SubtaskEnded,
    SubtaskEndedFacts,
    Tone,
    asks_person,
    plain,
    plain_json,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ENVELOPE = {
    "seq": 7,
    "session_id": "s1",
    "ts": "2026-11-21T12:00:00Z",
    "turn_id": "t1",
    "plan_id": "p1",
    "subtask_id": "a",
    "agent": "coder",
}
DECIDED = {"decision": "approve", "source": "person", "decided_by": "Ann", "feedback": "ok"}
ASKED = {"approval_id": "x", "kind": "plan", "subject": "A goal", "status": "pending"}
ENDED = {"subtask_id": "a", "subtask_status": "failed", "attempt": 1, "duration_seconds": 0.5}
CHANGED = {"plan_id": "p1", "by": "Ann", "reason": "later"}
BODIES = {
    "session_info": {},
    "assistant_message": {"content": "Hi", "token": "Hi"},
    "agent_switched": {"metadata": {"from_agent": "a", "to_agent": "b", "confidence": 0.5}},
    "tool_call": {
        "call_id": "c",
        "tool_name": "t",
        "arguments": {"a": [1]},
        "requires_approval": True,
        "metadata": {"digest": "d", "reason": "r", "tool_class": "pure"},
    },
    "tool_approved": {"call_id": "c", "metadata": DECIDED},
    "tool_rejected": {"call_id": "c", "metadata": {**DECIDED, "source": "expiry"}},
    "tool_result": {
        "call_id": "c",
        "tool_name": "t",
        "result": {"x": 1},
        "metadata": {"status": "completed"},
    },
    "plan_notification": {
        "content": "A plan",
        "metadata": {
            "plan_id": "p1",
            "revision": 1,
            "digest": "d",
            "subtask_count": 1,
            "subtasks": [{"id": "a"}],
            "critical_path": ["a"],
            "findings": [],
            "requires_approval": True,
        },
    },
    "plan_approved": {
        "content": "Go",
        "metadata": {"plan_id": "p1", "revision": 1, "subtask_count": 1},
    },
    "plan_commented": {
        "content": "ann commented on the plan: Why?",
        "metadata": {
            "plan_id": "p1",
            "revision": 1,
            "comment_id": "c1",
            "author": "ann",
            "content": "Why?",
            "open_comments": 1,
        },
    },
    "steered": {
        "content": "ann says to coder: Stop.",
        "metadata": {"author": "ann", "content": "Stop."},
    },
    "plan_rejected": {"content": "No", "metadata": {"plan_id": "p1", "feedback": "no"}},
    "subtask_started": {
        "content": "Subtask 1/1: a",
        "metadata": {"subtask_id": "a", "subtask_status": "in_progress", "attempt": 1},
    },
    **{
        word: {"metadata": ENDED}
        for word in (
            "subtask_completed",
            "subtask_failed",
            "subtask_skipped",
            "subtask_retrying",
            "subtask_cancelled",
        )
    },
    "plan_progress": {"metadata": {"done": 1, "total": 2, "percentage": 50.0}},
    **{
        word: {"metadata": CHANGED}
        for word in (
            "plan_paused",
            "plan_resumed",
            "plan_cancelled",
            "plan_replanning",
            "plan_sent_back",
            "plan_not_revised",
        )
    },
    "instructions_loaded": {
        "content": "Read instruction files: AGENTS.md",
        "metadata": {
            "files": [
                {
                    "path": "AGENTS.md",
                    "source": "repository",
                    "sha256": "ab" * 32,
                    "bytes": 9,
                    "how": "whole",
                    "cut": False,
                }
            ]
        },
    },
    "model_away": {
        "content": "The model does not answer.",
        "metadata": {"reason": "model", "until": "2026-09-03T10:00:00Z", "error": "timed out"},
    },
    "context_elided": {
        "content": "Older results are left out.",
        "metadata": {
            "window": 32_000,
            "tokens_before": 20_000,
            "tokens_after": 9_000,
            "results": 12,
            "version": 1,
        },
    },
    "window_used": {"metadata": {"window": 32_000, "tokens": 13_000}},
    "context_compacted": {
        "content": "The older part is summed up.",
        "metadata": {
            "window": 32_000,
            "tokens_before": 26_000,
            "tokens_after": 9_000,
            "messages": 40,
            "summary": True,
            "version": 1,
        },
    },
    "model_fallback": {
        "content": "Another one answers.",
        "metadata": {"model": "openai:b", "error": "openai:a answered 503"},
    },
    "model_back": {"content": "It answers.", "metadata": {"reason": "model"}},
    "plan_rolled_back": {
        "content": "Rolled back.",
        "metadata": {
            "plan_id": "p1",
            "by": "user:ann",
            "checkpoint_id": "checkpoint_1",
            "subtasks": ["a"],
            "again": [],
            "restored": ["a.txt"],
            "conflicts": [],
            "shared": [],
        },
    },
    "plan_completed": {
        "content": "Plan Execution Complete",
        "metadata": {
            "plan_id": "p1",
            "status": "completed",
            "total": 1,
            "completed": 1,
            "failed": 0,
            "skipped": 0,
            "cancelled": 0,
            "duration_seconds": 1.5,
        },
    },
    "owner_changed": {
        "content": "Another one goes on.",
        "metadata": {"node_id": "node_1", "fence": 2},
    },
    "checkpoint_created": {"metadata": {"checkpoint_id": "k", "reason": "before a"}},
    **{
        word: {"metadata": ASKED}
        for word in (
            "approval_requested",
            "approval_voted",
            "approval_escalated",
            "approval_warning",
            "approval_resolved",
        )
    },
    "error": {"error": "x", "content": "x", "code": "internal", "is_final": True},
    "done": {"is_final": True},
}


def words_of(model):
    annotation = model.model_fields["type"].annotation
    assert get_origin(annotation) is Literal
    return get_args(annotation)


MODELS = get_args(get_args(AnyEvent)[0])


def test_every_word_of_every_event_has_a_body_here():
    assert sorted(word for model in MODELS for word in words_of(model)) == sorted(BODIES)


def test_every_event_belongs_to_the_union():
    made = {v for v in vars(events).values() if isinstance(v, type) and issubclass(v, Event)}

    assert made - {Event} == set(MODELS)


@pytest.mark.parametrize("word", BODIES)
def test_an_event_goes_out_and_comes_back_unchanged(word):
    body = {"type": word, **ENVELOPE, **BODIES[word]}
    event = EVENTS.validate_python(body)

    assert event.body() == body
    assert EVENTS.validate_json(event.model_dump_json()) == event


def with_more(value):
    match value:
        case dict():
            return {**{key: with_more(each) for key, each in value.items()}, "from_the_future": [1]}
        case _:
            return value


@pytest.mark.parametrize("word", BODIES)
def test_fields_of_another_version_are_ignored_at_any_depth(word):
    body = {"type": word, **ENVELOPE, **BODIES[word]}
    metadata = with_more(body["metadata"]) if "metadata" in body else None
    newer = {**body, "from_the_future": 1} | ({"metadata": metadata} if metadata else {})

    assert EVENTS.validate_python(newer) == EVENTS.validate_python(body)


def test_a_body_has_no_nulls():
    assert AssistantMessage(content="x").body() == {"type": "assistant_message", "content": "x"}
    assert Done().body() == {"type": "done", "is_final": True}
    assert ErrorHappened(error="x", content="x", code="c").body()["is_final"] is False


def test_an_event_as_it_was_written_is_read_as_its_body():
    body = {"type": "done", "is_final": True}
    read = WrittenEvent.read(as_line(body))

    assert (dict(read), len(read), repr(read)) == (body, 2, repr(body))
    with pytest.raises(KeyError):
        read["content"]


def test_events_are_facts_and_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        Done().is_final = False  # type: ignore[misc]


def said_by_default():
    """What each event, and each part of one, says where nobody says it."""
    return {
        f"{kind.__name__}.{name}": field.get_default()
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, Fact)
        for name, field in kind.model_fields.items()
        if name != "type" and not field.is_required()
    }


def test_what_an_event_does_not_say_is_absent():
    assert Done().body() == {"type": "done", "is_final": True}
    said = {name: value for name, value in said_by_default().items() if value is not None}
    assert said == {
        "PlanFacts.requires_approval": True, "PlanFacts.critical_path": [],
        "PlanFacts.findings": [], "SubtaskStartedFacts.subtask_status": "in_progress",
        "RollbackFacts.again": [], "PlanEndedFacts.cancelled": 0, "ErrorHappened.is_final": False,
        "Done.is_final": True,
    }  # fmt: skip


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(Tone)
    | st.datetimes(timezones=st.just(UTC)) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner)
        | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


@given(
    st.none() | st.dictionaries(TEXTS, VALUES, max_size=3), st.none() | TEXTS,
    st.none() | st.integers(1), st.none() | st.floats(0, 1e9),
)  # fmt: skip
def test_what_is_told_plainly_is_to_the_byte_what_its_class_gives(result, text, attempt, seconds):
    facts = {"subtask_id": "a", "subtask_status": "pending", "subtask_type": text}
    later = {"reason": text, "duration_seconds": seconds, "attempt": attempt}
    place = {"type": "subtask_retrying", "plan_id": "p1", "subtask_id": "a", "agent": text}

    kept = None if result is None else plain_json(result)
    told = plain(**place, metadata=plain(**facts, result=kept, **later))

    whole = SubtaskEndedFacts(**facts, result=result, **later)
    assert json.dumps(told) == json.dumps(SubtaskEnded(**place, metadata=whole).body())


def test_how_events_sound_and_are_drawn():
    assert Done().body()
    tones = {
        "plan_commented": "notice", "steered": "notice", "plan_approved": "good",
        "plan_rejected": "warning", "plan_paused": "notice", "plan_resumed": "again",
        "plan_cancelled": "warning", "plan_replanning": "notice", "plan_sent_back": "notice",
        "plan_not_revised": "warning", "model_away": "notice", "model_back": "again",
        "context_compacted": "notice", "model_fallback": "notice", "plan_rolled_back": "notice",
        "plan_completed": "result", "approval_voted": "notice", "approval_escalated": "notice",
        "approval_warning": "notice", "owner_changed": "warning",
    }  # fmt: skip
    assert tones == events.TONES
    assert events.MARKS == {
        "subtask_completed": "✓", "subtask_failed": "✗", "subtask_skipped": "↷",
        "subtask_retrying": "↻", "subtask_cancelled": "■",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("word", "kind", "asks"),
    [
        ("plan_notification", None, True), ("plan_not_revised", None, True),
        ("approval_requested", "tool", True), ("approval_requested", "subtask", True),
        ("approval_requested", "plan", False), ("approval_resolved", "tool", False),
        ("plan_paused", None, False),
    ],
)  # fmt: skip
def test_a_person_has_seen_what_to_decide_once_it_is_put_to_them(word, kind, asks):
    assert asks_person({"type": word, "metadata": {"kind": kind}}) is asks


@pytest.mark.parametrize("body", [{}, {"type": "no_such_event"}, {"type": "tool_call"}])
def test_what_is_no_event_does_not_load(body):
    with pytest.raises(ValidationError):
        EVENTS.validate_python(body)


def test_the_schema_names_every_word():
    schema = str(EVENTS.json_schema())

    assert all(f"'{word}'" in schema for word in BODIES)
