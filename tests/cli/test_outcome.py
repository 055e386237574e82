"""The exit code tells what came of the work."""

import pytest
from pydantic import ValidationError

from gonogo.cli.session.conversation import Outcome
from gonogo.cli.support import Exit, Stop, explained
from gonogo.client import NoAnswer, Unreachable
from gonogo.domain.errors import Busy, InvalidMessage, NotFound, PolicyDenied
from gonogo.settings import Settings


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


def test_the_subtask_that_failed_last_is_known_for_a_retry():
    outcome = Outcome()
    for subtask_id in "ab":
        outcome.note(event("subtask_failed", metadata={"subtask_id": subtask_id}))
    assert outcome.failed_subtask == "b"


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
        (
            OSError(28, "No space left on device"),
            "gonogo: No space left on device; free some space on that disk and try again\n",
        ),
        (
            OSError(30, "Read-only file system", "a"),
            "gonogo: a: Read-only file system; make that disk writable and try again\n",
        ),
        (
            OSError(13, "Permission denied", "a.txt"),
            "gonogo: a.txt: Permission denied; name another file\n",
        ),
    ],
)
def test_what_the_system_refuses_is_said_in_a_line_with_the_file_if_there_is_one(
    error, said, capsys
):
    with pytest.raises(SystemExit) as ended, explained():
        raise error
    assert (ended.value.code, capsys.readouterr().err) == (Exit.FAILED, said)


def said_of(error, capsys):
    """The exit code, and what is said, when a command ends with an error."""
    with pytest.raises(SystemExit) as ended, explained():
        raise error
    return ended.value.code, capsys.readouterr().err.removeprefix("gonogo: ").removesuffix("\n")


REPORT = "please report it with the last lines of gonogo.log in GONOGO_HOME"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Stop("so"), Exit.FAILED, "so"),
        (Stop("so", Exit.WAITS), Exit.WAITS, "so"),
        (PolicyDenied("no"), Exit.DENIED, "no"),
        (InvalidMessage("odd"), Exit.USAGE, "odd"),
        (
            Unreachable("gone"), Exit.FAILED,
            "The process that did the work has ended (gone). Run the command again; to continue a "
            "session: gonogo attach",
        ),
        (
            NoAnswer("late"), Exit.FAILED,
            "The gonogo process is running but does not answer. If it is stopped (state T in ps), "
            "continue it with kill -CONT and its number, which is in owner.lock of GONOGO_HOME; "
            "otherwise try again later",
        ),
        (NotFound("No plan x", see="gonogo plans list"), Exit.FAILED,
         "No plan x; see gonogo plans list"),
        (NotFound("It is not so: No plan x"), Exit.FAILED, "It is not so: No plan x"),
        (Busy("It is away", reason="the disk is full"), Exit.FAILED,
         "It is away (the disk is full)"),
        (Busy("It is away", reason="It is away"), Exit.FAILED, "It is away"),
        (ValueError("odd\nand more"), Exit.FAILED,
         f"internal error: ValueError: odd; {REPORT}"),
        (ValueError("x" * 400), Exit.FAILED,
         f"internal error: ValueError: {'x' * 288}; {REPORT}"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, ""),
        (ExceptionGroup("two", [ExceptionGroup("in", [Stop("first")]), Stop("second")]),
         Exit.FAILED, "first"),
        (BaseExceptionGroup("cut off", [KeyboardInterrupt()]), Exit.INTERRUPTED, ""),
        (OSError("only words"), Exit.FAILED, "only words"),
    ],
)  # fmt: skip
def test_each_end_has_its_code_and_one_line_that_says_what_to_do(error, code, said, capsys):
    assert said_of(error, capsys) == (code, said)


def test_an_error_of_ours_without_a_cure_is_for_the_log_with_its_trace(capsys, caplog):
    said_of(ValueError("odd"), capsys)
    [record] = caplog.records
    assert (record.levelname, record.name, record.getMessage()) == (
        "CRITICAL", "gonogo.cli.support", "internal error",
    )  # fmt: skip
    assert record.exc_info is not None
    said_of(NotFound("No plan"), capsys)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"max_parallel": 0}, "GONOGO_MAX_PARALLEL"),
        ({"port": "http"}, "GONOGO_PORT"),
        ({"GONOGO_OPENAI_BASE_URL": 7}, "GONOGO_OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": 7}, "OPENAI_BASE_URL"),
    ],
)
def test_a_setting_that_cannot_be_is_called_by_its_variable(given, named, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    try:
        Settings(**given)
    except ValidationError as error:
        code, said = said_of(error, capsys)
    assert code is Exit.USAGE
    assert said.startswith(f"{named}: ")
    assert said.endswith("; correct the variable and try again")
