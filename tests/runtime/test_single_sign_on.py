"""A provider's signed token counts when everything about it holds, and in no other case."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import BrokenResourceError
from anyio.abc import SocketAttribute, SocketStream
from joserfc.jwk import OctKey
from msgspec.structs import replace
from pydantic import ValidationError
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fakes.issuer import Provider, encoded, key_pair, maced, provider, signed
from fakes.world import LIMIT, World, calls, says, world_of, write
from gonogo.cli.checks import findings
from gonogo.domain.errors import (
    Forbidden,
    IdentityUnknown,
    NoRole,
    NotFound,
    NotValid,
    Unauthorized,
)
from gonogo.domain.identity import Memory, Role, Sight, principal_id, read_head
from gonogo.domain.reviews import LinkState
from gonogo.domain.states import DecisionWord
from gonogo.runtime import oidc
from gonogo.server import Ready, create_app, serve
from gonogo.settings import Settings

LINES = {"main/orchestrator": [says("Hello")] * 9}
SESSIONS = "/api/v1/sessions"


@pytest.fixture
def idp():
    with provider() as found:
        yield found


@asynccontextmanager
async def opened(tmp_path: Path, idp: Provider, **set_) -> AsyncIterator[World]:
    async with world_of(tmp_path, LINES, **(idp.settings | set_)) as world:
        yield world


def client(world: World, token: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(world.runtime))
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


def time_passes(world: World, **span: float) -> None:
    """Age what is known of the provider; the clock is not set."""
    issuer = world.runtime.parts.bearers.issuer
    before, ahead = issuer._seconds, timedelta(**span).total_seconds()
    issuer._seconds = lambda: before() + ahead


async def status_of(world: World, token: str) -> int:
    async with client(world, token) as http:
        return (await http.get(SESSIONS)).status_code


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [("RSA", "RS256"), ("RSA", "RS512"), ("RSA", "PS256"), ("P-256", "ES256"),
     ("P-384", "ES384"), ("Ed25519", "EdDSA"), ("Ed25519", "Ed25519")],
)  # fmt: skip
async def test_a_token_that_the_provider_signed_names_a_person(tmp_path, idp, kind, algorithm):
    idp.publish("one", kind=kind)
    async with opened(tmp_path, idp) as world:
        who = await world.runtime.people.authenticate(idp.token(kind=kind, algorithm=algorithm))

    of = principal_id(idp.url, "0815")
    assert (who.id, who.name, who.role) == (of, f"Ann ({of[:15]})", Role.OPERATOR)
    assert who.until > datetime.now(UTC)


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "HTTPS_PROXY"])
async def test_a_proxy_of_the_environment_has_no_part_in_who_somebody_is(
    tmp_path, idp, name, monkeypatch
):
    with provider() as proxy:
        proxy.publish("one")
        monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        idp.publish("one")
        async with opened(tmp_path, idp) as world:
            who = await world.runtime.people.authenticate(idp.token())

    assert who.id == principal_id(idp.url, "0815")


async def test_who_somebody_is_stands_in_the_audit_log_once_and_again_with_a_new_name(
    tmp_path, idp
):
    async with opened(tmp_path, idp) as world:
        for name in ("Ann", "Ann", "Anna", "Anna"):
            await world.runtime.people.authenticate(idp.token(preferred_username=name))
        entries = await world.runtime.audit.entries(world.runtime.owner)

    told = [e for e in entries if e.action.startswith("principal.")]
    assert [(e.action, e.details["name"]) for e in told] == [
        ("principal.recognised", "Ann"), ("principal.renamed", "Anna"),
    ]  # fmt: skip
    assert {e.actor for e in told} == {principal_id(idp.url, "0815")}
    assert told[0].details == {"name": "Ann", "issuer": idp.url, "sub": "0815"}


async def test_many_first_requests_at_once_are_one_person(tmp_path, idp):
    async with opened(tmp_path, idp) as world, client(world, idp.token()) as http:
        found: list[int] = []

        async def ask() -> None:
            found.append((await http.get(SESSIONS)).status_code)

        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(ask)

    assert found == [200] * 12
    assert idp.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"roles": ["guests", "gonogo-admins", "x"]}, Role.ADMIN),
        ({"roles": "guests"}, Role.VIEWER),
        ({"roles": ["devs", 7, None, ["gonogo-admins"]]}, Role.OPERATOR),
    ],
)  # fmt: skip
async def test_the_best_of_somebodys_mapped_roles_counts(tmp_path, idp, claims, role):
    async with opened(tmp_path, idp) as world:
        assert (await world.runtime.people.authenticate(idp.token(**claims))).role is role


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["devs"]}}),
        ("https://acme.example/roles", {"https://acme.example/roles": ["devs"]}),
        ("scope", {"scope": "openid devs"}),
    ],
)
async def test_roles_may_be_in_any_claim(tmp_path, idp, path, claims):
    token = idp.token(roles=None, **claims)
    async with opened(tmp_path, idp, oidc_role_claim=path) as world:
        assert (await world.runtime.people.authenticate(token)).role is Role.OPERATOR


async def test_a_claim_within_something_that_has_no_names_is_not_there(tmp_path, idp):
    token = idp.token(roles=None, realm_access="devs")
    async with opened(tmp_path, idp, oidc_role_claim="realm_access.roles") as world:
        assert await status_of(world, token) == 403


@pytest.mark.parametrize(
    "roles", [None, [], "devs gonogo-admins", ["Devs"], {"devs": True}, 3, [["devs"]], "admin"]
)
async def test_a_person_without_a_mapped_role_is_known_and_may_nothing(tmp_path, idp, roles):
    async with opened(tmp_path, idp) as world:
        assert await status_of(world, idp.token(roles=roles)) == 403


@pytest.mark.parametrize("name", [None, "", "  ", 7, ["Ann"]])
async def test_who_has_no_name_is_shown_by_the_providers_own_id(tmp_path, idp, name):
    async with opened(tmp_path, idp) as world:
        who = await world.runtime.people.authenticate(idp.token(preferred_username=name))

    assert who.name == f"0815 ({who.id[:15]})"


async def test_a_name_cannot_deceive_and_a_namesake_is_somebody_else(tmp_path, idp):
    async with opened(tmp_path, idp) as world:
        bad = await world.runtime.people.authenticate(
            idp.token(preferred_username="l\u202eocal\x1b[2J\n")
        )
        _, secret = await world.runtime.people.create_token(world.runtime.owner, "Ann", Role.VIEWER)
        own = await world.runtime.people.authenticate(secret)
        ann = await world.runtime.people.authenticate(idp.token())

        sly = await world.runtime.people.authenticate(
            idp.token(preferred_username="Ann (oidc:0123456789)")
        )

    assert bad.name == f"l\\u202eocal\\x1b[2J ({bad.id[:15]})"
    assert (own.name, ann.name) == ("Ann", f"Ann ({ann.id[:15]})")
    assert len({own.id, ann.id, "local"}) == 3
    assert sly.name == f"Ann [oidc:0123456789] ({ann.id[:15]})"


def forged(idp: Provider, header: dict, **claims) -> str:
    """Signed with the right key; the header says something else as well."""
    return idp.token(header=header, **claims)


EVIL = {
    "no signature at all": lambda idp: f"{encoded({'alg': 'none'})}.{encoded(idp.claims())}.",
    "alg none, with a signature": lambda idp: forged(idp, {"alg": "none"}),
    "alg nOnE": lambda idp: forged(idp, {"alg": "nOnE"}),
    "no alg": lambda idp: forged(idp, {"alg": None}),
    "alg is a list": lambda idp: forged(idp, {"alg": ["RS256"]}),
    "HS256 with the public key": lambda idp: maced(
        {"alg": "HS256", "kid": "one"}, idp.claims(),
        key_pair("RSA", "one").as_pem(private=False),
    ),
    "ES256 named, signed by RSA": lambda idp: forged(idp, {"alg": "ES256"}),
    "PS256 named, signed as RS256": lambda idp: forged(idp, {"alg": "PS256"}),
    "a stranger's key, under a known name": lambda idp: signed(
        {"alg": "RS256", "kid": "one"}, idp.claims(), key_pair("RSA", "evil")
    ),
    "a key of its own in the header": lambda idp: signed(
        {"alg": "RS256", "kid": "one", "jwk": key_pair("RSA", "evil").as_dict(private=False)},
        idp.claims(), key_pair("RSA", "evil"),
    ),
    "an unknown key, and where to get it": lambda idp: signed(
        {"alg": "RS256", "kid": "evil", "jku": f"{idp.url}/evil", "x5u": f"{idp.url}/evil"},
        idp.claims(), key_pair("RSA", "evil"),
    ),
    "a path for a key": lambda idp: forged(idp, {"kid": "../../../../dev/null"}),
    "a query for a key": lambda idp: forged(idp, {"kid": "x' OR '1'='1"}),
    "kid is a number": lambda idp: forged(idp, {"kid": 1}),
    "kid is long": lambda idp: forged(idp, {"kid": "x" * 300}),
    "crit": lambda idp: forged(idp, {"crit": ["exp"], "exp": 1}),
    "crit empty": lambda idp: forged(idp, {"crit": []}),
    "b64": lambda idp: forged(idp, {"b64": False}),
    "a token for logging out": lambda idp: forged(idp, {"typ": "logout+jwt"}),
    "typ is no text": lambda idp: forged(idp, {"typ": 1}),
    "another issuer": lambda idp: idp.token(iss="https://evil.example"),
    "the issuer and a slash": lambda idp: idp.token(iss=f"{idp.url}/"),
    "no issuer": lambda idp: idp.token(iss=None),
    "issuers": lambda idp: idp.token(iss=[idp.url]),
    "another audience": lambda idp: idp.token(aud="other"),
    "an audience that starts alike": lambda idp: idp.token(aud="gonogo2"),
    "no audience": lambda idp: idp.token(aud=None),
    "odd audience": lambda idp: idp.token(aud={"gonogo": 1}),
    "over": lambda idp: idp.token(exp=time.time() - 1),
    "no end": lambda idp: idp.token(exp=None),
    "an end in words": lambda idp: idp.token(exp="2099-01-01"),
    "an end that is true": lambda idp: idp.token(exp=True),
    "an end beyond all": lambda idp: idp.token(exp=10**30),
    "an end before all": lambda idp: idp.token(exp=-1),
    "not yet": lambda idp: idp.token(nbf=time.time() + 120),
    "made tomorrow": lambda idp: idp.token(iat=time.time() + 86_400),
    "nobody": lambda idp: idp.token(sub=None),
    "an empty name": lambda idp: idp.token(sub=""),
    "a long name": lambda idp: idp.token(sub="x" * 256),
    "bound to a key": lambda idp: idp.token(cnf={"jkt": "x"}),
    "huge": lambda idp: idp.token(more="x" * 20_000),
    "deep": lambda idp: signed(
        {"alg": "RS256", "kid": "one"}, '{"a":' + "[" * 5_000 + "]" * 5_000 + "}",
        key_pair("RSA", "one"),
    ),
    "a number without end": lambda idp: signed(
        {"alg": "RS256", "kid": "one"}, '{"exp":' + "9" * 6_000 + "}", key_pair("RSA", "one")
    ),
    "a claim twice": lambda idp: signed(
        {"alg": "RS256", "kid": "one"},
        json.dumps(idp.claims(aud="other"))[:-1] + ',"aud":"gonogo"}', key_pair("RSA", "one"),
    ),
    "a header word twice": lambda idp: signed(
        '{"alg":"none","kid":"one","alg":"RS256"}', idp.claims(), key_pair("RSA", "one")
    ),
    "claims in a list": lambda idp: signed(
        {"alg": "RS256", "kid": "one"}, [idp.claims()], key_pair("RSA", "one")
    ),
    "a header in a list": lambda idp: signed([], idp.claims(), key_pair("RSA", "one")),
    "not UTF-8": lambda idp: signed(
        {"alg": "RS256", "kid": "one"}, b'{"sub":"\xff"}', key_pair("RSA", "one")
    ),
    "three dots": lambda idp: idp.token() + ".x",
    "five parts": lambda idp: idp.token() + ".x.y",
    "an empty signature": lambda idp: idp.token().rpartition(".")[0] + ".",
    "a changed letter": lambda idp: _changed(idp.token()),
    "not base64url": lambda idp: idp.token().replace(".", ".+", 1),
    "padded": lambda idp: idp.token() + "==",
    "only dots": lambda idp: "..",
}  # fmt: skip


def _changed(token: str) -> str:
    head, claims, signature = token.split(".")
    other = "A" if claims[20] != "A" else "B"
    return f"{head}.{claims[:20]}{other}{claims[21:]}.{signature}"


async def test_whatever_is_wrong_with_a_token_it_is_refused_and_nothing_breaks(tmp_path, idp):
    found: dict[str, int] = {}
    async with opened(tmp_path, idp) as world:
        assert await status_of(world, idp.token()) == 200
        for name, make in EVIL.items():
            # Each in a door of its own: wrong tokens of one address are counted.
            found[name] = await status_of(world, make(idp))
        assert await status_of(world, idp.token()) == 200
        known = await world.runtime.audit.entries(world.runtime.owner)

    assert {name: status for name, status in found.items() if status != 401} == {}
    assert set(idp.asked) == {"/.well-known/openid-configuration", "/keys"}
    assert len([e for e in known if e.action == "principal.recognised"]) == 1


async def test_the_sender_is_told_that_a_token_is_over_and_nothing_about_other_defects(
    tmp_path, idp, caplog
):
    caplog.set_level("INFO", "gonogo.identity")
    async with opened(tmp_path, idp) as world:
        with pytest.raises(NotValid, match="The token has expired"):
            await world.runtime.people.authenticate(idp.token(exp=time.time() - 1))
        with pytest.raises(NotValid) as told:
            await world.runtime.people.authenticate(idp.token(aud="other"))

    assert str(told.value) == (
        "This server does not accept this token; get a new one from your identity provider, or "
        "create one: gonogo token create"
    )
    assert "another audience" in caplog.text


async def test_clocks_may_differ_by_a_minute(tmp_path, idp):
    soon = time.time() + 40
    async with opened(tmp_path, idp) as world:
        assert await status_of(world, idp.token(nbf=soon, iat=soon)) == 200


async def test_ours_and_the_providers_tokens_are_never_tried_as_each_other(tmp_path, idp):
    async with opened(tmp_path, idp) as world:
        _, secret = await world.runtime.people.create_token(world.runtime.owner, "ci", Role.VIEWER)
        assert (await world.runtime.people.authenticate(secret)).id == "user:ci"
        assert idp.asked == []
    async with world_of(tmp_path, LINES) as world:
        with pytest.raises(Unauthorized):
            await world.runtime.people.authenticate(idp.token())
    assert idp.asked == []


async def test_a_new_key_is_found_at_once_and_strangers_cannot_have_keys_fetched_at_will(
    tmp_path, idp
):
    async with opened(tmp_path, idp) as world:
        assert await status_of(world, idp.token()) == 200
        idp.publish("two")
        fetched = len(idp.asked)
        assert await status_of(world, idp.token("two")) == 401
        time_passes(world, seconds=61)
        assert await status_of(world, idp.token("two")) == 200
        for n in range(15):
            assert await status_of(world, idp.token(header={"kid": f"x{n}"})) == 401

    assert len(idp.asked) == fetched + 2


async def test_a_key_that_the_provider_took_back_counts_no_more(tmp_path, idp):
    async with opened(tmp_path, idp) as world:
        old = idp.token(exp=time.time() + 3_600)
        assert await status_of(world, old) == 200
        idp.publish("two")
        time_passes(world, minutes=11)
        assert await status_of(world, old) == 401


async def test_while_the_provider_is_away_known_keys_count_for_an_hour(tmp_path, idp):
    async with opened(tmp_path, idp) as world:
        token = idp.token(exp=time.time() + 9_000)
        assert await status_of(world, token) == 200
        idp.answer = 500, {}, b""
        time_passes(world, minutes=59)
        assert await status_of(world, token) == 200
        time_passes(world, minutes=2)
        assert await status_of(world, token) == 503
        idp.answer = None
        time_passes(world, seconds=6)
        assert await status_of(world, token) == 200


@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_clock_that_is_set_while_the_provider_is_away_turns_nobody_away(
    tmp_path, idp, hours
):
    async with opened(tmp_path, idp) as world:
        token = idp.token(iat=time.time() - 9_000, exp=time.time() + 9_000)
        assert await status_of(world, token) == 200
        idp.answer, asked = (500, {}, b""), len(idp.asked)
        world.clock.ahead += timedelta(hours=hours)
        assert await status_of(world, token) == 200
        assert len(idp.asked) == asked, "the keys are as old as they were"


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"x" * 300_000), (200, {}, b"[" * 100_000), (200, {}, b"[]"), (200, {}, b"{"),
        (302, {"Location": "http://127.0.0.1:1/"}, b""), (200, {"Content-Encoding": "gzip"}, b"{}"),
        (200, {}, b'{"keys":7}'), (200, {}, b'{"keys":[]}'), (200, {}, b'{"keys":[1,null,{}]}'),
    ],
)  # fmt: skip
async def test_a_provider_that_answers_nonsense_is_one_that_does_not_answer(tmp_path, idp, answer):
    idp.answer = answer
    async with opened(tmp_path, idp, oidc_jwks_url=f"{idp.url}/keys") as world:
        with pytest.raises(IdentityUnknown):
            await world.runtime.people.authenticate(idp.token())
        assert await status_of(world, idp.token()) == 503


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 503)])
async def test_a_key_set_may_have_as_many_bytes_as_is_said_and_no_more(tmp_path, idp, more, status):
    keys = json.dumps({"keys": idp.keys}).encode()
    idp.answer = 200, {}, keys.ljust(oidc.MAX_BYTES + more)
    async with opened(tmp_path, idp, oidc_jwks_url=f"{idp.url}/keys") as world:
        assert await status_of(world, idp.token()) == status


async def test_a_provider_that_never_comes_to_an_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(oidc, "SECONDS", 1)
    gone = anyio.Event()

    async def drip(stream: SocketStream) -> None:
        async with stream:
            with suppress(BrokenResourceError):
                await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
                while not gone.is_set():
                    await stream.send(b" ")
                    with anyio.move_on_after(0.05):
                        await gone.wait()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no SQL
        issuer = oidc.Issuer("https://idp", f"http://127.0.0.1:{port}/keys")
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, drip)
            with anyio.fail_after(LIMIT), pytest.raises(oidc.BadProvider):
                await issuer.fetch()
            gone.set()
            group.cancel_scope.cancel()


async def test_keys_come_only_from_where_the_named_provider_says_and_safely(tmp_path, idp, caplog):
    for lie in ({"issuer": "https://evil.example"}, {"jwks_uri": "http://evil.example/keys"},
                {"jwks_uri": "file:///etc/passwd"}, {"jwks_uri": None}):  # fmt: skip
        idp.discovery = lie
        async with opened(tmp_path, idp) as world:
            assert await status_of(world, idp.token()) == 503
    for said in ("is for 'https://evil.example'", "'http://evil.example/keys' is not https",
                 "'file:///etc/passwd' is not https", "'None' is not https"):  # fmt: skip
        assert said in caplog.text


async def test_keys_that_are_not_for_signatures_or_are_weak_are_passed_over(tmp_path, idp):
    weak = {"kty": "RSA", "n": encoded(bytes([255] * 128)), "e": "AQAB"}
    secret = OctKey.generate_key(256).as_dict()
    idp.keys = [
        {**weak, "kid": "weak"}, {**secret, "kid": "secret"}, idp.jwk("enc", use="enc"),
        idp.jwk("ops", key_ops=["encrypt"]), idp.jwk("other", alg="RS512"), idp.jwk("one"),
        {"kty": "RSA", "kid": "bad", "n": "!", "e": "AQAB"},
    ]  # fmt: skip
    async with opened(tmp_path, idp) as world:
        for name in ("enc", "ops", "other"):
            assert await status_of(world, idp.token(name)) == 401
        head = {"alg": "HS256", "kid": "secret"}
        mac = maced(head, idp.claims(), OctKey.import_key(secret).raw_value)
        assert await status_of(world, mac) == 401
        assert await status_of(world, idp.token("other", algorithm="RS512")) == 200
        assert await status_of(world, idp.token("one")) == 200


async def test_a_token_that_names_no_key_counts_where_only_one_fits(tmp_path, idp):
    async with opened(tmp_path, idp) as world:
        assert await status_of(world, idp.token(header={"kid": None})) == 200
        idp.publish("one", "two")
        time_passes(world, minutes=11)
        late = idp.token(header={"kid": None}, exp=time.time() + 3_600)
        assert await status_of(world, late) == 401


@asynccontextmanager
async def listening(world: World) -> AsyncIterator[Ready]:
    ready: list[Ready] = []
    there = anyio.Event()

    def told(found: Ready) -> None:
        ready.append(found)
        there.set()

    async def run() -> None:
        await serve(world.runtime, port=0, on_ready=told)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        with anyio.fail_after(60):
            await there.wait()
        yield ready[0]
        world.runtime.close_streams()


async def closed(socket) -> int | None:
    """Read on until the other side closes; the code it closed with."""
    try:
        while True:
            await socket.recv()
    except ConnectionClosed as end:
        return end.rcvd.code if end.rcvd else None


@pytest.mark.parametrize("seconds", [3_598, 7_200], ids=["awake", "asleep"])
async def test_sockets_and_streams_end_with_the_token_that_opened_them(tmp_path, idp, seconds):
    async with opened(tmp_path, idp) as world, listening(world) as ready:
        token = idp.token(exp=time.time() + 3_600)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=ready.url, headers=headers) as http:
            made = (await http.post(SESSIONS, json={})).json()["session_id"]
            where = f"ws://127.0.0.1:{ready.port}/api/v1/ws/{made}"
            with anyio.fail_after(60):
                async with (
                    connect(where, proxy=None) as socket,
                    http.stream("GET", f"{SESSIONS}/{made}/events", timeout=30) as stream,
                ):
                    assert stream.status_code == 200
                    await socket.send(json.dumps({"type": "auth", "token": token}))
                    hello = {"type": "user_message", "content": "hi"}
                    await socket.send(json.dumps(hello))
                    assert "type" in json.loads(await socket.recv())
                    # A machine that sleeps counts no seconds; of the last ones each is counted.
                    world.clock.ahead += timedelta(seconds=seconds)
                    code = await closed(socket)
                    async for _ in stream.aiter_bytes():
                        pass
            assert code == 1008
            assert (await http.get(SESSIONS)).status_code == 401


async def test_a_role_of_the_provider_is_a_role_here(tmp_path, idp):
    async with opened(tmp_path, idp) as world:
        viewer = await world.runtime.people.authenticate(idp.token(roles=["guests"], sub="v"))
        with pytest.raises(Forbidden):
            await world.runtime.people.tokens(viewer)
        async with client(world, idp.token(roles=["gonogo-admins"], sub="root")) as http:
            assert (await http.get("/api/v1/tokens")).status_code == 200


NOW = datetime(2026, 11, 22, tzinfo=UTC)
MEMORY = Memory(issuer="i", roles={"devs": Role.OPERATOR}, kept=timedelta(hours=8))
SEEN = Sight(issuer="i", words=("devs",), at=NOW)


@pytest.mark.parametrize(
    ("sight", "seconds", "role"),
    [
        (SEEN, 0, Role.OPERATOR),
        (SEEN, 28_800, Role.OPERATOR),
        (SEEN, 28_801, None),
        (SEEN, -1, None),
        (None, 0, None),
        (replace(SEEN, issuer="j"), 0, None),
        (replace(SEEN, words=()), 0, None),
        (replace(SEEN, words=("gone", "devs")), 0, Role.OPERATOR),
        (replace(SEEN, words=("gone",)), 0, None),
    ],
)
def test_what_somebody_was_counts_for_a_time_by_the_mapping_of_now(sight, seconds, role):
    assert MEMORY.role(sight, NOW + timedelta(seconds=seconds)) is role


class Linked:
    """Somebody of the provider, and their link to the one question."""

    def __init__(self, world: World, idp: Provider) -> None:
        self.world, self.runtime, self.idp = world, world.runtime, idp
        self.token = ""

    async def comes(self, *roles: str):
        late = time.time() + 90_000
        return await self.runtime.people.authenticate(self.idp.token(roles=list(roles), exp=late))

    async def given(self, name: str) -> None:
        (question,) = await self.world.pending()
        made = await self.runtime.links.make(self.runtime.owner, question.approval_id, name)
        self.token = made.url.rsplit("/", 1)[1]

    async def state(self) -> LinkState:
        return (await self.runtime.links.page(self.token)).state

    async def approves(self) -> LinkState:
        return (await self.runtime.links.decide(self.token, DecisionWord.APPROVE)).state


async def test_a_link_of_somebody_of_the_provider_lasts_as_long_as_their_role_is_believed(
    tmp_path, idp
):
    lines = {"main/coder": [calls(write("a.txt", "x")), says("written")]}
    public = {"public_url": "https://g.example", "oidc_role_kept": 7_200}
    async with world_of(tmp_path, lines, **idp.settings, **public) as world:
        root = Linked(world, idp)
        who = await root.comes("gonogo-admins")
        await world.say("Write", "coder")
        for nobody in (who.name, principal_id(idp.url, "other")):
            with pytest.raises(NotFound, match="has signed in recently"):
                await root.given(nobody)
        await root.given(who.id)
        assert await root.state() is LinkState.OPEN
        for _ in range(2):
            with pytest.raises(NoRole):
                await root.comes("nothing")
        assert await root.state() is LinkState.REFUSED
        await root.comes("devs")
        assert await root.state() is LinkState.REFUSED
        await root.comes("gonogo-admins")
        await world.later(5_000)
        await root.comes("gonogo-admins")
        await world.later(5_000)
        assert await root.state() is LinkState.OPEN
        await world.later(2_300)
        assert await root.approves() is LinkState.REFUSED
        await root.comes("gonogo-admins")
        assert await root.approves() is LinkState.DONE


@pytest.mark.parametrize(
    "wrong",
    [
        {"oidc_issuer": "http://idp.example"}, {"oidc_issuer": "https://a@idp.example"},
        {"oidc_issuer": "ftp://idp.example"}, {"oidc_audience": None}, {"oidc_roles": "devs"},
        {"oidc_roles": "devs=root"}, {"oidc_roles": ""}, {"oidc_jwks_url": "http://idp.example/k"},
    ],
)  # fmt: skip
def test_settings_that_would_be_unsafe_are_refused(tmp_path, wrong):
    right = {
        "oidc_issuer": "https://idp.example", "oidc_audience": "gonogo",
        "oidc_roles": "a=b=viewer, devs=operator",
    }  # fmt: skip
    assert Settings(home=tmp_path, **right).oidc_roles == {"a=b": "viewer", "devs": "operator"}
    with pytest.raises(ValidationError):
        Settings(home=tmp_path, **(right | wrong))


async def test_the_doctor_asks_the_provider(tmp_path, idp):
    async def found() -> tuple[str, str]:
        settings = Settings(home=tmp_path, **idp.settings)
        checks = [check async for check in findings(settings, {})]
        (check,) = [check for check in checks if check.name == "identity provider"]
        return check.state, check.text

    assert await found() == ("ok", f"{idp.url}: keys for signatures: 1")
    idp.answer = 500, {}, b""
    state, text = await found()
    assert state == "bad"
    assert "answered 500" in text


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/jwt", "application/at+JWT"])
def test_a_token_of_any_kind_that_is_for_access_counts(kind):
    assert read_head({"alg": "RS256", "kid": "one", "typ": kind}).key_id == "one"
    assert read_head({"alg": "RS256", "kid": "one"}).key_id == "one"
