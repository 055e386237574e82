"""How a tool call stands in an editor: its kind, its line, its places, what it changes and gave."""

from typing import Any

import pytest

from gonogo.acp_server.session import plain
from gonogo.acp_server.updates import (
    ShownPlan,
    Updates,
    changes_of,
    created,
    fragments,
    kind_of,
    locations_of,
    one_line,
    output_of,
    text_content,
    title_of,
)
from gonogo.tools import builtin_tools, ending_tools

PATCH = (
    "--- a/f\t2026-01-01\n+++ b/f\t2026-01-02\n"
    "@@ -1,3 +1,3 @@ def f\n one\n\n-two\n+2\n"
    "@@ -9 +9 @@\n-x\n\\ No newline at end of file\n+y\n"
    "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n"
    "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n"
)


@pytest.fixture
def updates() -> Updates:
    return Updates("/project", ShownPlan())


def happens(updates: Updates, kind: str, **fields: Any) -> list[dict[str, Any]]:
    """What is sent to the editor for an event."""
    return [plain(update) for update in updates.of({"type": kind, "call_id": "c", **fields})]


def of_text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def test_every_tool_has_its_kind_and_an_unknown_one_is_another() -> None:
    found: dict[str, set[str]] = {}
    for tool in [*builtin_tools(), *ending_tools(), "mcp__docs__search"]:
        found.setdefault(kind_of(tool), set()).add(tool)

    told_otherwise = {"create_plan", "execute_plan", "switch_mode", "ask_followup_question"}
    assert found == {
        "read": {"read_file", "read_skill", "read_output"},
        "search": {"list_files", "search_in_code", "explore"},
        "edit": {"write_file", "edit_file", "apply_patch", "create_directory"},
        "move": {"move_file"},
        "delete": {"delete_file"},
        "execute": {"execute_command"},
        "think": {"give_decision", "give_verdict"},
        "other": {"mcp__docs__search", "attempt_completion", *told_otherwise},
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "title"),
    [
        ("execute_command", {"command": "touch  x\n y", "path": "p"}, "`touch x y`"),
        ("execute_command", {"command": 5}, "execute_command"),
        ("other", {"command": "x"}, "other"),
        ("read_file", {"path": "a b"}, "read_file a b"),
        ("move_file", {"destination": "b", "source": "a"}, "move_file a"),
        ("search_in_code", {"pattern": "x y", "path": "src"}, "search_in_code src"),
        ("search_in_code", {"pattern": "x y"}, "search_in_code x y"),
        ("fetch", {"name": "n", "url": "https://a.example"}, "fetch https://a.example"),
        ("read_skill", {"path": 5, "name": "n"}, "read_skill n"),
    ],
)
def test_a_call_is_one_line_of_what_it_does_and_to_what(
    tool: str, arguments: dict[str, Any], title: str
) -> None:
    assert title_of(tool, arguments) == title
    assert title_of(tool, arguments, "app") == f"[app] {title}"


def test_a_line_is_cut_where_it_is_too_long_and_shows_what_could_deceive() -> None:
    assert one_line("x" * 200) == "x" * 200
    assert one_line("x" * 201) == "x" * 199 + "…"
    assert one_line(" a\n\tb\u202ec\x1b ") == "a b\\u202ec\\x1b"


def test_the_places_of_a_call_are_whole_paths_each_once_and_the_line_that_it_begins_at() -> None:
    def places(tool: str, **arguments: Any) -> list[tuple[str, int | None]]:
        return [(each.path, each.line) for each in locations_of(tool, arguments, "/project")]

    assert places("read_file", path="./a", start_line=3) == [("/project/a", 3)]
    assert places("read_file", path="a", start_line="3") == [("/project/a", None)]
    assert places("move_file", source="a", destination="b/c") == [
        ("/project/a", None), ("/project/b/c", None),
    ]  # fmt: skip
    assert places("move_file", source="a", destination="a") == [("/project/a", None)]
    assert places("odd", path=5, destination="/etc/x") == [("/etc/x", None)]
    assert places("apply_patch", path="z", patch=PATCH) == [
        (f"/project/{name}", None) for name in ("f", "new", "old")
    ]
    assert places("apply_patch") == []


def test_a_patch_is_told_hunk_by_hunk_with_the_lines_of_both_sides() -> None:
    assert list(fragments(PATCH)) == [
        ("f", "one\n\ntwo\n", "one\n\n2\n"),
        ("f", "x\n", "y\n"),
        ("new", None, "n\n"),
        ("old", "o\n", ""),
    ]


def test_what_a_call_would_change_is_told_of_edits_and_patches_alone() -> None:
    def changes(tool: str, **arguments: Any) -> list[dict[str, Any]]:
        return [plain(each) for each in changes_of(tool, arguments, "/project")]

    assert changes("edit_file", path="a", old="1", new="2") == [
        {"type": "diff", "path": "/project/a", "oldText": "1", "newText": "2"}
    ]
    assert changes("edit_file") == [
        {"type": "diff", "path": "/project", "oldText": "", "newText": ""}
    ]
    assert [(each["path"], each["newText"]) for each in changes("apply_patch", patch=PATCH)] == [
        ("/project/f", "one\n\n2\n"), ("/project/f", "y\n"), ("/project/new", "n\n"),
        ("/project/old", ""),
    ]  # fmt: skip
    assert changes("apply_patch") == []
    assert changes("write_file", path="a", content="x", old="1", new="2") == []


def test_a_file_that_was_made_is_shown_whole_and_nothing_else_is() -> None:
    given = {"path": "a", "content": "x"}

    (made,) = created(given, {"created": True}, "/project")
    assert plain(made) == {"type": "diff", "path": "/project/a", "newText": "x"}
    for result in ({"created": False}, {"created": 1}, {}, "created", None):
        assert created(given, result, "/project") == []
    for odd in ({"path": "a"}, {"content": "x"}, {**given, "path": 5}, {**given, "content": 5}):
        assert created(odd, {"created": True}, "/project") == []


def test_what_a_command_wrote_stands_in_a_fence_that_nothing_in_it_ends() -> None:
    def said(**result: Any) -> list[str]:
        return [each.content.text for each in output_of("execute_command", result)]

    assert said(output="a\n\n", exit_code=0) == ["```\na\n```\nexit code 0"]
    assert said(output="a ```` b ``", exit_code=1) == ["`````\na ```` b ``\n`````\nexit code 1"]
    assert said(output="a\x1b[1m`b`\nc") == ["```\na\\x1b[1m`b`\nc\n```"]
    assert said(output=" \n", exit_code=3) == ["exit code 3"]
    assert said(exit_code=3) == ["exit code 3"]
    assert said() == said(output="") == []
    assert output_of("execute_command", "text") == []
    assert output_of("read_file", {"output": "a", "exit_code": 0}) == []


def test_of_a_long_text_the_end_is_shown() -> None:
    assert text_content("a" + "x" * 19_999).content.text == "a" + "x" * 19_999
    assert text_content("a" + "x" * 20_000).content.text == "…\n" + "x" * 20_000


def test_a_call_begins_with_all_that_its_arguments_tell(updates: Updates) -> None:
    edit = {"path": "a", "old": "1", "new": "2", "start_line": 4}

    assert plain(updates.call("c", "edit_file", edit, "app")) == {
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "[app] edit_file a",
        "kind": "edit", "status": "pending", "rawInput": edit,
        "content": [{"type": "diff", "path": "/project/a", "oldText": "1", "newText": "2"}],
        "locations": [{"path": "/project/a", "line": 4}],
    }  # fmt: skip
    assert plain(updates.call("d", "execute_command", {"command": "ls"}, None)) == {
        "sessionUpdate": "tool_call", "toolCallId": "d", "title": "`ls`", "kind": "execute",
        "status": "pending", "rawInput": {"command": "ls"},
    }  # fmt: skip


def test_a_call_runs_at_once_unless_a_person_is_asked(updates: Updates) -> None:
    fields = {"tool_name": "read_file", "arguments": {"path": "a"}}
    shown = {
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "read_file a", "kind": "read",
        "rawInput": {"path": "a"}, "locations": [{"path": "/project/a"}],
    }  # fmt: skip
    whose = {"plan_id": "p", "subtask_id": "app", "agent": "coder"}

    free = happens(updates, "tool_call", **fields, requires_approval=False)
    asked = happens(updates, "tool_call", **fields, requires_approval=True, **whose)

    assert free == [{**shown, "status": "in_progress"}]
    title = "[app] read_file a"
    assert asked == [{**shown, "status": "pending", "title": title, "_meta": whose}]


@pytest.mark.parametrize(
    "tool",
    ["create_plan", "execute_plan", "switch_mode", "ask_followup_question", "attempt_completion"],
)
def test_tools_that_other_events_tell_of_are_no_calls_here(updates: Updates, tool: str) -> None:
    fields = {"tool_name": tool, "arguments": {}, "requires_approval": False}

    assert happens(updates, "tool_call", **fields) == []
    updates.call("c", tool, {}, None)
    assert happens(updates, "tool_result", tool_name=tool, result={}) == []


def test_a_call_that_is_allowed_goes_on_with_the_arguments_that_it_is_given(
    updates: Updates,
) -> None:
    shown = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"}
    other = {"modified_arguments": {"path": "b", "old": "1", "new": "3"}}

    assert happens(updates, "tool_approved", metadata=other) == [shown], "it is not known here"
    updates.call("c", "edit_file", {"path": "a", "old": "1", "new": "2"}, None)
    assert happens(updates, "tool_approved", metadata={}) == [shown]
    assert happens(updates, "tool_approved", metadata=other, subtask_id="app") == [{
        **shown, "title": "[app] edit_file b", "rawInput": other["modified_arguments"],
        "content": [{"type": "diff", "path": "/project/b", "oldText": "1", "newText": "3"}],
        "locations": [{"path": "/project/b"}],
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"content": "No.", "metadata": {"feedback": "why"}}, "No."),
        ({"metadata": {"feedback": "why"}}, "why"),
        ({"metadata": {}}, "rejected"),
    ],
)
def test_a_call_that_is_refused_has_failed_and_says_why(
    updates: Updates, fields: dict[str, Any], why: str
) -> None:
    updates.call("c", "write_file", {"path": "a"}, None)

    assert happens(updates, "tool_rejected", **fields) == [{
        "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed",
        "content": [of_text(why)],
    }]  # fmt: skip
    assert happens(updates, "tool_result", tool_name="write_file", result={}) == []


def test_a_call_is_over_once_with_what_came_of_it(updates: Updates) -> None:
    over = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
    ran = {"output": "x", "exit_code": 0}
    made = {"path": "a", "created": True}

    updates.call("c", "execute_command", {"command": "ls"}, None)
    assert happens(updates, "tool_result", tool_name="execute_command", result=ran) == [{
        **over, "status": "completed", "content": [of_text("```\nx\n```\nexit code 0")],
        "rawOutput": ran,
    }]  # fmt: skip
    assert happens(updates, "tool_result", tool_name="execute_command", result=ran) == []
    updates.call("c", "write_file", {"path": "a", "content": "1"}, None)
    assert happens(updates, "tool_result", tool_name="write_file", result=made) == [{
        **over, "status": "completed", "rawOutput": made,
        "content": [{"type": "diff", "path": "/project/a", "newText": "1"}],
    }]  # fmt: skip
    updates.call("c", "read_file", {"path": "a"}, None)
    assert happens(updates, "tool_result", tool_name="read_file", error="gone") == [{
        **over, "status": "failed", "content": [of_text("gone")], "rawOutput": {"error": "gone"},
    }]  # fmt: skip
    assert plain(updates.ended("c", "read_file", {"content": "1"}, None)) == {
        **over, "status": "completed", "rawOutput": {"content": "1"},
    }  # fmt: skip
