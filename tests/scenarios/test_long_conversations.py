"""The window of a model never ends a turn, and what the model must know is in every request.

The models here count what they are sent and refuse what is longer than their window, as providers
do.
"""

import json
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from fakes.world import Model, call, calls, of, plan, run, says, step, write
from gonogo.domain.errors import ModelFailed, NotFound, PromptTooLong
from gonogo.domain.tool_calls import ToolAnswer

WINDOW = 32_000
WORDS = "What was found out is written down here, as it would be by somebody who works. "


class Strict(Model):
    """Refuses what is longer than its window, and says what it counted."""

    def __init__(self, lines, window=WINDOW):
        super().__init__(lines)
        self.window, self.sizes, self.refusals = window, [], 0

    async def request(self, request, on_text):
        size = tokens(request)
        if size > self.window:
            self.refusals += 1
            raise PromptTooLong(f"{size} tokens are too many", http_status=400)
        self.sizes.append(size)
        reply = await super().request(request, on_text)
        usage = reply.usage.model_copy(update={"input_tokens": size})
        return reply.model_copy(update={"usage": usage})


def tokens(request):
    tools = len(json.dumps([tool.model_dump() for tool in request.tools]))
    said = sum(len(text_of(message)) for message in request.messages)
    return (len(request.system) + tools + said) // 4


def text_of(message):
    made = json.dumps([c.arguments for c in getattr(message, "calls", ())])
    return str(getattr(message, "content", "") or getattr(message, "text", "")) + made


def asked(request):
    """All that one request says, as a text."""
    return "\n".join([request.system, *map(text_of, request.messages)])


def lacking(said, *facts):
    """Which of the requests lack one of the facts."""
    return [n for n, each in enumerate(said) if any(fact not in each for fact in facts)]


@asynccontextmanager
async def strict(make, lines, *, real=WINDOW, kind=Strict, **set_):
    """A world whose model has a window that it keeps to."""
    async with make(lines, **set_) as world:
        world.open_model = lambda w: setattr(w, "model", kind(w.lines, real)) or w.model
        await world.restart()
        yield world


def laid_out(world, count, lines=60):
    for n in range(count):
        text = "\n".join(f"value_{n}_{i} = 'something that is looked at'" for i in range(lines))
        (world.folder / f"f{n}.py").write_text(text)


def reads(n, words=20):
    return calls(call("read_file", path=f"f{n}.py"), text=f"Step {n}. {WORDS * words}")


@pytest.mark.unmeasured
@pytest.mark.feature(221)
async def test_two_hundred_steps_in_a_small_window_never_overflow_and_lose_no_fact(make):
    """Fixed points: the goal, the scope, a dependency's result, what a person said to a refusal."""
    steps = [reads(n) for n in range(200)]
    steps[3] = calls(write("keep.txt", "Mine now"), text="I need this file.")
    scope = {"paths": ["out.txt"], "tools": ["write_file"]}
    lines = {
        "main/architect": [plan(step("a"), step("b", "a", scope=scope), goal="THE-GOAL of it")],
        "a": [says("RESULT-OF-A")],
        "b": [*steps, calls(write("out.txt")), says("All is done")],
        "compact": [says("SUMMED-UP")],
    }
    async with strict(make, lines, model_window=WINDOW, max_steps=300) as world:
        laid_out(world, 200)
        await world.begin()
        await world.until("approval_requested", subject="write_file")
        [question] = await world.pending()
        events = await world.decide(question.call_id, "reject", feedback="KEEP-IT as it is")
        log, model = await world.log(), world.model

        assert (events[-1]["type"], of(log, "error")) == ("plan_completed", [])
        assert world.read("out.txt") == "made\n"
        assert model.refusals == 0
        said = [asked(request) for request in model.asked("b")]
        assert len(said) == 202
        assert lacking(said, "THE-GOAL", "Do b", "out.txt", "RESULT-OF-A") == []
        assert lacking(said[4:], "KEEP-IT") == []
        compacted = of(log, "context_compacted")
        assert len(compacted) >= 2
        assert of(log, "context_elided")
        assert len(model.asked("compact")) == len(compacted)
        assert "SUMMED-UP" in said[-1]
        # The record has all of it, with what the summaries took.
        history = await world.history("tool")
        assert sum("value_" in message.content for message in history) == 199
        costs = await world.runtime.parts.store.read(_rows)
        assert sum(agent == "compact" for agent in costs) == len(compacted)


def _rows(tx):
    from sqlalchemy import text

    return [row[0] for row in tx.conn.execute(text("SELECT agent FROM model_requests"))]


@pytest.mark.unmeasured
@pytest.mark.feature(222)
async def test_a_hundred_requests_of_a_thread_begin_with_the_same_bytes(make):
    steps = [reads(n, words=1) for n in range(99)]
    async with strict(make, {"main/coder": [*steps, says("Done")]}, real=1 << 20) as world:
        world.model.window = 1 << 20
        laid_out(world, 99, lines=3)
        await world.say("Read them all", "coder")
        requests = world.model.asked("main")

        assert len(requests) == 100
        assert len({request.cache_key for request in requests}) == 1
        assert len(requests[0].cache_key) == 32
        names = [tool.name for tool in requests[0].tools]
        assert names == sorted(names)
        sent = [_bytes(request) for request in requests]
        assert all(later.startswith(before) for before, later in pairwise(sent))


def _bytes(request):
    """A request as it is sent, in the order of the providers: what stands, then what was said."""
    stands = [request.system, *(tool.model_dump_json() for tool in request.tools)]
    return "\n".join([*stands, *(m.model_dump_json() for m in request.messages)])


@pytest.mark.feature(223)
async def test_a_result_of_a_megabyte_costs_no_more_than_the_bound_and_all_of_it_can_be_read(make):
    printed = calls(run("seq 1 165000"))
    part = calls(call("read_output", id="?", **{"from": 100_000, "to": 100_003}))
    found = calls(call("read_output", id="?", pattern="^77777$"))
    lost = calls(call("read_output", id="call_of_nobody"))

    def with_id(line):
        def made(request):
            first = next(m for m in request.messages if isinstance(m, ToolAnswer))
            text = json.dumps(line).replace('"?"', json.dumps(first.call_id))
            return json.loads(text)

        return made

    lines = {
        "main/coder": [printed, with_id(part), with_id(found), lost, says("Seen")],
        "main/debug": [says("Hm")],
    }
    async with strict(make, lines, real=200_000, command_output=2_000_000) as world:
        world.model.window = 200_000
        events = await world.say("Print", "coder")
        if questions := await world.pending():
            events = await world.decide(questions[0].call_id)
        assert events[-1]["content"] == "Seen"
        first, second, *_ = world.model.asked("main")
        assert tokens(second) - tokens(first) < 8_300
        given = [m.content for m in world.model.asked("main")[-1].messages if m.role == "tool"]
        assert given[0].endswith("truncated: false") or "165000" in given[0]
        part = json.loads(given[1])
        # Two rows stand before the first line of the output.
        assert part["content"].split("\n")[1] == str(int(part["content"].split("\n")[0]) + 1)
        assert (part["from"], part["to"], part["truncated"]) == (100_000, 100_003, False)
        assert json.loads(given[2])["content"].endswith(": 77777")
        assert given[3].startswith("not_found: ")
        whole = (await world.history("tool"))[0].content
        assert len(whole) > 1_000_000


@pytest.mark.feature(221)
async def test_a_refusal_for_length_is_followed_by_a_compaction_that_outlives_a_restart(make):
    """The settings say that the window is larger than it is; the model is the one to know."""
    steps = [reads(n, words=40) for n in range(30)]
    lines = {
        "main/coder": [*steps, {**says("Done"), "delay": 30}],
        "compact": [says("SUMMED-UP")],
    }
    async with strict(make, lines, real=20_000, model_window=1_000_000) as world:
        laid_out(world, 30)
        receipt = await world.send(
            {"type": "user_message", "content": "THE-TASK", "agent_type": "coder"}
        )
        await world.asked_model("main", 31)
        before = world.model
        assert before.refusals >= 1
        compacted = of(await world.log(), "context_compacted")
        # Once a refusal has told how long is too long, what comes later keeps below that.
        assert before.refusals <= 1 < len(compacted)
        lines["main/coder"][-1] = says("Done")
        world.lines["main/coder"] = lines["main/coder"]
        await world.restart()
        await world.until("assistant_message", content="Done")

        assert world.model.asked("compact") == []
        (again,) = world.model.asked("main")
        assert again.messages == before.asked("main")[-1].messages
        assert "THE-TASK" in asked(again)
        assert "SUMMED-UP" in asked(again)
        assert of(await world.log(), "error") == []
        assert receipt.session_id == world.session


@pytest.mark.feature(221)
@pytest.mark.parametrize("why", ["fails", "budget"])
async def test_where_nobody_sums_up_the_facts_of_the_record_stand_alone(make, why):
    steps = [reads(n, words=40) for n in range(20)]
    lines = {"main/coder": [calls(write("made.txt")), *steps, says("Done")]}
    set_ = {"model_window": 16_000}
    if why == "budget":
        lines["compact"] = [says("SUMMED-UP")]
        set_["budget_session_requests"] = 11
    async with strict(make, lines, real=16_000, **set_) as world:
        laid_out(world, 20)
        await world.say("THE-TASK", "coder")
        [question] = await world.pending()
        events = await world.decide(question.call_id)
        log = await world.log()
        compacted = of(log, "context_compacted")
        assert compacted
        assert not any(each["metadata"]["summary"] for each in compacted)
        assert events[-1]["type"] == ("assistant_message" if why == "fails" else "error")
        if why == "fails":
            last = asked(world.model.asked("main")[-1])
            assert "THE-TASK" in last
            assert "made.txt" in last


async def test_a_request_that_is_refused_and_cannot_be_made_shorter_ends_the_turn(make):
    async with strict(make, {"main/coder": [says("Never")]}, real=100) as world:
        events = await world.say("Go", "coder")
        assert events[-1]["type"] == "error"
        assert "too many" in events[-1]["content"]


class Away(Strict):
    """Sums up nothing before it is back."""

    back = False

    async def request(self, request, on_text):
        if request.thread == "compact" and not Away.back:
            Away.back = True
            raise ModelFailed("away", transient=True)
        return await super().request(request, on_text)


async def test_a_model_that_is_away_when_it_is_to_sum_up_is_waited_for(make):
    lines = {
        "main/coder": [*(reads(n, words=60) for n in range(12)), says("Done")],
        "compact": [says("SUMMED-UP")],
    }
    Away.back = False
    async with strict(make, lines, real=16_000, kind=Away, model_window=16_000) as world:
        laid_out(world, 12)
        await world.send({"type": "user_message", "content": "Go", "agent_type": "coder"})
        await world.until("model_away")
        await world.later(3_600)
        await world.until("model_back")
        await world.until("assistant_message", content="Done")
        compacted = of(await world.log(), "context_compacted")
        assert all(each["metadata"]["summary"] for each in compacted)


async def test_what_the_next_request_would_hold_is_told_by_parts_and_tokens(make):
    lines = {"main/coder": [reads(0), says("Done")]}
    async with make(lines, model_window=50_000) as world:
        laid_out(world, 1)
        await world.say("Go", "coder")
        found = await world.runtime.sessions.context(world.ann, world.session)
        # Who answers next, now that the coder is done.
        assert (found.agent, found.window) == ("orchestrator", 50_000)
        counts = {part.part: part.count for part in found.parts}
        assert (counts["texts"], counts["replies"], counts["results"]) == (1, 2, 1)
        assert found.tokens > next(p.tokens for p in found.parts if p.part == "results") > 300
        with pytest.raises(NotFound):
            await world.runtime.sessions.context(world.bob, world.session)


async def test_while_an_agent_answers_it_is_its_next_request_that_is_told(make):
    lines = {"main/coder": [calls(call("write_file", path="a", content="1")), says("Done")]}
    async with make(lines) as world:
        await world.send({"type": "user_message", "content": "Go", "agent_type": "coder"})
        await world.until("approval_requested")
        found = await world.runtime.sessions.context(world.ann, world.session)
        assert found.agent == "coder"


def read_again(request):
    """Read the result of the first call again."""
    first = next(m for m in request.messages if isinstance(m, ToolAnswer))
    return calls(call("read_output", id=first.call_id))


@pytest.mark.feature(223)
async def test_results_of_a_clients_tools_are_read_here_and_the_client_is_asked_nothing(make):
    lines = {"main/coder": [calls(call("read_file", path="a")), read_again, says("Done")]}
    async with make(lines) as world:
        found = await world.runtime.sessions.open(world.ann, tool_host="client")
        world.session = found.session_id
        await world.send({"type": "user_message", "content": "Go", "agent_type": "coder"})
        asked = await world.until("tool_call")
        large = {"content": "line of theirs\n" * 10_000}
        told = {"type": "tool_result", "call_id": asked["call_id"], "result": large}
        events = await world.ask(told)

        assert events[-1]["content"] == "Done"
        [again] = of(events, "tool_call", tool_name="read_output")
        assert again["requires_approval"] is True
        first, second = [m for m in world.model.requests[-1].messages if m.role == "tool"]
        assert first.content.count("line of theirs") < 2_200
        assert json.loads(second.content)["rows"] == 10_002


async def test_what_a_secret_held_is_not_read_again_without_a_question(make):
    lines = {"main/coder": [calls(call("read_file", path=".env")), read_again, says("Done")]}
    async with make(lines) as world:
        (world.folder / ".env").write_text("KEY=1")
        await world.say("Go", "coder")
        [question] = await world.pending()
        await world.decide(question.call_id)
        first, second = [m for m in world.model.requests[-1].messages if m.role == "tool"]
        assert "KEY=1" in first.content
        assert second.content.startswith("secret: ")


async def test_a_subtask_reads_no_results_of_another_one(make):
    seen = []

    lines = {
        "main/architect": [plan(step("a"), step("b", "a"))],
        "a": [calls(call("read_file", path="f0.py")), says("Kept")],
        "b": [lambda _: calls(call("read_output", id=seen[0])), says("Done")],
    }
    async with make(lines) as world:
        laid_out(world, 1)
        held = world.model.hold("b")
        plan_id = await world.begin()
        seen.append((await world.until("tool_result", tool_name="read_file"))["call_id"])
        held.set()
        await world.until("plan_completed", plan_id=plan_id)
        last = world.model.asked("b")[-1].messages[-1]
        assert last.content.startswith("not_found: ")


# What people are told of the window --------------------------------------------------------------


def looking(times):
    """Replies that read a file of a thousand tokens, one after another."""
    return [calls(call("read_file", path="a.txt", start_line=n)) for n in range(1, times + 1)]


async def test_people_are_told_of_each_twentieth_of_the_window_and_of_no_more(make):
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [*looking(12), says("Done.")],
    }
    async with strict(make, lines) as world:
        (world.folder / "a.txt").write_text(f"{WORDS}\n" * 50)
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        log = await world.log()

    told = [e for e in of(log, "window_used") if e.get("subtask_id") == "a"]
    assert {(e["plan_id"], e["agent"]) for e in told} == {(plan_id, "coder")}
    shares = [e["metadata"]["tokens"] * 100 // e["metadata"]["window"] for e in told]
    assert len(shares) > 3
    assert all(b // 5 - a // 5 == 1 for a, b in pairwise(shares))
    # Before what ends an answer, so that nothing comes after its end.
    assert log[-1]["type"] != "window_used"


async def test_that_there_is_room_again_is_told_as_well(make):
    lines = {"main/coder": [*looking(2), says("One."), says("Two.")]}
    async with make(lines, model_window=20_000) as world:
        sizes = iter([1_000, 15_000, 15_100, 400])

        class Counting(Model):
            async def request(self, request, on_text):
                reply = await super().request(request, on_text)
                usage = reply.usage.model_copy(
                    update={"input_tokens": next(sizes), "output_tokens": 0}
                )
                return reply.model_copy(update={"usage": usage})

        world.open_model = lambda w: Counting(w.lines)
        await world.restart()
        (world.folder / "a.txt").write_text("a\n")
        await world.say("Go", "coder")
        await world.restart()
        await world.say("On", "coder")
        told = [e["metadata"]["tokens"] for e in of(await world.log(), "window_used")]
    assert told == [1_000, 15_000, 400]
