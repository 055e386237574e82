"""Changes: one difference of all that a plan, a subtask or a session did to files."""

import pytest
from msgspec.structs import replace

from fakes.world import call, calls, of, on_both, plan, run, says, step, write
from gonogo.domain.errors import Conflict, NotFound, ToolFailed
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan_views import ChangesBy
from gonogo.store.calls import thread_calls
from gonogo.store.checkpoints import changes_of_session

TWO = {
    "main/architect": [plan(step("a"), step("b", "a"))],
    "a": [calls(write("a.txt", "by a\nsame\n"), write("deep/er/a.txt", "one\ntwo\n")), says("a")],
    "b": [calls(write("a.txt", "by b\nsame\n"), write("b.txt")), says("b")],
    "main/coder": [
        calls(write("b.txt", "made\nand more\n"), write("turn.txt", "x\n")),
        calls(run("sh -c 'printf y > made.txt; rm turn.txt'")),
        says("Done"),
    ],
    "main/orchestrator": [says("Yes?")],
}


async def approve_all(world, events):
    """Approve whatever is asked until nothing is."""
    while asked := of(events, "approval_requested"):
        for question in asked:
            events = await world.decide(question["call_id"])


def facts(found):
    return {
        file.path: (file.status, file.lines_added, file.lines_removed, file.subtasks)
        for file in found.files
    }


@on_both
@pytest.mark.feature(239)
async def test_a_plan_a_subtask_and_a_session_each_have_one_difference_from_first_to_last(make):
    async with make(TWO) as world:
        (world.folder / "a.txt").write_text("mine\nsame\n")
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.idle()
        (world.folder / "person.txt").write_text("no agent's\n")
        changes = world.runtime.changes

        whole = await changes.of_plan(world.ann, plan_id)

        assert facts(whole) == {
            "a.txt": ("modified", 1, 1, ["a", "b"]),
            "b.txt": ("added", 1, 0, ["b"]),
            "deep/er/a.txt": ("added", 2, 0, ["a"]),
        }
        assert whole.files[0].diff == "@@ -1,2 +1,2 @@\n-mine\n+by b\n same\n"
        assert (whole.total, whole.lines_added, whole.lines_removed) == (3, 4, 1)
        assert whole.by == [
            ChangesBy(
                plan_id=plan_id, subtask_id="a", files=2, lines_added=3, lines_removed=1
            ),
            ChangesBy(
                plan_id=plan_id, subtask_id="b", files=2, lines_added=2, lines_removed=1
            ),
        ]  # fmt: skip

        one = await changes.of_plan(world.ann, plan_id, subtask_id="b")

        assert facts(one) == {
            "a.txt": ("modified", 1, 1, ["b"]), "b.txt": ("added", 1, 0, ["b"]),
        }  # fmt: skip
        assert one.files[0].diff == "@@ -1,2 +1,2 @@\n-by a\n+by b\n same\n"
        assert (one.subtask_id, one.plan_id, one.session_id) == ("b", plan_id, world.session)

        await approve_all(world, await world.say("Now you", "coder"))
        session = await changes.of_session(world.ann, world.session)

        assert facts(session) == {
            "a.txt": ("modified", 1, 1, ["a", "b"]),
            "b.txt": ("added", 2, 0, ["b"]),
            "deep/er/a.txt": ("added", 2, 0, ["a"]),
            "made.txt": ("added", 1, 0, []),
        }
        assert session.by[-1] == ChangesBy(files=2, lines_added=2, lines_removed=0)
        assert session.plan_id is None
        assert await changes.of_plan(world.ann, plan_id) == whole


@pytest.mark.feature(239)
async def test_what_is_rolled_back_is_gone_from_the_difference_of_all_and_back_when_that_is_undone(
    make,
):
    async with make(TWO) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.idle()
        before = await world.runtime.changes.of_plan(world.ann, plan_id)

        undone = await world.runtime.checkpoints.rollback(world.ann, plan_id, whole=True)

        after = await world.runtime.changes.of_plan(world.ann, plan_id)
        assert (after.files, after.by, after.total) == ([], [], 0)
        await world.runtime.checkpoints.rollback(world.ann, plan_id, undone.checkpoint_id)
        again = await world.runtime.changes.of_plan(world.ann, plan_id)
        assert facts(again) == facts(before)


async def test_a_page_of_the_files_says_how_many_there_are_and_one_is_shown_at_full_length(make):
    long = "".join(f"{n}\n" for n in range(9_000))
    written = write("1.txt", long), write("2.txt", "two\n"), write("3.bin", "three\n")
    lines = {"main/architect": [plan(step("a"))], "a": [calls(*written), says("a")]}
    async with make(lines) as world:
        (world.folder / "3.bin").write_bytes(b"no text\0")
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.idle()
        changes = world.runtime.changes

        first = await changes.of_plan(world.ann, plan_id, limit=1)
        second = await changes.of_plan(world.ann, plan_id, limit=2, offset=1)
        alone = await changes.of_plan(world.ann, plan_id, path="1.txt")

        assert [(f.path, f.withheld, len(f.diff)) for f in first.files] == [
            ("1.txt", "more", 20_000)
        ]
        assert (first.total, first.lines_added) == (3, 9_001)
        assert [(f.path, f.withheld) for f in second.files] == [
            ("2.txt", None), ("3.bin", "no_text"),
        ]  # fmt: skip
        assert alone.files[0].diff.endswith("+8999\n")
        assert (alone.files[0].withheld, alone.total) == (None, 1)


async def test_of_a_file_of_secrets_the_lines_are_counted_and_never_shown(make):
    lines = {"main/coder": [calls(write(".env", "KEY=hidden\n")), says("Done")]}
    async with make({**lines, "main/orchestrator": [says("Yes?")]}) as world:
        await approve_all(world, await world.say("Go", "coder"))

        found = await world.runtime.changes.of_session(world.ann, world.session)
        alone = await world.runtime.changes.of_session(world.ann, world.session, path=".env")

        assert facts(found) == {".env": ("added", 1, 0, [])}
        assert found == alone
        assert [(f.diff, f.withheld) for f in found.files] == [("", "secret")]


async def test_what_could_deceive_in_a_changed_file_stands_as_an_escape(make):
    lines = {"main/coder": [calls(write("a.py", "x = 1 \u202e# \x1b[2J\n")), says("Done")]}
    async with make({**lines, "main/orchestrator": [says("Yes?")]}) as world:
        await approve_all(world, await world.say("Go", "coder"))

        [file] = (await world.runtime.changes.of_session(world.ann, world.session)).files

        assert file.diff == "@@ -0,0 +1 @@\n+x = 1 \\u202e# \\x1b[2J\n"


async def test_a_call_of_a_turn_runs_also_where_nobody_can_follow_what_it_changes(make):
    lines = {
        "main/coder": [calls(run("sh -c 'printf y > y.txt'")), calls(write("z.txt")), says("Done")],
        "main/orchestrator": [says("Yes?")],
    }
    async with make(lines, snapshot_max_files=1) as world:
        for name in "abc":
            (world.folder / name).write_text(name)
        await approve_all(world, await world.say("Go", "coder"))

        found = await world.runtime.changes.of_session(world.ann, world.session)

        assert (world.read("y.txt"), world.read("z.txt")) == ("y", "made\n")
        assert facts(found) == {
            ".": ("unknown", None, None, []), "z.txt": ("added", 1, 0, []),
        }  # fmt: skip
        assert found.files[0].withheld is None


async def test_what_cannot_be_found_is_told_and_others_see_nothing_of_it(make):
    async with make(TWO) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.idle()
        changes = world.runtime.changes
        other = Principal(id="user:eve", name="eve", role=Role.VIEWER)

        for problem, asked in {
            "No plan found with id=p": changes.of_plan(world.ann, "p"),
            f"No plan found with id={plan_id}": changes.of_plan(other, plan_id),
            "No session found with id=s": changes.of_session(world.ann, "s"),
            f"No session found with id={world.session}": changes.of_session(other, world.session),
            (
                f"Plan {plan_id} has no subtask 'c'; list its subtasks: gonogo plans show {plan_id}"
            ): changes.of_plan(world.ann, plan_id, subtask_id="c"),
            (
                "Agents did not change the file 'c.txt'; to see what they changed, leave out the "
                "file"
            ): changes.of_plan(world.ann, plan_id, path="c.txt"),
        }.items():
            with pytest.raises(NotFound) as caught:
                await asked
            assert str(caught.value) == problem


async def test_a_subtask_that_changed_nothing_is_no_error(make):
    lines = {
        "main/architect": [plan(step("a"), step("b", "a"))],
        "a": [calls(write("a.txt")), says("a")],
        "b": [says("b")],
    }
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.idle()

        found = await world.runtime.changes.of_plan(world.ann, plan_id, subtask_id="b")

        assert (found.files, found.by, found.lines_added) == ([], [], 0)


async def test_contents_that_cannot_be_read_are_a_refusal_that_says_to_try_again(make):
    async with make(TWO) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.idle()
        config = world.settings.home / "snapshots" / "config"
        config.write_text("[core\n")

        with pytest.raises(Conflict, match=r"The files cannot be compared: .*; try again"):
            await world.runtime.changes.of_plan(world.ann, plan_id)


@pytest.mark.feature(239)
async def test_a_folder_that_is_made_and_a_file_that_is_read_need_no_look_at_the_whole_workspace(
    make,
):
    lines = {
        "main/coder": [
            calls(call("create_directory", path="new/deep")),
            calls(call("create_directory", path="new")),
            calls(call("read_file", path=".env")),
            says("Done"),
        ],
    }
    async with make(lines) as world:
        (world.folder / ".env").write_text("KEY=1\n")
        await approve_all(world, await world.say("Make folders", "coder"))

        store, session = world.runtime.parts.store, world.session
        made, again, read = await store.read(thread_calls, session, "main")
        assert [each.result["created"] for each in (made, again)] == [True, False]
        assert [each.tree for each in (made, again, read)] == [None, None, None]
        assert read.result["content"] == "KEY=1\n"
        told = await store.read(changes_of_session, session)
        assert [(each.path, each.before, each.after, each.origin) for each in told] == [
            ("new", None, {"folder": True}, "tool"), ("new/deep", None, {"folder": True}, "tool"),
        ]  # fmt: skip


async def test_a_folder_that_could_not_be_made_is_no_change(make):
    lines = {"main/coder": [calls(call("create_directory", path="new/deep")), says("Done")]}
    async with make(lines) as world:
        question, *_ = of(await world.say("Make a folder", "coder"), "approval_requested")
        world.runtime.parts.gate.tools["create_directory"] = replace(
            world.runtime.parts.gate.tools["create_directory"], run=_is_full
        )
        await world.decide(question["call_id"])

        store, session = world.runtime.parts.store, world.session
        [made] = await store.read(thread_calls, session, "main")
        assert made.error == "io_error: the disk is full"
        assert await store.read(changes_of_session, session) == []


async def _is_full(_bench, _arguments):
    raise ToolFailed("io_error", "the disk is full")
