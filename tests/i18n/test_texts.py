"""Texts: both languages say the same things, and those that clients rely on are word for word."""

from pathlib import Path

import pytest

from fakes.catalogues import keys, texts
from fakes.golden import kept
from gonogo.domain.checks import DoneCheck, FileText
from gonogo.domain.events import PlanEndedFacts
from gonogo.domain.messages import REJECTED_TEXTS
from gonogo.domain.plan import RetryPolicy, Revision, Scope, Subtask
from gonogo.domain.plan_views import PlanChanges
from gonogo.i18n import LOCALES, cause_and_fix, duration, estimate, language_of, resolve, say, term
from gonogo.i18n.texts import account, plan_summary, rejected_plan

SUBTASKS = (
    Subtask(id="model", description="Write the model", agent="coder", estimated_time="10 min"),
    Subtask(
        id="tests",
        description="Run the tests",
        agent="debug",
        dependencies=("model",),
        scope=Scope(tools=("execute_command",), commands=("pytest -q",), network=True),
        approval_required=True,
    ),
    Subtask(id="list", description="List the files", tool="list_files", scope=Scope()),
)


def summary(locale: str, number: int = 1, **more: object) -> str:
    """The summary of a plan of three subtasks."""
    revision = Revision(plan_id="p_1", number=number, goal="TODO\n\n# app", subtasks=SUBTASKS)
    return plan_summary(revision, locale, **more)  # type: ignore[arg-type]


def ended(completed: int, failed: int, skipped: int = 0, cancelled: int = 0) -> PlanEndedFacts:
    """The account of a plan that is over."""
    return PlanEndedFacts(
        plan_id="p_1", status="partial", total=completed + failed + skipped + cancelled,
        completed=completed, failed=failed, skipped=skipped, cancelled=cancelled,
        duration_seconds=1.0,
    )  # fmt: skip


@pytest.mark.feature(217)
def test_every_text_stands_in_both_languages_with_the_same_fields() -> None:
    assert keys("en") == keys("ru")
    assert [key for locale in LOCALES for key, text in texts(locale).items() if not text] == []


@pytest.mark.parametrize("locale", LOCALES)
def test_what_is_said_is_what_the_catalogue_says(locale: str) -> None:
    for key, needs in keys(locale).items():
        given = dict.fromkeys(needs, 7)
        assert say(key, locale, **given) == texts(locale)[key].format(**given)


@pytest.mark.feature(217)
def test_the_language_is_the_sessions_then_the_setting_then_that_of_the_message() -> None:
    assert resolve("ru", "en", "hello") == "ru"
    assert resolve(None, "ru_RU.UTF-8", "hello") == "ru"
    assert resolve(None, None, "Создай TODO приложение") == "ru"
    assert resolve(None, None, "Make a TODO app") == "en"
    assert resolve("de", None, "Привет") == "ru"
    assert resolve("en-GB", "ru", "Привет") == "en"


def test_a_cyrillic_letter_means_russian() -> None:
    assert language_of("Добавь --json") == "ru"
    assert language_of("Füge --json hinzu") == "en"
    assert language_of("") == "en"


@pytest.mark.parametrize(
    ("key", "english", "russian"),
    [
        (
            "plan_approved",
            "Plan approved. Starting 4 subtasks...",
            "План подтвержден. Начинаю выполнение 4 подзадач...",
        ),
        (
            "plan_updated",
            "Plan updated. Starting 4 subtasks...",
            "План обновлен. Начинаю выполнение 4 подзадач...",
        ),
        (
            "plan_waiting",
            "Waiting for the plan to be decided...",
            "Ожидаю подтверждения плана...",
        ),
    ],
)
def test_what_clients_compare_is_word_for_word(key: str, english: str, russian: str) -> None:
    assert say(key, "en", count=4) == english
    assert say(key, "ru", count=4) == russian


def test_a_rejected_plan_answers_with_the_reason_or_an_offer() -> None:
    assert rejected_plan("Этот подход не подходит", "ru") == "План отменен. Этот подход не подходит"
    assert rejected_plan(None, "ru") == "План отменен. Чем могу помочь?"
    assert rejected_plan("  ", "en") == "Plan cancelled. How can I help?"


@pytest.mark.parametrize("locale", LOCALES)
def test_progress_and_account_are_the_same_in_both_languages(locale: str) -> None:
    started = say("subtask_started", locale, position=1, total=5, description="Do it")

    assert started == "Subtask 1/5: Do it"
    assert account(ended(5, 0), locale) == (
        "Plan Execution Complete\n- Total: 5\n- Completed: 5\n- Failed: 0"
    )


def test_the_account_names_skipped_and_cancelled_subtasks_so_that_it_adds_up() -> None:
    text = account(ended(3, 1, skipped=1, cancelled=1), "en")

    assert text.endswith("- Failed: 1\n- Skipped: 1\n- Cancelled: 1")


def test_a_rejection_without_a_reason_has_a_default_text() -> None:
    assert say("model_rejected_default", "ru") == "Операция отклонена"
    assert say("model_rejected_default", "en") == "User rejected the operation"
    assert {say("model_rejected_default", locale) for locale in LOCALES} >= {
        text for text in REJECTED_TEXTS if text.startswith("Опер")
    }


@pytest.mark.parametrize("locale", LOCALES)
def test_an_expired_question_is_not_called_rejected(locale: str) -> None:
    assert say("model_expired", locale) != say("model_rejected_default", locale)
    assert not say("model_expired", locale).startswith(REJECTED_TEXTS)


@pytest.mark.feature(4)
@pytest.mark.parametrize("locale", LOCALES)
def test_a_plans_summary_lists_each_subtask_with_agent_time_and_dependencies(locale: str) -> None:
    text = summary(locale)

    for part in ("model", "Write the model", "`coder`", "tests", "Run the tests"):
        assert part in text
    for part in ("`debug`", "`model`", "`pytest -q`", "`list_files`", estimate("5 min", locale)):
        assert part in text


@pytest.mark.feature(4)
@pytest.mark.parametrize("locale", LOCALES)
def test_a_plans_summary_names_the_decisions_and_how_to_answer(locale: str) -> None:
    text = summary(locale)

    for word in ("approve", "edit", "reject", "plan_decision", "p_1"):
        assert word in text


def test_the_russian_summary_is_in_russian() -> None:
    text = summary("ru")

    for word in ("# План:", "агент: `coder`", "время: 10\N{NO-BREAK SPACE}мин", "после: `model`"):
        assert word in text
    for word in ("одобрить", "изменить", "отклонить"):
        assert word in text


def test_a_goal_cannot_draw_a_heading_of_its_own() -> None:
    assert "\n# app" not in summary("en")


def test_a_later_revision_findings_and_a_client_host_are_said() -> None:
    finding = {"severity": "warning", "message": "two writers of a.py", "code": "overlap"}
    text = summary("en", number=2, findings=[finding], tool_host="client")

    assert "Revision 2" in text
    assert "- **warning**: two writers of a.py" in text
    assert "no rollback" in text


def test_an_unknown_language_is_answered_in_english_and_an_unknown_key_is_an_error() -> None:
    assert say("model_back", "de") == "The model answers again."
    with pytest.raises(KeyError):
        say("no_such_text", "en")
    with pytest.raises(KeyError):
        say("plan_approved", "en")


def test_a_summary_shows_all_that_decides_what_will_run():
    subtask = Subtask(
        id="a", description="d", tool="write_file", condition="subtasks.x.output == 'red'",
        inputs={"path": "a.md", "content": "``` not the end"}, timeout=7, on_reject="fail",
        dependencies=("x",), after_skipped="run",
    )  # fmt: skip
    long = Subtask(id="x", description="d", tool="write_file", inputs={"content": "y" * 5_000})
    shown = plan_summary(Revision(plan_id="p", number=1, goal="g", subtasks=(long, subtask)), "en")

    assert "only if: `subtasks.x.output == 'red'`" in shown
    assert '````{"path": "a.md", "content": "``` not the end"}````' in shown
    assert "time limit: 7 s" in shown
    assert "fails if you reject its start" in shown
    assert "runs even if a subtask that it depends on was skipped" in shown
    assert "… +1015" in shown


EVERYTHING = (
    Subtask(
        id="a", description="Do\n# it\x07", agent="coder", estimated_time="10 min",
        approval_required=True, condition="x == `1`", inputs={"n": 1, "\u202e": "``"},
        scope=Scope(
            tools=("read_file", "`x`"), paths=("src/**", "a\nb"), commands=("pytest -q", "ls"),
            network=("example.org", "b.example:1"),
        ),
        done_when=(
            DoneCheck(command="pytest -q", timeout=9), DoneCheck(file_exists="a.txt"),
            DoneCheck(file_contains=FileText(path="b.txt", text="two\nlines")),
            DoneCheck(unchanged=("c/**", "d")), DoneCheck(ask="Is it well?"),
        ),
        must_change=True, timeout=60, on_reject="skip",
    ),
    Subtask(id="b", description="B", agent="debug", dependencies=("a",), scope=Scope(tools=())),
    Subtask(id="c", description="C", tool="write_file", dependencies=("a", "b"),
            scope=Scope(paths=(), network=True)),
    Subtask(
        id="d", description="D", type="wait", after_skipped="run", must_change=False,
        retry_policy=RetryPolicy(max_attempts=3, delay=120, backoff=1.25, on=("logic", "quota")),
    ),
    Subtask(id="e", description="E", type="validation", inputs={"command": "make"}),
    Subtask(id="f", description="F", tool="read_file", inputs={"path": "`"}),
)  # fmt: skip
COMMENTS = [
    {"author": "ann\n# x", "revision": 2, "subtask_id": "a\nb", "content": "Why\nso?",
     "answer": "``Because`"},
    {"author": "bob", "revision": 3, "content": "Well"},
]  # fmt: skip


@pytest.mark.parametrize("locale", LOCALES)
def test_a_summary_of_a_plan_with_everything_reads_as_it_is_kept(locale: str) -> None:
    changes = PlanChanges(
        added=(EVERYTHING[3], EVERYTHING[0]), removed=(EVERYTHING[1], EVERYTHING[4]),
        changed=(("c", {"timeout": {}, "agent": {}}), ("f", {"tool": {}})),
    )  # fmt: skip
    found = [
        {"severity": "warning", "message": "two\nwriters"},
        {"severity": "info", "message": "m"},
    ]
    revision = Revision(plan_id="p_1", number=2, goal="G\n# x", subtasks=EVERYTHING)
    text = plan_summary(
        revision, locale, findings=found, tool_host="client", changes=changes, comments=COMMENTS
    )
    bare = plan_summary(
        Revision(plan_id="p_2", number=1, goal="G", subtasks=EVERYTHING[4:5]), locale
    )

    shown = f"{text}\n\n---\n\n{bare}\n"
    assert shown == kept(Path(__file__).parent / "golden" / f"summary.{locale}.md", shown)


@pytest.mark.parametrize("locale", LOCALES)
def test_each_field_of_a_subtask_that_can_change_has_its_word(locale: str) -> None:
    wordless = {"agent", "condition", "dependencies", "description", "inputs", "tool"}
    named = {name: term("field", name, locale) for name in Subtask.model_fields if name != "id"}

    same = {name for name, word in named.items() if word == name}
    assert same == (wordless if locale == "en" else set())


def test_a_value_is_quoted_whole_up_to_4000_characters() -> None:
    def quoted(length: int) -> str:
        said = {"author": "ann", "revision": 1, "content": "y" * length}
        return summary("en", comments=[said])

    assert f"(revision 1): `{'y' * 4_000}`\n" in quoted(4_000)
    assert f"(revision 1): `{'y' * 4_000} … +1`\n" in quoted(4_001)


@pytest.mark.parametrize("locale", LOCALES)
def test_what_was_not_to_happen_has_a_line_each_in_the_account(locale: str) -> None:
    facts = ended(3, 1, skipped=2, cancelled=4).model_copy(update={"refused": 5})

    assert account(facts, locale) == (
        "Plan Execution Complete\n- Total: 10\n- Completed: 3\n- Failed: 1\n- Skipped: 2\n"
        "- Cancelled: 4\n- Calls denied or rejected: 5"
    )
    assert rejected_plan(" so \n", locale).endswith(". so")


@pytest.mark.parametrize(
    ("seconds", "english", "russian"),
    [
        (0, "0.0 s", "0,0 с"),
        (59.94, "59.9 s", "59,9 с"),
        (60, "1 min 0 s", "1 мин 0 с"),
        (61.5, "1 min 2 s", "1 мин 2 с"),
        (3_599.4, "59 min 59 s", "59 мин 59 с"),
        (3_599.6, "1 h 0 min", "1 ч 0 мин"),
        (3_660, "1 h 1 min", "1 ч 1 мин"),
        (7_261, "2 h 1 min", "2 ч 1 мин"),
    ],
)
def test_a_time_is_told_in_the_units_that_it_fills(seconds, english, russian):
    assert (duration(seconds, "en"), duration(seconds, "ru")) == (english, russian)


def test_a_failure_without_a_known_hint_has_a_cause_and_a_fix_all_the_same() -> None:
    unknown = "failure_hint_unknown"
    assert cause_and_fix("none") == (say(f"{unknown}.cause"), say(f"{unknown}.fix"))
    assert cause_and_fix("none", "ru") == (
        "неизвестно; смотрите сообщение",
        "сначала узнать больше: добавить небольшую подзадачу, которая только читает",
    )
    known = cause_and_fix("failure_hint_logic", "ru")
    assert known == (say("failure_hint_logic.cause", "ru"), say("failure_hint_logic.fix", "ru"))


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("ru", "ru"), ("RU", "ru"), ("ru-RU", "ru"), ("ru_RU", "ru"), ("ru.UTF-8", "ru"),
        ("ru@cyrillic", "ru"), (" ru ", "ru"), ("rus", "en"), ("", "en"), (None, "en"),
    ],
)  # fmt: skip
def test_a_locale_is_known_however_it_is_written(written, spoken):
    assert resolve(written, None) == resolve(None, written) == spoken
    assert say("turn_cancelled", written) == say("turn_cancelled", spoken)


@pytest.mark.parametrize(
    ("letter", "locale"),
    [("\u03ff", "en"), ("\u0400", "ru"), ("\u04ff", "ru"), ("\u0500", "en"), ("x", "en")],
)
def test_a_letter_of_the_cyrillic_block_is_russian_and_none_beside_it(letter, locale):
    assert language_of(f"a{letter}b") == locale


@pytest.mark.parametrize(
    ("written", "russian"),
    [
        ("5 min", "5\N{NO-BREAK SPACE}мин"), ("1.5 hours", "1,5\N{NO-BREAK SPACE}ч"),
        ("30s", "30\N{NO-BREAK SPACE}с"), ("a day", "a day"), ("5 min or so", "5 min or so"),
        ("3 мин", "3 мин"), ("", ""),
    ],
)  # fmt: skip
def test_an_estimate_has_the_units_of_the_language(written, russian):
    assert (estimate(written, "en"), estimate(written, "ru")) == (written, russian)
