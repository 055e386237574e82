"""Failures told by their words: the last resort, when nothing typed says what went wrong.

`Patterns` is a value: a tuple of rules, tried in order, the first that fits decides. A rule's
phrases are words, not regular expressions, so that whatever is registered takes time in proportion
to the text; only the beginning and the end of a long text are read.

In a phrase `*` is any one word, a word that ends in `*` is the beginning of one, `(a|b)` is either,
and `^` in front means that a line, or what follows a colon, begins there. Upper and lower case, `ё`
and `е`, and the kind of blanks make no difference.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gonogo.domain._failure_rules import BUILT_IN
from gonogo.domain._failure_rules import FailureRule as FailureRule
from gonogo.domain.errors import (
    GonogoError,
    InvalidMessage,
    ModelFailed,
    ModelNotConfigured,
)
from gonogo.domain.failure import TOO_MANY, Category, Failure, Severity, classify

MAX_READ = 4_000
"""Characters at each end of a text that are looked at."""
MAX_MESSAGE = 4_000
"""Characters of a text that are kept as the failure's message."""
MAX_PHRASE = 200
"""Characters of a phrase."""
REPLANNED = frozenset({Severity.CRITICAL, Severity.HIGH})

# A star ends its word, so that what may follow it begins with something else: no text can be read
# in so many ways that a search takes long.
_WORD = r"(?:\*|[^\s()|*]+\*?)"
_WORDS = rf"{_WORD}(?:\s{_WORD})*"
_EITHER = rf"\({_WORDS}(?:\|{_WORDS})*\)"
_GRAMMAR = re.compile(rf"\^?(?:{_EITHER}|{_WORD})(?:\s(?:{_EITHER}|{_WORD}))*")
_PIECE = re.compile(
    r"(?P<open>\()|(?P<sign>[)|])|(?P<blank>\s)|(?P<begun>[^\s()|*]+\*)"
    r"|(?P<any>\*)|(?P<word>[^\s()|*]+)"
)


class Diagnosis(Failure):
    """A failure, with what to do about it."""

    requires_replanning: bool = False
    """Whether the plan has to change: trying the same again will not help."""
    hint: str
    """Key of the text that names a likely cause and a way out."""
    suggestion: str | None = None
    """The way out, in the words of the rule that was registered."""
    rule: str | None = None
    """The rule that fitted."""
    metadata: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Patterns:
    """What is known of failures by their words."""

    rules: tuple[FailureRule, ...] = BUILT_IN
    _compiled: tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Read the phrases, so that a bad rule is refused when it is registered."""
        read = tuple((_any(r.phrases), _any(r.unless) if r.unless else None) for r in self.rules)
        object.__setattr__(self, "_compiled", read)

    def with_rule(self, rule: FailureRule) -> "Patterns":
        """These and one more, which comes first: what is registered wins over what is built in.

        Raises:
            InvalidMessage: a phrase of the rule cannot be read.
        """
        return Patterns((rule, *self.rules))

    def diagnose(self, error: GonogoError, context: Mapping[str, Any] | None = None) -> Diagnosis:
        """What an error of ours stands for; its words count only if its type says little.

        What a model's provider refuses says nothing about the plan, unless a rule knows its words:
        another plan would meet the same provider.
        """
        failure = classify(error)
        if failure.category is Category.UNKNOWN:
            return self.classify_text(failure.message, context)
        if not _is_refused_by_model(error):
            return diagnosed(failure, context)
        found = self.classify_text(failure.message, context)
        if found.rule is not None:
            return found
        return diagnosed(failure, context).model_copy(update={"requires_replanning": False})

    def classify_text(self, message: str, context: Mapping[str, Any] | None = None) -> Diagnosis:
        """What the words of a failure stand for; `medium` and `unknown` if no rule knows them.

        Args:
            context: Goes into the diagnosis as it is; `retry_count` in it is the number of times
                that the subtask was tried again before.
        """
        kept = _kept(message, MAX_MESSAGE)
        rule = next(self._fitting(_plain(_kept(message, 2 * MAX_READ))), None)
        if rule is None:
            return diagnosed(Failure(message=kept), context)
        return Diagnosis(
            message=kept,
            severity=(severity := _severity(rule, context or {})),
            category=rule.category,
            requires_replanning=_replanned(rule, severity),
            hint=rule.hint or hint_of(rule.category),
            suggestion=rule.suggestion,
            rule=rule.name,
            metadata=dict(context or {}),
        )

    def _fitting(self, text: str) -> Iterator[FailureRule]:
        for rule, (phrases, unless) in zip(self.rules, self._compiled, strict=True):
            if phrases.search(text) and not (unless and unless.search(text)):
                yield rule


def _is_refused_by_model(error: GonogoError) -> bool:
    if isinstance(error, ModelFailed):
        return not error.transient and error.http_status != TOO_MANY
    return isinstance(error, ModelNotConfigured)


def diagnosed(failure: Failure, context: Mapping[str, Any] | None = None) -> Diagnosis:
    """A failure of known kind, with what to do about it."""
    return Diagnosis(
        message=failure.message,
        severity=failure.severity,
        category=failure.category,
        requires_replanning=failure.severity in REPLANNED,
        hint=hint_of(failure.category),
        metadata=dict(context or {}),
    )


def hint_of(category: Category) -> str:
    """Key of the text about failures of that kind."""
    return f"failure_hint_{category}"


def _severity(rule: FailureRule, context: Mapping[str, Any]) -> Severity:
    count = context.get("retry_count")
    often = isinstance(count, int) and count >= (rule.critical_after or count + 1)
    return Severity.CRITICAL if often else rule.severity


def _replanned(rule: FailureRule, severity: Severity) -> bool:
    if rule.requires_replanning is None:
        return severity in REPLANNED
    return rule.requires_replanning


def _kept(text: str, limit: int) -> str:
    """The beginning and the end of a long text."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[: half - 1]}…\n{text[-half + 1 :]}"


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("ё", "е")[: 4 * MAX_READ]


def _any(phrases: tuple[str, ...]) -> re.Pattern[str]:
    if not phrases:
        raise InvalidMessage("A rule for failures needs a phrase")
    return re.compile("|".join(_phrase(phrase) for phrase in phrases), re.MULTILINE)


def _phrase(written: str) -> str:
    phrase = " ".join(_plain(written).split())
    if not phrase.strip("^* ") or len(phrase) > MAX_PHRASE or not _GRAMMAR.fullmatch(phrase):
        raise InvalidMessage(f"{written[:80]!r} is no phrase of words")
    start = r"(?:^\s{0,8}|:\s{0,8})" if phrase.startswith("^") else r"(?<!\w)"
    words = "".join(_piece(piece) for piece in _PIECE.finditer(phrase.removeprefix("^")))
    return start + "(?:" + words + r")(?!\w)"


def _piece(piece: re.Match[str]) -> str:
    match piece.lastgroup:
        case "open":
            return "(?:"
        case "blank":
            return r"\s{1,8}"
        case "any":
            return r"\S{1,80}"
        case "begun":
            return re.escape(piece[0][:-1]) + r"\w{0,24}"
        case "word":
            return re.escape(piece[0])
        case _:
            return piece[0]
