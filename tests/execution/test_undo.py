"""Rollbacks, without a runtime around them: what somebody else does meanwhile spoils nothing."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.from_thread
import pytest

from fakes import rows
from gonogo.domain.errors import Conflict
from gonogo.domain.plan_views import RollbackFile
from gonogo.domain.records import Plan
from gonogo.domain.states import PlanStatus
from gonogo.domain.strict_json import content_hash
from gonogo.execution.rollback import Rollbacks, Rolled, wanted_rollback
from gonogo.store import Store, Tx
from gonogo.store.checkpoints import Doer, Touched, add_changes
from gonogo.store.plans import add_plan, add_revision, plan_of, set_plan
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
    with pytest.raises(Conflict, match=r"cannot be put back: .*a\.txt"):
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
    with pytest.raises(Conflict, match="Plan p1 has changed meanwhile; look again"):
        await site.roll_back("a")

    assert (await site.plan()).rollback is None
    assert site.left() == ["a.txt", "b.txt"]
