"""What is true of every Russian text: its forms, its fields, its signs, one word for a thing."""

import re

import pytest

from fakes.catalogues import fields, forms, ids, messages
from gonogo.i18n import counted, decimal, phrase, say, term

RUSSIAN = [(message, text) for message in messages("ru") for text in forms(message)]
OTHER_WORDS = {
    r"\bсеанс": "сессия",
    r"\bредакци": "ревизия",
    r"\bуз(?:ел|л[аыоуе])\b": "хост",
    r"\bдайджест": "отпечаток",
    r"(?<!за )\bпредел(?!ах)": "лимит",
    r"\bвпредь\b": "дальше",
    r"\bотметк": "якорь",
    r"\bутвержд": "одобрить",
    r"\bсоставител": "планировщик",
    r"\bперепланировани[ея] заново": "перепланировать",
}
"""Words that stood for things that have another word, with that word."""
FIXED = ("План подтвержден", "План обновлен", "План отменен")
"""How texts begin that the protocol has word for word."""


def test_a_text_with_a_number_has_all_the_forms_of_its_language():
    for locale, number in (("en", 2), ("ru", 3)):
        several = [each for each in messages(locale) if len(ids(each)) > 1]
        assert [each.id for each in several if len(forms(each)) != number] == []
        assert [each.id for each in several if not all(forms(each))] == []
        assert several


def test_a_text_has_the_fields_of_its_english_in_each_of_its_forms():
    english = {part: each for each in messages("en") for part in ids(each)}
    wrong = list[object]()
    for message, text in RUSSIAN:
        told = forms(english[ids(message)[0]]) if message.context is None else ids(message)
        if fields(text) != fields(told[-1]):
            wrong.append(message.id)
    assert wrong == []


@pytest.mark.parametrize(("wrong", "right"), OTHER_WORDS.items())
def test_a_thing_has_one_russian_word(wrong, right):
    found = [text for _, text in RUSSIAN if re.search(wrong, text, re.IGNORECASE)]
    assert found == [], f"the word is {right}"


def test_russian_texts_have_russian_signs():
    texts = [text for _, text in RUSSIAN if not text.startswith(FIXED)]
    assert [text for text in texts if re.search(r"(?<![=\w])\"[а-яё]", text, re.IGNORECASE)] == [
        'Скажите, что нужно сделать, например: gonogo run "Добавь флаг --json"'
    ]
    assert [text for text in texts if re.search(r"[а-яё] [-–] [а-яё]", text)] == []
    assert [text for text in texts if re.search(r"[}\d] (?:с|мин|ч|%|МиБ)(?![а-яё])", text)] == []


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "Остановлено после 1 шага: "), (2, "Остановлено после 2 шагов: "),
        (5, "Остановлено после 5 шагов: "), (21, "Остановлено после 21 шага: "),
    ],
)  # fmt: skip
def test_a_number_has_its_form_in_russian(count, said):
    assert say("turn_limit", "ru", count=count).startswith(said)


@pytest.mark.parametrize(
    ("count", "russian", "english"),
    [
        (1, "Восстановлен 1 файл.", "1 file restored."),
        (2, "Восстановлены 2 файла.", "2 files restored."),
        (5, "Восстановлено 5 файлов.", "5 files restored."),
        (11, "Восстановлено 11 файлов.", "11 files restored."),
        (21, "Восстановлен 21 файл.", "21 files restored."),
        (22, "Восстановлены 22 файла.", "22 files restored."),
    ],
)
def test_a_sentence_agrees_with_its_number(count, russian, english):
    words = ("{count} file restored.", "{count} files restored.")
    assert counted(*words, count, "ru") == russian
    assert counted(*words, count, "en") == counted(*words, count, None) == english


@pytest.mark.parametrize(
    ("key", "one", "few", "many"),
    [
        ("plan_approved", "1 подзадачи...", "3 подзадач...", "5 подзадач..."),
        ("stuck_repeated", "1 раз (x)", "4 раза (x)", "5 раз (x)"),
        ("stuck_monologue", "1 ответ без", "3 ответа подряд", "5 ответов подряд"),
        ("cli_open_console", "1 минуту:", "2 минуты:", "10 минут:"),
        ("cli_plan_too_many", "1 подзадачи;", "2 подзадач;", "50 подзадач;"),
        ("cli_suggested", "1 раза и", "2 раз и", "5 раз и"),
        ("replan_question", "1 раз,", "2 раза,", "5 раз,"),
    ],
)
def test_what_was_declined_wrongly_is_declined(key, one, few, many):
    given = dict.fromkeys(("tools", "url", "reason", "detail"), "x")
    for said in (one, few, many):
        count = int(said.split()[0])
        assert said in say(key, "ru", count=count, **given)


def test_what_has_no_form_and_what_is_not_known_stands_as_it_is():
    assert say("cli_identical", "ru", count=1) == "одинаковых: 1"
    assert phrase("no such text {x}", "ru") == "no such text {x}"
    assert term("plan", "awaiting_approval", "ru") == "ждёт одобрения"
    assert term("plan", "awaiting_approval", "en") == "awaiting_approval"
    assert term("plan", "of another version", "ru") == "of another version"
    assert (decimal(0.25, "ru", 2), decimal(0.25, "en", 2), decimal(2, "de")) == (
        "0,25", "0.25", "2.0",
    )  # fmt: skip
