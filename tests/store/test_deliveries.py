"""What is to be done later: each delivery once and in its order, and each timer when it is due."""

from datetime import timedelta

from msgspec.structs import replace

from fakes.rows import NOW, approval, at, begin
from gonogo.domain.records import Timer
from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.store import calls, jobs

SECOND = timedelta(seconds=1)


def delivery(delivery_id: str, approval_id: str = "a1", **more) -> Delivery:
    given = {
        "session_id": "s1", "hook": "chat", "event": "asked", "status": DeliveryStatus.PENDING,
        "attempt": 0, "epoch": 0, "body": {"n": delivery_id}, "error": None, "created_at": NOW,
        "not_before": NOW, "finished_at": None,
    }  # fmt: skip
    return Delivery(id=delivery_id, approval_id=approval_id, **{**given, **more})


def writing(*deliveries: Delivery):
    def write(tx) -> None:
        begin(tx)
        for approval_id in ("a1", "a2", "a3"):
            calls.add_approval(tx, approval(approval_id))
        for each in deliveries:
            jobs.add_delivery(tx, each)

    return write


async def due(store, hook: str = "chat", seconds: float = 0) -> str | None:
    found = await store.read(at(NOW + seconds * SECOND, jobs.due_delivery), hook)
    return found and found.id


async def test_the_messages_about_one_question_go_out_one_after_the_other(store):
    await store.write(writing(
        delivery("d2"), delivery("d1"), delivery("d3", "a2", not_before=NOW + SECOND, attempt=1),
        delivery("d4", hook="mail", not_before=NOW + SECOND, attempt=1),
    ))  # fmt: skip
    first = await store.read(jobs.delivery_of, "d1")

    assert first == delivery("d1")
    assert await store.read(jobs.delivery_of, "d9") is None
    assert await due(store) == "d1"
    assert await due(store, "mail") is None
    assert await due(store, "mail", 1) == "d4"
    assert await due(store, "none", 1) is None
    assert await store.write(jobs.take_delivery, first, NOW + 5 * SECOND)
    assert await due(store) is None
    assert await due(store, seconds=4) == "d3"
    taken = replace(first, epoch=1, attempt=1, not_before=NOW + 5 * SECOND)
    assert await store.read(jobs.delivery_of, "d1") == taken
    done = {"finished_at": NOW, "body": {}, "error": "e"}
    assert await store.write(jobs.set_delivery, taken, DeliveryStatus.SENT, **done)
    assert await store.read(jobs.delivery_of, "d1") == replace(
        taken, status=DeliveryStatus.SENT, **done
    )
    assert await due(store) == "d2"
    assert [each.id for each in await store.read(jobs.pending_deliveries)] == ["d2", "d3", "d4"]


async def test_of_those_that_are_due_the_earliest_goes_first_then_the_oldest(store):
    await store.write(writing(
        delivery("d1", "a1", not_before=NOW), delivery("d2", "a2", not_before=NOW - SECOND),
        delivery("d3", "a3", not_before=NOW - SECOND),
    ))  # fmt: skip
    assert await due(store) == "d2"


async def test_what_a_clock_that_was_ahead_has_made_goes_out_at_once_and_in_its_order(store):
    await store.write(writing(
        delivery("d3", event="requested", not_before=NOW + 3_600 * SECOND),
        delivery("d2", event="warning"), delivery("d1", event="resolved"),
    ))  # fmt: skip
    order = []
    while (found := await store.read(at(NOW, jobs.due_delivery), "chat")) is not None:
        order.append(found.id)
        await store.write(jobs.set_delivery, found, DeliveryStatus.SENT)
    assert order == ["d3", "d2", "d1"]


async def test_who_was_overtaken_writes_nothing_of_a_delivery(store):
    await store.write(writing(delivery("d1")))
    first = await store.read(jobs.delivery_of, "d1")
    assert await store.write(jobs.take_delivery, first, NOW)

    assert not await store.write(jobs.take_delivery, first, NOW + SECOND)
    assert not await store.write(jobs.set_delivery, first, DeliveryStatus.SENT)
    again = await store.read(jobs.delivery_of, "d1")
    assert (again.epoch, again.attempt, again.status) == (1, 1, DeliveryStatus.PENDING)
    assert await store.write(jobs.set_delivery, again, DeliveryStatus.PENDING, error="late")
    assert (await store.read(jobs.delivery_of, "d1")).error == "late"
    assert await store.write(jobs.set_delivery, again, DeliveryStatus.FAILED)
    assert not await store.write(jobs.set_delivery, again, DeliveryStatus.FAILED)
    assert not await store.write(jobs.take_delivery, again, NOW)


async def test_timers_are_told_apart_by_kind_and_key_and_handed_over(store):
    def write(tx):
        for kind, key, after in (("a", "x", 3), ("a", "y", 2), ("b", "x", 1), ("b", "y", 4)):
            jobs.set_timer(tx, kind, key, NOW + after * SECOND)
        return list(tx.outbox.timers)

    told = await store.write(write)
    assert told[0] == Timer(kind="a", key="x", run_at=NOW + 3 * SECOND)
    assert len(told) == 4
    assert await store.read(jobs.first_timer) == NOW + SECOND
    assert await store.read(jobs.first_but, "b") == NOW + 2 * SECOND
    assert await store.read(jobs.first_but, "a") == NOW + SECOND
    assert await store.read(jobs.has_timer, "a", "x")
    for kind, key in (("a", "z"), ("c", "x")):
        assert not await store.read(jobs.has_timer, kind, key)
    await store.write(jobs.drop_timer, "b", "x")
    assert await store.read(jobs.first_timer) == NOW + 2 * SECOND
    assert await store.write(jobs.take_timer, told[1])
    found = await store.read(at(NOW + 9 * SECOND, jobs.due_timers))
    assert [(each.kind, each.key) for each in found] == [("a", "x"), ("b", "y")]
    assert await store.read(at(NOW + 2 * SECOND, jobs.due_timers)) == []


async def test_two_hundred_timers_are_due_at_once_at_most(store):
    def write(tx):
        for number in range(201):
            jobs.set_timer(tx, "a", f"{number:03}", NOW - number * SECOND)

    await store.write(write)
    due_now = await store.read(jobs.due_timers)
    assert [timer.key for timer in due_now] == [f"{number:03}" for number in range(200, 0, -1)]
