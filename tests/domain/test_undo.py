"""What undoing means: paths go back over unbroken runs of changes, and names survive being kept."""

import os
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fakes.rows import NOW
from gonogo.domain.base import digest
from gonogo.domain.records import Checkpoint, FileChange
from gonogo.domain.states import SubtaskStatus
from gonogo.domain.undo import (
    FOLDER,
    came_to,
    checkpoint_hash,
    is_unchanged,
    kept_path,
    net_changes,
    read_standings,
    real_path,
    reckon,
    shown_path,
    write_standings,
)


def change(number, path, before, after, origin="tool"):
    states = [
        state if isinstance(state, dict | None) else {"hash": state} for state in (before, after)
    ]
    return FileChange(
        id=number, session_id="s1", plan_id="p1", revision=1, subtask_id="a", call_id="c",
        workspace="/code", path=path, origin=origin, before=states[0], after=states[1],
        created_at=NOW,
    )  # fmt: skip


def test_a_run_of_changes_goes_back_to_where_it_began():
    [found] = reckon([change(1, "x", "0", "1"), change(2, "x", "1", "2")]).paths

    assert (found.wanted, found.left) == ({"hash": "0"}, {"hash": "2"})
    assert found.unbroken
    assert not found.shared


@pytest.mark.feature(92, 218)
def test_a_change_of_somebody_else_in_between_breaks_the_run():
    [found] = reckon([change(1, "x", "0", "1"), change(3, "x", "person", "2")]).paths

    assert not found.unbroken


def test_what_was_undone_already_counts_for_nothing():
    undone = [change(1, "x", None, "1"), change(2, "x", "1", None, "rollback")]

    assert reckon(undone).paths == ()
    [found] = reckon([*undone, change(3, "x", "person", "2")]).paths
    assert found.wanted == {"hash": "person"}
    assert found.unbroken


def test_what_changed_while_a_command_ran_may_be_a_persons():
    [found] = reckon([change(1, "x", None, "1"), change(2, "x", "1", "2", "command")]).paths

    assert found.shared


def test_folders_are_told_apart_from_files():
    folder = {"folder": True}
    found = reckon([
        change(1, "d", None, folder), change(2, "e", folder, None), change(3, "b", None, folder),
        change(4, "a", folder, None), change(5, "c", None, folder), change(6, "c", folder, None),
    ])  # fmt: skip

    assert (found.paths, found.made, found.gone) == ((), ("b", "d"), ("a", "e"))


def test_what_nobody_could_tell_is_never_undone_already():
    [found] = reckon([change(1, ".", None, {"unknown": "it was too large"})]).paths
    assert found.unknown
    assert (found.path, found.wanted, found.unbroken) == (".", None, True)
    [known, other] = reckon([change(1, "b", "0", "1"), change(2, "a", "0", None)]).paths
    assert (known.path, other.path) == ("a", "b")
    assert not known.unknown
    assert not other.unknown


def test_changes_come_to_what_is_otherwise_than_before_the_first():
    found = came_to(
        [
            change(1, "new", None, "1"), change(2, "twice", "0", "1"), change(3, "twice", "1", "2"),
            change(4, "back", "0", "1"), change(5, "back", "1", "0"), change(6, "gone", "0", None),
            change(7, "never", None, "1"), change(8, "never", "1", None),
            change(9, "folder", None, FOLDER),
        ]
    )  # fmt: skip

    assert found == {
        "new": (None, {"hash": "1"}), "twice": ({"hash": "0"}, {"hash": "2"}),
        "gone": ({"hash": "0"}, None), "folder": (None, FOLDER),
    }  # fmt: skip


def test_a_mode_is_a_change_where_it_is_known_and_what_nobody_knows_is_one():
    plain, can_run = {"hash": "0", "mode": 0o644}, {"hash": "0", "mode": 0o755}

    assert came_to([change(1, "x", plain, can_run)]) == {"x": (plain, can_run)}
    assert came_to([change(1, "x", plain, plain)]) == {}
    assert came_to([change(1, "x", plain, "0")]) == {}
    assert came_to([change(1, ".", None, {"unknown": "it was too large"})])
    assert came_to([]) == {}


def test_what_became_of_each_file_is_told_by_its_first_and_last_state():
    kept = {"hash": "1", "blob": "b1"}
    states = [
        ("new", None, kept), ("gone", kept, None), ("other", kept, "2"),
        ("dir", None, FOLDER), (".", None, {"unknown": "it was too large"}),
    ]  # fmt: skip
    found = net_changes([change(n, *each) for n, each in enumerate(states)])

    assert [(each.path, each.status, each.blobs) for each in found] == [
        (".", "unknown", (None, None)), ("gone", "deleted", ("b1", None)),
        ("new", "added", (None, "b1")), ("other", "modified", ("b1", None)),
    ]  # fmt: skip


@given(st.binary(min_size=1).filter(lambda name: not name.startswith(b"/") and b"\0" not in name))
def test_any_name_of_a_file_is_kept_as_text_and_read_again(name):
    path = os.fsdecode(name)

    kept = kept_path(path)

    kept.encode()
    assert real_path(kept) == path


@pytest.mark.parametrize("path", ["a%20b", "ü.txt", "100%"])
def test_a_name_that_is_text_is_kept_as_it_is(path):
    assert kept_path(path) == path


@pytest.mark.parametrize(
    ("path", "kept", "shown"),
    [
        ("a\udcff%", "/a%FF%25", "a%FF%25"), ("\udc80", "/%80", "%80"),
        ("ü/\udca0", "/ü/%A0", "ü/%A0"),
        ("ü", "ü", "ü"), ("a\udc7f", "a\udc7f", "a\udc7f"), ("\udd00", "\udd00", "\udd00"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_text_is_kept_percent_encoded(path, kept, shown):
    assert kept_path(path) == kept
    assert real_path(kept) == path
    assert shown_path(kept) == shown


def test_where_subtasks_stood_is_written_with_a_letter_each():
    assert write_standings(SubtaskStatus) == "prwcfsx"
    assert read_standings("prwcfsx") == list(SubtaskStatus)


def test_a_checkpoint_is_told_by_all_that_it_says_but_for_what_comes_later():
    made = Checkpoint(
        id="c1", session_id="s1", plan_id="p1", revision=1, subtask_id="a", attempt=2, reason="r",
        standings="pc", event_seq=3, last_change=4, tree=None, hash="", created_at=NOW,
    )  # fmt: skip
    facts = {
        "id": "c1", "session_id": "s1", "plan_id": "p1", "revision": 1, "subtask_id": "a",
        "attempt": 2, "reason": "r", "standings": "pc", "event_seq": 3, "last_change": 4,
        "tree": None, "created_at": "2026-11-21T12:00:00.000000+00:00",
    }  # fmt: skip
    assert checkpoint_hash(made) == digest(facts)
    elsewhere = NOW.astimezone(timezone(timedelta(hours=2)))
    assert checkpoint_hash(replace(made, created_at=elsewhere, swept_at=NOW)) == digest(facts)
    assert is_unchanged(replace(made, hash=digest(facts)))
    assert not is_unchanged(made)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, TEXTS, st.none() | TEXTS, st.integers(0, 2**63 - 1))
def test_the_hash_of_a_checkpoint_is_the_digest_of_its_canonical_form(reason, key, tree, number):
    facts = {
        "id": "c1", "session_id": "s1", "plan_id": "p1", "revision": 1, "subtask_id": key,
        "attempt": 2, "reason": reason, "standings": "pc", "event_seq": number, "last_change": 0,
        "tree": tree,
    }  # fmt: skip
    made = Checkpoint(**facts, hash="", created_at=NOW)
    told = {**facts, "created_at": "2026-11-21T12:00:00.000000+00:00"}
    assert checkpoint_hash(made) == digest(told)
