"""Times as people write them, and the command itself."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from gonogo.cli.commands.analytics import analytics_lines, moment
from gonogo.cli.support import Exit, Stop
from gonogo.domain.plan_views import (
    Analytics,
    ApprovalOutcomes,
    CallOutcomes,
    FailureCause,
    ModelUse,
    Percentiles,
    PlanOutcomes,
    SubtaskOutcomes,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        ("1h", NOW - timedelta(hours=1)),
        ("99999h", NOW - timedelta(hours=99_999)),
        ("12h", NOW - timedelta(hours=12)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(weeks=2)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T10:00+02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_a_time_is_how_long_ago_or_a_date(given, found):
    assert moment(given, NOW) == found


@pytest.mark.parametrize(
    "given", ["yesterday", "0001-01-01T00:00+23:59", "100000h", "7 d", "7D", "d", "xx7dxx"]
)
def test_anything_else_is_said_to_be_no_time(given):
    with pytest.raises(Stop) as caught:
        moment(given, NOW)
    assert caught.value.code is Exit.USAGE
    assert (
        str(caught.value)
        == f"{given} is not a time; write 12h, 7d, 4w, or a date such as 2026-01-31"
    )


def test_the_command_says_what_there_is_even_if_that_is_nothing(gonogo):
    done = gonogo("analytics", "--since", "2d", "--until", "1h", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plans"]["ended"] == 0


TOOK = Percentiles(count=3, p50=1.04, p90=20.06, p99=300)
WHOLE = Analytics(
    since=NOW - timedelta(days=30, minutes=5), until=NOW,
    plans=PlanOutcomes(
        ended=10, completed=4, partial=3, failed=2, cancelled=1, success_rate=0.4, replans=5,
        rollbacks=6, duration_seconds=TOOK,
    ),
    subtasks=SubtaskOutcomes(
        name="all", ended=15, completed=5, failed=4, skipped=3, cancelled=2, retries=1,
        success_rate=0.5556, duration_seconds=TOOK,
    ),
    by_worker=[SubtaskOutcomes(name="coder", ended=1, completed=1, success_rate=1.0)],
    by_type=[SubtaskOutcomes(name="action", ended=1, skipped=1)],
    failures=[FailureCause(category="logic", worker="coder", type="action", count=4)],
    approvals=[
        ApprovalOutcomes(
            kind="plan", asked=3, pending=1, answers={"approved": 2, "expired": 0},
            latency_seconds=TOOK,
        ),
        ApprovalOutcomes(kind="tool", asked=0),
    ],
    tool_calls=CallOutcomes(
        asked=7, started={"rule": 4, "grant": 2}, ended={"completed": 5, "denied": 1}
    ),
    models=[
        ModelUse(
            model="a:b", requests=9, failed=1, input_tokens=100, cached_tokens=60,
            cache_write_tokens=30, output_tokens=20, reasoning_tokens=5, cost_dollars=0.12345,
        ),
        ModelUse(
            model="c:d", requests=2, failed=0, input_tokens=10, output_tokens=2, cost_dollars=0
        ),
    ],
)  # fmt: skip
IN_ALL = "median 1.0 s, 90% within 20.1 s, 99% within 5 min 0 s"
RUSSIAN = "медиана 1,0 с, 90 % — до 20,1 с, 99 % — до 5 мин 0 с"


def test_all_that_came_of_the_work_is_told_line_by_line():
    assert list(analytics_lines(WHOLE, "en")) == [
        "2026-01-30 11:55 to 2026-03-01 12:00 (UTC)",
        "plans: 10 ended (completed 4, partial 3, failed 2, cancelled 1), 40% succeeded",
        f"  took: {IN_ALL}",
        "  replans: 5, rollbacks: 6",
        "subtasks: 15 ended (completed 5, failed 4, skipped 3, cancelled 2, retries 1),"
        " 56% succeeded",
        f"  took: {IN_ALL}",
        "  coder: 1 ended (completed 1), 100% succeeded",
        "  action: 1 ended (skipped 1)",
        "failed 4 times: logic (coder, action)",
        "questions (plan): 3 (waiting 1, approved 2)",
        f"  answered after: {IN_ALL}",
        "questions (tool): 0",
        "tool calls: 7 (completed 5, denied 1)",
        "  allowed by (rule 4, grant 2)",
        "model a:b: requests 9, failed 1, tokens in: 100 (from the cache 60, into the cache 30),"
        " out: 20 (thinking 5)",
        "  cost $0.1235",
        "model c:d: requests 2, failed 0, tokens in: 10, out: 2",
    ]


def test_all_that_came_of_the_work_is_told_in_russian_too():
    assert list(analytics_lines(WHOLE, "ru")) == [
        "с 2026-01-30 11:55 по 2026-03-01 12:00 (UTC)",
        "планы: завершено 10 (выполнено 4, частично 3, ошибка 2, отменено 1), успешно 40 %",
        f"  длительность: {RUSSIAN}",
        "  перепланирований: 5, откатов: 6",
        "подзадачи: завершено 15 (выполнено 5, ошибка 4, пропущено 3, отменено 2, "
        "повторных попыток 1), успешно 56 %",
        f"  длительность: {RUSSIAN}",
        "  coder: завершено 1 (выполнено 1), успешно 100 %",
        "  action: завершено 1 (пропущено 1)",
        "4 ошибки: логика (coder, action)",
        "вопросы (план): 3 (ждут ответа 1, одобрено 2)",
        f"  ответ получен через: {RUSSIAN}",
        "вопросы (вызов инструмента): 0",
        "вызовы инструментов: 7 (выполнено 5, запрещено 1)",
        "  разрешено (по правилу 4, по одобренному плану 2)",
        "модель a:b: запросов 9, с ошибкой 1, токенов на входе: 100 (из кэша 60, в кэш 30),"
        " на выходе: 20 (на размышления 5)",
        "  стоимость 0,1235 $",
        "модель c:d: запросов 2, с ошибкой 0, токенов на входе: 10, на выходе: 2",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"replans": 1}, ["  replans: 1, rollbacks: 0"]),
        ({"rollbacks": 1}, ["  replans: 0, rollbacks: 1"]),
        ({"success_rate": 0.0}, []),
    ],
)
def test_of_what_did_not_happen_nothing_is_told(more, said):
    nothing = Analytics(
        since=NOW, until=NOW, plans=PlanOutcomes(**more), subtasks=SubtaskOutcomes(name="all"),
        by_worker=[], by_type=[], failures=[], approvals=[], tool_calls=CallOutcomes(), models=[],
    )  # fmt: skip
    rate = ", 0% succeeded" if "success_rate" in more else ""
    assert list(analytics_lines(nothing, "en"))[1:] == [
        f"plans: 0 ended{rate}", *said, "subtasks: 0 ended", "tool calls: 0",
    ]  # fmt: skip
