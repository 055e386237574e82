"""A question for people without a client: what is asked, safe to look at, in their language."""

import pytest

from fakes.rows import approval, revision, subtask
from gonogo.domain.states import ApprovalKind
from gonogo.i18n.texts import QuestionText, asked, plan_summary


def test_a_tool_call_shows_who_asks_for_what_and_the_very_arguments() -> None:
    found = asked(
        approval(details={
            "arguments": {"path": "a\u202e.txt"}, "preview": "+new", "agent": "coder",
        }),
        "en",
    )  # fmt: skip

    assert found.headline == "coder asks to use write_file"
    assert found.facts == '{\n  "path": "a\\u202e.txt"\n}'
    assert found.plain() == "coder asks to use write_file\n\n+new\n\nasks"
    assert asked(approval(details={"agent": "c"}), "ru").headline.endswith("write_file")


def test_a_plan_is_shown_without_the_part_on_how_to_answer_elsewhere() -> None:
    for locale in ("en", "ru"):
        summary = plan_summary(revision(subtask("a"), subtask("b", "a")), locale)
        plan = approval(
            kind=ApprovalKind.PLAN, subject="Ship\nit", details={"summary": summary, "subtasks": []}
        )
        found = asked(plan, "en")

        assert found.headline == "A plan waits for your decision: Ship\\x0ait"
        assert "**b**" in found.text
        assert "plan_decision" not in found.text


def test_any_other_question_shows_its_facts() -> None:
    found = asked(
        approval(kind="deploy", subject="Deploy", details={"tag": "v1"}, reason="why\x07"), "ru"
    )

    assert found.plain() == 'Deploy\n\n{\n  "tag": "v1"\n}\n\nwhy\\x07'


PLAN = {"kind": ApprovalKind.PLAN, "subject": "w\nx", "reason": "r"}


@pytest.mark.parametrize(
    ("fields", "headline", "text", "facts", "reason"),
    [
        ({"subject": "w\nx", "reason": "r\x07\nz"}, "Агент agent просит вызвать w\\x0ax", "", "{}",
         "r\\x07\nz"),
        ({"details": {"agent": "a\nb", "tool": "t\nu", "preview": "p", "arguments": {"a": 1}}},
         "Агент a\\x0ab просит вызвать t\\x0au", "p", '{\n  "a": 1\n}', "asks"),
        (PLAN, "План ждёт вашего решения: w\\x0ax", "", "[]", ""),
        (PLAN | {"details": {"summary": "s", "subtasks": [{"id": "a"}]}},
         "План ждёт вашего решения: w\\x0ax", "s", '[\n  {\n    "id": "a"\n  }\n]', ""),
        ({"kind": "deploy", "subject": "w\nx", "details": {"a": 1}}, "w\\x0ax", "",
         '{\n  "a": 1\n}', "asks"),
    ],
)  # fmt: skip
def test_each_part_of_a_question_is_told_in_the_language_of_who_is_asked(
    fields, headline, text, facts, reason
):
    expected = QuestionText(headline=headline, text=text, facts=facts, reason=reason)
    assert asked(approval(**fields), "ru") == expected


@pytest.mark.parametrize(
    ("text", "reason", "plain"),
    [("t", "r", "h\n\nt\n\nr"), ("", "r", "h\n\nf\n\nr"), ("t", "", "h\n\nt")],
)
def test_one_text_has_each_part_that_says_something_once(text, reason, plain):
    assert QuestionText(headline="h", text=text, facts="f", reason=reason).plain() == plain
