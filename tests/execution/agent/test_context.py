"""What a model is asked is built from the record: the same record, the same request, byte for byte.

A conversation is made here of its parts, as the store would give them.
"""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from gonogo.domain.records import CallRow
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import (
    Compacted,
    Instructions,
    PlanAccount,
    Reply,
    Shortened,
    Steering,
    ToolAnswer,
    ToolClass,
    ToolRequest,
    ToolSchema,
    Usage,
    UserText,
)
from gonogo.execution.agent.context import (
    Frame,
    Passage,
    StoredThread,
    cache_key,
    estimate,
    kept_places,
    parts_of,
    record_of_thread,
    to_compact,
    to_elide,
    tokens_in,
    too_long,
    transcript,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FRAME = Frame("You are the coder.", ())
WINDOW = 10_000


def call_row(call_id, size=0, *, tool="read_file", kind=ToolClass.PURE, error=None):
    ended = CallStatus.COMPLETED if error is None else CallStatus.FAILED
    result = {"path": f"{call_id}.py", "content": "x = 1\n" * (size * 4 // 6)}
    return CallRow(
        id=call_id, session_id="s", thread="t", turn_id=None, plan_id=None, revision=None,
        subtask_id=None, position=0, agent="coder", tool=tool, tool_class=kind,
        arguments={"path": f"{call_id}.py"}, proposed_arguments=None, base_hashes={}, effects=[],
        digest="", status=ended, verdict={}, approval_id=None, retry_of=None,
        result=None if error else result, error=error, created_at=NOW, started_at=NOW,
        finished_at=NOW,
    )  # fmt: skip


def asks(*ids, text="", tokens=0, **more):
    made = tuple(ToolRequest(id=each, name="read_file", arguments={"path": "a"}) for each in ids)
    return Reply(text=text, calls=made, model="m", usage=Usage(input_tokens=tokens), **more)


def record(said, *calls, accounts=None, locale="en"):
    stored = StoredThread(said=said, calls={call.id: call for call in calls})
    return record_of_thread(stored, accounts or {}, locale)


def steps(count, size, **more):
    """A task, and so many replies that each read something of that many tokens."""
    said = [UserText(content="Do it"), *(asks(f"c{n}") for n in range(count))]
    return said, [call_row(f"c{n}", size, **more) for n in range(count)]


def well_formed(messages):
    """Whether each call is followed by its one result, and each result follows its call."""
    waiting = []
    for message in messages:
        if isinstance(message, ToolAnswer):
            assert waiting.pop(0) == message.call_id
            continue
        assert waiting == []
        waiting = [call.id for call in message.calls] if isinstance(message, Reply) else []
    assert waiting == []


def test_a_result_that_is_too_long_is_shown_in_part_and_the_record_keeps_it():
    said, calls = steps(2, 5_000)
    found = record(said, *calls)
    parts = too_long(found, 100_000, 1_000)
    assert parts == {"c0": 1_000, "c1": 1_000}

    shorter = record([*said, Shortened(results=parts)], *calls)
    answers = [m for m in shorter.messages if isinstance(m, ToolAnswer)]
    assert all(tokens_in(answer) < 1_100 for answer in answers)
    first = answers[0].content
    assert first.startswith("path: c0.py\ncontent:\nx = 1")
    assert first.endswith("x = 1\n")
    assert "rows 443 to" in first
    assert '"id": "c0", "from": 443' in first
    assert shorter.whole == found.whole
    assert too_long(shorter, 100_000, 1_000) == {}


def test_all_results_of_one_reply_share_a_quarter_of_the_window():
    said = [UserText(content="Do it"), asks("a", "b", "c")]
    calls = [call_row("a", 4_000), call_row("b", 4_000), call_row("c", 100)]
    assert too_long(record(said, *calls), WINDOW, 8_000) == {"a": 833, "b": 833}
    assert too_long(record(said, *calls), 4 * 9_600, 8_000) == {}
    assert set(too_long(record(said, *calls), 100, 8_000).values()) == {200}


def test_what_a_text_stands_for_is_not_looked_at_again():
    said, calls = steps(2, 5_000)
    mark = Compacted(before=2, text="Facts", kept=(0,), clip=100)
    assert too_long(record([*said, mark], *calls), 100_000, 1_000) == {"c1": 1_000}


def test_old_results_of_calls_that_only_looked_become_a_line_each():
    said, calls = steps(10, 700)
    lines = to_elide(record(said, *calls), WINDOW)
    # The last fifth of the window stays: two results of 700.
    assert list(lines) == [f"c{n}" for n in range(8)]

    shorter = record([*said, Shortened(results=lines)], *calls)
    answers = [m for m in shorter.messages if isinstance(m, ToolAnswer)]
    assert answers[0].content == (
        "[read_file path=c0.py: 2817 characters, given before and left out"
        ' here. To see them again: read_output with {"id": "c0"}.]'
    )
    assert (
        answers[8:] == [m for m in record(said, *calls).messages if isinstance(m, ToolAnswer)][8:]
    )
    assert to_elide(shorter, WINDOW) == {}


@pytest.mark.parametrize(
    "more", [{"kind": ToolClass.IDEMPOTENT}, {"error": "policy_denied: no " + "x" * 3_000}]
)
def test_what_changed_something_or_went_wrong_stays(more):
    said, calls = steps(10, 700, **more)
    assert to_elide(record(said, *calls), WINDOW) == {}


def test_an_elision_that_gives_little_back_is_put_off():
    said, calls = steps(4, 700)
    assert to_elide(record(said, *calls), WINDOW) != {}
    assert to_elide(record(said, *calls), 20_000) == {}


def test_a_line_says_how_a_part_of_an_output_is_read_anew():
    said, calls = [asks("a")], [call_row("a", 700, tool="read_output")]
    found = record([*said, Shortened(results={"a": 0})], *calls)
    assert found.messages[1].content.endswith("To see them again: call it again.]")
    part = record([*said, Shortened(results={"a": 200})], *calls)
    assert "Ask for fewer rows.]" in part.messages[1].content


def test_an_error_that_is_too_long_is_shown_in_part_too():
    said, calls = [asks("a")], [call_row("a", error="failed: " + "y" * 9_000)]
    assert too_long(record(said, *calls), 100_000, 1_000) == {"a": 1_000}
    found = record([*said, Shortened(results={"a": 1_000})], *calls)
    assert found.messages[1].is_error
    assert found.messages[1].content.startswith("failed: yyy")


def test_a_text_stands_for_the_older_part_and_the_task_stays_before_it():
    said, calls = steps(10, 700)
    found = record(said, *calls)
    end = to_compact(found, WINDOW)
    assert end == 9
    mark = Compacted(before=end, text="Facts", kept=kept_places(found, end, turns=False), clip=100)
    shorter = record([*said, mark], *calls)
    assert [m.role for m in shorter.messages] == ["user", "user", *["assistant", "tool"] * 2]
    assert [m.content for m in shorter.messages[:2]] == ["Do it", "Facts"]
    assert shorter.earlier == ("m",) * 8
    assert shorter.whole == found.whole
    well_formed(shorter.messages)


def test_the_task_of_a_session_is_what_the_person_said_last():
    said = [UserText(content="First"), asks(text="Well"), UserText(content="Second"), asks("a")]
    found = record(said, call_row("a"))
    assert kept_places(found, 4, turns=True) == (2,)
    assert kept_places(found, 2, turns=True) == ()
    assert kept_places(found, 4, turns=False) == (0,)
    assert kept_places(found, 0, turns=False) == ()


class Pinned(UserText):
    """A message that has to stay."""

    pinned = True


def test_what_is_pinned_stays_whole_where_others_go():
    said = [UserText(content="Do it"), Pinned(content="House rules"), *[asks(text="x")] * 3]
    found = record(said)
    kept = kept_places(found, 4, turns=False)
    assert kept == (0, 1)
    shorter = record([*said, Compacted(before=4, text="Facts", kept=kept, clip=100)])
    assert [m.content for m in shorter.messages[:3]] == ["Do it", "House rules", "Facts"]
    rules = Pinned(content="rule\n" * 500)
    found = record([said[0], rules, Compacted(before=2, text="Facts", kept=(0, 1), clip=100)])
    assert found.messages[1] is rules
    # Nor is it taken for the task.
    assert kept_places(record([UserText(content="Do it"), rules]), 2, turns=True) == (0, 1)


def test_a_task_that_is_longer_than_a_part_of_the_window_is_shown_in_part():
    task = "line of the task\n" * 1_000
    said = [UserText(content=task), asks(text="x")]
    found = record([*said, Compacted(before=1, text="Facts", kept=(0,), clip=500)])
    assert found.messages[0].content.startswith("line of the task\n")
    assert estimate(found.messages[0].content) < 600


def test_a_reply_that_goes_on_with_others_is_not_cut_in_two():
    parts = [asks(text="y" * 4_000, cut=True) for _ in range(3)]
    said = [UserText(content="Do it"), asks(text="z" * 4_000), *parts]
    assert to_compact(record(said), WINDOW) == 2
    said = [UserText(content="Do it"), *parts]
    assert to_compact(record(said), WINDOW) == 1


def test_the_last_message_stays_however_long_it_is():
    said = [UserText(content="Do it"), asks("a")]
    assert to_compact(record(said, call_row("a", 9_000)), WINDOW) == 1
    # But the task may be cut, if it is all there is.
    assert to_compact(record([UserText(content="x" * 80_000)]), WINDOW) == 0


def test_the_size_is_what_the_provider_counted_and_an_estimate_of_what_came_since():
    said = [UserText(content="Do it"), asks("a", tokens=1_000)]
    found = record(said, call_row("a", 700))
    since = tokens_in(found.messages[-1])
    assert found.tokens(FRAME) == 1_000 + since
    twice = record([said[0], asks("a", tokens=1_000, asked=2)], call_row("a", 700))
    assert twice.tokens(FRAME) == 500 + since


def test_where_less_is_shown_since_nothing_is_counted_and_all_is_an_estimate():
    said = [UserText(content="Do it"), asks("a", tokens=9_000)]
    found = record([*said, Shortened(results={"a": 0})], call_row("a", 700))
    assert found.tokens(FRAME) == FRAME.tokens + sum(map(tokens_in, found.messages)) < 200
    counted = record([*said, Shortened(results={"a": 0}), asks(text="x", tokens=77)])
    assert counted.tokens(FRAME) == 77


def test_letters_of_other_alphabets_take_more_tokens():
    assert (estimate("abcd"), estimate("абвг"), estimate("漢字")) == (1, 2, 2)


def test_the_account_of_a_plan_counts_and_stands_where_the_plan_ended_last():
    said = [PlanAccount(plan_id="p"), asks(text="x"), PlanAccount(plan_id="p"), asks(text="y")]
    found = record(said, accounts={"p": "All of it." * 100})
    assert [m.role for m in found.messages] == ["assistant", "user", "assistant"]
    assert found.size_of(found.places[0]) > 250


def test_what_is_summed_up_has_the_older_text_and_is_cut_to_what_fits():
    said, calls = steps(50, 700)
    mark = Compacted(before=3, text="What was before", kept=(0,), clip=100)
    told = transcript(record([*said, mark], *calls), 40, 2_000)
    assert told.startswith("EARLIER: What was before\n\n")
    assert len(told) < 2_000 * 4 * 1.6
    assert "AGENT: CALLS: read_file" in told
    assert "RESULT of read_file: {" in told
    assert told.count("RESULT") < 37
    assert (
        transcript(record([UserText(content="Hm"), PlanAccount(plan_id="p")]), 2, 999) == "USER: Hm"
    )


def test_the_least_that_a_provider_refused_is_remembered():
    marks = [Compacted(before=0, text="", clip=1, window=each) for each in (9_000, None, 5_000)]
    assert record(marks).refused == 5_000
    assert record([]).refused is None


def test_what_a_request_holds_is_told_by_its_parts():
    said, calls = steps(4, 700)
    compacted = Compacted(before=2, text="Facts", kept=(0,), clip=100)
    marks = [compacted, Shortened(results={"c1": 0, "c2": 300})]
    found = record([*said, *marks], *calls)
    parts = {part.name: part for part in parts_of(found, FRAME)}
    assert {name: part.count for name, part in parts.items()} == {
        "system": 1, "tools": 0, "texts": 1, "summary": 1, "replies": 3, "lines": 1, "excerpts": 1,
        "results": 1,
    }  # fmt: skip
    assert sum(part.tokens for part in parts.values()) == found.tokens(FRAME)
    assert parts["results"].tokens > 700 > parts["excerpts"].tokens > parts["lines"].tokens


sizes = some.lists(some.integers(0, 3_000), min_size=1, max_size=30)


@given(sizes, some.integers(1_000, 20_000))
def test_each_step_keeps_calls_with_their_results_and_shows_no_more_than_before(found, window):
    said = [UserText(content="Do it"), *(asks(f"c{n}") for n in range(len(found)))]
    calls = [call_row(f"c{n}", size) for n, size in enumerate(found)]
    whole = record(said, *calls)
    parts = [*said, Shortened(results=too_long(whole, window, 2_000))]
    spilled = record(parts, *calls)
    lines = [*parts, Shortened(results=to_elide(spilled, window))]
    elided = record(lines, *calls)
    end = to_compact(elided, window)
    kept = kept_places(elided, end, turns=False)
    compacted = record([*lines, Compacted(before=end, text="", kept=kept, clip=50)], *calls)

    totals = [each.tokens(FRAME) for each in (whole, spilled, elided, compacted)]
    assert totals[:3] == sorted(totals[:3], reverse=True)
    assert totals[3] <= totals[2] + 10
    for each in (whole, spilled, elided, compacted):
        well_formed(each.messages)
        assert each.whole == whole.whole
    assert compacted.messages[0 if end else 1] == said[0]
    assert compacted.messages[-1] == elided.messages[-1]
    assert sum(map(elided.size_of, elided.places[end:-1])) <= window * 0.2


def test_a_place_of_a_call_that_nobody_knows_is_left_as_it_is():
    found = record([asks("gone"), Shortened(results={"gone": 0})])
    assert found.messages[1].content == "This operation was interrupted and has no result."
    assert too_long(record([asks("gone")]), 100, 10) == {}
    assert to_elide(record([asks("gone")]), 100) == {}
    assert found.shown_of(Passage(UserText(content="Hm"))) == (UserText(content="Hm"),)


@pytest.mark.feature(219)
@given(some.lists(some.sampled_from(["file", "words", "step", "checks"]), max_size=20), some.data())
def test_instruction_files_and_what_people_said_stand_in_every_request_after_a_compaction(
    parts, data
):
    said: list = [UserText(content="Do it")]
    pinned = {"Do it"}
    heard = 0
    for number, part in enumerate(parts):
        match part:
            case "file":
                said.append(Instructions(content=f"file {number}", files=()))
                pinned.add(f"file {number}")
            case "words":
                said.append(Steering(content=f"words {number}"))
                heard += 1
            case "checks":
                said.append(UserText(content=f"checks {number}", about="checks"))
                pinned.add(f"checks {number}")
            case _:
                said.append(Reply(text="x" * 900, heard=heard or None))
    found = record(said)
    end = data.draw(some.integers(min_value=0, max_value=len(found.places)))

    kept = kept_places(found, end, turns=False)
    later = record([*said, Compacted(before=end, text="Facts", kept=kept, clip=10_000)])

    shown = [message.content for message in later.messages if not isinstance(message, Reply)]
    assert pinned <= set(shown)
    words = [part for part in parts if part == "words"]
    assert sum("words " in text for text in shown) == len(words)
    assert len(shown) == len(set(shown))
    again = record([*said, Compacted(before=end, text="Facts", kept=kept, clip=10_000)])
    assert again.messages == later.messages


# How much it is, to the token -------------------------------------------------------------------


def test_what_a_message_takes_is_its_text_its_arguments_and_a_little_around():
    asked = ToolRequest(id="c", name="read_file", arguments={"a": 1})
    assert tokens_in(UserText(content="abcd")) == 5
    assert tokens_in(UserText(content="abcde")) == 6
    assert tokens_in(Reply(text="abcd", calls=(asked,))) == 4 + 1 + 2
    assert tokens_in(Reply(text="abcd", usage=Usage(output_tokens=9), asked=2)) == 4
    assert tokens_in(PlanAccount(plan_id="p")) == 4
    tool = ToolSchema(name="t", description="d", parameters={})
    schema = len(json.dumps(tool.model_dump()))
    assert Frame("abcd", (tool, tool)).tokens == 1 + 2 * -(-schema // 4)


def test_where_a_provider_looks_for_a_conversation_tells_nothing_of_it():
    begun = (Instructions(content="Use tabs.", files=()), UserText(content="Do it"))
    key = cache_key(Frame("system", ()), begun)
    assert len(key) == 32
    assert key == cache_key(Frame("system", ()), (*begun, Reply(text="x"), UserText(content="y")))
    others = [(Frame("other", ()), begun), (Frame("system", ()), begun[:1])]
    assert len({key, *(cache_key(*each) for each in others)}) == 3


@pytest.mark.parametrize(
    ("sizes", "most", "parts"),
    [
        ((1_060,), 1_000, {}),
        ((1_061,), 1_000, {"c0": 1_000}),
        ((261,), 100, {"c0": 200}),
        ((260,), 100, {}),
        # A quarter of the window of 10,000 is for all of them.
        ((1_250, 1_250), 8_000, {}),
        ((1_311, 1_310), 8_000, {"c0": 1_250}),
    ],
)
def test_a_result_is_given_in_part_from_the_token_on_that_is_worth_it(sizes, most, parts):
    said, calls = [asks(*(f"c{n}" for n in range(len(sizes))))], []
    for n, size in enumerate(sizes):
        # What stands around the content in a result, and around a message.
        row = call_row(f"c{n}")
        empty = tokens_in(record([asks(f"c{n}")], row).messages[1])
        content = "x" * (4 * (size - empty))
        calls.append(replace(row, result={**row.result, "content": content}))
    found = record(said, *calls)
    assert [tokens_in(m) for m in found.messages[1:]] == list(sizes)
    assert too_long(found, WINDOW, most) == parts


def test_an_elision_begins_with_results_that_are_worth_a_line_and_a_tenth_of_the_window():
    def elided(window, *lengths):
        said = [*(asks(f"c{n}") for n in range(len(lengths))), asks("end")]
        rows_ = [replace(call_row(f"c{n}"), result="x" * (4 * (length - 4) - 2))
                 for n, length in enumerate(lengths)]  # fmt: skip
        return to_elide(record(said, *rows_, call_row("end", window)), window)

    assert elided(610, 121) == {"c0": 0}
    assert elided(611, 121) == {}
    assert elided(100, 120) == {}
    assert elided(1_220, 121, 121) == {"c0": 0, "c1": 0}


def test_what_is_summed_up_is_cut_in_the_middle_and_of_very_many_the_newest_stay():
    answer = ToolAnswer(call_id="c", tool_name="read_file", content="r" * 300)
    said = [
        UserText(content="a" * 240), UserText(content="b" * 241),
        Reply(text="Look", calls=(ToolRequest(id="c", name="f", arguments={"x": "ы"}),)),
    ]  # fmt: skip
    found = record(said)
    shown = transcript(found, 3, 240)
    assert shown.split("\n\n")[:2] == [
        f"USER: {'a' * 240}", f"USER: {'b' * 160} … {'b' * 80}",
    ]  # fmt: skip
    assert shown.split("\n\n")[2] == 'AGENT: Look CALLS: f {"x": "\\u044b"}'
    # Room for two of sixty tokens: the newest.
    assert transcript(found, 2, 119) == f"USER: {'b' * 160} … {'b' * 80}"
    assert answer.content not in shown
    assert transcript(record([UserText(content="u" * 9_000)]), 1, 99_999) == (
        f"USER: {'u' * 2_666} … {'u' * 1_334}"
    )
    assert transcript(record([Reply(text=" "), UserText(content="x")]), 2, 999) == (
        "AGENT: \n\nUSER: x"
    )


def test_who_is_not_told_of_instruction_files_is_asked_as_if_there_were_none():
    said = [UserText(content="Do it"), Instructions(content="Use tabs.", files=())]
    assert len(record(said).messages) == 2
    bare = record_of_thread(StoredThread(said=said, calls={}), {}, "en", briefed=False)
    assert bare.messages == (said[0],)
    assert bare.whole == record(said).whole
