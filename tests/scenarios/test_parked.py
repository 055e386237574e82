"""Waiting is free: a session that waits for a person is rows in the database, and nothing else."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Integer, text

from fakes.world import World, calls, of, says, world_of, write
from gonogo.store import Tx, patiently
from gonogo.store.schema import METADATA

SESSIONS = 10_000
OF_A_SESSION = {
    "sessions": "id", "turns": "session_id", "messages": "session_id", "tool_calls": "session_id",
    "approvals": "session_id", "timers": "key",
}  # fmt: skip
"""The tables in which a session waits, each with the column that says whose a row is. Its events
are not looked at until somebody follows it."""


@dataclass(frozen=True)
class Weight:
    """What a process carries while nothing happens."""

    tasks: int
    timers: int
    threads: int


async def weigh(world: World) -> Weight:
    await world.idle()
    loop = asyncio.get_running_loop()
    armed = [handle for handle in loop._scheduled if not handle.cancelled()]
    return Weight(len(asyncio.all_tasks()), len(armed), threading.active_count())


def copy_session(tx: Tx, ids: dict[str, str], copies: int) -> None:
    """Have a session many times: its rows again, under ids with a number behind them."""
    for name, whose in OF_A_SESSION.items():
        columns = {c.name: c for c in METADATA.tables[name].columns if not is_counted(name, c.name)}
        shown = [
            column if isinstance(getattr(c.type, "impl", c.type), Integer) else renamed(column, ids)
            for column, c in columns.items()
        ]
        mine = ids["approval"] if name == "timers" else ids["session"]
        tx.execute(
            text(
                f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers"  # noqa: S608 - names of our own
                f" WHERE n < :copies) INSERT INTO {name} ({', '.join(columns)})"
                f" SELECT {', '.join(shown)} FROM {name}, numbers WHERE {whose} = :mine"
            ),
            {"copies": copies, "mine": mine, **ids},
        )


def is_counted(table: str, column: str) -> bool:
    return (table, column) == ("messages", "id")


def renamed(column: str, ids: dict[str, str]) -> str:
    for name in ids:
        column = f"replace({column}, :{name}, :{name} || '-' || CAST(n AS TEXT))"
    return column


@pytest.mark.unmeasured
@pytest.mark.feature(216)
async def test_ten_thousand_waiting_sessions_cost_no_task_no_timer_and_no_thread(
    tmp_path: Path, database_url: str
) -> None:
    lines = {"main/coder": [calls(write("made.txt")), says("It is made.")]}
    async with world_of(tmp_path, lines, db=database_url) as world:
        world.honest = False
        await world.say("Make it", "coder")
        await world.restart()
        one = await weigh(world)
        [question] = await world.pending()
        [asked] = of(await world.log(), "tool_call")
        ids = {
            "session": world.session, "turn": asked["turn_id"], "call": question.call_id,
            "approval": question.approval_id,
        }  # fmt: skip
        with patiently():
            await world.runtime.parts.store.write(copy_session, ids, SESSIONS)

        await world.restart()
        many = await weigh(world)

        assert many.tasks == one.tasks
        # One is armed for the earliest of all, as soon as it has been read which that is, and
        # one may stand for a moment that is over soon.
        assert many.timers <= one.timers + 2
        assert many.threads <= one.threads + 2
        assert world.model.requests == []
        metrics = world.runtime.metrics.render().decode()
        assert f'approvals_pending{{kind="tool"}} {SESSIONS + 1}.0' in metrics

        last = f"{ids['session']}-{SESSIONS}"
        decision = {"type": "hitl_decision", "decision": "approve"}
        events = await world.ask(decision | {"call_id": f"{ids['call']}-{SESSIONS}"}, session=last)
        assert of(events, "tool_result", status="completed")
        assert events[-1]["content"] == "It is made."
        assert world.read("made.txt") == "made\n"
        assert len(await world.pending()) == 1
