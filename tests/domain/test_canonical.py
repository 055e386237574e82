"""Canonical JSON: equal values give equal bytes, other values other digests."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.base import canonical_json, content_hash, digest
from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass, Verdict

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def turned_round(value):
    match value:
        case dict():
            return {key: turned_round(value[key]) for key in reversed(value)}
        case list():
            return [turned_round(each) for each in value]
        case _:
            return value


@given(values)
def test_neither_the_order_of_keys_nor_a_way_through_json_changes_a_digest(value):
    assert digest(turned_round(value)) == digest(value)
    assert digest(json.loads(canonical_json(value))) == digest(value)
    assert digest(json.loads(json.dumps(value, indent=2))) == digest(value)


@given(values, values)
def test_different_values_have_different_digests(one, other):
    assert (digest(one) == digest(other)) == (canonical_json(one) == canonical_json(other))


def test_the_form_is_the_one_that_other_programs_can_make():
    written = '{"a":[1,1.5,null,true],"я":"\\n/"}'

    assert canonical_json({"я": "\n/", "a": [1, 1.5, None, True]}) == written
    assert digest({"я": "\n/", "a": [1, 1.5, None, True]}) == (
        "sha256:" + hashlib.sha256(written.encode()).hexdigest()
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_has_no_digest(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"a": number})


def test_a_content_hash_is_that_of_the_bytes():
    assert content_hash(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()


CALL = Call(
    tool="write_file", tool_class=ToolClass.IDEMPOTENT, agent="coder",
    arguments={"path": "a", "content": "b"}, access=Access(writes=("a",)),
    base_hashes={"a": None}, plan_id="p", revision=1, subtask_id="s",
)  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "edit_file"},
        {"arguments": {"path": "a", "content": "c"}},
        {"access": Access(writes=("a",), cwd="sub")},
        {"base_hashes": {"a": "sha256:0"}},
        {"plan_id": "p2"},
        {"revision": 2},
        {"subtask_id": "t"},
    ],
)
def test_the_digest_of_a_call_binds_everything_that_decides_what_will_run(other):
    assert CALL.model_copy(update=other).digest("v1") != CALL.digest("v1")


def test_the_digest_of_a_call_binds_the_policy_and_not_who_asked():
    assert CALL.digest("v2") != CALL.digest("v1")
    assert CALL.model_copy(update={"agent": "debug"}).digest("v1") == CALL.digest("v1")


def test_what_the_digest_of_a_call_binds_is_all_of_this():
    access = {"reads": [], "writes": ["a"], "deletes": [], "command": None, "cwd": None,
              "network": []}  # fmt: skip
    bound = {
        "tool": "write_file", "arguments": {"path": "a", "content": "b"}, "access": access,
        "base_hashes": {"a": None}, "plan_id": "p", "revision": 1, "subtask_id": "s",
        "policy_version": "v1",
    }  # fmt: skip
    assert CALL.digest("v1") == digest(bound)
    foreign = CALL.model_copy(update={"definition": "sha256:d"})
    assert foreign.digest("v1") == digest(bound | {"definition": "sha256:d"})
    # What is there only now and then is bound where it is there.
    rare = {"own_programs": ["x"], "unlooked": ["y"]}
    seen = CALL.model_copy(update={"access": Access(writes=("a",), **rare)})
    assert seen.digest("v1") == digest(bound | {"access": access | rare})


def test_what_a_call_and_its_verdict_do_not_say_is_not_there():
    made = Call(tool="t", tool_class=ToolClass.PURE, agent="coder", arguments={})
    assert made.digest("v1") != CALL.digest("v1")
    assert made.model_dump(mode="json") == {
        "tool": "t", "tool_class": "pure", "agent": "coder", "arguments": {}, "base_hashes": {},
        "plan_id": None, "revision": None, "subtask_id": None, "definition": None,
        "access": {
            "reads": [], "writes": [], "deletes": [], "command": None, "cwd": None, "network": [],
            "own_programs": [], "unlooked": [],
        },
    }  # fmt: skip
    assert Verdict(decision="ask", reason="r", rule="user:1").model_dump(mode="json") == {
        "decision": "ask", "reason": "r", "rule": "user:1", "source": "rule", "run_as": None,
        "git_as": None, "network": False, "read_only": False, "expects": [], "definition": None,
    }  # fmt: skip
    grant = Grant(grant_id="g", plan_id="p", revision=1, subtask_id="a")
    assert (grant.scope, grant.words, grant.name) == (Scope(), None, "grant:p#a")
