"""The built-in rules that tell failures by their words, the most telling ones first."""

from dataclasses import dataclass

from gonogo.domain.failure import Category, Severity

_C, _S = Category, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
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
