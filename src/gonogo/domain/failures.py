"""Failures as values: what went wrong, how bad it is, and whether trying again makes sense.

A failure is typed where it happens. `classify` turns an exception of the tree in
`gonogo.domain.errors` into a failure; text is looked at nowhere here.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from gonogo.domain.base import Frozen
from gonogo.domain.errors import (
    GonogoError,
    InternalFailure,
    InvalidMessage,
    ModelFailed,
    ModelNotConfigured,
    PolicyDenied,
    Said,
    ToolFailed,
    Unwritable,
)
from gonogo.domain.plan import RetryPolicy
from gonogo.domain.tool_calls import Stored


class Severity(StrEnum):
    """How bad."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Category(StrEnum):
    """What kind of thing went wrong."""

    ENVIRONMENT = "environment"
    DEPENDENCY = "dependency"
    VALIDATION = "validation"
    LOGIC = "logic"
    TIMEOUT = "timeout"
    RESOURCE = "resource"
    QUOTA = "quota"
    PERMISSION = "permission"
    POLICY = "policy"
    NETWORK = "network"
    CANCELLED = "cancelled"
    NO_WORK = "no_work"
    """An agent said that it was done, or said nothing, and had not done what there was to do."""
    UNKNOWN = "unknown"


TRANSIENT = frozenset(
    {Category.TIMEOUT, Category.NETWORK, Category.RESOURCE, Category.QUOTA, Category.NO_WORK}
)
"""Categories that go away by themselves often enough to try again."""


TOO_MANY = 429
"""The status with which a provider says that its limit is reached (RFC 6585, section 4)."""
_LONGEST_PAUSE = 366 * 86_400.0
"""Seconds; a provider that asks for more than a year means something else."""
_SHORTEST_PAUSE = 1.0
MAX_DELAY = 86_400.0
"""Seconds: no retry waits longer than a day, whatever its backoff comes to."""


class Failure(Frozen):
    """Why a subtask did not complete."""

    message: Said
    severity: Severity = Severity.MEDIUM
    category: Category = Category.UNKNOWN

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept with the subtask that failed: `message`, `severity`, `category`."""
        return self.model_dump(mode="json", include={"message", "severity", "category"})


class Classified(InternalFailure):
    """An error that says itself which failure it is."""

    def __init__(self, message: str, *, severity: Severity, category: Category) -> None:
        super().__init__(message)
        self.severity, self.category = severity, category


class NoWork(Classified):
    """A model ended what it was to do, and did nothing of it."""

    code = "model_error"
    status = 502

    def __init__(self, message: str) -> None:
        super().__init__(message, severity=Severity.MEDIUM, category=Category.NO_WORK)


def classify(error: GonogoError) -> Failure:
    """The failure that an error of ours stands for."""
    match error:
        case Classified():
            kind = (error.severity, error.category)
        case ModelFailed() if error.http_status == TOO_MANY:
            kind = (Severity.MEDIUM, Category.QUOTA)
        case ModelFailed(transient=True):
            kind = (Severity.MEDIUM, Category.NETWORK)
        case ModelFailed() | ModelNotConfigured():
            kind = (Severity.HIGH, Category.ENVIRONMENT)
        case PolicyDenied():
            kind = (Severity.MEDIUM, Category.POLICY)
        case ToolFailed(kind="timeout"):
            kind = (Severity.MEDIUM, Category.TIMEOUT)
        case ToolFailed():
            kind = (Severity.MEDIUM, Category.LOGIC)
        case _:
            kind = (Severity.MEDIUM, Category.UNKNOWN)
    return Failure(message=error.said, severity=kind[0], category=kind[1])


def is_away(error: GonogoError) -> bool:
    """Whether a model did not answer for reasons of its own: it may answer the same later.

    So is one whose quota is used up and that does not say until when, or says nonsense.
    """
    return isinstance(error, ModelFailed) and error.transient and quota_pause(error) is None


def quota_pause(error: GonogoError) -> float | None:
    """Seconds until a model's quota is there again; None when that is not what an error says."""
    if not isinstance(error, ModelFailed) or error.http_status != TOO_MANY:
        return None
    seconds = error.retry_after
    if seconds is None or not 0 < seconds <= _LONGEST_PAUSE:
        return None
    return max(seconds, _SHORTEST_PAUSE)


def retry_delay(policy: RetryPolicy | None, failure: Failure, attempt: int) -> float | None:
    """Seconds until the next attempt, or None when there is none.

    Args:
        attempt: The number of the attempt that failed, from 1.
    """
    if policy is None or attempt >= policy.max_attempts:
        return None
    wanted = set(policy.on) or set(TRANSIENT)
    if failure.category not in wanted:
        return None
    return delay_after(policy, attempt)


def delay_after(policy: RetryPolicy, attempt: int) -> float:
    """Seconds that are waited after an attempt, counted from 1."""
    return min(MAX_DELAY, policy.delay * policy.backoff ** max(attempt - 1, 0))


# The built-in rules that tell failures by their words, the most telling ones first.

_C, _S = Category, Severity


class FailureRule(Struct, frozen=True, kw_only=True):
    """What some words of a failure stand for."""

    name: str
    phrases: tuple[str, ...]
    """Any of them; how they are written stands in `failure_patterns`."""
    category: Category
    severity: Severity = Severity.MEDIUM
    unless: tuple[str, ...] = ()
    """The rule does not fit a text with any of these."""
    critical_after: int | None = None
    """Critical, if the subtask was tried again this often before."""
    requires_replanning: bool | None = None
    """None: if it is critical or high."""
    hint: str | None = None
    """Key of the text about it; None: that of its category."""
    suggestion: str | None = None
    """A way out in the rule's own words, which are shown as they are."""


_OF_PLANS = (
    FailureRule(
        name="no_subtasks", category=_C.LOGIC, severity=_S.CRITICAL,
        phrases=("plan has no (steps|subtasks)", "в плане нет (шагов|подзадач)"),
    ),
    FailureRule(
        name="invalid_plan", category=_C.VALIDATION, severity=_S.CRITICAL,
        phrases=(
            "plan validation failed", "invalid plan structure", "план не прошел проверку",
            "неверная структура плана",
        ),
    ),
    FailureRule(
        name="missing_dependency", category=_C.DEPENDENCY, severity=_S.CRITICAL,
        phrases=(
            "dependency not found", "dependency * not found", "missing required dependenc*",
            "зависимость не найдена", "зависимость * не найдена",
            "отсутствует (обязательная|необходимая) зависимость",
        ),
    ),
    FailureRule(
        name="cycle", category=_C.DEPENDENCY, severity=_S.CRITICAL,
        phrases=("circular dependency", "dependency cycle", "циклическ* зависимост*"),
    ),
    FailureRule(
        name="no_server", category=_C.ENVIRONMENT, severity=_S.CRITICAL,
        phrases=("no server found", "сервер не найден"),
    ),
    FailureRule(
        name="no_database", category=_C.ENVIRONMENT, severity=_S.CRITICAL,
        phrases=(
            "database connection failed", "нет соединения с базой данных",
            "не удалось подключиться к базе данных",
        ),
    ),
    FailureRule(
        name="no_model", category=_C.ENVIRONMENT, severity=_S.HIGH,
        phrases=("no suitable model found", "подходящая модель не найдена"),
    ),
    FailureRule(
        name="bad_order", category=_C.LOGIC, severity=_S.CRITICAL,
        phrases=(
            "invalid (step|subtask) sequence", "contradictory (steps|subtasks)",
            "противоречив* (шаги|подзадачи)",
        ),
    ),
    FailureRule(
        name="unknown_agent", category=_C.DEPENDENCY, severity=_S.HIGH,
        hint="failure_hint_unknown_agent",
        phrases=(
            "agent not (found|active)", "agent * not (found|active)", "агент не найден",
            "агент * не найден",
        ),
    ),
    FailureRule(
        name="unknown_tool", category=_C.DEPENDENCY, severity=_S.HIGH,
        hint="failure_hint_unknown_tool",
        phrases=(
            "tool not (found|active)", "tool * not (found|active)", "инструмент не найден",
            "инструмент * не найден",
        ),
    ),
    FailureRule(
        name="bad_arguments", category=_C.VALIDATION, severity=_S.HIGH,
        phrases=(
            "function call validation failed", "invalid (parameter|parameters)",
            "missing * required positional argument*", "missing required parameter*",
            "неверные (параметры|аргументы)", "отсутствует обязательный параметр",
        ),
    ),
    FailureRule(
        name="step_timeout", category=_C.TIMEOUT, severity=_S.HIGH, critical_after=2,
        phrases=("^(step|subtask) execution timeout", "^execution timeout"),
        unless=("timeout (parameter*|option*|setting*|argument*|value*|flag*|test*|support)",),
    ),
)  # fmt: skip

_OF_THE_MACHINE = (
    FailureRule(
        name="memory", category=_C.RESOURCE, severity=_S.HIGH, hint="failure_hint_memory",
        phrases=(
            "memory limit exceeded", "out of memory", "memoryerror", "cannot allocate memory",
            "(oom|oom-killed|oomkilled)", "java heap space", "(не хватает|недостаточно) памяти",
            "(нехватка|нехватки) памяти", "память исчерпана", "превышен* лимит памяти",
        ),
    ),
    FailureRule(
        name="disk", category=_C.RESOURCE, severity=_S.HIGH, hint="failure_hint_disk",
        phrases=(
            "no space left on device", "disk (full|is full)", "disk quota exceeded", "enospc",
            "(нет|недостаточно|не хватает) (места|свободного места) на диске",
            "не осталось (места|свободного места)", "диск (заполнен|переполнен)",
        ),
    ),
    FailureRule(
        name="busy_resource", category=_C.RESOURCE,
        phrases=(
            "resource temporarily unavailable", "too many open files",
            "ресурс временно недоступен",
        ),
    ),
    FailureRule(
        name="resource", category=_C.RESOURCE, severity=_S.HIGH,
        phrases=("resource (unavailable|is unavailable)", "ресурс недоступен"),
    ),
    FailureRule(
        name="missing_program", category=_C.ENVIRONMENT, severity=_S.HIGH,
        hint="failure_hint_missing_program",
        phrases=(
            "command not found", "is not recognized as an internal or external command",
            "no module named *", "modulenotfounderror", "cannot find module", "команда не найдена",
        ),
    ),
)  # fmt: skip

_THAT_MAY_PASS = (
    FailureRule(
        name="timeout", category=_C.TIMEOUT,
        phrases=(
            "timed out", "(timeouterror|timeoutexception|timeoutexpired)",
            "(readtimeout|connecttimeout|etimedout)", "deadline (exceeded|expired)",
            "timeout (exceeded|expired|reached|elapsed)", "gateway timeout", "timeout error",
            "timeout (after|of) * (s|sec|seconds|ms|milliseconds|min|minutes)",
            "^(request|read|connect|connection|operation|socket|lock) timeout",
            "превышен* (время|интервал|лимит) (ожидания|выполнения|времени)",
            "превышен (таймаут|тайм-аут)", "истек (таймаут|тайм-аут|срок ожидания)",
            "истекло время", "время (ожидания|выполнения) (истекло|вышло|превышено)",
        ),
        unless=("timeout (error|exceeded|expired) (handling|handler*|message*|test*)",),
    ),
    FailureRule(
        name="quota", category=_C.QUOTA,
        phrases=(
            "rate limit (exceeded|reached|hit|error)", "(rate_limit_exceeded|rate_limit_error)",
            "(rate-limited|ratelimiterror)", "rate limited by", "too many requests",
            "(http|status|code|error) 429", "quota (exceeded|has been exceeded|exhausted)",
            "exceeded your quota", "exceeded your (current|monthly|daily|api) quota",
            "(insufficient_quota|resource_exhausted)", "out of (quota|credits)",
            "usage limit (reached|exceeded)", "превышен* (лимит|квота|число) запросов",
            "лимит запросов (превышен|исчерпан)", "квота (превышена|исчерпана)",
            "превышен* квота", "слишком много запросов", "исчерпан* (лимит|квота)",
        ),
    ),
    FailureRule(
        name="network", category=_C.NETWORK,
        phrases=(
            "connection (refused|reset|aborted|closed)", "(econnrefused|econnreset|ehostunreach)",
            "(connectionerror|connectionrefusederror|connectionreseterror|brokenpipeerror)",
            "network (unreachable|is unreachable|error)", "no route to host", "broken pipe",
            "could not resolve host*", "name or service not known", "getaddrinfo failed",
            "(temporary failure in name resolution|name resolution failed)",
            "failed to establish a new connection", "(bad gateway|service unavailable)",
            "соединение (отклонено|разорвано|сброшено|закрыто)", "в соединении отказано",
            "(сеть|узел|сервер) (недоступна|недоступен)", "нет (сети|соединения|подключения)",
            "не удалось (подключиться|соединиться)", "ошибка сети",
        ),
    ),
)  # fmt: skip

_THAT_STAY = (
    FailureRule(
        name="permission", category=_C.PERMISSION,
        phrases=(
            "permission denied", "operation not permitted", "access (denied|is denied)",
            "(eacces|eperm|permissionerror)", "insufficient (permissions|privileges)",
            "(401 unauthorized|403 forbidden)", "(http|status) (401|403)",
            "read-only file system", "доступ (запрещен|закрыт)", "отказано в доступе",
            "в доступе отказано", "(недостаточно|нет) прав", "нет (доступа|разрешения)",
            "операция не (позволена|разрешена)",
        ),
    ),
    FailureRule(
        name="policy", category=_C.POLICY,
        phrases=("denied by (policy|the policy)", "запрещено (политикой|правилами)"),
    ),
    FailureRule(
        name="missing_file", category=_C.LOGIC, hint="failure_hint_missing_file",
        phrases=(
            "no such file or directory", "file not found", "(filenotfounderror|enoent)",
            "файл не (найден|существует)", "файл * не (найден|существует)",
            "(каталог|папка) не (найден|найдена|существует)", "нет такого файла*",
            "не удается найти (файл|указанный файл)",
        ),
    ),
    FailureRule(
        name="cancelled", category=_C.CANCELLED, severity=_S.LOW,
        phrases=(
            "(cancelled|canceled) by (user|the user)", "keyboardinterrupt",
            "(отменено|прервано) пользователем",
        ),
    ),
)  # fmt: skip

_OF_PYTHON = (
    # Not what a test expects otherwise: its words say more than the name of the error.
    FailureRule(
        name="python", category=_C.LOGIC,
        phrases=(
            "(syntaxerror|indentationerror|taberror|importerror)",
            "(typeerror|valueerror|attributeerror|nameerror|unboundlocalerror)",
            "(keyerror|indexerror|lookuperror|stopiteration|eoferror)",
            "(zerodivisionerror|overflowerror|floatingpointerror|arithmeticerror)",
            "(runtimeerror|recursionerror|notimplementederror)",
            "(unicodeerror|unicodedecodeerror|unicodeencodeerror)",
        ),
    ),
)  # fmt: skip

BUILT_IN = (*_OF_PLANS, *_OF_THE_MACHINE, *_THAT_MAY_PASS, *_THAT_STAY, *_OF_PYTHON)


# Failures told by their words: the last resort, when nothing typed says what went wrong.
#
# `Patterns` is a value: a tuple of rules, tried in order, the first that fits decides. A rule's
# phrases are words, not regular expressions, so that whatever is registered takes time in
# proportion to the text; only the beginning and the end of a long text are read.
#
# In a phrase `*` is any one word, a word that ends in `*` is the beginning of one, `(a|b)` is
# either, and `^` in front means that a line, or what follows a colon, begins there. Upper and lower
# case, `ё` and `е`, and the kind of blanks make no difference.

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


@lru_cache(maxsize=256)
def _any(phrases: tuple[str, ...]) -> re.Pattern[str]:
    if not phrases:
        raise InvalidMessage("A rule for failures needs a phrase; write the words to look for")
    return re.compile("|".join(_phrase(phrase) for phrase in phrases), re.MULTILINE)


def _phrase(written: str) -> str:
    phrase = " ".join(_plain(written).split())
    if not phrase.strip("^* ") or len(phrase) > MAX_PHRASE or not _GRAMMAR.fullmatch(phrase):
        raise InvalidMessage(
            "{written!r} is not a phrase; write words, separated by spaces", written=written[:80]
        )
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


# A model that is away: how long it is waited for, and when it is asked again.
#
# A pure rule over one value, which is kept with what waits (a plan, a turn, a search), so that
# waiting takes neither a task nor a thread and goes on over restarts. It is asked seldomer the
# longer it is away, and for the last time when patience ends.

_FIRST, _MOST = 2.0, 30.0
"""Seconds until a model is asked again: the first time, doubled each time, and at most."""
_YEAR = 366 * 86_400.0
_TOLD = 300
"""Characters of what went wrong that are kept."""


class Absence(Stored):
    """A model that does not answer somebody, or a disk that takes nothing."""

    since: datetime
    tries: int
    """How often it was asked and did not answer."""
    error: Said
    """What went wrong the last time."""
    asked: float = 0.0
    """Seconds after which it wants to be asked again, if it said so."""
    probe: str | None = None
    """Which of those who wait finds out whether it is back."""

    @classmethod
    def after(
        cls, kept: Mapping[str, Any] | None, error: ModelFailed | Unwritable, now: datetime
    ) -> "Absence":
        """The absence that another failure makes of what is known so far."""
        before = cls.of(kept) if kept else None
        wanted = (error.retry_after or 0.0) if isinstance(error, ModelFailed) else 0.0
        return cls(
            since=min(before.since, now) if before else now,
            tries=before.tries + 1 if before else 1,
            error=error.said if len(error.said) <= _TOLD else error.said[:_TOLD],
            asked=wanted if 0 < wanted < _YEAR else 0.0,
        )

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> "Absence":
        """An absence that was kept."""
        return cls.model_validate(kept)

    def as_json(self) -> dict[str, Any]:
        """The absence as it is kept."""
        return self.model_dump(mode="json")

    def found_out_by(self, probe: str) -> "Absence":
        """The absence while somebody finds out whether it is over."""
        return self.model_copy(update={"probe": probe})

    def ends_at(self, patience: float) -> datetime:
        """When it has lasted for as long as anybody waits.

        Args:
            patience: Seconds.
        """
        return self.since + timedelta(seconds=patience)

    def next_try(self, now: datetime, patience: float | None) -> datetime | None:
        """When it is tried again; None once patience is at its end.

        Args:
            patience: Seconds; None: it has no end.
        """
        pause = max(min(_MOST, _FIRST * 2.0 ** min(self.tries - 1, 10)), self.asked)
        if patience is None:
            return now + timedelta(seconds=pause)
        end = self.ends_at(patience)
        if now >= end:
            return None
        return min(end, now + timedelta(seconds=min(pause, patience)))
