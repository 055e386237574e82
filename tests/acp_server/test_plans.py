"""A plan in an editor: shown as entries, put before the person, decided, changed, carried out."""

from typing import Any

import anyio
import pytest
from acp import RequestError

from fakes.asked import until_commented
from fakes.openai_server import FakeOpenAI
from fakes.world import call, calls, plan, says, step, write

STEPS = [step("app"), step("readme", "app")]
GRAPH = plan(*STEPS, goal="A small app")


def coder(path: str) -> list[dict[str, Any]]:
    """What a coder answers whose subtask is one file."""
    done = call("attempt_completion", result=f"made {path}")
    return [calls(write(path)), calls(done)]


SCRIPT = {
    "rules": [
        # Who answers comments is told of all subtasks, who writes the second file of the first.
        {"when": {"user": "in blue"}, "reply": {"status": 503, "held": True}},
        {"when": {"user": "Do readme"}, "replies": coder("README.md")},
        {"when": {"user": "Do app"}, "replies": coder("app.py")},
        {"when": {"tools": ["create_plan"], "last": "Build it"}, "reply": GRAPH},
    ],
    "default": says("Done."),
}


async def planner(pad: Any, folder: Any, **able: Any) -> str:
    """A session in which the architect answers."""
    session = await pad.open(folder, **able)
    modes = session.modes
    assert modes.current_mode_id == "orchestrator"
    assert {"architect", "coder", "ask"} <= {mode.id for mode in modes.available_modes}
    await pad.agent.set_session_mode(session_id=session.session_id, mode_id="architect")
    return session.session_id


def states(pad: Any) -> list[list[str]]:
    return [[entry.status for entry in update.entries] for update in pad.of("plan")]


async def test_a_plan_is_asked_about_carried_out_and_kept_up_to_date(editor, folder, provider):
    provider.script(SCRIPT)
    async with editor() as pad:
        session_id = await planner(pad, folder)
        assert await pad.say(session_id, "Build it") == "end_turn"
    ((asked, options),) = pad.questions
    assert [option.option_id for option in options] == ["approve", "hold", "reject", "revise"]
    assert "Do readme" in asked.content[0].content.text
    assert asked.field_meta["digest"].startswith("sha256:")
    first = pad.of("plan")[0].entries
    assert [entry.field_meta["dependencies"] for entry in first] == [[], ["app"]]
    assert states(pad) == [
        ["pending", "pending"],
        ["in_progress", "pending"],
        ["completed", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
    ]
    (question,) = [u for u in pad.of("tool_call") if u.tool_call_id == asked.tool_call_id]
    assert question.kind == "think"
    ended = {u.tool_call_id: u.status for u in pad.of("tool_call_update") if u.status}
    assert ended[asked.tool_call_id] == "completed"
    assert (folder / "README.md").read_text() == "made\n"
    assert "Completed: 2" in pad.text
    assert pad.of("current_mode_update")[-1].current_mode_id == "orchestrator"


async def test_a_question_of_an_agent_in_a_subtask_is_answered_by_a_suggestion_or_a_message(
    editor, folder, provider
):
    asks = call("ask_followup_question", question="Which colour?", suggestions=["red", "blue"])
    again = call("ask_followup_question", question="How large?")
    at_work = {"when": {"user": "Do app"}, "replies": [calls(asks), calls(again), *coder("app.py")]}
    blue, readme, _, made = SCRIPT["rules"]
    provider.script({**SCRIPT, "rules": [blue, readme, at_work, made]})
    chosen = iter(["approve", "answer:blue", "answer"])

    async def choose(asked: Any, options: list[Any]) -> str | None:
        return next(chosen, "approve")

    async with editor() as pad:
        session_id = await planner(pad, folder)
        pad.person = choose
        assert await pad.say(session_id, "Build it") == "end_turn"
        assert "Write your answer as your next message." in pad.text
        assert await pad.say(session_id, "Very large") == "end_turn"
        await pad.until(lambda: states(pad)[-1:] == [["completed", "completed"]])
    assert [[option.option_id for option in options] for _, options in pad.questions[1:3]] == [
        ["answer:red", "answer:blue", "answer", "reject"], ["answer", "reject"],
    ]  # fmt: skip
    assert "How large?" in pad.questions[2][0].content[0].content.text
    assert any(all(said in str(r) for said in ("blue", "Very large")) for r in provider.requests)


async def test_a_plan_is_rejected_held_and_started_by_what_the_person_chooses_or_writes(
    editor, folder, provider
):
    provider.script(SCRIPT)
    async with editor() as pad:
        session_id = await planner(pad, folder)
        pad.default = "reject"
        assert await pad.say(session_id, "Build it") == "end_turn"
        assert pad.of("plan")[-1].entries == []
        with pytest.raises(RequestError, match="There are no open questions here"):
            await pad.say(session_id, "/approve")

        pad.default = None
        await pad.agent.set_session_mode(session_id=session_id, mode_id="architect")
        assert await pad.say(session_id, "Build it") == "end_turn"
        assert "/approve" in pad.text
        pad.default = "approve"
        assert await pad.say(session_id, "/hold") == "end_turn"
        assert list(folder.iterdir()) == []
        assert await pad.say(session_id, "/start") == "end_turn"
    assert {path.name for path in folder.iterdir()} == {"app.py", "README.md"}


async def answer_comment(provider: FakeOpenAI) -> None:
    """Script the planner's next attempt, as soon as the comment's id is known."""
    answers = [{"comment_id": await until_commented(provider), "answer": "It is blue now."}]
    made = calls(call("create_plan", goal="Blue", subtasks=STEPS, answers=answers))
    rules = [{"when": {"user": "in blue"}, "reply": made}, *SCRIPT["rules"]]
    provider.script({**SCRIPT, "rules": rules})
    provider.go()


@pytest.mark.parametrize("forms", [False, True])
async def test_a_plan_is_changed_by_its_planner_as_the_person_says(editor, folder, provider, forms):
    provider.script(SCRIPT)
    asked: list[str] = []

    async def choose(tool_call: Any, options: Any) -> str:
        asked.append(tool_call.tool_call_id)
        return "revise" if len(asked) == 1 else "approve"

    async with editor() as pad, anyio.create_task_group() as group:
        session_id = await planner(pad, folder, forms=forms)
        pad.fields, pad.person = {"changes": "Paint it in blue"}, choose
        group.start_soon(answer_comment, provider)
        assert await pad.say(session_id, "Build it") == "end_turn"
        if not forms:
            assert list(folder.iterdir()) == []
            assert await pad.say(session_id, "Paint it in blue") == "end_turn"
    assert len(set(asked)) == len(asked) == 2
    assert len(pad.forms) == forms
    assert (folder / "README.md").exists()
    assert pad.of("plan")[-1].entries[0].field_meta["revision"] == 2
