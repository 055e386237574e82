"""The door lets in whom it knows, and nobody whom a browser was tricked into sending."""

import socket
from functools import partial

import anyio
import httpx
import pytest

from gonogo.domain.errors import Busy, Conflict, Forbidden
from gonogo.server import Ready, auth, create_app, serve
from gonogo.server import app as serving
from gonogo.server.app import _ready, _shares
from gonogo.server.middleware import Guard, Names
from server.conftest import URL

SEND = "/api/v1/agent/message/stream"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - never bound
HELLO = {"session_id": "s_A", "message": {"type": "user_message", "content": "hi"}}


async def login(client: httpx.AsyncClient, app) -> httpx.Response:
    code = app.state.door.codes.new(app.state.door.runtime.tokens["token-a"])
    return await client.post("/api/v1/auth/session", json={"code": code})


def browser(runtime, **options) -> tuple[httpx.AsyncClient, object]:
    app = create_app(runtime)
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url=URL, **options), app


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer x.y.z", "Basic dG9rZW4tYQ==", "token-a"]
)
async def test_who_has_no_valid_token_gets_401(ask, header):
    async with ask(token=None) as client:
        answer = await client.post(SEND, json=HELLO, headers={"Authorization": header})

    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    found = answer.json()
    assert (found["code"], found["template"]) == ("unauthorized", found["detail"])


async def test_without_credentials_nothing_is_accepted(ask, runtime):
    async with ask(token=None) as client:
        assert (await client.post(SEND, json=HELLO)).status_code == 401
        for path in ["sessions", "metrics", "openapi.json", "schema/events.json", "agents"]:
            assert (await client.get(f"/api/v1/{path}")).status_code == 401

    assert runtime.accepted == []


async def test_a_token_in_the_query_is_not_looked_at(ask):
    async with ask(token=None) as client:
        answer = await client.post(f"{SEND}?token=token-a&access_token=token-a", json=HELLO)

    assert answer.status_code == 401


async def test_health_and_readiness_need_no_token(ask):
    async with ask(token=None) as client:
        for path in ["/health", "/ready", "/api/v1/health", "/api/v1/ready"]:
            assert (await client.get(path)).status_code == 200


async def test_the_front_page_needs_no_token_and_tells_nothing_of_the_sessions(ask):
    async with ask(token=None) as client:
        answer = await client.get("/")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert "s_A" not in answer.text


async def test_the_consoles_page_is_served_as_it_was_built_with_a_new_word_for_its_styles(
    ask, tmp_path, monkeypatch
):
    (tmp_path / "index.html").write_text("<title>Консоль</title><meta content='__NONCE__'>")
    monkeypatch.setattr(serving, "CONSOLE", tmp_path)
    serving._page.cache_clear()
    async with ask(token=None) as client:
        pages = [await client.get("/") for _ in range(2)]
    serving._page.cache_clear()

    nonces = []
    for page in pages:
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        begin, nonce, end = page.text.split("'")
        assert (begin, end) == ("<title>Консоль</title><meta content=", ">")
        assert f"style-src 'self' 'nonce-{nonce}';" in page.headers["content-security-policy"]
        nonces.append(nonce)
    assert nonces[0] != nonces[1]


async def test_where_the_console_was_not_built_the_page_says_how_to_build_it(
    ask, tmp_path, monkeypatch
):
    monkeypatch.setattr(serving, "CONSOLE", tmp_path)
    serving._page.cache_clear()
    async with ask(token=None) as client:
        page = await client.get("/")
    serving._page.cache_clear()

    assert page.status_code == 200
    assert "run <code>scripts/console</code>" in page.text


async def test_files_of_the_console_are_sent_small_to_those_who_can_read_that(
    ask, tmp_path, monkeypatch
):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "x.js").write_text("let x = 1;\n" * 100)
    monkeypatch.setattr(serving, "CONSOLE", tmp_path)
    serving._assets.cache_clear()
    async with ask(token=None) as client:
        packed = await client.get("/assets/x.js")
        plain = await client.get("/assets/x.js", headers={"Accept-Encoding": "identity"})
    serving._assets.cache_clear()

    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < 100 < int(plain.headers["content-length"])
    assert "javascript" in packed.headers["content-type"]
    assert packed.text == plain.text


async def test_a_server_that_closes_is_not_ready(ask, runtime):
    runtime.closing.set()
    async with ask(token=None) as client:
        answer = await client.get("/ready")

    assert (answer.status_code, answer.json()) == (503, {"status": "closing"})


async def test_a_server_whose_database_is_away_is_not_ready_and_is_there(ask, runtime):
    runtime.away = Busy(reason="connection to db.internal failed")
    async with ask(token=None) as client:
        away = await client.get("/ready")
        alive = await client.get("/health")

    assert (away.status_code, away.json()) == (503, {"status": "unavailable"})
    assert away.headers["retry-after"] == "2"
    assert alive.status_code == 200


async def test_who_needs_no_token_has_it_looked_for_no_more_than_once_a_second(
    ask, runtime, monkeypatch
):
    monkeypatch.setattr(auth, "_FRESH", 3600)
    statuses = []

    async def look(client):
        statuses.append((await client.get("/ready")).status_code)

    async with ask(token=None) as client, anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(look, client)

    assert (statuses, runtime.looks) == ([200] * 20, 1)


async def test_it_is_looked_for_again_after_a_while(ask, runtime, monkeypatch):
    monkeypatch.setattr(auth, "_FRESH", 0)
    async with ask(token=None) as client:
        assert (await client.get("/ready")).status_code == 200
        runtime.away = Busy()
        assert (await client.get("/ready")).status_code == 503
        runtime.away = None
        assert (await client.get("/ready")).status_code == 200


async def test_metrics_need_a_token_unless_they_are_public(ask, runtime):
    async with ask() as client:
        assert (await client.get("/metrics")).headers["content-type"].startswith("text/plain")
    runtime.settings.metrics_public = True
    async with ask(token=None) as client:
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.test", "null", "http://127.0.0.1:9", ""])
async def test_another_origin_is_refused_whatever_the_token(ask, runtime, origin):
    async with ask() as client:
        answer = await client.post(SEND, json=HELLO, headers={"Origin": origin})

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert runtime.accepted == []


async def test_the_own_origin_and_named_ones_may_ask(ask):
    async with ask(origins=["https://gonogo.example/"]) as client:
        for origin in [URL, "https://gonogo.example"]:
            answer = await client.post("/api/v1/sessions", json={}, headers={"Origin": origin})
            assert answer.status_code == 201


@pytest.mark.parametrize(
    ("type_", "scheme", "own", "other"),
    [
        ("http", "http", "http", "https"),
        ("http", "https", "https", "http"),
        ("websocket", "ws", "http", "https"),
        ("websocket", "wss", "https", "http"),
    ],
)
async def test_a_page_is_this_servers_own_by_its_scheme_its_host_and_its_port(
    type_, scheme, own, other
):
    let_in = []

    async def inside(scope, receive, send):
        let_in.append(dict(scope["headers"])[b"origin"].decode())

    async def unheard(message=None):
        return {"type": f"{type_}.disconnect"}

    pages = [
        f"{own}://LocalHost:8001", f"{own.upper()}://localhost:8001", f"{other}://localhost:8001",
        f"{own}://127.0.0.1:8001", f"{own}://localhost:8002", f"{own}://localhost",
        f"{scheme}x://localhost:8001", "localhost:8001", "null",
    ]  # fmt: skip
    guard = Guard(inside, Names.of("127.0.0.1", (), ()))
    for page in pages:
        headers = [(b"host", b"LOCALHOST:8001"), (b"origin", page.encode())]
        scope = {"type": type_, "scheme": scheme, "path": "/", "headers": headers}
        await guard({**scope, "extensions": {"websocket.http.response": {}}}, unheard, unheard)

    assert let_in == pages[:2]


@pytest.mark.parametrize(
    "host",
    ["evil.test", "evil.test:8001", "localhost.evil.test", "x@localhost", "", "[::1", "10.0.0.1"],
)
async def test_a_host_that_is_not_this_server_is_refused(ask, host):
    async with ask() as client:
        answer = await client.get("/api/v1/sessions", headers={"Host": host})

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8001", "127.0.0.1:1", "[::1]:8001", "box"]
)
async def test_the_names_of_this_server_are_known(ask, host):
    async with ask(hosts=["box"]) as client:
        answer = await client.get("/api/v1/sessions", headers={"Host": host})

    assert answer.status_code == 200


async def test_bound_to_every_interface_any_address_is_a_name_but_no_other_word(ask):
    async with ask(host=EVERYWHERE) as client:
        assert (await client.get("/health", headers={"Host": "10.1.2.3:8001"})).status_code == 200
        assert (await client.get("/health", headers={"Host": "evil.test"})).status_code == 403


async def test_a_login_code_opens_one_browser_session(runtime):
    client, app = browser(runtime, headers={"Origin": URL})
    async with client:
        code = app.state.door.codes.new(runtime.tokens["token-a"])
        first = await client.post("/api/v1/auth/session", json={"code": code})
        again = await client.post("/api/v1/auth/session", json={"code": code})
        listed = await client.get("/api/v1/sessions")

    assert (first.status_code, again.status_code) == (204, 401)
    cookie = first.headers["set-cookie"]
    assert cookie.startswith("gonogo_8001=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert listed.json()["total"] == 1


async def test_a_token_lets_a_browser_in_as_whose_it_is(runtime):
    client, _ = browser(runtime, headers={"Origin": URL})
    async with client:
        wrong = [
            (await client.post("/api/v1/auth/session", json=body)).status_code
            for body in ({"token": "token-x"}, {}, {"token": "token-b", "code": "x"})
        ]
        shown = await client.post("/api/v1/auth/session", json={"token": "token-b"})
        seen = [
            (await client.get(f"/api/v1/sessions/{name}")).status_code for name in ("s_A", "s_B")
        ]

    assert wrong == [401, 422, 422]
    assert "token-b" not in shown.headers["set-cookie"]
    assert seen == [404, 200]


@pytest.mark.parametrize(
    ("url", "origin", "secure"),
    [
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001", False),
        ("https://127.0.0.1:8001", "https://127.0.0.1:8001", True),
        ("http://127.0.0.1:8001", "https://gonogo.example", True),
    ],
    ids=["plain", "https", "https up to a proxy"],
)
async def test_the_cookie_is_for_this_server_alone_and_out_of_reach_of_scripts(
    runtime, url, origin, secure
):
    app = create_app(runtime, origins=["https://gonogo.example"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=url, headers={"Origin": origin}
    ) as client:
        given = await login(client, app)
        secret = given.headers["set-cookie"].partition("=")[2].partition(";")[0]
        shown = {"Cookie": f"gonogo_8001={secret}"}
        taken = await client.delete("/api/v1/auth/session", headers=shown)

    for answer in (given, taken):
        name, *flags = (part.strip().lower() for part in answer.headers["set-cookie"].split(";"))
        assert name.startswith("gonogo_8001=")
        assert {"httponly", "samesite=strict", "path=/"} <= set(flags)
        assert ("secure" in flags) is secure
        assert not any(flag.startswith("domain") for flag in flags)


async def test_logging_out_ends_the_browser_session(runtime):
    client, app = browser(runtime, headers={"Origin": URL})
    async with client:
        await login(client, app)
        cookies = dict(client.cookies)
        assert (await client.delete("/api/v1/auth/session")).status_code == 204
        answer = await client.get(
            "/api/v1/sessions", headers={"Cookie": f"gonogo_8001={cookies['gonogo_8001']}"}
        )

    assert answer.status_code == 401


async def test_a_cookie_alone_changes_nothing(runtime):
    client, app = browser(runtime)
    async with client:
        await login(client, app)
        sent = await client.post(SEND, json=HELLO)
        read = await client.get("/api/v1/sessions")
        elsewhere = await client.get("/api/v1/sessions", headers={"Sec-Fetch-Site": "same-site"})

    assert (sent.status_code, read.status_code, elsewhere.status_code) == (403, 200, 403)
    assert runtime.accepted == []


async def test_wrong_tokens_are_slowed_down_and_right_ones_are_not(ask):
    async with ask(token=None) as client:
        wrong = [
            (await client.get("/api/v1/sessions", headers={"Authorization": f"Bearer {n}"}))
            for n in range(30)
        ]
        right = await client.get("/api/v1/sessions", headers={"Authorization": "Bearer token-a"})

    assert [a.status_code for a in wrong[:20]] == [401] * 20
    assert {a.status_code for a in wrong[20:]} == {429}
    assert wrong[-1].headers["retry-after"] == "60"
    assert right.status_code == 200


async def test_guessed_login_codes_are_slowed_down(ask):
    async with ask(token=None) as client:
        answers = [
            (await client.post("/api/v1/auth/session", json={"code": str(n)})).status_code
            for n in range(25)
        ]

    assert answers == [401] * 20 + [429] * 5


async def test_without_authentication_everybody_is_the_owner(ask):
    async with ask(token=None, auth=False) as client:
        assert (await client.get("/api/v1/sessions/s_B")).status_code == 200
        foreign = await client.get("/api/v1/sessions", headers={"Origin": "https://evil.test"})
        assert foreign.status_code == 403


async def test_without_authentication_only_loopback_is_served(runtime):
    with pytest.raises(Forbidden) as refused:
        await serve(runtime, host=EVERYWHERE, port=0, auth=False)
    assert str(refused.value) == (
        "Without authentication the host must be a loopback address, such as 127.0.0.1, not 0.0.0.0"
    )


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", 8001, "http://127.0.0.1:8001"), (EVERYWHERE, 1, "http://127.0.0.1:1"),
        ("", 1, "http://127.0.0.1:1"), ("::", 1, "http://127.0.0.1:1"),
        ("::1", 1, "http://[::1]:1"), ("box", 1, "http://box:1"), ("box", None, "http://localhost"),
    ],
)  # fmt: skip
def test_a_server_says_at_which_address_it_is_opened(host, port, url, tmp_path):
    assert _ready(host, port, tmp_path, "c") == Ready(
        host=host, port=port, uds=tmp_path, url=url, login_url=f"{url}/#code=c"
    )


@pytest.mark.parametrize(("most", "shares"), [(80, [70, 10]), (16, [12, 4]), (6, [4, 4])])
def test_this_machines_users_have_an_eighth_of_the_connections(most, shares, monkeypatch):
    monkeypatch.setattr("gonogo.server.app.room_for_connections", lambda: most)
    with socket.socket() as network, socket.socket(socket.AF_UNIX) as own:
        assert [share for _, share in _shares([network, own])] == shares
        assert [share for _, share in _shares([network])] == [most]
        assert [share for _, share in _shares([own])] == [most]


async def test_an_answer_says_when_it_was_given_and_not_by_what(served, caplog):
    caplog.set_level("INFO")
    async with served() as client:
        answer = await client.get("/health", headers={"X-Forwarded-For": "10.1.2.3"})

    assert "date" in answer.headers
    assert "server" not in answer.headers
    assert [record for record in caplog.records if record.name == "uvicorn.access"] == []


async def test_whoever_asks_is_told_who_they_are(ask):
    async with ask() as client:
        me = await client.get("/api/v1/me")
    async with ask(token=None) as stranger:
        unknown = await stranger.get("/api/v1/me")

    assert me.json() == {"id": "a", "name": "Ann", "role": "operator"}
    assert unknown.status_code == 401


async def test_only_an_admin_makes_tokens_and_the_secret_is_shown_once(ask):
    body = {"name": "ci", "role": "viewer"}
    async with ask() as client:
        assert (await client.post("/api/v1/tokens", json=body)).status_code == 403
    async with ask(token="token-root") as client:
        made = await client.post("/api/v1/tokens", json=body)

    assert made.status_code == 201
    assert made.json()["token"] == "made"
    assert made.json()["view"]["role"] == "viewer"


async def test_the_socket_of_this_machine_asks_for_a_token_too(served, tmp_path):
    path = tmp_path / "s.sock"
    async with served(uds=path):
        assert path.stat().st_mode & 0o777 == 0o600
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://gonogo") as client:
            stranger = await client.get("/api/v1/sessions")
            known = await client.get(
                "/api/v1/sessions", headers={"Authorization": "Bearer token-a"}
            )

    assert (stranger.status_code, known.status_code) == (401, 200)


async def test_a_server_may_listen_on_no_port_at_all(runtime, tmp_path):
    path = tmp_path / "s"
    async with anyio.create_task_group() as group:
        listening = anyio.Event()
        found = []

        def ready(where: Ready) -> None:
            found.append(where)
            listening.set()

        group.start_soon(partial(serve, runtime, port=None, uds=path, on_ready=ready))
        with anyio.fail_after(60):
            await listening.wait()
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://any.name"
        ) as client:
            assert (await client.get("/health")).status_code == 200
        runtime.closing.set()

    assert found[0].port is None


async def test_a_port_that_is_taken_is_said(served, runtime):
    async with served() as client:
        with pytest.raises(Conflict) as refused:
            await serve(runtime, port=client.ready.port)
    said = f"Cannot listen on 127.0.0.1:{client.ready.port}: Address already in use"
    assert str(refused.value).startswith(said)


async def test_a_server_that_is_cancelled_ends_its_connections_too(runtime):
    async with anyio.create_task_group() as group:
        listening = anyio.Event()
        where = []

        def ready(found: Ready) -> None:
            where.append(found)
            listening.set()

        group.start_soon(partial(serve, runtime, port=0, on_ready=ready))
        await listening.wait()
        async with await anyio.connect_tcp("127.0.0.1", where[0].port) as line:
            group.cancel_scope.cancel()
            with anyio.fail_after(60, shield=True), pytest.raises(anyio.EndOfStream):
                await line.receive()

    assert runtime.closing.is_set()
