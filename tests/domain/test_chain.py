"""An exported log: whatever is changed, removed, moved or put in is found, without a server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gonogo.domain.audit_chain import (
    ANCHORED,
    GENESIS,
    SYSTEM,
    Anchor,
    ChainHead,
    ChainLink,
    FileCheck,
    end_of,
    entry_hash,
    hashed,
    heads_digest,
    new_salt,
    read_anchors,
    seal_of,
    sealed,
)
from gonogo.domain.errors import InvalidMessage

TIME = "2026-11-21T12:00:00.000000Z"


def chained(chain, entries):
    found, prev = [], GENESIS
    for seq, (action, details) in enumerate(entries, 1):
        body = hashed(chain, seq, TIME, "ann", action, f"n{seq}", details)
        found.append(ChainLink(**body, prev_hash=prev, hash=entry_hash(prev, body)))
        prev = found[-1].hash
    return found


def sealed_chain(chain, entries):
    """Entries of the present form: what they say is sealed."""
    found, prev = [], GENESIS
    for seq, (action, subject, details) in enumerate(entries, 1):
        salt = new_salt()
        seal = seal_of(salt, chain, subject, details)
        digest = entry_hash(prev, sealed(chain, seq, TIME, "ann", action, subject, seal))
        found.append(ChainLink(
            chain=chain, seq=seq, ts=TIME, actor="ann", action=action, subject=subject,
            details=details, prev_hash=prev, hash=digest, seal=seal, salt=salt,
        ))  # fmt: skip
        prev = digest
    return found


def erased(link):
    """An entry that says nothing any more."""
    subject = link.subject if link.chain == SYSTEM else ""
    return replace(link, subject=subject, details={}, salt=None)


def head(links):
    return ChainHead(chain=links[-1].chain, seq=links[-1].seq, hash=links[-1].hash)


S1 = chained("s1", [("did", {"n": n}) for n in range(5)])
S2 = chained("s2", [("did", {"n": n}) for n in range(3)])
HEADS = [head(S1), head(S2)]
MOVED = [[h.chain, h.seq, h.hash] for h in HEADS]
SYS = chained(
    SYSTEM, [("session.opened", {}), (ANCHORED, {"moved": MOVED}), ("session.deleted", {})]
)
ALL = S1 + S2 + SYS
T1 = sealed_chain("t1", [("did", "a file", {"n": n}) for n in range(4)])
T_SYS = sealed_chain(
    SYSTEM, [("session.opened", "t1", {"at": "/w"}), ("session.deleted", "t1", {}),
             ("did", "t1", {"n": 1})],
)  # fmt: skip
ANCHOR = Anchor(at=TIME, seq=2, hash=SYS[1].hash, chains=2, heads=heads_digest(HEADS))


def end(links):
    digest = "".join(f"{h.chain} {h.seq} {h.hash}\n" for h in map(head, links))
    from hashlib import sha256

    sizes = sum(map(len, links))
    return json.dumps({"end": end_of(len(links), sizes, sha256(digest.encode()).hexdigest())})


END = end([S1, S2, SYS])


def checked(lines, anchors=(), heads=()):
    check = FileCheck(anchors, heads)
    for line in lines:
        check.take(line)
    check.finish()
    return check


def lines(links=ALL):
    return [*(link.line() for link in links), END]


def test_a_whole_file_is_whole_and_says_where_its_chains_end():
    check = checked(lines(), [ANCHOR], HEADS)

    assert check.problems == []
    assert check.ends == [*HEADS, head(SYS)]
    assert check.record.anchored == set(HEADS)
    assert (check.entries, check.older) == (11, [])


places = st.integers(0, len(ALL) - 1)
CHANGES = {
    "chain": "s9", "seq": 99, "ts": "2026-11-21T12:00:00.000001Z", "actor": "bob",
    "action": "other", "subject": "x", "details": {"n": None}, "prev_hash": "1" * 64,
    "hash": "2" * 64,
}  # fmt: skip


@given(places, st.sampled_from(sorted(CHANGES)))
def test_any_changed_field_is_found(place, field):
    harmed = [*ALL]
    harmed[place] = replace(harmed[place], **{field: CHANGES[field]})
    assert checked(lines(harmed)).problems


@given(places, st.sampled_from(sorted({*CHANGES} - {"hash"})))
def test_a_changed_entry_with_a_fitting_hash_is_found_too(place, field):
    harmed = [*ALL]
    was = harmed[place] = replace(harmed[place], **{field: CHANGES[field]})
    body = hashed(was.chain, was.seq, was.ts, was.actor, was.action, was.subject, was.details)
    harmed[place] = replace(was, hash=entry_hash(was.prev_hash, body))
    # The very last entry of a chain has no next one: that is what the end and anchors are for.
    assert checked(lines(harmed)).problems


@given(places)
def test_any_removed_or_repeated_line_is_found(place):
    assert checked([line for n, line in enumerate(lines()) if n != place]).problems
    assert checked([*lines()[: place + 1], *lines()[place:]]).problems


def test_a_chain_that_is_in_a_file_twice_is_named():
    assert "s1: it stands in the file twice" in checked(lines(S1 + S2 + S1 + SYS)).problems


@given(places, places)
def test_any_two_lines_that_changed_places_are_found(one, other):
    harmed = [*ALL]
    harmed[one], harmed[other] = harmed[other], harmed[one]
    assert bool(checked(lines(harmed)).problems) == (one != other)


def sealed_lines(*chains):
    return [*(link.line() for links in chains for link in links), end(chains)]


SEALED = [*T1, *T_SYS]
SEALED_CHANGES = {**CHANGES, "seal": "3" * 64, "salt": "4" * 32}


@given(st.integers(0, len(SEALED) - 1), st.sampled_from(sorted(SEALED_CHANGES)))
def test_any_changed_field_of_a_sealed_entry_is_found(place, field):
    assert checked(sealed_lines(T1, T_SYS)).problems == []
    harmed = [*SEALED]
    harmed[place] = replace(harmed[place], **{field: SEALED_CHANGES[field]})
    assert checked([*(link.line() for link in harmed), end([T1, T_SYS])]).problems


def test_what_was_said_can_be_erased_where_its_session_was_deleted():
    gone = [erased(link) for link in T1]
    opened = [erased(T_SYS[0]), *T_SYS[1:]]
    assert checked(sealed_lines(gone, opened)).problems == []
    # Which were deleted, only the whole of the system's chain can tell.
    assert checked(sealed_lines(gone)).problems == []
    assert checked(sealed_lines(gone, T_SYS[1:])).problems == []


def test_what_was_said_cannot_be_erased_or_changed_unseen_otherwise():
    gone = [*T1[:2], erased(T1[2]), *T1[3:]]
    kept = sealed_chain(SYSTEM, [("session.opened", "t1", {}), ("did", "t1", {})])
    found = checked(sealed_lines(gone, kept)).problems
    assert found == ["t1 #3: what it said is gone, and no deletion is on record"]
    found = checked(sealed_lines(T1, [kept[0], erased(kept[1])])).problems
    assert found == ["system #2: what it said is gone, and no deletion is on record"]
    for change in ({"subject": "other"}, {"details": {"n": 1}}, {"seal": "0" * 64}):
        other = [*gone[:2], replace(gone[2], **change), *gone[3:]]
        assert "t1 #3: its content was changed" in checked(sealed_lines(other, T_SYS)).problems


def test_a_seal_tells_nothing_without_its_salt():
    first, second = (sealed_chain("t1", [("did", "a", {"n": 1})])[0] for _ in range(2))
    assert first.seal != second.seal
    assert erased(first).line().count(first.salt) == 0


@given(st.integers(0, len(ALL)))
def test_a_file_that_was_cut_off_is_found(size):
    check = checked(lines()[:size])
    assert check.problems[-1:] == ["the file has no end: a part of it is missing"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1", "{}", '{"end":1}', '{"chain":"s1"}', "[" * 100_000,
     S1[0].line()[:-1] + ',"more":1}', S1[0].line()[:-1] + ',"actor":"bob"}',
     S1[0].line().replace('"seq": 1', '"seq": true'),
     S1[0].line().replace('"seq": 1', '"seq": "1"'),
     S1[0].line().replace('"ann"', "null"), S1[0].line().replace('"n": 0', '"n": NaN'),
     S1[0].line().replace('"n": 0', '"n": 1e999'), S1[0].line().replace('"ann"', '"\\ud800"'),
     S1[0].line().replace('"n": 0', '"n": ' + "[" * 900 + "]" * 900)],
)  # fmt: skip
def test_a_line_that_is_no_entry_is_a_problem_and_ends_nothing(text):
    assert checked([text, *lines()]).problems
    assert checked([*lines(), text]).problems


def test_a_wholly_rewritten_chain_is_found_by_the_anchor_and_by_nothing_else():
    forged = chained("s1", [("did", {"n": n + 1}) for n in range(5)])
    text = [*(link.line() for link in forged + S2 + SYS), end([forged, S2, SYS])]

    assert checked(text).problems == []
    assert checked(text, [ANCHOR], HEADS).problems == ["s1 #5: an anchor says another hash"]


def test_a_chain_that_was_cut_short_is_found_by_the_anchor():
    text = [*(link.line() for link in S1[:3] + S2 + SYS), end([S1[:3], S2, SYS])]
    assert checked(text, [ANCHOR], HEADS).problems == ["s1 #5: it is not in the file"]


def test_a_system_chain_that_was_rewritten_or_cut_is_found_by_the_anchor():
    forged = chained(SYSTEM, [("session.opened", {"x": 1}), (ANCHORED, {"moved": MOVED})])
    text = [*(link.line() for link in S1 + S2 + forged), end([S1, S2, forged])]
    short = [*(link.line() for link in S1 + S2 + SYS[:1]), end([S1, S2, SYS[:1]])]

    assert "another entry stands here" in checked(text, [ANCHOR]).problems[0]
    assert "it is not there" in checked(short, [ANCHOR]).problems[0]


def test_an_anchor_whose_heads_are_others_is_told():
    anchor = replace(ANCHOR, heads=heads_digest([head(S1)]))
    problems = checked(lines(), [anchor]).problems
    assert problems == ["system #2: the heads are not those of the anchor"]


def test_an_entry_that_moves_nothing_readable_moves_no_head():
    odd = chained(SYSTEM, [(ANCHORED, {"moved": [["a", "one", "h"], "x"]})])
    check = checked([odd[0].line(), end([odd])])
    assert (check.problems, check.record.heads) == ([], {})


def test_a_file_may_begin_within_a_chain_and_says_so():
    text = [*(link.line() for link in S1[2:]), end([S1[2:]])]
    early = ChainHead(chain="s1", seq=1, hash=S1[0].hash)
    check = checked(text, heads=[early, ChainHead(chain="s1", seq=2, hash=S1[1].hash)])

    assert check.problems == []
    assert check.begins == [ChainHead(chain="s1", seq=2, hash=S1[1].hash)]
    assert check.older == [early]


def test_an_anchor_reads_back_from_among_other_lines():
    text = f"from: cron\n{ANCHOR.text()}\n\n{replace(ANCHOR, seq=7).text()}\n"
    assert read_anchors(text) == [ANCHOR, replace(ANCHOR, seq=7)]
    for wrong in ("", "gonogo-anchor-1 x", ANCHOR.text().replace("heads=", "heads=zz")):
        with pytest.raises(InvalidMessage):
            read_anchors(wrong)
