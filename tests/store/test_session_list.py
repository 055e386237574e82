"""The list of sessions: pages that hold while sessions come and go, and how each stands."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from fakes.rows import NOW, approval, begin, plan, revision, session, subtask
from gonogo.domain.errors import InvalidCursor
from gonogo.domain.records import SessionPlace
from gonogo.domain.states import ApprovalStatus, PlanStatus, SessionState, SubtaskStatus, TurnStatus
from gonogo.store import plans, sessions
from gonogo.store.calls import add_approval
from gonogo.store.rows import change
from gonogo.store.schema import subtasks as subtask_rows
from gonogo.store.schema import turns
from gonogo.store.sessions import SessionFilter, list_sessions, standings

SECOND = timedelta(seconds=1)


def add_all(tx, *made):
    for each in made:
        sessions.add_session(tx, each)


def ids(page):
    found, total = page
    return [each.id for each in found], total


async def test_pages_hold_where_sessions_come_and_go_between_them(store):
    def made(tx):
        # Two of one moment: the first id of them comes first.
        for number in (0, 1, 1, 2, 3):
            name = f"s{number}" + ("b" if sessions.session_of(tx, f"s{number}") else "")
            who = "ann" if number % 2 else "bob"
            at = NOW + number * SECOND
            add_all(tx, session(name, principal_id=who, created_at=at))
        add_all(tx, session("gone", deleted=True))

    await store.write(made)
    everybody, anns = SessionFilter(), SessionFilter(owner="ann")
    first, total = await store.read(list_sessions, everybody, 3)
    assert ([each.id for each in first], total) == (["s3", "s2", "s1"], 5)
    assert ids(await store.read(list_sessions, anns, 10)) == (["s3", "s1", "s1b"], 3)
    assert ids(await store.read(list_sessions, everybody, 2, 1)) == (["s2", "s1"], 5)

    later = session("s9", created_at=NOW + 9 * SECOND)
    await store.write(lambda tx: add_all(tx, later))
    await store.write(sessions.set_session, "s1", deleted=True)
    rest = replace(everybody, after=SessionPlace(first[-1].created_at, first[-1].id))
    assert ids(await store.read(list_sessions, rest, 9)) == (["s1b", "s0"], 5)
    worded = replace(rest, text="S")
    assert ids(await store.read(list_sessions, worded, 9)) == (["s1b", "s0"], 5)


def test_a_place_is_read_as_it_was_written_and_nothing_else_is_one():
    place = SessionPlace(NOW, "s~1")
    assert SessionPlace.read(place.text()) == place
    for text in ("", "x", "s1", NOW.isoformat(), f"{NOW.isoformat()}~", "2026-01-01T00:00:00~s1"):
        with pytest.raises(InvalidCursor, match="next"):
            SessionPlace.read(text)


async def test_sessions_are_found_by_title_folder_and_id_whatever_the_case(store):
    def made(tx):
        for number, title in enumerate(("Вход через Google", "50% done", None, "login_page")):
            who = "ann" if number % 2 else "bob"
            at = NOW + number * SECOND
            each = session(f"s{number}", principal_id=who, title=title, created_at=at)
            add_all(tx, replace(each, workspace=f"/src/Shop{number}"))
        add_all(tx, session("gone", title="login", deleted=True))

    async def found(text, who=None, limit=10, offset=0):
        wanted = SessionFilter(owner=who, text=text)
        return ids(await store.read(list_sessions, wanted, limit, offset))

    await store.write(made)

    assert await found("вХОД") == (["s0"], 1)
    assert await found("%") == (["s1"], 1)
    assert await found("N_p") == (["s3"], 1)
    assert await found("shop", limit=2, offset=1) == (["s2", "s1"], 4)
    assert await found("SHOP", "ann") == (["s3", "s1"], 2)
    assert await found("s2", "ann") == ([], 0)


async def test_a_session_says_how_it_stands_and_is_found_by_it(store):
    stand = SessionState
    await store.write(various)
    found = await store.read(standings, [each.value for each in stand] + ["history"])
    assert {name: one.state for name, one in found.items()} == {
        **{each.value: each for each in stand}, "history": stand.DONE,
    }  # fmt: skip
    waiting, running = found["waiting"], found["running"]
    assert (waiting.waiting, waiting.done, waiting.total) == (2, 0, 0)
    assert (running.waiting, running.done, running.total) == (0, 1, 2)
    for each in stand:
        names, total = ids(await store.read(list_sessions, SessionFilter(state=each), 9))
        assert each.value in names
        assert total == len(names) == (2 if each is stand.DONE else 1)
    assert await store.read(standings, []) == {}


def various(tx):
    """A session for each state, with its name; and one whose failed plan is history."""
    begin(tx, *SessionState, "history")

    def turn(of, status):
        made = sessions.add_turn(tx, f"turn-{of}", of, "Do", "coder")
        change(tx, turns, {"id": made.id}, {"status": status})

    def planned(of, status, **more):
        plan_id = f"plan-{of}"
        plans.add_plan(tx, plan(plan_id, session_id=of, status=status, **more))
        made = revision(subtask("a"), subtask("b", "a"), plan_id=plan_id)
        plans.add_revision(tx, made, "architect", "proposed")

    turn("waiting", TurnStatus.RUNNING)
    for number, status in enumerate([ApprovalStatus.PENDING] * 2 + [ApprovalStatus.APPROVED]):
        add_approval(tx, approval(f"a{number}", session_id="waiting", status=status))
    planned("running", PlanStatus.RUNNING)
    done = {"status": SubtaskStatus.COMPLETED}
    change(tx, subtask_rows, {"plan_id": "plan-running", "subtask_id": "a"}, done)
    planned("paused", PlanStatus.PAUSED)
    turn("failed", TurnStatus.DONE)
    planned("failed", PlanStatus.PARTIAL, created_at=tx.now + SECOND)
    turn("done", TurnStatus.DONE)
    planned("history", PlanStatus.FAILED, created_at=tx.now - SECOND)
    turn("history", TurnStatus.DONE)
