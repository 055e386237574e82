"""A question for people without a client: what is asked, safe to look at, in their language."""

from fakes.rows import approval, revision, subtask
from gonogo.domain.states import ApprovalKind
from gonogo.i18n import asked, plan_summary


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
