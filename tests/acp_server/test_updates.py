"""What an editor is shown of an event or a question, and what it is told of an error."""

from typing import Any

import pytest

from gonogo.acp_server.protocol import told
from gonogo.acp_server.session import plain
from gonogo.acp_server.updates import (
    ShownPlan,
    Updates,
    call_of,
    chosen,
    content_of,
    decided,
    edited,
    form_of,
    locations_of,
    options_of,
    start_of,
)
from gonogo.client import Unreachable
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
    "tool": [("approve", "allow_once"), ("edit", "allow_once"), ("reject", "reject_once")],
    "subtask": [("approve", "allow_once"), ("reject", "reject_once")],
    "intervention": [("approve", "allow_once"), ("reject", "reject_once")],
}  # fmt: skip


@pytest.mark.parametrize("kind", _CHOICES)
@pytest.mark.parametrize("locale", ["en", "ru"])
def test_each_kind_of_question_has_its_choices_each_with_a_name(kind: str, locale: str) -> None:
    options = options_of(question(kind=kind), locale, forms=True)

    assert [(option.option_id, option.kind) for option in options] == _CHOICES[kind]
    assert all(option.name and "editor_" not in option.name for option in options)


def test_another_model_can_be_chosen_where_one_does_not_answer() -> None:
    asked = question(kind="intervention", details={"about": "model", "models": ["openai:b", "c"]})

    options = options_of(asked, "en", forms=False)

    assert [(option.option_id, option.kind, option.name) for option in options] == [
        ("approve", "allow_once", "Approve"),
        ("model:openai:b", "allow_once", "Ask openai:b instead, from now on"),
        ("model:c", "allow_once", "Ask c instead, from now on"),
        ("reject", "reject_once", "Reject"),
    ]
    answer = chosen(asked, "model:openai:b")
    assert (answer["decision"], answer["modified_arguments"]) == (
        "edit", {"result": {"model": "openai:b"}},
    )  # fmt: skip
    assert chosen(asked, "approve") == decided(asked, "approve")


def test_a_question_of_an_agent_is_answered_and_neither_approved_nor_edited() -> None:
    long = "the second\none " * 30
    details = {"question": "Which one?", "suggestions": ["the first", long, " ", "the first"]}
    asked = question(kind="intervention", tool_name=None, arguments=None, details=details)

    options = options_of(asked, "en", forms=True)

    assert [(option.option_id, option.kind, option.name) for option in options] == [
        ("answer:the first", "allow_once", "the first"),
        (f"answer:{long}", "allow_once", " ".join(long.split())),
        ("answer", "allow_once", "Answer in your own words"),
        ("reject", "reject_once", "Reject"),
    ]
    sent = chosen(asked, options[1].option_id)
    assert (sent["decision"], sent["feedback"]) == ("approve", long)
    assert "feedback" not in chosen(asked, "reject")


@pytest.mark.parametrize(
    ("fields", "ways"),
    [
        ({"details": {"parts": [{"text": "touch x"}]}}, ["approve_session"]),
        ({"details": {"parts": [{"text": "a"}, {"text": "b", "joined_by": "|"}]}}, []),
        ({"details": {"parts": [{"text": "touch x"}]}, "plan_id": "p"}, []),
        ({"details": {"words_for_plan": "touch x"}, "plan_id": "p"},
         ["approve_plan", "approve_session"]),
        ({"tool_name": "write_file"}, ["approve_session"]),
        ({"tool_name": "delete_file"}, []),
    ],
)  # fmt: skip
def test_a_call_is_allowed_for_longer_only_where_a_rule_can_allow_it(
    fields: dict[str, Any], ways: list[str]
) -> None:
    options = options_of(question(**fields), "en", forms=False)
    assert [option.option_id for option in options] == ["approve", *ways, "reject"]


def test_an_editor_is_told_how_full_the_window_of_the_conversation_is() -> None:
    updates = Updates("/project", ShownPlan())
    used = {"type": "window_used", "metadata": {"window": 32_000, "tokens": 8_000}, "seq": 1}

    [update] = updates.of(used)

    assert update.model_dump(by_alias=True, exclude_none=True) == {
        "sessionUpdate": "usage_update", "used": 8_000, "size": 32_000,
    }  # fmt: skip
    assert updates.of({**used, "subtask_id": "a"}) == []


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
        "model_away", "model_back", "model_fallback", "steered", "owner_changed",
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

    said, plan = updates.of({"type": "plan_rejected", "content": "Plan cancelled. No. N."})

    assert said.content.text == "\n\nPlan rejected. No. N.\n\n"
    assert plan.entries == []


def test_a_question_about_a_call_stands_at_the_call_with_what_would_run() -> None:
    assert plain(call_of(question(subtask_id="app"), "/project")) == {
        "toolCallId": "c", "title": "[app] `touch x`", "kind": "execute", "status": "pending",
        "rawInput": {"command": "touch x"},
        "content": [{"type": "content", "content": {"type": "text", "text": (
            '```\n{\n  "command": "touch x"\n}\n```\nwhy'
        )}}],
        "_meta": {"approval_id": "a", "digest": "d", "reason": "why"},
    }  # fmt: skip
    named = question(tool_name="read_file", arguments={"path": "f"}, call_id=None)
    shown = plain(call_of(named, "/project"))
    assert (shown["toolCallId"], shown["kind"]) == ("a", "read")
    assert shown["locations"] == [{"path": "/project/f"}]


@pytest.mark.parametrize("kind", ["plan", "subtask", "intervention"])
def test_a_question_that_is_about_no_call_is_an_entry_of_its_own(kind: str) -> None:
    asked = question(
        kind=kind, subject="Do  it?", arguments=None, tool_name=None, details={"preview": "ls"}
    )
    shown = {
        "toolCallId": "a", "title": "Do it?", "kind": "think", "status": "pending",
        "content": [{"type": "content", "content": {"type": "text",
                                                    "text": "```\nls\n```\nwhy"}}],
    }  # fmt: skip

    assert plain(start_of(asked, "/project")) == {"sessionUpdate": "tool_call", **shown}
    meta = {"approval_id": "a", "digest": "d", "reason": "why"}
    assert plain(call_of(asked, "/project")) == {**shown, "_meta": meta}


def test_what_a_person_reads_is_the_difference_or_the_preview_or_else_what_it_is_about() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n"
    found = content_of(question(tool_name="edit_file", details={"preview": patch}), "/project")
    assert [plain(each) for each in found] == [
        {"type": "diff", "path": "/project/f", "oldText": "one\n", "newText": "two\n"},
        {"type": "content", "content": {"type": "text", "text": "why"}},
    ]
    assert read(question(arguments=None)) == "why"
    assert read(question(arguments=None, reason="")) == "execute_command"
    assert read(question(details={"preview": 5})) == "```\n5\n```\nwhy"
    assert read(question(details={"subtasks": [], "summary": "Small"}, reason="")) == "Small"


def test_what_looks_like_a_difference_hides_nothing_of_a_call_that_is_none() -> None:
    text = "curl x | sh <<E\n```\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\nE"
    for tool in ("execute_command", "mcp__docs__search", "move_file"):
        shown = read(question(tool_name=tool, details={"preview": text}))
        assert shown == f"````\n{text}\n````\nwhy"


def test_lines_that_look_like_the_head_of_a_file_hide_nothing_that_is_after_them() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n--- x\n+++ y\n+evil()\n two\n"
    found = content_of(question(tool_name="write_file", details={"preview": patch}), "/project")
    assert plain(found[0]) == {
        "type": "diff", "path": "/project/f", "oldText": "-- x\ntwo\n",
        "newText": "++ y\nevil()\ntwo\n",
    }  # fmt: skip


def test_a_choice_is_sent_bound_to_what_was_shown() -> None:
    plan = question(kind="plan", plan_id="p", revision=2)

    assert decided(plan, "hold") == {
        "type": "plan_decision", "plan_id": "p", "decision": "hold", "revision": 2, "digest": "d",
        "start": True, "auto_approve_tools": True,
    }  # fmt: skip
    assert decided(question(), "approve_session") == {
        "type": "hitl_decision", "approval_id": "a", "decision": "approve", "digest": "d",
        "for_session": True, "for_plan": False,
    }  # fmt: skip


def test_what_should_change_in_a_plan_is_asked_for_in_one_field_that_is_not_left_empty() -> None:
    form = form_of(question(kind="plan"), "revise", "en")

    assert plain(form) == {
        "type": "object", "required": ["changes"],
        "properties": {
            "changes": {"type": "string", "title": "What should change?", "minLength": 1}
        },
    }  # fmt: skip
    assert plain(form_of(question(arguments=None), "edit", "en")) == {
        "type": "object",
        "properties": {},
    }


def test_a_server_that_is_gone_is_said_to_be_and_an_error_without_words_has_its_name() -> None:
    gone = told(Unreachable("Nobody answers"))
    assert str(gone) == (
        "The gonogo server has gone away: Nobody answers; start it, then open the session again"
    )
    assert str(told(errors.Conflict("It is over"))) == "It is over"
    assert str(told(errors.GonogoError(""))) == "GonogoError"


STATES = {
    "running": ("in_progress", ""), "in_progress": ("in_progress", ""),
    "waiting_approval": ("in_progress", ""), "completed": ("completed", ""),
    "failed": ("pending", "failed: "), "skipped": ("pending", "skipped: "),
    "cancelled": ("pending", "cancelled: "), "pending": ("pending", ""),
}  # fmt: skip


def test_an_entry_has_one_of_three_states_and_says_what_else_came_of_it() -> None:
    subtasks = [{"id": state, "description": "Do", "status": state} for state in STATES]
    board = ShownPlan()

    shown = board.show("p", 3, subtasks, ["failed"])

    assert [(each.status, each.content) for each in shown.entries] == [
        (status, f"{said}Do") for status, said in STATES.values()
    ]
    assert [each.priority for each in shown.entries] == [
        "high" if state == "failed" else "medium" for state in STATES
    ]
    kept = board.show("p", 4, subtasks[4:5])
    assert [each.priority for each in kept.entries] == ["high"]
    assert kept.entries[0].field_meta["revision"] == 4
    assert [each.priority for each in board.show("p", 5, subtasks[4:5], []).entries] == ["medium"]
    assert board.clear().entries == []
    assert board.plan_id is None


@pytest.mark.parametrize(
    ("kind", "state"),
    [("subtask_started", "running"), ("subtask_completed", "completed"),
     ("subtask_failed", "failed"), ("subtask_skipped", "skipped"),
     ("subtask_cancelled", "cancelled")],
)  # fmt: skip
def test_the_list_is_sent_anew_when_a_subtask_of_its_plan_has_another_state(
    kind: str, state: str
) -> None:
    board = ShownPlan()
    board.show("p", 1, [{"id": "app", "description": "Do app"}])
    event = {"type": kind, "plan_id": "p", "metadata": {"subtask_id": "app"}}

    assert board.hear({**event, "plan_id": "other"}) is None
    assert statuses(board.hear(event)) == [state]
    assert board.hear(event) is None
    again = board.hear({**event, "type": "subtask_retrying"})
    assert statuses(again) == ["pending"]
    assert board.hear({**event, "type": "subtask_progress"}) is None


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("subtask_failed", {"error": {"message": "It broke"}, "reason": "x"}, "✗ app: It broke"),
        ("subtask_skipped", {"reason": "Not needed"}, "↷ app: Not needed"),
        ("subtask_retrying", {"error": None}, "↻ app: So it is."),
        ("subtask_failed", {"error": {}}, "✗ app: So it is."),
        ("subtask_completed", {"reason": "x"}, None),
        ("subtask_cancelled", {"reason": "x"}, None),
        ("subtask_started", {}, None),
    ],
)
def test_what_became_of_a_subtask_is_said_unless_the_list_says_it(
    kind: str, fields: dict[str, Any], said: str | None
) -> None:
    updates = Updates("/project", ShownPlan())
    facts = {"subtask_id": "app", **fields}

    found = shown(updates, kind, plan_id="p", metadata=facts, content="So it is.")

    assert found == ([] if said is None else [f"\n\n{said}\n\n"])
    if said is not None and said.endswith("So it is."):
        assert shown(updates, kind, plan_id="p", metadata=facts) == [
            f"\n\n{said.removesuffix('So it is.')}\n\n"
        ]


def test_a_plan_is_shown_as_it_is_told_and_kept_up_to_date() -> None:
    updates = Updates("/project", ShownPlan())
    subtasks = [{"id": "app", "description": "Do \u202eapp"}, {"id": "doc", "description": "Tell"}]
    facts = {"plan_id": "p", "revision": 2, "subtasks": subtasks, "critical_path": ["app"]}

    (plan,) = updates.of({"type": "plan_notification", "metadata": facts})
    found = updates.of(
        {"type": "subtask_started", "plan_id": "p", "metadata": {"subtask_id": "doc"}}
    )

    assert plain(plan) == {"sessionUpdate": "plan", "entries": [
        {"content": "Do \\u202eapp", "priority": "high", "status": "pending",
         "_meta": {"id": "app", "status": "pending", "plan_id": "p", "revision": 2}},
        {"content": "Tell", "priority": "medium", "status": "pending",
         "_meta": {"id": "doc", "status": "pending", "plan_id": "p", "revision": 2}},
    ]}  # fmt: skip
    assert [statuses(each) for each in found] == [["pending", "running"]]
    assert updates.of({"type": "checkpoint_created"}) == []


def test_the_agent_that_answers_is_shown_and_not_the_one_of_a_subtask() -> None:
    updates = Updates("/project", ShownPlan())
    event = {"type": "agent_switched", "metadata": {"from_agent": "ask", "to_agent": "coder"}}

    (mode,) = updates.of(event)
    assert plain(mode) == {"sessionUpdate": "current_mode_update", "currentModeId": "coder"}
    assert updates.of({**event, "subtask_id": "app"}) == []


def test_what_is_shown_between_two_parts_of_a_text_ends_its_line_and_a_subtask_writes_whole() -> (
    None
):
    updates = Updates("/project", ShownPlan())

    assert whole(updates, "", token="One") == ["One"]
    assert whole(updates, "", token="x", subtask_id="app") == []
    assert shown(updates, "steered", content="Aside.") == ["\n\nAside.\n\n"]
    assert whole(updates, "", token=" two") == [" two"]
    assert whole(updates, "One two.") == ["."]
    assert whole(updates, "Three.", agent="ask") == ["Three."]
    assert whole(updates, "", agent="ask") == []
