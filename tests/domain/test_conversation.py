"""Conversations: what a model is sent is well-formed, whatever a crash left behind."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gonogo.domain.tool_calls import (
    MESSAGE,
    InstructionFile,
    ModelRequest,
    PlanAccount,
    Reply,
    Steering,
    ToolAnswer,
    ToolRequest,
    ToolSchema,
    Usage,
    UserText,
    accounted,
    answered_by,
    continued,
    count_said,
    count_unheard,
    repaired,
    says_nothing,
    steered,
    unfinished,
)

ids = st.sampled_from(["c1", "c2", "c3", "c4"])
requests = st.builds(ToolRequest, id=ids, name=st.just("t"), arguments=st.just({}))
messages = st.lists(
    st.builds(UserText, content=st.sampled_from(["hello", "again"]))
    | st.builds(
        Reply, text=st.sampled_from(["", "yes"]), calls=st.lists(requests, max_size=3).map(tuple)
    )
    | st.builds(PlanAccount, plan_id=st.sampled_from(["p1", "p2"]))
    | st.builds(
        ToolAnswer, call_id=ids, tool_name=st.just("t"), content=st.sampled_from(["1", "2"])
    ),
    max_size=12,
)


@given(messages)
def test_after_repair_each_call_is_followed_by_its_one_answer(said):
    whole = repaired(said, "lost")
    expected: list[str] = []
    asked: list[str] = []
    for message in whole:
        if isinstance(message, ToolAnswer):
            assert message.call_id == expected.pop(0)
            continue
        assert expected == []
        if isinstance(message, Reply):
            expected = [call.id for call in message.calls]
            asked += expected
    assert expected == []
    assert len(set(asked)) == len(asked)
    assert set(asked) == {c.id for m in said if isinstance(m, Reply) for c in m.calls}


@given(messages)
def test_repair_keeps_what_was_said_and_repairs_nothing_twice(said):
    whole = repaired(said, "lost")

    assert repaired(whole, "other") == whole
    assert [m for m in whole if isinstance(m, UserText)] == [
        m for m in said if isinstance(m, UserText)
    ]
    assert [m.text for m in whole if isinstance(m, Reply)] == [
        m.text for m in said if isinstance(m, Reply)
    ]


def test_the_first_answer_stays_and_a_missing_one_is_said():
    asks = Reply(calls=(ToolRequest(id="a", name="read"), ToolRequest(id="b", name="write")))
    first = ToolAnswer(call_id="b", tool_name="write", content="done")
    second = ToolAnswer(call_id="b", tool_name="write", content="done again")
    stray = ToolAnswer(call_id="x", tool_name="read", content="?")

    assert repaired([asks, stray, first, second, UserText(content="go on")], "lost") == (
        asks,
        ToolAnswer(call_id="a", tool_name="read", content="lost", is_error=True),
        first,
        UserText(content="go on"),
    )


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\u200b\ufeff", "\u2800\u3164", "<think>Hm</think> ", "<THINK>Hm", "\x00"],
)
def test_what_nobody_can_read_says_nothing(text):
    assert says_nothing(text)
    assert Reply(text=text).is_empty
    assert not Reply(text=text, calls=(ToolRequest(id="a", name="t"),)).is_empty


@pytest.mark.parametrize("text", ["x", "0", ".", "<think>Hm</think> So.", "</think>", "<thinker>"])
def test_what_can_be_read_says_something(text):
    assert not says_nothing(text)
    assert not Reply(text=text).is_unfinished
    assert Reply(text=text, cut=True).is_unfinished


def test_a_model_that_was_cut_off_is_told_to_go_on_and_what_it_said_is_one():
    cut, empty = Reply(text="One", cut=True), Reply(text=" ")
    asks = Reply(text="One", cut=True, calls=(ToolRequest(id="a", name="t"),))
    said = [UserText(content="x"), asks, Reply(text="whole"), cut, empty]

    assert unfinished(said) == [cut, empty]
    assert unfinished(said[:3]) == unfinished([]) == []
    assert continued(said, "Go on") == (*said[:4], UserText(content="Go on"), empty)


def test_what_a_reply_goes_on_with_is_said_with_it_and_not_stored_twice():
    reply = Reply(text=" two", begun="One")

    assert reply.said == "One two"
    assert "begun" not in reply.model_dump(mode="json")


@given(messages)
def test_each_plan_that_is_over_is_told_once_and_nothing_else_moves(said):
    ended = [message.plan_id for message in said if isinstance(message, PlanAccount)]
    told = accounted(said, {plan_id: f"of {plan_id}" for plan_id in ended})
    texts = [m.content for m in told if isinstance(m, UserText) and m.content.startswith("of ")]

    assert sorted(texts) == sorted(f"of {plan_id}" for plan_id in set(ended))
    assert [m for m in told if getattr(m, "content", "") not in texts] == [
        m for m in said if not isinstance(m, PlanAccount)
    ]


def test_a_plan_that_ended_twice_is_told_where_it_ended_at_last():
    one, two = PlanAccount(plan_id="p1"), PlanAccount(plan_id="p2")
    go = UserText(content="go")

    assert accounted([one, two, go, one], {"p1": "First", "p2": "Second"}) == (
        UserText(content="Second"), go, UserText(content="First"),
    )  # fmt: skip


def test_the_place_of_a_plan_is_stored_under_a_name_of_its_own():
    assert PlanAccount(plan_id="p").model_dump(mode="json") == {"role": "account", "plan_id": "p"}


@given(messages)
def test_messages_are_read_back_as_they_were_stored(said):
    stored = [message.model_dump(mode="json", exclude_none=True) for message in said]

    assert [MESSAGE.validate_python(each) for each in stored] == said


USED = {"input_tokens": 0, "cached_tokens": 0, "cache_write_tokens": 0, "output_tokens": 0,
        "reasoning_tokens": 0, "cost": None, "duration_ms": 0.0}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        ({"role": "user", "content": "x"}, {"about": None}),
        ({"role": "assistant"},
         {"text": "", "calls": (), "cut": False, "refused": False, "model": "", "raw": None,
          "usage": USED, "request_id": None, "asked": 1, "heard": None, "filled": None}),
        ({"role": "tool", "call_id": "c", "tool_name": "t", "content": "x"}, {"is_error": False}),
        ({"role": "steer", "content": "x"}, {}),
        ({"role": "account", "plan_id": "p"}, {}),
        ({"role": "shortened", "results": {"c": 0}}, {"version": 1}),
        ({"role": "compacted", "before": 3, "text": "x", "clip": 9},
         {"version": 1, "kept": (), "window": None}),
        ({"role": "instructions", "content": "x", "files": ()}, {}),
    ],
)  # fmt: skip
def test_what_a_message_does_not_say_is_not_there(said, rest):
    message = MESSAGE.validate_python(said)

    assert repaired([message], "lost") in ((message,), ())
    assert message.model_dump() == said | rest
    with pytest.raises(ValidationError, match="frozen"):
        message.role = "other"
    pinned = said["role"] in {"steer", "instructions"}
    assert message.pinned is pinned


def test_what_is_made_of_a_request_says_nothing_that_nobody_said():
    assert says_nothing("")
    made = ToolRequest(id="a", name="t")
    assert made.model_dump() == {"id": "a", "name": "t", "arguments": None, "problem": None}
    request = ModelRequest(agent="a", thread="main", system="s", messages=())
    assert request.model_dump() == {
        "agent": "a", "thread": "main", "system": "s", "messages": (), "tools": (),
        "session": "", "cache_key": "", "earlier": (),
    }  # fmt: skip
    reply = Reply()
    assert (reply.begun, reply.passed, reply.said) == ("", "", "")
    told = InstructionFile(path="A", source="user", how="whole")
    assert told.key == ("user", "A")
    assert told.model_dump(exclude_defaults=True) == {"path": "A", "source": "user", "how": "whole"}
    assert (told.sha256, told.size, told.text) == (None, 0, "")


def test_what_two_requests_took_is_added_and_a_price_that_is_not_known_is_nothing():
    one = Usage(input_tokens=1, cached_tokens=2, cache_write_tokens=3, output_tokens=4,
                reasoning_tokens=5, cost=0.25, duration_ms=1.5)  # fmt: skip
    both = {"input_tokens": 2, "cached_tokens": 4, "cache_write_tokens": 6, "output_tokens": 8,
            "reasoning_tokens": 10, "cost": 0.5, "duration_ms": 3.0}  # fmt: skip
    assert (one + one).model_dump() == both
    assert (one + Usage()).cost == (Usage() + one).cost == 0.25
    assert (Usage() + Usage()).model_dump() == USED


def test_the_model_of_the_last_reply_answers():
    said = [Reply(model="a"), UserText(content="x"), Reply(model="b"), UserText(content="y")]
    assert answered_by(said) == "b"
    assert answered_by(said[1:2]) is None


def test_a_message_of_a_later_version_still_loads():
    assert MESSAGE.validate_python({"role": "user", "content": "x", "mood": "good"}) == UserText(
        content="x"
    )


def test_a_request_goes_through_json_unchanged():
    request = ModelRequest(
        agent="coder",
        thread="main",
        system="Be good.",
        tools=(ToolSchema(name="t", description="d", parameters={}),),
        messages=(
            UserText(content="x"),
            Reply(text="y", raw={"a": [1]}, usage=Usage(input_tokens=3, cost=0.5)),
        ),
    )

    assert ModelRequest.model_validate_json(request.model_dump_json()) == request


# What a person says while a reply is under way ---------------------------------------------------


def told(words):
    return f"told: {words}"


def talk(letters):
    """A conversation as it is kept: `s` a person speaks, `u` is a message, `q` asks, `r` replies.

    Gives it, and what each request was made of.
    """
    kept: list = []
    sent: list = []
    for at, letter in enumerate(letters):
        if letter == "s":
            kept.append(Steering(content=f"{at}"))
        elif letter == "u":
            kept.append(UserText(content=f"{at}"))
        elif letter == "q":
            sent.append((steered(kept, told), count_said(kept)))
        elif sent:
            kept.append(Reply(text=f"{at}", heard=sent[-1][1] or None))
    return kept, [messages for messages, _ in sent]


@given(st.lists(st.sampled_from(["s", "u", "qr", "qsr", "qssr"]), max_size=12))
def test_each_request_begins_with_the_one_before_whenever_people_speak(parts):
    kept, sent = talk("".join(parts))
    sent.append(steered(kept, told))
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier


@given(st.text("squr", max_size=30))
def test_what_people_say_is_told_once_and_in_order(letters):
    kept, _ = talk(letters)
    said = [message.content for message in kept if isinstance(message, Steering)]
    found = steered(kept, told)
    texts = [message.content for message in found if isinstance(message, Steering)]
    assert texts == [told(words) for words in said]
    assert [m for m in found if not isinstance(m, Steering)] == [
        m for m in kept if not isinstance(m, Steering)
    ]


def test_a_reply_that_did_not_know_of_it_comes_before_what_was_said():
    kept, sent = talk("uqsrqr")
    assert [m.content for m in sent[1] if not isinstance(m, Reply)] == ["0", "told: 2"]
    assert [m.role for m in sent[1]] == ["user", "assistant", "steer"]
    assert count_unheard(kept) == 0


@pytest.mark.parametrize(
    ("letters", "unheard"), [("u", 0), ("s", 1), ("sqr", 0), ("qsr", 1), ("sqsr", 1), ("sqrss", 2)]
)
def test_what_no_reply_knows_of_is_counted(letters, unheard):
    kept, _ = talk(letters)
    assert count_unheard(kept) == unheard
    assert count_unheard(kept, count_said(kept)) == 0


def test_words_between_them_do_not_end_what_was_begun():
    cut = Reply(text="One ", cut=True)
    assert unfinished([UserText(content="?"), cut, Steering(content="Wait")]) == [cut]
    assert Steering.pinned
    assert not UserText.pinned


def test_a_call_that_is_asked_for_twice_is_asked_for_once():
    call = ToolRequest(id="c1", name="t", arguments={})

    reply, answer = repaired([Reply(text="", calls=(call, call))], "lost")

    assert isinstance(reply, Reply)
    assert reply.calls == (call,)
    assert answer == ToolAnswer(call_id="c1", tool_name="t", content="lost", is_error=True)
