"""The person at the terminal is asked in words and may answer, edit, leave or interrupt."""

from pathlib import Path

import anyio
import pytest

from gonogo.cli.support import Stop
from gonogo.cli.terminal.input import TerminalPerson

CHOOSE = """
import anyio
from gonogo.cli.terminal.input import TerminalPerson
async def main():
    person = TerminalPerson({})
    print("there:", person.is_there)
    print("chosen:", await person.choose("Allow this?", {"approve": "yes", "reject": "no"}))
    print("said:", await person.line("Why?"))
anyio.run(main)
"""
WAIT = """
import anyio
from gonogo.cli.terminal.input import TerminalPerson
async def main():
    with anyio.move_on_after(0.2):
        await TerminalPerson({}).line("Why?")
    print("gave up")
anyio.run(main)
"""


def test_one_letter_is_enough_and_nonsense_is_asked_again(terminal):
    at = terminal(script=CHOOSE)
    at.expect("there: True")
    at.expect("Allow this? [a] yes, [r] no >")
    at.type("x\n")
    at.expect("Allow this?")
    at.type("R\n")
    at.expect("chosen: reject")
    at.expect("Why?")
    at.type("слишком рискованно\n")
    at.expect("said: слишком рискованно")
    assert at.end() == 0


def test_lines_typed_ahead_are_not_lost(terminal):
    at = terminal(script=CHOOSE)
    at.expect("Allow this?")
    at.type("approve\nbecause\n")
    at.expect("chosen: approve")
    at.expect("said: because")
    assert at.end() == 0


def test_the_end_of_input_is_no_answer(terminal):
    at = terminal(script=CHOOSE)
    at.expect("Allow this?")
    at.type("\x04")
    at.expect("chosen: None")


def test_a_question_does_not_outlive_its_command(terminal):
    at = terminal(script=WAIT)
    at.expect("gave up")
    assert at.end() == 0


def test_without_a_terminal_nobody_is_there():
    assert not TerminalPerson({}).is_there


@pytest.mark.anyio
async def test_a_text_is_edited_in_the_persons_editor(tmp_path: Path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s" "[1, 2]" > "$2"\n')
    editor.chmod(0o755)
    with anyio.fail_after(60):
        assert await TerminalPerson({"EDITOR": f"{editor} --wait"}).edit("[]") == "[1, 2]"


@pytest.mark.anyio
@pytest.mark.parametrize("editor", ["false", "/no/such/editor"])
async def test_an_editor_that_fails_is_said_with_a_way_out(editor: str):
    with pytest.raises(Stop, match="EDITOR"), anyio.fail_after(60):
        await TerminalPerson({"EDITOR": editor}).edit("[]")
