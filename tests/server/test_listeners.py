"""A process at work listens on a port as well, for as long as somebody of its user wants it to."""

import json
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
import httpx
import pytest

from fakes.door import LIMIT
from gonogo.domain.identity import Role
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.server import LISTENERS, NEW_LISTENER, serve
from gonogo.settings import Settings

PATH = "/api/v1/listeners"
pytestmark = pytest.mark.feature(240)


@pytest.fixture
async def at_work(tmp_path):
    """A runtime for no folder of its own, that serves a socket alone."""
    settings = Settings(home=tmp_path / "home", config=tmp_path / "config", workspace="/")
    listening, socket = anyio.Event(), tmp_path / "s"
    async with (
        Runtime.open(settings, model=ScriptedModel({})) as runtime,
        anyio.create_task_group() as group,
    ):
        served = partial(
            serve,
            port=None,
            uds=socket,
            on_ready=lambda _: listening.set(),
            more=[LISTENERS, NEW_LISTENER],
        )
        group.start_soon(served, runtime)
        with anyio.fail_after(LIMIT):
            await listening.wait()
            yield runtime, socket
        group.cancel_scope.cancel()


@asynccontextmanager
async def asking(at_work, role=Role.ADMIN, **more):
    """Somebody of this machine with a token; and that token."""
    runtime, socket = at_work
    _, token = await runtime.people.create_token(runtime.owner, "ann", role)
    way = more or {"transport": httpx.AsyncHTTPTransport(uds=str(socket))}
    base = {"base_url": "http://localhost", **way}
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, **base) as client:
        yield client


async def until_refused(client):
    with suppress(httpx.ConnectError):
        while True:
            await client.get("/health")


@asynccontextmanager
async def listening(client, **wanted):
    """Where the process listens now."""
    async with client.stream("POST", PATH, json={"port": 0, **wanted}) as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        yield json.loads(await anext(lines)), lines


async def test_a_port_is_there_for_as_long_as_the_answer_is_read(at_work):
    async with asking(at_work) as client:
        async with (
            listening(client) as (place, _),
            asking(at_work, base_url=place["url"]) as outside,
        ):
            assert (await outside.get("/health")).json() == {"status": "ok"}
            assert (await client.get(PATH)).json() == {"urls": [place["url"]]}
            assert place["login_url"].startswith(f"{place['url']}/#code=")
            async with asking(at_work, transport=httpx.AsyncHTTPTransport()) as stranger:
                stranger.headers.pop("Authorization")
                assert (await stranger.get(f"{place['url']}/api/v1/me")).status_code == 401
        async with asking(at_work, base_url=place["url"]) as outside:
            with anyio.fail_after(LIMIT):
                await until_refused(outside)
        with anyio.fail_after(LIMIT):
            while (await client.get(PATH)).json() != {"urls": []}:
                pass
        assert (await client.get("/health")).json() == {"status": "ok"}


async def test_a_port_that_is_gone_hears_nothing_of_revoked_tokens(at_work):
    heard = at_work[0].people._on_revoked
    async with asking(at_work) as client:
        async with listening(client):
            assert len(heard) == 2
        with anyio.fail_after(LIMIT):
            while len(heard) > 1:
                await client.get("/health")


async def test_who_comes_in_by_it_works_in_its_folder_and_in_no_other(at_work, tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    async with asking(at_work) as client:
        none = await client.post("/api/v1/sessions", json={})
        async with (
            listening(client, workspace=str(folder)) as (place, _),
            asking(at_work, base_url=place["url"]) as outside,
        ):
            opened = (await outside.post("/api/v1/sessions", json={})).json()
            other = await outside.post("/api/v1/sessions", json={"workspace": str(tmp_path)})
            known = (await outside.get("/api/v1/workspaces")).json()
        after = known
        with anyio.fail_after(LIMIT):
            while after["roots"]:
                after = (await client.get("/api/v1/workspaces")).json()

    assert none.json()["detail"] == "workspace: name the folder to work in"
    assert opened["workspace"] == str(folder)
    assert (other.status_code, other.json()["code"]) == (403, "forbidden")
    assert (known["default"], known["roots"]) == (str(folder), [str(folder)])
    assert (after.get("default"), after["roots"]) == (None, [])


async def test_only_an_administrator_at_the_socket_opens_a_port(at_work):
    async with asking(at_work, Role.OPERATOR) as client:
        operator = await client.post(PATH, json={"port": 0})
    async with (
        asking(at_work) as client,
        listening(client) as (place, _),
        asking(at_work, base_url=place["url"]) as outside,
    ):
        by_the_port = await outside.post(PATH, json={"port": 0})
    assert operator.status_code == 403
    assert by_the_port.status_code in {404, 405}


@pytest.mark.parametrize(
    ("wanted", "status", "said"),
    [
        ({"auth": False, "host": "0.0.0.0"}, 403, "must be a loopback address"),  # noqa: S104
        ({"workspace": "none"}, 422, "workspace: none is not a folder"),
        ({"workspace": "/none"}, 422, "workspace: /none is not a folder"),
        ({"port": "x"}, 422, "port"),
        ({"port": 70_000}, 422, "port"),
        ({"host": "no such host."}, 409, "Cannot listen on"),
        ({"more": 1}, 422, "more"),
    ],
)
async def test_what_cannot_be_listened_on_is_said_and_changes_nothing(
    at_work, wanted, status, said
):
    async with asking(at_work) as client:
        answer = await client.post(PATH, json={"port": 0, **wanted})
        assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text
        assert (await client.get("/api/v1/workspaces")).json()["roots"] == []


async def test_a_port_that_is_taken_is_said_and_the_other_one_stays(at_work):
    async with asking(at_work) as client, listening(client) as (place, _):
        port = int(place["url"].rpartition(":")[2])
        again = await client.post(PATH, json={"port": port})
        assert (again.status_code, again.json()["code"]) == (409, "conflict")
        assert f"Cannot listen on 127.0.0.1:{port}" in again.json()["detail"]
        async with asking(at_work, base_url=place["url"]) as outside:
            assert (await outside.get("/health")).status_code == 200


async def test_the_answer_ends_when_the_process_does(at_work):
    runtime, _ = at_work
    async with asking(at_work) as client, listening(client) as (_, lines):
        runtime.closing.set()
        with anyio.fail_after(LIMIT):
            assert [line async for line in lines] == []
