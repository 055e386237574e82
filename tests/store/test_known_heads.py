"""Known heads: a database that lost something of what it had is not opened as if it had not."""

import json
import re
import shutil
import stat
import time

import anyio
import pytest
from sqlalchemy import text

from fakes.rows import begin
from gonogo.domain.errors import Conflict
from gonogo.domain.events import Done
from gonogo.store import Store, look_at
from gonogo.store import events as log
from gonogo.store.erasing import end_session
from gonogo.store.sessions import set_session
from gonogo.store.sqlite import KnownHeads
from gonogo.store.transaction import Extent


@pytest.fixture
def kind():
    return "sqlite"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "gonogo.db"


def opened(file, **how):
    return Store(f"sqlite:///{file}", **how)


async def told(store, times=1, chain="s1"):
    for _ in range(times):
        await store.write(log.note, chain, actor="ann", action="did", subject="x")


async def grown(file, times=3):
    """A database with a session, closed as it should be."""
    store = opened(file)
    if not file.with_name("gonogo.db-heads").exists():
        await store.write(log.start_system_chain)
        await store.write(begin)
    await told(store, times)
    store.close()


def copied(file, to, *ends):
    to.mkdir()
    for end in ends:
        shutil.copy(file.with_name(f"{file.name}{end}"), to)


def put_back(file, place):
    for name in place.iterdir():
        shutil.copy(name, file.parent)


async def test_what_was_written_last_is_known_when_it_is_opened_again(file):
    await grown(file)
    store = opened(file)
    assert store.missing == []
    known = json.loads(file.with_name("gonogo.db-heads").read_text())
    place = await store.read(log.extent_of, "s1")
    store.close()

    assert known["s1"] == list(place)
    assert stat.S_IMODE(file.with_name("gonogo.db-heads").stat().st_mode) == 0o600


async def test_an_old_copy_in_its_place_is_refused_and_what_to_do_is_said(file, tmp_path):
    await grown(file)
    copied(file, tmp_path / "copy", "")
    await grown(file)
    put_back(file, tmp_path / "copy")

    for _ in range(2):
        with pytest.raises(Conflict, match=re.escape("--accept-restored")) as said:
            opened(file)
    assert str(said.value) == (
        f"The database {file} is older than gonogo's last record of it: chain s1 had 6 entries, "
        "and now has 3. Its -wal file was lost, or an older copy replaced it, so later work is "
        "missing from it. Restore the newer database together with its -wal file. To continue with "
        "this one, check what changed in your files, then accept it: start "
        "once with --accept-restored (gonogo serve or gonogo db migrate)"
    )


async def test_a_loss_that_was_accepted_is_known_once_and_the_rest_goes_on(file, tmp_path):
    await grown(file)
    copied(file, tmp_path / "copy", "")
    await grown(file)
    put_back(file, tmp_path / "copy")

    store = opened(file, accept_restored=True)
    assert store.missing == ["chain s1 had 6 entries, and now has 3"]
    await told(store)
    store.close()
    store = opened(file)
    assert store.missing == []
    store.close()


@pytest.mark.parametrize("events", [False, True])
async def test_a_log_that_is_gone_is_noticed(file, tmp_path, events):
    """The file as it was, and its -wal file lost: what a power cut or a hasty copy leaves."""
    store = opened(file)
    await store.write(log.start_system_chain)
    await store.write(begin)
    assert await store.settle()
    copied(file, tmp_path / "copy", "")
    if events:
        await store.write(log.tell, "s1", Done(), Done())
    else:
        await told(store)
    store.close()
    put_back(file, tmp_path / "copy")
    file.with_name("gonogo.db-wal").unlink(missing_ok=True)

    with pytest.raises(
        Conflict,
        match="session s1 had 2 events, and now has 0"
        if events
        else "chain s1 had 1 entries, and now has 0",
    ):
        opened(file)


@pytest.mark.parametrize("harm", ["gone", "empty"])
async def test_a_database_that_is_gone_is_not_made_anew(file, harm):
    await grown(file)
    file.unlink()
    if harm == "empty":
        file.touch()

    for _ in range(2):
        with pytest.raises(Conflict, match="chain s1 had 3 entries, and is gone"):
            opened(file)
    opened(file, accept_restored=True).close()


async def test_another_history_of_the_same_length_is_no_newer_one(file, tmp_path):
    await grown(file)
    copied(file, tmp_path / "copy", "", "-heads")
    await grown(file, 2)
    mine = file.with_name("gonogo.db-heads").read_bytes()
    put_back(file, tmp_path / "copy")
    store = opened(file)
    for number in range(4):
        await store.write(log.note, "s1", actor="bob", action="other", subject=f"{number}")
    store.close()
    file.with_name("gonogo.db-heads").write_bytes(mine)

    with pytest.raises(Conflict, match="entry 5 of chain s1 was another one"):
        opened(file)


async def test_a_record_that_is_behind_is_no_harm(file, tmp_path):
    """It is written once a second: whoever is killed leaves one that knows less."""
    await grown(file)
    copied(file, tmp_path / "copy", "-heads")
    await grown(file)
    put_back(file, tmp_path / "copy")

    opened(file).close()


@pytest.mark.parametrize("harm", [b"", b"{", b"[1]", b'{"s1": ["x"]}', b"\xff", b"[" * 100_000])
async def test_a_record_that_was_cut_off_is_none(file, harm, caplog):
    await grown(file)
    file.with_name("gonogo.db-heads").write_bytes(harm)

    store = opened(file)
    assert f"{file}-heads cannot be read; it is made anew" in caplog.messages
    await told(store)
    store.close()
    assert json.loads(file.with_name("gonogo.db-heads").read_text())["s1"][0] == 4


async def test_a_record_that_cannot_be_written_stops_nobody(file, caplog):
    await grown(file)
    file.with_name("gonogo.db-heads").unlink()
    file.with_name("gonogo.db-heads").mkdir()

    await grown_in_spite(file)
    assert f"{file}-heads cannot be written: Is a directory" in caplog.messages
    assert [path.name for path in file.parent.glob("gonogo.db-heads-*")] == []


async def grown_in_spite(file):
    store = opened(file)
    await told(store)
    assert (await store.read(log.extent_of, "s1")).entries == 4
    store.close()


async def with_chains(file, count):
    """A store with so many sessions, in each of which something was written down."""
    store = opened(file)
    await store.write(log.start_system_chain)
    names = [f"s{number}" for number in range(count)]
    await store.write(begin, *names)
    for name in names:
        await told(store, chain=name)
    return store, names


async def test_it_names_the_chains_that_grew_last_and_stays_small(file):
    store, names = await with_chains(file, 150)
    await told(store, chain="s0")
    store.close()

    known = json.loads(file.with_name("gonogo.db-heads").read_text())
    assert list(known) == [*names[51:], "s0"]


async def test_of_many_chains_that_are_gone_three_are_named_and_the_others_counted(file):
    store, _ = await with_chains(file, 4)
    store.close()
    file.unlink()

    with pytest.raises(Conflict, match=r"\(and 1 more\)\. Its -wal file"):
        opened(file)


async def test_what_is_undone_is_not_known(file):
    def fail(tx):
        log.note(tx, "s1", actor="ann", action="did", subject="x")
        log.flush(tx)
        raise KeyError

    await grown(file)
    store = opened(file)
    with pytest.raises(KeyError):
        await store.write(fail)
    store.close()

    opened(file).close()


async def test_between_two_commits_what_is_new_is_written_before_long(file):
    store = opened(file)
    await store.write(log.start_system_chain)
    await store.write(begin)
    await told(store, 5)
    with anyio.fail_after(30):
        while written(file).get("s1", [0])[0] < 5:  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.02)
    store.close()


def written(file):
    return json.loads(file.with_name("gonogo.db-heads").read_text())


def test_it_is_written_once_a_second_at_most(file):
    file.parent.mkdir()
    heads, seen, began = KnownHeads(file), set(), time.monotonic()
    for number in range(2_000):
        heads.saw({"s1": Extent(number, "hash", number)})
        found = heads.path.stat()
        seen.add((found.st_ino, found.st_mtime_ns))

    assert 1 <= len(seen) <= 1 + time.monotonic() - began
    heads.write()
    assert written(file) == {"s1": [1_999, "hash", 1_999]}


async def test_a_deleted_or_pruned_session_is_no_loss(file):
    store = opened(file)
    await store.write(log.start_system_chain)
    await store.write(begin)
    await told(store, 3)
    await store.write(set_session, "s1", deleted=True)
    await store.write(end_session, "s1")
    await store.write(lambda tx: tx.execute(text("DELETE FROM audit WHERE seq < 3")))
    store.close()

    opened(file).close()


async def test_a_look_at_a_database_says_what_a_start_would_say(file):
    await grown(file)
    url = f"sqlite:///{file}"
    assert look_at(url)[0] == look_at(url)[1]
    file.unlink()
    with pytest.raises(Conflict, match="and is gone"):
        look_at(url)
    assert not file.exists()
