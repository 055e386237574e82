"""A clock that was set back: nothing waits, nor lets anybody in, for longer than it was to."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from fakes import rows
from fakes.rows import at
from gonogo.domain.identity import Login, Principal, Role
from gonogo.domain.reviews import DecisionLink, Delivery, DeliveryStatus
from gonogo.store import Store, Tx, approvals, jobs, people
from gonogo.store.calls import add_approval, approval_of
from gonogo.store.jobs import clock_of
from gonogo.store.plans import add_plan, plan_of

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
RIGHT = rows.NOW
"""What time it is; PostgreSQL would know by itself."""


@pytest.fixture(autouse=True)
def clock_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def now(tx: Tx) -> datetime:
        return RIGHT

    monkeypatch.setattr(jobs, "clock_of", now)


def filled(tx: Tx) -> None:
    """All that waits for a moment, and what lets people in, as it is made now."""
    now, until = tx.now, tx.now + MINUTE
    rows.begin(tx)
    add_plan(tx, rows.plan(paused_until=until))
    add_approval(tx, rows.approval("a1", created_at=now, expires_at=until))
    jobs.add_delivery(tx, Delivery(
        id="d1", session_id="s1", approval_id="a1", hook="h", event="approval.requested",
        status=DeliveryStatus.PENDING, attempt=1, epoch=1, body={}, error=None, created_at=now,
        not_before=until, finished_at=None,
    ))  # fmt: skip
    approvals.add_link(tx, DecisionLink(
        id="l1", approval_id="a1", digest="x", principal_id="user:ann", name="ann", role=2,
        made_by="user:ann", created_at=now, expires_at=until, used_at=None, revoked_at=None,
    ))  # fmt: skip
    for kind, key in (("resume", "p1"), ("expiry", "a1"), ("delivery", "d1"), ("again_turn", "t")):
        jobs.set_timer(tx, kind, key, until)
    login = Login(
        secret_hash="h", principal_id="user:ann", name="ann", role=2, token_id=None,
        created_at=now, expires_at=now + people.LASTS, ends_at=None,
    )  # fmt: skip
    people.begin(tx, login)
    # It was used as the clock was wrong, and made when it was not.
    used = replace(login, secret_hash="used", created_at=RIGHT - MINUTE)
    people.begin(tx, used)
    people.add_login_code(tx, "code", Principal(id="x", name="x", role=Role.VIEWER), until)


def waits(tx: Tx) -> list[Any]:
    """How long each of them is still to last."""
    plan: Any = plan_of(tx, "p1")
    approval: Any = approval_of(tx, "a1")
    link: Any = approvals.link_of(tx, "l1")
    delivery: Any = jobs.delivery_of(tx, "d1")
    found = [plan.paused_until, approval.expires_at, delivery.not_before, link.expires_at]
    later = at(RIGHT + 1000 * DAY, jobs.due_timers)(tx)
    return [each - RIGHT for each in (*found, *(timer.run_at for timer in later))]


def lives(tx: Tx, moment: datetime) -> list[bool]:
    return [at(moment, people.find)(tx, name) is not None for name in ("h", "used")]


@pytest.mark.each_database
@pytest.mark.parametrize("ahead", [timedelta(hours=1), 366 * DAY], ids=str)
async def test_what_was_set_by_a_clock_that_went_ahead_lasts_as_long_as_it_was_to(
    store: Store, ahead: timedelta
) -> None:
    await store.write(at(RIGHT + ahead, filled))

    assert await store.read(jobs.has_ahead)
    assert await store.write(jobs.set_back) == 4
    assert await store.read(waits) == [MINUTE] * 8
    assert await store.read(lives, RIGHT + people.LASTS - MINUTE) == [True, True]
    assert await store.read(lives, RIGHT + people.LASTS + MINUTE) == [False, False]
    # Whoever does so again, as each of several processes does, finds nothing.
    assert not await store.read(jobs.has_ahead)
    assert await store.write(jobs.set_back) == 0
    assert await store.read(waits) == [MINUTE] * 8
    assert await store.write(people.take_login_code, "code") is None


def timer_alone(tx: Tx) -> None:
    jobs.set_timer(tx, "expiry", "a", tx.now)


def link_alone(tx: Tx) -> None:
    link = DecisionLink(
        id="l1", approval_id="a1", digest="x", principal_id="user:ann", name="ann", role=2,
        made_by="user:ann", created_at=tx.now, expires_at=tx.now, used_at=None, revoked_at=None,
    )  # fmt: skip
    approvals.add_link(tx, link)


def login_alone(tx: Tx) -> None:
    people.begin(tx, Login(
        secret_hash="h", principal_id="user:ann", name="ann", role=2, token_id=None,
        created_at=tx.now, expires_at=tx.now + MINUTE, ends_at=None,
    ))  # fmt: skip


def code_alone(tx: Tx) -> None:
    who = Principal(id="x", name="x", role=Role.VIEWER)
    people.add_login_code(tx, "code", who, tx.now + DAY)


@pytest.mark.each_database
@pytest.mark.parametrize("alone", [timer_alone, link_alone, login_alone, code_alone])
async def test_one_thing_of_a_clock_that_went_ahead_is_enough_to_look(
    store: Store, alone: Callable[[Tx], None]
) -> None:
    await store.write(rows.begin)
    await store.write(add_approval, rows.approval("a1"))
    await store.write(at(RIGHT + MINUTE, alone))
    assert await store.read(jobs.has_ahead)


async def test_what_the_clock_has_not_to_do_with_stays_as_it_is(store: Store) -> None:
    await store.write(filled)
    await store.write(jobs.set_timer, "expiry", "of a person", RIGHT + DAY)
    assert not await store.read(jobs.has_ahead)
    assert await store.write(jobs.set_back) == 0
    assert await store.read(waits) == [*([MINUTE] * 8), DAY]
    assert await store.write(people.take_login_code, "code") is not None


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_the_database_knows_what_time_it_is(store: Store) -> None:
    assert abs(await store.read(clock_of) - datetime.now(UTC)) < DAY


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_one_of_several_machines_whose_own_clock_is_wrong_moves_nothing(store: Store) -> None:
    await store.write(filled)
    store.clock = lambda: RIGHT - DAY
    assert await store.write(jobs.set_back) == 0
    assert await store.read(waits) == [MINUTE] * 8
