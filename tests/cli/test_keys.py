"""Keys answer questions: those that were meant for them, and no others."""

import io
import os
import pty
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from rich.console import Console
from rich.text import Text

from gonogo.cli.terminal.input import (
    AtKeys,
    Foot,
    Keyboard,
    TerminalPerson,
    TypedLine,
    Withdrawn,
    chosen,
    is_ours,
    key_prompt,
    line_prompt,
)

OPTIONS = {"approve": "approve", "edit": "edit", "reject": "reject"}


@pytest.mark.parametrize(
    ("typed", "word"),
    [("a", "approve"), ("R", "reject"), ("a\n", "approve"), ("edit\n", "edit")]
    + [(typed, None) for typed in ("", "\n", " ", "x", "about", "ar", "a\na", "\t")],
)
def test_a_key_means_a_word_only_if_it_begins_that_one(typed: str, word: str | None):
    assert chosen(typed, OPTIONS) == word


IN_RUSSIAN = {
    "approve": "одобрить", "edit": "изменить", "reject": "отклонить", "comment": "комментарий",
    "send_back": "вернуть с комментариями",
}  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("ф", "approve"), ("У", "edit"), ("к\n", None), ("с", "comment"), ("ы", "send_back"),
        ("в", "send_back"), ("и", "edit"), ("о", None), ("ж", None), ("фззкщму", "approve"),
        ("да", "approve"), ("нет", "reject"), ("yes", "approve"), ("no", "reject"),
        ("одобрить", "approve"), ("ОТКЛОНИТЬ", "reject"), ("изм", "edit"), ("от", "reject"),
    ],
)  # fmt: skip
def test_an_answer_is_known_by_the_place_of_its_key_and_by_its_word_in_either_language(typed, word):
    assert chosen(typed, IN_RUSSIAN) == word


@pytest.mark.parametrize(
    ("typed", "word"), [("одобрить", "approve"), ("одоб", None), ("одобрить сейчас", "hold")]
)
def test_a_whole_word_is_its_answer_though_another_answer_begins_with_it(typed, word):
    assert chosen(typed, {**IN_RUSSIAN, "hold": "одобрить сейчас, начать позже"}) == word


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("y", "yes"),
        ("n", "no"),
        ("т", "no"),
        ("д", "yes"),
        ("н", None),
        ("не", "no"),
        ("да", "yes"),
    ],
)
def test_a_letter_that_is_one_answers_key_and_begins_the_other_is_neither(typed, word):
    assert chosen(typed, {"yes": "да, остановить", "no": "нет, пусть работает"}) == word


@pytest.mark.parametrize(("typed", "word"), [("ф", "approve"), ("к", "reject"), ("да", "approve")])
def test_the_russian_layout_answers_english_questions_too(typed, word):
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


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["ab\b", "c\n"], "ac"),
        (["\x7f\x15\x17a\n"], "a"),
        (["one two  \x17\n"], "one "),
        (["one\x17\n"], ""),
        (["a\r\r\nb\n"], "a\n\nb"),
        (["\x1bOAa\x1bxb\x1b[200~c\x1b[1;5 @d\n"], "abcd"),
        (["a\x1b", "\n", "b\n"], "ab"),
        (["\x1b[", "\x1b", "[Aa\n"], "a"),
    ],
)
def test_keys_that_are_no_letters_correct_the_line_or_do_nothing(pieces, text):
    assert typed(*pieces) == (text, True)


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def foot(written: io.StringIO) -> Foot:
    in_colour = {"force_terminal": True, "color_system": None, "legacy_windows": False}
    return Foot(Console(file=written, width=60, height=10, **in_colour))


@pytest.fixture
def person(ends, foot: Foot) -> AtKeys:
    return AtKeys({}, foot, ends[0])


def types(end: int, written: io.StringIO, *pairs: tuple[str, str]) -> Callable[[], None]:
    """What types each text once another is seen."""
    left = list(pairs)

    def look() -> None:
        while left and left[0][0] in written.getvalue():
            os.write(end, left.pop(0)[1].encode())

    return look


async def answered(ask, look):
    """What somebody answers who looks all the while."""
    answers = []

    async def asking() -> None:
        answers.append(await ask())
        group.cancel_scope.cancel()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(asking)
            while True:
                look()
                await anyio.lowlevel.checkpoint()
    return answers[0]


ALLOW = {"approve": "yes", "reject": "no"}


async def test_one_key_answers_a_question_and_the_answer_stays_above(ends, person, written):
    look = types(ends[1], written, ("[r] no >", "R"))

    assert await answered(lambda: person.choose("Allow?", ALLOW), look) == "reject"
    assert written.getvalue() == "Allow? [a] yes, [r] no >\r\x1b[KAllow? no\n"


async def test_a_word_that_is_pasted_answers_nothing(ends, person, written):
    look = types(ends[1], written, ("[r] no >", "yes"), ("Press one of these keys", "r"))

    assert await answered(lambda: person.choose("Allow?", ALLOW), look) == "reject"


async def test_a_line_is_drawn_while_it_is_typed_and_stays_above(ends, person, written):
    look = types(ends[1], written, ("Why? ", " so"), ("Why?  so", "\x07me \n"))

    assert await answered(lambda: person.line("Why?"), look) == "some"
    assert written.getvalue() == "Why? \r\x1b[KWhy?  so\r\x1b[KWhy?  some \n"


async def test_the_end_of_the_input_is_no_answer_but_in_the_middle_of_a_line(ends, person, written):
    look = types(ends[1], written, ("Why?", "\x04"))
    assert await answered(lambda: person.line("Why?"), look) is None
    look = types(ends[1], written, ("Allow?", "\x04"))
    assert await answered(lambda: person.choose("Allow?", ALLOW), look) is None
    look = types(ends[1], written, ("How?", "a"), ("How? a", "\x04"), ("How? a", "b\n"))
    assert await answered(lambda: person.line("How?"), look) == "ab"


@pytest.mark.parametrize("ahead", [True, False])
async def test_what_was_typed_ahead_is_kept_where_the_line_says_so(ends, person, written, ahead):
    look = types(ends[1], written, (">", "half"))

    async def withdrawn() -> None:
        with pytest.raises(Withdrawn):
            await person.line(">", ahead=True)

    async def waits() -> None:
        while "half" not in written.getvalue():
            look()
            await anyio.lowlevel.checkpoint()
        person.withdraw()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(withdrawn)
            group.start_soon(waits)
    look = types(ends[1], written, ("more?", " line\n"))
    said = await answered(lambda: person.line("more?", ahead=ahead), look)
    assert said == ("half line" if ahead else "line")


async def test_an_editor_has_the_terminal_while_it_is_open(person, foot, written, tmp_path: Path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf done > "$1"\n')
    editor.chmod(0o755)
    person._environment = {"EDITOR": str(editor)}
    foot.body = lambda _width, _height: [Text("one")]
    foot.draw()
    with anyio.fail_after(60):
        assert await person.edit("text", keep=tmp_path / "kept") == "done"
    assert (tmp_path / "kept").read_text() == "done"
    assert not foot.is_away
    assert written.getvalue() == "one\r\x1b[K"


def test_what_is_told_stands_above_the_live_lines(person, foot, written):
    foot.body = lambda _width, _height: [Text("live")]
    person.tell("a\x07")
    person.show(Text("b"), Text("c"))
    assert written.getvalue() == "a\\x07\nlive\r\x1b[Kb\nc\nlive"
    assert person.has_keys


def test_a_terminal_of_another_process_is_left_as_it_is(ends):
    keyboard, ours = ends
    before = termios.tcgetattr(ours)
    assert not is_ours(ours)
    with keyboard.held():
        assert termios.tcgetattr(ours) == before
    assert not keyboard.keep()


HELD = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from gonogo.cli.terminal.input import Keyboard, is_ours
def shown():
    modes = termios.tcgetattr(0)
    return bool(modes[3] & termios.ICANON), bool(modes[3] & termios.ECHO), modes[6][6], modes[6][5]
keyboard = Keyboard(0)
said = [is_ours(0), shown()]
with keyboard.held():
    said.append(shown())
    said.append(keyboard.keep())
    with keyboard.lent():
        said.append(shown())
        said.append(keyboard.keep())
    said.append(shown())
said.append(shown())
print(said)
"""


def test_the_own_terminal_gives_its_keys_one_by_one_and_is_afterwards_as_it_was(terminal):
    at = terminal(script=HELD)
    assert at.end() == 0
    quiet = "(False, False, 1, 0)"
    usual = "(True, True, b'\\x01', b'\\x00')"
    assert at.output.strip() == f"[True, {usual}, {quiet}, False, {usual}, True, {quiet}, {usual}]"


@pytest.mark.parametrize(
    ("prompt", "typed_", "width", "shown"),
    [
        (">", "abc", 20, ["> abc"]),
        (">", "x" * 30, 20, ["> " + "x" * 18]),
        ("Why is it?", "x" * 30, 21, ["Why is it? " + "x" * 10]),
        ("Why is it?", "x" * 30, 20, ["Why is it?", "x" * 20]),
        ("one two three", "x", 8, ["one two", "three", "x"]),
        ("a\x07", "", 20, ["a\\x07 "]),
    ],
)
def test_a_line_that_is_typed_stands_beside_its_question_where_ten_cells_are_left(
    prompt, typed_, width, shown
):
    lines = line_prompt(prompt, typed_, width)
    assert [line.plain for line in lines] == shown
    assert {str(line.style) for line in lines[:-1]} <= {"bold"}


def test_a_question_and_its_keys_are_broken_at_blanks_and_only_a_long_word_within():
    lines = key_prompt("Carry out\x07 this?", ["[a] yes", "[r] no"], 20)
    assert [line.plain for line in lines] == ["Carry out\\x07 this?", "[a] yes, [r] no >"]
    assert {str(line.style) for line in lines} == {"bold yellow"}
    exact = key_prompt("Carry?", ["[a] yes", "[r] no"], 15)
    assert [line.plain for line in exact] == ["Carry? [a] yes,", "[r] no >"]
    narrow = key_prompt("Carry?", ["[a] yes", "[r] no"], 14)
    assert [line.plain for line in narrow] == ["Carry?", "[a] yes,", "[r] no >"]
    assert [line.plain for line in key_prompt("abcdefghij kl", [], 4)] == [
        "abcd", "efgh", "ij", "kl",
    ]  # fmt: skip


def test_what_is_told_beside_is_broken_between_words_at_a_terminal(monkeypatch):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, 20))
    with open(theirs, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        TerminalPerson({}).tell("one two three four five")
        assert os.read(ours, 99) == b"one two three four\r\nfive\r\n"
    os.close(ours)
