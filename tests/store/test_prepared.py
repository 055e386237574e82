"""Prepared statements: whatever is executed directly gives what SQLAlchemy itself gives."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, event, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from gonogo.domain.records import Timer
from gonogo.store import Store
from gonogo.store.postgres import Pipelined
from gonogo.store.rows import among, by
from gonogo.store.schema import events, sessions, timers
from gonogo.store.transaction import Direct, prepared

NOW = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
KINDS = (
    select(timers.c.kind, func.aggregate_strings(timers.c.key, " "), func.max(timers.c.run_at))
    .where(timers.c.run_at <= bindparam("now"), timers.c.kind != "none")
    .group_by(timers.c.kind)
    .order_by(timers.c.kind)
    .limit(10)
)
SOME = select(timers.c.key).where(timers.c.key.in_(bindparam("of", expanding=True)))
FEW = select(timers.c.kind, timers.c.key).where(
    among(timers.c.kind, ["k", "it's"]), timers.c.key > bindparam("after"), timers.c.run_at == NOW
)
RENAME = (
    update(timers)
    .where(timers.c.kind == bindparam("old"))
    .values(kind=bindparam("new"))
    .returning(timers.c.key, timers.c.run_at)
)


def rows(*keys: str) -> list[dict[str, Any]]:
    return [{"kind": "k", "key": key, "run_at": NOW} for key in keys]


@pytest.fixture(params=[True, False], ids=["prepared", "plain"])
def conn(request: pytest.FixtureRequest, store: Store, kind: str) -> Iterator[Connection]:
    ours = Direct if kind == "sqlite" else Pipelined
    with (ours if request.param else Connection)(store._backend.engine) as opened:
        yield opened


def test_one_row_and_several_are_written_and_read_with_their_types(conn: Connection) -> None:
    conn.execute(insert(timers), rows("a")[0])
    conn.execute(insert(timers), rows("b", "c"))

    found = conn.execute(by(timers, Timer, "key"), {"key": "c"}).mappings().one()

    assert Timer(**found) == Timer(kind="k", key="c", run_at=NOW)


def test_what_is_written_into_the_text_and_what_is_fixed_keep_their_values(
    conn: Connection,
) -> None:
    conn.execute(insert(timers), rows("a", "b"))

    found = conn.execute(KINDS, {"now": NOW}).all()

    assert [tuple(row)[:2] for row in found] == [("k", "a b")]


def test_a_list_of_any_length_may_be_asked_for(conn: Connection) -> None:
    conn.execute(insert(timers), rows("a", "b", "c"))

    for wanted in (["a"], ["a", "c"], []):
        assert sorted(conn.execute(SOME, {"of": wanted}).scalars()) == wanted


def test_a_list_that_is_always_the_same_is_prepared(conn: Connection) -> None:
    conn.execute(insert(timers), [*rows("a", "b"), {**rows("c")[0], "kind": "it's"}])
    conn.execute(insert(timers), {**rows("d")[0], "kind": "other"})

    found = conn.execute(FEW, {"after": "a"}).all()

    assert sorted(tuple(row) for row in found) == [("it's", "c"), ("k", "b")]
    assert prepared(FEW, ("after",), conn.dialect) is not None
    assert prepared(SOME, ("of",), conn.dialect) is None


def test_a_change_gives_back_rows(conn: Connection) -> None:
    conn.execute(insert(timers), rows("a"))

    changed = conn.execute(RENAME, {"old": "k", "new": "other"}).one()

    assert (changed.key, changed.run_at) == ("a", NOW)
    assert conn.execute(RENAME, {"old": "k", "new": "other"}).one_or_none() is None


def test_a_row_that_is_there_already_is_told_as_such(conn: Connection) -> None:
    conn.execute(insert(timers), rows("a"))

    with pytest.raises(IntegrityError):
        _ = conn.execute(insert(timers), rows("a", "b")).rowcount


def test_nothing_is_found_where_nothing_is(conn: Connection) -> None:
    assert conn.execute(select(func.max(events.c.seq))).scalar() is None
    assert conn.execute(select(sessions.c.id)).all() == []


def test_who_listens_to_statements_is_told_of_them(conn: Connection) -> None:
    heard: list[str] = []

    def hear(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        heard.append(statement)

    event.listen(conn, "before_cursor_execute", hear)
    conn.execute(insert(timers), rows("a"))

    assert [text.split("(")[0].strip() for text in heard] == ["INSERT INTO timers"]
