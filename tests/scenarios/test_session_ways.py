"""What a session was opened with holds in it, whatever holds in the others of the runtime."""

import socket
from pathlib import Path

import pytest

from fakes.openai_server import fake_openai
from fakes.world import calls, of, plan, run, says, step
from gonogo.domain.errors import Forbidden, InvalidMessage
from gonogo.server.middleware import _is_stranger
from scenarios.test_away import DOWN, begin

BLIND = {
    "main/architect": [plan(step("a", approval_required=True))],
    "main/coder": [calls(run("touch made")), says("done")],
    "a": [says("done")],
}


async def opened(world, **ways):
    world.session = (await world.runtime.sessions.open(world.ann, **ways)).session_id


async def test_nobody_is_asked_in_a_session_that_is_unattended_and_in_the_others_they_are(make):
    async with make(BLIND) as world:
        await opened(world, unattended=True)
        events = await world.say("Touch", "coder")
        [refused] = of(events, "tool_result")
        assert "there is nobody to ask" in refused["error"]
        assert await world.pending() == []

        await opened(world)
        await world.send({"type": "user_message", "content": "Touch", "agent_type": "coder"})
        await world.until("approval_requested", kind="tool")
        [asked] = await world.pending()
        assert asked.kind == "tool"
        assert world.read("made") is None


@pytest.mark.parametrize(("unattended", "told"), [(True, ["nobody_to_approve"]), (False, [])])
async def test_a_plan_that_would_ask_is_found_fault_with_where_nobody_answers(
    make, unattended, told
):
    async with make(BLIND) as world:
        await opened(world, unattended=unattended)
        await world.propose()
        [asked] = await world.pending()
        found = [each["code"] for each in asked.details["findings"]]
        assert [code for code in found if code == "nobody_to_approve"] == told


async def test_a_plan_of_an_unattended_session_ends_when_its_model_is_away_for_too_long(make):
    with fake_openai() as server:
        async with make({}, model_patience=5) as world:
            await opened(world, unattended=True)
            await begin(world, server, DOWN, "a")
            await world.later(6)
            await world.until("plan_completed", status="failed")
            assert await world.pending() == []


async def test_the_agents_of_a_session_ask_the_model_that_it_was_opened_with(make):
    async with make({"main": [says("scripted")]}) as world:
        world.runtime.parts.models.only = None
        await opened(world, model="demo")
        assert (await world.runtime.sessions.get(world.ann, world.session)).model == "demo"
        asked = world.runtime.parts.models.opened
        events = await world.say("What is this?")
        assert {each.name for each in asked} == {"demo"}
        assert events[-1]["is_final"]


async def test_a_folder_of_ones_own_is_open_to_the_user_of_this_machine_alone(make, tmp_path):
    own = tmp_path / "elsewhere"
    own.mkdir()
    async with make({"main": [says("ok")]}) as world:
        opened = world.runtime.sessions.open
        with pytest.raises(Forbidden, match="outside the allowed roots"):
            await opened(world.ann, workspace=str(own))
        session = await opened(world.ann, workspace=str(own), anywhere=True)
        assert session.workspace == str(own)
        programs = world.runtime.parts.gate.programs
        assert own in programs.more
        for ours in ("/", str(world.settings.home), str(world.settings.home / "snapshots")):
            with pytest.raises(Forbidden):
                await opened(world.ann, workspace=ours, anywhere=True)
        with pytest.raises(InvalidMessage, match="is not a folder"):
            await opened(world.ann, workspace=str(own / "none"), anywhere=True)
        await world.restart()
        assert own in world.runtime.parts.gate.programs.more


async def test_where_no_folder_is_meant_one_has_to_be_named(make, tmp_path):
    async with make({"main": [says("ok")]}) as world:
        world.settings = world.settings.model_copy(update={"workspace": Path("/")})
        await world.restart()
        assert world.settings.allowed_roots == ()
        with pytest.raises(InvalidMessage, match="name the folder"):
            await world.runtime.sessions.open(world.ann)
        for ours in ("/", str(world.settings.home)):
            with pytest.raises(Forbidden, match="it must be a folder of yours"):
                await world.runtime.sessions.open(world.ann, workspace=ours, anywhere=True)
        with pytest.raises(Forbidden, match="roots: none"):
            await world.runtime.sessions.open(world.ann, workspace=str(tmp_path))


def test_who_is_at_the_other_end_of_a_unix_socket_is_known():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs, socket.socket() as far:
        assert not _is_stranger(ours)
        assert not _is_stranger(far)
        assert not _is_stranger(None)
        told = ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        stranger = told[:4] + (4_242).to_bytes(4, "little") + told[8:]
        assert _is_stranger(_Told(stranger))


class _Told:
    """A connection of another user, whom only root could be in a test."""

    family = socket.AF_UNIX

    def __init__(self, told: bytes) -> None:
        self._told = told

    def getsockopt(self, *_: int) -> bytes:
        return self._told
