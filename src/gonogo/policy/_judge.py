"""Reads the words of one known program by its table, and says what about them is not known."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gonogo.domain.reason import because
from gonogo.policy._kinds import Kind, Place, argument, named, none
from gonogo.policy._options import Known, Option, Table
from gonogo.policy._word import Word


@dataclass(slots=True)
class Reading:
    """What was found in a command's words."""

    seen: set[str] = field(default_factory=set[str])
    """Options that were given."""
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Place of the word, and what is wrong with it."""
    files: list[str] = field(default_factory=list[str])
    """Paths that its words may name, one by one."""
    patterns: list[str] = field(default_factory=list[str])
    """Those that the shell looks for, as Python's glob reads them."""
    written: dict[int, str] = field(default_factory=dict[int, str])
    """Words that run in another form than they were given."""

    def note(self, kind: Kind, word: str) -> None:
        """Keep the path that a word of this kind names, if it names one."""
        path = named(kind, word)
        if path is not None:
            self.files.append(path)


def judge(command: Known, place: Place) -> Reading:
    """Read the words of a known program."""
    table = command.table
    where = Place(workspace=place.workspace, cwd=place.cwd, names_only=table.names)
    reading = Reading()
    operands: list[int] = []
    reader = _Words(command.words, table, where, reading, operands)
    reader.read()
    kinds = _kinds(table, reading)
    if table.leading and len(kinds) == len(table.operands) and operands[:1] != [0]:
        reading.problems.append(
            (-1, because("its first word is neither an option nor what it is to do"))
        )
    for place_of, number in enumerate(operands):
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
    reading.problems += [(-1, problem) for problem in _missing(table, reading, operands)]
    return reading


def judge_unknown(words: Sequence[Word], place: Place) -> Reading:
    """Read what follows the words that a rule names, for a program without a table."""
    found = [(n, argument(w.text, w.is_glob, place)) for n, w in enumerate(words)]
    return Reading(
        problems=[(n, problem) for n, problem in found if problem],
        files=[word.text for word in words],
        patterns=[word.pattern for word in words if word.is_glob],
    )


def _kinds(table: Table, reading: Reading) -> list[Kind]:
    kinds = list(table.operands)
    if len(kinds) > 1 and not table.first.isdisjoint(reading.seen):
        del kinds[0]
    if table.lists and table.lists.isdisjoint(reading.seen):
        return [none]
    return kinds


def _missing(table: Table, reading: Reading, operands: Sequence[int]) -> Iterator[str]:
    if table.needs and table.needs.isdisjoint(reading.seen):
        yield because("it is only known with {options}", options=" or ".join(sorted(table.needs)))
    if table.needs_operand and not operands:
        yield because("it is only known with an operand")


@dataclass(slots=True)
class _Words:
    """One pass over the words, the way getopt makes it."""

    words: Sequence[Word]
    table: Table
    place: Place
    reading: Reading
    operands: list[int]
    at: int = 0

    def read(self) -> None:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if self.table.style == "words" or not word.text.startswith("-") or word.text == "-":
                self.operands.append(self.at - 1)
            elif word.text == "--" and self.table.style == "getopt":
                self.operands.extend(range(self.at, len(self.words)))
                return
            else:
                self._option(word.text)

    def _option(self, text: str) -> None:
        if self.table.digits and re.fullmatch(r"-\d{1,9}", text):
            return
        if self.table.style == "find":
            self._whole(text, None)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            self._whole(name, value if equals else None)
        else:
            self._cluster(text[1:])

    def _whole(self, name: str, value: str | None) -> None:
        option = self.table.options.get(name)
        if option is None:
            self._problem(because("{name!r} is not a known option", name=name))
            return
        self.reading.seen.add(name)
        if name in self.table.instead:
            self.reading.written[self.at - 1] = self.table.instead[name]
        self._values(name, option, value)

    def _cluster(self, letters: str) -> None:
        number = self.at - 1
        for place, letter in enumerate(letters):
            name = f"-{letter}"
            option = self.table.options.get(name)
            if option is None:
                self._problem(because("{name!r} is not a known option", name=name))
                return
            self.reading.seen.add(name)
            if name in self.table.instead:
                given = self.reading.written.get(number, f"-{letters}")
                other = self.table.instead[name][1:]
                self.reading.written[number] = f"{given[: place + 1]}{other}{given[place + 2 :]}"
            if option.kinds:
                self._values(name, option, letters[place + 1 :] or None)
                return

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
