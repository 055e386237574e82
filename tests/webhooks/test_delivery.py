"""Deliveries: written with what they tell of, made at least once, in order, by whoever lives.

The receiver is a real server on loopback; the clock is the test's.
"""

import base64
import hashlib
import hmac
import json
from collections import Counter
from datetime import timedelta

import anyio
import pytest

from fakes import receiver as receivers
from fakes.receiver import Received, answers, receiver
from fakes.rows import NOW, begin
from fakes.until import time_passes
from gonogo import __version__
from gonogo.domain.base import canonical_json
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import Job, Timer
from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.domain.states import DecisionWord
from gonogo.execution.approvals import ApprovalService, Question, Ruling
from gonogo.store import Store
from gonogo.store import events as log
from gonogo.store.jobs import due_timers, first_timer, pending_deliveries, set_delivery
from gonogo.store.rows import by, many
from gonogo.store.schema import deliveries
from gonogo.webhooks import DELIVERY, HOOK, Announcer, Hook, Sender, body_of

LIMIT = 60
SECRET = b"s" * 32
ANN = Principal(id="u1", name="Ann", role=Role.OPERATOR)


async def as_written(body):
    return body


class Deploys:
    """Answers about deployments, of which nothing comes."""

    def settle(self, tx, approval, ruling):
        pass

    def lapse(self, tx, approval):
        pass


class Post:
    """A store with hooks, a desk, and a clock that only the test moves."""

    def __init__(self, store: Store, **hooks: Hook) -> None:
        self.store, self.now = store, NOW
        store.clock = lambda: self.now
        self.counted: Counter[str] = Counter()
        self.desk = ApprovalService(kinds={"deploy": Deploys()})
        self.use(**hooks)

    def use(self, **hooks: Hook) -> None:
        self.store.before_commit = Announcer(
            hooks=hooks, shown=self.shown, links=lambda *about: []
        ).announce
        self.sender = Sender(
            store=self.store, hooks=hooks, spread=lambda: 1.0,
            completed=as_written,
            counted=lambda hook, outcome: self.counted.update([f"{hook} {outcome}"]),
        )  # fmt: skip

    def shown(self, tx, approval):
        return {"approval": {"approval_id": approval.id, "status": approval.status,
                             "details": approval.details}}  # fmt: skip

    async def ask(self, **more):
        given = {
            "session_id": "s1", "kind": "deploy", "subject": "Deploy", "details": {"tag": "v1"},
            "reason": "asks", "digest": "sha256:1",
        }  # fmt: skip
        return await self.store.write(self.desk.open, Question(**{**given, **more}))

    async def decide(self, approval_id: str):
        ruling = Ruling(word=DecisionWord.APPROVE, by=ANN)
        return await self.store.write(self.desk.decide, approval_id, ruling)

    async def send(self, hook: str = "chat") -> None:
        with anyio.fail_after(LIMIT):
            await self.sender.job(Job(HOOK, hook))

    async def rows(self, approval_id: str):
        of = {"approval_id": approval_id}
        found = await self.store.read(many, by(deliveries, Delivery, "approval_id"), of, Delivery)
        return sorted(found, key=lambda each: each.id)

    async def next_due(self):
        """Move the clock to the next timer."""
        self.now = await self.store.read(first_timer)


def hook(where: str, **more) -> Hook:
    return Hook(**{"name": "chat", "url": where, "secrets": (SECRET,), "timeout": LIMIT, **more})


@pytest.fixture
async def begun(store):
    await store.write(begin)
    return store


def verify(request: Received, secret: bytes = SECRET) -> None:
    """As a receiver does it that knows the scheme and nothing of ours."""
    head = request.headers
    signed = b".".join(
        [head["webhook-id"].encode(), head["webhook-timestamp"].encode(), request.body]
    )
    wanted = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert wanted in [part.removeprefix("v1,") for part in head["webhook-signature"].split()]


async def test_what_is_told_is_written_with_the_change_or_not_at_all(begun):
    post = Post(begun, chat=hook("http://127.0.0.1:1"))

    def ask_and_fail(tx):
        post.desk.open(tx, Question(
            session_id="s1", kind="deploy", subject="Deploy", details={}, reason="", digest="d",
        ))  # fmt: skip
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await begun.write(ask_and_fail)
    assert await begun.read(pending_deliveries) == []

    asked = await post.ask()
    (row,) = await post.rows(asked.id)
    assert row.id.startswith("msg_")
    assert row == Delivery(
        id=row.id, session_id="s1", approval_id=asked.id, hook="chat", event="requested",
        status=DeliveryStatus.PENDING, attempt=0, epoch=0, error=None, created_at=NOW,
        not_before=NOW, finished_at=None,
        body={
            "type": "approval.requested", "timestamp": "2026-11-21T12:00:00.000000Z",
            "data": {"approval": {"approval_id": asked.id, "status": "pending",
                                  "details": {"tag": "v1"}}},
        },
    )  # fmt: skip


async def test_a_message_is_signed_and_its_answers_body_is_not_waited_for(begun):
    async with receiver() as told:
        post = Post(begun, chat=hook(told.url))
        asked = await post.ask()
        await post.send()

        (request,) = told.received
        verify(request)
        assert request.path == "/told"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["user-agent"] == f"gonogo/{__version__}"
        assert request.headers["webhook-timestamp"] == str(int(NOW.timestamp()))
        assert request.message["type"] == "approval.requested"
        assert request.message["data"]["approval"]["approval_id"] == asked.id
        (row,) = await post.rows(asked.id)
        assert (row.id, row.status) == (request.headers["webhook-id"], DeliveryStatus.SENT)
        assert (row.body, row.finished_at) == ({}, NOW)
        assert post.counted == {"chat sent": 1}
        assert await begun.read(first_timer) is None


async def test_the_answer_follows_the_question_and_each_hears_what_it_wants(begun):
    async with receiver() as chat, receiver() as pager:
        post = Post(
            begun, chat=hook(chat.url),
            pager=hook(pager.url, name="pager", events=("resolved",), kinds=("deploy",)),
            other=hook(pager.url, name="other", kinds=("plan",)),
        )  # fmt: skip
        asked = await post.ask()
        await post.decide(asked.id)
        for name in ("chat", "pager", "other"):
            await post.send(name)

        assert [r.message["type"] for r in chat.received] == [
            "approval.requested", "approval.resolved",
        ]  # fmt: skip
        (only,) = pager.received
        assert only.message["data"]["approval"]["status"] == "approved"


BAD = {
    "an error": (answers(500), "HTTP 500"),
    "a refusal": (answers(403), "HTTP 403"),
    "silence": (receivers.hangs, "it did not answer in time"),
    "a slow drip": (receivers.drips, "it did not answer in time"),
    "a redirect": (answers(307, "location: http://127.0.0.1:1/elsewhere"), "HTTP 307"),
    "a cut": (receivers.resets, "ReadError"),
    "no http": (receivers.babbles, "RemoteProtocolError"),
    "a swelling head": (receivers.swells, "RemoteProtocolError"),
}


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("how", BAD)
async def test_a_receiver_that_behaves_badly_is_told_again_later(begun, how):
    behaviour, problem = BAD[how]
    async with receiver() as told:
        told.once = [behaviour]
        post = Post(begun, chat=hook(told.url, timeout=LIMIT / 2))
        asked = await post.ask()

        async def is_silent():
            await told.got(1)
            await anyio.sleep(0.1)
            time_passes(LIMIT / 2)

        async with anyio.create_task_group() as group:
            if "in time" in problem:
                group.start_soon(is_silent)
            await post.send()

        (row,) = await post.rows(asked.id)
        assert (row.status, row.attempt, row.error) == (DeliveryStatus.PENDING, 1, problem)
        assert row.not_before == NOW + timedelta(seconds=5)

        await post.send()
        assert len(told.received) == 1, "it is not yet time"
        await post.next_due()
        post.use(chat=hook(told.url, timeout=LIMIT))
        await post.send()

        first, second = told.received
        verify(second)
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.body == second.body
        assert (await post.rows(asked.id))[0].status is DeliveryStatus.SENT
        assert post.counted == {"chat retried": 1, "chat sent": 1}


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_no_proxy_of_the_environment_hears_of_a_question(begun, monkeypatch):
    async with receiver() as wanted, receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        post = Post(begun, chat=hook(wanted.url))
        await post.ask()
        await post.send()

        assert (len(wanted.received), len(proxy.received)) == (1, 0)


async def test_an_answer_without_an_end_is_an_answer(begun):
    async with receiver() as told:
        told.behaviour = receivers.floods
        post = Post(begun, chat=hook(told.url))
        asked = await post.ask()
        await post.send()

        assert (await post.rows(asked.id))[0].status is DeliveryStatus.SENT


async def test_after_eight_attempts_in_a_day_it_is_given_up_and_said(begun):
    post = Post(begun, chat=hook("http://127.0.0.1:1/nobody"))
    asked = await post.ask()
    await post.decide(asked.id)
    for _ in range(8):
        await post.send()
        (row, held) = await post.rows(asked.id)
        if row.status is DeliveryStatus.PENDING:
            assert held.attempt == 0, "the answer waits for the question"
            await post.next_due()

    assert (row.status, row.attempt, row.error) == (DeliveryStatus.FAILED, 8, "ConnectError")
    assert timedelta(hours=23) < post.now - NOW < timedelta(hours=25)
    assert held.attempt == 1, "then the answer has its turn"
    assert post.counted["chat failed"] == 1
    (entry,) = [
        e for e in await begun.read(log.entries, "s1") if e.action == "webhook.failed"
    ]  # fmt: skip
    assert (entry.actor, entry.subject) == ("gonogo", "chat")
    assert entry.details == {
        "delivery_id": row.id, "approval_id": asked.id, "event": "requested", "attempts": 8,
        "error": "ConnectError",
    }  # fmt: skip
    assert row.finished_at == post.now
    assert "127.0.0.1" not in json.dumps(entry.details), "an address may be a secret"


async def test_an_attempt_that_ends_with_its_process_is_made_again(begun):
    async with receiver() as told:
        told.once = [receivers.hangs]
        post = Post(begun, chat=hook(told.url, timeout=LIMIT / 2))
        asked = await post.ask()
        async with anyio.create_task_group() as group:
            group.start_soon(post.send)
            await told.got(1)
            group.cancel_scope.cancel()

        (row,) = await post.rows(asked.id)
        assert (row.status, row.attempt) == (DeliveryStatus.PENDING, 1)
        await post.send()
        assert len(told.received) == 1, "whoever made the attempt may still live"
        await post.next_due()
        assert post.now == NOW + timedelta(seconds=LIMIT / 2 + 2)
        boxes = []
        begun.deliver = boxes.append
        (timer,) = await begun.read(due_timers)
        await begun.write(post.sender.before(_nobody), timer)
        assert [(job.kind, job.key) for box in boxes for job in box.jobs] == [(HOOK, "chat")]
        await post.send()

        assert [r.headers["webhook-id"] for r in told.received] == [row.id, row.id]
        assert (await post.rows(asked.id))[0].status is DeliveryStatus.SENT


def _nobody(tx, timer):
    raise AssertionError(timer)


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_between_attempts_it_waits_as_long_as_is_said_stretched_by_chance(begun):
    post = Post(begun, chat=hook("http://127.0.0.1:1"))
    asked = await post.ask()
    waited = []
    for _ in range(7):
        await post.send()
        (row,) = await post.rows(asked.id)
        waited.append((row.not_before - post.now).total_seconds())
        await post.next_due()

    assert waited == [5, 60, 300, 1_800, 7_200, 21_600, 54_000]
    spread = Sender(store=begun, hooks={}, counted=lambda *_: None, completed=as_written).spread
    found = [spread() for _ in range(200)]
    assert 0.8 <= min(found) < 0.9 < 1.1 < max(found) <= 1.2


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_message_that_cannot_be_made_is_tried_again_and_holds_nothing_else_up(begun):
    async def broken(body):
        raise PermissionError("no key")

    post = Post(begun, chat=hook("http://127.0.0.1:1"))
    post.sender = Sender(
        store=begun, hooks=post.sender.hooks, spread=lambda: 1.0, completed=broken,
        counted=post.sender.counted,
    )  # fmt: skip
    asked = await post.ask()
    await post.send()

    (row,) = await post.rows(asked.id)
    assert (row.status, row.error) == (DeliveryStatus.PENDING, "not made: PermissionError")
    assert post.counted == {"chat retried": 1}


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_links_are_made_for_those_who_are_named_while_a_question_is_open(begun):
    made = []

    def links(tx, approval, names):
        made.append((approval.status, names))
        return [{"for": name} for name in names if name != "nobody"]

    post = Post(begun)
    hooks = {
        "chat": hook("http://127.0.0.1:1", links_for=("ann", "bob")),
        "none": hook("http://127.0.0.1:1", name="none", links_for=("nobody",)),
        "mute": hook("http://127.0.0.1:1", name="mute"),
    }
    begun.before_commit = Announcer(hooks=hooks, shown=post.shown, links=links).announce
    asked = await post.ask()
    told = {row.hook: row.body["data"].get("links") for row in await post.rows(asked.id)}
    await post.decide(asked.id)
    later = [row for row in await post.rows(asked.id) if row.event == "resolved"]

    assert told == {"chat": [{"for": "ann"}, {"for": "bob"}], "none": None, "mute": None}
    assert made == [("pending", ("ann", "bob")), ("pending", ("nobody",))]
    assert len(later) == 3
    assert not any("links" in row.body["data"] for row in later)


async def test_timers_of_others_are_left_to_them(begun):
    post, seen = Post(begun), []
    timer = Timer(kind="approval_expiry", key="a", run_at=NOW)
    await begun.write(post.sender.before(lambda tx, timer: seen.append(timer)), timer)
    gone = Timer(kind=DELIVERY, key="msg_gone", run_at=NOW)
    await begun.write(post.sender.before(_nobody), gone)

    assert seen == [timer]


async def test_what_an_overtaken_attempt_finds_out_does_not_count(begun):
    post = Post(begun, chat=hook("http://127.0.0.1:1", timeout=5.0))
    asked = await post.ask()
    taken = await begun.write(post.sender._take, post.sender.hooks["chat"])
    assert await begun.write(post.sender._take, post.sender.hooks["chat"]) is None
    post.now += timedelta(minutes=1)
    again = await begun.write(post.sender._take, post.sender.hooks["chat"])

    assert (taken.epoch, again.epoch) == (1, 2)
    for problem in (None, "HTTP 500"):
        assert await begun.write(post.sender._settle, taken, problem) is None
    assert not await begun.write(set_delivery, taken, DeliveryStatus.FAILED)
    assert (await post.rows(asked.id))[0].status is DeliveryStatus.PENDING
    assert await begun.write(post.sender._settle, again, None) == "sent"


async def test_two_processes_make_each_delivery_once(begun):
    async with receiver() as told:
        post = Post(begun, chat=hook(told.url))
        other = Sender(
            store=begun, hooks=post.sender.hooks,
            counted=lambda *_: None, completed=as_written,
        )  # fmt: skip
        for _ in range(12):
            await post.ask()
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                group.start_soon(post.sender.job, Job(HOOK, "chat"))
                group.start_soon(other.job, Job(HOOK, "chat"))

        ids = [r.headers["webhook-id"] for r in told.received]
        assert len(ids) == len(set(ids)) == 12


async def test_after_a_start_what_is_left_goes_on_and_what_has_no_hook_is_given_up(begun):
    post = Post(begun, chat=hook("http://127.0.0.1:1"), gone=hook("http://x", name="gone"))
    asked = await post.ask()
    post.use(chat=hook("http://127.0.0.1:1"))
    boxes = []
    begun.deliver = boxes.append
    await begun.write(post.sender.recover)

    assert [(job.kind, job.key) for box in boxes for job in box.jobs] == [(HOOK, "chat")]
    rows = {row.hook: row for row in await post.rows(asked.id)}
    assert rows["gone"].status is DeliveryStatus.FAILED
    assert rows["gone"].error == "the hook no longer exists"
    await post.send("gone")


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_what_is_large_is_shortened_and_says_so(begun):
    async with receiver() as told:
        post = Post(begun, chat=hook(told.url))
        await post.ask(details={"text": "a" * 5_000, "many": list(range(300))})
        await post.ask(details={"just": list(range(200)), "one": list(range(201))})
        await post.ask(details={f"k{n}": "b" * 3_000 for n in range(100)})
        await post.send()

        long, edge, huge = (r.message["data"] for r in told.received)
        lists = edge["approval"]["details"]
        assert (lists["just"], lists["one"]) == ([*range(200)], [*range(200), "… +1"])
        details = long["approval"]["details"]
        assert details["text"] == "a" * 4_000 + " … +1000"
        assert (len(details["many"]), details["many"][-1]) == (201, "… +100")
        assert (
            long["shortened"] == huge["shortened"] == ("Shortened: the whole question is in gonogo")
        )
        assert "details" not in huge["approval"]
        assert huge["approval"]["approval_id"]
        assert all(len(r.body) < 70_000 for r in told.received)


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_what_no_hook_wants_to_hear_is_not_written(begun):
    post = Post(begun, chat=hook("http://127.0.0.1:1", kinds=("plan",)))
    asked = await post.ask()

    assert await post.rows(asked.id) == []


def test_a_message_is_shortened_only_where_it_is_longer_than_is_said():
    def told(approval):
        return body_of("approval.requested", NOW, {"approval": approval})["data"]

    just = {"details": {"text": "a" * 4_000, "many": list(range(200)), "deep": [["a"]]}}
    assert told(just) == {"approval": just}
    over = {"details": {"text": "a" * 4_001, "deep": [["b" * 4_002]]}}
    assert told(over)["approval"]["details"] == {
        "text": "a" * 4_000 + " … +1", "deep": [["b" * 4_000 + " … +2"]],
    }  # fmt: skip
    many = {f"k{n:02}": "c" * 4_000 for n in range(17)}
    huge = told({"approval_id": "a", "details": many, "arguments": many})
    assert huge == {
        "approval": {"approval_id": "a"}, "shortened": "Shortened: the whole question is in gonogo",
    }  # fmt: skip
    whole = {"details": {f"k{n:02}": "c" * 4_000 for n in range(16)}}
    left = 64 * 1024 - len(canonical_json({"approval": whole}))
    assert 0 < left < 4_000
    whole["details"]["k"] = "d" * (left - len(',"k":""'))
    assert told(whole) == {"approval": whole}
    whole["details"]["k"] += "d"
    assert told(whole)["approval"] == {}
