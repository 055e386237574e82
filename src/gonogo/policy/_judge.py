"""Reads the words of one known program by its table, and says what about them is not known."""

import glob
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gonogo.domain.errors import because
from gonogo.policy._kinds import Kind, Place, argument, guarded, listing, none
from gonogo.policy._options import Known, Option, Reading, Table
from gonogo.policy._word import Word


def judge(command: Known, place: Place) -> Reading:
    """Read the words of a known program."""
    table = command.table
    where = replace(place, names_only=table.names)
    reading = Reading()
    _Words(command.words, table, where, reading).read()
    kinds = _kinds(table, reading)
    for place_of, number in enumerate(reading.operands):
        last = min(place_of, len(kinds) - 1)
        word = command.words[number]
        problem = kinds[last](word.text, word.is_glob, where)
        reading.note(kinds[last], word.text)
        if word.is_glob:
            reading.patterns.append(word.pattern)
        if word.is_glob and last < len(kinds) - 1:
            problem = because("{word!r} may be several words where one is meant", word=word.text)
        if problem:
            reading.problems.append((number, problem))
    # What was given and is not understood may be in the place of what seems to be missing.
    missing = () if reading.problems else _missing(table, reading)
    reading.problems += [(-1, problem) for problem in missing]
    if table.argfiles:
        reading.problems += _argument_files(command.words)
    return reading


def judge_unknown(words: Sequence[Word], place: Place) -> Reading:
    """Read what follows the words that a rule names, for a program without a table."""
    found = [(n, judge_argument(word, place)) for n, word in enumerate(words)]
    return Reading(
        problems=[(n, problem) for n, problem in found if problem],
        files=[word.text for word in words],
        patterns=[word.pattern for word in words if word.is_glob],
    )


def judge_argument(word: Word, place: Place) -> str | None:
    """What is wrong with a word of which nobody knows what it is taken for."""
    return argument(word.text, word.is_glob, place) or matched_guard(word, place)


def matched_guard(word: Word, place: Place) -> str | None:
    """Why nothing may touch one of the files that a pattern matches."""
    folder = "" if place.cwd == "." else glob.escape(place.cwd)
    matched = place.matching(posixpath.join(folder, word.pattern)) if word.is_glob else ()
    return next(filter(None, map(guarded, matched)), None)


def _argument_files(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    for number, word in enumerate(words):
        if word.text.startswith("@"):
            yield number, because("{word!r} hides arguments", word=word.text.partition("::")[0])


def _kinds(table: Table, reading: Reading) -> list[Kind]:
    kinds = list(table.operands)
    if len(kinds) > 1 and not table.first.isdisjoint(reading.seen):
        del kinds[0]
    if table.lists and table.lists.isdisjoint(reading.seen):
        return [none]
    return kinds


def _missing(table: Table, reading: Reading) -> Iterator[str]:
    if table.needs and table.needs.isdisjoint(reading.seen):
        yield because("it is only known with {options}", options=" or ".join(sorted(table.needs)))
    if table.needs_operand and not reading.operands:
        yield because("it is only known with an operand")


@dataclass(slots=True)
class _Words:
    """One pass over the words, the way the program itself makes it."""

    words: Sequence[Word]
    table: Table
    place: Place
    reading: Reading
    at: int = 0

    def read(self) -> None:
        style, operands = self.table.style, self.reading.operands
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            dashed = word.text.startswith("-") and word.text != "-"
            if style == "bundle" and self.at == 1 and not dashed:
                self._bundle(word)
            elif style == "words" or not dashed:
                operands.append(self.at - 1)
            elif word.text == "--" and style != "find":
                self.reading.end = self.at - 1
                operands.extend(range(self.at, len(self.words)))
                return
            else:
                self._option(word.text)

    def _bundle(self, word: Word) -> None:
        """The first word of tar: letters of options, whose values are the words after it."""
        if problem := listing(word.text, word.is_glob, self.place):
            self._problem(problem)
        else:
            self._cluster(word.text, apart=True)

    def _option(self, text: str) -> None:
        if self.table.digits and re.fullmatch(r"-\d{1,9}", text):
            return
        if self.table.style == "find":
            self._whole(text, None)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            self._whole(name, value if equals else None)
        else:
            self._cluster(text[1:], apart=self.table.style == "apart")

    def _whole(self, name: str, value: str | None) -> None:
        option = self._known(name)
        if option is None:
            return
        if name in self.table.instead:
            self.reading.written[self.at - 1] = self.table.instead[name]
        self._values(name, option, value)

    def _cluster(self, letters: str, *, apart: bool) -> None:
        """Letters of options, of which one may have the rest for its value, or words of its own."""
        number = self.at - 1
        for place, letter in enumerate(letters):
            name = f"-{letter}"
            option = self._known(name)
            if option is None:
                return
            if name in self.table.instead:
                given = self.reading.written.get(number, f"-{letters}")
                other = self.table.instead[name][1:]
                self.reading.written[number] = f"{given[: place + 1]}{other}{given[place + 2 :]}"
            if option.kinds and apart:
                self._values(name, option, None)
            elif option.kinds:
                self._values(name, option, letters[place + 1 :] or None)
                return

    def _known(self, name: str) -> Option | None:
        option = self.table.options.get(name)
        if option is None:
            self._problem(because("{name!r} is not a known option", name=name))
            return None
        self.reading.seen.add(name)
        if self.reading.operands and (self.table.stops or name in self.table.turns):
            self._problem(because("{name!r} may only stand before the operands", name=name))
        return option

    def _values(self, name: str, option: Option, value: str | None) -> None:
        if value is not None and not option.kinds:
            self._problem(because("{name!r} takes no value", name=name))
            return
        if value is not None and len(option.kinds) > 1:
            self._problem(because("{name!r} takes words of their own", name=name))
            return
        if value is None and option.optional:
            return
        for number, kind in enumerate(option.kinds):
            if number or value is None:
                self._next_value(name, kind)
            elif problem := kind(value, False, self.place):
                self._problem(problem)
            else:
                self.reading.note(kind, value)

    def _next_value(self, name: str, kind: Kind) -> None:
        if self.at >= len(self.words):
            self._problem(because("{name!r} lacks a value", name=name))
            return
        word = self.words[self.at]
        self.at += 1
        if word.is_glob:
            self._problem(
                because("{word!r} may be several words where one is meant", word=word.text)
            )
        elif problem := kind(word.text, False, self.place):
            self._problem(problem)
        else:
            self.reading.note(kind, word.text)

    def _problem(self, problem: str) -> None:
        self.reading.problems.append((self.at - 1, problem))
