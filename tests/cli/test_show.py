"""Events as a person reads them: in order, whole, and without power over the terminal."""

import io
import json
from typing import Any, get_args

import pytest
from rich.console import Console
from rich.text import Text

from gonogo.cli.terminal.render import EventLines, JsonLines, comment_lines
from gonogo.domain.events import AnyEvent


def test_an_answered_comment_has_the_agents_words_under_it():
    comment = {"author": "ann", "subtask_id": "b", "content": "Why?"}
    told = [*comment_lines([comment, comment | {"answer": "It\x1b is needed"}])]

    assert told == [
        "? ann on b: Why?", "    no answer yet",
        "? ann on b: Why?", "    the agent answers: It\\x1b is needed",
    ]  # fmt: skip


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def lines(shown: io.StringIO) -> EventLines:
    return EventLines(Console(file=shown, highlight=False, markup=False, emoji=False, width=80))


def token(text: str) -> dict[str, object]:
    return {"type": "assistant_message", "token": text, "content": text, "is_final": False}


def call(**fields: object) -> dict[str, object]:
    return {
        "type": "tool_call",
        "call_id": "c",
        "tool_name": "execute_command",
        "arguments": {"command": "pytest -q"},
        "requires_approval": False,
        "metadata": {"digest": "d", "reason": "outside the scope", "tool_class": "other"},
        **fields,
    }


def result(**fields: object) -> dict[str, object]:
    return {
        "type": "tool_result",
        "call_id": "c",
        "tool_name": "execute_command",
        "metadata": {"status": "completed"},
        **fields,
    }


def test_text_streams_in_and_is_not_repeated_when_it_is_whole(lines, shown):
    for event in (token("Hel"), token("lo"), {"type": "assistant_message", "content": "Hello"}):
        lines.show(event)
    assert shown.getvalue() == "Hello\n"


@pytest.mark.parametrize("words", ["all is well", "well", "l", "X"])
def test_text_that_did_not_stream_is_shown_though_what_streamed_before_ends_alike(
    lines, shown, words
):
    before = {"type": "assistant_message", "content": f"So {words}"}
    for event in (token(f"So {words}"), before, {"type": "assistant_message", "content": words}):
        lines.show(event)
    assert shown.getvalue() == f"So {words}\n{words}\n"


def test_text_that_did_not_stream_is_shown_whole(lines, shown):
    lines.show({"type": "assistant_message", "content": "Hello"})
    assert shown.getvalue() == "Hello\n"


def test_text_that_streamed_is_not_repeated_when_the_agent_has_switched_before_it_is_whole(
    lines, shown
):
    switched = {
        "type": "agent_switched",
        "metadata": {"from_agent": "coder", "to_agent": "orchestrator"},
    }
    whole = {"type": "assistant_message", "content": "Hello"}
    for event in (token("Hel"), token("lo"), switched, whole, switched, whole):
        lines.show(event)
    assert shown.getvalue() == "Hello\n→ orchestrator\n→ orchestrator\nHello\n"


def test_what_interrupts_streaming_text_begins_a_line(lines, shown):
    lines.show(token("Hel"))
    lines.show({"type": "error", "content": "lost", "code": "internal"})
    assert shown.getvalue() == "Hel\nerror: lost\n"


def test_text_of_subtasks_is_shown_whole_with_their_name(lines, shown):
    lines.show({**token("noise"), "subtask_id": "fix"})
    lines.show({"type": "assistant_message", "content": "Fixed.", "subtask_id": "fix"})
    assert shown.getvalue() == "[fix] Fixed.\n"


def test_a_call_that_asks_shows_what_and_why(lines, shown):
    lines.show(call(requires_approval=True, subtask_id="fix"))
    assert shown.getvalue() == "[fix] ? execute_command pytest -q (outside the scope)\n"


def test_a_command_shows_its_exit_code_and_the_end_of_its_output(lines, shown):
    lines.show(call())
    output = "\n".join(str(n) for n in range(30))
    lines.show(result(result={"exit_code": 1, "output": output}))
    text = shown.getvalue()
    assert text.startswith("execute_command pytest -q → exit code 1\n    …\n")
    assert text.endswith("    29\n")
    assert len(text.splitlines()) == 14


def test_a_check_that_gonogo_makes_itself_is_told_from_what_the_agent_runs(lines, shown):
    lines.show(call(agent="gonogo", subtask_id="fix"))
    lines.show(result(result={"exit_code": 0, "output": ""}, subtask_id="fix"))
    assert shown.getvalue() == "[fix] gonogo: execute_command pytest -q → exit code 0\n"


def test_a_failed_call_shows_its_error_in_one_line(lines, shown):
    lines.show(call())
    lines.show(result(error="timeout: took\nlonger"))
    assert shown.getvalue() == "✗ execute_command pytest -q: took ⏎ longer\n"


def test_a_rejected_call_is_told_once_by_its_name_and_without_what_it_would_have_changed(
    lines, shown
):
    edit = {"tool_name": "edit_file", "arguments": {"path": "a"}, "subtask_id": "s"}
    lines.show(call(**edit, metadata={"lines_added": 3, "lines_removed": 0}))
    lines.show({"type": "tool_rejected", "call_id": "c", "content": "no", "metadata": {}})
    lines.show(result(error="rejected: User rejected it", subtask_id="s"))
    assert shown.getvalue() == "[s] ✗ edit_file a: User rejected it\n"


def test_a_call_is_known_by_its_name_though_it_was_made_before_anybody_looked(lines, shown):
    lines.glance(call())
    lines.show(result(error="timeout: too long"))
    assert shown.getvalue() == "✗ execute_command pytest -q: too long\n"


def test_what_went_wrong_in_a_subtask_is_told_once_with_its_end(lines, shown):
    lines.show({"type": "error", "content": "it broke", "subtask_id": "a"})
    failed = {"subtask_id": "a", "error": {"message": "it broke"}}
    lines.show({"type": "subtask_failed", "subtask_id": "a", "metadata": failed})
    assert shown.getvalue() == "✗ a it broke\n"


def test_signs_in_colours_are_shown_plain_and_what_hides_in_a_text_is_shown(lines, shown):
    lines.show({"type": "assistant_message", "content": "⚠️ ok 👩‍💻 a\ufe0f b\u200d"})
    assert shown.getvalue() == "⚠ ok 👩💻 a\\ufe0f b\\u200d\n"


def test_a_plan_is_shown_with_its_findings(lines, shown):
    facts = {
        "plan_id": "p1",
        "revision": 1,
        "digest": "d",
        "subtask_count": 1,
        "goal": "Fix",
        "subtasks": [{"id": "a", "description": "do", "agent": "coder"}],
        "findings": [{"severity": "warning", "message": "no scope"}],
    }
    lines.show({"type": "plan_notification", "content": "# Plan", "metadata": facts})
    assert "Plan: Fix" in shown.getvalue()
    assert "! warning: no scope" in shown.getvalue()


def test_the_course_of_a_plan_is_shown(lines, shown):
    ended = {"subtask_id": "a", "subtask_status": "completed", "duration_seconds": 1.23}
    failed = {
        "subtask_id": "b",
        "subtask_status": "failed",
        "error": {"message": "no", "severity": "low", "category": "unknown"},
    }
    lines.show(
        {
            "type": "agent_switched",
            "metadata": {"from_agent": "orchestrator", "to_agent": "architect", "reason": "steps"},
        }
    )
    lines.show({"type": "subtask_started", "content": "Subtask 1/2: do", "metadata": {}})
    lines.show({"type": "subtask_completed", "metadata": ended})
    lines.show({"type": "subtask_failed", "metadata": failed})
    lines.show({"type": "plan_progress", "metadata": {"done": 2, "total": 2, "percentage": 50.0}})
    lines.show({"type": "plan_progress", "metadata": {"done": 2, "total": 2, "percentage": 100}})
    lines.show({"type": "plan_completed", "content": "Plan Execution Complete"})
    assert shown.getvalue().splitlines() == [
        "→ architect: steps",
        "▶ Subtask 1/2: do",
        "✓ a (1.2 s)",
        "✗ b no",
        "  2/2",
        "  2/2 · 100%",
        "Plan Execution Complete",
    ]


TOOK = {"subtask_id": "a", "duration_seconds": 2.0}
PLAN = {"plan_id": "p1", "revision": 2, "goal": "Fix", "subtasks": []}
SHOWN: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "assistant_message": ({"content": "Hello"}, [("Hello", "")]),
    "agent_switched": (
        {"metadata": {"from_agent": "ask", "to_agent": "coder", "reason": "code"}},
        [("→ coder: code", "cyan")],
    ),
    "tool_call": (
        call(requires_approval=True),
        [("? execute_command pytest -q (outside the scope)", "yellow")],
    ),
    "tool_result": (
        result(result={"exit_code": 0, "output": "ok"}),
        [("execute_command → exit code 0", "dim"), ("    ok", "dim")],
    ),
    "plan_notification": (
        {"metadata": PLAN}, [("\nPlan: Fix", "bold"), ("p1 · revision 2", "dim")]
    ),
    "subtask_started": ({"content": "Subtask 1/2: do"}, [("▶ Subtask 1/2: do", "bold")]),
    "subtask_completed": ({"metadata": TOOK}, [("✓ a (2.0 s)", "green")]),
    "subtask_failed": (
        {"metadata": {**TOOK, "error": {"message": "lost"}}}, [("✗ a (2.0 s) lost", "red")]
    ),
    "subtask_skipped": (
        {"metadata": {"subtask_id": "a", "reason": "condition"}}, [("↷ a condition", "yellow")]
    ),
    "subtask_retrying": (
        {"content": "Attempt 2 of 3", "metadata": {"subtask_id": "a"}},
        [("↻ a Attempt 2 of 3", "yellow")],
    ),
    "subtask_cancelled": ({"metadata": {"subtask_id": "a"}}, [("■ a", "yellow")]),
    "plan_progress": (
        {"metadata": {"done": 1, "total": 3, "percentage": 33.3}}, [("  1/3 · 33%", "dim")]
    ),
    **{
        word: ({"content": f"It is {word}", "metadata": {}}, [(f"It is {word}", style)])
        for word, style in {
            "steered": "yellow", "plan_commented": "yellow", "plan_sent_back": "yellow",
            "plan_not_revised": "bold yellow", "plan_approved": "bold green",
            "plan_rejected": "bold yellow", "plan_completed": "bold", "plan_paused": "yellow",
            "plan_resumed": "green", "plan_cancelled": "bold yellow", "model_away": "yellow",
            "model_back": "green", "model_fallback": "yellow", "approval_warning": "yellow",
            "approval_voted": "yellow", "approval_escalated": "yellow",
            "context_compacted": "yellow", "owner_changed": "bold yellow",
        }.items()
    },
    "instructions_loaded": (
        {"content": "Read: AGENTS.md", "metadata": {}}, [("Read: AGENTS.md", "dim")]
    ),
    "error": ({"content": "lost", "code": "internal"}, [("error: lost", "bold red")]),
}  # fmt: skip
LEFT_OUT = frozenset({
    "session_info", "tool_approved", "tool_rejected", "plan_replanning", "plan_rolled_back",
    "checkpoint_created", "approval_requested", "approval_resolved", "done", "context_elided",
    "window_used",
})  # fmt: skip


@pytest.mark.parametrize("word", SHOWN)
def test_each_event_that_a_person_is_to_know_of_has_its_words_and_its_colour(word):
    fields, expected = SHOWN[word]
    in_colour = {"force_terminal": True, "color_system": "standard", "width": 80}
    shown, wanted = (Console(file=io.StringIO(), **in_colour, highlight=False) for _ in range(2))
    for text, style in expected:
        wanted.print(Text(text, style=style))

    EventLines(shown).show({**fields, "type": word})

    assert shown.file.getvalue() == wanted.file.getvalue() != ""


@pytest.mark.parametrize("word", sorted(LEFT_OUT))
def test_an_event_of_which_another_tells_or_nothing_is_to_be_known_shows_nothing(
    word, lines, shown
):
    lines.show({"type": word, "content": "told", "metadata": {"status": "approved"}})

    assert shown.getvalue() == ""


def test_of_every_event_it_is_known_whether_a_person_is_shown_it():
    models = get_args(get_args(AnyEvent)[0])
    words = {word for model in models for word in get_args(model.model_fields["type"].annotation)}

    assert words == {*SHOWN, *LEFT_OUT}


def test_no_event_can_command_the_terminal(lines, shown):
    lines.show(token("\x1b[2J"))
    lines.show({"type": "error", "content": "\u202e\x07", "code": "internal"})
    lines.show({"type": "assistant_message", "content": "[red]no markup[/red] :smile:"})
    text = shown.getvalue()
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[red]no markup[/red] :smile:" in text


def test_events_that_tell_a_person_nothing_are_left_out(lines, shown):
    lines.show({"type": "session_info", "session_id": "s"})
    lines.show({"type": "something_new"})
    assert shown.getvalue() == ""


def test_json_is_one_event_a_line():
    written: list[str] = []
    screen = JsonLines(written.append)
    screen.show({"type": "error", "content": "two\nlines \x1b"})
    assert len(written) == 1
    assert written[0].count("\n") == 1
    assert "\x1b" not in written[0]
    assert json.loads(written[0])["content"] == "two\nlines \x1b"


def test_instruction_files_are_told_once_and_not_for_each_subtask(
    lines: EventLines, shown: io.StringIO
) -> None:
    event = {"type": "instructions_loaded", "content": "Read: AGENTS.md\x1b", "metadata": {}}
    lines.show(event)
    lines.show({**event, "subtask_id": "a"})

    assert shown.getvalue() == "Read: AGENTS.md\\x1b\n"


@pytest.mark.parametrize("name", ["command", "path", "source", "pattern", "question", "mode"])
def test_a_call_is_told_by_the_argument_that_says_most(lines, shown, name):
    order = ["command", "path", "source", "pattern", "question", "mode"]
    given = dict.fromkeys(order[order.index(name) :], "later") | {name: "a\nb" + "x" * 200}
    lines.show(call(arguments={"other": "o", **given}))
    lines.show(result())

    assert shown.getvalue() == f"execute_command a ⏎ b{'x' * 114}…\n"


@pytest.mark.parametrize("arguments", [{}, {"command": 7}, {"content": "x"}])
def test_a_call_without_such_an_argument_is_told_by_its_tool(lines, shown, arguments):
    lines.show(call(arguments=arguments, requires_approval=True, metadata={}))
    lines.show(result(result={"exit_code": 0}))

    assert shown.getvalue() == "? execute_command ()\nexecute_command → exit code 0\n"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"result": {"output": "\n one\ntwo \n\n"}}, "t\n    one\n    two\n"),
        ({"result": {"output": "\n".join("x" * 12)}}, "t\n" + "    x\n" * 12),
        ({"result": {"output": "\n".join("y" + "x" * 12)}}, "t\n    …\n" + "    x\n" * 12),
        ({"result": {"exit_code": 3}}, "t → exit code 3\n"),
        ({"result": {"other": 1}}, "t\n"),
        ({"result": "text"}, "t\n"),
        ({}, "t\n"),
        ({"error": "e" * 1_001}, f"✗ t: {'e' * 999}…\n"),
        ({"error": "", "subtask_id": "a"}, "[a] ✗ t: \n"),
        ({"subtask_id": "a", "result": {"exit_code": 0}}, "[a] t → exit code 0\n"),
    ],
)
def test_what_came_of_a_call_is_told_with_the_end_of_its_output(lines, shown, fields, said):
    lines.show({"type": "tool_result", "call_id": "c", "tool_name": "t", **fields})
    assert shown.getvalue() == said


@pytest.mark.parametrize(
    "tool",
    ["create_plan", "execute_plan", "switch_mode", "ask_followup_question", "attempt_completion"],
)
def test_what_other_events_tell_is_shown_only_where_it_failed(lines, shown, tool):
    lines.show({"type": "tool_result", "call_id": "c", "tool_name": tool, "result": {"output": 1}})
    lines.show({"type": "tool_result", "call_id": "c", "tool_name": tool, "error": "no"})
    assert shown.getvalue() == f"✗ {tool}: no\n"


def test_a_call_is_forgotten_once_it_has_a_result(lines, shown):
    lines.show(call())
    lines.show(result())
    lines.show(result())
    assert shown.getvalue() == "execute_command pytest -q\nexecute_command\n"


SAME = {"from_agent": "coder", "to_agent": "coder", "reason": "r"}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"type": "agent_switched", "metadata": SAME}, ""),
        ({"type": "agent_switched", "subtask_id": "a", "metadata": SAME | {"to_agent": "b"}}, ""),
        (
            {"type": "agent_switched", "metadata": SAME | {"to_agent": "b", "reason": "r" * 301}},
            f"→ b: {'r' * 299}…\n",
        ),
        (
            {
                "type": "subtask_failed", "content": "content",
                "metadata": {"subtask_id": "a", "reason": "reason", "error": {"message": "m"}},
            },
            "✗ a m\n",
        ),
        (
            {
                "type": "subtask_failed", "content": "content",
                "metadata": {"subtask_id": "a", "reason": "r" * 1_001, "error": {}},
            },
            f"✗ a {'r' * 999}…\n",
        ),
        (
            {
                "type": "subtask_failed", "content": "content",
                "metadata": {"subtask_id": "a", "duration_seconds": 0},
            },
            "✗ a (0.0 s) content\n",
        ),
        ({"type": "plan_paused"}, "Plan paused: no new subtasks start.\n"),
        ({"type": "plan_resumed"}, "Plan resumed.\n"),
        ({"type": "plan_cancelled"}, "Plan cancelled.\n"),
        ({"type": "plan_rejected", "content": "Plan cancelled. No. N."}, "Plan rejected. No. N.\n"),
        ({"type": "approval_warning"}, ""),
        ({"type": "instructions_loaded", "content": "i" * 1_001}, f"{'i' * 999}…\n"),
        ({"type": "error", "error": "e"}, "error: e\n"),
        ({"type": "error", "content": "c", "error": "e"}, "error: c\n"),
        ({"type": "error"}, "error: \n"),
        ({"type": "assistant_message", "subtask_id": "a", "content": ""}, ""),
        ({"type": "assistant_message", "content": ""}, ""),
    ],
)  # fmt: skip
def test_an_event_that_says_less_or_more_than_usual_is_told_in_its_words(lines, shown, event, said):
    lines.show(event)
    assert shown.getvalue() == said


def test_a_plan_that_comes_again_is_shown_with_all_that_is_to_be_known_of_it():
    facts = {
        "plan_id": "p1", "revision": 2, "goal": "G" * 1_001,
        "subtasks": [{"id": "a", "description": "do"}],
        "replan": {
            "cause": "logic", "subtask_id": "b", "reason": "r" * 1_001, "root_cause": "no x",
            "suggestion": "another", "by": "ann", "other": "o",
        },
        "comments": [{"author": "ann", "content": "w" * 4_001, "answer": "a" * 4_001}],
        "findings": [{"severity": "info", "message": "m" * 1_001}, {}],
        "instructions": [{"path": "AGENTS.md"}],
    }  # fmt: skip
    in_colour = {"force_terminal": True, "color_system": "standard", "width": 5_000}
    found, wanted = (Console(file=io.StringIO(), **in_colour, highlight=False) for _ in range(2))
    for text, style in [
        (f"\nPlan: {'G' * 999}…", "bold"), ("p1 · revision 2", "dim"), ("  1. · a: do", ""),
        ("     model", ""), ("the reason for the new plan: logic", ""),
        ("after the subtask: b", ""),
        (f"because: {'r' * 999}…", ""), ("root cause: no x", ""), ("suggestion: another", ""),
        ("requested by: ann", ""), (f"? ann on the plan: {'w' * 3_999}…", "yellow"),
        (f"    the agent answers: {'a' * 3_999}…", ""), (f"! info: {'m' * 999}…", "yellow"),
        ("! : ", "yellow"), ("The planner read these instructions: AGENTS.md", ""),
    ]:  # fmt: skip
        wanted.print(Text(text, style=style), soft_wrap=True)

    EventLines(found).show({"type": "plan_notification", "metadata": facts})

    assert found.file.getvalue() == wanted.file.getvalue()


def test_a_plan_without_a_goal_is_called_by_what_was_said_of_it(lines, shown):
    facts = {"plan_id": "p", "revision": 1, "subtasks": []}
    lines.show({"type": "plan_notification", "content": "# A plan", "metadata": facts})
    assert shown.getvalue() == "\nPlan: # A plan\np · revision 1\n"


def test_a_line_that_is_longer_than_the_terminal_is_left_to_it(lines, shown):
    lines.show({"type": "error", "content": "word " * 40})
    lines.show(token("word " * 40))
    assert shown.getvalue() == f"error: {'word ' * 40}\n{'word ' * 40}"


def test_streamed_text_is_broken_between_words_at_a_terminal_that_is_not_drawn_on():
    shown = io.StringIO()
    seen = Console(file=shown, force_terminal=True, color_system=None, width=12, highlight=False)
    screen = EventLines(seen)
    for part in ("One two th", "ree four\nfi", "ve"):
        screen.show(token(part))
    assert shown.getvalue() == "One two\nthree four\n"
    screen.show({"type": "assistant_message", "content": "One two three four\nfive"})
    assert shown.getvalue() == "One two\nthree four\nfive\n"
