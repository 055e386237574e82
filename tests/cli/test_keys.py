"""Keys answer questions: those that were meant for them, and no others."""

import os
import pty
import tty
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest

from gonogo.cli.terminal.input import Keyboard, TypedLine, chosen

OPTIONS = ("approve", "edit", "reject")


@pytest.mark.parametrize(
    ("typed", "word"),
    [("a", "approve"), ("R", "reject"), ("a\n", "approve"), ("edit\n", "edit")]
    + [(typed, None) for typed in ("", "\n", " ", "x", "about", "ar", "a\na", "\t")],
)
def test_a_key_means_a_word_only_if_it_begins_that_one(typed: str, word: str | None):
    assert chosen(typed, OPTIONS) == word


def typed(*pieces: str) -> tuple[str, bool]:
    draft = TypedLine()
    done = [draft.take(piece) for piece in pieces]
    return draft.text, done[-1]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["h", "i", "\n"], "hi"),
        (["hj\x7fi\r"], "hi"),
        (["one two\x17\x17three\n"], "three"),
        (["gone\x15here\n"], "here"),
        (["a\x1b[Db\x1bOAc\n"], "abc"),
        (["a\x1b", "[", "1;5", "Ab\n"], "ab"),
        (["жд\x7fё漢\n"], "жё漢"),
        (["two\r\nlines\n"], "two\nlines"),
        (["a\tb\x00\x07\n"], "a b"),
    ],
)
def test_a_line_is_typed_corrected_and_pasted(pieces: list[str], text: str):
    assert typed(*pieces) == (text, True)


def test_a_line_without_its_end_is_not_done():
    assert typed("half") == ("half", False)


@pytest.fixture
def ends() -> Iterator[tuple[Keyboard, int]]:
    ours, theirs = pty.openpty()
    # A process sets the modes of its own terminal only, and this is none of ours.
    tty.setcbreak(theirs)
    yield Keyboard(theirs), ours
    os.close(theirs)
    with suppress(OSError):
        os.close(ours)


@pytest.mark.anyio
async def test_what_an_arrow_sends_is_no_letter_even_if_it_comes_in_pieces(ends):
    keyboard, ours = ends
    with anyio.fail_after(60):
        os.write(ours, b"\x1b[A")
        assert await keyboard.key() == ""
        os.write(ours, b"\x1b")
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, os.write, ours, b"[a")
            assert await keyboard.key() == ""
        os.write(ours, "ж".encode())
        assert await keyboard.key() == "ж"


@pytest.mark.anyio
async def test_what_was_typed_before_a_question_does_not_answer_it(ends):
    keyboard, ours = ends
    os.write(ours, b"aaa\naaa")
    with anyio.fail_after(60):
        await keyboard.settle()
        os.write(ours, b"r")
        assert await keyboard.key() == "r"


@pytest.mark.anyio
async def test_the_end_of_input_and_a_terminal_that_is_gone_are_no_key(ends):
    keyboard, ours = ends
    os.write(ours, b"\x04")
    with anyio.fail_after(60):
        assert await keyboard.key() is None
        os.close(ours)
        assert await keyboard.key() is None
