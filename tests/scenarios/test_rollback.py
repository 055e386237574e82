"""Rollback: what agents did to files is undone, what people did stays, and it can be undone."""

import hashlib
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from fakes.world import (
    LIMIT,
    a_while,
    call,
    calls,
    is_running,
    kinds,
    of,
    on_both,
    plan,
    run,
    says,
    step,
    write,
)
from gonogo.domain.errors import Conflict, InvalidMessage, ModelFailed, NotFound, ToolFailed
from gonogo.domain.records import Job
from gonogo.execution.erasures import SWEEP
from gonogo.execution.scheduling import ROLLING_BACK, Work
from gonogo.store.checkpoints import changes_after
from gonogo.store.plans import plan_of, revision_of, set_plan, subtask_key, subtask_row
from gonogo.workspace import Snapshots, Tree

_FREE = {"commands": ["touch", "sh make.sh", "sleep"]}


def tree_of(folder: Path) -> dict[str, str]:
    """Every file of a folder with its mode and content."""
    return {
        path.relative_to(folder).as_posix(): (
            f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def ran(world, **more):
    """A plan that was approved and has come to its end."""
    plan_id = await world.propose()
    await world.decide_plan(plan_id, **more)
    await world.idle()
    return plan_id


async def checkpoints(world, plan_id):
    return (await world.runtime.checkpoints.page(world.ann, plan_id)).checkpoints


THREE = {
    "main/architect": [plan(step("a"), step("b", "a"), step("c"))],
    "a": [calls(write("a.txt", "by a\n"), write("deep/er/a.txt")), says("a")],
    "b": [calls(write("a.txt", "by b\n"), write("b.txt")), says("b")],
    "c": [calls(write("c.txt")), says("c")],
}


@on_both
@pytest.mark.feature(218)
async def test_a_subtask_and_its_dependants_are_undone_while_a_sibling_and_a_person_stay(make):
    async with make(THREE) as world:
        (world.folder / "a.txt").write_text("mine\n")
        plan_id = await ran(world)
        (world.folder / "person.txt").write_text("mine too\n")
        (world.folder / "b.txt").write_text("edited by a person\n")

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")

        assert done.subtasks == ["a", "b"]
        assert {(f.path, f.action) for f in done.files} == {
            ("a.txt", "restore"), ("deep/er/a.txt", "delete"), ("b.txt", "conflict"),
        }  # fmt: skip
        assert world.read("a.txt") == "mine\n"
        assert not (world.folder / "deep").exists()
        assert world.read("b.txt") == "edited by a person\n"
        assert world.read("c.txt") == "made\n"
        assert world.read("person.txt") == "mine too\n"


@pytest.mark.feature(218)
async def test_what_a_person_changed_between_two_subtasks_stays(make):
    async with make(THREE) as world:
        held = world.model.hold("b")
        plan_id = await world.begin()
        await world.asked_model("b")
        (world.folder / "a.txt").write_text("a person's\n")
        held.set()
        await world.until("plan_completed")
        await world.idle()

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, whole=True)

        [kept] = [file for file in done.files if file.action == "conflict"]
        assert (kept.path, kept.reason) == ("a.txt", "changed_between")
        assert (world.read("a.txt"), world.read("b.txt")) == ("by b\n", None)


async def test_of_folders_on_the_way_to_a_new_file_only_the_missing_ones_go_with_it(make):
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [calls(write("docs/new/deep/a.txt")), says("a")],
    }
    async with make(lines) as world:
        (world.folder / "docs").mkdir()
        plan_id = await ran(world)

        await world.runtime.checkpoints.rollback(world.ann, plan_id)

        assert [path.name for path in world.folder.rglob("*")] == ["docs"]


@pytest.mark.feature(218)
async def test_a_dry_run_says_the_same_and_changes_nothing(make):
    async with make(THREE) as world:
        plan_id = await ran(world)
        files, log = tree_of(world.folder), await world.log()

        dry = await world.runtime.checkpoints.rollback(
            world.ann, plan_id, subtask_id="a", dry_run=True
        )

        assert (dry.dry_run, dry.restored, dry.checkpoint_id) == (True, 3, None)
        assert tree_of(world.folder) == files
        assert await world.log() == log
        assert len(await checkpoints(world, plan_id)) == 3
        real = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        assert real.files == dry.files


@pytest.mark.each_database
@on_both
@pytest.mark.feature(218)
async def test_a_whole_plan_is_undone_and_that_can_be_undone(make):
    async with make(THREE) as world:
        (world.folder / "mine.txt").write_text("mine\n")
        plan_id = await ran(world)
        after = tree_of(world.folder)

        latest = await world.runtime.checkpoints.rollback(world.ann, plan_id, dry_run=True)
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, whole=True)

        assert latest.restored < done.restored == 4
        assert done.subtasks == ["a", "b", "c"]
        assert sorted(tree_of(world.folder)) == ["mine.txt"]
        again = await world.runtime.checkpoints.rollback(world.ann, plan_id, done.checkpoint_id)
        assert (again.restored, tree_of(world.folder)) == (4, after)
        nothing = await world.runtime.checkpoints.rollback(world.ann, plan_id, again.checkpoint_id)
        assert sorted(tree_of(world.folder)) == ["mine.txt"]
        assert nothing.restored == 4
        entry = (await world.audit("plan.rolled_back"))[0]
        assert entry.details["whole"] is True


@pytest.mark.feature(218)
async def test_a_paused_plan_that_was_undone_as_a_whole_begins_anew(make):
    lines = {**THREE, "b": [says("b")]}
    async with make(lines) as world:
        goes_on = world.model.hold("b")
        plan_id = await world.begin()
        await world.until("subtask_started", subtask_id="b")
        await world.runtime.plans.pause(world.ann, plan_id)
        goes_on.set()
        await world.until("subtask_completed", subtask_id="b")
        await world.idle()

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, whole=True)
        assert done.again == ["a", "b", "c"]
        assert tree_of(world.folder) == {}
        found = await world.runtime.plans.get(world.ann, plan_id)
        assert {s.status for s in found.subtasks} == {"pending"}
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("plan_completed")
        assert sorted(tree_of(world.folder)) == ["a.txt", "c.txt", "deep/er/a.txt"]


async def rolled_back(world, plan_id):
    """What three views of a plan say was rolled back; they agree."""
    plans = world.runtime.plans
    told = [
        (await plans.get(world.ann, plan_id)).subtasks,
        (await plans.status(world.ann, plan_id)).subtasks,
        (await plans.graph(world.ann, plan_id)).nodes,
        (await plans.page(world.ann)).plans[0].subtasks,
    ]
    found = [[each.id for each in subtasks if each.rolled_back] for subtasks in told]
    assert found == [found[0]] * 4
    assert {each.status for each in told[0]} == {"completed"}
    return found[0]


@pytest.mark.feature(218)
async def test_a_plan_says_which_subtasks_were_rolled_back_until_that_is_undone_or_they_ran_again(
    make,
):
    twice = {**THREE, **{key: [*THREE[key], *THREE[key]] for key in "abc"}}
    async with make(twice) as world:
        plan_id = await ran(world)
        assert await rolled_back(world, plan_id) == []

        await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="c")
        assert await rolled_back(world, plan_id) == ["c"]
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        assert await rolled_back(world, plan_id) == ["a", "b", "c"]
        await world.runtime.checkpoints.rollback(world.ann, plan_id, done.checkpoint_id)
        assert await rolled_back(world, plan_id) == ["c"]


async def test_a_rollback_names_one_thing_and_a_plan_that_did_nothing_has_none(make):
    async with make(THREE) as world:
        plan_id = await world.propose()
        for both in ({"checkpoint_id": "x"}, {"subtask_id": "a"}):
            with pytest.raises(InvalidMessage, match="exactly one of these"):
                await world.runtime.checkpoints.rollback(world.ann, plan_id, whole=True, **both)
        with pytest.raises(Conflict, match="nothing of it has run"):
            await world.runtime.checkpoints.rollback(world.ann, plan_id, whole=True, dry_run=True)


@pytest.mark.feature(218)
async def test_a_dry_run_needs_no_rest_and_waits_for_no_command(make):
    mark = a_while()
    lines = {**THREE, "b": [calls(run(f"sleep {mark}")), says("b")]}
    lines["main/architect"] = [plan(step("a"), step("b", "a", scope=_FREE), step("c"))]
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("subtask_completed", subtask_id="c")
        await is_running(mark)
        files = tree_of(world.folder)

        for about in ({}, {"whole": True}, {"subtask_id": "a"}):
            with anyio.fail_after(LIMIT):
                dry = await world.runtime.checkpoints.rollback(
                    world.ann, plan_id, dry_run=True, **about
                )
            assert dry.dry_run
            with pytest.raises(Conflict, match="pause it first"):
                await world.runtime.checkpoints.rollback(world.ann, plan_id, **about)
        assert {f.path for f in dry.files} == {"a.txt", "deep/er/a.txt"}
        assert tree_of(world.folder) == files
        await world.runtime.plans.cancel(world.ann, plan_id)


@pytest.mark.feature(218)
async def test_a_rollback_is_undone_by_going_back_to_its_checkpoint(make):
    async with make(THREE) as world:
        plan_id = await ran(world)
        before = tree_of(world.folder)

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        assert tree_of(world.folder) != before
        again = await world.runtime.checkpoints.rollback(world.ann, plan_id, done.checkpoint_id)
        assert tree_of(world.folder) == before
        third = await world.runtime.checkpoints.rollback(world.ann, plan_id, again.checkpoint_id)

        assert third.restored == 3
        assert sorted(tree_of(world.folder)) == ["c.txt"]


@pytest.mark.feature(218)
async def test_the_first_checkpoint_brings_back_everything_and_the_event_says_so(make):
    async with make(THREE) as world:
        plan_id = await ran(world)
        first = (await checkpoints(world, plan_id))[0]

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, first.checkpoint_id)

        assert tree_of(world.folder) == {}
        [event] = of(await world.log(), "plan_rolled_back")
        assert event["metadata"] == {
            "plan_id": plan_id, "by": world.ann.id, "checkpoint_id": done.checkpoint_id,
            "subtasks": ["a", "b", "c"], "again": [],
            "restored": ["a.txt", "b.txt", "c.txt", "deep/er/a.txt"], "conflicts": [],
            "shared": [],
        }  # fmt: skip
        assert event["is_final"]
        [entry] = await world.audit("plan.rolled_back")
        assert (entry.actor, entry.details["back_to"]) == (world.ann.id, first.checkpoint_id)
        assert entry.details["checkpoint_id"] == done.checkpoint_id
        assert (await world.runtime.audit.verify(world.ann)).ok


async def test_without_a_target_the_latest_checkpoint_is_gone_back_to(make):
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"))],
        "a": [calls(write("a.txt")), says("a")],
        "b": [calls(call("delete_file", path="a.txt"), write("b.txt")), says("b")],
    }
    async with make(lines) as world:
        plan_id = await world.begin()
        asked = await world.until("tool_call", tool_name="delete_file")
        await world.decide(asked["call_id"])
        await world.until("plan_completed")

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id)

        assert tree_of(world.folder).keys() == {"a.txt"}
        assert done.subtasks == ["b"]


@pytest.mark.feature(91)
async def test_a_checkpoint_gives_back_the_state_that_it_stores_and_verifies_it(make):
    async with make(THREE) as world:
        (world.folder / "a.txt").write_text("mine\n")
        plan_id = await ran(world)

        found = {c.subtask_id: c for c in await checkpoints(world, plan_id)}
        state = await world.runtime.checkpoints.get(world.ann, found["b"].checkpoint_id)

        assert state.verified
        assert state.tree is not None
        assert state.subtasks[0].status == "completed"
        assert state.subtasks[0].result["output"] == "a"
        assert (state.subtasks[1].status, state.subtasks[1].result) == ("pending", None)
        diff = await world.runtime.checkpoints.diff(world.ann, found["a"].checkpoint_id)
        files = {f.path: f for f in diff.files}
        assert files["a.txt"].status == "modified"
        assert "-mine\n+by b\n" in files["a.txt"].diff
        assert files["b.txt"].status == "added"
        between = await world.runtime.checkpoints.diff(
            world.ann, found["a"].checkpoint_id, found["b"].checkpoint_id
        )
        assert "b.txt" not in {f.path for f in between.files}
        with pytest.raises(NotFound):
            await world.runtime.checkpoints.get(world.bob, found["b"].checkpoint_id)


async def test_files_are_compared_only_between_snapshots_that_there_are_of_one_session(make):
    lines = {**THREE, "main/architect": THREE["main/architect"] * 2, "c": [says("c")] * 2}
    async with make(lines) as world:
        plan_id = await ran(world)
        names = {c.subtask_id: c.checkpoint_id for c in await checkpoints(world, plan_id)}
        first_session, world.session = world.session, ""
        other = await ran(world)
        assert world.session != first_session
        [elsewhere, *_] = [c for c in await checkpoints(world, other) if c.tree]

        bare = (
            f"^Checkpoint {names['c']} has no snapshot, because its subtask changed nothing; "
            "choose another checkpoint$"
        )
        for first, second in (
            (names["c"], None),
            (names["c"], names["a"]),
            (names["a"], names["c"]),
        ):
            with pytest.raises(Conflict, match=bare):
                await world.runtime.checkpoints.diff(world.ann, first, second)
        with pytest.raises(Conflict, match=r"belong to different sessions"):
            await world.runtime.checkpoints.diff(world.ann, names["a"], elsewhere.checkpoint_id)
        same = await world.runtime.checkpoints.diff(world.ann, names["a"], names["a"])
        assert (same.files, same.to) == ([], names["a"])


async def test_a_comparison_shows_so_much_of_each_file_and_so_much_in_all(make):
    lines = {"main/architect": [plan(step("a"))], "a": [calls(write("long00")), says("a")]}
    async with make(lines) as world:
        plan_id = await ran(world)
        for number in range(11):
            (world.folder / f"long{number:02}").write_text("x\n" * 15_000)
        [*_, last] = await checkpoints(world, plan_id)
        shown = await world.runtime.checkpoints.diff(world.ann, last.checkpoint_id)

    assert [each.path for each in shown.files] == [f"long{number:02}" for number in range(11)]
    *whole, tenth, none = [each.diff for each in shown.files]
    for each in whole:
        assert each[20_000:].startswith("\n[cut after 20000 of ")
    left = 200_000 - sum(map(len, whole))
    assert tenth[left:].startswith(f"\n[cut after {left} of ")
    assert (none, shown.truncated) == ("", True)


async def test_what_changed_while_a_command_ran_goes_back_only_when_asked_for(make):
    lines = {
        "main/architect": [plan(step("a", scope=_FREE))],
        "a": [calls(write("own.txt"), run("touch made.txt")), says("a")],
    }
    async with make(lines) as world:
        plan_id = await ran(world)
        assert tree_of(world.folder).keys() == {"own.txt", "made.txt"}

        dry = await world.runtime.checkpoints.rollback(
            world.ann, plan_id, subtask_id="a", dry_run=True
        )
        assert {(f.path, f.action) for f in dry.files} == {
            ("own.txt", "delete"), ("made.txt", "shared"),
        }  # fmt: skip
        await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        assert tree_of(world.folder).keys() == {"made.txt"}
        done = await world.runtime.checkpoints.rollback(
            world.ann, plan_id, subtask_id="a", include_shared=True
        )

        assert tree_of(world.folder) == {}
        back = await world.runtime.checkpoints.rollback(world.ann, plan_id, done.checkpoint_id)
        assert back.shared == 0
        assert tree_of(world.folder).keys() == {"made.txt"}


async def test_ignored_files_that_a_tool_wrote_go_back_and_the_users_git_stays_as_it_is(make):
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [calls(write("build/out.txt", "new\n"), write("x.txt")), says("a")],
    }
    async with make(lines) as world:
        (world.folder / ".gitignore").write_text("build/\n")
        (world.folder / "build").mkdir()
        (world.folder / "build/out.txt").write_text("old\n")
        git = world.folder / ".git"
        git.mkdir()
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        (git / "config").write_text("[core]\n\tfsmonitor = touch pwned\n")
        before = tree_of(world.folder)

        plan_id = await ran(world)
        assert world.read("build/out.txt") == "new\n"
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        assert tree_of(world.folder) == before
        await world.runtime.checkpoints.rollback(world.ann, plan_id, done.checkpoint_id)

        assert world.read("build/out.txt") == "new\n"
        assert {k: v for k, v in tree_of(world.folder).items() if k.startswith(".git/")} == {
            k: v for k, v in before.items() if k.startswith(".git/")
        }


async def test_a_call_that_had_no_effect_does_not_lead_a_rollback_astray(make):
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [
            calls(write("x.txt", "one\n")),
            calls(call("edit_file", path="x.txt", old="none of it", new="two")),
            calls(write("x.txt", "three\n")),
            says("a"),
        ],
    }
    async with make(lines) as world:
        plan_id = await ran(world)
        assert world.read("x.txt") == "three\n"

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")

        assert (done.restored, done.conflicts) == (1, 0)
        assert tree_of(world.folder) == {}


async def test_a_change_by_a_person_on_top_is_a_conflict_and_the_file_stays(make):
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [
            calls(write("x.txt", "a\n")), calls(write("x.txt", "again\n")), says("a"),
        ],
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await ran(world)
        (world.folder / "x.txt").write_text("a person\n")

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")

        assert [(f.path, f.reason) for f in done.files] == [("x.txt", "changed")]
        assert world.read("x.txt") == "a person\n"


@pytest.mark.feature(218)
async def test_a_change_by_a_person_before_the_call_has_ended_is_a_conflict_too(make, monkeypatch):
    lines = {"main/architect": [plan(step("a"))], "a": [calls(write("x.txt")), says("a")]}
    async with make(lines) as world:
        tools = world.runtime.parts.gate.tools
        own = tools["write_file"]

        async def overtaken(bench, arguments):
            written = await own.run(bench, arguments)
            (world.folder / "x.txt").write_text("a person\n")
            return written

        monkeypatch.setitem(tools, "write_file", replace(own, run=overtaken))
        plan_id = await ran(world)
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")

        assert [(f.path, f.reason) for f in done.files] == [("x.txt", "changed")]
        assert world.read("x.txt") == "a person\n"


@pytest.mark.feature(36)
async def test_what_was_undone_in_a_paused_plan_runs_again_when_it_goes_on(make):
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"), step("last", "b"))],
        "a": [calls(write("a.txt", "first\n")), says("a"), calls(write("a.txt")), says("A")],
        "b": [calls(write("b.txt")), says("b")],
        "last": [says("last")],
    }
    async with make(lines) as world:
        goes_on = world.model.hold("b", 2)
        plan_id = await world.begin()
        await world.until("subtask_started", subtask_id="b")
        with pytest.raises(Conflict, match="pause it first"):
            await world.runtime.checkpoints.rollback(world.ann, plan_id)
        await world.runtime.plans.pause(world.ann, plan_id)
        goes_on.set()
        await world.until("subtask_completed", subtask_id="b")
        await world.idle()

        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="b")

        assert done.again == ["b"]
        view = await world.runtime.plans.get(world.ann, plan_id)
        assert (view.status, view.revision) == ("paused", 2)
        assert [s.status for s in view.subtasks] == ["completed", "pending", "pending"]
        grants = await world.runtime.plans.grants(world.ann, world.session)
        assert {(g.revision, g.subtask_id, g.status) for g in grants} == {
            *((1, each, "ended") for each in ("a", "b", "last")),
            *((2, each, "active") for each in ("b", "last")),
        }  # fmt: skip
        undone = await world.runtime.checkpoints.rollback(world.ann, plan_id, done.checkpoint_id)
        view = await world.runtime.plans.get(world.ann, plan_id)
        assert (undone.again, view.revision) == ([], 3)
        assert [s.status for s in view.subtasks] == ["completed", "completed", "pending"]
        assert world.read("b.txt") == "made\n"
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("plan_completed")
        assert kinds(await world.log()).count("plan_rolled_back") == 2


async def test_a_workspace_that_is_too_large_to_keep_is_said_clearly(make):
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [calls(write("x.txt")), says("a")],
    }
    async with make(lines, snapshot_max_files=2) as world:
        for name in "1234":
            (world.folder / name).write_text(name)
        await ran(world)

        [result] = of(await world.log(), "tool_result", tool_name="write_file")
        assert result["error"].startswith("too_large: ")
        assert "GONOGO_SNAPSHOT_MAX_FILES" in result["error"]
        assert world.read("x.txt") is None


async def test_what_cannot_be_rolled_back_says_why(make):
    async with make(THREE) as world:
        plan_id = await ran(world)
        for target in ({"checkpoint_id": "checkpoint_none"}, {"subtask_id": "none"}):
            with pytest.raises(NotFound):
                await world.runtime.checkpoints.rollback(world.ann, plan_id, **target)
        with pytest.raises(NotFound):
            await world.runtime.checkpoints.rollback(world.bob, plan_id)
        with pytest.raises(NotFound):
            await world.runtime.checkpoints.rollback(world.ann, "plan_none")


def fails_after(world_folder, person):
    """A subtask that writes two files and fails; meanwhile a person edits one of them."""

    def breaks(request):
        (world_folder / "mine.txt").write_text(person)
        raise ModelFailed("The model is gone")

    return {
        "main/architect": [plan(step("a"), step("b"))],
        "a": [calls(write("a.txt"), write("mine.txt")), breaks],
        "b": [calls(write("b.txt")), says("b")],
    }


@pytest.mark.feature(92)
async def test_the_files_of_a_failed_subtask_go_back_where_that_is_configured(make, tmp_path):
    lines = fails_after(tmp_path / "work", "a person\n")
    async with make(lines, on_failure="rollback") as world:
        (world.folder / "a.txt").write_text("as it was\n")
        plan_id = await ran(world)

        assert world.read("a.txt") == "as it was\n"
        assert world.read("mine.txt") == "a person\n"
        assert world.read("b.txt") == "made\n"
        log = await world.log()
        [event] = of(log, "plan_rolled_back")
        assert event["metadata"]["restored"] == ["a.txt"]
        assert event["metadata"]["conflicts"] == ["mine.txt"]
        assert event["metadata"]["subtasks"] == ["a"]
        assert event["seq"] < of(log, "subtask_failed")[0]["seq"]
        found = {c.subtask_id: c for c in await checkpoints(world, plan_id) if c.subtask_id}
        assert set(found) == {"a", "b"}
        kept = await world.runtime.parts.store.read(changes_after, plan_id, 0)
        told = [(c.origin, c.after) for c in kept if c.path == "a.txt"]
        assert [origin for origin, _ in told] == ["tool", "rollback"]
        assert told[-1][1] == next(c.before for c in kept if c.path == "a.txt")


@pytest.mark.feature(92)
async def test_the_files_of_a_failed_subtask_stay_by_default(make, tmp_path):
    async with make(fails_after(tmp_path / "work", "a person\n")) as world:
        await ran(world)

        assert world.read("a.txt") == "made\n"
        assert of(await world.log(), "plan_rolled_back") == []


@pytest.mark.feature(92)
async def test_a_failed_attempt_that_was_being_undone_is_not_gone_on_with(make, tmp_path):
    lines = fails_after(tmp_path / "work", "a person\n")
    async with make(lines, on_failure="rollback") as world:
        plan_id = await ran(world)
        runtime = world.runtime

        row = await runtime.parts.store.read(subtask_row, subtask_key(plan_id, 1, "a"))
        revision = await runtime.parts.store.read(revision_of, plan_id, 1)
        work = Work(key=row.key, revision=revision, subtask=revision.by_id["a"], epoch=row.epoch)
        other = Work(key="", revision=revision, subtask=revision.by_id["b"], epoch=1)

        retreat = runtime.parts.runner.retreat
        assert await runtime.parts.store.read(retreat.began, work)
        assert not await runtime.parts.store.read(retreat.began, other)
        # Nor is it undone once more by whoever has it no longer.
        await retreat.undo(work)
        assert len(of(await world.log(), "plan_rolled_back")) == 1


@pytest.mark.feature(92)
async def test_of_a_failed_attempt_goes_back_what_it_did_itself_and_no_command_ran_beside(
    make, tmp_path
):
    """What was there while a command ran may be a person's, and what was before is another's."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "make.sh").write_text("echo made > shared.txt\n")
    said = ["a person\n"]

    def gives_up(request):
        if said:
            (tmp_path / "work" / "mine.txt").write_text(said.pop())
        return calls(call("attempt_completion", result="No", success=False))

    again = {"max_attempts": 2, "delay": 0, "on": ["logic", "unknown"]}
    tries = step("a", retry_policy=again, scope=_FREE)
    lines = {
        "main/architect": [plan(tries)],
        "a": [calls(run("sh make.sh"), write("mine.txt", "an agent\n")), gives_up],
    }
    async with make(lines, on_failure="rollback") as world:
        await ran(world)

        first, second = (e["metadata"] for e in of(await world.log(), "plan_rolled_back"))
        assert (first["restored"], first["conflicts"]) == ([], ["mine.txt"])
        assert (second["restored"], second["conflicts"]) == (["mine.txt"], [])
        assert first["shared"] == ["shared.txt"]
        assert (world.read("mine.txt"), world.read("shared.txt")) == ("a person\n", "made\n")


@pytest.mark.feature(92)
async def test_files_that_cannot_go_back_stay_and_the_subtask_has_failed_all_the_same(
    make, tmp_path, caplog
):
    async with make(fails_after(tmp_path / "work", "a person\n"), on_failure="rollback") as world:
        runner = world.runtime.parts.runner
        broken = replace(runner.retreat.rollbacks, snapshots=Cannot(tmp_path / "none"))
        runner.retreat = replace(runner.retreat, rollbacks=broken)
        await ran(world)

        log = await world.log()
        assert of(log, "subtask_failed")[0]["subtask_id"] == "a"
        assert of(log, "plan_rolled_back") == []
        assert world.read("a.txt") == "made\n"
        assert "stays: The files cannot be restored" in caplog.text


class Cannot(Snapshots):
    """Snapshots of which none can be taken."""

    def take(self, workspace):
        raise ToolFailed("io_error", "no room")


DIES = """
import json, os, signal, sys
from msgspec.structs import replace
from pathlib import Path
import anyio
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.runtime.changes import Checkpoints
from gonogo.settings import Settings
from gonogo.workspace import Snapshots

class Dying(Snapshots):
    def apply(self, workspace, restore):
        super().apply(workspace, restore)
        os.kill(os.getpid(), signal.SIGKILL)

async def main(root, plan_id, db, about):
    settings = Settings(
        home=root / "home", config=root / "config", workspace=root / "work", db=db or None
    )
    async with Runtime.open(settings, model=ScriptedModel({})) as runtime:
        dying = replace(runtime.parts.rollbacks, snapshots=Dying(settings.home / "snapshots"))
        checkpoints = Checkpoints(replace(runtime.parts, rollbacks=dying))
        await checkpoints.rollback(runtime.owner, plan_id, **json.loads(about))

anyio.run(main, Path(sys.argv[1]), *sys.argv[2:])
"""


@on_both
@pytest.mark.parametrize(
    ("about", "other", "name", "left"),
    [
        ({"subtask_id": "a"}, {"whole": True}, "of subtask a", ["a.txt", "c.txt"]),
        ({"whole": True}, {"subtask_id": "a"}, "of the whole plan", ["a.txt"]),
    ],
)
async def test_a_rollback_that_was_killed_is_completed_by_doing_it_again(
    make, tmp_path, db, about, other, name, left
):
    async with make(THREE) as world:
        (world.folder / "a.txt").write_text("mine\n")
        plan_id = await ran(world)
        before = tree_of(world.folder)
        await world.stop()

        words = [str(tmp_path), plan_id, db or "", json.dumps(about)]
        died = await anyio.run_process([sys.executable, "-c", DIES, *words], check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
        assert world.read("a.txt") == "mine\n"
        await world.start()
        assert of(await world.log(), "plan_rolled_back") == []
        with pytest.raises(Conflict, match=f"The rollback {name} is not finished"):
            await world.runtime.checkpoints.rollback(world.ann, plan_id, **other)
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id)

        assert done.conflicts == 0
        assert sorted(tree_of(world.folder)) == left
        first = (await checkpoints(world, plan_id))[3]
        await world.runtime.checkpoints.rollback(world.ann, plan_id, first.checkpoint_id)
        assert tree_of(world.folder) == before


async def test_what_changed_while_a_cancelled_command_ran_is_known(make):
    mark = a_while()
    lines = {
        "main/architect": [plan(step("a", scope=_FREE))],
        "a": [calls(run(f"sleep {mark}")), says("a")],
    }
    async with make(lines) as world:
        plan_id = await world.begin()
        await is_running(mark)
        (world.folder / "meanwhile.txt").write_text("by whom?\n")
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.idle()

        dry = await world.runtime.checkpoints.rollback(
            world.ann, plan_id, subtask_id="a", dry_run=True
        )

        assert [(f.path, f.action) for f in dry.files] == [("meanwhile.txt", "shared")]


async def test_what_changed_while_a_command_ran_that_a_stop_cut_off_is_known_once(make):
    mark = a_while()
    lines = {
        "main/architect": [plan(step("a", scope=_FREE))],
        "a": [calls(run(f"sleep {mark}")), says("a")],
    }
    async with make(lines) as world:
        plan_id = await world.begin()
        await is_running(mark)
        (world.folder / "meanwhile.txt").write_text("one\n")
        await world.restart()
        await world.until("approval_requested", kind="intervention")
        [question] = await world.pending()
        await world.ask({
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": "reject",
        })  # fmt: skip
        await world.idle()

        changes = await world.runtime.parts.store.read(changes_after, plan_id, 0)
        done = await world.runtime.checkpoints.rollback(
            world.ann, plan_id, subtask_id="a", include_shared=True
        )

        assert [(c.path, c.origin) for c in changes] == [("meanwhile.txt", "command")]
        assert done.restored == 1
        assert tree_of(world.folder) == {}


async def test_a_paused_plan_stays_paused_until_a_rollback_that_was_cut_off_is_done_again(
    make,
):
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"))],
        "a": [calls(write("a.txt")), says("a")], "b": [says("b")],
    }  # fmt: skip
    async with make(lines) as world:
        goes_on = world.model.hold("a")
        plan_id = await world.begin()
        await world.until("subtask_started", subtask_id="a")
        await world.runtime.plans.pause(world.ann, plan_id)
        goes_on.set()
        await world.idle()

        def cut_off(tx):
            about = {"checkpoint_id": None, "subtask_id": "a", "pause": None}
            set_plan(tx, plan_of(tx, plan_id), pause_reason=ROLLING_BACK, rollback=about)

        await world.runtime.parts.store.write(cut_off)
        for verb in (
            world.runtime.plans.resume(world.ann, plan_id),
            world.runtime.plans.replan(world.ann, plan_id, "x"),
        ):
            with pytest.raises(Conflict, match="run it again"):
                await verb

        await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("plan_completed")


def used_up_once():
    """A model whose quota is there again in an hour, once it was asked."""
    asked = []

    def reply(request):
        asked.append(request)
        if len(asked) == 1:
            raise ModelFailed("slow down", http_status=429, retry_after=3600)
        return says("b")

    return reply


@pytest.mark.feature(214, 218)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut off once"])
async def test_a_plan_that_waits_for_a_quota_goes_on_by_itself_after_a_rollback(make, cut):
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"))], "main/orchestrator": [says("Yes?")],
        "a": [calls(write("a.txt")), says("a")] * 2, "b": [used_up_once()],
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("plan_paused")
        await world.idle()
        reset = (await world.runtime.plans.status(world.ann, plan_id)).paused_until

        def cut_off(tx):
            about = {"checkpoint_id": None, "subtask_id": "a", "pause": "quota"}
            set_plan(tx, plan_of(tx, plan_id), pause_reason=ROLLING_BACK, rollback=about)

        if cut:
            await world.runtime.parts.store.write(cut_off)
            await world.later(3600)
            await world.idle()
            found = await world.runtime.plans.status(world.ann, plan_id)
            assert found.status == "paused"
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="a")
        assert done.again == ["a", "b"]
        if not cut:
            found = await world.runtime.plans.status(world.ann, plan_id)
            paused = (found.status, found.pause_reason, found.paused_until)
            assert paused == ("paused", "quota", reset)
            await world.restart()
            await world.later(3600)
        await world.until("plan_completed", status="completed")
        assert world.read("a.txt") == "made\n"


def aged(world):
    """Make everything in the store of snapshots look old."""
    objects = world.root / "home" / "snapshots" / "objects"
    for path in objects.rglob("*"):
        os.utime(path, (0, 0))


def is_kept(world, tree):
    try:
        return not world.runtime.parts.rollbacks.snapshots.trees.verify(Tree(tree))
    except ToolFailed:
        return False


async def gone(world, tree):
    """Wait until a snapshot is kept no more."""
    with anyio.fail_after(LIMIT):
        while is_kept(world, tree):  # noqa: ASYNC110 - files tell nobody
            await anyio.sleep(0.01)


@pytest.mark.feature(91)
async def test_snapshots_of_plans_that_ended_long_ago_are_given_up_and_say_so(make):
    lines = {
        **THREE, "main/orchestrator": [says("Yes?")],
        "main/architect": [plan(step("a"), step("b", "a")), plan(step("c"), step("d", "c"))],
        "d": [says("d")],
    }  # fmt: skip
    async with make(lines, keep_checkpoints_days=30) as world:
        old = await ran(world)
        first, *_ = await checkpoints(world, old)
        # The plan before had a subtask of that name, which asked twice.
        goes_on = world.model.hold("c", 3)
        live = await world.begin()
        await world.until("subtask_started", plan_id=live, subtask_id="c")
        await world.runtime.plans.pause(world.ann, live)
        goes_on.set()
        await world.until("subtask_completed", plan_id=live, subtask_id="c")
        await world.idle()
        world.clock.ahead += timedelta(days=29)
        await world.runtime.parts.sweeps.job(Job(kind=SWEEP, key="snapshots"))
        assert [c.swept_at for c in await checkpoints(world, old)] == [None, None]

        aged(world)
        # What this process gave out in the last hour would stay.
        await world.restart()
        assert is_kept(world, first.tree)
        await world.later(3 * 86_400)
        await gone(world, first.tree)
        swept = await checkpoints(world, old)
        assert next(c.checkpoint_id for c in swept) == first.checkpoint_id
        assert all(c.swept_at for c in swept)
        assert (await world.runtime.checkpoints.get(world.ann, first.checkpoint_id)).verified
        for target in ({"checkpoint_id": first.checkpoint_id}, {"subtask_id": "a"}):
            with pytest.raises(Conflict, match="GONOGO_KEEP_CHECKPOINTS_DAYS"):
                await world.runtime.checkpoints.rollback(world.ann, old, **target)
        with pytest.raises(Conflict, match="was deleted"):
            await world.runtime.checkpoints.diff(world.ann, first.checkpoint_id)

        assert {c.swept_at for c in await checkpoints(world, live)} == {None}
        done = await world.runtime.checkpoints.rollback(world.ann, live, subtask_id="c")
        assert (done.restored, world.read("c.txt")) == (1, None)


async def test_a_rollback_that_was_cut_off_comes_before_another_one_and_need_not_be_named(make):
    lines = {
        "main/architect": [plan(step("a"), step("b"), step("c", "a"))],
        "a": [calls(write("a.txt")), says("a")], "b": [calls(write("b.txt")), says("b")],
        "c": [says("c")],
    }  # fmt: skip
    async with make(lines) as world:
        goes_on = world.model.hold("b", 2)
        plan_id = await world.begin()
        await world.until("subtask_started", subtask_id="b")
        await world.runtime.plans.pause(world.ann, plan_id)
        goes_on.set()
        await world.until("subtask_completed", subtask_id="b")
        await world.idle()

        def cut_off(tx):
            about = {"checkpoint_id": None, "subtask_id": "a", "pause": "budget"}
            set_plan(tx, plan_of(tx, plan_id), pause_reason=ROLLING_BACK, rollback=about)

        await world.runtime.parts.store.write(cut_off)
        with pytest.raises(Conflict, match="rollback of subtask a is not finished"):
            await world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="b")
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id)

        assert done.subtasks == ["a", "c"]
        row = await world.runtime.parts.store.read(plan_of, plan_id)
        assert (row.pause_reason, row.rollback) == ("budget", None)


async def test_nothing_of_an_ended_plan_is_tried_before_a_rollback_that_was_cut_off_is_done_again(
    make,
):
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"), step("bad"))],
        "main/orchestrator": [says("Yes?")], "a": [calls(write("a.txt")), says("a")] * 2,
        "b": [says("b")] * 2,
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("plan_completed", status="partial")
        await world.idle()

        def cut_off(tx):
            about = {"checkpoint_id": None, "subtask_id": "a", "pause": None}
            set_plan(tx, plan_of(tx, plan_id), rollback=about)

        await world.runtime.parts.store.write(cut_off)
        for verb in (
            world.runtime.plans.retry_subtask(world.ann, plan_id, "bad"),
            world.runtime.plans.replan(world.ann, plan_id, "x"),
            world.runtime.checkpoints.rollback(world.ann, plan_id, subtask_id="bad"),
        ):
            with pytest.raises(Conflict, match="is not finished"):
                await verb
        done = await world.runtime.checkpoints.rollback(world.ann, plan_id)
        assert (done.subtasks, done.restored, world.read("a.txt")) == (["a", "b"], 1, None)

        # What was undone, and what was built on it, does not count as done.
        world.lines |= {"bad": [says("now")]}
        world.model._lines = world.lines
        view = await world.runtime.plans.retry_subtask(world.ann, plan_id, "bad")
        assert {str(s.status) for s in view.subtasks} & {"completed"} == set()
        await world.until("plan_completed", status="completed")
        assert world.read("a.txt") == "made\n"
