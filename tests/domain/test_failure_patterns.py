"""Failures told by their words: the cases hold, and words out of place do not mislead."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gonogo.domain.errors import (
    Conflict,
    InvalidMessage,
    ModelFailed,
    ModelNotConfigured,
    ToolFailed,
)
from gonogo.domain.failures import (
    BUILT_IN,
    Category,
    Diagnosis,
    Failure,
    FailureRule,
    Patterns,
    Severity,
    diagnosed,
    hint_of,
)
from plugins.nightly import examples

CASES = json.loads(
    (Path(__file__).parents[1] / "cases/error_classification.json").read_text("utf-8")
)
KNOWN = Patterns()


def of_group(name):
    return [case for case in CASES if case["group"] == name]


@pytest.mark.feature(99)
@pytest.mark.parametrize("case", of_group("error_classification"), ids=lambda c: str(c["input"]))
def test_the_cases_of_classification_hold(case):
    given_, expected = case["input"], case["expected"]

    found = KNOWN.classify_text(given_["message"], given_.get("context"))

    assert found.severity == expected["severity"]
    assert found.category == expected["category"]
    assert found.requires_replanning is expected["requires_replanning"]
    assert expected.get("metadata_contains", {}).items() <= found.metadata.items()
    assert found.message == given_["message"]


@pytest.mark.feature(99)
@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Command timed out after 30 s", "timeout"),
        ("asyncio.exceptions.TimeoutError", "timeout"),
        ("request failed: timeout of 5000 ms exceeded", "timeout"),
        ("превышено время ожидания", "timeout"),
        ("Превышен лимит времени", "timeout"),
        ("Истёк таймаут", "timeout"),
        ("bash: ./x.sh: Permission denied", "permission"),
        ("[Errno 13] PERMISSION  DENIED: 'a'", "permission"),
        ("доступ запрещён", "permission"),
        ("Доступ запрещен", "permission"),
        ("Отказано в доступе", "permission"),
        ("connect ECONNREFUSED 127.0.0.1:5432", "network"),
        ("curl: (7) Failed: Connection refused", "network"),
        ("в соединении отказано", "network"),
        ("HTTP 429", "quota"),
        ("You exceeded your current quota, please check your plan", "quota"),
        ("Error code: 429 - rate_limit_exceeded", "quota"),
        ("Rate limit reached for requests", "quota"),
        ("превышен лимит запросов", "quota"),
        ("Квота исчерпана", "quota"),
        ("fatal: Out of memory, malloc failed", "resource"),
        ("MemoryError", "resource"),
        ("не хватает памяти", "resource"),
        ("OSError: [Errno 28] No space left on device", "resource"),
        ("нет места на диске", "resource"),
        ("Disk quota exceeded", "resource"),
        ("файл не найден", "logic"),
        ("файл src/app.py не найден", "logic"),
        ("cat: x: No such file or directory", "logic"),
        ("bash: pytset: command not found", "environment"),
        ("Agent reviewer not found", "dependency"),
        ("агент reviewer не найден", "dependency"),
        ("This was denied by policy", "policy"),
        ("Прервано пользователем", "cancelled"),
        ("SyntaxError: invalid syntax", "logic"),
        ("Traceback\n  File x\nTypeError: unsupported operand", "logic"),
        ("Step failed: KeyError: 'name'", "logic"),
        ("ImportError: cannot import name 'a' from 'b'", "logic"),
        ("IndexError", "logic"),
        ("ModuleNotFoundError: No module named 'x'", "environment"),
        ("ConnectionRefusedError: [Errno 111]", "network"),
        ("RuntimeError: CUDA out of memory", "resource"),
    ],
)
def test_words_that_name_a_failure_are_known(text, category):
    assert KNOWN.classify_text(text).category == category


MAY_PASS = {
    "timeout": [
        "Command timed out after 30 s", "TimeoutError", "subprocess.TimeoutExpired: make",
        "java.util.concurrent.TimeoutException", "httpx.ReadTimeout", "httpx.ConnectTimeout: a",
        "connect ETIMEDOUT 10.0.0.1:443", "context deadline exceeded", "Deadline expired",
        "Lock wait timeout exceeded", "the timeout expired", "timeout reached", "timeout elapsed",
        "504 Gateway Timeout", "a timeout error occurred", "timeout of 5000 ms exceeded here",
        "timeout after 5 s", "timeout of 2 sec", "timeout after 30 seconds", "timeout of 9 min",
        "timeout after 10 milliseconds", "timeout after 2 minutes", "Request timeout",
        "npm error: read timeout", "Connect timeout", "Connection timeout", "Operation timeout",
        "failed: socket timeout", "Lock timeout", "Превышено время ожидания",
        "превышен интервал ожидания", "Превышен лимит времени", "превышено время выполнения",
        "Превышен таймаут", "превышен тайм-аут", "Истёк таймаут", "истек тайм-аут",
        "Истёк срок ожидания", "Истекло время на ответ", "Время ожидания истекло",
        "время выполнения вышло", "время ожидания превышено",
    ],
    "quota": [
        "Rate limit exceeded", "rate limit reached for requests", "Rate limit hit",
        "a rate limit error", "code: rate_limit_exceeded", "type: rate_limit_error",
        "You are being rate-limited", "openai.RateLimitError", "rate limited by the provider",
        "Too Many Requests", "HTTP 429", "status 429", "code 429", "error 429", "Quota exceeded",
        "the quota has been exceeded", "quota exhausted", "You exceeded your quota",
        "You exceeded your current quota", "exceeded your monthly quota",
        "exceeded your daily quota", "exceeded your API quota", "code: insufficient_quota",
        "RESOURCE_EXHAUSTED", "out of quota", "out of credits", "Usage limit reached",
        "usage limit exceeded", "Превышен лимит запросов", "превышена квота запросов",
        "превышено число запросов", "Лимит запросов превышен", "лимит запросов исчерпан",
        "Квота превышена", "квота исчерпана", "Превышена квота", "Слишком много запросов",
        "Исчерпан лимит", "исчерпана квота",
    ],
    "network": [
        "Connection refused", "connection reset by peer", "connection aborted",
        "Connection closed by remote host", "connect ECONNREFUSED ::1", "read ECONNRESET",
        "EHOSTUNREACH", "requests.exceptions.ConnectionError", "ConnectionRefusedError: a",
        "ConnectionResetError", "BrokenPipeError: [Errno 32]", "network unreachable",
        "Network is unreachable", "a network error", "No route to host", "write: broken pipe",
        "Could not resolve host: example.org", "Name or service not known", "getaddrinfo failed",
        "Temporary failure in name resolution", "name resolution failed",
        "Failed to establish a new connection", "502 Bad Gateway", "503 Service Unavailable",
        "Соединение отклонено", "соединение разорвано", "соединение сброшено",
        "соединение закрыто", "В соединении отказано", "Сеть недоступна", "узел недоступен",
        "сервер недоступен", "нет сети", "Нет соединения", "нет подключения",
        "Не удалось подключиться", "не удалось соединиться", "Ошибка сети",
    ],
}  # fmt: skip


@pytest.mark.feature(99)
@pytest.mark.parametrize(
    ("text", "rule"), [(text, rule) for rule, texts in MAY_PASS.items() for text in texts]
)
def test_what_may_pass_is_known_by_each_of_its_phrases(text, rule):
    assert KNOWN.classify_text(text).rule == rule


OTHERS = {
    ("no_subtasks", "logic", "critical"): (
        "Plan has no steps", "plan has no subtasks", "В плане нет шагов", "в плане нет подзадач",
    ),
    ("invalid_plan", "validation", "critical"): (
        "Plan validation failed", "Invalid plan structure", "План не прошёл проверку",
        "неверная структура плана",
    ),
    ("missing_dependency", "dependency", "critical"): (
        "Dependency not found", "Dependency build not found", "Missing required dependencies",
        "Зависимость не найдена", "зависимость build не найдена",
        "Отсутствует обязательная зависимость", "отсутствует необходимая зависимость",
    ),
    ("cycle", "dependency", "critical"): (
        "Circular dependency", "a dependency cycle", "Циклические зависимости",
    ),
    ("no_server", "environment", "critical"): ("No server found", "Сервер не найден"),
    ("no_database", "environment", "critical"): (
        "Database connection failed", "Нет соединения с базой данных",
        "не удалось подключиться к базе данных",
    ),
    ("no_model", "environment", "high"): (
        "No suitable model found", "Подходящая модель не найдена",
    ),
    ("bad_order", "logic", "critical"): (
        "Invalid step sequence", "invalid subtask sequence", "Contradictory steps",
        "contradictory subtasks", "Противоречивые шаги", "противоречивые подзадачи",
    ),
    ("unknown_agent", "dependency", "high"): (
        "Agent not found", "agent not active", "Agent x not found", "agent x not active",
        "Агент не найден", "агент x не найден",
    ),
    ("unknown_tool", "dependency", "high"): (
        "Tool not found", "tool not active", "Tool x not found", "tool x not active",
        "Инструмент не найден", "инструмент x не найден",
    ),
    ("bad_arguments", "validation", "high"): (
        "Function call validation failed", "Invalid parameter", "invalid parameters",
        "f() missing 2 required positional arguments", "Missing required parameters",
        "Неверные параметры", "неверные аргументы", "Отсутствует обязательный параметр",
    ),
    ("step_timeout", "timeout", "high"): (
        "Step execution timeout", "subtask execution timeout", "Execution timeout",
    ),
    ("memory", "resource", "high"): (
        "Memory limit exceeded", "Out of memory", "MemoryError", "Cannot allocate memory", "OOM",
        "oom-killed", "OOMKilled", "Java heap space", "не хватает памяти", "недостаточно памяти",
        "Нехватка памяти", "из-за нехватки памяти", "Память исчерпана", "Превышен лимит памяти",
    ),
    ("disk", "resource", "high"): (
        "No space left on device", "Disk full", "the disk is full", "Disk quota exceeded",
        "ENOSPC", "Нет места на диске", "недостаточно места на диске", "не хватает места на диске",
        "нет свободного места на диске", "Не осталось места", "не осталось свободного места",
        "Диск заполнен", "диск переполнен",
    ),
    ("busy_resource", "resource", "medium"): (
        "Resource temporarily unavailable", "Too many open files", "Ресурс временно недоступен",
    ),
    ("resource", "resource", "high"): (
        "Resource unavailable", "the resource is unavailable", "Ресурс недоступен",
    ),
    ("missing_program", "environment", "high"): (
        "bash: x: command not found", "'x' is not recognized as an internal or external command",
        "No module named x", "ModuleNotFoundError", "Cannot find module 'x'", "Команда не найдена",
    ),
    ("permission", "permission", "medium"): (
        "Permission denied", "Operation not permitted", "Access denied", "access is denied",
        "EACCES", "EPERM", "PermissionError", "Insufficient permissions",
        "insufficient privileges", "401 Unauthorized", "403 Forbidden", "HTTP 401", "status 403",
        "Read-only file system", "Доступ запрещён", "доступ закрыт", "Отказано в доступе",
        "В доступе отказано", "Недостаточно прав", "нет прав", "Нет доступа", "нет разрешения",
        "Операция не позволена", "операция не разрешена",
    ),
    ("policy", "policy", "medium"): (
        "Denied by policy", "denied by the policy", "Запрещено политикой", "запрещено правилами",
    ),
    ("missing_file", "logic", "medium"): (
        "No such file or directory", "File not found", "FileNotFoundError", "ENOENT",
        "Файл не найден", "файл не существует", "файл x не найден", "файл x не существует",
        "Каталог не найден", "папка не найдена", "каталог не существует", "Нет такого файла",
        "Не удаётся найти файл", "не удается найти указанный файл",
    ),
    ("cancelled", "cancelled", "low"): (
        "Cancelled by user", "canceled by the user", "KeyboardInterrupt",
        "Отменено пользователем", "прервано пользователем",
    ),
    ("python", "logic", "medium"): (
        "SyntaxError", "IndentationError", "TabError", "ImportError", "TypeError", "ValueError",
        "AttributeError", "NameError", "UnboundLocalError", "KeyError", "IndexError",
        "LookupError", "StopIteration", "EOFError", "ZeroDivisionError", "OverflowError",
        "FloatingPointError", "ArithmeticError", "RuntimeError", "RecursionError",
        "NotImplementedError", "UnicodeError", "UnicodeDecodeError", "UnicodeEncodeError",
    ),
}  # fmt: skip
OWN_HINTS = {"unknown_agent", "unknown_tool", "memory", "disk", "missing_program", "missing_file"}


@pytest.mark.feature(99)
@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in OTHERS.items() for text in texts]
)
def test_what_else_is_known_is_known_by_each_of_its_phrases(kind, text):
    rule, category, severity = kind
    found = KNOWN.classify_text(text)
    assert found.model_dump() == {
        "message": text, "severity": severity, "category": category,
        "requires_replanning": severity in ("critical", "high"),
        "hint": f"failure_hint_{rule if rule in OWN_HINTS else category}", "suggestion": None,
        "rule": rule, "metadata": {},
    }  # fmt: skip


EXAMPLES = MAY_PASS | {name: texts for (name, _, _), texts in OTHERS.items()}


@pytest.mark.parametrize(
    ("rule", "phrase"),
    [(rule, phrase) for rule in BUILT_IN for phrase in rule.phrases],
    ids=lambda each: getattr(each, "name", each),
)
def test_every_phrase_has_an_example(rule, phrase):
    alone = Patterns((replace(rule, phrases=(phrase,)),))

    assert any(alone.classify_text(text).rule for text in EXAMPLES[rule.name])


def test_a_step_that_takes_too_long_again_and_again_is_critical_at_the_second_retry():
    severities = [
        KNOWN.classify_text("Step execution timeout", {"retry_count": count}).severity
        for count in (0, 1, 2, 3, "2")
    ]
    assert severities == ["high", "high", "critical", "critical", "high"]
    assert KNOWN.classify_text("Timed out", {"retry_count": 99}).severity == "medium"


@pytest.mark.feature(99)
@pytest.mark.parametrize(
    ("text", "severity", "category"),
    [
        ("Invalid plan structure", "critical", "validation"),
        ("Dependency not found", "critical", "dependency"),
        ("Missing required dependency: numpy", "critical", "dependency"),
        ("No suitable model found", "high", "environment"),
        ("Missing required parameter 'path'", "high", "validation"),
        ("ValueError: Invalid parameter value", "high", "validation"),
    ],
)
def test_failures_that_the_plan_has_to_change_for_are_known(text, severity, category):
    found = KNOWN.classify_text(text)

    assert (found.severity, found.category, found.requires_replanning) == (severity, category, True)


@pytest.mark.feature(99)
@pytest.mark.parametrize(
    "text",
    [
        "Added a timeout parameter to the parser",
        "Execution timeout option was renamed",
        "The timeouts of the tests differ",
        "AssertionError: expected timeout == 30",
        "Implemented rate limiting for the API",
        "The quota page shows a chart",
        "HTTP 4290",
        "Memory usage is shown in the footer",
        "disconnection refusedly",
        "Добавлен параметр времени ожидания",
        "Описание доступа к диску",
        "HTTP 404: page not found",
        "We raised the request timeout to 5 s",
        "The step execution timeout is a setting",
        "",
    ],
)
def test_words_out_of_place_do_not_mislead(text):
    found = KNOWN.classify_text(text)

    assert (found.category, found.severity, found.rule) == ("unknown", "medium", None)
    assert found.hint == "failure_hint_unknown"


@pytest.mark.parametrize("text", ["file not found", "ﬁle not found", "File\tNOT\n found"])
def test_the_kind_of_letters_and_blanks_makes_no_difference(text):
    assert KNOWN.classify_text(text).rule == "missing_file"


@pytest.mark.feature(111)
def test_a_rule_that_is_registered_changes_the_classification_and_nothing_else():
    rule = FailureRule(
        name="license", phrases=("license (expired|has expired)",), category=Category.ENVIRONMENT,
        severity=Severity.LOW, requires_replanning=True, suggestion="Renew the license.",
    )  # fmt: skip
    text = "The license expired; connection refused"

    mine = KNOWN.with_rule(rule)
    found = mine.classify_text(text)

    assert (found.category, found.severity) == ("environment", "low")
    assert found.requires_replanning
    assert found.suggestion == "Renew the license."
    assert KNOWN.classify_text(text).category == "network"
    assert mine.classify_text("Connection refused").category == "network"
    assert Patterns() == KNOWN


@pytest.mark.parametrize(
    "phrase",
    ["", "* *", "^", "(a", "a)", "(a|(b))", "a*b", "(a|)", "a|b", "x" * 201, "a()"],
)
def test_a_phrase_that_cannot_be_read_is_refused_when_it_is_registered(phrase):
    rule = FailureRule(name="x", phrases=(phrase,), category=Category.LOGIC)
    with pytest.raises(InvalidMessage) as refused:
        KNOWN.with_rule(rule)
    assert (
        str(refused.value) == f"{phrase[:80]!r} is not a phrase; write words, separated by spaces"
    )
    with pytest.raises(InvalidMessage) as refused:
        KNOWN.with_rule(replace(rule, phrases=()))
    assert str(refused.value) == "A rule for failures needs a phrase; write the words to look for"
    longest = replace(rule, phrases=("x" * 200,))
    assert KNOWN.with_rule(longest).classify_text("x" * 200).rule == "x"


def test_signs_in_a_phrase_stand_for_themselves():
    rule = FailureRule(name="x", phrases=("e[404]. (x+|y?)",), category=Category.LOGIC)
    mine = Patterns((rule,))

    assert mine.classify_text("got e[404]. y?").rule == "x"
    assert mine.classify_text("got e404. y?").rule is None


def test_an_error_of_known_type_is_not_judged_by_its_words():
    assert KNOWN.diagnose(ToolFailed("timeout", "Connection refused")).category == "timeout"
    assert KNOWN.diagnose(ModelFailed("timed out", http_status=429)).category == "quota"
    assert KNOWN.diagnose(ToolFailed("no_change", "out of memory")).category == "logic"


def test_an_error_whose_type_says_nothing_is_judged_by_its_words():
    found = KNOWN.diagnose(Conflict("Dependency build not found in execution context"), {"a": 1})

    assert (found.severity, found.category, found.metadata) == ("critical", "dependency", {"a": 1})


@pytest.mark.parametrize("error", [ToolFailed("timeout", "x"), Conflict("nobody knows this")])
def test_where_it_happened_is_in_every_diagnosis(error):
    assert KNOWN.diagnose(error, {"subtask_id": "s1"}).metadata == {"subtask_id": "s1"}


def test_a_failure_of_known_kind_gets_its_hint():
    found = diagnosed(Failure(message="x", severity=Severity.HIGH, category=Category.POLICY))

    assert found == Diagnosis(
        message="x", severity=Severity.HIGH, category=Category.POLICY, requires_replanning=True,
        hint="failure_hint_policy",
    )  # fmt: skip


def test_hints_are_of_a_category_or_of_a_rule():
    hints = {rule.hint or hint_of(rule.category) for rule in KNOWN.rules}

    assert "failure_hint_memory" in hints
    assert "failure_hint_timeout" in hints


def test_only_the_ends_of_a_long_text_are_read_and_kept():
    noise = "x" * 50_000

    assert KNOWN.classify_text(f"{noise}\nConnection refused").category == "network"
    assert KNOWN.classify_text(f"Connection refused\n{noise}").category == "network"
    assert KNOWN.classify_text(f"{noise} Connection refused {noise}").category == "unknown"
    kept = KNOWN.classify_text("a" * 2_000 + "b" * 2_001).message
    assert kept == "a" * 1_999 + "…\n" + "b" * 1_999
    assert KNOWN.classify_text("x" * 4_000).message == "x" * 4_000
    # Just so many characters of each end are read.
    for more, rule in ((0, "network"), (1, None)):
        at_start = "x" * (3_980 + more) + " Connection refused"
        assert KNOWN.classify_text(f"{at_start} {noise}").rule == rule
        at_end = "Connection refused " + "x" * (3_980 + more)
        assert KNOWN.classify_text(f"{noise} {at_end}").rule == rule


@settings(max_examples=examples(60, nightly=200))
@given(
    st.lists(
        st.sampled_from(
            "a agent timeout превышен missing required * ( \n : \u00a0 exceeded".split(" ")
        ),
        max_size=3_000,
    ),
    st.sampled_from(["", " ", "\n"]),
)
def test_every_text_has_an_answer(words, joint):
    found = KNOWN.classify_text(joint.join(words))

    assert found.requires_replanning is (found.severity in ("critical", "high"))


def test_what_a_model_refuses_calls_for_no_other_plan_unless_a_rule_knows_its_words():
    unknown = KNOWN.diagnose(ModelFailed("no such model", http_status=404))
    known = KNOWN.diagnose(ModelFailed("Agent painter not found", http_status=400))
    missing = KNOWN.diagnose(ModelNotConfigured("no model is configured"))
    busy = KNOWN.diagnose(ModelFailed("slow down", http_status=429))

    assert (unknown.severity, unknown.category) == ("high", "environment")
    assert not unknown.requires_replanning
    assert not missing.requires_replanning
    assert (known.rule, known.requires_replanning) == ("unknown_agent", True)
    assert busy.category == "quota"
