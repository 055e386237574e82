"""Mutants of commands: a seeded stream of texts that are nearly the cases, by a grammar of changes.

A change knows what a command is made of (words, quotes, operators, options, paths) and puts
something else there: from the tables, from what shells compute, or from another case.
"""

import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gonogo.policy.programs import Table, _git, _programs

_TOKEN = re.compile(
    r"""\s+|&&|\|\||;;|\|&|[;|&()<>{}]|(?:[^\s;|&()<>'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+|.""",
    re.DOTALL,
)
_PIECES = tomllib.loads(Path(__file__).with_name("snippets.toml").read_text("utf-8"))
LETTERS = "abenrstx0129.-_/=~#@%+:,!*?[]{}()<>|&;$`'\"\\^ \t\n"


@dataclass(frozen=True, slots=True)
class Seed:
    """A case to start from."""

    text: str
    context: str
    allowed: bool


def mutants(seeds: Sequence[Seed], seed: int) -> Iterator[Seed]:
    """An endless stream of distinct mutants, the same for the same seed."""
    rng = random.Random(seed)
    allowed = [case for case in seeds if case.allowed]
    seen = {case.text for case in seeds}
    mutator = _Mutator(rng, [case.text for case in seeds if len(case.text) < 400])
    while True:
        case = rng.choice(allowed if rng.random() < 0.75 else seeds)
        text = mutator.mutate(case.text, friendly=rng.random() < 0.4)
        if text not in seen:
            seen.add(text)
            yield Seed(text, case.context, False)


class _Mutator:
    """Changes of one random source."""

    def __init__(self, rng: random.Random, texts: Sequence[str]) -> None:
        self._rng = rng
        self._texts = texts
        self._tables: dict[str, Table] = {
            **_programs(),
            **{f"git {n}": t for n, t in _git().items()},
        }
        self._options = sorted({name for table in self._tables.values() for name in table.options})
        self._friendly = (
            self._known_option, self._known_option, self._quote_word, self._split_blank,
            self._join_cases, self._redirect_null, self._insert_path, self._insert_glob,
            self._value_of_option, self._fill,
        )  # fmt: skip
        self._changes = (
            *self._friendly, self._delete_token, self._swap_tokens, self._double_token,
            self._insert_snippet, self._insert_snippet, self._insert_snippet, self._insert_letter,
            self._insert_letter, self._delete_letter, self._insert_blank, self._insert_operator,
            self._option, self._redirect, self._here, self._comment, self._assign, self._prefix,
            self._suffix, self._case, self._twin, self._join_words, self._split_word, self._cross,
            self._program, self._replace_path, self._escape, self._script, self._tail_of_other,
        )  # fmt: skip

    def mutate(self, text: str, *, friendly: bool) -> str:
        changes = self._friendly if friendly else self._changes
        for _ in range(1 + min(3, int(self._rng.expovariate(1.1)))):
            text = self._rng.choice(changes)(text)
        return text

    # What a word or an operator is replaced by, or what is put between two.

    def _tokens(self, text: str) -> list[str]:
        return _TOKEN.findall(text) or [""]

    def _words(self, tokens: Sequence[str]) -> list[int]:
        return [
            n for n, token in enumerate(tokens) if token.strip() and token[0] not in ";|&()<>{}"
        ]

    def _at_word(self, text: str, change: str | None, *, after: bool = False) -> str:
        """Put `change` in place of a word, or after one."""
        tokens = self._tokens(text)
        words = self._words(tokens)
        if not words or change is None:
            return text
        at = self._rng.choice(words)
        tokens[at] = f"{tokens[at]} {change}" if after else change
        return "".join(tokens)

    def _delete_token(self, text: str) -> str:
        tokens = self._tokens(text)
        del tokens[self._rng.randrange(len(tokens))]
        return "".join(tokens)

    def _swap_tokens(self, text: str) -> str:
        tokens = self._tokens(text)
        one, other = self._rng.randrange(len(tokens)), self._rng.randrange(len(tokens))
        tokens[one], tokens[other] = tokens[other], tokens[one]
        return "".join(tokens)

    def _double_token(self, text: str) -> str:
        tokens = self._tokens(text)
        at = self._rng.randrange(len(tokens))
        return "".join([*tokens[: at + 1], self._rng.choice(("", " ")), *tokens[at:]])

    def _insert_snippet(self, text: str) -> str:
        snippet = self._rng.choice(
            self._rng.choice(
                (_PIECES["expansions"], _PIECES["globs"], _PIECES["paths"], _PIECES["redirects"])
            )
        )
        if self._rng.random() < 0.4:
            return self._at_word(text, snippet)
        if self._rng.random() < 0.6:
            return self._at_word(text, snippet, after=True)
        return self._put(text, snippet)

    def _put(self, text: str, snippet: str) -> str:
        at = self._rng.randrange(len(text) + 1)
        return text[:at] + snippet + text[at:]

    def _insert_letter(self, text: str) -> str:
        return self._put(text, self._rng.choice(LETTERS))

    def _delete_letter(self, text: str) -> str:
        at = self._rng.randrange(len(text) or 1)
        return text[:at] + text[at + 1 :]

    def _insert_blank(self, text: str) -> str:
        if self._rng.random() < 0.5:
            return self._put(text, self._rng.choice(_PIECES["blanks"]))
        tokens = self._tokens(text)
        gaps = [n for n, token in enumerate(tokens) if token.isspace()] or [0]
        tokens[self._rng.choice(gaps)] = self._rng.choice(_PIECES["blanks"])
        return "".join(tokens)

    def _split_blank(self, text: str) -> str:
        tokens = self._tokens(text)
        gaps = [n for n, token in enumerate(tokens) if token.isspace()] or [0]
        tokens[self._rng.choice(gaps)] = self._rng.choice(
            (" ", "  ", "\t", " \\\n", " \t ", "\\\n ")
        )
        return "".join(tokens)

    def _insert_operator(self, text: str) -> str:
        return self._put(text, self._rng.choice(_PIECES["operators"]))

    def _escape(self, text: str) -> str:
        return self._put(text, self._rng.choice(("\\", "\\\\", "'", '"', "''", '""', "`", "$")))

    # Quotes.

    def _quote_word(self, text: str) -> str:
        tokens = self._tokens(text)
        words = self._words(tokens)
        if not words:
            return text
        at = self._rng.choice(words)
        tokens[at] = self._quoted(tokens[at])
        return "".join(tokens)

    def _quoted(self, word: str) -> str:
        cut = self._rng.randrange(len(word) + 1)
        head, tail = word[:cut], word[cut:]
        forms = (
            f"'{word}'", f'"{word}"', f"{head}'{tail}'", f'{head}"{tail}"', f"{head}\\{tail}",
            f"{head}''{tail}", f'"{head}"{tail}', f"'{head}'\"{tail}\"", f"{head}\\\n{tail}",
            f'"{head}\\\n{tail}"', f'"{head}\\{tail}"', f"{head}\\\\{tail}",
        )  # fmt: skip
        return self._rng.choice(forms)

    # Options and values.

    def _table(self, text: str) -> Table | None:
        words = text.split()
        for name in (" ".join(words[:2]), *words[:1]):
            if name in self._tables:
                return self._tables[name]
        return None

    def _known_option(self, text: str) -> str:
        table = self._table(text)
        if table is None or not table.options:
            return self._option(text)
        name = self._rng.choice(list(table.options))
        option = table.options[name]
        if not option.kinds:
            return self._after_head(text, name)
        value = self._value()
        joint = self._rng.choice((" ", "=" if name.startswith("--") else ""))
        return self._after_head(text, name + joint + " ".join([value] * len(option.kinds)))

    def _after_head(self, text: str, words: str) -> str:
        if self._rng.random() < 0.4:
            return f"{text} {words}"
        head = 2 if text.startswith(("git ", "ruff ", "npm ", "make ")) else 1
        parts = text.split(" ", head)
        return " ".join([*parts[:head], words, *parts[head:]])

    def _value(self) -> str:
        rng = self._rng
        plain = (
            "5",
            "x",
            "py",
            "'a b'",
            "main",
            "never",
            "1,5",
            "-1",
            "''",
            "src",
            "%s",
            "'%s\\n'",
        )
        return rng.choice(
            rng.choice(
                (
                    plain,
                    plain,
                    _PIECES["paths"],
                    _PIECES["globs"],
                    _PIECES["expansions"],
                    _PIECES["sed"],
                    _PIECES["jq"],
                )
            )
        )

    def _value_of_option(self, text: str) -> str:
        return self._after_head(text, self._rng.choice(self._options) + "=" + self._value())

    def _option(self, text: str) -> str:
        pool = self._options if self._rng.random() < 0.4 else _PIECES["outside_options"]
        return self._after_head(text, self._rng.choice(pool))

    # Files.

    def _insert_path(self, text: str) -> str:
        return f"{text} {self._rng.choice(_PIECES['paths'])}"

    def _insert_glob(self, text: str) -> str:
        glob = self._rng.choice(_PIECES["globs"])
        return f"{text} {glob}" if self._rng.random() < 0.7 else self._at_word(text, glob)

    def _replace_path(self, text: str) -> str:
        return self._at_word(text, self._rng.choice(_PIECES["paths"]))

    # Redirections, documents, comments.

    def _redirect_null(self, text: str) -> str:
        return f"{text} {self._rng.choice(_PIECES['redirects'][:13])}"

    def _redirect(self, text: str) -> str:
        redirect = self._rng.choice(_PIECES["redirects"])
        if self._rng.random() < 0.5:
            return text + self._rng.choice((" ", "")) + redirect
        return (
            self._at_word(text, redirect, after=True)
            if self._rng.random() < 0.5
            else f"{redirect} {text}"
        )

    def _here(self, text: str) -> str:
        return text + self._rng.choice((" ", "")) + self._rng.choice(_PIECES["here_documents"])

    def _comment(self, text: str) -> str:
        return self._put(text, self._rng.choice(_PIECES["comments"]))

    # Around the command.

    def _assign(self, text: str) -> str:
        return self._rng.choice(_PIECES["assignments"]) + text

    def _prefix(self, text: str) -> str:
        return self._rng.choice(_PIECES["prefixes"]) + text

    def _suffix(self, text: str) -> str:
        return text + self._rng.choice(_PIECES["suffixes"])

    def _join_cases(self, text: str) -> str:
        other = self._rng.choice(self._texts)
        pair = (text, other) if self._rng.random() < 0.5 else (other, text)
        return self._rng.choice(_PIECES["joiners"]).join(pair)

    def _cross(self, text: str) -> str:
        other = self._rng.choice(self._texts)
        return (
            text[: self._rng.randrange(len(text) + 1)]
            + other[self._rng.randrange(len(other) + 1) :]
        )

    def _tail_of_other(self, text: str) -> str:
        other = self._rng.choice(self._texts).split(" ", 1)
        return f"{text.split(' ', 1)[0]} {other[-1]}"

    def _program(self, text: str) -> str:
        words = text.split(" ", 1)
        return " ".join([self._rng.choice(_PIECES["programs"]), *words[1:]])

    def _script(self, text: str) -> str:
        script = self._rng.choice((*_PIECES["sed"], *_PIECES["jq"]))
        quoted = "'" + script.replace("'", "'\\''") + "'"
        program = self._rng.choice(("sed -n", "jq", "sed -n -e", "sed", "jq -n", "sed -ne"))
        return f"{program} {quoted} {self._rng.choice(_PIECES['paths'])}" + (
            "" if self._rng.random() < 0.7 else f"; {text}"
        )

    def _fill(self, text: str) -> str:
        return self._at_word(text, self._value(), after=True)

    # Letters and words.

    def _case(self, text: str) -> str:
        at = self._rng.randrange(len(text) or 1)
        return text[:at] + text[at : at + 1].swapcase() + text[at + 1 :]

    def _twin(self, text: str) -> str:
        places = [n for n, letter in enumerate(text) if letter in _PIECES["twins"]]
        if not places:
            return text
        at = self._rng.choice(places)
        return text[:at] + _PIECES["twins"][text[at]] + text[at + 1 :]

    def _join_words(self, text: str) -> str:
        tokens = self._tokens(text)
        gaps = [n for n, token in enumerate(tokens) if token.isspace()]
        if gaps:
            tokens[self._rng.choice(gaps)] = self._rng.choice(("", "=", "\\\n", ",", "''", "\\ "))
        return "".join(tokens)

    def _split_word(self, text: str) -> str:
        return self._put(text, self._rng.choice((" ", "\t", "\n", "' '", "\\ ")))
