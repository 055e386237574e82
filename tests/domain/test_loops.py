"""A conversation that gets nowhere is noticed in time, and one that gets somewhere never."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.replanning import LoopKind, LoopLimits, Stuck, stuck
from gonogo.domain.tool_calls import Reply, ToolAnswer, ToolRequest, UserText

NUMBERS = count()
LIMITS = LoopLimits()


def call(tool="read_file", arguments=None, result="x", *, error=False):
    return tool, arguments or {}, result, error


def replied(*calls, text=""):
    """A reply with those calls, and their answers."""
    ids = [f"call_{next(NUMBERS)}" for _ in calls]
    requests = tuple(
        ToolRequest(id=key, name=tool, arguments=arguments)
        for key, (tool, arguments, _, _) in zip(ids, calls, strict=True)
    )
    answers = [
        ToolAnswer(call_id=key, tool_name=tool, content=result, is_error=error)
        for key, (tool, _, result, error) in zip(ids, calls, strict=True)
        if result is not None
    ]
    return [Reply(text=text, calls=requests), *answers]


def said(*rounds):
    return [UserText(content="go"), *(message for one in rounds for message in one)]


A, B, C = call("a"), call("b"), call("c")


@pytest.mark.feature(215)
def test_the_same_call_with_the_same_result_is_stopped_at_the_fourth_time():
    rounds = [replied(A) for _ in range(4)]

    assert stuck(said(*rounds[:3])) is None
    assert stuck(said(*rounds)) == Stuck(kind=LoopKind.REPEATED, count=4, tools=("a",))


@pytest.mark.feature(215)
@pytest.mark.parametrize("turn", [(A, B), (A, B, C), (A, A, B)])
def test_calls_in_turn_are_stopped_in_the_third_round(turn):
    rounds = [replied(one) for _ in range(3) for one in turn]
    found = stuck(said(*rounds))

    assert stuck(said(*rounds[:-1])) is None
    assert found is not None
    assert (found.kind, found.count) == (LoopKind.PING_PONG, 3)
    assert set(found.tools) == {tool for tool, *_ in turn}


@pytest.mark.feature(215)
def test_one_error_in_many_ways_is_stopped_at_the_fifth_time():
    rounds = [replied(call("a", {"n": n}, "no such thing", error=True)) for n in range(5)]
    found = stuck(said(*rounds))

    assert stuck(said(*rounds[:4])) is None
    assert found == Stuck(kind=LoopKind.SAME_ERROR, count=5, tools=("a",), detail="no such thing")
    assert found.key == "stuck_same_error"


@pytest.mark.feature(215)
def test_replies_that_only_talk_are_stopped_at_the_third():
    rounds = [[Reply(text=f"I will now do it, {n}")] for n in range(3)]

    assert stuck(said(*rounds[:2])) is None
    assert stuck(said(*rounds)) == Stuck(kind=LoopKind.MONOLOGUE, count=3)


def test_a_conversation_in_which_a_person_answers_is_no_monologue():
    talk = [message for n in range(9) for message in (UserText(content="?"), Reply(text="yes"))]

    assert stuck(talk) is None


def test_a_word_of_the_user_begins_the_count_anew():
    rounds = [replied(A) for _ in range(3)]

    assert stuck([*said(*rounds), *said(*rounds)]) is None


def test_calls_of_one_reply_count_together():
    both = [replied(A, B) for _ in range(4)]
    grows = [replied(A, call("b", result=str(n))) for n in range(9)]

    assert stuck(said(*both)) == Stuck(kind=LoopKind.REPEATED, count=4, tools=("a", "b"))
    assert stuck(said(*grows)) is None
    assert stuck(said(replied(A, A, A, A))) is None


def test_how_long_it_took_makes_no_other_result():
    rounds = [
        replied(call("run", {}, f'{{"output": "1 failed in 0.{n}s", "duration_ms": {n}}}'))
        for n in range(4)
    ]

    assert stuck(said(*rounds)) is not None


def test_arguments_that_are_no_object_are_told_apart_by_what_is_wrong_with_them():
    def broken(problem):
        key = f"call_{next(NUMBERS)}"
        request = ToolRequest(id=key, name="a", problem=problem)
        return [Reply(calls=(request,)), ToolAnswer(call_id=key, tool_name="a", content="no")]

    assert stuck(said(*(broken("not JSON") for _ in range(4)))) is not None
    assert stuck(said(*(broken(f"not JSON {n}") for n in range(4)))) is None


def test_errors_beside_results_are_no_repeated_error():
    mixed = [
        replied(call("a", {"n": n}, "no", error=True), call("b", {"n": n}, str(n)))
        for n in range(9)
    ]

    assert stuck(said(*mixed)) is None


@pytest.mark.parametrize("messages", [[], [UserText(content="go")], [Reply(text="done")]])
def test_nothing_is_no_loop(messages):
    assert stuck(messages) is None


def test_calls_without_a_result_are_not_looked_at():
    waiting = [replied(call("a", result=None)) for _ in range(9)]

    assert stuck(said(*waiting)) is None
    assert stuck(said(*waiting[:2], *(replied(A) for _ in range(4)), *waiting[:1])) is not None


def test_four_in_turn_are_more_than_anybody_looks_for():
    assert stuck(said(*(replied(call(tool)) for _ in range(9) for tool in "abcd"))) is None


def test_a_reply_that_is_not_over_does_not_count_as_talk():
    half = [[Reply(text=f"I will {n}", cut=True)] for n in range(9)]
    whole = [[Reply(text=f"I will {n}")] for n in range(3)]
    assert stuck(said(*half)) is None
    assert stuck(said(*whole[:2], *half)) is None
    assert stuck(said(whole[0], half[0], *whole[1:])) == Stuck(kind=LoopKind.MONOLOGUE, count=3)


def test_an_error_is_told_up_to_a_length_and_without_how_long_it_took():
    rounds = [replied(call("a", {"n": n}, "x" * 400, error=True)) for n in range(5)]
    found = stuck(said(*rounds))
    assert (found.detail, found.tools, found.count) == ("x" * 300, ("a",), 5)


@pytest.mark.parametrize(
    "took",
    ["in {} ms", "in {}.5s", "after {} sec", "after {} seconds", "after {}.25 second",
     '{{"duration_ms": {}.5}}', '{{"duration_ms":{}}}'],
)  # fmt: skip
def test_times_are_no_other_result_in_whatever_form(took):
    def again(form):
        return stuck(said(*(replied(call(result=form.format(n))) for n in range(4))))

    assert again(took) == Stuck(kind=LoopKind.REPEATED, count=4, tools=("read_file",))
    assert again("{} files") is None


def test_a_loop_is_told_by_its_kind_alone_where_it_has_no_tools():
    found = Stuck(kind=LoopKind.MONOLOGUE, count=3)
    assert (found.tools, found.detail, found.key) == ((), "", "stuck_monologue")


TOOLS = st.sampled_from(["a", "b"])
CALLS = st.tuples(TOOLS, st.dictionaries(st.just("n"), st.integers(0, 1)), st.booleans())


@given(st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=25))
def test_it_never_fires_while_every_reply_brings_something_new(replies):
    fresh = count()
    rounds = [
        replied(*(call(tool, n, f"r{next(fresh)}", error=error) for tool, n, error in calls))
        for calls in replies
    ]

    assert stuck(said(*rounds)) is None


PIECES = st.tuples(TOOLS, st.integers(0, 2), st.sampled_from(["x", "y"]), st.booleans())


@given(
    st.lists(PIECES, max_size=12),
    st.lists(PIECES, min_size=1, max_size=3),
    st.builds(
        LoopLimits,
        repeated=st.integers(1, 6),
        rounds=st.integers(1, 5),
        same_error=st.integers(1, 6),
    ),
)
def test_a_loop_is_always_noticed_within_the_bound(before, turn, limits):
    bound = max(limits.repeated, limits.rounds) * len(turn)
    looped = [turn[n % len(turn)] for n in range(bound)]
    rounds = [
        replied(call(tool, {"n": n}, result, error=error))
        for tool, n, result, error in (*before, *looped)
    ]

    assert stuck(said(*rounds), limits) is not None


@given(st.integers(1, 8), st.integers(0, 300))
def test_the_length_of_the_conversation_makes_no_difference(limit, before):
    rounds = [replied(call("a", {"n": n}, str(n))) for n in range(before)]
    limits = LoopLimits(repeated=limit)
    end = [replied(A) for _ in range(limit)]

    assert stuck(said(*rounds, *end), limits) == stuck(said(*end), limits)
