"""A provider's keys are looked at as seldom as is said, and what is wrong with one is written down.

The provider is the test's own; the clock is one that only the test moves.
"""

import logging
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.issuer import Provider, encoded, key_pair, provider, signed
from gonogo.domain.errors import IdentityUnknown, NotValid, Refused
from gonogo.domain.identity import Expected, Memory, Person, Role, TokenHeader
from gonogo.runtime import look_for_keys
from gonogo.runtime.oidc import KNOWN, BadProvider, Bearers, Issuer, PublicKey, _keys_in, _parts
from gonogo.settings import Settings

NOW = datetime(2026, 11, 22, tzinfo=UTC)
HEAD = TokenHeader(algorithm="RS256", key_id="one")
SECOND = timedelta(seconds=1)


class Watched(Issuer):
    """An issuer whose answers the test gives, at times that the test says."""

    def __init__(self, *keys: PublicKey) -> None:
        self.now, self.keys, self.looks = 0.0, [*keys], 0
        super().__init__("https://idp.example", None, lambda: self.now)

    async def fetch(self) -> list[PublicKey]:
        self.looks += 1
        if not self.keys:
            raise BadProvider("it is away")
        return self.keys


def public(name: str | None = "one", **more: Any) -> PublicKey:
    return PublicKey({**key_pair("RSA", "one").as_dict(private=False), "kid": name, **more})


async def unknown(asked: Awaitable[Any]) -> str:
    with pytest.raises(IdentityUnknown) as refused:
        await asked
    return str(refused.value)


async def wrong(asked: Awaitable[Any]) -> str:
    with pytest.raises(NotValid) as refused:
        await asked
    return refused.value.reason


async def test_keys_are_looked_at_again_after_ten_minutes_and_count_for_an_hour() -> None:
    issuer = Watched(public())
    assert await issuer.key(HEAD) is issuer.keys[0].key
    for minutes, looks in ((10, 1), (10.1, 2), (20.1, 2), (20.2, 3)):
        issuer.now = 60.0 * minutes
        await issuer.key(HEAD)
        assert issuer.looks == looks, minutes
    issuer.keys = []
    issuer.now += 3_600
    assert await issuer.key(HEAD), "known keys count, and the provider is asked"
    assert issuer.looks == 4
    issuer.now += 1
    said = "The identity provider does not answer; try again later"
    assert await unknown(issuer.key(HEAD)) == said
    assert issuer.looks == 4, "it was asked a second ago"


async def test_a_key_that_is_not_known_has_them_looked_at_once_a_minute() -> None:
    issuer = Watched(public())
    await issuer.key(HEAD)
    other, said = TokenHeader(algorithm="RS256", key_id="two"), "it names no key of the provider"
    for seconds, looks in ((59, 1), (60, 2), (119, 2), (120, 3)):
        issuer.now = seconds
        assert await wrong(issuer.key(other)) == f"{said} that fits its algorithm"
        assert issuer.looks == looks, seconds


async def test_a_provider_that_was_never_there_is_asked_every_five_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuer = Watched()
    for seconds, looks in ((0, 1), (4, 1), (5, 2), (9, 2), (10, 3)):
        issuer.now = seconds
        await unknown(issuer.key(HEAD))
        assert issuer.looks == looks, seconds
    assert caplog.messages[0] == "The keys of https://idp.example cannot be had: it is away"
    assert {record.name for record in caplog.records} == {"gonogo.identity"}
    issuer.keys = [public()]
    issuer.now += 5
    assert await issuer.key(HEAD)


async def test_a_token_without_a_key_id_needs_the_one_key_that_fits() -> None:
    issuer = Watched(public("one", alg="RS256"), public("two", alg="RS512"))
    nameless = TokenHeader(algorithm="RS256", key_id=None)
    assert await issuer.key(nameless) is issuer.keys[0].key
    assert await issuer.key(TokenHeader(algorithm="RS512", key_id=None)) is issuer.keys[1].key
    issuer.keys.append(public("three"))
    assert "no key of the provider" in await wrong(issuer.key(nameless))


@pytest.mark.parametrize(
    ("jwk", "kind", "said"),
    [
        ({"kty": "oct"}, ValueError, "its type is none of those that count"),
        ({}, ValueError, "its type is none of those that count"),
        ({"kty": "RSA", "use": "enc"}, ValueError, "it is not for signatures"),
        ({"kty": "RSA", "key_ops": ["sign"]}, ValueError, "it is not for signatures"),
        ({"kty": "RSA", "alg": 7}, TypeError, "its alg is not a name"),
        ({"kty": "RSA", "n": encoded(b"\xff" * 255), "e": "AQAB"}, ValueError,
         "an RSA key of 2040 bits"),
        ({"kty": "RSA", "n": encoded(b"\x01" + b"\xff" * 1_024), "e": "AQAB"}, ValueError,
         "an RSA key of 8193 bits"),
    ],
)  # fmt: skip
def test_what_is_no_key_for_signatures_says_why(
    jwk: dict[str, Any], kind: type[Exception], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(kind) as refused:
        PublicKey(jwk)
    assert str(refused.value) == said
    caplog.set_level("INFO", "gonogo.identity")
    with pytest.raises(BadProvider, match=r"^its key set has no key for signatures$"):
        _keys_in({"keys": [jwk]})
    assert caplog.messages == [f"A key of the provider is passed over: {said}"]


def test_a_key_is_known_by_its_id_its_type_and_what_it_is_for() -> None:
    key = public(alg="RS256", key_ops=["verify", "sign"], use="sig", x5c=["no"])
    assert (key.id, key.facts) == ("one", {"kty": "RSA", "alg": "RS256"})
    curve = PublicKey(key_pair("P-256", "c").as_dict(private=False))
    assert curve.facts == {"kty": "EC", "crv": "P-256"}
    big = {"kty": "RSA", "n": encoded(b"\xff" * 1_024), "e": "AQAB"}
    assert PublicKey(big).facts == {"kty": "RSA"}, "of 8192 bits"


def test_a_key_set_is_a_list_of_which_the_first_are_looked_at() -> None:
    for listed in ({}, {"keys": {}}):
        with pytest.raises(BadProvider, match=r"^its key set has no list of keys$"):
            _keys_in(listed)
    jwk = {**key_pair("RSA", "one").as_dict(private=False)}
    assert len(_keys_in({"keys": [{}] * 63 + [jwk] * 2})) == 1
    with pytest.raises(BadProvider):
        _keys_in({"keys": [{}] * 64 + [jwk]})


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("a.b", "it has not the form of a signed token"),
        ("a.b.c.d", "it has not the form of a signed token"),
        ("a.b.", "it has not the form of a signed token"),
        ("a.b.c=", "it has not the form of a signed token"),
        (f"a.b.{'c' * 16_381}", "it has not the form of a signed token"),
        (f"{'a' * 5}.e30.e30", "a part of it is not base64url"),
    ],
)
def test_what_has_not_the_form_of_a_token_is_not_read(token: str, said: str) -> None:
    with pytest.raises(NotValid) as refused:
        _parts(token)
    assert refused.value.reason == said


def test_a_token_is_taken_apart_with_what_its_signature_covers() -> None:
    header = {"alg": "RS256", "kid": "one", "typ": "JWT"}
    token = signed(header, {"sub": "x"}, key_pair("RSA", "one"))
    head, claims, covered, signature = _parts(token)

    assert (head, claims, len(signature)) == (HEAD, {"sub": "x"}, 256)
    assert covered == token.rpartition(".")[0].encode()
    size = 16_384 - len(f"{encoded(header)}.{encoded({})}.")
    assert _parts(f"{encoded(header)}.{encoded({})}.{'A' * (size - size % 4)}")[1] == {}
    with pytest.raises(NotValid) as refused:
        _parts(f"{encoded(header)}.{encoded(b'{')}.AAAA")
    assert refused.value.reason.startswith("a part of it is not plain JSON: ")


EXPECTED = Expected(
    issuer="https://idp.example", audience="gonogo", role_claim="roles",
    roles={"devs": Role.OPERATOR}, name_claim="name",
)  # fmt: skip
MEMORY = Memory(issuer="https://idp.example", roles=EXPECTED.roles, kept=timedelta(hours=1))


def person(name: str = "Ann", words: tuple[str, ...] = ("devs",)) -> Person:
    return Person(id="oidc:1", subject="1", name=name, role=Role.OPERATOR, until=NOW, words=words)


def test_who_somebody_is_is_news_once_and_where_roles_are_kept_once_a_minute() -> None:
    now = [NOW]
    plain = Bearers(EXPECTED, Watched(), lambda: now[0])
    keeps = Bearers(EXPECTED, Watched(), lambda: now[0], MEMORY)
    for bearers in (plain, keeps):
        assert bearers.is_news(person())
        bearers.kept("oidc:1", "Ann", ("devs",))
        assert not bearers.is_news(person())
        assert bearers.is_news(person("Anna"))
    assert not plain.is_news(person(words=("other",)))
    assert keeps.is_news(person(words=("other",)))
    now[0] += timedelta(seconds=59)
    assert not keeps.is_news(person())
    now[0] += SECOND
    assert keeps.is_news(person())
    assert not plain.is_news(person())


def test_whoever_may_still_have_a_role_is_written_down_when_they_come_without() -> None:
    plain = Bearers(EXPECTED, Watched(), lambda: NOW)
    keeps = Bearers(EXPECTED, Watched(), lambda: NOW, MEMORY)
    assert not plain.has_role("oidc:1")
    assert keeps.has_role("oidc:1")
    keeps.kept("oidc:1", "", ())
    assert not keeps.has_role("oidc:1")
    keeps.kept("oidc:1", "Ann", ("devs",))
    assert keeps.has_role("oidc:1")


def test_so_many_people_are_known_at_once_and_the_first_is_forgotten_first() -> None:
    bearers = Bearers(EXPECTED, Watched(), lambda: NOW, MEMORY)
    for number in range(KNOWN + 1):
        bearers.kept(f"oidc:{number}", "", ())
    assert bearers.has_role("oidc:0")
    assert not bearers.has_role("oidc:1")
    assert not bearers.has_role(f"oidc:{KNOWN}")


@pytest.fixture
def idp() -> Any:
    with provider() as found:
        yield found


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((201, {}, b"{}"), "{url}/keys answered 201"),
        ((200, {"Content-Encoding": "gzip"}, b"{}"), "{url}/keys answered 200"),
        ((200, {}, b"x" * 262_145), "{url}/keys has more than 262144 bytes"),
        ((200, {}, b"[]"), "{url}/keys is not a JSON object"),
        ((200, {}, b"{"), "{url}/keys: "),
        ((200, {}, b"{}"), "its key set has no list of keys"),
    ],
)
async def test_how_a_provider_fails_to_answer_is_said(
    idp: Provider, answer: tuple[int, dict[str, str], bytes], said: str
) -> None:
    idp.answer = answer
    issuer = Issuer(idp.url, f"{idp.url}/keys")
    with pytest.raises(BadProvider) as refused:
        await issuer.fetch()
    found, wanted = str(refused.value), said.format(url=idp.url)
    assert found.startswith(wanted) if wanted.endswith(": ") else found == wanted


async def test_where_keys_are_is_what_the_provider_itself_says(idp: Provider) -> None:
    issuer = Issuer(idp.url, None)
    assert [key.id for key in await issuer.fetch()] == ["one"]
    for lie, said in (
        ({"issuer": "https://evil"}, "its discovery document is for 'https://evil'"),
        ({"jwks_uri": "http://evil/k"}, "its jwks_uri 'http://evil/k' is not https"),
        ({"jwks_uri": 7}, "its jwks_uri '7' is not https"),
    ):
        idp.discovery = lie
        with pytest.raises(BadProvider) as refused:
            await issuer.fetch()
        assert str(refused.value) == said
    gone = Issuer("http://127.0.0.1:1", None)
    with pytest.raises(BadProvider, match=r"^ConnectError: "):
        await gone.fetch()


async def test_the_doctor_is_told_how_many_keys_there_are_or_what_is_wrong(
    idp: Provider, tmp_path: Any
) -> None:
    settings = Settings(home=tmp_path, **idp.settings)
    idp.publish("one", "two")
    assert await look_for_keys(settings) == f"{idp.url}: keys for signatures: 2"
    assert await look_for_keys(Settings(home=tmp_path)) == "no identity provider is set"
    idp.answer = 500, {}, b""
    with pytest.raises(Refused) as refused:
        await look_for_keys(settings)
    where = f"{idp.url}/.well-known/openid-configuration"
    assert str(refused.value) == f"{idp.url}: {where} answered 500"


async def test_why_a_token_was_refused_stands_in_the_log_and_nowhere_else(
    idp: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gonogo.identity")
    issuer = Issuer(idp.url, None)
    bearers = Bearers(EXPECTED, issuer, lambda: datetime.now(UTC))
    with pytest.raises(NotValid) as refused:
        await bearers.read(f"{idp.token()[:-4]}AAAA")
    assert refused.value.reason == "its signature is not the provider's"
    assert caplog.messages[-1] == (
        "A signed token was refused: its signature is not the provider's"
    )
