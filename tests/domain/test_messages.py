"""Client messages: strict about their shape, tolerant of older names, and never guessed."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError, field_validator

from gonogo.domain.base import Request
from gonogo.domain.errors import InvalidMessage, NotFound, UnknownType
from gonogo.domain.messages import (
    Cancel,
    HitlDecision,
    PlanDecision,
    Steer,
    SwitchAgent,
    ToolResultMessage,
    UserMessage,
    decision_word,
    parse_message,
    possible,
    refuse_nulls,
    title_of,
    validated,
)
from gonogo.domain.plan import Scope
from gonogo.domain.states import DecisionWord
from gonogo.domain.views import Health


@pytest.mark.parametrize(
    ("raw", "model"),
    [
        ({"type": "user_message", "content": "Hi", "agent_type": "architect"}, UserMessage),
        ({"type": "user_message", "content": "Hi", "role": "user"}, UserMessage),
        ({"type": "switch_agent", "agent_type": "coder", "confidence": 0.5}, SwitchAgent),
        (
            {"type": "plan_decision", "plan_id": "p", "decision": "approve", "revision": 1},
            PlanDecision,
        ),
        (
            {
                "type": "plan_decision",
                "plan_id": "p",
                "decision": "edit",
                "modified_subtasks": None,
            },
            PlanDecision,
        ),
        ({"type": "hitl_decision", "call_ids": ["a", "b"], "decision": "reject"}, HitlDecision),
        ({"type": "tool_result", "call_id": "a", "result": None}, ToolResultMessage),
        ({"type": "cancel"}, Cancel),
        ({"type": "steer", "content": "Stop."}, Steer),
        ({"type": "steer", "content": "Stop.", "plan_id": "p", "subtask_id": "a"}, Steer),
    ],
)
def test_each_message_is_read_as_its_kind(raw, model):
    assert isinstance(parse_message(raw), model)


@pytest.mark.parametrize("raw", [[], "user_message", 7, None])
def test_what_is_no_object_is_no_message(raw):
    with pytest.raises(ValidationError):
        UserMessage.model_validate(raw)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {
                "type": "plan_decision",
                "approval_request_id": "plan-approval-p1",
                "decision": "approve",
            },
            {"type": "plan_decision", "plan_id": "p1", "decision": "approve"},
        ),
        (
            {"type": "plan_approval", "plan_id": "p1", "decision": "reject", "feedback": "no"},
            {"type": "plan_decision", "plan_id": "p1", "decision": "reject", "feedback": "no"},
        ),
        (
            {
                "type": "hitl_response",
                "call_id": "c",
                "action": "edit",
                "edited_arguments": {"a": 1},
            },
            {
                "type": "hitl_decision",
                "call_id": "c",
                "decision": "edit",
                "modified_arguments": {"a": 1},
            },
        ),
        (
            {"type": "user_message", "content": "x", "agent": "ask"},
            {"type": "user_message", "content": "x", "agent_type": "ask"},
        ),
        (
            {"type": "switch_agent", "agent": "ask"},
            {"type": "switch_agent", "agent_type": "ask"},
        ),
    ],
)
def test_an_older_spelling_means_the_same(old, new):
    assert parse_message(old) == parse_message(new)


def test_a_plan_id_that_looks_like_an_approval_is_left_alone():
    message = parse_message(
        {"type": "plan_decision", "plan_id": "plan-approval-x", "decision": "hold"}
    )

    assert message.plan_id == "plan-approval-x"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (None, "must be a JSON object"),
        ([], "must be a JSON object"),
        ({}, "type: a message needs a type"),
        ({"type": 5}, "type: a message needs a type"),
        ({"type": "user_message"}, "content: Field required"),
        ({"type": "user_message", "content": ""}, "content: String should have at least 1"),
        ({"type": "user_message", "content": 5}, "content: Input should be a valid string"),
        ({"type": "user_message", "content": None}, "content: Field required"),
        (
            {"type": "user_message", "content": "x", "role": "system"},
            "role: Input should be 'user'",
        ),
        ({"type": "user_message", "content": "x", "more": 1}, "more: Extra inputs"),
        (
            {"type": "user_message", "content": "x", "agent": "a", "agent_type": "b"},
            "agent: agent_type says the same",
        ),
        (
            {"type": "plan_decision", "plan_id": "p", "decision": "approve", "start": "yes"},
            "start: ",
        ),
        (
            {"type": "plan_decision", "plan_id": "p", "decision": "approve", "revision": True},
            "revision: ",
        ),
        (
            {"type": "plan_decision", "plan_id": "p", "decision": "approve", "revision": 0},
            "revision: ",
        ),
        (
            {"type": "plan_decision", "plan_id": "p", "decision": "approve", "revision": 10**30},
            "revision: ",
        ),
        ({"type": "plan_decision", "plan_id": "a b", "decision": "approve"}, "plan_id: "),
        (
            {
                "type": "plan_decision",
                "plan_id": 7,
                "approval_request_id": "x",
                "decision": "approve",
            },
            "says the same",
        ),
        ({"type": "plan_decision", "approval_request_id": 7, "decision": "approve"}, "plan_id: "),
        (
            {"type": "hitl_decision", "decision": "approve"},
            "exactly one of call_id, call_ids and approval_id",
        ),
        (
            {"type": "hitl_decision", "decision": "approve", "call_id": "a", "approval_id": "b"},
            "exactly one of",
        ),
        ({"type": "hitl_decision", "decision": "approve", "call_ids": []}, "call_ids: "),
        ({"type": "tool_result", "call_id": "a"}, "^give exactly one of result and error"),
        (
            {"type": "tool_result", "call_id": "a", "result": 1, "error": "x"},
            "^give exactly one of result and error",
        ),
    ],
)
def test_a_wrong_shape_is_refused_with_the_field_named(raw, said):
    with pytest.raises(InvalidMessage, match=said):
        parse_message(raw)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (None, "A message must be a JSON object"),
        ({"type": 5}, "type: a message needs a type"),
        ({"type": "user_message", "content": "x", "agent": "a", "agent_type": "b"},
         "agent: agent_type says the same; give one of them"),
        ({"type": "hitl_decision", "decision": "approve"},
         "give exactly one of call_id, call_ids and approval_id"),
        ({"type": "tool_result", "call_id": "a"}, "give exactly one of result and error"),
        ({"type": "steer", "content": "x", "plan_id": "p"},
         "give plan_id and subtask_id together"),
        ({"type": "steer", "content": "x", "subtask_id": "a"},
         "give plan_id and subtask_id together"),
        ({"type": "steer", "content": "x", "plan_id": "p", "subtask_id": "a", "turn_id": "t"},
         "give either a turn or a subtask"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_message_is_told_whole(raw, said):
    with pytest.raises(InvalidMessage) as refused:
        parse_message(raw)
    assert str(refused.value) == said


DECIDED = {"plan_id": "p", "decision": "approve"}


@pytest.mark.feature(35)
@pytest.mark.feature(35)
@pytest.mark.parametrize(
    ("raw", "rest"),
    [
        ({"type": "user_message", "content": "x"}, {"role": "user", "agent_type": None}),
        ({"type": "switch_agent", "agent_type": "a"},
         {"content": None, "reason": None, "confidence": None}),
        ({"type": "plan_decision", **DECIDED},
         {"revision": None, "digest": None, "modified_subtasks": None, "feedback": None,
          "start": True, "auto_approve_tools": True}),
        ({"type": "hitl_decision", "call_id": "c", "decision": "approve"},
         {"call_ids": None, "approval_id": None, "digest": None, "modified_arguments": None,
          "feedback": None, "for_session": False, "for_plan": False}),
        ({"type": "hitl_decision", "approval_id": "a", "decision": "approve"},
         {"call_ids": None, "call_id": None, "digest": None, "modified_arguments": None,
          "feedback": None, "for_session": False, "for_plan": False}),
        ({"type": "tool_result", "call_id": "c", "error": "x"}, {"result": None}),
        ({"type": "tool_result", "call_id": "c", "result": 1}, {"error": None}),
        ({"type": "cancel"}, {"turn_id": None, "reason": None}),
        ({"type": "steer", "content": "x"},
         {"turn_id": None, "plan_id": None, "subtask_id": None}),
    ],
)  # fmt: skip
def test_what_a_message_does_not_say_is_not_there(raw, rest):
    assert parse_message(raw).model_dump() == raw | rest


@pytest.mark.parametrize(
    ("raw", "name", "most"),
    [
        ({"type": "cancel"}, "reason", "x" * 4_000),
        ({"type": "steer"}, "content", "x" * 4_000),
        ({"type": "cancel"}, "turn_id", "Aa0_.:-" + "x" * 121),
        ({"type": "hitl_decision", "decision": "approve"}, "call_ids", ["a"] * 256),
        ({"type": "plan_decision", **DECIDED}, "revision", 2**31 - 1),
    ],
)
def test_a_field_may_be_as_large_as_that_and_no_larger(raw, name, most):
    assert getattr(parse_message({**raw, name: most}), name) == most
    more = most + 1 if isinstance(most, int) else most + most[-1:]
    with pytest.raises(InvalidMessage, match=f"^{name}"):
        parse_message({**raw, name: more})


def test_a_field_may_be_as_small_as_that_and_no_smaller():
    assert parse_message({"type": "cancel", "reason": "x"}).reason == "x"
    assert parse_message({"type": "steer", "content": "x"}).content == "x"
    assert parse_message({"type": "user_message", "content": "x"}).content == "x"
    for raw in ({"type": "cancel", "reason": ""}, {"type": "steer", "content": ""},
                {"type": "cancel", "turn_id": ""}):  # fmt: skip
        with pytest.raises(InvalidMessage):
            parse_message(raw)


def test_an_id_that_nothing_can_have_is_not_found():
    assert possible("Az09_.:-") == "Az09_.:-"
    for name in ("", "a b", "a/b", "x" * 129, "a\n"):
        with pytest.raises(NotFound) as refused:
            possible(name)
        assert str(refused.value) == f"{name[:80]!r} cannot be an id; copy the id from a list"


class Body(Request):
    """A body that is no message: a null in it is a mistake, unless the field has that value."""

    nulls = frozenset({"kept"})
    kept: str | None = None
    other: str | None = None
    inner: dict[str, int | None] = {}

    @field_validator("inner", mode="before")
    @classmethod
    def _has_no_nulls(cls, given: dict[str, int | None]) -> dict[str, int | None]:
        refuse_nulls(given, place="inner.")
        return given


def test_a_null_in_a_body_is_refused_where_it_is_no_value():
    assert validated(Body, {"kept": None}).kept is None
    for fields, said in (
        ({"other": None}, "other: leave the field out instead of sending null"),
        ({"inner": {"x": None}}, "inner.x: leave the field out instead of sending null"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
        ({"other": 1}, "other: Input should be a valid string"),
        ([], "The body must be a JSON object"),
    ):
        with pytest.raises(InvalidMessage) as refused:
            validated(Body, fields)
        assert str(refused.value) == said


def test_what_crosses_a_border_does_not_change_there():
    for value, name in (
        (parse_message({"type": "cancel"}), "reason"), (validated(Body, {}), "other"),
        (Scope(), "tools"), (Health(status="ok"), "status"),
    ):  # fmt: skip
        with pytest.raises(ValidationError, match="frozen"):
            setattr(value, name, None)
    with pytest.raises(ValidationError, match="Extra inputs"):
        Scope.model_validate({"more": 1})
    assert Health.model_validate({"status": "ok", "more": 1}) == Health(status="ok")


@pytest.mark.parametrize("kind", ["done", "error", "plan_approved", "", "USER_MESSAGE", "x" * 500])
def test_what_clients_cannot_send_is_an_unknown_type(kind):
    with pytest.raises(UnknownType) as refused:
        parse_message({"type": kind})
    assert str(refused.value) == (
        f"Clients cannot send a message of type {kind[:80]!r}; see the message types in "
        "docs/reference/protocol.md"
    )


def test_a_decision_is_not_told_at_any_length():
    with pytest.raises(InvalidMessage) as refused:
        decision_word("x" * 81, "tool", set(DecisionWord))
    assert str(refused.value) == "Invalid tool decision: " + "x" * 80


@pytest.mark.parametrize("word", ["", "yes", "APPROVE", "approve ", "да", "cancel"])
def test_an_unknown_decision_is_refused_in_the_words_of_the_documents(word):
    message = parse_message({"type": "plan_decision", "plan_id": "p", "decision": word})
    with pytest.raises(InvalidMessage, match="Invalid plan decision: ") as refused:
        _ = message.word
    assert str(refused.value) == f"Invalid plan decision: {word}"


def test_only_a_plan_can_be_held():
    plan = parse_message({"type": "plan_decision", "plan_id": "p", "decision": "hold"})
    call = parse_message({"type": "hitl_decision", "call_id": "c", "decision": "hold"})

    assert plan.word is DecisionWord.HOLD
    with pytest.raises(InvalidMessage, match=r"^Invalid tool decision: hold$"):
        _ = call.word


@pytest.mark.parametrize("subject", ["plan", "tool"])
def test_plans_and_tools_are_decided_with_the_same_words(subject):
    allowed = set(DecisionWord) - {DecisionWord.HOLD}

    assert {decision_word(w, subject, allowed) for w in ("approve", "edit", "reject")} == allowed
    assert decision_word("modify", subject, allowed) is DecisionWord.EDIT


@pytest.mark.parametrize(
    ("error", "rejects"),
    [
        ("User rejected: too risky", True),
        ("Операция отклонена: нет", True),
        ("The User rejected it", False),
        ("user rejected", False),
        ("file_not_found: x", False),
    ],
)
def test_only_the_old_clients_own_words_count_as_a_rejection(error, rejects):
    message = parse_message({"type": "tool_result", "call_id": "c", "error": error})

    assert message.is_legacy_rejection is rejects


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "user_message", "content": "Hi", "role": None, "agent_type": None, "agent": None},
        {"type": "switch_agent", "agent_type": "coder", "content": None, "confidence": None},
        {
            "type": "plan_decision", "plan_id": "p", "approval_request_id": None,
            "decision": "approve", "revision": None, "digest": None, "modified_subtasks": None,
            "feedback": None, "start": None, "auto_approve_tools": None,
        },
        {
            "type": "hitl_decision", "call_id": "c", "call_ids": None, "approval_id": None,
            "decision": "reject", "action": None, "modified_arguments": None,
            "edited_arguments": None, "feedback": None, "reason": None, "for_session": None,
        },
        {"type": "tool_result", "call_id": "c", "result": {"a": None}, "error": None},
        {"type": "tool_result", "call_id": "c", "result": None, "error": "file_not_found"},
        {"type": "cancel", "turn_id": None},
    ],
)  # fmt: skip
def test_a_null_in_a_message_is_a_field_left_out(raw):
    without = {name: value for name, value in raw.items() if value is not None}

    assert parse_message(raw) == parse_message(without)


def test_a_null_result_is_a_result_and_a_null_inside_of_values_stays():
    told = parse_message({"type": "tool_result", "call_id": "c", "result": None, "error": None})
    inside = parse_message({"type": "tool_result", "call_id": "c", "result": {"a": [None]}})
    edited = parse_message(
        {
            "type": "hitl_decision", "call_id": "c", "decision": "edit",
            "modified_arguments": {"to": None},
        }
    )  # fmt: skip

    assert (told.result, told.error) == (None, None)
    assert inside.result == {"a": [None]}
    assert edited.modified_arguments == {"to": None}


@pytest.mark.parametrize("name", ["content", "decision", "call_id"])
def test_a_null_in_the_place_of_what_a_message_needs_is_refused(name):
    whole = {
        "content": {"type": "user_message", "content": "x"},
        "decision": {"type": "plan_decision", "plan_id": "p", "decision": "approve"},
        "call_id": {"type": "tool_result", "call_id": "c", "result": 1},
    }[name]

    with pytest.raises(InvalidMessage, match=f"^{name}: Field required"):
        parse_message({**whole, name: None})


def test_a_result_is_never_a_rejection():
    assert not parse_message(
        {"type": "tool_result", "call_id": "c", "result": "User rejected"}
    ).is_legacy_rejection


def test_a_body_is_read_as_strictly_as_a_message():
    assert validated(Cancel, {"type": "cancel"}).turn_id is None
    with pytest.raises(InvalidMessage, match="The body must be a JSON object"):
        validated(Cancel, ["cancel"])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.sampled_from(
    [
        "type",
        "content",
        "agent",
        "agent_type",
        "plan_id",
        "approval_request_id",
        "decision",
        "action",
        "call_id",
        "call_ids",
        "result",
        "error",
        "modified_subtasks",
        "modified_arguments",
        "revision",
    ]
)
kinds = st.sampled_from(
    [
        "user_message",
        "switch_agent",
        "plan_decision",
        "plan_approval",
        "hitl_decision",
        "hitl_response",
        "tool_result",
        "cancel",
    ]
)


@given(kinds, st.dictionaries(names, json_values, max_size=6))
def test_whatever_a_stranger_sends_is_a_message_or_an_invalid_one(kind, fields):
    with suppress(InvalidMessage):
        message = parse_message({**fields, "type": kind})
        assert message.type in {kind, "plan_decision", "hitl_decision"}


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (" Fix it\nand more", "Fix it"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("word " * 20, "word " * 15 + "word…"),
    ],
)
def test_a_title_is_the_first_line_cut_between_words(said, title):
    assert title_of(said) == title
    assert len(title_of(said)) <= 80
