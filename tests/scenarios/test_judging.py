"""Judging a call takes what it takes, and meanwhile everybody else is served."""

import anyio.lowlevel
import pytest

from gonogo.runtime.services import bare_thread

HUNKS = "--- a/x\n+++ b/x\n" + "@@ -1 +1 @@\n-a\n+b\n" * 40_000
LINES = "\n" * 800_000
FILES = "".join(f"--- a/{n}\n+++ b/{n}\n@@ -1 +1 @@\n-a\n+b\n" for n in range(8_000))
SUBTASKS = [[1]] * 100_000


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("tool", "arguments", "agent"),
    [
        ("apply_patch", {"patch": HUNKS}, "universal"),
        ("apply_patch", {"patch": LINES}, "universal"),
        ("apply_patch", {"patch": FILES}, "universal"),
        ("create_plan", {"goal": "g", "subtasks": SUBTASKS}, "architect"),
    ],
)
@pytest.mark.parametrize("remote", [False, True])
async def test_a_call_that_takes_long_to_judge_leaves_the_loop_to_others(
    make, tool, arguments, agent, remote
):
    async with make({}) as world:
        turns = 0

        async def others():
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async with anyio.create_task_group() as group:
            thread = bare_thread(world.folder, agent, remote=remote)
            # Once for what is imported only then.
            await world.runtime.parts.gate.judge(thread, tool, {})
            group.start_soon(others)
            await anyio.lowlevel.checkpoint()
            before = turns
            await world.runtime.parts.gate.judge(thread, tool, arguments)
            # Judged in the loop itself, it would have had a handful between the steps.
            assert turns - before > 30
            group.cancel_scope.cancel()
