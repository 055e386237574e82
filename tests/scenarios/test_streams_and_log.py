"""The log is the truth: any follower can rebuild it, and every allow in it has a reason."""

import random

import anyio
import pytest

from fakes.until import until
from fakes.world import LIMIT, call, calls, kinds, of, plan, run, says, step, write
from gonogo.domain.errors import InvalidCursor

NAMES = [f"s{n}" for n in range(12)]
BUSY = {
    "main/architect": [plan(*(step(n) for n in NAMES), step("join", *NAMES, agent="debug"))],
    "main/orchestrator": [says("Yes?")],
    **{n: [calls(write(f"{n}.txt"), call("list_files")), says("word " * 40)] for n in NAMES},
    "join": [calls(run("make")), says("joined")],
}


@pytest.mark.feature(211)
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_follower_that_loses_its_stream_again_and_again_has_the_whole_log(make, seed):
    chance = random.Random(seed)
    async with make(BUSY, max_parallel=6) as world:
        plan_id = await world.propose()
        seen: list[dict] = []

        async def follow() -> None:
            while not seen or seen[-1]["type"] != "plan_completed":
                after = seen[-1]["seq"] if seen else 0
                left = chance.randint(1, 15)
                async with world.runtime.streams.follow(world.ann, world.session, after) as events:
                    async for event in events:
                        if "seq" in event:
                            seen.append(event)
                            left -= 1
                        if left == 0 or event["type"] == "plan_completed":
                            break

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                await world.decide_plan(plan_id, "approve")
                [question] = await world.pending()
                await world.decide(question.call_id)

        assert seen == await world.log()
        assert [e["seq"] for e in seen] == list(range(1, len(seen) + 1))


@pytest.mark.feature(211)
async def test_many_followers_from_anywhere_see_the_same(make):
    async with make(BUSY, max_parallel=6) as world:
        plan_id = await world.propose()
        found: dict[int, list] = {}

        async def follow(after: int) -> None:
            mine = found.setdefault(after, [])
            async with world.runtime.streams.follow(world.ann, world.session, after) as events:
                async for event in events:
                    if "seq" in event:
                        mine.append(event)
                    if event["type"] == "plan_completed":
                        return

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                for after in range(6):
                    group.start_soon(follow, after)
                await world.decide_plan(plan_id)
                [question] = await world.pending()
                await world.decide(question.call_id)
        log = await world.log()
        for after, events in found.items():
            assert events == log[after:]


@pytest.mark.feature(211)
async def test_a_follower_that_reads_late_misses_nothing(make):
    async with make(BUSY, max_parallel=6) as world:
        plan_id = await world.propose()
        async with world.runtime.streams.follow(world.ann, world.session, 0) as events:
            first = await anext(events)
            await world.decide_plan(plan_id)
            [question] = await world.pending()
            await world.decide(question.call_id)
            seen = [first]
            with anyio.fail_after(LIMIT):
                async for event in events:
                    if "seq" in event:
                        seen.append(event)
                    if event["type"] == "plan_completed":
                        break

        assert seen == await world.log()


async def test_a_place_that_is_not_in_the_log_is_refused(make):
    async with make(BUSY) as world:
        await world.propose()
        for after in (-1, 10_000):
            with pytest.raises(InvalidCursor):
                async with world.runtime.streams.follow(world.ann, world.session, after):
                    pass


async def test_streams_end_with_the_runtime(make):
    async with make(BUSY) as world:
        await world.propose()
        ended = anyio.Event()

        async def follow() -> None:
            async with world.runtime.streams.follow(world.ann, world.session, 0) as events:
                async for _ in events:
                    pass
            ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await world.idle()
            await world.stop()
            with anyio.fail_after(LIMIT):
                await ended.wait()
        await world.start()


async def test_text_is_shown_as_it_is_written_and_the_log_has_all_of_it(make):
    text = "A long answer, which comes in several pieces, one after the other."
    async with make({"main/ask": [says(text)]}) as world:
        receipt = await world.send({"type": "user_message", "content": "?", "agent_type": "ask"})
        pieces, whole = [], []
        with anyio.fail_after(LIMIT):
            async with world.runtime.streams.answer(receipt) as events:
                async for event in events:
                    if "token" in event:
                        assert event["token"] == event["content"]
                        assert "seq" not in event
                        pieces.append(event["token"])
                    elif event["type"] == "assistant_message":
                        whole.append(event["content"])

        assert whole == [text]
        assert not pieces or text.endswith("".join(pieces))
        assert [e["content"] for e in of(await world.log(), "assistant_message")] == [text]


@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.parametrize("again", [False, True])
async def test_a_reader_that_joins_is_shown_the_text_so_far_unless_they_had_the_stream_before(
    make, again: bool, from_end: bool
):
    async with make({"main/ask": [says("Over.")]}) as world:
        await world.say("?", "ask")
        live, runtime = world.runtime.parts.live, world.runtime
        after = (await world.log())[-1]["seq"] if from_end else 0
        first, late, opened = list[str](), list[str](), list[bool]()

        async def read(into: list[str], known: bool) -> None:
            stream = runtime.streams.follow(world.ann, world.session, after, again=known)
            async with stream as events:
                opened.append(known)
                async for event in events:
                    if "token" in event:
                        into.append(event["token"])
                        if event["token"].endswith("answer."):
                            return

        with anyio.fail_after(LIMIT):
            async with (
                anyio.create_task_group() as group,
                live.answer(world.session, {"turn_id": "t9"}) as show,
            ):
                group.start_soon(read, first, False)
                await until(lambda: opened)
                show("A long ")
                group.start_soon(read, late, again)
                await until(lambda: len(opened) == 2)
                show("answer.")
                # A text that is over is shown to nobody who comes to it later.
                await until(lambda: all("answer." in "".join(got) for got in (first, late)))
        assert "".join(first) == "A long answer."
        assert "".join(late) == ("answer." if again else "A long answer.")
        assert live.so_far(world.session) == []


@pytest.mark.feature(16, 38, 210)
async def test_each_call_that_ran_names_a_rule_a_grant_or_a_person(make):
    lines = {
        "main/architect": [
            plan(step("a", scope={"tools": ["write_file"], "commands": ["ls"]}))
        ],
        "a": [calls(call("list_files"), write("a.txt"), run("ls"), run("touch b")), says("ok")],
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        for question in await world.pending():
            await world.decide(question.call_id)

        log = await world.log()
        assert kinds(log)[-1] == "plan_completed"
        ran = [e["call_id"] for e in of(log, "tool_result", status="completed")]
        assert len(ran) == 5
        entries = {e.details["call_id"]: e for e in await world.audit("tool.allowed")}
        assert set(entries) == set(ran)
        sources = [entries[call_id].details["source"] for call_id in ran]
        assert set(sources) == {"rule", "grant", "person"}
        for entry in entries.values():
            assert entry.details["reason"]
            assert entry.details["digest"].startswith("sha256:")
            if entry.details["source"] == "person":
                assert entry.actor == "user:ann"
            else:
                assert entry.details["rule"]
        report = await world.runtime.audit.verify(world.ann)
        assert report.ok
        assert report.entries >= len(entries)


@pytest.mark.feature(210)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET actor = 'user:bob' WHERE seq = 2 AND chain = :chain",
        "DELETE FROM audit WHERE seq = 2 AND chain = :chain",
        "UPDATE audit SET seq = seq + 100 WHERE seq = 2 AND chain = :chain",
        "DELETE FROM audit WHERE chain = :chain AND seq = (SELECT max(seq) FROM audit"
        " WHERE chain = :chain)",
    ],
)
async def test_a_changed_audit_is_found(make, statement):
    import sqlite3

    async with make(BUSY) as world:
        world.honest = False
        plan_id = await world.propose()
        await world.decide_plan(plan_id, "reject")
        assert (await world.runtime.audit.verify(world.ann)).ok
        with sqlite3.connect(world.settings.home / "gonogo.db") as database:
            database.execute(statement, {"chain": world.session})
        database.close()
        report = await world.runtime.audit.verify(world.ann)

        assert not report.ok
        assert any(world.session in problem for problem in report.problems)
