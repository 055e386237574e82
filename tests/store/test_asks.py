"""Asks: a verb that the owner of a place carries out for another process, once at most."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest

from fakes.rows import NOW, session
from gonogo.domain.errors import Busy, NotFound
from gonogo.domain.identity import Principal
from gonogo.domain.records import Job
from gonogo.execution.places import Asks
from gonogo.store import Hold, Membership, Store, Tx, Whose
from gonogo.store.events import start_system_chain
from gonogo.store.jobs import (
    ASK,
    Ask,
    add_ask,
    answer_ask,
    begin_ask,
    claim_tool_host,
    drop_ask,
    drop_tool_host,
    find_ask,
    renew_tool_hosts,
    tool_host_of,
)
from gonogo.store.people import OWNER, add_login_code, take_login_code
from gonogo.store.places import add_place, appoint, place_id_of, settle_in
from gonogo.store.sessions import add_session
from gonogo.store.transaction import owning

WORKER = Membership(kind="worker", pool="default", home="home", capacity=8)
PLACE = place_id_of(session().workspace)


@pytest.fixture
def kind() -> str:
    return "postgresql"


@pytest.fixture
def shared(database_url: str) -> Iterator[Store]:
    store = Store(database_url, drives=True, shared_as=WORKER, clock=lambda: NOW)
    store.routes = {ASK: Whose.ASK}
    yield store
    store.close()


def begin(tx: Tx) -> None:
    start_system_chain(tx)
    settle_in(tx, WORKER)
    add_session(tx, session())
    add_place(tx, session().workspace, WORKER)


@contextmanager
def owned() -> Iterator[None]:
    with owning(Hold(PLACE, 1, lambda: True, lambda: None)):
        yield


async def asked(shared: Store, verb: str = "look") -> None:
    await shared.write(begin)
    ask = Ask(id="ask_1", place_id=PLACE, verb=verb, status="open",
              body={"by": OWNER.model_dump(mode="json"), "what": "x"})  # fmt: skip
    await shared.write(add_ask, ask)
    lease = shared.join()
    await shared.write(appoint, lease.node, "default", 8)
    lease.end()


async def look(principal: Principal, body: Any) -> dict[str, Any]:
    return {"seen": body["what"], "by": principal.id}


async def test_what_was_asked_is_begun_once_and_its_answer_is_there_until_it_is_taken(
    shared: Store,
) -> None:
    await asked(shared)
    asks = Asks(store=shared, verbs={"look": look})
    with owned():
        await asks.job(Job(ASK, "ask_1"))
        assert await shared.write(begin_ask, "ask_1") is None
    found = await shared.read(find_ask, "ask_1")
    assert found is not None
    assert found.answer == {"result": {"seen": "x", "by": OWNER.id}}
    assert not await shared.write(drop_ask, "ask_1", "open")
    assert await shared.write(drop_ask, "ask_1", "answered")
    assert await shared.read(find_ask, "ask_1") is None


async def test_who_takes_over_goes_on_with_what_was_not_begun_and_repeats_nothing_that_was(
    shared: Store,
) -> None:
    await asked(shared)
    asks, jobs = Asks(store=shared), list[str]()

    def recover(tx: Tx) -> None:
        asks.recover(tx, PLACE)
        jobs.extend(job.key for job in tx.outbox.jobs)

    with owned():
        await shared.write(recover)
        assert jobs == ["ask_1"]
        await shared.write(begin_ask, "ask_1")
        await shared.write(recover)
    assert jobs == ["ask_1"]
    found = await shared.read(find_ask, "ask_1")
    assert found is not None
    assert found.status == "answered"
    with owned():
        await shared.write(answer_ask, "ask_1", {"result": {}})
    assert await shared.read(find_ask, "ask_1") == found


async def test_who_asks_is_told_what_was_wrong_and_takes_back_what_nobody_begins(
    shared: Store,
) -> None:
    await shared.write(begin)
    asks = Asks(store=shared, patience=0.05)
    with pytest.raises(Busy, match="No worker started this in time"):
        await asks.ask(lambda tx: PLACE, "look", OWNER, {})

    async def fails(_: Principal, body: Any) -> dict[str, Any]:
        raise NotFound("No plan found with id={plan}", plan=body["what"])

    async def breaks(_: Principal, body: Any) -> dict[str, Any]:
        raise ZeroDivisionError

    await asked_again(shared, fails, {"kind": "NotFound", "detail": "No plan found with id=x",
        "template": "No plan found with id={plan}", "params": {"plan": "x"}})  # fmt: skip
    await asked_again(shared, breaks, None)


async def asked_again(shared: Store, verb: Any, error: dict[str, Any] | None) -> None:
    body = {"by": OWNER.model_dump(mode="json"), "what": "x"}
    await shared.write(
        add_ask, Ask(id=str(id(verb)), place_id=PLACE, verb="look", body=body, status="open")
    )
    await Asks(store=shared, verbs={"look": verb}).job(Job(ASK, str(id(verb))))
    found = await shared.read(find_ask, str(id(verb)))
    assert found is not None
    assert found.answer is not None
    if error is not None:
        assert found.answer == {"error": error}
    else:
        assert found.answer["error"]["kind"] == "Internal"
        assert "ZeroDivision" not in str(found.answer)


async def test_a_login_code_is_good_once_and_until_its_time(shared: Store) -> None:
    await shared.write(add_login_code, "late", OWNER, NOW)
    await shared.write(add_login_code, "good", OWNER, NOW + timedelta(seconds=1))
    assert await shared.write(take_login_code, "late") is None
    found = await shared.write(take_login_code, "good")
    assert found is not None
    assert (found.id, found.role) == (OWNER.id, OWNER.role)
    assert await shared.write(take_login_code, "good") is None


async def test_an_ask_whose_worker_ended_and_that_no_other_one_takes_up_ends_with_an_error(
    shared: Store,
) -> None:
    await asked(shared)
    with owned():
        assert await shared.write(begin_ask, "ask_1") is not None
    with anyio.fail_after(30):
        answer = await Asks(store=shared, patience=0.3)._answer("ask_1")
    assert answer["error"]["kind"] == "Conflict"
    assert "nobody knows how far it got" in answer["error"]["detail"]


_KEPT = "SELECT session_id FROM tool_hosts"
_LATER = "UPDATE tool_hosts SET until = '2020-01-01T00:00:00.000000Z'"


async def test_one_connection_runs_the_tools_of_a_session_until_it_ends_or_says_no_more(
    shared: Store,
) -> None:
    assert await shared.write(claim_tool_host, "s1", "one")
    assert await shared.write(claim_tool_host, "s1", "one")
    assert not await shared.write(claim_tool_host, "s1", "other")
    assert await shared.read(tool_host_of, "s1") == "one"
    await shared.write(drop_tool_host, "one")
    assert await shared.write(claim_tool_host, "s1", "other")
    await shared.write(lambda tx: tx.conn.exec_driver_sql(_LATER))
    assert await shared.read(tool_host_of, "s1") is None
    assert await shared.write(claim_tool_host, "s1", "one")
    assert await shared.read(tool_host_of, "s1") == "one"


async def test_what_a_server_renews_holds_and_what_nobody_does_is_forgotten(shared: Store) -> None:
    for session_id, connection in (("s1", "dead"), ("s2", "ours")):
        await shared.write(claim_tool_host, session_id, connection)
    await shared.write(lambda tx: tx.conn.exec_driver_sql(_LATER))
    await shared.write(renew_tool_hosts, {"s2": "ours"})
    left = await shared.read(lambda tx: tx.conn.exec_driver_sql(_KEPT).scalars().all())
    assert left == ["s2"]
    assert await shared.read(tool_host_of, "s2") == "ours"
