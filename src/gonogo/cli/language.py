"""The language of the command line: which one its user reads, and its own words in it.

Commands and options are declared in English. Where another language is spoken, what explains them
is replaced before anything is shown, and so is what Typer says by itself.
"""

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

if TYPE_CHECKING:
    from gonogo.i18n import Locale

_SURROUNDINGS = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first that is set decides (POSIX, Base Definitions, 8.2)."""
_PLAIN = frozenset({"", "C", "C.UTF-8", "POSIX", "en_US.UTF-8"})
"""Surroundings that name no language, or English: nothing has to be loaded to know that."""
_ASKED = re.compile(r"--locale(?:=(.*))?", re.DOTALL)
_IN_EXAMPLES = ("Example:", "Start with: ", "Then:       ")
_IN_USAGE = ("[OPTIONS]", "COMMAND [ARGS]...")
_EXTRA = re.compile(r"\[(env var: |default: |required)")
_REFUSALS = (
    "Missing argument '{name}'.",
    "Missing option '{name}'.",
    "Missing command.",
    "No such option: {name} (Possible options: {others})",
    "No such option: {name}",
    "No such command '{name}'. Did you mean {others}?",
    "No such command '{name}'.",
    "Got unexpected extra argument(s) ({name})",
    "Option '{name}' requires an argument.",
    "Option '{name}' does not take a value.",
    "Invalid value for '{name}': {problem}",
    "Invalid value: {problem}",
)
"""What Typer finds wrong with a command line; the first that fits is meant."""
_PROBLEMS = (
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid number, unable to parse string as a number",
    "Input should be greater than or equal to {limit}",
    "Input should be less than or equal to {limit}",
    "Input should be greater than {limit}",
    "Input should be {choices}",
    "dir '{path}' does not exist.",
    "file '{path}' does not exist.",
    "Value error, '{given}' is not one of {choices}.",
)


def named_locale(environ: Mapping[str, str]) -> "Locale | None":
    """The language that the setting names, or else the surroundings; None: neither does.

    English surroundings name none: most machines are set up so, whoever uses them, and a message
    is then answered in its own language.
    """
    chosen = environ.get("GONOGO_LOCALE", "")
    named = next((environ[name] for name in _SURROUNDINGS if environ.get(name)), "")
    if not chosen and named in _PLAIN:
        return None
    from gonogo.i18n import DEFAULT, known_locale

    found = known_locale(named)
    return known_locale(chosen) or (None if found == DEFAULT else found)


def own_locale() -> "Locale":
    """The language of whoever uses this command, where no session has one of its own."""
    return named_locale(os.environ) or "en"


def own_words(text: str, /, **fields: object) -> str:
    """What this command says, in the language of whoever uses it; its English is its key."""
    from gonogo.i18n import phrase

    return phrase(text, own_locale(), **fields)


def asked_locale(words: Sequence[str]) -> str | None:
    """The language that a command line asks for before its first command."""
    for number, word in enumerate(words):
        if found := _ASKED.fullmatch(word):
            return found[1] or next(iter(words[number + 1 :]), None)
        if not word.startswith("-"):
            break
    return None


def explain_in(command: Any, locale: "Locale", above: Any = None) -> None:  # noqa: ANN401 - Typer's
    """Have a command, and all below it, explain themselves in a language.

    Args:
        above: The context of the group that it is in: how help is asked for is said there.
    """
    say = partial(_said, locale=locale)
    for name in ("help", "short_help"):
        if text := getattr(command, name):
            setattr(command, name, say(text))
    for words in _IN_EXAMPLES if command.epilog else ():
        command.epilog = command.epilog.replace(words, say(words), 1)
    command.context_class = _contexts(command.context_class, locale)
    context = command.context_class(command, above, **command.context_settings)
    helping = command.get_help_option(context)
    for each in [*command.params, *([helping] if helping else [])]:
        each.help = each.help and say(each.help)
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            explain_in(below, locale, context)


def problem_of(error: Any, locale: "Locale") -> str:  # noqa: ANN401 - Typer's own are not public
    """What is wrong with a command line, in a language."""
    return _form(_REFUSALS, error.format_message(), locale)


def refusal(error: Any, problem: str, locale: "Locale") -> str:  # noqa: ANN401 - as above
    """How a command is used, where its help is, and what is wrong with this use of it."""
    lines = list[str]()
    if (context := getattr(error, "ctx", None)) is not None:
        asked = f"{context.command_path} {context.help_option_names[0]}"
        helping = _said("Try '{command}' for help.", locale).format(command=asked)
        lines = [context.get_usage(), helping, ""]
    return "\n".join([*lines, _said("Error: {problem}", locale).format(problem=problem)])


def refused_value(message: str, locale: "Locale") -> str:
    """What is wrong with a value, where that is one of the things that are found wrong often."""
    return _form(_PROBLEMS, message, locale)


def _said(text: str, locale: "Locale") -> str:
    from gonogo.i18n import phrase

    return phrase(text, locale)


def _form(forms: Sequence[str], message: str, locale: "Locale") -> str:
    for form in forms:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(form))
        if found := re.fullmatch(pattern, message, re.DOTALL):
            fields = {
                name: _form(_PROBLEMS, part, locale) if name == "problem" else _quoted(part, locale)
                for name, part in found.groupdict().items()
            }
            return _said(form, locale).format(**fields)
    return message


def _quoted(part: str, locale: "Locale") -> str:
    """What Typer names, between the quotes of a language."""
    if locale != "ru":
        return part
    return re.sub("'([^']*)'", r"«\1»", part.replace("' / '", "» / «"))


def _contexts(kind: Any, locale: "Locale") -> Any:  # noqa: ANN401 - Typer's own are not public
    """A kind of context, with headings in a language."""
    say, base = partial(_said, locale=locale), kind.formatter_class

    class Formatter(base):
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            for words in _IN_USAGE:
                args = args.replace(words, say(words))
            base.write_usage(self, prog, args, prefix or say("Usage: "))

        def write_heading(self, heading: str) -> None:
            base.write_heading(self, say(heading))

        def write_dl(self, rows: Sequence[tuple[str, str]], *args: int) -> None:
            told = [(name, _EXTRA.sub(lambda f: f"[{say(f[1])}", text)) for name, text in rows]
            base.write_dl(self, told, *args)

    return type("Context", (kind,), {"formatter_class": Formatter})
