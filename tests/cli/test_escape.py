"""What models and tools write has no power over the terminal; the rule is `domain.visible`'s."""

import io
import json
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from gonogo.cli.support import Exit, Stop, explained
from gonogo.cli.terminal.input import TerminalPerson
from gonogo.cli.terminal.output import facts, json_line, line, one_line, plain, spoken, table
from gonogo.cli.terminal.render import EventLines
from gonogo.domain.base import View
from gonogo.domain.errors import NotFound

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class ExportedName(View):
    name: str
    other: str | None = None


ODD = "\x1b[2J\u202e\u200b\ufe0f\xa0\U000e0041\r\x07"
SHOWN = "\\x1b[2J\\u202e\\u200b\\ufe0f\\xa0\\U000e0041\\x0d\\x07"


def test_one_line_has_no_breaks_and_a_bounded_length():
    assert one_line("a\n  b\tc\n\n") == "a ⏎ b c"
    assert one_line("echo ok\n\n" + " " * 50 + "; x") == "echo ok ⏎ ␣×50; x"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"
    assert one_line("x" * 10, 10) == "x" * 10


def test_a_value_in_a_line_has_the_escapes_of_json_and_a_text_those_of_text():
    assert json_line({"a": "\x1b\u202e\\u202e"}) == '{"a": "\\u001b\\u202e\\\\u202e"}'
    assert json_line("a\n\x1b") == "a ⏎ \\x1b"
    assert json_line(["x" * 50], 10) == '["xxxxxxx…'


def test_spoken_text_keeps_its_lines_however_they_end():
    assert spoken("windows\r\nline\n\tand\rmore") == "windows\nline\n\tand\\x0dmore"


def test_everything_that_is_written_is_guarded_whoever_forgot_to(capsys):
    line(f"a{ODD}")
    TerminalPerson({}).tell(f"b{ODD}")
    table(("head",), [(f"c{ODD}",)])
    written = capsys.readouterr()

    assert written.out == f"a{SHOWN}\nhead\nc{SHOWN}\n"
    assert written.err == f"b{SHOWN}\n"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (12, "plan  status\nab    done  \n"),
        (11, "plan ab\n  status: done\n"),
    ],
)
def test_a_table_is_drawn_in_columns_as_long_as_no_word_is_broken(
    capsys, monkeypatch, width, shown
):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    table(("plan", "status"), [("ab", "done")])

    assert re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out) == shown


@pytest.mark.parametrize("error", [Stop(f"a{ODD}\n"), NotFound(f"a{ODD}\n")])
def test_what_went_wrong_is_said_in_one_line_that_moves_no_cursor(capsys, error):
    with pytest.raises(SystemExit), explained():
        raise error

    assert capsys.readouterr().err == f"gonogo: a{SHOWN}\\x0a\n"


def test_what_went_wrong_without_a_word_is_told_by_its_name(capsys):
    with pytest.raises(SystemExit), explained():
        raise NotFound

    assert capsys.readouterr().err == "gonogo: NotFound\n"


def test_json_for_people_is_the_same_value_and_deceives_nobody(capsys):
    facts({"said": ODD})
    written = capsys.readouterr().out

    assert json.loads(written) == {"said": ODD}
    assert written.replace("\n", "").isprintable()
    assert not set(written) & set("\ufe0f\U000e0041")


def test_no_event_can_move_the_cursor_or_write_an_escape_that_it_does_not_have():
    written = io.StringIO()
    screen = EventLines(Console(file=written, highlight=False, markup=False, width=200))
    said = f"{ODD} \\x1b"
    events = [
        {"type": "assistant_message", "token": said, "content": said},
        {"type": "assistant_message", "content": said, "subtask_id": "a"},
        {"type": "agent_switched",
         "metadata": {"from_agent": "a", "to_agent": "b", "reason": said}},
        {"type": "plan_notification", "content": said, "metadata": {
            "plan_id": "p", "revision": 1, "goal": said,
            "subtasks": [{"id": "a", "description": said, "tool": said, "estimated_time": said,
                          "inputs": {"a": said}, "condition": said, "scope": {"paths": [said]},
                          "result": {"output": said}}],
            "findings": [{"severity": "warning", "message": said}],
        }},
        {"type": "tool_call", "call_id": "c", "tool_name": "t", "requires_approval": True,
         "arguments": {"path": said}, "metadata": {"reason": said}},
        {"type": "tool_result", "call_id": "c", "tool_name": "t", "result": {"output": said}},
        {"type": "tool_result", "call_id": "d", "tool_name": "t", "error": said},
        {"type": "tool_rejected", "metadata": {"feedback": said}},
        {"type": "subtask_started", "content": said},
        {"type": "subtask_failed", "metadata": {"subtask_id": "a", "error": {"message": said}}},
        {"type": "plan_paused", "content": said},
        {"type": "error", "content": said},
    ]  # fmt: skip
    for event in events:
        screen.show(event)

    text = written.getvalue()
    assert text.replace("\n", "").isprintable()
    assert not set(text) & set("\ufe0f\U000e0041")
    assert text.count("\\u202e") >= len(events)
    assert text.count("\\\\x1b") >= len(events)
    assert "\\\\u001b" not in text
    assert "\\\\u202e" not in text


def tables(capsys, monkeypatch, width, head, *rows):
    """A table as it is drawn at a terminal of so many cells, in Russian."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in (("COLUMNS", str(width)), ("TERM", "xterm"), ("GONOGO_LOCALE", "ru")):
        monkeypatch.setenv(name, value)
    assert table(head, rows) is Exit.DONE
    return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)


ROWS = [("漢字", "", 7), ("ab", "one two three\x07", NOON)]


def test_a_table_is_drawn_in_columns_with_headings_in_the_persons_language(capsys, monkeypatch):
    drawn = tables(capsys, monkeypatch, 27, ("plan", "would be", "made by"), *ROWS)
    assert drawn.splitlines() == [
        "план  стало бы   кем       ",
        "漢字             7         ",
        "ab    one two    2026-01-01",
        "      three\\x07  12:00:00Z ",
    ]


def test_a_table_without_room_for_its_words_is_a_paragraph_a_row(capsys, monkeypatch):
    drawn = tables(capsys, monkeypatch, 26, ("plan", "would be", "made by"), *ROWS)
    assert drawn.splitlines() == [
        "план 漢字",
        "  кем: 7",
        "план ab",
        "  стало бы: one two three\\x07",
        "  кем: 2026-01-01 12:00:00Z",
    ]


def test_a_table_is_tabs_where_nobody_looks(capsys):
    assert table(("plan", "would be"), [("a\tb", NOON)]) is Exit.DONE
    assert capsys.readouterr().out == "plan\twould be\na\\x09b\t2026-01-01 12:00:00Z\n"


def test_bodies_within_a_value_are_json_too(capsys):
    body = ExportedName(name="ж", other=None)
    assert plain({"a": [body, (1, 2)], "b": body, "c": None}) == {
        "a": [{"name": "ж"}, (1, 2)], "b": {"name": "ж"}, "c": None,
    }  # fmt: skip
    assert facts([body]) is Exit.DONE
    assert capsys.readouterr().out == '[\n  {\n    "name": "ж"\n  }\n]\n'
