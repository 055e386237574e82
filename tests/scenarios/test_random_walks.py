"""Whatever agents ask for and people do, in any order: each answer ends, each call has its result.

A walk is decided by its seed alone: what the model says (by thread and place), and what the person
does next.
"""

import random
from contextlib import suppress

import anyio
import pytest

from fakes.world import LIMIT, call, calls, of, plan, run, says, step, write
from gonogo.domain.errors import GonogoError
from gonogo.domain.records import MAIN
from gonogo.domain.states import SUBTASK
from gonogo.store.calls import open_calls
from gonogo.store.sessions import open_turns

OPEN = {"awaiting_approval", "approved", "running", "paused", "replanning"}


def pool(dice):
    """Anything that a model may ask for."""
    n = dice.randint(0, 5)
    return dice.choice([
        call("list_files"), call("read_file", path="f0"), call("read_file", nonsense=1),
        write(f"f{n}", f"{n}\n"), write(f"f{n}", f"{n + 1}\n"), write(".git/config", "x"),
        run("ls"), run("touch g && cat g"), call("fly"), call("delete_file", path=f"f{n}"),
        call("ask_followup_question", question="Which?"), call("execute_plan"),
        call("attempt_completion", result="Completed"), call("switch_mode", mode="coder"),
        call("switch_mode", mode="architect"), call("create_plan", goal="g", subtasks=[]),
        call("edit_file", path=f"f{n}", old="1", new="2"),
    ])  # fmt: skip


def proposal(dice):
    """A plan of some shape."""
    steps = []
    for n in range(dice.randint(1, 4)):
        after = [f"s{m}" for m in range(n) if dice.random() < 0.4]
        scope = dice.choice([{}, {"scope": {"commands": ["ls"]}}, {"scope": {"paths": ["f1"]}}])
        steps.append(step(f"s{n}", *after, agent=dice.choice(["coder", "debug"]), **scope))
    return plan(*steps)


def model(seed):
    """A script in which each reply is thrown by dice."""

    def reply(request):
        dice = random.Random(f"{seed}:{request.thread}:{request.agent}:{len(request.messages)}")
        if request.agent == "architect" and dice.random() < 0.6:
            return proposal(dice)
        if dice.random() < 0.45:
            return says("That is all")
        return calls(*(pool(dice) for _ in range(dice.randint(1, 3))), text="Well")

    agents = ("orchestrator", "architect", "coder", "ask", "debug", "universal")
    threads = [f"main/{agent}" for agent in agents] + [f"s{n}" for n in range(4)]
    return {thread: [reply] * 300 for thread in threads}


class Person:
    """Does one thing after another, whatever comes to mind."""

    def __init__(self, world, seed):
        self.world, self.dice = world, random.Random(seed)

    async def act(self):
        """Do one thing; a refusal is fine, an answer without an end is not."""
        thing = self.dice.choice([
            self.decide, self.decide, self.decide, self.decide, self.say, self.say, self.stop,
            self.steer, self.restart, self.change_a_file, self.batch,
        ])  # fmt: skip
        try:
            await thing()
        except GonogoError:
            return

    async def say(self):
        agent = self.dice.choice([None, "architect", "coder", "ask"])
        ends(await self.world.say(self.dice.choice(["Go", "Далее"]), agent))

    async def decide(self, words=("approve", "approve", "approve", "reject", "edit")):
        pending = await self.world.pending()
        if not pending:
            return
        question, word = self.dice.choice(pending), self.dice.choice(words)
        if question.kind == "plan":
            word = self.dice.choice([word, "hold"])
            edit = {"modified_subtasks": [step("s0"), step("s3", "s0")]} if word == "edit" else {}
            named = {"revision": question.revision}
            ends(await self.world.decide_plan(question.plan_id, word, **edit, **named))
            return
        edit = question.arguments if question.kind == "tool" else {"result": "as I say"}
        more = {"modified_arguments": edit} if word == "edit" else {}
        message = {"type": "hitl_decision", "decision": word, **more}
        ends(await self.world.ask(message | {"approval_id": question.approval_id}))

    async def batch(self):
        ids = [question.call_id for question in await self.world.pending() if question.call_id]
        if ids:
            word = self.dice.choice(["approve", "reject"])
            message = {"type": "hitl_decision", "call_ids": ids, "decision": word}
            ends(await self.world.ask(message), refusals=True)

    async def stop(self):
        if self.dice.random() < 0.3:
            ends(await self.world.ask({"type": "cancel"}))

    async def steer(self):
        found = (await self.world.runtime.plans.page(self.world.ann)).plans
        if not found:
            return
        runtime, plan_id = self.world.runtime, found[0].plan_id
        verb = self.dice.choice([
            runtime.plans.start, runtime.plans.pause, runtime.plans.resume, runtime.plans.resume,
        ])  # fmt: skip
        key = self.dice.choice(found[0].subtasks).id
        one = self.dice.choice(
            [runtime.plans.skip_subtask, runtime.plans.cancel_subtask, runtime.plans.retry_subtask]
        )
        if self.dice.random() < 0.6:
            await verb(self.world.ann, plan_id)
        else:
            await one(self.world.ann, plan_id, key)

    async def restart(self):
        if self.dice.random() < 0.5:
            await self.world.restart()

    async def change_a_file(self):
        (self.world.folder / f"f{self.dice.randint(0, 5)}").write_text("a person's 1\n")

    async def finish(self):
        """Bring everything to its end."""
        for _ in range(60):
            await self.world.idle()
            if await self.world.pending():
                await self.decide(words=("reject",))
            elif left := await self.unfinished():
                await left()
            else:
                return
        raise AssertionError("no end in sight")

    async def unfinished(self):
        """What is left to end, if anything is."""
        runtime, ann = self.world.runtime, self.world.ann
        for found in (await runtime.plans.page(ann)).plans:
            if found.status in OPEN:
                return lambda plan_id=found.plan_id: runtime.plans.cancel(ann, plan_id)
        if await runtime.parts.store.read(open_turns, self.world.session):
            return lambda: self.world.ask({"type": "cancel"})
        return None


def ends(events, *, refusals=False):
    """Check that an answer has one final event, its last."""
    final = [event for event in events if event.get("is_final")]
    if refusals and not final:
        assert {event["type"] for event in events} == {"error"}
        return
    assert final == [events[-1]]


async def check(world):
    """Check what must be true of any log."""
    log = await world.log()
    assert [e["seq"] for e in log] == list(range(1, len(log) + 1))
    called = [e["call_id"] for e in of(log, "tool_call")]
    assert len(set(called)) == len(called)
    results = of(log, "tool_result")
    told = [e["call_id"] for e in results if e["metadata"]["status"] != "unknown"]
    assert len(set(told)) == len(told)
    assert {e["call_id"] for e in results} == set(called)
    assert (await world.runtime.audit.verify(world.ann)).ok
    for found in (await world.runtime.plans.page(world.ann)).plans:
        assert found.status not in OPEN
        begun = found.status not in {"rejected", "expired"}
        assert not begun or all(s.status in SUBTASK.terminal for s in found.subtasks)
    assert {g.status for g in await world.runtime.plans.grants(world.ann)} <= {"ended", "revoked"}
    session = await world.runtime.sessions.get(world.ann, world.session)
    assert session.active_plan_id is None
    store = world.runtime.parts.store
    assert await store.read(open_calls, world.session, MAIN) == []
    allowed = {e.details["call_id"] for e in await world.audit("tool.allowed")}
    ran = {e["call_id"] for e in results if e["metadata"]["status"] == "completed"}
    control = {e["call_id"] for e in of(log, "tool_call", tool_class="control")}
    assert ran - control <= allowed | repeated(log)


def repeated(log):
    """Calls whose outcome was unknown; a person said what became of them."""
    return {e["call_id"] for e in of(log, "tool_result", status="unknown")}


async def walk(world, seed):
    """Do a number of things, bring all to its end, and check what is left."""
    person = Person(world, seed)
    with anyio.fail_after(LIMIT * 3):
        await person.say()
        for _ in range(18):
            await person.act()
        await person.finish()
        await check(world)


@pytest.mark.feature(65, 74, 211)
@pytest.mark.parametrize("seed", range(6))
async def test_a_walk_ends_with_everything_answered(make, seed):
    async with make(model(seed), max_steps=12) as world:
        await walk(world, seed)


async def carry_out(world, dice):
    """A client that carries out what it is told to, on whatever runtime there is."""
    after = 0
    while True:
        async with world.runtime.streams.follow(world.ann, world.session, after) as events:
            async for event in events:
                after = event.get("seq", after)
                if runs(event):
                    outcome = dice.choice([{"result": {"done": 1}}, {"error": "no: it failed"}])
                    message = {"type": "tool_result", "call_id": event["call_id"], **outcome}
                    with suppress(GonogoError):
                        await world.send(message)
        await world.started()


def runs(event):
    """Whether an event tells the client to run a call."""
    if event["type"] == "tool_approved":
        return True
    control = event.get("metadata", {}).get("tool_class") == "control"
    return event["type"] == "tool_call" and not event["requires_approval"] and not control


@pytest.mark.parametrize("seed", range(1000, 1003))
async def test_a_walk_with_a_client_that_carries_out_the_tools(make, seed):
    async with make(model(seed), max_steps=12) as world, anyio.create_task_group() as group:
        opened = await world.runtime.sessions.open(world.ann, tool_host="client")
        world.session = opened.session_id
        group.start_soon(carry_out, world, random.Random(seed))
        await walk(world, seed)
        assert list(world.folder.glob("f*[!0-5]")) == []
        group.cancel_scope.cancel()
