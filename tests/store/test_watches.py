"""A watch stays until somebody has looked, on both databases; one answer ends it."""

from datetime import UTC, datetime

from gonogo.domain.records import Watch
from gonogo.store import Store
from gonogo.store.plans import (
    WATCH,
    add_watch,
    drop_watch,
    give_away,
    look_later,
    resume_watches,
    set_found,
    watch_of,
    watches_of_session,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def watch(call_id: str = "c", session_id: str = "s") -> Watch:
    return Watch(
        call_id=call_id, session_id=session_id, workspace="/w", marks={".git": "folder:1:2"},
        expects=["sub/.git"], created_at=NOW,
    )  # fmt: skip


async def jobs(store: Store, fn, *args) -> list[tuple[str, str]]:
    """The jobs that a transaction sets going."""

    def run(tx):
        fn(tx, *args)
        return [(job.kind, job.key) for job in tx.outbox.jobs]

    return await store.write(run)


async def test_a_watch_is_read_as_it_was_written(store: Store) -> None:
    await store.write(add_watch, watch())

    assert await store.read(watch_of, "c") == watch()
    assert await store.read(watch_of, "other") is None


async def test_a_call_that_starts_anew_is_watched_anew(store: Store) -> None:
    await store.write(add_watch, watch())
    await store.write(set_found, "c", [".envrc"], "completed")
    await store.write(add_watch, watch())

    assert await store.read(watch_of, "c") == watch()


async def test_what_was_found_is_written_once(store: Store) -> None:
    await store.write(add_watch, watch())

    assert await store.write(set_found, "c", [".envrc"], "completed")
    assert not await store.write(set_found, "c", [".git"], "failed")
    assert not await store.write(set_found, "other", [], None)
    found = await store.read(watch_of, "c")
    assert found is not None
    assert (found.found, found.ended) == ([".envrc"], "completed")


async def test_a_watch_ends_once(store: Store) -> None:
    await store.write(add_watch, watch())

    assert [await store.write(drop_watch, "c") for _ in range(2)] == [True, False]


async def test_after_a_start_whatever_nobody_waits_for_goes_on(store: Store) -> None:
    for call_id in ("unseen", "asked", "taken"):
        await store.write(add_watch, watch(call_id))
    for call_id in ("asked", "taken"):
        await store.write(set_found, call_id, [".git"], None)
    assert await jobs(store, give_away, "taken", "ann") == [(WATCH, "taken")]

    assert set(await jobs(store, resume_watches)) == {(WATCH, "unseen"), (WATCH, "taken")}
    assert await jobs(store, give_away, "taken", None) == []
    assert await jobs(store, resume_watches) == [(WATCH, "unseen")]


async def test_only_a_call_that_is_watched_is_looked_after_later(store: Store) -> None:
    await store.write(add_watch, watch())

    assert await jobs(store, look_later, "c") == [(WATCH, "c")]
    assert await jobs(store, look_later, "other") == []


async def test_a_sessions_watches_are_its_own(store: Store) -> None:
    await store.write(add_watch, watch("a", "s"))
    await store.write(add_watch, watch("b", "t"))

    assert [each.call_id for each in await store.read(watches_of_session, "s")] == ["a"]
