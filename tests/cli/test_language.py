"""The language of the command line: that of the setting, else of the system, else English."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from cli.test_help import pages
from fakes.golden import kept
from gonogo.cli import app
from gonogo.cli.support import asked_locale, explain_in, named_locale
from gonogo.i18n import phrase

GOLDEN = Path(__file__).parent / "golden" / "help.ru.txt"


def texts(command: Any) -> Iterator[str]:
    """All that explains a command, and all below it."""
    yield command.help
    yield from (each.help for each in command.params if each.help)
    for below in command.commands.values() if isinstance(command, TyperGroup) else ():
        yield from texts(below)


def test_the_help_of_every_command_reads_in_russian_as_it_is_kept():
    command = typer.main.get_command(app)
    explain_in(command, "ru")
    found = pages(command)
    assert found == kept(GOLDEN, found)


def test_no_word_of_help_lacks_its_russian():
    found = set(texts(typer.main.get_command(app)))
    assert [text for text in found if phrase(text, "ru") == text] == []
    assert [text for text in found if phrase(text, "en") != text] == []


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, None),
        ({"LANG": "ru_RU.UTF-8"}, "ru"),
        ({"LC_MESSAGES": "ru_RU", "LANG": "en_US.UTF-8"}, "ru"),
        ({"LC_ALL": "C", "LC_MESSAGES": "ru_RU", "LANG": "ru_RU"}, None),
        ({"LC_ALL": "", "LANG": "ru"}, "ru"),
        ({"LANG": "en_GB.UTF-8"}, None),
        ({"LANG": "de_DE.UTF-8"}, None),
        ({"GONOGO_LOCALE": "en", "LANG": "ru_RU.UTF-8"}, "en"),
        ({"GONOGO_LOCALE": "ru", "LC_ALL": "C"}, "ru"),
        ({"GONOGO_LOCALE": "fr", "LANG": "ru_RU.UTF-8"}, "ru"),
    ],
)
def test_the_setting_goes_before_the_system_whose_english_names_no_language(environ, named):
    assert named_locale(environ) == named


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], None),
        (["plans", "list"], None),
        (["--locale", "ru", "plans"], "ru"),
        (["--locale=ru"], "ru"),
        (["--version", "--locale=en"], "en"),
        (["--locale"], None),
        (["run", "--locale=ru"], None),
    ],
)
def test_a_language_is_asked_for_before_the_first_command(words, asked):
    assert asked_locale(words) == asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plans", "show"], "Ошибка: Не указан аргумент «PLAN»."),
        (["plans", "list", "--limit", "0"],
         "Ошибка: Неверное значение «--limit»: нужно не меньше 1"),
        (["plans", "list", "--limit", "x"],
         "Ошибка: Неверное значение «--limit»: нужно целое число"),
        (["plans", "list", "--foo"], "Ошибка: Нет параметра --foo."),
        (["plan"], "Ошибка: Нет команды «plan». Возможно: «plans», «place»"),
        (["run", "a", "b"], "Ошибка: Лишние аргументы: b. Возьмите текст задачи в кавычки."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_command_line_is_said_in_russian_with_the_way_to_its_help(
    gonogo, words, said
):
    ended = gonogo("--locale", "ru", *words)
    assert ended.returncode == 2
    usage, helping, empty, told = ended.stderr.rstrip("\n").split("\n")
    assert usage.startswith("Вызов: gonogo")
    assert helping.startswith("Справка: gonogo")
    assert helping.endswith(" -h")
    assert (empty, told) == ("", said)


def test_an_option_without_its_value_is_told_in_russian(gonogo):
    ended = gonogo("plans", "list", "--status", env={"LC_ALL": "ru_RU.UTF-8"})
    assert ended.returncode == 2
    assert ended.stderr == "Ошибка: Параметру «--status» нужно значение.\n"


def test_russian_surroundings_are_enough_for_a_session_in_russian(gonogo):
    ended = gonogo("run", "Add a flag", "--model", "demo", env={"LANG": "ru_RU.UTF-8"})
    assert ended.returncode == 3
    assert "Ждёт решения: " in ended.stderr
