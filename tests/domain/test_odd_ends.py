"""What only damaged data and odd texts reach: it does no harm."""

from types import SimpleNamespace

from gonogo.domain._condition_type import _branches, _opened
from gonogo.domain.bearer import _at
from gonogo.domain.chain import Anchor, Head, Link, Record, heads_digest


def signs(text):
    return [SimpleNamespace(kind="sign", text=sign) for sign in text]


def link_of(**more):
    fields = {
        "chain": "system",
        "seq": 1,
        "ts": "t",
        "actor": "gonogo",
        "action": "audit.anchored",
        "subject": "s",
        "details": {"moved": []},
        "prev_hash": "",
        "hash": "h",
    }
    return Link(**{**fields, **more})


def test_a_bracket_that_nobody_opened_opens_at_the_beginning():
    assert _opened(signs("))")) == 0


def test_a_choice_without_its_second_half_has_no_branches():
    assert _branches(signs("?"), [0]) == []


def test_a_claim_within_something_that_has_no_names_is_not_there():
    assert _at({"realm": "x"}, "realm.roles") is None


def test_an_entry_that_moves_nothing_readable_moves_no_head():
    record = Record()
    record.take(link_of(details={"moved": [["a", "one", "h"], "x"]}))
    assert record.heads == {}


def test_an_anchor_whose_heads_are_others_is_told():
    heads = [Head(chain="a", seq=1, hash="h")]
    anchor = Anchor(at="t", seq=1, hash="h", chains=1, heads=heads_digest(heads))
    record = Record([anchor])
    record.take(link_of())
    assert record.problems == ["system #1: the heads are not those of the anchor"]
