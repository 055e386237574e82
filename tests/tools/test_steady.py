"""What is told of a program's output where a session is recorded: nothing of its run or machine."""

import pytest

from gonogo.tools import Bench, builtin_tools
from gonogo.tools.base import steady
from gonogo.workspace import Workspace

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("/srv/shop\n", ".\n"),
        ('File "/srv/shop/tests/a.py", line 3', 'File "tests/a.py", line 3'),
        ("/srv/shop2 /mnt/srv/shop/a /srv/shop.old", "/srv/shop2 /mnt/srv/shop/a /srv/shop.old"),
        ("Ran 3 tests in 0.002s", "Ran 3 tests in <duration>"),
        ("real 1m0.012s, 12 ms (0.5 sec)", "real <duration>, <duration> (<duration>)"),
        ("at 2026-01-02T03:04:05.678Z", "at <time>"),
        ("2026-01-02 03:04 and 2026-01-02", "<time> and 2026-01-02"),
        ("Fri Jan  2 03:04:05 UTC 2026", "<time>"),
        ("Date: Fri Jan 2 03:04:05 2026 +0200", "Date: <time>"),
        ("-rw-r--r-- 1 a a 5 Jan  2 03:04 x", "-rw-r--r-- 1 a a 5 <time> x"),
        ("12:03:04 start", "<time> start"),
        ("# duration_ms 1.234", "# duration_ms <duration>"),
        ("in /tmp/tmp.a1b2/x.txt", "in <temporary>"),
        ("<object at 0x7f3a2c109b50>", "<object at <address>>"),
        ("costs 2 s, 1.5 and v0.12.3", "costs 2 s, 1.5 and v0.12.3"),
    ],
)
def test_what_differs_in_each_run_is_left_out_and_all_else_stays(printed, told):
    assert steady(printed, "/srv/shop") == told


@pytest.mark.parametrize("taped", [True, False])
async def test_only_a_recorded_session_is_told_so(tmp_path, taped):
    tool = builtin_tools()["execute_command"]
    bench = Bench(workspace=Workspace(tmp_path), steady=taped)
    result = await tool.run(bench, tool.parse({"command": "pwd; echo took 0.5s"}))
    told = ".\ntook <duration>\n" if taped else f"{tmp_path}\ntook 0.5s\n"
    assert result["output"] == told
