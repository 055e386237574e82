"""Tool calls in an editor: shown with files and differences, asked about, decided, stopped."""

from typing import Any

import anyio
import pytest
from acp import RequestError

from fakes.asked import until_asked
from fakes.world import call, calls, run, says, write
from gonogo.acp_server.updates import decided, options_of
from gonogo.domain.views import ApprovalView

READ = call("read_file", path="a.txt")
SCRIPT = {
    "rules": [
        {"when": {"last": "make"}, "reply": calls(write("a.txt", "one\n"))},
        {
            "when": {"last": "mend"},
            "reply": calls(call("edit_file", path="a.txt", old="one", new="two")),
        },
        {"when": {"last": "patch"}, "reply": calls(call("apply_patch", patch=(
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n"
        )))},
        {"when": {"last": "both"}, "reply": calls(write("a.txt"), write("b.txt"))},
        {"when": {"last": "show"}, "reply": calls(run("cat a.txt"), READ)},
        {"when": {"last": "long"}, "reply": {"text": "slow", "delay": 30}},
    ],
    "default": says("Done."),
}  # fmt: skip


async def coder(pad: Any, folder: Any, **able: Any) -> str:
    session = await pad.open(folder, **able)
    await pad.agent.set_session_mode(session_id=session.session_id, mode_id="coder")
    return session.session_id


def diffs(content: Any) -> list[tuple[str, str | None, str]]:
    return [(each.path, each.old_text, each.new_text) for each in content if each.type == "diff"]


async def test_calls_show_what_they_do_and_run_when_they_are_allowed(editor, folder, provider):
    provider.script(SCRIPT)
    path = str(folder / "a.txt")
    async with editor() as pad:
        session_id = await coder(pad, folder)
        assert await pad.say(session_id, "make") == "end_turn"
        ((asked, options),) = pad.questions
        assert [option.option_id for option in options] == ["approve", "approve_session", "reject"]
        assert diffs(asked.content) == [(path, None, "one\n")]
        (made,) = pad.of("tool_call")
        assert (made.kind, made.status, made.locations[0].path) == ("edit", "pending", path)
        assert made.tool_call_id == asked.tool_call_id
        assert [u.status for u in pad.of("tool_call_update")] == ["in_progress", "completed"]

        assert await pad.say(session_id, "mend") == "end_turn"
        assert diffs(pad.of("tool_call")[1].content) == [(path, "one", "two")]
        assert await pad.say(session_id, "patch") == "end_turn"
        assert diffs(pad.of("tool_call")[2].content) == [(path, "two\n", "three\n")]
        assert await pad.say(session_id, "show") == "end_turn"
    shown, read = sorted(pad.of("tool_call")[3:], key=lambda update: update.kind)
    assert (shown.kind, shown.title, read.kind) == ("execute", "`cat a.txt`", "read")
    ended = {u.tool_call_id: u for u in pad.of("tool_call_update") if u.status == "completed"}
    assert "three" in ended[shown.tool_call_id].content[0].content.text


async def test_words_are_allowed_the_whole_plan_where_that_is_offered():
    asked = ApprovalView.model_validate({
        "approval_id": "a", "request_id": "c", "kind": "tool", "request_type": "tool",
        "session_id": "s", "subject": "execute_command", "tool_name": "execute_command",
        "details": {"words_for_plan": "touch x"}, "plan_id": "p", "reason": "why", "digest": "d",
        "status": "pending", "created_at": "2026-01-01T00:00:00Z", "call_id": "c",
    })  # fmt: skip
    words = [each.option_id for each in options_of(asked, "en", forms=False)]
    assert words == ["approve", "approve_plan", "approve_session", "reject"]
    sent = [decided(asked, word) for word in words]
    assert [each["decision"] for each in sent] == ["approve"] * 3 + ["reject"]
    assert [each["for_plan"] for each in sent] == [False, True, False, False]
    assert [each["for_session"] for each in sent] == [False, False, True, False]


async def test_a_call_is_rejected_changed_or_left_as_the_person_chooses(editor, folder, provider):
    provider.script(SCRIPT)
    async with editor() as pad:
        session_id = await coder(pad, folder, forms=True)
        pad.default = "reject"
        assert await pad.say(session_id, "make") == "end_turn"
        assert list(folder.iterdir()) == []
        assert pad.of("tool_call_update")[-1].status == "failed"

        pad.default, pad.fields = "edit", {"content": "other\n"}
        assert await pad.say(session_id, "make") == "end_turn"
        assert (folder / "a.txt").read_text() == "other\n"

        pad.default = None
        assert await pad.say(session_id, "make") == "end_turn"
        for of_plans in ("/revise Paint it", "/hold"):
            with pytest.raises(RequestError, match="There are no open questions"):
                await pad.say(session_id, of_plans)
        assert await pad.say(session_id, "/reject not again") == "end_turn"
    assert (folder / "a.txt").read_text() == "other\n"
    assert "not again" in str(provider.requests[-1])


async def test_a_command_that_could_be_about_several_questions_is_about_none(
    editor, folder, provider
):
    provider.script(SCRIPT)
    async with editor() as pad:
        session_id = await coder(pad, folder)
        pad.default = None
        assert await pad.say(session_id, "both") == "end_turn"
        with pytest.raises(RequestError, match="There are 2 open questions"):
            await pad.say(session_id, "/approve")
    assert list(folder.iterdir()) == []


async def test_a_prompt_that_is_cancelled_says_so_and_stops(editor, folder, provider):
    provider.script(SCRIPT)
    async with editor() as pad:
        session_id = await coder(pad, folder)
        pad.patience = anyio.Event()
        ended: list[str] = []

        async def say(text: str) -> None:
            ended.append(await pad.say(session_id, text))

        async with anyio.create_task_group() as group:
            group.start_soon(say, "make")
            await pad.until(lambda: pad.questions)
            await pad.agent.cancel(session_id=session_id)
            await pad.until(lambda: pad.methods("$/cancel_request"))
        pad.patience.set()
        async with anyio.create_task_group() as group:
            group.start_soon(say, "long")
            await until_asked(provider, lambda asked: "long" in str(asked[-1]["messages"][-1]))
            await pad.agent.cancel(session_id=session_id)
        assert ended == ["cancelled", "cancelled"]
        assert await pad.say(session_id, "and now?") == "end_turn"
    assert list(folder.iterdir()) == []
