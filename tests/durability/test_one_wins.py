"""Two deciders at once: one wins, and the other is told who. A client that never answers."""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from durability.ground import Ground
from durability.invariants import check_invariants
from durability.server import Wire
from durability.test_restart import is_a, living, until
from fakes.postgres import Server as Postgres
from fakes.world import Clock, call, calls, plan, step
from gonogo.domain.errors import AlreadyDecided, Conflict
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import parse_message
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings

ROUNDS = 50
ANN = Principal(id="user:ann", name="ann", role=Role.ADMIN)
BOB = Principal(id="user:bob", name="bob", role=Role.ADMIN)
"""Both see the session of either."""


@pytest.mark.feature(203)
async def test_of_two_connections_that_decide_at_once_one_wins_and_the_other_is_told_who(
    ground: Ground,
):
    writes = [
        {"name": "write_file", "arguments": {"path": f"{n}.txt", "content": "x"}}
        for n in range(ROUNDS)
    ]
    switch = {"calls": [{"name": "switch_mode", "arguments": {"mode": "coder"}}]}
    ground.model.script({"rules": [
        {"when": {"user": "write"}, "replies": [switch, {"calls": writes}, {"text": "Done"}]}
    ]})  # fmt: skip
    won, lost = dict[str, str](), list[tuple[str, AlreadyDecided]]()
    async with living(ground) as (server, ann, wire), AsyncExitStack() as stack:
        await wire.say("write")
        made = await ann.create_token(name="bob", role="admin")
        bob = await stack.enter_async_context(type(ann)(server.url, token=made.token))
        await until(ann, is_a("approval_requested", subject="write_file"))
        open_ = await _all_open(wire)

        async def decide(client: Any, word: str, approval: Any) -> None:
            try:
                await client.decide(approval.approval_id, word)
                won[approval.arguments["path"]] = word
            except AlreadyDecided as error:
                lost.append((word, error))

        for number, approval in enumerate(open_):
            pair = [(ann, "approve"), (bob, "reject")]
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for client, word in pair if number % 2 else reversed(pair):
                        group.start_soon(decide, client, word, approval)
        await until(ann, is_a("assistant_message", is_final=True))

    assert (len(won), len(lost)) == (ROUNDS, ROUNDS)
    assert {name for name, word in won.items() if word == "approve"} == {
        path.name for path in ground.workspace.glob("*.txt") if path.name != "old.txt"
    }
    assert all((error.decided_by == "bob") == (word == "approve") for word, error in lost)
    assert all(error.decided_at for _, error in lost)
    assert ground.problems() == []


async def _all_open(wire: Wire) -> list[Any]:
    found = await wire.pending()
    assert len(found) == ROUNDS, "all calls of one reply are asked together"
    return found


@pytest.mark.feature(203)
async def test_of_two_runtimes_on_one_postgresql_that_decide_at_once_one_wins(
    postgres: Postgres, tmp_path: Path
):
    url = postgres.url(postgres.make())
    lines = {"main/architect": [plan(step("one"))]}
    async with AsyncExitStack() as stack:
        # One drives; the other is there for its person alone.
        one, two = [
            await stack.enter_async_context(_opened(tmp_path / name, url, lines, idle=idle))
            for name, idle in (("one", False), ("two", True))
        ]
        outcomes = [await _race(one, two, f"s{n}", first=n % 2 == 0) for n in range(ROUNDS)]
    found = check_invariants(url, None, (), ())

    assert outcomes == [Counter({"won": 1, "lost": 1})] * ROUNDS
    assert found == []


def _opened(folder: Path, url: str, lines: dict[str, Any], *, idle: bool) -> Any:
    (folder / "work").mkdir(parents=True)
    settings = Settings(
        home=folder / "home", config=folder / "config", workspace=folder / "work", db=url
    )
    return Runtime.open(settings, model=ScriptedModel(lines), idle=idle)


async def _race(one: Runtime, two: Runtime, session: str, *, first: bool) -> Counter[str]:
    ask = parse_message({"type": "user_message", "content": "Plan", "agent_type": "architect"})
    with anyio.fail_after(60):
        receipt = await one.messages.accept(ANN, session, ask)
        async with one.streams.answer(receipt) as events:
            last = [event async for event in events][-1]
    seen: Counter[str] = Counter()

    async def decide(runtime: Runtime, who: Principal, word: str) -> None:
        about = {"type": "plan_decision", "plan_id": last["plan_id"], "decision": word}
        try:
            await runtime.messages.accept(who, session, parse_message(about))
            seen["won"] += 1
        except (AlreadyDecided, Conflict):
            seen["lost"] += 1

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            pair = [(one, ANN, "hold"), (two, BOB, "reject")]
            for runtime, who, word in pair if first else reversed(pair):
                group.start_soon(decide, runtime, who, word)
    return seen


async def test_a_call_that_its_client_never_answers_is_in_doubt_also_when_time_passed_while_down(
    tmp_path: Path,
):
    (tmp_path / "work").mkdir()
    settings = Settings(
        home=tmp_path / "home", config=tmp_path / "config", workspace=tmp_path / "work"
    )
    lines = {"main/coder": [calls(call("read_file", path="a")), {"text": "Well"}]}
    clock = Clock()

    def life() -> Any:
        return Runtime.open(settings, model=ScriptedModel(lines), clock=clock)

    async with life() as runtime:
        await runtime.sessions.open(ANN, session_id="s", tool_host="client")
        ask = parse_message({"type": "user_message", "content": "Read", "agent_type": "coder"})
        await runtime.messages.accept(ANN, "s", ask)
        called = await _next(runtime, "tool_call")
    clock.ahead += clock.ahead.__class__(minutes=11)
    async with life() as runtime:
        await _next(runtime, "approval_requested")
        (question,) = (await runtime.sessions.pending(ANN, "s")).pending_approvals
        late = {"type": "tool_result", "call_id": called["call_id"], "result": {"content": "late"}}
        with pytest.raises(Conflict, match="already has a result"):
            await runtime.messages.accept(ANN, "s", parse_message(late))
    async with life() as runtime:
        about = {"type": "hitl_decision", "approval_id": question.approval_id, "decision": "edit"}
        seen = {"modified_arguments": {"result": {"content": "seen"}}}
        await runtime.messages.accept(ANN, "s", parse_message({**about, **seen}))
        await _next(runtime, "assistant_message", is_final=True)

    assert question.kind == "intervention"
    assert check_invariants(tmp_path / "home" / "gonogo.db", None, (), ()) == []


async def _next(runtime: Runtime, kind: str, **fields: Any) -> dict[str, Any]:
    holds = is_a(kind, **fields)
    with anyio.fail_after(60):
        async with runtime.streams.follow(ANN, "s", 0) as events:
            async for event in events:
                if "seq" in event and holds(event):
                    return event
    raise AssertionError(f"no {kind}")
