"""How subtasks end: by a call that holds the whole answer, a last word, or what checks saw."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.checks import DoneCheck
from gonogo.domain.errors import InvalidArguments
from gonogo.domain.failures import Category, Failure
from gonogo.domain.tool_calls import Message, Reply, Steering, ToolRequest, UserText
from gonogo.execution.plans.checks import CheckSeen
from gonogo.execution.plans.subtasks import (
    _heard,
    _last_word,
    _sent_back,
    _unmet,
    _usable,
    _write_all,
    decided,
    judged,
)
from gonogo.execution.scheduling import Completed, Failed, Parked, Step, Work
from gonogo.runtime import bare_thread
from gonogo.store import Store, Tx
from gonogo.store.sessions import append_message


@pytest.fixture
def kind() -> str:
    return "sqlite"


def step(**inputs: Any) -> Step:
    sub = rows.subtask("a")
    work = Work(key="p1/1/a", revision=rows.revision(sub), subtask=sub, epoch=1)
    return Step(work=work, attempt=1, inputs=inputs, results={}, now=lambda: rows.NOW)


def test_a_decision_is_one_of_the_plans_options_or_else_of_its_own() -> None:
    said = {"options": ["x", "y"], "choice": "y", "reasoning": "shorter"}
    assert decided(step(), said, "coder").result == {
        "status": "completed", "output": "y",
        "metadata": {"options": ["x", "y"], "reasoning": "shorter", "agent": "coder"},
    }  # fmt: skip
    planned = decided(step(options=["y", "z"]), said, "model").result
    assert planned["metadata"] == {"options": ["y", "z"], "reasoning": "shorter", "agent": "model"}
    with pytest.raises(InvalidArguments) as refused:
        decided(step(options=["z"]), said, "coder")
    assert str(refused.value) == "choice: 'y' is not one of ['z']"


def test_a_verdict_that_does_not_hold_is_a_failure_with_its_reasons() -> None:
    right = judged(step(), {"valid": True, "reasons": ("seen", "read")}, "coder")
    assert isinstance(right, Completed)
    assert right.result == {
        "status": "completed", "output": {"valid": True, "reasons": ["seen", "read"]},
        "metadata": {"agent": "coder"},
    }  # fmt: skip
    wrong = judged(step(), {"valid": False, "reasons": ["one", "two"]}, "coder")
    assert isinstance(wrong, Failed)
    assert wrong.failure == Failure(
        message="Validation failed: one; two", severity="high", category=Category.VALIDATION
    )


def test_what_a_registered_kind_gives_is_kept_only_if_it_can_be() -> None:
    for outcome in (Completed({"a": 1}), Parked(), Failed(Failure(message="no"))):
        assert _usable(outcome) is outcome
    with pytest.raises(TypeError, match=r"^a kind gives an outcome, not dict$"):
        _usable({"a": 1})
    with pytest.raises(TypeError):
        _usable(Completed(object()))
    with pytest.raises(ValueError, match="not JSON compliant"):
        _usable(Completed(float("nan")))


def test_an_end_says_how_many_words_its_agent_knew_of() -> None:
    for outcome in (Completed(1), Failed(Failure(message="no"))):
        assert _heard(outcome, Reply(heard=3)) == replace(outcome, heard=3)
        assert _heard(outcome, Reply()) == outcome
    assert _heard(None, Reply(heard=3)) is None
    assert _heard(Parked(), Reply(heard=3)) == Parked()


def seen(holds: bool, said: str = "so", failure: Failure | None = None) -> CheckSeen:
    return CheckSeen(check=DoneCheck(file_exists="out"), holds=holds, seen=said, failure=failure)


def test_an_attempt_fails_with_what_its_checks_lack_or_with_what_barred_one() -> None:
    text = seen(True).check.text
    lacks = _unmet([seen(True, "fine"), seen(False, "x" * 1_001), seen(False, "y")])
    assert lacks == Failure(
        message=f"Validation failed: {text}: {'x' * 1_000}; {text}: y", severity="high",
        category=Category.VALIDATION,
    )  # fmt: skip
    many = _unmet([seen(False, "z" * 1_000)] * 9)
    assert len(many.message) == len("Validation failed: ") + 4_000
    barred = Failure(message="no", category=Category.POLICY)
    assert _unmet([seen(False), seen(False, failure=barred)]) == barred
    assert _unmet([seen(True, failure=barred), seen(False)]).category == "validation"


def test_all_that_is_to_be_written_is_written_in_order() -> None:
    written: list[int] = []
    tx: Any = object()
    _write_all([lambda tx: written.append(1), None, lambda tx: written.append(2)], tx)
    assert written == [1, 2]


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ([Reply(text="Done")], "Done"),
        ([Reply(text="Do", cut=True), Reply(text="ne")], "Done"),
        ([Reply(text="Do", cut=True)], None),
        ([Reply(text="x", calls=(ToolRequest(id="c", name="read_file"),))], None),
        ([Reply(text="Done"), UserText(content="not done", about="checks")], None),
        ([Reply(text="Done"), Steering(content="And this?")], None),
        ([Steering(content="And this?"), Reply(text="Done", heard=1)], "Done"),
    ],
)
async def test_an_agent_has_ended_with_a_whole_word_that_knew_of_all_that_was_said(
    store: Store, said: list[Message], word: str | None
) -> None:
    thread = replace(bare_thread(Path("/code")), session_id="s1", name="p1/1/a#1")

    def keep(tx: Tx) -> tuple[str | None, int]:
        rows.begin(tx)
        for message in (UserText(content="Go"), *said):
            append_message(tx, "s1", thread.name, message, agent="coder")
        return _last_word(tx, thread), _sent_back(tx, thread)

    backs = sum(getattr(message, "about", None) == "checks" for message in said)
    assert await store.write(keep) == (word, backs)
