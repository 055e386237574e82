"""The chains as a whole: nothing changes unseen, before and after old entries were removed."""

# ruff: noqa: S608 - statements of our own, with words of our own

from datetime import timedelta

import pytest
from sqlalchemy import text

from fakes.rows import NOW, approval, at, begin, begin_plan
from gonogo.domain.audit_chain import GENESIS, SYSTEM, ChainHead, heads_digest
from gonogo.domain.errors import Conflict
from gonogo.domain.states import ApprovalStatus
from gonogo.store import audit as auditing
from gonogo.store import events as log
from gonogo.store.calls import add_approval
from gonogo.store.sessions import set_session
from plugins.nightly import is_nightly

OLD, LATER = NOW - timedelta(days=100), NOW + timedelta(days=1)
CUT = NOW - timedelta(days=50)


class Undone(Exception):
    pass


def noted(tx, chain, count=1):
    for number in range(count):
        log.note(tx, chain, actor="ann", action="did", subject=f"n{number}", why="so")


def opened(tx, *sessions):
    for session in sessions:
        log.note(tx, SYSTEM, actor="ann", action="session.opened", subject=session, at="/w")


async def told(store):
    await store.write(begin, "s1", "s2")
    await store.write(at(OLD, opened), "s1", "s2")
    await store.write(at(OLD, noted), "s1", 4)
    await store.write(noted, "s1", 3)
    await store.write(at(OLD, noted), "s2", 3)


async def harmed(store, *statements, anchors=()):
    """What verify says when somebody did this to the database. Nothing of it stays."""
    found = []

    def attempt(tx):
        for statement in statements:
            tx.execute(text(statement))
        found.append(auditing.verify(tx, anchors))
        raise Undone

    with pytest.raises(Undone):
        await store.write(attempt)
    return found[0]


async def head_at(store, chain, seq):
    (link,) = await store.read(auditing.links, chain, seq - 1, seq)
    return ChainHead(chain=chain, seq=seq, hash=link.hash)


async def pruned(store):
    """The four old entries of s1, and all of s2, exported and removed."""
    heads = [await head_at(store, "s1", 4), await head_at(store, "s2", 3)]
    assert await store.write(auditing.prune, heads, CUT, "user:root") == heads
    return heads


INSERT = (
    "INSERT INTO audit (chain, seq, ts, actor, action, subject, details, prev_hash, hash) "
    "SELECT '{to}', {seq}, ts, actor, action, subject, details, prev_hash, hash FROM audit "
    "WHERE chain = '{chain}' AND seq = {like}"
)


def harms(chain, first, last):
    yield from (
        (f"UPDATE audit SET {column} = '{value}' WHERE chain = '{chain}' AND seq = {seq}",)
        for seq in range(first, last + 1)
        for column, value in {
            "ts": "2026-11-21T12:00:00.000001Z", "actor": "bob", "action": "x", "subject": "x",
            "details": "{}", "prev_hash": GENESIS[:-1] + "1", "hash": GENESIS,
        }.items()
    )  # fmt: skip
    yield from (
        (f"UPDATE audit SET {column} = '{value}' WHERE chain = '{chain}' AND seq = {last}",)
        for column, value in {"ts": "never", "details": "{{", "hash": "", "actor": "\u2028"}.items()
    )
    yield from (
        (f"UPDATE audit SET details = '{value}' WHERE chain = '{chain}' AND seq = {first}",)
        for value in ("NaN", '{"n" : 1e999}', '{"n" : "\\ud800"}', "[" * 100_000)
    )
    of = f"WHERE chain = '{chain}' AND seq"
    yield from ((f"DELETE FROM audit {of} = {seq}",) for seq in range(first, last + 1))
    yield (f"DELETE FROM audit WHERE chain = '{chain}'",)
    for one, two in ((first, last), (first, first + 1)):
        yield (
            f"UPDATE audit SET seq = 99 {of} = {one}", f"UPDATE audit SET seq = {one} {of} = {two}",
            f"UPDATE audit SET seq = {two} {of} = 99",
        )  # fmt: skip
    for seq in (0, -1, last + 1, 500):
        yield (INSERT.format(to=chain, seq=seq, chain=chain, like=last),)
    yield (INSERT.format(to="other", seq=1, chain=chain, like=last),)


ROW = "UPDATE {} SET {} = {} WHERE {} = '{}'"
HEAD_HARMS = [
    (ROW.format("sessions", "audit_seq", 3, "id", "s1"),),
    (ROW.format("sessions", "audit_seq", 0, "id", "s1"),),
    (ROW.format("sessions", "audit_hash", f"'{GENESIS}'", "id", "s1"),),
    (ROW.format("chains", "audit_seq", 1, "chain", SYSTEM),),
    ("DELETE FROM audit WHERE chain = 's2'", "DELETE FROM audit_floors WHERE chain = 's2'",
     "DELETE FROM sessions WHERE id = 's2'"),
]  # fmt: skip


def tried(kind, found):
    """All of them on SQLite; what finds them is the same code, and PostgreSQL has every fifth."""
    return list(found)[:: 1 if kind == "sqlite" or is_nightly() else 5]


@pytest.mark.unmeasured
async def test_whatever_is_done_to_a_row_is_found(store, kind):
    await told(store)
    assert (await store.read(auditing.verify)).ok
    for statements in tried(kind, [*harms("s1", 1, 7), *harms(SYSTEM, 1, 2), *HEAD_HARMS]):
        report = await harmed(store, *statements)
        assert not report.ok, statements
        assert report.problems, statements
    assert (await store.read(auditing.verify)).entries == 12


@pytest.mark.unmeasured
async def test_it_is_found_as_well_once_old_entries_were_removed(store, kind):
    await told(store)
    early = await store.read(auditing.links, "s1")
    heads = await pruned(store)
    report = await store.read(auditing.verify)

    assert (report.ok, report.entries, report.chains) == (True, 7, 3)
    assert [(f.chain, f.seq, f.hash, f.removed_at) for f in report.removed] == [
        (head.chain, head.seq, head.hash, NOW) for head in heads
    ]
    floors = [
        (f"UPDATE audit_floors SET {column} = {value} WHERE chain = 's1'",)
        for column, value in {"seq": 5, "hash": f"'{early[2].hash}'", "chain": "'s3'"}.items()
    ]
    further = await head_at(store, "s1", 6)
    floors += [
        ("DELETE FROM audit_floors WHERE chain = 's1'",),
        ("DELETE FROM audit WHERE chain = 's1' AND seq <= 6",
         f"UPDATE audit_floors SET seq = 6, hash = '{further.hash}' WHERE chain = 's1'"),
        (INSERT.format(to="s1", seq=2, chain="s1", like=5),),
        (INSERT.format(to="s2", seq=3, chain="s1", like=5),),
        (INSERT.format(to="s2", seq=4, chain="s1", like=5),),
    ]  # fmt: skip
    late = [*harms("s1", 5, 7), *harms(SYSTEM, 1, 4), *HEAD_HARMS]
    for statements in [*tried(kind, late), *floors]:
        assert not (await harmed(store, *statements)).ok, statements
    unfounded = await harmed(store, "DELETE FROM audit_floors WHERE chain = 's1'")
    assert (
        "s1: according to the database, entries up to 0 were removed; according to the log, "
        "up to 4" in unfounded.problems
    )


async def test_the_log_says_who_removed_what_and_goes_on(store):
    await told(store)
    heads = await pruned(store)
    entry = (await store.read(log.entries, SYSTEM))[-2]

    assert (entry.actor, entry.action, entry.subject) == ("user:root", "audit.pruned", "s1")
    assert entry.details == {
        "first": 1, "last": 4, "hash": heads[0].hash, "before": "2026-10-02T12:00:00.000000Z",
    }  # fmt: skip
    await store.write(noted, "s1", 2)
    await store.write(at(OLD, noted), "s2", 1)
    assert (await store.read(auditing.verify)).ok
    assert await store.write(auditing.prune, heads, LATER, "user:root") == []
    again = [await head_at(store, "s1", 6)]
    assert await store.write(auditing.prune, again, LATER, "user:root") == again
    assert (await store.read(auditing.verify)).ok


@pytest.mark.parametrize("chain", ["0", "A", "~"])
async def test_a_chain_of_any_name_can_be_removed(store, chain):
    await store.write(begin, chain)
    await store.write(at(OLD, noted), chain, 2)
    heads = [await head_at(store, chain, 2)]

    assert await store.write(auditing.prune, heads, CUT, "root") == heads


async def test_only_what_is_old_and_of_a_session_at_rest_can_be_removed(store):
    await told(store)

    def what(tx, before):
        found = auditing.removable(tx, "", None, before)
        return [(each.chain, each.first, each.last) for each in found]

    assert await store.read(what, CUT) == [("s1", 1, 4), ("s2", 1, 3)]
    assert await store.read(what, OLD) == []
    await store.write(
        lambda tx: tx.execute(
            text(
                "INSERT INTO turns (id, session_id, position, content, agent, status, epoch, "
                f"created_at) VALUES ('t1', 's1', 1, 'x', 'a', 'parked', 0, '{NOW.isoformat()}')"
            )
        )
    )
    assert await store.read(what, CUT) == [("s2", 1, 3)]
    busy = [await head_at(store, "s1", 4)]
    assert await store.write(auditing.prune, busy, CUT, "root") == []
    await store.write(lambda tx: set_session(tx, "s1", deleted=True))
    assert await store.read(what, CUT) == [("s1", 1, 4), ("s2", 1, 3)]
    young, other = await head_at(store, "s1", 5), ChainHead(chain="s1", seq=4, hash=GENESIS)
    system = [await head_at(store, SYSTEM, 1)]
    assert await store.write(auditing.prune, [young, *system], CUT, "root") == []
    with pytest.raises(
        Conflict,
        match=(
            r"^\S+ #\d+ is not the entry that was exported; check the log: gonogo audit verify$"
        ),
    ):
        await store.write(auditing.prune, [other], CUT, "root")
    assert (await store.read(auditing.verify)).entries == 12


async def test_nothing_of_a_session_in_which_somebody_is_still_asked_can_be_removed(store):
    await told(store)
    await store.write(begin_plan)

    def what(tx):
        return [each.chain for each in auditing.removable(tx, "", None, CUT)]

    def asked(tx, status):
        add_approval(tx, approval(f"appr_{status}", session_id="s2", status=status))

    for status in (ApprovalStatus.APPROVED, ApprovalStatus.REJECTED, ApprovalStatus.PENDING):
        assert await store.read(what) == ["s2"]
        await store.write(asked, status)
    assert await store.read(what) == []


async def test_an_anchor_tells_of_chains_that_were_rewritten_whole(store):
    await told(store)
    await store.write(auditing.set_anchor, "user:root")
    anchor = await store.read(auditing.last_anchor)
    await store.write(at(LATER, auditing.set_anchor), "user:root")
    assert await store.read(auditing.last_anchor) == anchor

    await store.write(noted, "s1", 2)
    await store.write(at(LATER, auditing.set_anchor), "user:root")
    second = await store.read(auditing.last_anchor)
    assert (second.chains, second.seq) == (2, anchor.seq + 1)
    for known in ([], [anchor], [second], [anchor, second]):
        assert (await store.read(auditing.verify, known)).ok

    rewritten = await harmed(store, *_anew("s2", 3, "bob"), anchors=[anchor])
    assert rewritten.problems == ["s2 #3: an anchor has another hash"]
    cut = await harmed(
        store, "DELETE FROM audit WHERE chain = 's2'",
        f"UPDATE sessions SET audit_seq = 0, audit_hash = '{GENESIS}' WHERE id = 's2'",
        anchors=[anchor],
    )  # fmt: skip
    assert cut.problems == ["s2 #3: an anchor has another hash"]
    whole = [*_anew("s2", 3, "bob"), *_anew(SYSTEM, 2, "bob", "session.opened", "s")]
    assert (await harmed(store, *whole)).ok
    found = await harmed(store, *whole, anchors=[anchor])
    assert "it does not exist" in found.problems[0]


def _anew(chain, count, actor, action="did", subject="x"):
    """A whole chain made up anew, with hashes that fit: what only an anchor can tell."""
    yield f"DELETE FROM audit WHERE chain = '{chain}'"
    prev = GENESIS
    for seq in range(1, count + 1):
        body = {
            "chain": chain, "seq": seq, "ts": "2026-11-21T12:00:00.000000Z", "actor": actor,
            "action": action, "subject": f"{subject}{seq}", "details": {},
        }  # fmt: skip
        digest = log.entry_hash(prev, body)
        yield (
            "INSERT INTO audit (chain, seq, ts, actor, action, subject, details, prev_hash, hash) "
            f"VALUES ('{chain}', {seq}, '{body['ts']}', '{actor}', '{action}', '{subject}{seq}', "
            f"'{{}}', '{prev}', '{digest}')"
        )
        prev = digest
    table, key = ("chains", "chain") if chain == SYSTEM else ("sessions", "id")
    yield (f"UPDATE {table} SET audit_seq = {count}, audit_hash = '{prev}' WHERE {key} = '{chain}'")


async def test_what_an_anchor_says_of_removed_entries_is_left_to_the_export(store):
    await told(store)
    await store.write(auditing.set_anchor, "user:root")
    anchor = await store.read(auditing.last_anchor)
    await store.write(at(OLD, noted), "s2", 1)
    heads = [await head_at(store, "s1", 4), await head_at(store, "s2", 4)]
    await store.write(auditing.prune, heads, CUT, "root")
    report = await store.read(auditing.verify, [anchor])

    assert report.ok
    assert [(head.chain, head.seq) for head in report.older] == [("s2", 3)]


async def test_a_span_of_time_has_no_holes_even_where_a_clock_went_back(store):
    await store.write(begin)
    for moment in (OLD, NOW, OLD, NOW, LATER):
        await store.write(at(moment, noted), "s1", 1)

    def spans(tx, since, until):
        found = auditing.windows(tx, "", None, since, until)
        return [(each.chain, each.first, each.last) for each in found]

    assert await store.read(spans, None, None) == [("s1", 1, 5)]
    assert await store.read(spans, NOW, None) == [("s1", 2, 5)]
    assert await store.read(spans, None, NOW) == [("s1", 1, 3)]
    assert await store.read(spans, NOW, LATER) == [("s1", 2, 4)]
    assert await store.read(spans, LATER + timedelta(days=1), None) == []


async def said(store, *statements, only=None):
    """What verify says of one chain when somebody did this to the database, and how much it saw."""
    found = []

    def attempt(tx):
        for statement in statements:
            tx.execute(text(statement))
        found.append(auditing.verify(tx, (), only))
        raise Undone

    with pytest.raises(Undone):
        await store.write(attempt)
    return found[0].problems, found[0].chains, found[0].entries


async def test_what_is_wrong_is_said_of_its_chain_and_only_of_those_that_are_asked_about(store):
    await told(store)
    both = [ROW.format("sessions", "audit_seq", 3, "id", "s1"),
            ROW.format("sessions", "audit_seq", 9, "id", "s2")]  # fmt: skip
    of_s1 = "s1: the chain ends at entry 7, and should end at entry 3"
    of_s2 = "s2: the chain ends at entry 3, and should end at entry 9"

    assert await said(store) == ([], 3, 12)
    assert await said(store, *both) == ([of_s1, of_s2], 3, 12)
    assert await said(store, *both, only="s1") == ([of_s1], 2, 9)
    assert await said(store, *both, only="s2") == ([of_s2], 2, 5)
    gone = "s2: the session is on record, and its whole chain is gone"
    missing = f"{SYSTEM} #2: the database does not contain what the entry says of s2"
    assert await said(store, *HEAD_HARMS[-1]) == ([missing, gone], 2, 9)
    assert await said(store, *HEAD_HARMS[-1], only="s1") == ([missing], 2, 9)
    system = f"{SYSTEM}: the chain ends at entry 2, and should end at entry 1"
    assert await said(store, *HEAD_HARMS[3], only="s1") == ([system], 2, 9)

    await pruned(store)
    floor = "UPDATE audit_floors SET seq = 2 WHERE chain = 's2'"
    problems, _, _ = await said(store, floor)
    assert any("entries up to 2 were removed; according to the log, up to 3" in p for p in problems)
    assert await said(store, floor, only="s1") == ([], 2, 7)
    report = await store.read(auditing.verify, (), "s2")
    assert [each.chain for each in report.removed] == ["s2"]


async def test_an_anchor_names_the_chains_that_moved_in_parts(store, monkeypatch):
    with pytest.raises(Conflict, match=r"^There is no anchor yet; make one: gonogo audit anchor$"):
        await store.read(auditing.last_anchor)
    await told(store)
    heads = [await head_at(store, "s1", 7), await head_at(store, "s2", 3)]
    moved = [[head.chain, head.seq, head.hash] for head in heads]
    digest = heads_digest(heads)
    monkeypatch.setattr(auditing, "_MOVED", 1)
    await store.write(auditing.set_anchor, "user:root")

    first, second = (await store.read(log.entries, SYSTEM))[2:]
    for entry, part in ((first, moved[:1]), (second, moved[1:])):
        assert (entry.actor, entry.action, entry.subject) == ("user:root", "audit.anchored", SYSTEM)
        assert entry.details == {"heads": digest, "chains": 2, "moved": part}
    anchor = await store.read(auditing.last_anchor)
    assert (anchor.seq, anchor.hash, anchor.chains, anchor.heads) == (4, second.hash, 2, digest)
    await store.write(auditing.set_anchor, "user:root")
    assert len(await store.read(log.entries, SYSTEM)) == 4
    await store.write(opened, "s3")
    await store.write(auditing.set_anchor, "user:root")
    last = (await store.read(log.entries, SYSTEM))[-1]
    assert last.details == {"heads": digest, "chains": 2, "moved": []}


async def test_chains_are_looked_for_one_page_after_the_other(store):
    await told(store)

    def found(tx, after, only):
        spans = auditing.windows(tx, after, only, None, None)
        olds = auditing.removable(tx, after, only, CUT)
        return [[(each.chain, each.first, each.last) for each in some] for some in (spans, olds)]

    every = [("s1", 1, 7), ("s2", 1, 3), (SYSTEM, 1, 2)]
    old = [("s1", 1, 4), ("s2", 1, 3)]
    assert await store.read(found, "", None) == [every, old]
    assert await store.read(found, "s1", None) == [every[1:], old[1:]]
    assert await store.read(found, "", "s2") == [every[1:2], old[1:]]
    assert await store.read(found, "s2", "s2") == [[], []]
    assert {*await store.read(auditing.chain_names)} == {"s1", "s2", SYSTEM}
