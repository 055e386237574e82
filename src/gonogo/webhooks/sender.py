"""Sends what is due, and tries again what did not arrive.

A hook is one job, which sends a few messages at once and no two about one question. An attempt
that ends with this process is made again by the next one; a receiver may so hear a message twice,
and knows it by its id.
"""

import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from random import uniform
from typing import Any

import anyio
import anyio.to_thread
import httpx
from msgspec import Struct
from msgspec.structs import replace

from gonogo import __version__
from gonogo.domain.records import Job, Timer
from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.store import Store, Tx, go_on
from gonogo.store import events as log
from gonogo.store.jobs import (
    delivery_of,
    drop_timer,
    due_delivery,
    pending_deliveries,
    set_delivery,
    set_timer,
    take_delivery,
)
from gonogo.webhooks.config import Hook, signature
from gonogo.webhooks.outbox import HOOK

OnTimer = Callable[[Tx, Timer], None]
DELIVERY = "delivery"
"""The timer of the next attempt. Its key is the delivery."""
DELAYS = tuple(timedelta(seconds=seconds) for seconds in (5, 60, 300, 1_800, 7_200, 21_600, 54_000))
"""Between attempts, before they are spread: eight attempts within about a day."""
_AT_ONCE = 4
_MARGIN = timedelta(seconds=2)
"""Between the end of an attempt and the moment when it counts as lost."""


class Sender(Struct, frozen=True, kw_only=True):
    """Makes the deliveries of every hook."""

    store: Store
    hooks: Mapping[str, Hook]
    counted: Callable[[str, str], None]
    """Told the hook and what came of an attempt: `sent`, `retried`, `failed`."""
    completed: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    """A body with what is not kept in the database."""
    spread: Callable[[], float] = lambda: uniform(0.8, 1.2)  # noqa: S311 - spreads attempts
    """By how much a delay is stretched, so that a receiver that comes back is not run over."""
    delays: tuple[timedelta, ...] = DELAYS

    def recover(self, tx: Tx) -> None:
        """After a start: send what is left, and give up what has no hook any more."""
        for delivery in pending_deliveries(tx):
            if delivery.hook in self.hooks:
                go_on(tx, HOOK, delivery.hook)
            else:
                self._give_up(tx, delivery, "there is no such hook any more")

    def before(self, others: OnTimer) -> OnTimer:
        """What carries out the timers of deliveries, and leaves all others to `others`."""

        def fire(tx: Tx, timer: Timer) -> None:
            if timer.kind != DELIVERY:
                others(tx, timer)
                return
            delivery = delivery_of(tx, timer.key)
            if delivery is not None and delivery.status is DeliveryStatus.PENDING:
                go_on(tx, HOOK, delivery.hook)

        return fire

    async def job(self, job: Job) -> None:
        """Send whatever is due for one hook."""
        hook = self.hooks.get(job.key)
        if hook is None:
            return

        async with posting(hook) as post, anyio.create_task_group() as group:
            for _ in range(_AT_ONCE):
                group.start_soon(self._send_due, hook, post)

    async def _send_due(self, hook: Hook, post: "Post") -> None:
        while (delivery := await self.store.write(self._take, hook)) is not None:
            problem = await self._attempt(post, delivery)
            outcome = await self.store.write(self._settle, delivery, problem)
            if outcome is not None:
                self.counted(hook.name, outcome)

    def _take(self, tx: Tx, hook: Hook) -> Delivery | None:
        until = tx.now + timedelta(seconds=hook.timeout) + _MARGIN
        while (delivery := due_delivery(tx, hook.name)) is not None:
            if take_delivery(tx, delivery, until):
                # Should this process end before the attempt does, it is made again then.
                set_timer(tx, DELIVERY, delivery.id, until)
                return replace(
                    delivery, epoch=delivery.epoch + 1, attempt=delivery.attempt + 1,
                    not_before=until,
                )  # fmt: skip
        return None

    async def _attempt(self, post: "Post", delivery: Delivery) -> str | None:
        try:
            body = json.dumps(await self.completed(delivery.body)).encode()
        except OSError as error:
            # Trouble of this machine's own; the messages behind it need not have it.
            return f"not made: {type(error).__name__}"
        return await post(delivery.id, body, int(self.store.clock().timestamp()))

    def _settle(self, tx: Tx, delivery: Delivery, problem: str | None) -> str | None:
        if problem is None:
            done = set_delivery(
                tx, delivery, DeliveryStatus.SENT, body={}, error=None, finished_at=tx.now
            )
            if done:
                drop_timer(tx, DELIVERY, delivery.id)
            return "sent" if done else None
        if delivery.attempt > len(self.delays):
            return self._give_up(tx, delivery, problem)
        again = tx.now + self.delays[delivery.attempt - 1] * self.spread()
        to = {"error": problem, "not_before": again}
        if not set_delivery(tx, delivery, DeliveryStatus.PENDING, **to):
            return None
        set_timer(tx, DELIVERY, delivery.id, again)
        return "retried"

    def _give_up(self, tx: Tx, delivery: Delivery, problem: str) -> str | None:
        if not set_delivery(tx, delivery, DeliveryStatus.FAILED, error=problem, finished_at=tx.now):
            return None
        log.note(
            tx, delivery.session_id, actor="gonogo", action="webhook.failed",
            subject=delivery.hook, delivery_id=delivery.id, approval_id=delivery.approval_id,
            event=delivery.event, attempts=delivery.attempt, error=problem,
        )  # fmt: skip
        drop_timer(tx, DELIVERY, delivery.id)
        return "failed"


# One message, posted once.

Post = Callable[[str, bytes, int], Awaitable[str | None]]
"""Posts a body under a message's id, at a time in seconds since 1970. Gives why it did not arrive,
without anything that the receiver said."""


@asynccontextmanager
async def posting(hook: Hook) -> AsyncGenerator[Post]:
    """What posts to one hook."""
    secure = hook.url.startswith("https:")
    async with httpx.AsyncClient(
        verify=await anyio.to_thread.run_sync(_trusted) if secure else False,
        follow_redirects=False,
        # No proxy and no .netrc of the surroundings: what is sent goes where the file says.
        trust_env=False,
        timeout=hook.timeout,
        headers={"user-agent": f"gonogo/{__version__}", "content-type": "application/json"},
    ) as client:

        async def post(message_id: str, body: bytes, timestamp: int) -> str | None:
            return await _post(client, hook, message_id, body, timestamp)

        yield post


async def _post(
    client: httpx.AsyncClient, hook: Hook, message_id: str, body: bytes, timestamp: int
) -> str | None:
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(hook.secrets, message_id, timestamp, body),
    }
    try:
        with anyio.fail_after(hook.timeout):
            # The answer's body is of no interest, and never read.
            async with client.stream("POST", hook.url, content=body, headers=headers) as answer:
                return None if answer.is_success else f"HTTP {answer.status_code}"
    except (TimeoutError, httpx.TimeoutException):
        return f"no answer within {hook.timeout:g} seconds"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return type(error).__name__


@cache
def _trusted() -> ssl.SSLContext:
    # Reading the authorities takes tens of milliseconds.
    return httpx.create_ssl_context()
