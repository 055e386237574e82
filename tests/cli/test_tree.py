"""Plans drawn as text: everything a person has to know before the go, and nothing that deceives."""

import pytest

from gonogo.cli.terminal.plan_graph import plan_lines, scope_line, stages


def node(name: str, *after: str, **fields: object) -> dict[str, object]:
    return {
        "id": name,
        "description": f"do {name}",
        "agent": "coder",
        "estimated_time": "5 min",
        "dependencies": list(after),
        **fields,
    }


DIAMOND = [node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c")]


def test_every_subtask_is_listed_with_its_agent_time_and_dependencies():
    text = "\n".join(plan_lines(DIAMOND))
    for name in "abcd":
        assert f"{name}: do {name}" in text
    assert "coder · 5 min · after b, c" in text


def test_when_a_subtask_runs_and_how_long_it_may_take_is_told_in_the_readers_language():
    bound = [node("a", condition="x == 1", timeout=120.0), node("b", timeout=90)]
    text = "\n".join(plan_lines(bound, "ru")).replace("\N{NO-BREAK SPACE}", " ")
    assert "только если x == 1" in text
    assert "лимит времени: 2 мин" in text
    assert "лимит времени: 90 с" in text


def test_a_scope_is_shown_so_that_the_person_knows_what_the_go_allows():
    scope = {"paths": ["src/*.py"], "commands": ["pytest -q"], "tools": [], "network": True}
    assert scope_line(node("a", scope=scope)) == (
        "files src/*.py; commands pytest -q; no tools; network any public host"
    )
    hosts = scope | {"network": ["packages.example.com", "a.b:1"]}
    assert scope_line(node("a", scope=hosts)).endswith("; network packages.example.com, a.b:1")
    assert "allowed: files src/*.py" in "\n".join(plan_lines([node("a", scope=scope)]))


def test_what_a_scope_leaves_out_is_shown_as_all_and_what_it_names_none_of_as_none():
    everything = "files anywhere in the workspace; all tools of its agent"
    assert scope_line(node("a")) == scope_line(node("a", scope={})) == everything
    assert scope_line(node("a", scope={"paths": [], "tools": ["write_file"]})) == (
        "no files; tools write_file"
    )
    assert scope_line(node("a", agent=None, tool="write_file")) == "files anywhere in the workspace"
    assert scope_line(node("a", agent=None)) == ""


def test_how_a_subtask_ended_is_shown():
    lines = list(
        plan_lines(
            [
                node("a", status="completed", result="done"),
                node("b", status="failed", error={"message": "no such file"}),
                node("c", status="skipped", reason="b did not complete"),
            ]
        )
    )
    text = "\n".join(lines)
    assert "✓ a" in text
    assert "result: done" in text
    assert "✗ b" in text
    assert "error: no such file" in text
    assert "↷ c" in text
    assert "b did not complete" in text


def test_what_may_run_at_once_stands_in_one_stage():
    assert [[n["id"] for n in stage] for stage in stages(DIAMOND)] == [["a"], ["b", "c"], ["d"]]


def test_nodes_that_wait_for_each_other_are_drawn_and_not_waited_for():
    assert [[n["id"] for n in s] for s in stages([node("a", "b"), node("b", "a")])] == [["a", "b"]]


def test_a_description_cannot_draw_lines_of_its_own_or_hide_its_direction():
    lines = list(plan_lines([node("a", description="fine\n  2. ✓ fake\u202e")]))
    assert len(lines) == 3
    assert "\\u202e" in lines[0]


CHECKED = {
    "id": "v", "description": "Look\n at it", "type": "validation", "estimated_time": "1 h",
    "dependencies": ["a", "b"], "inputs": {"command": "pytest -q"}, "condition": "x == 1",
    "after_skipped": "run", "on_reject": "skip", "retry_policy": {"max_attempts": 2},
    "timeout": 60.0, "done_when": [{"file_exists": "a"}], "must_change": False,
    "status": "completed", "result": {"output": "ok\nfine"},
}  # fmt: skip


def test_all_that_decides_what_will_run_is_shown_in_its_order():
    assert list(plan_lines([CHECKED])) == [
        "  1. ✓ v: Look\n        at it",
        "     tool:execute_command · 1 h · after a, b",
        "     only if x == 1",
        '     with: {"command": "pytest -q"}',
        "     done when the file a exists",
        "     runs even if a subtask that it depends on was skipped",
        "     is skipped if you reject its start",
        "     attempts: 2; pause before the second: 1 s, each further pause × 2; "
        "after: temporary failures",
        "     time limit: 1 min",
        "     may leave all files unchanged",
        "     result: ok ⏎ fine",
    ]


def test_the_terms_of_another_version_are_shown_as_they_came():
    odd = {"id": "v", "description": "d", "on_reject": "ask\u202e", "after_skipped": "skip"}
    assert [line.strip() for line in plan_lines([odd])][2:] == [
        "is skipped if a subtask that it depends on was skipped", '{"on_reject": "ask\\u202e"}',
    ]  # fmt: skip


def test_what_has_to_hold_at_the_end_is_said_in_words():
    checks = [
        {"command": "pytest -q"}, {"command": "make", "timeout": 60},
        {"file_contains": {"path": "a", "text": "x\ny"}}, {"unchanged": ["src/**", "b"]},
        {"ask": "Is it\u202e well?"}, {"of another": "version"},
    ]  # fmt: skip
    given = {"id": "v", "description": "d", "done_when": checks, "must_change": True}
    assert [line.strip() for line in plan_lines([given])][2:] == [
        "done when pytest -q succeeds", "done when make succeeds within 60 s",
        "done when a contains: x ⏎ y", "done when nothing in src/**, b has changed",
        "done when a model that sees the changes answers yes to: Is it\\u202e well?",
        '{"done_when": {"of another": "version"}}', "must change at least one file",
    ]  # fmt: skip
    said = [line.strip() for line in plan_lines([given], "ru")][2:]
    assert said[0] == "готово, когда команда pytest -q завершается успешно"
    assert said[3] == "готово, когда в src/**, b ничего не изменилось"


def test_a_subtask_of_which_hardly_anything_is_said_is_shown_all_the_same():
    bare = {"id": "a", "description": "d"}
    assert list(plan_lines([bare])) == ["  1. · a: d", "     model"]
    assert list(plan_lines([bare, bare | {"tool": "write_file"}]))[2:] == [
        "  2. · a: d", "     tool:write_file", "     allowed: files anywhere in the workspace",
    ]  # fmt: skip


LONG = "x" * 299 + "…"


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"result": {"exit": 1}}, 'result: {"exit": 1}'),
        ({"result": 0}, "result: 0"),
        ({"result": "x" * 301}, f"result: {LONG}"),
        ({"result": {"output": "x" * 301}}, f"result: {LONG}"),
        ({"error": {"message": "x" * 301}}, f"error: {LONG}"),
        ({"error": {"code": 7}}, "error: {'code': 7}"),
        ({"reason": "x" * 301}, LONG),
        ({"error": {"message": "a"}, "result": "b", "reason": "c"}, "error: a"),
        ({"result": "b", "reason": "c"}, "result: b"),
    ],
)
def test_the_end_of_a_subtask_is_one_line_of_at_most_300_characters(ended, said):
    *_, last = plan_lines([{"id": "a", "description": "d", **ended}])
    assert last == f"     {said}"


def test_whom_a_subtask_may_reach_is_shown_however_it_was_written():
    def reaches(network):
        return scope_line(node("a", agent=None, scope={"network": network}))

    assert [reaches(each) for each in (True, False, None, [], ("a",), ["a\nb", "c"])] == [
        "network any public host", "", "", "", "network a", "network a ⏎ b, c",
    ]  # fmt: skip


def test_what_a_scope_names_is_not_cut():
    scope = {"paths": ["x" * 200, "b"], "commands": ["y" * 200], "network": ["z" * 200]}
    assert scope_line(node("a", scope=scope)) == (
        f"files {'x' * 200}, b; commands {'y' * 200}; all tools of its agent; network {'z' * 200}"
    )


def test_what_waits_for_something_that_is_not_there_stands_in_the_last_stage():
    nodes = [{"id": "a"}, {"id": "b", "dependencies": ["a", "none"]}, node("c", "a")]
    assert [[each["id"] for each in stage] for stage in stages(nodes)] == [["a"], ["c"], ["b"]]
    assert stages([]) == []
