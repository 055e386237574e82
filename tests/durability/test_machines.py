"""Several servers and workers on one PostgreSQL: a worker that dies or stops harms nothing."""

import json
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from durability import story
from durability.ground import Ground
from durability.machines import (
    HELD,
    LIMIT,
    OWNER,
    Follower,
    asked,
    begin_held,
    first_question,
    line,
    owner_of,
    say,
    server,
    until,
    worker,
)
from durability.person import Person
from durability.server import Server, processes_in
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI
from fakes.postgres import Server as Postgres
from fakes.rows import begin
from gonogo.cli.checks import cluster_findings
from gonogo.client import Client
from gonogo.domain.errors import GonogoError, NotFound
from gonogo.domain.events import AssistantMessage
from gonogo.store import Membership, Outbox, Store
from gonogo.store import events as log
from gonogo.store.hints import Hint

_SEQS = "SELECT array_agg(seq ORDER BY seq) FROM events WHERE session_id = %s"


@pytest.fixture
def ground(
    tmp_path: Path,
    model_server: FakeOpenAI,
    born: Nursery,
    postgres: Postgres,
    _postgres_template: str,
) -> Iterator[Ground]:
    model_server.script(story.rules())
    found = Ground(tmp_path, model_server, born)
    name = postgres.lend(_postgres_template)
    found.environment["GONOGO_DB"] = postgres.url(name)
    yield found
    found.close()
    postgres.take_back(name)


@pytest.mark.feature(235)
async def test_the_work_of_a_killed_worker_goes_on_elsewhere_and_every_follower_sees_it_all(
    ground: Ground,
) -> None:
    fronts, workers = [server(ground), server(ground)], [worker(ground), worker(ground)]
    followers = [Follower(), Follower()]
    killed: list[int] = []

    def watch(body: dict[str, Any]) -> None:
        if body["type"] == "subtask_started" and not killed:
            owner = owner_of(ground, workers)
            owner.kill()
            killed.append(owner.pid)

    async with (
        line(fronts[0]) as (first, wire), line(fronts[1]) as (second, _),
        anyio.create_task_group() as group,
    ):  # fmt: skip
        person = Person(wire, ground.told, ground.workspace)
        async with anyio.create_task_group() as telling:
            telling.start_soon(person.see_through, watch)
            await until(lambda: ground.told.events)
            for follower, client in zip(followers, (first, second), strict=True):
                group.start_soon(follower.follow, client)
        seqs = asked(ground, _SEQS, story.SESSION)
        await until(lambda: all(follower.seqs == seqs for follower in followers))
        group.cancel_scope.cancel()

    assert followers[1].has("owner_changed")
    assert seqs == list(range(1, len(seqs) + 1))
    assert followers[0].events == followers[1].events
    assert ground.problems() == []


@pytest.mark.feature(235)
def test_a_worker_says_that_it_works_once_it_is_one_of_those_who_do(ground: Ground) -> None:
    server(ground)
    found = worker(ground)
    assert asked(ground, "SELECT count(*) FROM nodes WHERE pid = %s", found.pid) == 1
    waits, works = found.said.splitlines()[:2]
    assert waits.startswith("Waiting for the database")
    assert works.startswith("Working in the workspaces of the pool default (process")


@pytest.mark.feature(235)
async def test_a_worker_that_was_stopped_past_its_lease_has_no_effect_when_it_goes_on(
    ground: Ground,
) -> None:
    front, first = server(ground), worker(ground)
    async with line(front) as (client, wire), front.http() as http:
        await begin_held(ground, client, http)
        fence = asked(ground, "SELECT max(fence) FROM places WHERE id <> 'common'")
        first.process.send_signal(signal.SIGSTOP)
        await until(lambda: not [p for p in processes_in(ground.workspace) if HELD in p])
        second = worker(ground)
        await until(lambda: asked(ground, OWNER) == second.pid)
        (ground.workspace / "go").touch()
        first.process.send_signal(signal.SIGCONT)
        question = await first_question(client)
        assert question.kind == "intervention"
        before = asked(ground, _SEQS, story.SESSION)
        await until(lambda: "lost its lease" in first.log.read_text())
        # It is another node from then on, which has written nothing in the meantime.
        await until(lambda: asked(ground, "SELECT count(*) FROM nodes WHERE kind = 'worker'") == 2)
        assert asked(ground, _SEQS, story.SESSION) == before
        decision = {"decision": "edit", "modified_arguments": {"result": {"seen": "cut off"}}}
        await wire.decide(question.approval_id, decision)
        follower = Follower()
        async with anyio.create_task_group() as group:
            group.start_soon(follower.follow, client)
            await until(lambda: any(e.get("content") == "It is over." for e in follower.events))
            group.cancel_scope.cancel()

    assert [entry["phase"] for entry in story.ledger(ground.workspace)] == ["start"]
    assert asked(ground, "SELECT max(fence) FROM places WHERE id <> 'common'") > fence
    assert follower.seqs == list(range(1, len(follower.seqs) + 1))


@pytest.mark.feature(237)
async def test_a_cancel_on_any_server_reaches_the_worker(ground: Ground) -> None:
    fronts = [server(ground), server(ground)]
    worker(ground)
    async with line(fronts[0]) as (client, _), fronts[0].http() as http, fronts[1].http() as other:
        await begin_held(ground, client, http)
        await say(other, {"type": "cancel"})
        await until(lambda: not [p for p in processes_in(ground.workspace) if HELD in p])
    assert [entry["phase"] for entry in story.ledger(ground.workspace)] == ["start"]


@pytest.mark.feature(236)
@pytest.mark.parametrize("kind", ["postgresql"])
async def test_of_what_one_process_tells_another_hears_without_looking_for_it(
    database_url: str, kind: str
) -> None:
    """How long that takes is measured by `bench/machines.py`."""
    member = Membership(kind="server", pool="default", home="here")
    listening, heard = anyio.Event(), anyio.Event()

    def hear(hint: Hint | None) -> None:
        if hint is None:
            listening.set()
        elif "s1" in hint.sessions:
            heard.set()

    with (
        closing(Store(database_url, drives=True, shared_as=member)) as teller,
        closing(Store(database_url, drives=True, shared_as=member)) as reader,
    ):
        assert reader.hints is not None
        teller.deliver = lambda box: say_hint(teller, box)
        reader.hints.listen(hear)
        await teller.write(begin, "s1")
        with anyio.fail_after(LIMIT):
            await listening.wait()
            for seq in range(20):
                heard = anyio.Event()
                await teller.write(log.tell, "s1", AssistantMessage(content=str(seq)))
                await heard.wait()
                found = await reader.read(log.events_after, "s1", seq)
                assert [event["seq"] for event in found] == [seq + 1]


def say_hint(store: Store, box: Outbox) -> None:
    assert store.hints is not None
    store.hints.say({event["session_id"] for event in box.events}, box.wanted)


@pytest.mark.feature(236)
async def test_followers_on_two_servers_are_told_the_same_once_and_in_order(ground: Ground) -> None:
    fronts = [server(ground), server(ground)]
    worker(ground)
    followers = [Follower(), Follower()]
    async with (
        line(fronts[0]) as (first, wire), line(fronts[1]) as (second, _),
        anyio.create_task_group() as group,
    ):  # fmt: skip
        person = Person(wire, ground.told, ground.workspace)
        async with anyio.create_task_group() as telling:
            telling.start_soon(person.see_through)
            await until(lambda: ground.told.events)
            for follower, client in zip(followers, (first, second), strict=True):
                group.start_soon(follower.follow, client)
        seqs = asked(ground, _SEQS, story.SESSION)
        await until(lambda: all(follower.seqs == seqs for follower in followers))
        group.cancel_scope.cancel()
    assert seqs == list(range(1, len(seqs) + 1))
    assert followers[0].events == followers[1].events
    assert ground.problems() == []


@pytest.mark.feature(237)
async def test_a_token_revoked_and_a_session_deleted_on_one_server_end_streams_of_another(
    ground: Ground,
) -> None:
    fronts = [server(ground), server(ground)]
    worker(ground)
    async with line(fronts[0]) as (client, _), fronts[0].http() as http:
        for session in ("revoked", "deleted"):
            (await http.post("/sessions", json={"session_id": session})).raise_for_status()
        made = await client.create_token(name="guest", role="admin")
        ended = set[str]()

        async def follow(session: str, token: str) -> None:
            async with Client(fronts[1].url, token=token, patience=0) as other:
                with suppress(GonogoError):
                    async for _ in other.follow(session, 0):
                        pass
            ended.add(session)

        async with anyio.create_task_group() as group:
            group.start_soon(follow, "revoked", made.token)
            group.start_soon(follow, "deleted", fronts[1].token)
            await anyio.sleep(1)
            await client.revoke_token(made.view.token_id)
            await client.delete_session("deleted")
            await until(lambda: ended == {"revoked", "deleted"})


@pytest.mark.feature(237)
async def test_files_are_put_back_and_kept_by_the_worker_whichever_server_is_asked(
    ground: Ground,
) -> None:
    fronts = [server(ground), server(ground)]
    first = worker(ground)
    async with line(fronts[0]) as (client, wire), line(fronts[1]) as (other, _):
        await Person(wire, ground.told, ground.workspace).see_through()
        plan = (await client.plans(session_id=story.SESSION)).plans[0].plan_id
        made = await other.create_checkpoint(plan_id=plan, note="before all is undone")
        undone = await client.rollback(plan, whole=True)
        with pytest.raises(NotFound, match="nobody"):
            await other.rollback(plan, subtask_id="nobody")
        first.kill()
        second = worker(ground)
        again = await other.rollback(plan, checkpoint_id=undone.checkpoint_id)
        assert asked(ground, OWNER) == second.pid
    assert "before all is undone" in made.reason
    assert undone.restored
    assert not undone.dry_run
    assert again.restored == undone.restored
    assert story.contents(ground.workspace) == story.AFTERWARDS
    assert asked(ground, "SELECT count(*) FROM asks") == 0


@pytest.mark.feature(236)
async def test_a_link_of_one_server_opens_the_console_of_another_once(ground: Ground) -> None:
    fronts = [server(ground), server(ground)]
    code = fronts[0].link.partition("#code=")[2]
    async with httpx.AsyncClient(base_url=f"{fronts[1].url}/api/v1") as http:
        origin = {"Origin": fronts[1].url}
        answers = [
            (await http.post("/auth/session", json={"code": code}, headers=origin)).status_code
            for _ in range(2)
        ]
    assert answers == [204, 401]


async def test_a_worker_with_other_rules_gets_no_place_and_says_so(ground: Ground) -> None:
    front = server(ground)
    usual = ground.folder / "config" / "rules.toml"
    usual.parent.mkdir(exist_ok=True)
    usual.write_text('[[rule]]\ntool = "write_file"\ndecision = "deny"\n')
    odd = worker(ground)
    async with line(front) as (client, _), front.http() as http:
        await say(http, {"type": "user_message", "content": "Hello", "agent_type": "coder"})
        await until(lambda: "other rules than the server" in odd.log.read_text())
        assert [node.status for node in (await client.nodes()).nodes] == ["alive", "other_rules"]
        assert [place.status for place in (await client.places()).places] == ["waiting"]
        told = (await http.get(f"{front.url}/metrics")).text
        assert 'gonogo_processes{kind="worker",status="other_rules"} 1.0' in told
        assert 'gonogo_workspaces{status="waiting"} 1.0' in told
        bad = {each.name for each in cluster_findings(
            (await client.nodes()).nodes, (await client.places()).places
        ) if each.state == "bad"}  # fmt: skip
        assert bad == {"rules", "workspaces"}
        usual.unlink()
        right = worker(ground)
        await until(lambda: asked(ground, OWNER) == right.pid)


@pytest.mark.feature(235)
async def test_a_place_that_is_released_by_hand_goes_to_another_worker_and_its_work_goes_on(
    ground: Ground,
) -> None:
    front, workers = server(ground), [worker(ground), worker(ground)]
    async with line(front) as (client, wire):
        person = Person(wire, ground.told, ground.workspace)
        released: list[int] = []

        async def release() -> None:
            await until(lambda: ground.told.has("subtask_started"))
            [place] = (await client.places()).places
            assert (await client.release_place(place.place_id)).released
            released.append(place.fence)

        async with anyio.create_task_group() as group:
            group.start_soon(release)
            await person.see_through()
        [place] = (await client.places()).places
        with pytest.raises(NotFound):
            await client.release_place("nowhere")
    assert place.fence > released[0]
    assert place.pid in [each.pid for each in workers]
    assert ground.problems() == []


_OWNED_SINCE = "SELECT 1 FROM places WHERE id <> 'common' AND owner IS NOT NULL AND fence > %s"


@pytest.mark.feature(237)
async def test_who_has_a_workspace_and_who_had_it_is_shown_for_a_session_in_it(
    ground: Ground,
) -> None:
    front, workers = server(ground), [worker(ground), worker(ground)]
    async with line(front) as (client, _), front.http() as http:
        await say(http, {"type": "user_message", "content": "Hello", "agent_type": "coder"})
        await until(lambda: asked(ground, OWNER))
        first = await client.place(story.SESSION)
        assert (await client.release_place(first.place_id)).released
        # By the same worker perhaps, but anew.
        await until(lambda: asked(ground, _OWNED_SINCE, first.fence))
        shown = await client.place(first.place_id)
        with pytest.raises(NotFound, match="nowhere"):
            await client.place("nowhere")
    assert first.workspace == shown.workspace == str(ground.workspace)
    assert {first.pid, shown.pid} <= {each.pid for each in workers}
    assert [each.node_id for each in shown.owners] == [shown.node_id, first.node_id]
    assert [each.fence for each in shown.owners] == [first.fence + 1, first.fence]
    assert [each.pid for each in shown.owners] == [shown.pid, first.pid]
    assert (shown.status, shown.since, shown.handed) == ("owned", shown.owners[0].since, 0)
    assert first.since is not None
    assert shown.since is not None
    assert shown.until is not None
    assert first.since < shown.since < shown.until

    told = ground.server("place", "show", story.SESSION).wait(re.compile(r"status\t.*\n.*\n"))
    assert f"\t{shown.fence}\t" in told.url
    where = ground.server("place", "show", "/nowhere", "--json")
    await until(lambda: not where.is_alive)
    assert "has the path /nowhere; gonogo place list shows all paths" in where.log.read_text()


@pytest.mark.feature(237)
async def test_a_worker_tells_its_numbers_to_who_has_a_token_on_a_port_of_its_own(
    ground: Ground,
) -> None:
    front, one = server(ground), ground.server("worker", "--metrics-port", "0")
    numbers = one.wait(re.compile(r"http://127\.0\.0\.1:\d+")).url
    async with line(front) as (_, wire), front.http() as http:
        await Person(wire, ground.told, ground.workspace).see_through()
        told = (await http.get(f"{numbers}/metrics")).text
        assert 'plan_executions_total{status="completed"} 1.0' in told
        assert (
            'plan_executions_total{status="completed"} 0.0'
            in (await http.get(f"{front.url}/metrics")).text
        )
        assert (await http.get(f"{numbers}/ready")).json() == {"status": "ready"}
        assert (await http.get(f"{numbers}/api/v1/sessions")).status_code == 404
    async with httpx.AsyncClient() as stranger:
        assert (await stranger.get(f"{numbers}/metrics")).status_code == 401
        assert (await stranger.get(f"{numbers}/health")).status_code == 200
    one.process.send_signal(signal.SIGTERM)
    await until(lambda: not one.is_alive)
    assert "Traceback" not in one.log.read_text()


WRITTEN = [f"Sentence {number}. " for number in range(24)]
HALF = WRITTEN[len(WRITTEN) // 2]


def shown(bodies: list[dict[str, Any]]) -> str:
    return "".join(body.get("token", "") for body in bodies)


async def read_text(client: Client, session: str, bodies: list[dict[str, Any]]) -> None:
    async for body in client.follow(session, 0):
        bodies.append(body)  # noqa: PERF401 - it grows while it is read


async def read_on(
    http: httpx.AsyncClient, known: list[dict[str, Any]], bodies: list[dict[str, Any]]
) -> None:
    """Read a stream as who lost it before its last event."""
    last = max(body.get("seq", 0) for body in known)
    headers = {"Last-Event-ID": str(last - 1)}
    url = f"/sessions/{story.SESSION}/events"
    async with http.stream("GET", url, headers=headers, timeout=LIMIT) as answer:
        async for read in answer.aiter_lines():
            if read.startswith("data: "):
                bodies += [json.loads(read.removeprefix("data: "))]


@pytest.mark.feature(236)
async def test_a_text_is_shown_while_it_is_written_on_every_server_also_to_who_comes_later(
    ground: Ground,
) -> None:
    reply = {"text": WRITTEN, "pause": 0.05, "held_at": 18}
    ground.model.script({"rules": [{"when": {"user": "Tell me"}, "replies": [reply]}]})
    fronts = [server(ground), server(ground)]
    worker(ground)
    early, late, back, other = (list[dict[str, Any]]() for _ in range(4))
    async with (
        line(fronts[0]) as (first, _), line(fronts[1]) as (second, _), fronts[1].http() as http,
        anyio.create_task_group() as group,
    ):  # fmt: skip
        for session in (story.SESSION, "other"):
            (await http.post("/sessions", json={"session_id": session})).raise_for_status()
        group.start_soon(read_text, first, story.SESSION, early)
        group.start_soon(read_text, second, "other", other)
        message = {"type": "user_message", "content": "Tell me", "agent_type": "coder"}
        group.start_soon(say, http, message)
        await until(lambda: HALF in shown(early))
        group.start_soon(read_text, second, story.SESSION, late)
        await until(lambda: HALF in shown(late))
        group.start_soon(read_on, http, late, back)
        await until(lambda: bool(back))
        ground.model.go()
        everybody = (early, late, back)
        await until(lambda: all(each and each[-1].get("is_final") for each in everybody))
        group.cancel_scope.cancel()

    # Who comes back is told the rest, and not what was written before.
    assert HALF not in shown(back)
    assert shown(back) in back[-1]["content"] == "".join(WRITTEN)
    for bodies in (early, late):
        texts = [body for body in bodies if body["type"] == "assistant_message"]
        assert texts[-1]["content"] == "".join(WRITTEN)
        assert all("token" in body for body in texts[:-1])
        assert "".join(WRITTEN).startswith(shown(texts))
        assert HALF in shown(texts)
        assert texts[0]["turn_id"] == texts[-1]["turn_id"]
    assert shown(other) == ""


@asynccontextmanager
async def host_of(front: Server) -> AsyncIterator[ClientConnection]:
    """A connection that offers to run the session's tools, and is told all from its beginning."""
    url = front.url.replace("http", "ws", 1)
    headers = {"Authorization": f"Bearer {front.token}"}
    async with connect(
        f"{url}/ws/{story.SESSION}?tool_host=1&after=0", additional_headers=headers
    ) as socket:
        yield socket


async def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    with anyio.fail_after(LIMIT):
        while True:
            event = json.loads(await socket.recv())
            if event["type"] == kind and "token" not in event:
                return event


async def take_over(front: Server) -> ClientConnection:
    """Offer to run the tools until no other connection does."""
    headers = {"Authorization": f"Bearer {front.token}"}
    url = f"{front.url.replace('http', 'ws', 1)}/ws/{story.SESSION}?tool_host=1&after=0"
    with anyio.fail_after(LIMIT):
        while True:
            socket = await connect(url, additional_headers=headers)
            if json.loads(await socket.recv())["type"] != "error":
                return socket
            await socket.close()
            await anyio.sleep(0.2)


@pytest.mark.feature(237)
async def test_a_client_of_one_server_runs_the_tools_and_its_answer_outlives_worker_and_server(
    ground: Ground,
) -> None:
    read = {"calls": [{"name": "read_file", "arguments": {"path": "theirs.txt"}}]}
    ground.model.script({
        "rules": [{"when": {"user": "Read it"}, "replies": [read, {"text": "It is read."}]}]
    })  # fmt: skip
    fronts, first = [server(ground), server(ground)], worker(ground)
    async with fronts[1].http() as http:
        opening = {"session_id": story.SESSION, "tool_host": "client"}
        (await http.post("/sessions", json=opening)).raise_for_status()
        async with host_of(fronts[0]) as host, anyio.create_task_group() as group:
            message = {"type": "user_message", "content": "Read it", "agent_type": "coder"}
            group.start_soon(say, http, message)
            called = await told(host, "tool_call")
            group.cancel_scope.cancel()
            async with host_of(fronts[1]) as other:
                assert (await told(other, "error"))["code"] == "conflict"
            first.kill()
            claimed = asked(ground, "SELECT until FROM tool_hosts")
            await until(lambda: asked(ground, "SELECT until FROM tool_hosts") > claimed)
            worker(ground)
            fronts[0].kill()
    socket, result = await take_over(fronts[1]), {"content": "what the client has"}
    answer = {"type": "tool_result", "call_id": called["call_id"], "result": result}
    await socket.send(json.dumps(answer))
    assert (await told(socket, "tool_result"))["result"] == result
    assert (await told(socket, "assistant_message"))["content"] == "It is read."
    await socket.close()
    await until(lambda: asked(ground, "SELECT count(*) FROM tool_hosts") == 0)
    assert asked(ground, "SELECT count(*) FROM tool_calls") == 1


@pytest.mark.feature(237)
async def test_commands_of_the_machine_go_on_by_another_server_when_theirs_is_killed(
    ground: Ground,
) -> None:
    fronts = [server(ground), server(ground)]
    socket = ground.home / "owner.sock"
    async with (
        Client(uds=socket, token=fronts[0].token, busy=LIMIT) as client,
        anyio.create_task_group() as group,
        fronts[1].http() as http,
    ):
        await http.post("/sessions", json={"session_id": story.SESSION})
        follower = Follower()
        group.start_soon(follower.follow, client)
        await client.sessions()
        fronts[0].kill()
        await say(http, {"type": "user_message", "content": story.FIRST})
        worker(ground)
        await until(lambda: follower.events)
        await client.sessions()
        group.cancel_scope.cancel()
    assert fronts[1].is_alive
