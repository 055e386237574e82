"""The door over the real runtime: what people do, by the public protocol and nothing else."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from websockets.asyncio.client import unix_connect

from fakes.template import lay_out
from fakes.until import until
from gonogo.client import Client
from gonogo.domain.errors import AlreadyDecided, Conflict, Forbidden, InvalidMessage, NotFound
from gonogo.domain.identity import Role
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.server import serve
from gonogo.settings import Settings

COMMAND = {"name": "execute_command", "arguments": {"command": "touch made.txt"}}
SUBTASKS = [
    {"id": "one", "description": "First", "agent": "coder"},
    {"id": "two", "description": "Second", "agent": "coder", "dependencies": ["one"]},
]
LINES = {
    "main/orchestrator": [{"text": "Привет!"}, {"text": "Again"}],
    "main/coder": [{"calls": [COMMAND]}, {"text": "Understood"}],
    "main/architect": [
        {"calls": [{"name": "create_plan", "arguments": {"goal": "Two", "subtasks": SUBTASKS}}]},
        {"text": "The plan is there"},
    ],
    "one": [{"calls": [{"name": "write_file", "arguments": {"path": "a", "content": "1"}}]},
            {"text": "one is done"}],
    "two": [{"text": "two is done"}],
}  # fmt: skip


class World:
    """A runtime that is served on a socket, and its clients."""

    def __init__(self, runtime: Runtime, path: str) -> None:
        self.runtime, self.path, self.tokens = runtime, path, {}

    @asynccontextmanager
    async def person(self, name: str = "ann", role: Role = Role.OPERATOR):
        _, token = await self.runtime.people.create_token(self.runtime.owner, name, role)
        self.tokens[name] = token
        async with Client(uds=self.path, token=token) as client:
            yield client

    @asynccontextmanager
    async def line(self, session_id: str, query: str = "", name: str = "ann"):
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        url = f"ws://localhost/ws/{session_id}{query}"
        async with unix_connect(self.path, url, additional_headers=headers) as line:
            yield line


@pytest.fixture
async def world(tmp_path):
    (tmp_path / "work").mkdir()
    settings = Settings(
        home=tmp_path / "home", config=tmp_path / "config", workspace=tmp_path / "work"
    )
    lay_out(settings.home)
    path = str(tmp_path / "s")
    async with (
        Runtime.open(settings, model=ScriptedModel(LINES)) as runtime,
        anyio.create_task_group() as group,
    ):
        listening = anyio.Event()

        async def server() -> None:
            await serve(runtime, port=None, uds=tmp_path / "s", on_ready=lambda _: listening.set())

        group.start_soon(server)
        with anyio.fail_after(60):
            await listening.wait()
        yield World(runtime, path)
        runtime.closing.set()


async def say(client, session_id, content="hi", **more):
    message = {"type": "user_message", "content": content, **more}
    return await everything(client.send(session_id, message))


async def everything(stream):
    with anyio.fail_after(60):
        return [event async for event in stream]


def kinds(events):
    return [event["type"] for event in events if "seq" in event]


async def asked(client):
    """A session in which a command waits for an answer."""
    events = await say(client, "s1", agent_type="coder")
    pending = await client.pending_approvals("s1")
    return events, pending.pending_approvals[0]


async def test_a_message_without_a_session_opens_one(world):
    async with world.person() as ann:
        events = await say(ann, None)
        page = await ann.sessions()

    assert kinds(events) == ["session_info", "assistant_message"]
    assert events[-1]["content"] == "Привет!"
    assert [event.get("is_final", False) for event in events].count(True) == 1
    assert events[0]["session_id"] == page.sessions[0].session_id


@pytest.mark.feature(73)
@pytest.mark.feature(76)
async def test_a_rejected_command_never_runs_and_a_late_approval_is_told_who_was_first(
    world, tmp_path
):
    async with world.person() as ann, world.person("bob", Role.ADMIN) as bob:
        _, approval = await asked(ann)
        decision = {"type": "hitl_decision", "call_id": approval.call_id, "decision": "reject"}
        events = await everything(ann.send("s1", decision))
        left = await ann.pending_approvals("s1")
        with pytest.raises(AlreadyDecided) as late:
            await bob.decide(approval.approval_id, "approve")

    assert "tool_rejected" in kinds(events)
    assert left.count == 0
    assert late.value.decided_by
    assert not (tmp_path / "work" / "made.txt").exists()


async def test_a_plan_is_shown_approved_and_carried_out(world, tmp_path):
    async with world.person() as ann:
        shown = await say(ann, "s1", "Make two", agent_type="architect")
        plan = (await ann.plans(session_id="s1")).plans[0]
        with pytest.raises(Conflict):
            await ann.pause_plan(plan.plan_id)
        decision = {"type": "plan_decision", "plan_id": plan.plan_id, "decision": "approve"}
        done = await everything(ann.send("s1", decision))
        status = await ann.plan_status(plan.plan_id)
        graph = await ann.plan_graph(plan.plan_id)
        revisions = await ann.plan_revisions(plan.plan_id)
        audit = await ann.audit(session_id="s1")
        report = await ann.verify_audit()

    assert shown[-1]["type"] == "plan_notification"
    assert shown[-1]["is_final"] is True
    assert "plan_approved" in kinds(done)
    assert done[-1]["type"] == "plan_completed"
    assert (status.status, status.progress) == ("completed", 100)
    assert graph.edges == [{"from": "one", "to": "two"}]
    assert [revision.revision for revision in revisions] == [1]
    assert audit
    assert report.ok
    assert (tmp_path / "work" / "a").read_text() == "1"


async def test_what_is_not_ones_own_is_not_there(world):
    async with (
        world.person() as ann,
        world.person("eve") as eve,
        world.person("vic", Role.VIEWER) as viewer,
    ):
        _, approval = await asked(ann)
        for call in (
            eve.session("s1"), eve.history("s1"), eve.pending_approvals("s1"),
            eve.approval(approval.approval_id), eve.decide(approval.approval_id, "approve"),
            anext(eve.follow("s1")), say(eve, "s1"), eve.delete_session("s1"),
        ):  # fmt: skip
            with pytest.raises(NotFound):
                await call
        assert (await eve.sessions()).total == 0
        assert (await eve.approvals()).count == 0
        assert await eve.audit(session_id="s1") == []
        with pytest.raises(Forbidden):
            await say(viewer, "s2")
        assert (await ann.pending_approvals("s1")).count == 1


async def test_a_session_is_gone_once_it_is_deleted(world):
    async with world.person() as ann:
        await say(ann, "s1")
        await ann.edit_session("s1", title="Mine")
        await ann.delete_session("s1")

        for call in (ann.session("s1"), say(ann, "s1"), ann.history("s1")):
            with pytest.raises(NotFound):
                await call


async def test_who_follows_a_session_is_told_that_it_was_deleted(world):
    async with world.person() as ann:
        await asked(ann)
        seen = {}

        async def read() -> None:
            async for event in ann.follow("s1", 0):
                seen[event["type"]] = event

        async def follow() -> None:
            with pytest.raises(NotFound):
                await read()

        async with world.line("s1", "?after=0") as line, anyio.create_task_group() as group:
            while json.loads(await line.recv())["type"] != "approval_requested":
                pass
            group.start_soon(follow)
            await until(lambda: seen)
            await ann.delete_session("s1")
            with anyio.fail_after(60):
                while (last := json.loads(await line.recv()))["type"] != "error":
                    pass
                await line.wait_closed()

    assert (last["code"], line.close_code) == ("not_found", 1008)
    assert "approval_resolved" in seen


async def test_sessions_are_searched_beyond_the_page(world):
    async with world.person() as ann, world.person("eve") as eve:
        for number in range(3):
            await ann.open_session(title=f"Вход {number}")
        page = await ann.sessions(q="вход 0", limit=1)
        hidden = await eve.sessions(q="вход")

    assert ([each.title for each in page.sessions], page.total) == (["Вход 0"], 1)
    assert hidden.total == 0


@pytest.mark.feature(211)
async def test_every_transport_carries_the_same_log(world):
    async with world.person() as ann:
        answered, approval = await asked(ann)
        async with world.line("s1", "?after=0") as line:
            message = {"type": "hitl_decision", "call_id": approval.call_id, "decision": "reject"}
            await line.send(json.dumps(message))
            over_socket = []
            with anyio.fail_after(60):
                while not over_socket or over_socket[-1].get("content") != "Understood":
                    event = json.loads(await line.recv())
                    over_socket += [event] if "seq" in event else []
        last = (await ann.session("s1")).last_seq
        over_sse = []
        async for event in ann.follow("s1"):
            over_sse.append(event)
            if event["seq"] == last:
                break

    assert over_socket == over_sse[: len(over_socket)]
    assert [event["seq"] for event in over_sse] == list(range(1, last + 1))
    assert [e for e in answered if "seq" in e] == over_sse[: len(kinds(answered))]


async def test_one_key_is_one_message_on_the_real_log_too(world):
    async with world.person() as ann:
        body = {"session_id": "s1", "message": {"type": "user_message", "content": "hi"}}
        headers = {"Idempotency-Key": "k"}
        first, second = [
            await ann._http.post("/agent/message/stream", json=body, headers=headers)
            for _ in range(2)
        ]
        history = await ann.history("s1")

    assert "Привет!" in first.text
    assert "Привет!" in second.text
    assert [message.role for message in history.messages] == ["user", "assistant"]


async def test_revoking_the_token_ends_what_it_opened(world):
    async with world.person() as ann, world.person("root", Role.ADMIN) as root:
        await say(ann, "s1")
        async with world.line("s1") as line:
            token = next(t for t in await root.tokens() if t.name == "ann")
            await root.revoke_token(token.token_id)
            with anyio.fail_after(60):
                await line.wait_closed()
        assert line.close_code == 1008


async def test_what_there_is_can_be_asked(world):
    async with world.person() as ann:
        assert {"coder", "architect"} <= {agent.name for agent in await ann.agents()}
        assert "write_file" in {tool.name for tool in await ann.tools()}
        assert await ann.models()
        assert await ann.grants() == []
        metrics = await ann._http.get("/metrics")

    assert "plan_executions_total" in metrics.text


@pytest.mark.feature(91, 218)
async def test_checkpoints_and_a_rollback_over_the_wire(world, tmp_path):
    async with world.person() as ann, world.person("bob") as bob:
        await say(ann, "s1", agent_type="architect")
        [plan] = (await ann.plans()).plans
        decision = {"type": "plan_decision", "plan_id": plan.plan_id, "decision": "approve"}
        await everything(ann.send("s1", decision))

        page = await ann.checkpoints(plan.plan_id)
        state = await ann.checkpoint(page.checkpoints[0].checkpoint_id)
        diff = await ann.checkpoint_diff(state.checkpoint_id)
        dry = await ann.rollback(plan.plan_id, subtask_id="one", dry_run=True)
        assert (tmp_path / "work/a").read_text() == "1"
        changed = await ann.plan_changes(plan.plan_id, subtask_id="one", path="a")
        of_all = await ann.session_changes("s1", limit=1, offset=0)
        done = await ann.rollback(plan.plan_id, subtask_id="one")

        assert (page.total, state.verified) == (2, True)
        assert [(f.path, f.status) for f in diff.files] == [("a", "added")]
        assert [(f.path, f.action) for f in dry.files] == [("a", "delete")]
        assert done.files == dry.files
        assert [(f.path, f.status, f.subtasks) for f in changed.files] == [("a", "added", ["one"])]
        assert of_all.files == changed.files
        assert not (tmp_path / "work/a").exists()
        for asked in (
            bob.checkpoints(plan.plan_id),
            bob.checkpoint(state.checkpoint_id),
            bob.checkpoint_diff(state.checkpoint_id),
            bob.rollback(plan.plan_id),
            bob.plan_changes(plan.plan_id),
            bob.session_changes("s1"),
            ann.plan_changes(plan.plan_id, subtask_id="none"),
            ann.rollback(plan.plan_id, checkpoint_id="checkpoint_none"),
        ):
            with pytest.raises(NotFound):
                await asked


async def test_a_plan_is_edited_by_sending_back_what_was_shown_of_it(world):
    async with world.person() as ann:
        await say(ann, "s1", agent_type="architect")
        [listed] = (await ann.plans()).plans
        path = f"/api/v1/plans/{listed.plan_id}"
        shown = (await ann._http.get(path)).json()
        subtasks = shown["subtasks"]
        assert (await ann.check_plan(listed.plan_id, subtasks)).ok
        subtasks[1]["description"] = "Another second"
        body = {"decision": "edit", "revision": 1, "modified_subtasks": subtasks}
        edited = await ann._http.post(f"{path}/decision", json=body)

        assert edited.status_code == 202, edited.text
        assert edited.json()["revision"] == 2
        diff = await ann.plan_diff(listed.plan_id, 1, 2)
        assert [(c["id"], set(c["fields"])) for c in diff.changed] == [("two", {"description"})]
        subtasks[0]["power"] = 9
        refused = await ann._http.post(f"{path}/check", json={"modified_subtasks": subtasks})
        assert "power" in refused.json()["problem"]


async def test_whoever_cancels_says_why_if_they_want_to(world):
    async with world.person() as ann:
        await say(ann, "s1", agent_type="architect")
        [plan] = (await ann.plans()).plans
        decision = {"type": "plan_decision", "plan_id": plan.plan_id, "decision": "hold"}
        await everything(ann.send("s1", decision))
        await ann.cancel_subtask(plan.plan_id, "two", reason="Not needed")
        cancelled = await ann.cancel_plan(plan.plan_id, reason="Not this way")
        log = (await ann._http.get("/api/v1/sessions/s1/log")).json()["events"]
        [told] = [e for e in log if e["type"] == "plan_cancelled"]
        entries = await ann.audit(session_id="s1")

        said = {s.id: s.reason for s in cancelled.subtasks}
        assert said["two"].endswith(": Not needed")
        assert said["one"].endswith(": Not this way")
        assert told["metadata"]["reason"] == "Not this way"
        [entry] = [e for e in entries if e.action == "plan.cancelled"]
        assert entry.details["reason"] == "Not this way"
        odd = await ann._http.post(f"/api/v1/plans/{plan.plan_id}/cancel", json={"reason": ""})
        assert odd.status_code == 422


async def test_a_session_has_rules_of_its_own_that_its_owner_makes_and_removes(world):
    async with world.person() as ann, world.person("bob") as bob:
        _, waiting = await asked(ann)
        made = await ann.add_session_rule("s1", {"decision": "allow", "command": "ls"})
        with pytest.raises(InvalidMessage, match="can run any code"):
            await ann.add_session_rule("s1", {"decision": "allow", "command": "bash"})
        with pytest.raises(NotFound):
            await bob.add_session_rule("s1", {"decision": "allow", "command": "ls"})
        with pytest.raises(InvalidMessage, match="for_session"):
            await ann.decide(waiting.approval_id, "reject", for_session=True)
        await ann.decide(waiting.approval_id, "approve", for_session=True)
        listed = await ann.session_rules("s1")
        await ann.remove_session_rule("s1", made.rule_id)
        left = await ann.session_rules("s1")

    assert [rule.name for rule in listed] == ["session:1", "session:2"]
    assert listed[1].rule["command"] == "touch made.txt"
    assert [rule.name for rule in left] == ["session:2"]


async def test_a_plan_is_not_approved_for_a_session(world):
    async with world.person() as ann:
        await say(ann, "s1", agent_type="architect")
        pending = await ann.pending_approvals("s1")
        with pytest.raises(InvalidMessage, match="for_session"):
            await ann.decide(pending.pending_approvals[0].approval_id, "approve", for_session=True)
