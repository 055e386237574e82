"""Rollbacks, without a runtime around them: what somebody else does meanwhile spoils nothing."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio.from_thread
import pytest

from fakes import rows
from gonogo.domain.base import content_hash
from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.plan_views import RollbackFile
from gonogo.domain.records import Checkpoint, Plan
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.rollback import Rollbacks, Rolled, wanted_rollback
from gonogo.store import Store, Tx
from gonogo.store.checkpoints import Doer, Touched, add_changes, add_checkpoints
from gonogo.store.events import entries, events_after
from gonogo.store.plans import (
    Move,
    add_plan,
    add_revision,
    move_subtasks,
    plan_of,
    set_plan,
    subtask_key,
)
from gonogo.store.sessions import add_session
from gonogo.workspace import Restore, Snapshots, Traffic, Tree, Workspace

FILES = {"a.txt": "by a\n", "b.txt": "by b\n"}


class Watched(Snapshots):
    """Snapshots during which somebody else does something."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.taking: Callable[[], object] = lambda: None
        self.applying: Callable[[], object] = lambda: None

    def take(self, workspace: Workspace) -> Tree:
        tree = super().take(workspace)
        self.taking()
        return tree

    def apply(self, workspace: Workspace, restore: Restore) -> None:
        self.applying()
        super().apply(workspace, restore)


class Site:
    """A plan that is over or rests; its subtasks `a` and `b` made a file each."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store, self.root = store, root / "work"
        self.root.mkdir()
        for path, text in FILES.items():
            (self.root / path).write_text(text)
        self.snapshots = Watched(root / "snapshots")
        self.rollbacks = Rollbacks(
            store=store, snapshots=self.snapshots, traffic=Traffic(),
        )  # fmt: skip

    async def begin(self, status: PlanStatus) -> None:
        def write(tx: Tx) -> None:
            add_session(tx, rows.session(workspace=str(self.root)))
            first = rows.revision(rows.subtask("a"), rows.subtask("b"))
            add_plan(tx, rows.plan(status=status, digest=first.digest))
            add_revision(tx, first, "architect", "first")
            for path, text in FILES.items():
                doer = Doer("s1", "p1", 1, path[0], f"call_{path[0]}", str(self.root))
                left = {"hash": content_hash(text.encode())}
                add_changes(tx, doer, "tool", [Touched(path, None, left)])

        await self.store.write(write)

    async def roll_back(self, subtask_id: str) -> Rolled:
        def find(tx: Tx):
            return wanted_rollback(tx, "p1", None, subtask_id)

        return await self.rollbacks.carry_out(find, "ann", include_shared=False)

    async def plan(self) -> Plan:
        return await self.store.read(partial(plan_of, plan_id="p1"))

    def left(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir())


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Site:
    return Site(store, tmp_path)


@pytest.mark.parametrize("status", [PlanStatus.COMPLETED, PlanStatus.PAUSED])
async def test_a_rollback_that_met_a_conflict_changed_nothing_and_keeps_nobody_waiting(
    site: Site, status: PlanStatus
) -> None:
    await site.begin(status)
    site.snapshots.applying = lambda: (site.root / "a.txt").write_text("by a person\n")
    with pytest.raises(Conflict, match=r"cannot be restored: .*a\.txt"):
        await site.roll_back("a")

    plan = await site.plan()
    assert (plan.status, plan.rollback, plan.pause_reason) == (status, None, None)
    assert (site.root / "a.txt").read_text() == "by a person\n"
    await site.roll_back("b")
    assert site.left() == ["a.txt"]


async def test_what_nobody_could_tell_is_a_conflict_and_the_files_beside_it_go_back(
    site: Site,
) -> None:
    await site.begin(PlanStatus.COMPLETED)

    def also(tx: Tx) -> None:
        command = Doer("s1", "p1", 1, "a", "call_command", str(site.root))
        unseen = Touched(".", None, {"unknown": "there are too many files"})
        lost = Touched("b.txt", {"hash": "0"}, {"hash": content_hash(FILES["b.txt"].encode())})
        add_changes(tx, command, "command", [unseen, lost])

    await site.store.write(also)
    rolled = await site.roll_back("a")

    assert rolled.judged.files == (
        RollbackFile(path=".", action="conflict", reason="unknown"),
        RollbackFile(path="a.txt", action="delete"),
        RollbackFile(path="b.txt", action="conflict", reason="unknown"),
    )
    assert site.left() == ["b.txt"]


async def test_a_rollback_is_refused_where_the_plan_got_another_revision_meanwhile(
    site: Site,
) -> None:
    await site.begin(PlanStatus.COMPLETED)

    def revised(tx: Tx) -> None:
        second = rows.revision(rows.subtask("a"), rows.subtask("c"), number=2)
        plan = plan_of(tx, "p1")
        assert plan is not None
        add_revision(tx, second, "ann", "retry")
        set_plan(tx, plan, revision=2, digest=second.digest)

    site.snapshots.taking = lambda: anyio.from_thread.run(site.store.write, revised)
    with pytest.raises(Conflict, match="Plan p1 has changed in the meantime; look at it again"):
        await site.roll_back("a")

    assert (await site.plan()).rollback is None
    assert site.left() == ["a.txt", "b.txt"]


# What is refused, and in which words -------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("awaiting_approval", "is awaiting_approval; decide on it or cancel it first"),
        ("approved", "is approved; decide on it or cancel it first"),
        ("replanning", "is replanning; wait for its new revision, or cancel it"),
        ("running", "is running; pause it first"),
    ],
)
async def test_while_something_of_a_plan_may_run_it_is_said_what_comes_first(
    site: Site, status: str, said: str
) -> None:
    await site.begin(PlanStatus(status))
    with pytest.raises(Conflict) as refused:
        await site.roll_back("a")

    assert str(refused.value) == f"Plan p1 {said}"
    # To look changes nothing, so that may be done at any time.
    look = partial(wanted_rollback, plan_id="p1", checkpoint_id=None, subtask_id="a", looks=True)
    assert (await site.rollbacks.look(look, include_shared=False)).undoing.subtasks == ["a"]


@pytest.mark.parametrize("status", [SubtaskStatus.RUNNING, SubtaskStatus.WAITING_APPROVAL])
async def test_a_paused_plan_is_at_rest_once_none_of_its_subtasks_is_under_way(
    site: Site, status: SubtaskStatus
) -> None:
    await site.begin(PlanStatus.PAUSED)

    def begin(tx: Tx) -> None:
        for key in ("b", "a"):
            place = (subtask_key("p1", 1, key), SubtaskStatus.PENDING, 0)
            assert move_subtasks(tx, [Move(*place, status, {"attempt": 1})])

    await site.store.write(begin)
    with pytest.raises(Conflict) as refused:
        await site.roll_back("a")
    assert str(refused.value) == (
        "Plan p1 is paused, but a, b has not stopped yet; try again in a moment"
    )


async def test_what_is_not_there_cannot_be_rolled_back(site: Site) -> None:
    await site.begin(PlanStatus.COMPLETED)

    def look(tx: Tx) -> list[str]:
        def refused(plan_id: str, *named: str | None, **more: bool) -> str:
            with pytest.raises((Conflict, NotFound)) as found:
                wanted_rollback(tx, plan_id, *named, **more)
            return str(found.value)

        return [
            refused("p2", None, None), refused("p1", None, "c"), refused("p1", "cp", None),
            refused("p1", None, None), refused("p1", None, None, whole=True),
        ]  # fmt: skip

    assert await site.store.read(look) == [
        "No plan found with id=p2", (
            "Plan p1 has no subtask c; list its subtasks: gonogo plans show p1"
        ),
        "Plan p1 has no checkpoint cp; list its checkpoints: gonogo checkpoints list p1",
        *[(
            "Plan p1 has no checkpoints, because nothing of it has run; there is nothing to undo"
        )] * 2,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"checkpoint_id": "c", "subtask_id": None, "whole": False}, "to c"),
        ({"checkpoint_id": None, "subtask_id": "b"}, "of subtask b"),
        ({"checkpoint_id": None, "subtask_id": None, "whole": True}, "of the whole plan"),
    ],
)
async def test_a_rollback_that_was_cut_off_comes_before_any_other(
    site: Site, kept: dict[str, object], said: str
) -> None:
    await site.begin(PlanStatus.COMPLETED)
    plan = await site.plan()
    await site.store.write(set_plan, plan, rollback={**kept, "pause": None})
    with pytest.raises(Conflict) as refused:
        await site.roll_back("a")

    again = "is not finished; wait for it, or run it again if it was interrupted"
    assert str(refused.value) == f"The rollback {said} {again}"


async def test_what_was_given_up_cannot_be_put_back_and_what_came_after_can(site: Site) -> None:
    await site.begin(PlanStatus.COMPLETED)
    before = rows.NOW - timedelta(days=1)
    checkpoint = Checkpoint(
        id="c1", session_id="s1", plan_id="p1", revision=1, subtask_id="a", attempt=1, reason="",
        standings="pp", event_seq=0, last_change=0, tree=None, hash="", created_at=before,
        swept_at=before,
    )  # fmt: skip
    await site.store.write(add_checkpoints, [checkpoint])
    await site.roll_back("a")

    def aged(tx: Tx) -> None:
        late = Doer("s1", "p1", 1, "b", "call_late", str(site.root))
        tx.now = before
        add_changes(tx, late, "tool", [Touched("b.txt", None, {"hash": "1"})])

    await site.store.write(aged)
    with pytest.raises(Conflict) as refused:
        await site.roll_back("b")
    why = (
        "cannot be rolled back that far: its snapshots up to 2026-11-20 were deleted "
        "(GONOGO_KEEP_CHECKPOINTS_DAYS); choose a newer checkpoint"
    )
    assert str(refused.value) == f"Plan p1 {why}"


async def test_what_a_rollback_did_is_told_and_noted_whole(site: Site) -> None:
    await site.begin(PlanStatus.COMPLETED)
    rolled = await site.roll_back("a")
    told = await site.store.read(events_after, "s1", 0)
    checkpoint = rolled.checkpoint
    assert checkpoint is not None

    assert [(each["type"], each["metadata"]) for each in told] == [
        (
            "checkpoint_created",
            {"checkpoint_id": checkpoint.id, "reason": checkpoint.reason},
        ),
        (
            "plan_rolled_back",
            {
                "plan_id": "p1", "by": "ann", "checkpoint_id": checkpoint.id, "subtasks": ["a"],
                "again": [], "restored": ["a.txt"], "conflicts": [], "shared": [],
            },
        ),
    ]  # fmt: skip
    assert told[-1]["content"] == (
        "Rolled back. Files restored: 1; kept because somebody changed them: 0; kept because they"
        " changed while a command ran: 0."
    )
    [entry] = await site.store.read(entries, "s1", 0, 10)
    assert (entry.actor, entry.action, entry.subject) == ("ann", "plan.rolled_back", "p1")
    assert entry.details == {
        "checkpoint_id": checkpoint.id, "subtasks": ["a"], "again": [], "restored": 1,
        "conflicts": 0, "shared": 0,
    }  # fmt: skip
