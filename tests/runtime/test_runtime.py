"""The runtime's own promises: it opens, it looks without acting, and it knows who speaks."""

import threading
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from fakes.world import LIMIT, calls, kinds, plan, says, step, world_of, write
from gonogo.domain.errors import (
    Busy,
    Conflict,
    Forbidden,
    InvalidMessage,
    NotFound,
    PolicyDenied,
    Unauthorized,
)
from gonogo.domain.events import AssistantMessage
from gonogo.domain.identity import Principal, Role
from gonogo.execution.agent.models import ModelPool, model_settings
from gonogo.llm import ModelSettings
from gonogo.runtime import Runtime
from gonogo.settings import Settings
from gonogo.store import events as log
from gonogo.store.hints import TextPart
from gonogo.telemetry import Metrics
from gonogo.workspace import Snapshots

LINES = {
    "main/architect": [plan(step("one"))],
    "one": [calls(write("one.txt")), says("one is there")],
}


async def test_an_idle_runtime_shows_everything_and_sets_nothing_going(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        await world.stop()
        async with Runtime.open(world.settings, model=world.model, idle=True) as looking:
            view = await looking.plans.get(looking.owner, plan_id)
            assert view.status == "awaiting_approval"
            decided = {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
            await looking.messages.accept(looking.owner, world.session, _message(decided))
            assert (await looking.plans.get(looking.owner, plan_id)).status == "running"
        assert world.read("one.txt") is None

        await world.start()
        await world.until("plan_completed")
        assert world.read("one.txt") == "made\n"


async def test_tokens_are_of_the_principal_of_their_name_and_end_when_revoked(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, LINES) as world:
        runtime, told = world.runtime, []
        runtime.people.subscribe_revocations(lambda: told.append("revoked"))
        view, secret = await runtime.people.create_token(runtime.owner, "ann", Role.VIEWER)
        _, other = await runtime.people.create_token(runtime.owner, "ann", Role.OPERATOR)

        seen = await runtime.people.authenticate(secret)
        assert (seen.id, seen.name, seen.role) == ("user:ann", "ann", Role.VIEWER)
        assert (await runtime.people.authenticate(other)).id == seen.id
        assert secret not in (tmp_path / "home" / "gonogo.db").read_bytes().decode("latin1")

        await runtime.people.revoke_token(runtime.owner, view.token_id)
        assert told == ["revoked"]
        with pytest.raises(Unauthorized):
            await runtime.people.authenticate(secret)
        with pytest.raises(NotFound):
            await runtime.people.revoke_token(runtime.owner, "token_none")
        with pytest.raises(Forbidden):
            await runtime.people.create_token(seen, "bob", Role.ADMIN)
        with pytest.raises(InvalidMessage):
            await runtime.people.create_token(runtime.owner, "a b\n", Role.VIEWER)
        for taken in ("local", "GonoGo", "аnn"):
            with pytest.raises(InvalidMessage):
                await runtime.people.create_token(runtime.owner, taken, Role.VIEWER)


def test_a_model_is_opened_as_the_settings_say(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, model="openai:x", openai_base_url="http://localhost:1/v1",
        model_api_key="sk-1", model_timeout=7, model_max_attempts=3, temperature=0.5,
    )  # fmt: skip
    assert model_settings(settings) == ModelSettings(
        name="openai:x", base_url="http://localhost:1/v1", api_key="sk-1", timeout=7,
        max_attempts=3, temperature=0.5,
    )  # fmt: skip
    nothing = model_settings(Settings(home=tmp_path))
    assert (nothing.name, nothing.api_key, nothing.temperature) == (None, None, None)


@pytest.mark.feature(17)
async def test_the_audit_of_an_unknown_session_is_empty_and_that_of_the_system_is_for_admins(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        assert await world.runtime.audit.entries(world.ann, "nobody") == []
        entries = await world.runtime.audit.entries(world.ann, world.session)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        with pytest.raises(Forbidden):
            await world.runtime.audit.entries(world.ann)
        assert (await world.runtime.audit.verify(world.ann)).ok


async def test_a_deleted_session_is_gone_for_good_and_its_plan_is_cancelled(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        await world.runtime.sessions.delete(world.ann, world.session)

        for look in (
            world.runtime.sessions.get,
            world.runtime.sessions.history,
            world.runtime.sessions.pending,
        ):
            with pytest.raises(NotFound):
                await look(world.ann, world.session)
        with pytest.raises(NotFound):
            await world.runtime.plans.get(world.ann, plan_id)
        with pytest.raises(NotFound):
            await world.say("hello")
        with pytest.raises(Conflict):
            await world.runtime.sessions.open(world.ann, session_id=world.session)


async def test_who_follows_a_session_sees_what_is_told_to_its_deletion_and_then_that(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        async with world.runtime.streams.follow(world.ann, world.session, 0) as events:
            with anyio.fail_after(LIMIT):
                while (await anext(events))["type"] != "plan_notification":
                    pass
                await world.runtime.sessions.delete(world.ann, world.session)
                while (await anext(events))["type"] != "plan_cancelled":
                    pass
                with pytest.raises(NotFound, match=f"{world.session} was deleted"):
                    await anext(events)


class Stuck(Snapshots):
    """A store on a disk that answers nobody for a while."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.goes_on, self.has_answered = threading.Event(), False

    def probe(self) -> None:
        self.goes_on.wait(LIMIT)
        self.has_answered = True


async def test_who_asks_whether_work_can_be_done_does_not_wait_for_a_disk_that_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gonogo.runtime.runtime._PATIENCE", 0.5)
    async with world_of(tmp_path, {}) as world:
        stuck, parts = Stuck(tmp_path / "stuck"), world.runtime.parts
        rollbacks = replace(parts.rollbacks, snapshots=stuck)
        try:
            with pytest.raises(Busy) as refused:
                await Runtime(replace(parts, rollbacks=rollbacks)).check_ready()
            assert refused.value.reason == "the state folder does not answer in time"
            assert not stuck.has_answered
        finally:
            stuck.goes_on.set()


async def test_a_workspace_must_be_a_folder_inside_the_roots(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        inside = world.folder / "inside"
        inside.mkdir()
        (world.folder / "way-out").symlink_to("/etc")

        view = await world.runtime.sessions.open(world.ann, workspace=str(inside))
        assert view.workspace == str(inside)
        for outside in ("/etc", str(world.folder / ".." / ".."), str(world.folder / "way-out")):
            with pytest.raises(Forbidden):
                await world.runtime.sessions.open(world.ann, workspace=outside)
        with pytest.raises(InvalidMessage):
            await world.runtime.sessions.open(world.ann, workspace=str(inside / "none"))


async def test_lists_are_paged_and_show_each_principal_their_own(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        for number in range(3):
            await world.runtime.sessions.open(world.ann, session_id=f"ann-{number}")
        await world.runtime.sessions.open(world.bob, session_id="bobs")

        page = await world.runtime.sessions.page(world.ann, 2, 0)
        assert (len(page.sessions), page.total) == (2, 3)
        rest = await world.runtime.sessions.page(world.ann, 2, 2)
        assert {s.session_id for s in (*page.sessions, *rest.sessions)} == {
            f"ann-{number}" for number in range(3)
        }
        everybody = Principal(id="user:root", name="root", role=Role.ADMIN)
        assert (await world.runtime.sessions.page(everybody, 10, 0)).total == 4


async def test_one_tool_runs_through_the_same_gate(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        (world.folder / "a.txt").write_text("hello\n")
        run = world.runtime.run_tool

        seen = await run(world.runtime.owner, "read_file", {"path": "a.txt"}, world.folder)
        asked = await run(
            world.runtime.owner, "write_file", {"path": "a.txt", "content": "x"}, world.folder
        )

        assert (seen["decision"], seen["result"]["content"]) == ("allow", "hello\n")
        assert set(seen) == {"decision", "reason", "rule", "result"}
        assert set(asked) == {"decision", "reason", "rule", "preview"}
        assert asked["decision"] == "ask"
        with pytest.raises(PolicyDenied, match=r"^file_not_found: 'b\.txt' does not exist$"):
            await run(world.runtime.owner, "read_file", {"path": "b.txt"}, world.folder)
        control = {"question": "Which?"}
        spoken = await run(world.runtime.owner, "ask_followup_question", control, world.folder)
        assert (spoken["decision"], set(spoken)) == ("ask", set(asked))
        with pytest.raises(PolicyDenied, match=r"^unknown_tool: "):
            await run(world.runtime.owner, "cook", {}, world.folder)
        entries = await world.runtime.audit.entries(world.runtime.owner)
        [entry] = [each for each in entries if each.action == "tool.allowed"]
        assert (entry.actor, entry.subject) == ("local", "read_file")
        digest = entry.details.pop("digest")
        assert digest.startswith("sha256:")
        assert entry.details == {
            "arguments": {"path": "a.txt"}, "reason": seen["reason"], "rule": seen["rule"],
            "source": "rule",
        }  # fmt: skip
        assert "-hello" in asked["preview"]
        assert world.read("a.txt") == "hello\n"


async def test_a_question_shows_what_a_file_would_hold_without_what_deceives(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, LINES) as world:
        odd = {"path": "a.txt", "content": "rm \u202egpj.txt\u200b\r\nit says \\u202e\n"}

        asked = await world.runtime.run_tool(world.runtime.owner, "write_file", odd, world.folder)

        assert "+rm \\u202egpj.txt\\u200b\\x0d\n+it says \\\\u202e\n" in asked["preview"]


async def test_a_pattern_that_matches_a_link_out_of_the_workspace_asks(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text('[[rule]]\ncommand="wc"\ndecision="allow"\n')
    async with world_of(tmp_path, LINES) as world:

        async def decided(command: str) -> str:
            arguments = {"command": command}
            done = await world.runtime.run_tool(
                world.runtime.owner, "execute_command", arguments, world.folder
            )
            return done["decision"]

        (world.folder / "notes").write_text("one\n")
        assert await decided("wc -c n*") == "allow"
        (world.folder / "news").symlink_to("/etc/passwd")
        assert await decided("wc -c n*") == "ask"
        assert await decided("wc -c no*") == "allow"


async def test_what_stands_in_the_log_is_what_followers_saw(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.decide_plan(await world.propose())
        seen = []
        with anyio.fail_after(60):
            async with world.runtime.streams.follow(world.ann, world.session, 0) as events:
                async for event in events:
                    seen.append(event)
                    if event["type"] == "plan_completed":
                        break
        assert seen == await world.log()
        assert kinds(seen)[-2:] == ["agent_switched", "plan_completed"]


async def test_a_follower_reads_in_the_log_what_was_never_handed_to_it(tmp_path: Path) -> None:
    elsewhere = AssistantMessage(content="From elsewhere", is_final=True)
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        hub, store = world.runtime.parts.hub, world.runtime.parts.store
        streams = world.runtime.streams
        async with streams.follow(world.ann, world.session, 0, again=True) as events:
            with anyio.fail_after(LIMIT):
                kept = await world.log()
                assert [await anext(events) for _ in kept] == kept
                # Once this has come, all that follows is what the follower is handed.
                hub.tell(world.session, {"type": "delta"})
                assert await anext(events) == {"type": "delta"}
                deliver, store.deliver = store.deliver, lambda box: None
                await store.write(log.tell, world.session, elsewhere)
                store.deliver = deliver
                hub.refresh()
                assert (await anext(events))["content"] == "From elsewhere"


@pytest.mark.parametrize(("again", "shown"), [(True, "is built."), (False, "The house is built.")])
async def test_who_comes_again_to_a_text_of_a_worker_gets_the_rest_of_it(
    tmp_path: Path, again: bool, shown: str
) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        last = (await world.log())[-1]["seq"]
        part = TextPart(
            session_id=world.session, answer="a1", fence=1, after=last, at=0,
            text="The house is built.", place={"turn_id": "later"}, reached=10,
        )  # fmt: skip
        follow = world.runtime.streams.follow
        async with follow(world.ann, world.session, last, again=again) as events:
            world.runtime.parts.hub.show(part)
            with anyio.fail_after(LIMIT):
                assert (await anext(events))["token"] == shown


async def test_what_agents_and_tools_there_are_is_told(tmp_path: Path) -> None:
    (tmp_path / "config" / "agents").mkdir(parents=True)
    async with world_of(tmp_path, LINES) as world:
        agents = {each.name: each for each in world.runtime.agents()}
        tools = {each.name: each for each in world.runtime.tools()}
        profiles, parts = world.runtime.parts.profiles, world.runtime.parts
        models = world.runtime.models()
        assert not world.runtime.closing.is_set()
    assert world.runtime.closing.is_set()

    assert set(agents) == set(profiles)
    assert (agents["coder"].may_write, agents["coder"].source) == (["**"], "builtin")
    assert agents["coder"].tools == list(profiles["coder"].tools)
    assert agents["coder"].description == profiles["coder"].description
    assert agents["ask"].may_write == []
    assert set(tools) == set(parts.tools)
    read = tools["read_file"]
    assert (read.tool_class, read.description) == ("pure", parts.tools["read_file"].description)
    assert "path" in read.parameters["properties"]
    assert models


def _message(raw: dict[str, object]):
    from gonogo.domain.messages import parse_message

    return parse_message(raw)


def test_the_model_is_opened_by_its_name_when_it_is_first_asked(tmp_path: Path) -> None:
    models = ModelPool(
        settings=Settings(home=tmp_path, model="demo"), environment={}, metrics=Metrics()
    )
    assert not models.opened
    assert models().name == "demo"
    assert [wanted.name for wanted in models.opened] == ["demo"]


def test_a_session_that_names_a_model_is_not_given_the_configured_one(tmp_path: Path) -> None:
    models = ModelPool(
        settings=Settings(home=tmp_path, model="openai:of-the-process"),
        environment={"OPENAI_API_KEY": "k"}, metrics=Metrics(),
    )  # fmt: skip
    assert models("demo").name == "demo"
    assert models().name == "openai:of-the-process"
    assert [wanted.name for wanted in models.opened] == ["demo", "openai:of-the-process"]
