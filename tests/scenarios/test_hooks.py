"""Whoever the operator names is told what people are asked, whatever becomes of the runtime."""

import base64
from datetime import timedelta

import anyio
import pytest

from fakes import receiver as receivers
from fakes.receiver import answers, receiver
from fakes.world import LIMIT, calls, on_both, says, step, write
from fakes.world import plan as planned
from gonogo.webhooks import BadHooks
from webhooks.test_delivery import verify

SECRET = b"s" * 32
LINES = {
    "main/architect": [planned(step("a")), says("done")],
    "a": [calls(write("a.txt")), says("a is done")],
}
ASKS = {"main/coder": [calls(write("b.txt", "hello\n")), says("written")]}


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("CHAT_SECRET", "whsec_" + base64.b64encode(SECRET).decode())


@pytest.fixture
def hooks(tmp_path):
    """Writes the hooks file of the world that is made next."""

    def write_file(url: str, *more: str) -> None:
        folder = tmp_path / "config"
        folder.mkdir(exist_ok=True)
        lines = ["[[hook]]", 'name = "chat"', f'url = "{url}"', 'secret_env = "CHAT_SECRET"']
        (folder / "hooks.toml").write_text("\n".join([*lines, *more, ""]))

    return write_file


@on_both
async def test_a_hook_hears_of_a_plan_and_of_its_approval(make, hooks):
    async with receiver() as told:
        hooks(told.url)
        async with make(LINES) as world:
            plan_id = await world.propose()
            (first,) = await told.got(1)
            await world.decide_plan(plan_id)
            _, second = await told.got(2)

    verify(first, SECRET)
    verify(second, SECRET)
    assert first.message["type"] == "approval.requested"
    data = first.message["data"]
    assert data["session_id"] == world.session
    assert data["approval"]["plan_id"] == plan_id
    assert data["approval"]["status"] == "pending"
    assert data["text"].startswith("A plan waits for your decision: A goal\n\n# Plan: A goal")
    assert "Do a" in data["text"]
    after = second.message["data"]["approval"]
    assert (second.message["type"], after["status"]) == ("approval.resolved", "approved")
    assert after["decided_by"] == "ann"


async def test_a_warning_and_an_expiry_are_told_too(make, hooks):
    async with receiver() as told:
        hooks(told.url, 'events = ["warning", "resolved"]')
        async with make(ASKS, approval_expiry_tool=7_200, approval_warning=3_600) as world:
            await world.say("Write", "coder")
            await world.later(3_700)
            (warning,) = await told.got(1)
            await world.later(3_700)
            _, resolved = await told.got(2)

    assert warning.message["type"] == "approval.warning"
    assert "coder asks to use write_file" in warning.message["data"]["text"]
    assert resolved.message["data"]["approval"]["status"] == "expired"


async def test_it_is_told_when_others_may_decide_too(make, hooks, tmp_path):
    async with receiver() as told:
        hooks(told.url, 'events = ["escalated"]')
        (tmp_path / "config" / "rules.toml").write_text(
            '[[review]]\nkind = "plan"\nreviewers = ["bob"]\n'
            'escalate_after = "30m"\nescalate_to = ["eve"]\n'
        )
        async with make(LINES) as world:
            await world.propose()
            await world.later(31 * 60)
            (escalated,) = await told.got(1)

    assert escalated.message["type"] == "approval.escalated"
    assert escalated.message["data"]["approval"]["review"]["reviewers"] == ["bob", "eve"]


async def test_a_dead_receiver_holds_up_nothing_and_hears_everything_later(make, hooks):
    async with receiver() as told:
        told.behaviour = receivers.hangs
        hooks(told.url, "timeout = 60")
        async with make(LINES) as world:
            plan_id = await world.begin()
            await world.until("plan_completed")
            assert world.read("a.txt") == "made\n"
            await told.got(1)
            told.behaviour = answers(204)
            await world.stop()
            world.clock.ahead += timedelta(seconds=62)
            await world.start()
            messages = [r.message for r in await told.got(3)]

    assert [m["type"] for m in messages[1:]] == ["approval.requested", "approval.resolved"]
    assert {m["data"]["approval"]["plan_id"] for m in messages} == {plan_id}


async def test_what_fails_is_counted_and_tried_again_by_the_clock(make, hooks):
    async with receiver() as told:
        told.once = [answers(500)]
        hooks(told.url)
        async with make(ASKS) as world:
            await world.say("Write", "coder")
            await told.got(1)
            await world.idle()
            await world.later(10)
            first, second = await told.got(2)
            await world.idle()
            metrics = world.runtime.metrics.render().decode()

    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert 'webhook_deliveries_total{hook="chat",outcome="retried"} 1.0' in metrics
    assert 'webhook_deliveries_total{hook="chat",outcome="sent"} 1.0' in metrics


async def test_a_message_that_hangs_takes_no_place_from_work(make, hooks):
    async with receiver() as told:
        told.behaviour = receivers.hangs
        hooks(told.url, "timeout = 60", 'kinds = ["tool"]')
        async with make(ASKS) as world:
            room = world.runtime.parts.dispatcher._room
            everything = room.value
            await world.say("Write", "coder")
            await told.got(1)
            with anyio.fail_after(LIMIT):
                while room.value < everything:  # noqa: ASYNC110 - it tells nobody
                    await anyio.sleep(0.003)


async def test_a_bad_hooks_file_is_refused_at_the_start_with_its_place(make, hooks):
    hooks("gopher://example")
    with pytest.raises(ExceptionGroup) as refused:
        async with make(LINES):
            pass
    found = refused.value.exceptions[0]
    assert isinstance(found, BadHooks)
    assert "hooks.toml:1: hook 1: url: " in str(found)


async def test_a_workspace_names_no_hooks(make, tmp_path):
    async with receiver() as told:
        folder = tmp_path / "work"
        for place in (folder, folder / ".gonogo"):
            place.mkdir(exist_ok=True)
            text = f'[[hook]]\nname="x"\nurl="{told.url}"\nsecret_env="CHAT_SECRET"\n'
            (place / "hooks.toml").write_text(text)
        async with make(ASKS) as world:
            await world.say("Write", "coder")
            (asked,) = await world.pending()
            await world.idle()
            assert world.runtime.parts.sender.hooks == {}

    assert asked.tool_name == "write_file"
    assert told.received == []
