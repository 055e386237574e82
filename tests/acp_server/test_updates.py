"""What an editor is shown of an event or a question, and what it is told of an error."""

from typing import Any

import pytest

from gonogo.acp_server.protocol import told
from gonogo.acp_server.updates import (
    ShownPlan,
    Updates,
    call_of,
    content_of,
    decided,
    edited,
    form_of,
    locations_of,
    options_of,
)
from gonogo.domain import errors
from gonogo.domain.views import ApprovalView


def question(**fields: Any) -> ApprovalView:
    """A question about a command, with other fields than usual."""
    usual = {
        "approval_id": "a", "request_id": "c", "kind": "tool", "request_type": "tool",
        "session_id": "s", "subject": "execute_command", "tool_name": "execute_command",
        "arguments": {"command": "touch x"}, "details": {}, "reason": "why", "digest": "d",
        "status": "pending", "created_at": "2026-01-01T00:00:00Z", "call_id": "c",
    }  # fmt: skip
    return ApprovalView.model_validate(usual | fields)


def read(approval: ApprovalView) -> str:
    """The text of a question."""
    (content,) = content_of(approval, "/project")
    return content.content.text


def shown(updates: Updates, kind: str, **fields: Any) -> list[str]:
    """The texts that are shown of an event."""
    return [update.content.text for update in updates.of({"type": kind, **fields})]


def whole(updates: Updates, text: str, **fields: Any) -> list[str]:
    return shown(updates, "assistant_message", turn_id="t", content=text, **fields)


def statuses(update: Any) -> list[str]:
    return [entry.field_meta["status"] for entry in update.entries]


def test_a_plan_with_a_summary_is_asked_about_by_it_and_one_without_by_its_subtasks() -> None:
    subtasks = [{"id": "app", "description": "Do app"}, {"id": "doc", "description": "Tell"}]

    assert read(question(details={"subtasks": subtasks, "summary": "Small"})) == "Small\n\nwhy"
    assert read(question(details={"subtasks": subtasks})) == "- app: Do app\n- doc: Tell\n\nwhy"


_CHOICES = {
    "plan": [("approve", "allow_once"), ("hold", "allow_once"), ("reject", "reject_once"),
             ("revise", "reject_once")],
    "tool": [("approve", "allow_once"), ("approve_session", "allow_always"),
             ("edit", "allow_once"), ("reject", "reject_once")],
    "subtask": [("approve", "allow_once"), ("reject", "reject_once")],
    "intervention": [("approve", "allow_once"), ("reject", "reject_once")],
}  # fmt: skip


@pytest.mark.parametrize("kind", _CHOICES)
@pytest.mark.parametrize("locale", ["en", "ru"])
def test_each_kind_of_question_has_its_choices_each_with_a_name(kind: str, locale: str) -> None:
    options = options_of(question(kind=kind), locale, forms=True)

    assert [(option.option_id, option.kind) for option in options] == _CHOICES[kind]
    assert all(option.name and "editor_" not in option.name for option in options)


def test_arguments_are_asked_about_one_a_line() -> None:
    assert read(question()) == '```\n{\n  "command": "touch x"\n}\n```\nwhy'


def test_a_question_about_a_call_carries_what_an_answer_is_bound_to() -> None:
    meta = call_of(question(), "/project").field_meta

    assert meta == {"approval_id": "a", "digest": "d", "reason": "why"}


def test_a_call_with_other_arguments_is_answered_as_an_edit_of_those_that_were_asked() -> None:
    asked = question(arguments={"command": "touch x", "cwd": "."})

    answer = edited(asked, {"command": "touch y"})

    assert answer == {
        **decided(asked, "edit"),
        "decision": "edit",
        "modified_arguments": {"command": "touch y", "cwd": "."},
    }


def test_a_form_for_other_arguments_names_each_and_holds_what_was_asked() -> None:
    asked = question(arguments={"command": "touch x", "cwd": ".", "timeout": 5})

    fields = form_of(asked, "edit", "en").properties

    assert {name: (field.title, field.default) for name, field in fields.items()} == {
        "command": ("command", "touch x"),
        "cwd": ("cwd", "."),
    }


def test_the_places_of_a_patch_are_the_files_it_changes() -> None:
    patch = (
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
    )

    found = locations_of("apply_patch", {"patch": patch}, "/project")

    assert [place.path for place in found] == ["/project/f", "/project/g"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidMessage("x"), -32602),
        (errors.TooLarge("x"), -32600),
        (errors.NotFound("x"), -32002),
        (errors.Unauthorized("x"), -32000),
        (errors.Conflict("x"), -32001),
        (errors.RateLimited("x"), -32001),
        (errors.Refused("x"), -32001),
        (errors.GonogoError("x"), -32603),
    ],
)
def test_an_error_has_the_number_of_its_kind(error: errors.GonogoError, code: int) -> None:
    assert (told(error).code, told(error).data) == (code, {"code": error.code})


def test_a_later_revision_keeps_what_is_known_of_subtasks_and_another_plan_does_not() -> None:
    board = ShownPlan()
    subtasks = [{"id": "app", "description": "Do app"}]
    board.show("p", 1, subtasks)
    board.hear({"type": "subtask_completed", "plan_id": "p", "metadata": {"subtask_id": "app"}})

    assert statuses(board.show("p", 2, subtasks)) == ["completed"]
    assert statuses(board.show("other", 1, subtasks)) == ["pending"]


def test_an_entry_of_a_plan_carries_what_the_plan_says_of_its_subtask() -> None:
    facts = {
        "id": "app", "dependencies": ["base"], "agent": "coder", "tool": "write_file",
        "type": "validation", "estimated_time": "5m",
    }  # fmt: skip

    (entry,) = ShownPlan().show("p", 1, [{**facts, "description": "Do app"}]).entries

    stands = {"status": "pending", "plan_id": "p", "revision": 1}
    assert entry.field_meta == facts | stands


def test_messages_of_different_speakers_stand_apart() -> None:
    updates = Updates("/project", ShownPlan())

    assert whole(updates, "One.", agent="coder") == ["One."]
    assert whole(updates, "Two.", agent="ask") == ["\n\nTwo."]
    assert whole(updates, "More.", agent="ask") == ["More."]


def test_a_message_of_a_subtask_says_whose_it_is() -> None:
    updates = Updates("/project", ShownPlan())

    assert whole(updates, "Made.", agent="coder", subtask_id="app") == ["[app] Made."]


@pytest.mark.parametrize(
    "kind",
    [
        "plan_approved", "plan_completed", "plan_paused", "plan_resumed", "plan_cancelled",
        "plan_replanning", "plan_sent_back", "plan_not_revised", "plan_commented",
        "plan_rolled_back", "approval_warning", "approval_voted", "approval_escalated",
        "model_away", "model_back", "model_fallback", "steered",
    ],
)  # fmt: skip
def test_what_becomes_of_plans_questions_and_models_is_said(kind: str) -> None:
    updates = Updates("/project", ShownPlan())

    assert shown(updates, kind, content="So it is.") == ["\n\nSo it is.\n\n"]
    assert shown(updates, kind) == []


@pytest.mark.parametrize(
    ("tokens", "text", "said"),
    [
        (["So ", "it"], "So it is.", ["So ", "it", " is."]),
        (["So it is."], "So it is.", ["So it is."]),
        (["So it", "So it is."], "So it is.", ["So it", "So it is."]),
        (["Sooner "], "It is so.", ["Sooner ", "It is so."]),
        ([], "It is so.", ["It is so."]),
    ],
    ids=["begun", "whole", "cut off and written anew", "of another text", "nothing"],
)
def test_a_text_is_shown_once_whatever_of_it_was_written_before(
    tokens: list[str], text: str, said: list[str]
) -> None:
    updates = Updates("/project", ShownPlan())
    found = [each for token in tokens for each in whole(updates, "", token=token)]

    assert found + whole(updates, text) == said


def test_a_plan_that_is_rejected_is_said_to_be_and_taken_away() -> None:
    updates = Updates("/project", ShownPlan())
    updates.board.show("p", 1, [{"id": "app", "description": "Do app"}])

    said, plan = updates.of({"type": "plan_rejected", "content": "No."})

    assert said.content.text == "\n\nNo.\n\n"
    assert plan.entries == []
