"""Models by role: where the model of one provider is away, that of another carries the plan on."""

from collections.abc import Iterator

import pytest

from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.provider_servers import AnthropicWire, ProviderServer, provider_server
from fakes.sockets import held_port
from fakes.world import World, call, calls, kinds, of, plan, step, write
from gonogo.domain.errors import Conflict, InvalidMessage
from gonogo.llm import provider_variables

pytestmark = pytest.mark.measured

SECOND = "anthropic:claude-sonnet-5-5"
HANG = 3.0
WAYS = {
    "429": {"status": 429, "headers": {"Retry-After": "3600"}, "error": "Slow down"},
    "503": {"status": 503, "error": "Down for a while"},
    "a reset": {"text": "Half of an answer", "cut": 2},
    "a hang": {"text": "Too late", "delay": 10 * HANG},
    "no access": {"status": 401, "error": "Who are you?"},
}
FILE = """
[[role]]
name = "work"
model = "openai:first"
base_url = "{url}"
fallback = ["{second}"]

[[role]]
name = "plan"
model = "openai:planner"
base_url = "{planner}"
"""


@pytest.fixture
def first() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        yield running


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    def answer(body: dict) -> dict:
        told = str(body["messages"])
        if "tool_result" in told:
            return {"text": "The second one did it."}
        name = "b" if "Do b" in told else "a"
        made = {"path": f"{name}2.txt", "content": "made\n"}
        return (
            {"calls": [{"name": "write_file", "arguments": made}]}
            if "Do " in told
            else {"text": "So it is."}
        )

    with provider_server(AnthropicWire(), answer) as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-a-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


@pytest.fixture
def dead_port() -> Iterator[int]:
    with held_port() as port:
        yield port


def script(how: dict) -> dict:
    """A provider that plans two subtasks and begins the first of them, and then is away."""
    proposal = plan(step("a"), step("b", "a"))
    rules = [
        {"when": {"tools": ["create_plan"], "model": "planner"}, "replies": [proposal]},
        {"when": {"user": "Do a", "assistants": 0}, "replies": [calls(write("a.txt"))]},
    ]
    return {"rules": rules, "default": how}


async def begin(world: World, first: FakeOpenAI, url: str) -> str:
    """A plan that is approved, with these models."""
    file = world.settings.models_file
    file.parent.mkdir(exist_ok=True)
    file.write_text(FILE.format(url=url, second=SECOND, planner=first.base_url))
    world.open_model = lambda _world: None
    await world.restart()
    return await world.begin()


def answered(events: list[dict]) -> list[tuple[str | None, str]]:
    told = of(events, "model_fallback")
    return [(event.get("subtask_id"), event["metadata"]["model"]) for event in told]


@pytest.mark.feature(229)
@pytest.mark.parametrize("way", [*WAYS, "a dead server"])
async def test_a_plan_whose_model_goes_away_is_completed_by_that_of_another_provider(
    make, first, second, dead_port, way
):
    first.script(script(WAYS.get(way, {})))
    dead = f"http://127.0.0.1:{dead_port}/v1"
    async with make({}, model_timeout=HANG) as world:
        url = dead if way == "a dead server" else first.base_url
        plan_id = await begin(world, first, url)
        await world.until("plan_completed", status="completed")
        await world.idle()

        status = await world.runtime.plans.status(world.ann, plan_id)
        assert {(s.status, s.attempt) for s in status.subtasks} == {("completed", 1)}
        events = await world.log()
        bad = {"subtask_failed", "subtask_retrying", "error", "plan_paused", "model_away"}
        assert bad.isdisjoint(kinds(events))
        # The first began it, and the second went on with what it had been told of that.
        begun = way != "a dead server"
        assert (world.read("a.txt") == "made\n") is begun
        assert (world.read("a2.txt") is None) is begun
        assert world.read("b2.txt") == "made\n"
        # Each conversation is told once, with what was wrong.
        assert answered(events) == [("a", SECOND), ("b", SECOND)]
        assert all("openai:first" in e["metadata"]["error"] for e in of(events, "model_fallback"))
        assert (second.violations, first.violations) == ([], [])

        # What each subtask took is what its requests took, whoever answered them.
        took = {s.id: s.usage for s in status.subtasks}
        assert took["a"].requests == took["b"].requests == 2
        assert took["b"].cached_tokens == 140
        found = await world.runtime.reports.analytics(world.ann, session_id=world.session)
        by_model = {used.model: used.requests for used in found.models}
        asked = 1 if begun else 0
        assert by_model == {
            "openai:planner": 1, SECOND: 4 - asked, **({"openai:first": 1} if begun else {}),
        }  # fmt: skip
        # Whoever rests is not asked anew by each subtask.
        if way in {"503", "a reset", "a hang"}:
            assert sum(body["model"] == "first" for body in first.requests) == 1 + 2


@pytest.mark.feature(229)
async def test_where_all_models_of_a_role_are_away_the_plan_waits_for_any_of_them(
    make, first, second
):
    first.script(script(WAYS["503"]))
    whole, second.answer = second.answer, lambda _body: {"status": 529, "error": "Overloaded"}
    async with make({}, model_max_attempts=1) as world:
        plan_id = await begin(world, first, first.base_url)
        told = await world.until("plan_paused")
        assert told["metadata"]["reason"] == "model"
        found = await world.runtime.plans.get(world.ann, plan_id)
        assert found.pause_reason == "model"
        await world.idle()
        second.answer = whole
        until = (await world.runtime.plans.get(world.ann, plan_id)).paused_until
        await world.later((until - world.clock()).total_seconds() + 0.01)
        await world.until("plan_completed", status="completed")
        events = await world.log()
        assert {"subtask_failed", "error"}.isdisjoint(kinds(events))
        assert len(of(events, "plan_paused")) == len(of(events, "plan_resumed")) == 1


@pytest.mark.feature(229)
async def test_each_role_asks_its_model_and_a_session_with_a_model_of_its_own_asks_only_that(
    make, first, second
):
    proposal = plan(step("a"), step("b", "a", type="validation"))
    route = calls(call("switch_mode", mode="architect", reason="big"))
    rules = [
        {"when": {"model": "planner"}, "reply": proposal},
        {"when": {"model": "router", "assistants": 0}, "replies": [route]},
        {"when": {"model": "worker", "user": "Do a", "results": 0}, "reply": calls(write("a.txt"))},
        {
            "when": {"model": "checker"},
            "reply": calls(call("give_verdict", valid=True, reasons=["seen"])),
        },
    ]
    first.script({"rules": rules, "default": {"text": "Fine."}})
    names = {"plan": "planner", "route": "router", "work": "worker", "review": "checker"}
    tables = [
        f'[[role]]\nname = "{role}"\nmodel = "openai:{name}"\nbase_url = "{first.base_url}"\n'
        for role, name in names.items()
    ]
    async with make({}, openai_base_url=first.base_url) as world:
        file = world.settings.models_file
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(tables))
        world.open_model = lambda _world: None
        await world.restart()
        events = await world.say("Build it")
        plan_id = events[-1]["metadata"]["plan_id"]
        await world.decide_plan(plan_id)
        asked = {body["model"] for body in first.requests}
        assert asked == {"planner", "router", "worker", "checker"}

        own = await world.runtime.sessions.open(world.ann, model="openai:of-the-session")
        before = len(first.requests)
        await world.say("Hello", session=own.session_id)
        assert {body["model"] for body in first.requests[before:]} == {"of-the-session"}


SPARE = """
[[role]]
name = "work"
model = "openai:first"
base_url = "{url}"

[[role]]
name = "plan"
model = "openai:planner"
base_url = "{planner}"

[[role]]
name = "review"
model = "anthropic:without-a-key"
"""


@pytest.fixture
def spare() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        yield running


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in provider_variables():
        monkeypatch.delenv(name, raising=False)


async def waited(world: World, first: FakeOpenAI, spare: FakeOpenAI) -> dict:
    """A plan whose model was waited for in vain. Gives the answer that has another one asked."""
    first.script({"default": WAYS["503"]})
    proposal = plan(step("a"), step("b", "a"))
    rules = [{"when": {"tools": ["create_plan"]}, "replies": [proposal, {"text": "All is done."}]}]
    spare.script({"rules": rules, "default": {"text": "It is done."}})
    file = world.settings.models_file
    file.parent.mkdir(exist_ok=True)
    file.write_text(SPARE.format(url=first.base_url, planner=spare.base_url))
    world.open_model = lambda _world: None
    await world.restart()
    await world.begin()
    await world.until("plan_paused")
    await world.idle()
    await world.later(6)
    await world.until("approval_requested", kind="intervention")
    await world.idle()
    [question] = await world.pending()
    # Neither the one that is away, nor one that there is no key for.
    assert question.details["models"] == ["openai:planner"]
    assert "openai:planner" in question.reason
    return {"type": "hitl_decision", "approval_id": question.approval_id, "decision": "edit"}


@pytest.mark.feature(230)
@pytest.mark.usefixtures("keyless")
async def test_where_patience_ends_a_person_may_have_another_model_asked(make, first, spare):
    async with make({}, model_patience=5, model_max_attempts=1) as world:
        edit = await waited(world, first, spare)
        asked = len(first.requests)
        answer = {"modified_arguments": {"result": {"model": "openai:planner"}}}
        events = await world.ask(edit | answer)
        assert events[-1]["metadata"]["status"] == "completed"
        [resumed] = of(events, "plan_resumed")
        assert "openai:planner" in resumed["content"]
        # It holds over a restart, and for what is said next.
        await world.restart()
        assert (await world.say("And now?", "coder"))[-1]["content"] == "It is done."
        assert len(first.requests) == asked
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert session.model == "openai:planner"
        [entry] = await world.audit("intervention.edited")
        assert entry.actor == world.ann.id
        assert entry.details["decision"]["changes"] == {"result": {"model": "openai:planner"}}


@pytest.mark.usefixtures("keyless")
async def test_a_model_that_is_not_configured_any_more_is_not_asked(make, first, spare):
    async with make({}, model_patience=5, model_max_attempts=1) as world:
        edit = await waited(world, first, spare)
        named = f'"openai:planner"\nbase_url = "{spare.base_url}"'
        file = world.settings.models_file
        file.write_text(file.read_text().replace(named, '"anthropic:planner"'))
        await world.restart()
        answer = {"modified_arguments": {"result": {"model": "openai:planner"}}}
        with pytest.raises(Conflict, match="openai:planner is no longer available"):
            await world.ask(edit | answer)
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert session.model is None
        assert len(await world.pending()) == 1


@pytest.mark.usefixtures("keyless")
async def test_only_a_model_that_the_question_names_is_asked(make, first, spare):
    async with make({}, model_patience=5, model_max_attempts=1) as world:
        edit = await waited(world, first, spare)
        for wrong in (
            {"model": "openai:first"},
            {"model": ["openai:planner"]},
            "openai:planner",
            1,
        ):
            with pytest.raises(InvalidMessage, match="one of openai:planner"):
                await world.ask(edit | {"modified_arguments": {"result": wrong}})
        with pytest.raises(InvalidMessage):
            await world.ask(edit)
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert session.model is None
        assert len(await world.pending()) == 1
