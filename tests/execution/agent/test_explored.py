"""Explorers by themselves: whose work they are, what ends them, and how much they may answer."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.errors import InternalFailure, ModelFailed
from gonogo.domain.failures import Category, Classified, NoWork, Severity
from gonogo.domain.records import Session
from gonogo.domain.tool_calls import Reply, ToolRequest, UserText
from gonogo.execution.agent import fields_from, role_of
from gonogo.execution.agent.conversation import (
    MOST_BYTES,
    NOBODYS,
    Thread,
    _is_its_own,
    _last_word,
    bounded,
    explorer_of,
    explorers_of,
)
from gonogo.execution.agent.profiles import explorer_profile
from gonogo.runtime import bare_thread


class Owner:
    """Somebody who is asked, and who writes down what they were told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def check(self, tx: object) -> None:
        self.told.append("check")

    def park(self, tx: object) -> None:
        self.told.append("park")

    def is_waiting(self, tx: object) -> bool:
        self.told.append("is_waiting")
        return True

    def answered(self, tx: object) -> None:
        self.told.append("answered")


def asker(owner: Owner) -> Thread:
    return replace(
        bare_thread(Path("/code"), "architect"), session_id="s1", name="main", script="main",
        turn_id="t1", owner=owner, speak=lambda calls: Reply(), role="plan",
    )  # fmt: skip


def test_an_explorer_is_its_askers_work_and_asks_nobody() -> None:
    owner = Owner()
    found = explorer_of(asker(owner), "call_1", 2)

    assert (found.name, found.script, found.agent) == ("main#call_1.2", "explore-2", "explorer")
    assert (found.profile, found.speak) == (explorer_profile(), None)
    assert (found.attended, found.quiet, found.max_requests) == (False, True, 20)
    assert (found.session_id, found.turn_id, found.role) == ("s1", "t1", "plan")
    assert explorers_of("main", "call_1") == [f"main#call_1.{n}" for n in range(1, 5)]

    tx: object = object()
    found.owner.check(tx)
    found.owner.park(tx)
    assert found.owner.is_waiting(tx)
    found.owner.answered(tx)
    # It waits for nobody, so its asker is not told to.
    assert owner.told == ["check", "is_waiting", "answered"]


def test_an_answer_is_told_whole_up_to_its_bound_and_else_says_what_is_left_out() -> None:
    whole = "x" * (MOST_BYTES - 2)
    assert bounded(whole, "en") == whole

    cut = bounded("x" * (MOST_BYTES - 1), "en")
    kept = cut.partition("…")[0]
    assert cut == f"{kept}… ({MOST_BYTES - 1 - len(kept)} more characters)"
    assert len(json.dumps(cut, ensure_ascii=False).encode()) == MOST_BYTES
    # Quotes and letters of other alphabets take more bytes than they are characters.
    for letter in ('"', "ы", "漢"):
        found = bounded(letter * MOST_BYTES, "ru")
        assert MOST_BYTES - 100 < len(json.dumps(found, ensure_ascii=False).encode()) <= MOST_BYTES
        left = MOST_BYTES - found.count(letter)
        assert found.endswith(f"… (ещё символов: {left})")


@pytest.mark.parametrize(
    ("error", "own"),
    [
        (InternalFailure("it turns in a circle"), True),
        (NoWork("it says nothing"), True),
        (Classified("no", severity=Severity.LOW, category=Category.LOGIC), True),
        (ModelFailed("no such model", http_status=404), True),
        (ModelFailed("overloaded", http_status=529, transient=True), False),
        (ModelFailed("slow down", http_status=429, retry_after=3_600.0), False),
    ],
    ids=["circle", "silence", "classified", "unknown model", "away", "quota"],
)
def test_an_explorers_own_end_keeps_its_asker_from_nothing(
    error: InternalFailure, own: bool
) -> None:
    assert _is_its_own(error) is own


def test_what_an_explorer_had_come_to_is_its_whole_last_word() -> None:
    asked = UserText(content="Where?")
    begun, ended = Reply(text="In a", cut=True), Reply(text=".txt")

    assert _last_word([asked, begun, ended]) == "In a.txt"
    assert _last_word([asked, ended]) == ".txt"
    assert _last_word([asked, begun]) is None
    assert _last_word([asked]) is None
    looks = Reply(text="Let me see", calls=(ToolRequest(id="c", name="read_file"),))
    assert _last_word([asked, looks]) is None


# Conversations ----------------------------------------------------------------------------------


def test_a_model_is_asked_for_what_its_agent_does() -> None:
    found = {name: role_of(name) for name in ("orchestrator", "architect", "coder", "explorer")}
    assert found == {
        "orchestrator": "route", "architect": "plan", "coder": "work", "explorer": "work",
    }  # fmt: skip


def test_a_conversation_has_from_its_session_what_all_of_them_have() -> None:
    session: Session = rows.session(spoken="ru", model="openai:x", tool_host="client")
    assert fields_from(session) == {
        "session_id": "s1", "locale": "ru", "workspace": Path("/code"), "remote": True,
        "model": "openai:x", "attended": True, "limits": None,
    }  # fmt: skip
    other = fields_from(rows.session(unattended=True))
    assert (other["remote"], other["attended"], other["model"]) == (False, False, None)


def test_events_name_of_the_place_of_a_conversation_what_there_is() -> None:
    bare = bare_thread(Path("/code"), "ask")
    assert bare.place == {"agent": "ask"}
    whole = replace(bare, turn_id="t", plan_id="p", subtask_id="s")
    assert whole.place == {"turn_id": "t", "plan_id": "p", "subtask_id": "s", "agent": "ask"}
    assert not NOBODYS.is_waiting(object())
    assert (bare.auto_approve, bare.role, bare.attended, bare.quiet) == (True, "work", True, False)
