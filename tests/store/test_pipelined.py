"""What is sent to PostgreSQL together: it comes to the same as what is waited for one by one."""

import psycopg
import pytest
from sqlalchemy import Engine, bindparam, event, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from fakes.postgres import Server
from fakes.rows import NOW, begin
from gonogo.store import Store, Tx, part
from gonogo.store.postgres import Pipelined, _SqlLine
from gonogo.store.rows import put, rows
from gonogo.store.schema import sightings, timers

pytestmark = pytest.mark.parametrize("kind", ["postgresql"])
KEPT = update(timers).where(timers.c.key == bindparam("of")).values(kind="kept")
KEYS = select(timers.c.key).order_by(timers.c.key)
SOME = select(timers.c.key).where(timers.c.key.in_(bindparam("of", expanding=True)))


def timer(key: str) -> dict[str, object]:
    return {"kind": "k", "key": key, "run_at": NOW}


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many statements went out in each round trip."""
    found: list[int] = []
    receive = _SqlLine.receive

    def counted(line: _SqlLine) -> None:
        if line._due:
            found.append(sum(not each.prepares for each in line._due))
        receive(line)

    monkeypatch.setattr(_SqlLine, "receive", counted)
    return found


async def test_a_transaction_takes_as_many_round_trips_as_it_has_questions(
    store: Store, trips: list[int]
) -> None:
    def work(tx: Tx) -> None:
        put(tx, timers, timer("a"))
        put(tx, timers, timer("b"))
        rows(tx, KEYS, {})
        put(tx, timers, timer("c"))

    await store.write(begin)
    trips.clear()
    await store.write(work)

    # BEGIN, two rows and the question; a row, the count of transactions and COMMIT.
    assert trips == [4, 3]


async def test_what_fails_at_the_end_takes_everything_back(store: Store) -> None:
    def work(tx: Tx) -> None:
        put(tx, timers, timer("a"))
        put(tx, timers, timer("b"))
        put(tx, timers, timer("a"))

    with pytest.raises(IntegrityError):
        await store.write(work)

    assert await store.read(lambda tx: rows(tx, KEYS, {})) == []
    await store.write(put, timers, timer("c"))
    assert [row.key for row in await store.read(lambda tx: rows(tx, KEYS, {}))] == ["c"]


async def test_what_fails_at_the_end_of_a_part_takes_the_part_back(store: Store) -> None:
    def twice(tx: Tx) -> None:
        with part(tx):
            put(tx, timers, timer("b"))
            put(tx, timers, timer("a"))

    def work(tx: Tx) -> None:
        put(tx, timers, timer("a"))
        with pytest.raises(IntegrityError):
            twice(tx)
        put(tx, timers, timer("c"))

    await store.write(work)

    assert [row.key for row in await store.read(lambda tx: rows(tx, KEYS, {}))] == ["a", "c"]


async def test_a_statement_that_failed_before_it_had_a_name_is_named_later(store: Store) -> None:
    with Pipelined(store._backend.engine) as conn:
        for _ in range(2):
            conn.execute(insert(timers), timer("a"))
            conn.execute(insert(timers), timer("a"))
            # What comes after it gets no name, as nothing of it is done.
            conn.execute(KEPT, {"of": "a"})
            conn.execute(KEPT, {"of": "a"})
            with pytest.raises(IntegrityError):
                conn.settle()
            conn._take_back()
        assert conn.execute(KEPT, {"of": "a"}).rowcount == 0
        conn.execute(insert(timers), timer("b"))
        conn.commit()

    assert [row.key for row in await store.read(lambda tx: rows(tx, KEYS, {}))] == ["b"]


def test_what_cannot_be_prepared_is_part_of_the_same_transaction(store: Store) -> None:
    with Pipelined(store._backend.engine) as conn:
        conn.execute(insert(timers), timer("a"))
        assert conn.execute(SOME, {"of": ["a", "b"]}).scalars().all() == ["a"]
        conn.execute(insert(timers), timer("b"))
    with Pipelined(store._backend.engine) as conn:
        assert conn.execute(KEYS).all() == []


def test_a_text_that_the_server_would_cut_off_is_refused(store: Store) -> None:
    raw = select(timers.c.key).where(text("kind = :kind").bindparams(bindparam("kind")))
    with Pipelined(store._backend.engine) as conn:
        with pytest.raises(DBAPIError, match="NUL"):
            conn.execute(raw, {"kind": "a\x00b"})
        assert conn.execute(raw, {"kind": "a"}).all() == []


def test_who_listens_to_the_engine_is_told_of_each_statement(store: Store) -> None:
    heard: list[str] = []
    event.listen(
        store._backend.engine, "before_cursor_execute", lambda *given: heard.append(given[2])
    )
    with Pipelined(store._backend.engine) as conn:
        conn.execute(insert(timers), timer("a"))

    assert [each.split("(")[0].strip() for each in heard] == ["INSERT INTO timers"]


def test_a_connection_that_was_ended_is_lost_and_the_next_one_is_new(
    store: Store, database_url: str
) -> None:
    engine = store._backend.engine
    with Pipelined(engine) as conn, psycopg.connect(database_url, autocommit=True) as other:
        conn.execute(KEYS)
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with pytest.raises(DBAPIError) as told:
            conn.execute(KEYS)
        assert told.value.connection_invalidated
    with Pipelined(engine) as conn:
        assert conn.execute(KEYS).all() == []


def test_more_than_the_line_holds_at_once_is_written_and_read(store: Store) -> None:
    long = ["x" * 3_000_000] * 4
    with Pipelined(store._backend.engine) as conn:
        seen = {"name": "n", "digest": "d", "seen_at": NOW}
        rows = [{**seen, "position": n, "definition": each} for n, each in enumerate(long)]
        later = conn.execute(insert(sightings), rows)
        assert conn.execute(select(sightings.c.definition)).scalars().all() == long
        assert later.rowcount == len(long)


async def test_what_has_only_read_is_over_at_once_and_its_connection_is_anybodys(
    store: Store, engine: Engine
) -> None:
    open_now = text(
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'"
        " AND datname = current_database()"
    )
    for _ in range(3):
        assert await store.read(lambda tx: rows(tx, KEYS, {})) == []
        with engine.connect() as other:
            while other.execute(open_now).scalar_one():
                other.rollback()
    with store._backend.engine.connect() as plain:
        assert plain.execute(KEYS).all() == []
    await store.vacuum()


async def test_a_connection_that_is_lost_after_a_read_costs_nobody_anything(
    store: Store, postgres: Server, database_url: str
) -> None:
    asked: list[list[object]] = []

    def work(tx: Tx) -> None:
        asked.append(rows(tx, KEYS, {}))
        postgres.cut(database_url.rpartition("/")[2].partition("?")[0])

    await store.read(work)
    assert asked == [[]]
    with Pipelined(store._backend.engine) as conn:
        assert conn.execute(KEYS).all() == []
