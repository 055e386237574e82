"""An exported log: whatever is changed, removed, moved or put in is found, without a server."""

import hashlib
import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gonogo.domain.audit_chain import (
    ANCHORED,
    GENESIS,
    SYSTEM,
    Anchor,
    AuditPlace,
    ChainHead,
    ChainLink,
    Claim,
    FileCheck,
    Holding,
    Reconciliation,
    Record,
    claim_of_question,
    end_of,
    entry_hash,
    hashed,
    heads_digest,
    new_salt,
    read_anchors,
    seal_of,
    sealed,
)
from gonogo.domain.errors import InvalidCursor, InvalidMessage

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
    assert "s1: the file contains this chain twice" in checked(lines(S1 + S2 + S1 + SYS)).problems


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
    assert found == ["t1 #3: its content is gone, and no deletion is on record"]
    found = checked(sealed_lines(T1, [kept[0], erased(kept[1])])).problems
    assert found == ["system #2: its content is gone, and no deletion is on record"]
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
    assert check.problems[-1:] == ["the file has no last line: a part of it is missing"]


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
    assert checked(text, [ANCHOR], HEADS).problems == ["s1 #5: an anchor has another hash"]


def test_a_chain_that_was_cut_short_is_found_by_the_anchor():
    text = [*(link.line() for link in S1[:3] + S2 + SYS), end([S1[:3], S2, SYS])]
    assert checked(text, [ANCHOR], HEADS).problems == ["s1 #5: it is not in the file"]


def test_a_system_chain_that_was_rewritten_or_cut_is_found_by_the_anchor():
    forged = chained(SYSTEM, [("session.opened", {"x": 1}), (ANCHORED, {"moved": MOVED})])
    text = [*(link.line() for link in S1 + S2 + forged), end([S1, S2, forged])]
    short = [*(link.line() for link in S1 + S2 + SYS[:1]), end([S1, S2, SYS[:1]])]

    said = f"this is another entry; the anchor of {TIME} has the hash {ANCHOR.hash}"
    assert checked(text, [ANCHOR]).problems == [f"system #2: {said}"]
    gone = f"the anchor of {TIME} names it, and it does not exist"
    assert checked(short, [ANCHOR]).problems == [f"system #2: {gone}"]
    # The entry is that one, and no anchor.
    first = replace(ANCHOR, seq=1, hash=SYS[0].hash)
    assert checked(lines(), [first]).problems == [
        f"system #1: this is another entry; the anchor of {TIME} has the hash {SYS[0].hash}",
        "system #1: the ends of the chains are not those of the anchor",
    ]


def test_an_anchor_whose_heads_are_others_is_told():
    anchor = replace(ANCHOR, heads=heads_digest([head(S1)]))
    problems = checked(lines(), [anchor]).problems
    assert problems == ["system #2: the ends of the chains are not those of the anchor"]


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
    assert ANCHOR.text() == (
        f"gonogo-anchor-1 {TIME} system#2 {SYS[1].hash} chains=2 heads={heads_digest(HEADS)}"
    )
    for wrong in ("", "gonogo-anchor-1 x", ANCHOR.text().replace("heads=", "heads=zz")):
        with pytest.raises(InvalidMessage) as refused:
            read_anchors(wrong)
        assert str(refused.value) == "This is not an anchor; gonogo audit anchor prints one"


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def test_another_program_can_check_the_hashes_by_what_the_documents_say():
    first, sealed_one, of_system = S1[0], T1[0], T_SYS[0]
    told = {"ts": TIME, "actor": "ann", "seq": 1}
    plain = told | {"chain": "s1", "action": "did", "subject": "n1", "details": {"n": 0}}
    assert first.hash == sha("0" * 64 + canonical(plain))

    said = {"details": {"n": 0}, "subject": "a file"}
    assert sealed_one.seal == sha(sealed_one.salt + canonical(said))
    covered = told | {"chain": "t1", "action": "did", "seal": sealed_one.seal}
    assert sealed_one.hash == sha("0" * 64 + canonical(covered))

    assert of_system.seal == sha(of_system.salt + canonical({"details": {"at": "/w"}}))
    kept = {"chain": "system", "action": "session.opened", "subject": "t1", "seal": of_system.seal}
    assert of_system.hash == sha("0" * 64 + canonical(told | kept))

    heads = "".join(f"{chain[-1].chain} {chain[-1].seq} {chain[-1].hash}\n" for chain in (S1, S2))
    assert ANCHOR.heads == sha(heads)
    assert re.fullmatch("[0-9a-f]{32}", new_salt())


def test_a_line_of_an_export_has_the_fields_of_its_time():
    plain = ["chain", "seq", "ts", "actor", "action", "subject", "details", "prev_hash", "hash"]
    assert list(json.loads(S1[0].line())) == plain
    assert list(json.loads(T1[0].line())) == [*plain, "seal", "salt"]
    told = "".join(f"{h.chain} {h.seq} {h.hash}\n" for h in [*HEADS, head(SYS)])
    assert json.loads(END) == {"end": {"chains": 3, "entries": 11, "digest": sha(told)}}


def test_all_that_is_wrong_with_a_file_is_told():
    check = checked([S1[0].line(), S1[2].line(), json.dumps({"end": 1}), S1[3].line()])
    assert check.problems == [
        "s1 #3: expected entry 2; one is missing",
        "s1 #3: it does not follow the entry before it",
        "the file's last line does not fit its entries",
        "the file has more lines after its last one",
        "s1: the file contains this chain twice",
    ]
    assert check.begins == [ChainHead(chain="s1", seq=3, hash=S1[2].hash)]
    changed = checked([replace(S1[0], actor="bob").line()]).problems
    assert changed[0] == "s1 #1: its content was changed"


NO_END = "the file has no last line: a part of it is missing"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not valid JSON: Expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)"),
        ('{"a": 1, "a": 1}', "it is not valid JSON: an object contains the same key twice"),
        ("[" * 100_000, "it is not valid JSON: it is nested too deeply"),
        ("[]", "it is not a JSON object"),
        ("{}", "it does not have the fields of an audit entry"),
        (S1[0].line().replace('"seq": 1', '"seq": true'), "its seq has the wrong type"),
        (S1[0].line().replace('"ann"', "null"), "its actor has the wrong type"),
        (T1[0].line().replace(f'"{T1[0].salt}"', "1"), "its salt has the wrong type"),
    ],
)  # fmt: skip
def test_what_is_no_entry_is_told_with_its_line(text, said):
    assert checked([text]).problems == [f"line 1: {said}", NO_END]
    assert checked([S1[0].line(), text]).problems == [f"line 2: {said}", NO_END]


def test_of_a_file_that_is_no_export_one_line_is_said_and_of_an_export_each_by_its_number():
    assert checked(["no", "export"]).problems == [checked(["no"]).problems[0], NO_END]
    found = checked([S1[0].line(), "no", "export"]).problems
    assert [each.partition(":")[0] for each in found[:2]] == ["line 2", "line 3"]


def test_what_was_removed_erased_opened_and_deleted_is_on_record():
    removed = [("audit.pruned", "a", {"last": 3, "hash": "h3", "before": TIME}),
               ("session.erased", "b", {"last": 2, "hash": "h2"}),
               ("audit.pruned", "c", {"last": "3", "hash": "h"}), ("audit.pruned", "d", {}),
               ("session.deleted", "b", {}), ("session.opened", "a", {}),
               ("audit.anchored", "", {"moved": MOVED}),
               ("audit.anchored", "", {"moved": "x"})]  # fmt: skip
    record = Record()
    for link in sealed_chain(SYSTEM, removed):
        record.take(link)

    assert record.removed == {"a": ChainHead(chain="a", seq=3, hash="h3")}
    assert record.ends == {"b": ChainHead(chain="b", seq=2, hash="h2")}
    assert record.since == {"a": TIME, "b": ""}
    assert (record.sessions, record.deleted) == ({"a"}, {"b"})
    assert record.heads == {head.chain: head for head in HEADS}
    assert record.moved == {(h.chain, h.seq): h.hash for h in HEADS}
    assert list(record.not_deleted("system", {"z": 4, "b": 1, "a": 9})) == [
        "system #9: its content is gone, and no deletion is on record",
        "system #4: its content is gone, and no deletion is on record",
    ]


def said(seq, action, details, *, chain="s1", subject=""):
    return ChainLink(
        chain=chain, seq=seq, ts=TIME, actor="user:ann", action=action, subject=subject,
        details=details, prev_hash="", hash="",
    )  # fmt: skip


def reconciled(links, facts, known=(), *, chain="s1", since="2"):
    found = Reconciliation()
    for link in links:
        found.take(link)
    return list(found.problems(chain, facts, known, since))


QUESTION = {"approval_id": "a1", "digest": "d"}
ENTRIES = [
    said(1, "plan.asked", QUESTION), said(2, "plan.approved", QUESTION),
    said(3, "tool.allowed", {"call_id": "c1", "digest": "x"}),
    said(4, "tool.denied", {"call_id": "c2", "digest": "x"}), said(5, "noted", {"plan_id": "p9"}),
    said(6, "plan.approved", QUESTION), said(7, "noted", ["of no form"]),
]  # fmt: skip


def test_what_the_chain_or_the_database_alone_says_is_told():
    facts = [
        Holding(Claim("plan.asked", "a1", "", "d"), "2"),
        Holding(Claim("plan.rejected", "a0", "user:bob"), "2"),
        Holding(Claim("rule.made", "r0"), "1"),
        Holding(Claim("plan.commented", "k"), "3"),
    ]
    assert reconciled(ENTRIES, facts, ["c1"]) == [
        "s1: a0 is in the database, and there is no entry plan.rejected for it",
        "s1: k is in the database, and there is no entry plan.commented for it",
        "s1 #2: the database does not contain what the entry says of a1",
        "s1 #4: the database does not contain what the entry says of c2",
        "s1 #5: the database does not contain what the entry says of p9",
    ]
    whole = [
        Holding(Claim("plan.asked", "a1", "", "d"), "2"),
        Holding(Claim("plan.approved", "a1", "user:ann", "d"), "2"),
        Holding(Claim("tool.denied", "c2"), "2"),
        Holding(Claim("tool.allowed", "c1", "", "x"), "2"),
    ]
    assert reconciled(ENTRIES, whole, ["p9"]) == []


@pytest.mark.parametrize(
    ("action", "name"),
    [("tool.denied", "call_id"), ("rule.made", "rule_id"), ("link.made", "link_id"),
     ("plan.commented", "comment_id")],
)  # fmt: skip
def test_each_entry_is_about_what_its_details_name(action, name):
    missing = ["s1 #1: the database does not contain what the entry says of x1"]
    assert reconciled([said(1, action, {name: "x1"})], []) == missing
    assert reconciled([said(1, action, {name: "x1"})], [Holding(Claim(action, "x1"), "2")]) == []
    # Whatever an entry speaks of has to be there.
    assert reconciled([said(1, "noted", {name: "x1"})], []) == missing
    assert reconciled([said(1, "noted", {name: "x1"})], [], ["x1"]) == []


@pytest.mark.parametrize(
    "action",
    ["session.opened", "session.deleted", "token.created", "token.revoked", "grant.revoked"],
)
def test_an_entry_may_be_about_its_subject(action):
    link = said(1, action, {"plan_id": "p"}, chain=SYSTEM, subject="t1")
    told = reconciled([link], [], chain=SYSTEM)
    assert told == ["system #1: the database does not contain what the entry says of t1"]
    assert reconciled([link], [Holding(Claim(action, "t1"), "2")], chain=SYSTEM) == []


@pytest.mark.parametrize("word", ["approved", "edited", "rejected", "expired", "cancelled"])
def test_each_answer_to_a_question_is_a_claim_of_who_gave_it(word):
    given = Claim(f"tool.{word}", "a1", "user:ann", "d")
    assert claim_of_question(f"tool.{word}", "a1", "user:ann", "d") == given
    assert claim_of_question("tool.asked", "a1", "user:ann", None) == Claim("tool.asked", "a1")
    assert reconciled([said(1, f"tool.{word}", QUESTION)], [Holding(given, "2")]) == []


PLACE = AuditPlace(ts=datetime(2026, 11, 21, 12, tzinfo=UTC), chain="s~1", seq=0)


def test_a_place_in_the_log_is_read_in_any_zone_and_up_to_its_bounds():
    assert PLACE.text() == "2026-11-21T12:00:00+00:00~0~s~1"
    assert AuditPlace.read(PLACE.text()) == PLACE
    assert AuditPlace.read("2026-11-21T14:00:00+02:00~0~s~1") == PLACE
    assert AuditPlace.read("2026-11-21T12:00:00+00:00~2147483647~s").seq == 2_147_483_647


@pytest.mark.parametrize(
    "text",
    ["", "x", "2026-11-21T12:00:00~1~s", "2026-11-21T12:00:00+00:00~1~", "x~1~s",
     "2026-11-21T12:00:00+00:00~-1~s", "2026-11-21T12:00:00+00:00~2147483648~s",
     "2026-11-21T12:00:00+00:00~x~s", "0001-01-01T00:00:00+23:59~1~s"],
)  # fmt: skip
def test_what_names_no_place_in_the_log_is_refused_with_the_way_on(text):
    with pytest.raises(InvalidCursor) as refused:
        AuditPlace.read(text)
    assert str(refused.value) == (
        "before: there is no such place in the audit log; use the `before` of the page that "
        "you have"
    )
