"""A question as a person reads it: what would happen, and who may decide; and their answer."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gonogo.cli.support import Exit, Stop
from gonogo.cli.terminal.render import (
    decision,
    once_each,
    pages,
    question_lines,
    question_texts,
    review_lines,
    standing,
)
from gonogo.domain.views import ApprovalView, ReviewView, VoteView

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def question(**more: Any) -> ApprovalView:
    given = {
        "approval_id": "a", "request_id": "r", "kind": "tool", "request_type": "tool",
        "session_id": "s", "subject": "write_file", "details": {}, "reason": "", "digest": "d",
        "status": "pending", "created_at": NOW,
    }  # fmt: skip
    return ApprovalView(**given | more)


def review(**more: Any) -> ReviewView:
    return ReviewView(**{"needed": 1, "role": "operator", "rules": ["r"]} | more)


def votes(*names: str) -> list[VoteView]:
    return [VoteView(name=name, decision="approve", created_at=NOW) for name in names]


def test_all_that_is_known_of_a_question_is_told_in_lines():
    whole = question(
        details={"agent": "debug", "preview": "+new\n-old\n"}, reason="out\x07side",
        subtask_id="fix", open_comments=2, expires_at=NOW, tool_name="edit_file",
    )  # fmt: skip
    assert list(question_lines(whole)) == [
        "debug asks to use edit_file:",
        "  +new",
        "  -old",
        "reason: out\\x07side",
        "comments without an answer: 2",
        "subtask: fix",
        "expires: 2026-03-01 12:30 UTC",
    ]


def test_what_is_not_said_of_a_question_is_not_told():
    assert list(question_lines(question())) == ["An agent asks to use write_file:"]
    assert list(question_lines(question(kind="deploy", subject="Now\x07?"))) == ["Now\\x07?"]


def test_a_reason_that_has_the_question_in_it_stands_in_its_place():
    start = {"subject": "Do a", "reason": "Start the subtask “Do a”?", "subtask_id": "a"}
    assert list(question_lines(question(kind="subtask", **start))) == [
        "Start the subtask “Do a”?", "subtask: a",
    ]  # fmt: skip
    unknown = {"tool_name": "execute_command", "arguments": {"command": "make\x07"}}
    assert list(question_lines(question(kind="intervention", subject="Run?", **unknown))) == [
        "Run?", "  make\\x07",
    ]  # fmt: skip


def test_a_call_without_a_preview_is_told_by_its_arguments():
    shown = question(arguments={"path": "a\u202e"}, details={"preview": ""})
    assert list(question_lines(shown))[1:] == ["  {", '    "path": "a\\u202e"', "  }"]


CALL = {
    "tool_name": "write_file", "arguments": {"path": "x" * 400}, "details": {"preview": "+x"},
}  # fmt: skip


def test_the_first_page_has_the_head_and_the_call_in_a_line_of_bounded_length():
    shown = list(question_texts(question(**CALL), ["Head\x07", "  +x"], first=True))

    assert [(text.plain, str(text.style)) for text in shown] == [
        ("", ""),
        ("Head\\x07", "bold"),
        (f'  write_file {{"path": "{"x" * 289}…', "cyan"),
        ("  +x", ""),
    ]
    more = list(question_texts(question(**CALL), ["  +y", "\x07"], first=False))
    assert [text.plain for text in more] == ["  +y", "\\x07"]


@pytest.mark.parametrize(
    "left_out", [{"tool_name": None}, {"arguments": None}, {"details": {"preview": ""}}]
)
def test_a_question_without_a_call_has_no_line_for_it(left_out):
    shown = question_texts(question(**CALL | left_out), ["Head", "line"], first=True)
    assert [text.plain for text in shown] == ["", "Head", "line"]


@pytest.mark.parametrize("begins", ["--- a", "+++ b", "@@ -1 +1 @@"])
def test_a_difference_is_coloured_by_how_its_lines_begin(begins):
    asked = question(details={"preview": f"words\n{begins}\n"})
    lines = ["  +++ b", "  +new", "  --- a", "  -old", "  @@ -1", "   same", "+text", "  --- "]
    shown = [str(text.style) for text in question_texts(asked, lines, first=False)]

    assert shown == ["bold", "green", "bold", "red", "cyan", "", "", "bold"]


@pytest.mark.parametrize("preview", ["words --- a", "---a\n+++b", "@@-1", None])
def test_what_only_looks_like_a_difference_has_no_colours(preview):
    asked = question(details={"preview": preview})
    assert {str(t.style) for t in question_texts(asked, ["  +a", "  -b"], first=False)} == {""}


def test_a_page_holds_sixty_lines_and_a_long_line_counts_for_what_it_takes():
    assert pages([]) == [[]]
    assert [len(page) for page in pages(["x"] * 60)] == [60]
    assert [len(page) for page in pages(["x"] * 61)] == [60, 1]
    assert [len(page) for page in pages(["x" * 79] * 61)] == [60, 1]
    assert [len(page) for page in pages(["x" * 80] * 31)] == [30, 1]
    assert [len(page) for page in pages(["x" * 10_000, "y"])] == [1, 1]


PLAN = {"kind": "plan", "plan_id": "p", "revision": 3}


@pytest.mark.parametrize(
    ("asked", "given", "message"),
    [
        ({}, ("approve",), {"type": "hitl_decision", "approval_id": "a", "decision": "approve"}),
        (
            {}, ("reject", "no"),
            {"type": "hitl_decision", "approval_id": "a", "decision": "reject", "feedback": "no"},
        ),
        (
            {}, ("edit", "", {"path": "b"}),
            {
                "type": "hitl_decision", "approval_id": "a", "decision": "edit",
                "modified_arguments": {"path": "b"},
            },
        ),
        (PLAN, ("hold",), {
            "type": "plan_decision", "plan_id": "p", "revision": 3, "decision": "hold",
        }),
        (PLAN | {"revision": None}, ("approve",), {
            "type": "plan_decision", "plan_id": "p", "decision": "approve",
        }),
        (PLAN, ("edit", None, [{"id": "a"}]), {
            "type": "plan_decision", "plan_id": "p", "revision": 3, "decision": "edit",
            "modified_subtasks": [{"id": "a"}],
        }),
        (PLAN, ("edit", None, {"subtasks": [{"id": "a"}]}), {
            "type": "plan_decision", "plan_id": "p", "revision": 3, "decision": "edit",
            "modified_subtasks": [{"id": "a"}],
        }),
    ],
)  # fmt: skip
def test_an_answer_is_bound_to_what_was_shown(asked, given, message):
    assert decision(question(**asked), *given) == {"digest": "d", **message}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("hold",), "hold is for plans only; answer approve, edit or reject"),
        (("edit", None, [1]), "The arguments must be one JSON object, such as {}"),
    ],
)
def test_an_answer_that_does_not_fit_a_call_is_said_to_be_none(given, said):
    with pytest.raises(Stop) as caught:
        decision(question(), *given)
    assert (str(caught.value), caught.value.code) == (said, Exit.USAGE)


def test_who_may_approve_is_told_with_all_that_there_is_to_say():
    whole = review(
        needed=2, role="admin", reviewers=["ann", "bob"], not_requester=True,
        asked_too=["eve", "ann"], escalates_at=NOW, escalates_to=["lead", "role:admin"],
        problem="bob has no token",
    )  # fmt: skip
    shown = question(review=whole, requested_by="ann", votes=votes("ann"))

    assert list(review_lines(shown, "ru")) == [
        "одобрить не может никто: bob has no token",
        "одобрить могут: bob",
        "нужна роль: admin",
        "не может одобрить собственный запрос: ann, eve",
        "одобрений: 1 из 2",
        "одобрили: ann",
        "с 2026-03-01 12:30 UTC одобрить могут также: lead, role:admin",
    ]
    seen = question(review=review(seen_by=["ann", "role:admin"]))
    assert list(review_lines(seen, "ru")) == [
        "одобрить могут (проверяющие не назначены): ann, role:admin"
    ]
    assert standing(question(review=review(needed=2)), "ru") == "ждёт ответа, одобрений: 0 из 2"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, []),
        ({"review": review()}, []),
        ({"review": review(seen_by=["ann", "role:admin"])},
         ["can approve (no reviewers are named): ann, role:admin"]),
        ({"review": review(not_requester=True, seen_by=["ann", "role:admin"]),
          "requested_by": "ann"},
         ["can approve (no reviewers are named): role:admin",
          "cannot approve, because they asked for it: ann"]),
        ({"review": review(not_requester=True, reviewers=["ann"]), "requested_by": "ann"},
         ["cannot approve, because they asked for it: ann"]),
        ({"review": review(not_requester=True)}, ["cannot approve, because they asked for it: ?"]),
        ({"review": review(needed=2)}, ["approvals: 0 of 2"]),
        ({"review": review(needed=2), "approved_by": ["ann", "bob"], "votes": votes("eve")},
         ["approvals: 2 of 2", "approved by: ann, bob"]),
        ({"review": review(escalates_at=NOW)}, []),
        ({"review": review(escalates_to=["lead"])}, []),
    ],
)  # fmt: skip
def test_where_nothing_is_special_nothing_is_told_of_who_may_approve(fields, said):
    assert list(review_lines(question(**fields), "en")) == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "pending"),
        ({"review": review()}, "pending"),
        ({"review": review(needed=2)}, "pending, approvals: 0 of 2"),
        ({"review": review(needed=2), "votes": votes("ann")}, "pending, approvals: 1 of 2"),
        ({"review": review(needed=2), "status": "approved"}, "approved"),
    ],
)
def test_a_question_stands_with_its_votes_where_several_have_to_approve(fields, said):
    assert standing(question(**fields), "en") == said


def test_identical_questions_are_one_as_long_as_they_are_open():
    same = {"group": "g:1", "subject": "make"}
    asked = [
        question(**same), question(approval_id="b", subject="ls"),
        question(approval_id="c", **same), question(approval_id="d", status="approved", **same),
        question(approval_id="e", group="g:2", subject="rm"),
    ]  # fmt: skip
    shown = [(each.approval_id, subject) for each, subject in once_each(asked, "ru")]

    assert shown == [("a", "make (одинаковых: 2)"), ("b", "ls"), ("d", "make"), ("e", "rm")]
