"""kill -9 around a delivery: whoever is to be told is told, under the same id."""

import base64
import sqlite3
from contextlib import closing, suppress

import anyio
import httpx
import pytest

from durability import story
from durability.ground import Ground
from durability.server import Server
from fakes import receiver as receivers
from fakes.receiver import answers, receiver
from fakes.sockets import held_port
from gonogo.webhooks import DELIVERY
from webhooks.test_delivery import verify

SECRET = b"s" * 32
LIMIT = 120
LONG_AGO = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def told_of(ground: Ground):
    """Writes the hooks file of the servers to come."""
    ground.environment["CHAT_SECRET"] = "whsec_" + base64.b64encode(SECRET).decode()

    def write(url: str) -> None:
        config = ground.folder / "config"
        config.mkdir(exist_ok=True)
        (config / "hooks.toml").write_text(
            f'[[hook]]\nname = "chat"\nurl = "{url}"\nsecret_env = "CHAT_SECRET"\ntimeout = 30\n'
        )

    return write


async def alive(ground: Ground) -> Server:
    return await anyio.to_thread.run_sync(ground.server().wait)


async def ask(server: Server) -> None:
    """Have the plan proposed; the server may be killed meanwhile."""
    message = {"type": "user_message", "content": story.FIRST}
    with suppress(httpx.HTTPError):
        async with server.http() as http:
            body = {"session_id": story.SESSION, "message": message}
            await http.post("/agent/message/stream", json=body)


def wait_is_over(ground: Ground) -> None:
    """What is to be sent again later, is to be sent now; nobody has the database open."""
    with closing(sqlite3.connect(ground.home / "gonogo.db")) as conn, conn:
        conn.execute("UPDATE deliveries SET not_before = created_at")
        conn.execute("UPDATE timers SET run_at = ? WHERE kind = ?", (LONG_AGO, DELIVERY))


async def test_a_message_that_was_under_way_is_sent_again_by_the_next_life(ground: Ground, told_of):
    with anyio.fail_after(LIMIT):
        async with receiver() as chat, anyio.create_task_group() as group:
            chat.behaviour = receivers.hangs
            told_of(chat.url)
            first = await alive(ground)
            group.start_soon(ask, first)
            await chat.got(1)
            first.kill()
            wait_is_over(ground)
            chat.behaviour = answers(200)
            second = await alive(ground)
            before, after = await chat.got(2)

            verify(before, SECRET)
            verify(after, SECRET)
            assert before.headers["webhook-id"] == after.headers["webhook-id"]
            assert before.body == after.body
            approval = before.message["data"]["approval"]
            async with second.client() as client:
                await client.decide(approval["approval_id"], "reject")
            resolved = (await chat.got(3))[2].message

    assert resolved["type"] == "approval.resolved"
    assert resolved["data"]["approval"]["status"] == "rejected"


async def test_a_message_that_nobody_could_take_is_sent_by_the_next_life(ground: Ground, told_of):
    with anyio.fail_after(LIMIT), held_port() as port:
        told_of(f"http://127.0.0.1:{port}/told")
        first = await alive(ground)
        await ask(first)
        async with first.client() as client:
            (asked,) = (await client.approvals(status="pending")).approvals
        first.kill()
        wait_is_over(ground)
        async with receiver(port) as chat:
            await alive(ground)
            (request,) = await chat.got(1)

    verify(request, SECRET)
    assert request.message["data"]["approval"]["approval_id"] == asked.approval_id
