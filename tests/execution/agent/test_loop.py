"""The loop: when a conversation has gone on for too long, and which calls are judged once more."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.failures import NoWork
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import Reply, Steering, ToolClass, UserText
from gonogo.execution.agent import keep_reply
from gonogo.execution.agent.loop import (
    _check_parts,
    _is_hopeless,
    _is_to_judge,
    _requests,
    _system,
    tell_fallback,
)
from gonogo.i18n import say
from gonogo.runtime import bare_thread
from gonogo.store import Store, Tx
from gonogo.store.events import events_after
from gonogo.store.sessions import history

_C = CallStatus


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.mark.parametrize(
    ("more", "judged"),
    [
        ({"status": _C.PROPOSED}, True),
        ({"status": _C.ALLOWED}, True),
        ({"status": _C.STARTED}, True),
        ({"status": _C.STARTED, "tool_class": ToolClass.CONTROL}, False),
        ({"status": _C.ALLOWED, "tool_class": ToolClass.CONTROL}, True),
        ({"status": _C.AWAITING_APPROVAL}, False),
        ({"status": _C.UNKNOWN}, False),
    ],
)
def test_a_call_is_judged_again_while_something_of_it_can_run(
    more: dict[str, Any], judged: bool
) -> None:
    call = rows.call(**more)
    assert _is_to_judge(call) is judged
    assert _is_hopeless(replace(call, judgings=3)) is False
    assert _is_hopeless(replace(call, judgings=4)) is judged


def test_requests_are_counted_since_the_user_spoke_last() -> None:
    reply = Reply(text="x")
    assert _requests([]) == 0
    assert _requests([reply, UserText(content="Go"), reply, reply]) == 2
    assert _requests([UserText(content="Go"), reply, Steering(content="Mind it"), reply]) == 2
    assert _requests([reply, UserText(content="Go")]) == 0


@pytest.mark.parametrize(("locale", "language"), [("en", "English"), ("ru", "Russian")])
def test_a_prompt_ends_with_the_language_and_names_no_folder(locale: str, language: str) -> None:
    thread = bare_thread(Path("/code/shop"), locale=locale)
    assert _system("You are.", thread) == f"You are.\n\nAnswer in {language}."


def test_a_model_that_says_nothing_or_comes_to_no_end_is_asked_no_more() -> None:
    cut, empty = Reply(text="x", cut=True), Reply(text=" ")
    _check_parts([cut] * 7, "en")
    _check_parts([empty, cut], "en")
    for parts, key, more in (
        ([cut] * 8, "no_work_cut", {"count": 8}),
        ([empty, cut, empty], "no_work_empty", {}),
        ([Reply(text="", asked=2)], "no_work_empty", {}),
    ):
        for locale in ("en", "ru"):
            with pytest.raises(NoWork) as over:
                _check_parts(parts, locale)
            assert str(over.value) == say(key, locale, **more)


async def test_a_reply_is_kept_and_told_as_it_was_said(store: Store) -> None:
    thread = replace(
        bare_thread(Path("/code"), "coder"), session_id="s1", name="main", turn_id="t1"
    )
    place = {"turn_id": "t1", "agent": "coder"}

    def keep(tx: Tx) -> None:
        rows.begin(tx)
        keep_reply(tx, thread, Reply(text="One", model="m"))
        keep_reply(tx, thread, Reply(text="", model="m"))
        keep_reply(tx, thread, Reply(text="", begun="Be", model="m"), final=True)
        keep_reply(tx, replace(thread, quiet=True), Reply(text="Unheard"), final=True)
        keep_reply(tx, thread, Reply(text="", model="n", passed="x" * 301))
        tell_fallback(tx, thread, Reply(model="o", passed="away"))

    await store.write(keep)
    left_out = {"seq", "ts", "session_id"}
    found = [
        {name: value for name, value in event.items() if name not in left_out and value is not None}
        for event in await store.read(events_after, "s1", 0)
    ]
    assert found == [
        {"type": "assistant_message", "content": "One", "is_final": False, **place},
        {"type": "assistant_message", "content": "Be", "is_final": True, **place},
        {
            "type": "model_fallback", "metadata": {"model": "n", "error": "x" * 300},
            "content": say("model_fallback", "en", model="n", error="x" * 300), **place,
        },
        {
            "type": "model_fallback", "metadata": {"model": "o", "error": "away"},
            "content": say("model_fallback", "en", model="o", error="away"), **place,
        },
    ]  # fmt: skip
    kept = await store.read(history, "s1")
    assert len(kept) == 5
    assert {row.agent for row in kept} == {"coder"}
