"""The exit code tells what came of the work."""

import pytest

from gonogo.cli.session.conversation import Outcome
from gonogo.cli.support import Exit, explained


def event(kind: str, **fields: object) -> dict[str, object]:
    return {"type": kind, **fields}


def plan_over(status: str) -> dict[str, object]:
    return event("plan_completed", metadata={"plan_id": "p", "status": status})


def refused(error: str, **place: str) -> dict[str, object]:
    return event("tool_result", call_id="c", tool_name="write_file", error=error, **place)


ASKED = event(
    "tool_call",
    call_id="c",
    tool_name="ask_followup_question",
    arguments={"question": "Which?"},
    requires_approval=False,
)


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([], Exit.DONE),
        ([event("assistant_message", content="42", is_final=True)], Exit.DONE),
        ([plan_over("completed")], Exit.DONE),
        ([plan_over("partial")], Exit.FAILED),
        ([plan_over("failed")], Exit.FAILED),
        ([event("plan_rejected", metadata={"plan_id": "p"})], Exit.DENIED),
        ([event("plan_cancelled", metadata={"plan_id": "p"})], Exit.FAILED),
        ([event("error", code="model_error", content="x")], Exit.FAILED),
        ([event("error", code="policy_denied", content="x")], Exit.DENIED),
        (
            [event("error", code="internal", content="x", subtask_id="a"), plan_over("completed")],
            Exit.DONE,
        ),
        (
            [
                event(
                    "tool_rejected", call_id="c", metadata={"decision": "reject", "source": "rule"}
                )
            ],
            Exit.DENIED,
        ),
        (
            [
                event(
                    "tool_rejected",
                    call_id="c",
                    metadata={"decision": "reject", "source": "person"},
                )
            ],
            Exit.DENIED,
        ),
        ([refused("policy_denied: no"), plan_over("completed")], Exit.DENIED),
        ([refused("policy_denied: no", subtask_id="a"), plan_over("completed")], Exit.DENIED),
        ([refused("protected_path: no", subtask_id="a"), plan_over("failed")], Exit.DENIED),
        ([refused("expired: nobody decided"), plan_over("completed")], Exit.DENIED),
        ([refused("file_not_found: a.txt"), plan_over("completed")], Exit.DONE),
        ([refused("io_error: policy_denied: b"), plan_over("partial")], Exit.FAILED),
    ],
)
def test_the_exit_code_follows_from_the_events(events, code):
    outcome = Outcome()
    for happened in events:
        outcome.note(happened)
    assert outcome.exit is code


def test_what_came_of_an_earlier_message_does_not_count():
    outcome = Outcome()
    outcome.note(event("error", code="invalid_plan", content="x"))
    outcome.fresh()
    assert outcome.exit is Exit.DONE


def test_what_was_denied_counts_whatever_was_said_since():
    outcome = Outcome()
    outcome.note(refused("policy_denied: no"))
    outcome.fresh()
    outcome.note(plan_over("completed"))
    assert outcome.exit is Exit.DENIED


def test_a_question_of_the_agent_stands_until_it_has_a_result():
    outcome = Outcome()
    outcome.note(ASKED)
    assert outcome.question == "Which?"
    outcome.note(event("tool_result", call_id="c", tool_name="ask_followup_question"))
    assert outcome.question is None


@pytest.mark.parametrize(
    ("reason", "paused"), [(None, True), ("lunch", True), ("quota", False), ("budget", False)]
)
def test_only_a_pause_that_somebody_asked_for_is_one_to_go_on_from(reason, paused):
    outcome = Outcome()
    facts = {"plan_id": "p"} | ({"reason": reason} if reason else {})
    outcome.note(event("plan_paused", metadata=facts))
    assert (outcome.is_paused, outcome.exit) == (paused, Exit.DONE)
    outcome.note(event("plan_resumed", metadata={"plan_id": "p"}))
    assert not outcome.is_paused


def test_a_plan_is_remembered_while_it_is_not_over():
    outcome = Outcome()
    outcome.note(event("plan_notification", metadata={"plan_id": "p"}))
    assert outcome.plan_id == "p"
    outcome.note(plan_over("completed"))
    assert outcome.plan_id is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "gonogo: No space left on device\n"),
        (OSError(13, "Permission denied", "a.txt"), "gonogo: a.txt: Permission denied\n"),
    ],
)
def test_what_the_system_refuses_is_said_in_a_line_with_the_file_if_there_is_one(
    error, said, capsys
):
    with pytest.raises(SystemExit) as ended, explained():
        raise error
    assert (ended.value.code, capsys.readouterr().err) == (Exit.FAILED, said)
