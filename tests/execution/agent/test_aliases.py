"""Models read and write short names for our ids; no name stands for two things, or changes."""

import json

from fakes import rows
from gonogo.domain.tool_calls import (
    PlanAccount,
    Reply,
    ToolAnswer,
    ToolClass,
    ToolRequest,
    UserText,
)
from gonogo.execution.agent.call_log import answer_of
from gonogo.execution.agent.conversation import Aliases, names_others

CALLS = [f"call_{digit * 24}" for digit in "abc"]
PLAN, COMMENT = "plan_" + "1" * 32, "comment_" + "2" * 32


def aliases(count=3, *others):
    return Aliases.of([rows.call(id=each) for each in CALLS[:count]], others)


def asks(name, **arguments):
    return ToolRequest(id=CALLS[0], name=name, arguments=arguments)


def test_what_is_added_later_changes_no_name_that_was_told():
    before, after = aliases(2, PLAN), aliases(3, PLAN, "plan_" + "3" * 32, COMMENT)
    assert before.names == {CALLS[0]: "call-1", CALLS[1]: "call-2", PLAN: "plan-1"}
    assert before.names.items() <= after.names.items()
    assert len(set(after.names.values())) == len(after.names)


def test_only_ids_that_are_known_have_a_name():
    other = "call_" + "d" * 24
    text = f"{CALLS[1]} of {PLAN}, {other}, call-1 and plan_1"
    assert aliases(3, PLAN).told(text) == f"call-2 of plan-1, {other}, call-1 and plan_1"
    same = UserText(content="Nothing of ours")
    assert aliases().told_message(same) is same


def test_a_reply_goes_back_with_the_names_that_its_provider_was_told():
    raw = {"parts": [{"tool_call_id": CALLS[0], "args": '{"plan_id": "plan-1"}'}], "signature": "x"}
    reply = Reply(text="So.", calls=(asks("execute_plan", plan_id=PLAN),), raw=raw)
    found = aliases(1, PLAN)
    sent = found.sent(found.told_message(reply))
    assert (sent.calls[0].id, sent.calls[0].arguments) == ("call-1", {"plan_id": "plan-1"})
    assert sent.raw == {**raw, "parts": [{**raw["parts"][0], "tool_call_id": "call-1"}]}
    answer = ToolAnswer(call_id=CALLS[0], tool_name="execute_plan", content=f"{PLAN} runs")
    assert found.sent(found.told_message(answer)) == ToolAnswer(
        call_id="call-1", tool_name="execute_plan", content="plan-1 runs"
    )


def test_names_become_ids_where_a_tool_takes_one_and_nowhere_else():
    found = aliases(2, PLAN, COMMENT)

    def read(name, **arguments):
        return found.read(Reply(text="plan-1", calls=(asks(name, **arguments),)))

    assert read("execute_plan", plan_id="plan-1").calls[0].arguments == {"plan_id": PLAN}
    assert read("read_output", id="call-2").calls[0].arguments == {"id": CALLS[1]}
    answers = [{"comment_id": "comment-1", "answer": "plan-1"}, "odd"]
    made = read("create_plan", goal="plan-1", subtasks=[{"id": "plan-1"}], answers=answers)
    assert made.calls[0].arguments == {
        "goal": "plan-1", "subtasks": [{"id": "plan-1"}],
        "answers": [{"comment_id": COMMENT, "answer": "plan-1"}, "odd"],
    }  # fmt: skip
    assert made.text == "plan-1"
    for same in (
        read("write_file", path="plan-1", content="call-1"), read("read_output", id="call-9"),
        read("execute_plan", plan_id=7), read("execute_plan"), read("create_plan", answers="x"),
    ):  # fmt: skip
        assert same.calls[0].arguments == found.read(same).calls[0].arguments
        assert PLAN not in str(same.calls)
    broken = Reply(calls=(ToolRequest(id=CALLS[0], name="execute_plan", problem="no JSON"),))
    assert found.read(broken) is broken


def test_what_a_file_holds_and_what_is_written_into_one_is_told_word_for_word():
    found, text = aliases(1, PLAN), f"{PLAN} made {CALLS[0]}\n"
    over = {"finished_at": rows.NOW}
    read = rows.call(
        CALLS[0], tool="read_file", tool_class=ToolClass.PURE, result={"content": text}, **over
    )
    assert json.loads(answer_of(read, "en", found).content) == {"content": text}
    output = rows.call(
        CALLS[0], tool="read_output", tool_class=ToolClass.PURE,
        result={"id": CALLS[0], "content": text}, **over,
    )  # fmt: skip
    told = json.loads(answer_of(output, "en", found).content)
    assert told == {"id": "call-1", "content": text}
    made = rows.call(
        CALLS[0],
        tool="execute_plan",
        tool_class=ToolClass.CONTROL,
        result={"plan_id": PLAN},
        **over,
    )
    assert json.loads(answer_of(made, "en", found).content) == {"plan_id": "plan-1"}
    edit = Reply(calls=(asks("edit_file", path="a", old=text, new=PLAN),))
    assert found.told_message(edit).calls == edit.calls


def test_what_a_provider_signed_goes_back_word_for_word():
    raw = {"parts": [{"thinking": f"It says {PLAN}", "signature": "x", "id": CALLS[0]}]}
    sent = aliases(1, PLAN).sent(Reply(calls=(asks("read_file"),), raw=raw))
    assert sent.raw == {"parts": [{**raw["parts"][0], "id": "call-1"}]}


def test_names_of_plans_are_looked_up_only_where_one_may_stand():
    plain = [UserText(content="A plan_of ours, call-1"), Reply(text="So", calls=(asks("a"),))]
    assert not names_others(plain, [rows.call(CALLS[0], result={"a": "b"})])
    for said, calls in (
        ([UserText(content=f"Run {PLAN}")], []),
        ([Reply(calls=(asks("execute_plan", plan_id=PLAN),))], []),
        ([PlanAccount(plan_id=PLAN)], []),
        ([], [rows.call(CALLS[0], result={"a": [COMMENT]})]),
        ([], [rows.call(CALLS[0], error=f"There is no {PLAN}")]),
    ):
        assert names_others(said, calls)
