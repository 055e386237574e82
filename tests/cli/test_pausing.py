"""Ctrl-C while a plan runs: nothing new starts, and what comes next is the person's choice."""

import signal
from contextlib import aclosing, asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest

from fakes.door import client_at, served
from fakes.world import Model, calls, plan, says, step, write
from gonogo.cli.session.answers import Answerer, Wish
from gonogo.cli.session.conversation import Conversation, Manner
from gonogo.cli.session.interrupts import Interrupts, Pausing
from gonogo.cli.support import Exit
from gonogo.cli.terminal.input import Withdrawn
from gonogo.cli.terminal.render import PlainScreen
from gonogo.domain.errors import Refused

LIMIT = 60
LINES = {
    "main/architect": [plan(step("a"), step("b", "a"))], "main/orchestrator": [says("Later.")],
    "a": [says("done")], "b": [says("done")],
}  # fmt: skip
TASK = {"type": "user_message", "content": "Build it", "agent_type": "architect"}


class AtKeys:
    """A person at a terminal who answers with what they were going to.

    What models hold back comes once the person has nothing to do with the plan.
    """

    is_there = has_keys = True
    held, lets_go = (), {"leave", "message"}

    def __init__(self, *words):
        self.words, self.told, self.asked, self.prompts = list(words), [], [], []

    def tell(self, text):
        self.told.append(text)

    def withdraw(self):
        pass

    async def line(self, prompt, *, ahead=False):
        self.prompts.append(prompt)
        return self.words.pop(0)

    async def choose(self, question, options):
        self.asked.append(set(options))
        word = self.words.pop(0)
        for each in self.held if word in self.lets_go else ():
            each.set()
        return word


class Interrupting(PlainScreen):
    """A screen whose person presses Ctrl-C as soon as they see a subtask start.

    What models hold back comes once the plan goes on.
    """

    def __init__(self, at="a", held=()):
        self._at, self._held = at, held

    def show(self, event):
        if event["type"] == "subtask_started" and event["subtask_id"] == self._at:
            signal.raise_signal(signal.SIGINT)
        if event["type"] == "plan_resumed":
            for each in self._held:
                each.set()


class AtQuestions(AtKeys):
    """A person who presses Ctrl-C at the first question about a call, once another is open."""

    def __init__(self, client, *words):
        super().__init__(*words)
        self._client, self._scope = client, None

    def show(self, *shown):
        pass

    async def choose(self, question, options):
        if question != "Allow this?":
            return await super().choose(question, options)
        self.asked.append(question)
        while (await self._client.approvals(status="pending")).count < 2:
            await anyio.lowlevel.checkpoint()
        with anyio.CancelScope() as self._scope:
            signal.raise_signal(signal.SIGINT)
            await anyio.sleep_forever()
        raise Withdrawn

    def withdraw(self):
        if self._scope:
            self._scope.cancel()


class Doubtful(AtKeys):
    """A person who presses Ctrl-C once more, at the prompt for what they want to tell an agent."""

    async def line(self, prompt, *, ahead=False):
        with anyio.CancelScope() as self._scope:
            signal.raise_signal(signal.SIGINT)
            await anyio.sleep_forever()
        raise Withdrawn

    def withdraw(self):
        if hasattr(self, "_scope"):
            self._scope.cancel()


class Outstripped(AtKeys):
    """A person who thinks about what comes next until somebody else has said so."""

    def __init__(self, client, *words):
        super().__init__(*words)
        self._client = client

    async def choose(self, question, options):
        if not self.words:
            self.words.append("leave")
            [found] = (await self._client.plans()).plans
            await self._client.resume_plan(found.plan_id)
            await anyio.sleep_forever()
        return await super().choose(question, options)


class Meddling:
    """A client beside which somebody has a paused plan go on before it is looked at."""

    def __init__(self, client, plan_id):
        self._client, self._plan_id = client, plan_id

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def plan(self, plan_id):
        with suppress(Refused):
            await self._client.resume_plan(self._plan_id)
        return await self._client.plan(plan_id)


class Impatient:
    """A client whose person presses Ctrl-C once more, as what runs is waited for."""

    def __init__(self, client, person):
        self._client, self._person, self._pressed = client, person, False

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def plan(self, plan_id):
        if not (self._person.words or self._pressed):
            self._pressed = True
            signal.raise_signal(signal.SIGINT)
        return await self._client.plan(plan_id)


@asynccontextmanager
async def anns(folder, lines=LINES):
    async with served(folder, lines) as (runtime, socket), client_at(runtime, socket, "ann") as ann:
        yield ann


async def log_of(client, session_id):
    last, found = (await client.session(session_id)).last_seq, []
    async with aclosing(client.follow(session_id)) as events:
        async for event in events:
            found.append(event)
            if event.get("seq", 0) >= last:
                break
    return found


async def talks(client, person, *, owns, screen=None):
    session = await client.open_session()
    answers = Answerer(client, session.session_id, person, Wish(), "en")
    interrupts = Interrupts()
    talk = Conversation(
        client, session.session_id, screen or Interrupting(), answers, interrupts=interrupts,
        owns=owns,
    )  # fmt: skip
    with anyio.fail_after(LIMIT):
        async with interrupts.heeded():
            return await talk.carry(TASK)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("words", "code", "statuses"),
    [
        (["resume"], Exit.DONE, {"completed"}),
        (["cancel"], Exit.FAILED, {"cancelled"}),
        (["leave"], Exit.DONE, {"running", "completed"}),
        (["message", "And c?", "resume", None], Exit.DONE, {"completed"}),
    ],
)
async def test_the_person_says_what_comes_next(tmp_path, words, code, statuses):
    person, model = AtKeys("approve", *words), Model(LINES)
    person.held = [model.hold("a")]
    screen = Interrupting(held=person.held)
    async with anns(tmp_path, model) as client:
        assert await talks(client, person, owns=False, screen=screen) is code
        [found] = (await client.plans()).plans

    assert str(found.status) in statuses
    assert person.asked[1] == {"resume", "message", "steer", "cancel", "leave"}
    assert person.words == []
    assert any("The work keeps running" in text for text in person.told) == (words == ["leave"])


@pytest.mark.anyio
async def test_a_pause_that_somebody_else_ends_asks_nothing_any_more(tmp_path):
    model = Model(LINES)
    async with anns(tmp_path, model) as client:
        person = Outstripped(client, "approve")
        screen = Interrupting(held=[model.hold("a")])
        assert await talks(client, person, owns=False, screen=screen) is Exit.DONE
        [found] = (await client.plans()).plans

    assert str(found.status) == "completed"
    assert (len(person.asked), person.words) == (1, ["leave"])


@pytest.mark.anyio
async def test_a_pause_that_is_over_when_it_is_looked_at_is_not_begun_again(tmp_path):
    person, model = AtKeys("approve", "leave"), Model(LINES)
    held = [model.hold("a")]
    async with anns(tmp_path, model) as client:
        await talks(client, person, owns=False)
        [found] = (await client.plans()).plans
        found = await client.pause_plan(found.plan_id)
        meddling, session = Meddling(client, found.plan_id), await client.session(found.session_id)
        talk = Conversation(
            meddling, session.session_id, Interrupting("", held),
            Answerer(meddling, session.session_id, person, Wish(), "en"),
            manner=Manner(after=session.last_seq, due=session.last_seq),
        )  # fmt: skip
        talk.recall(found)
        with anyio.fail_after(LIMIT):
            assert await talk.join(running=False) is Exit.DONE
        told = [e["type"] for e in await log_of(client, session.session_id)]

    assert (told.count("plan_paused"), told.count("plan_resumed")) == (2, 2)
    assert len(person.asked) == 2


@pytest.mark.anyio
async def test_what_is_cancelled_asks_nothing_any_more(tmp_path):
    both = plan(*(step(key, scope={"paths": ["x"]}) for key in "ab"))
    writes = {key: [calls(write(f"{key}.md"))] for key in "ab"}
    async with anns(tmp_path, LINES | writes | {"main/architect": [both]}) as client:
        person = AtQuestions(client, "approve", "cancel")
        assert await talks(client, person, owns=False, screen=Interrupting("")) is Exit.FAILED

    assert person.asked.count("Allow this?") == 1


@pytest.mark.anyio
@pytest.mark.feature(232)
async def test_an_agent_at_work_is_told_something_and_all_goes_on(tmp_path):
    person = AtKeys("approve", "steer", "Mind the tests.")
    model = Model({**LINES, "a": [says("done"), says("I mind them.")]})
    screen = Interrupting(held=[model.hold("a")])
    async with anns(tmp_path, model) as client:
        assert await talks(client, person, owns=False, screen=screen) is Exit.DONE
        [found] = (await client.plans()).plans
        told = [e for e in await log_of(client, found.session_id) if e["type"] == "steered"]

    assert (str(found.status), person.words) == ("completed", [])
    assert [(e["subtask_id"], e["metadata"]["content"]) for e in told] == [("a", "Mind the tests.")]
    assert found.subtasks[0].result["output"] == "I mind them."


@pytest.mark.anyio
@pytest.mark.parametrize("words", [["2", "Be brief."], [None], ["2", ""], ["2", None]])
async def test_of_several_agents_at_work_the_one_that_is_chosen_is_told(tmp_path, words):
    both = [plan(step("a"), step("b"))]
    model = Model({
        **LINES, "main/architect": both, "a": [says("done")], "b": [says("done"), says("I am.")],
    })  # fmt: skip
    screen = Interrupting("b", held=[model.hold("a"), model.hold("b")])
    person = AtKeys("approve", "steer", *words)
    async with anns(tmp_path, model) as client:
        assert await talks(client, person, owns=False, screen=screen) is Exit.DONE
        [found] = (await client.plans()).plans

    assert person.asked[2] == {"1", "2"}
    told = "I am." if words == ["2", "Be brief."] else "done"
    assert [s.result["output"] for s in found.subtasks] == ["done", told]


@pytest.mark.anyio
async def test_an_interrupt_at_the_prompt_for_an_agent_asks_anew_and_the_plan_stands_still(
    tmp_path,
):
    person = Doubtful("approve", "steer", "cancel")
    model = Model(LINES)
    screen = Interrupting(held=[model.hold("a")])
    async with anns(tmp_path, model) as client:
        assert await talks(client, person, owns=False, screen=screen) is Exit.FAILED
        [found] = (await client.plans()).plans
        told = [e["type"] for e in await log_of(client, found.session_id)]

    assert (str(found.status), person.words) == ("cancelled", [])
    assert "resume" in person.asked[2]
    assert "plan_resumed" not in told


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("locale", "at_work", "prompt"),
    [
        ("en", ["add-flag"], "Message to add-flag >"), ("en", [], "Message to the agent >"),
        ("ru", ["add-flag"], "Сообщение агенту add-flag >"), ("ru", [], "Сообщение агенту >"),
    ],
)  # fmt: skip
async def test_the_prompt_says_who_is_told(tmp_path, locale, at_work, prompt):
    person = AtKeys("")
    async with anns(tmp_path) as client:
        pausing = Pausing(client=client, person=person, locale=locale, stays=False)
        await pausing.steer("s_1", "plan_1", at_work)

    assert person.prompts == [prompt]


class OfStrangers:
    """A client of a server that says what it likes."""

    async def resume_plan(self, plan_id):
        raise Refused(f"{plan_id} \u202e is over")


@pytest.mark.anyio
async def test_why_a_plan_does_not_go_on_is_safe_to_look_at():
    person = AtKeys()
    pausing = Pausing(client=OfStrangers(), person=person, locale="en", stays=False)
    await pausing.resume("plan_1")

    assert person.told == [r"plan_1 \u202e is over"]


@pytest.mark.anyio
async def test_who_carries_the_plan_out_and_leaves_sees_what_runs_to_its_end(tmp_path):
    person, model = AtKeys("approve", "leave"), Model(LINES)
    person.held = [model.hold("a")]
    async with anns(tmp_path, model) as client:
        with pytest.raises(BaseExceptionGroup) as raised:
            await talks(client, person, owns=True)
        [found] = (await client.plans()).plans

    assert raised.group_contains(KeyboardInterrupt)
    assert [str(found.status), *(str(s.status) for s in found.subtasks)] == [
        "paused", "completed", "pending",
    ]  # fmt: skip
    assert "attach" in person.told[-1]


@pytest.mark.anyio
async def test_another_interrupt_leaves_at_once_what_still_runs(tmp_path):
    person = AtKeys("approve", "leave")
    async with anns(tmp_path, {**LINES, "a": [says("done", 10 * LIMIT)]}) as client:
        with pytest.raises(BaseExceptionGroup) as raised:
            await talks(Impatient(client, person), person, owns=True)
        [found] = (await client.plans()).plans

    assert raised.group_contains(KeyboardInterrupt)
    assert [str(found.status), *(str(s.status) for s in found.subtasks)] == [
        "paused", "running", "pending",
    ]  # fmt: skip
    assert len(person.asked) == 2
