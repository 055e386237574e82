"""Sessions outlive editors: listed, loaded with what was said, and what was open is asked again."""

import json
from typing import Any

import anyio
import pytest
from acp import RequestError

from fakes.asked import until_asked
from fakes.nursery import Nursery
from fakes.world import calls, says, write

SCRIPT = {
    "rules": [{"when": {"last": "make"}, "reply": calls(write("a.txt", "one\n"))}],
    "default": says("Done."),
}


@pytest.mark.feature(87)
async def test_what_was_open_is_asked_again_when_the_session_is_loaded(editor, folder, provider):
    provider.script(SCRIPT)
    async with editor() as first, anyio.create_task_group() as group:
        session = (await first.open(folder)).session_id
        await first.agent.set_session_mode(session_id=session, mode_id="coder")
        assert await first.say(session, "hello") == "end_turn"
        first.patience = anyio.Event()
        group.start_soon(_unanswered, first, session)
        await first.until(lambda: first.questions)
        await first.hang_up()

    async with editor() as pad, anyio.create_task_group() as group:
        await pad.greet()
        pad.patience = anyio.Event()
        listed = await pad.agent.list_sessions(cwd=str(folder))
        assert [each.session_id for each in listed.sessions] == [session]
        assert (await pad.agent.list_sessions(cwd="/elsewhere")).sessions == []
        loaded = await pad.agent.load_session(session_id=session, cwd=str(folder), mcp_servers=[])
        assert loaded.modes.current_mode_id == "coder"
        said = [update.content.text for update in pad.of("user_message_chunk")]
        assert said == ["hello", "make"]
        assert "Done." in pad.text
        await pad.until(lambda: pad.questions)
        # Some editors show nobody what is asked outside of a prompt.
        group.start_soon(pad.say, session, "and?")
        await pad.until(lambda: len(pad.questions) == 2)
        assert len(pad.methods("$/cancel_request")) == 1
        pad.patience.set()
        await pad.until(lambda: (folder / "a.txt").exists())
        await pad.until(lambda: pad.text.count("Done.") == 3)
        await pad.agent.close_session(session_id=session)
        with pytest.raises(RequestError):
            await pad.say(session, "and?")


@pytest.mark.parametrize("again", ["load_session", "resume_session"])
async def test_a_prompt_is_answered_though_its_session_is_opened_again(
    editor, folder, provider, again
):
    provider.script(SCRIPT)
    async with editor() as pad, anyio.create_task_group() as group:
        session = (await pad.open(folder)).session_id
        await pad.agent.set_session_mode(session_id=session, mode_id="coder")
        refused: list[RequestError] = []

        async def ask() -> None:
            with pytest.raises(RequestError) as error:
                await pad.say(session, "make")
            refused.append(error.value)
            pad.tell()

        pad.patience = anyio.Event()
        group.start_soon(ask)
        await pad.until(lambda: pad.questions)
        await getattr(pad.agent, again)(session_id=session, cwd=str(folder), mcp_servers=[])
        await pad.until(lambda: refused)
        assert str(refused[0]).startswith("The session was opened again or deleted here")
        await pad.until(lambda: len(pad.questions) == 2)
        pad.patience.set()
        await pad.until(lambda: (folder / "a.txt").exists())


async def _unanswered(pad: Any, session: str) -> None:
    with pytest.raises(ConnectionError):
        await pad.say(session, "make")


async def test_what_is_decided_elsewhere_is_taken_back_here(
    editor, folder, provider, born: Nursery, env, tmp_path
):
    provider.script(SCRIPT)

    def gonogo(*words: str) -> str:
        done = born.run("gonogo", *words, env=env, cwd=tmp_path, stdin="", timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with editor() as pad:
        session = (await pad.open(folder)).session_id
        await pad.agent.set_session_mode(session_id=session, mode_id="coder")
        pad.patience = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(pad.say, session, "make")
            await pad.until(lambda: pad.questions)
            listed = await anyio.to_thread.run_sync(gonogo, "approvals", "list", "--json")
            (waiting,) = json.loads(listed)["approvals"]
            assert waiting["session_id"] == session
            await anyio.to_thread.run_sync(
                gonogo, "approvals", "decide", waiting["approval_id"], "approve"
            )
        assert len(pad.methods("$/cancel_request")) == 1
        await pad.until(lambda: "Done." in pad.text)
        pad.patience.set()
    assert (folder / "a.txt").exists()


async def test_what_runs_goes_on_when_the_editor_is_closed(editor, folder, provider, background):
    provider.script({"default": {"text": "It took a while.", "held": True}})
    async with editor(more=background) as pad:
        session = (await pad.open(folder)).session_id
        async with anyio.create_task_group() as group:
            group.start_soon(_unanswered, pad, session)
            await until_asked(provider, lambda requests: len(requests) == 1)
            await pad.hang_up()
            assert await anyio.to_thread.run_sync(pad.process.wait, 60) == 0
    provider.go()
    async with editor(more=background) as pad:
        await pad.greet()
        await pad.agent.load_session(session_id=session, cwd=str(folder), mcp_servers=[])
        await pad.until(lambda: "It took a while." in pad.text)
