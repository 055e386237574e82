"""Signed tokens: what one has to say before it counts, and what its log is told where it does not.

The signature is checked elsewhere; here is what it covers.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from gonogo.domain.errors import NoRole, NotValid
from gonogo.domain.identity import (
    ALGORITHMS,
    Expected,
    Memory,
    Person,
    Principal,
    Role,
    Sight,
    TokenHeader,
    best_role,
    fits,
    looks_signed,
    principal_id,
    read_claims,
    read_head,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
START = int(NOW.timestamp())
ISSUER = "https://id.example.org"
ROLES = {"ops": Role.OPERATOR, "root": Role.ADMIN, "see": Role.VIEWER}
EXPECTED = Expected(
    issuer=ISSUER, audience="gonogo", role_claim="realm.roles", roles=ROLES, name_claim="name"
)
CLAIMS = {
    "iss": ISSUER, "aud": ["other", "gonogo"], "sub": "ann-1", "exp": START + 60,
    "realm": {"roles": ["ops", "root", "unknown"]}, "name": " Ann (admin)\u202e ",
}  # fmt: skip
END_OF_TIME = 253_402_300_799
ANN = "oidc:" + sha256(f"22:{ISSUER}ann-1".encode()).hexdigest()[:32]


def read(**changes):
    given = {name: value for name, value in (CLAIMS | changes).items() if value is not ...}
    return read_claims(given, EXPECTED, NOW)


def test_a_token_names_a_person_with_the_best_of_their_roles():
    ann = read()
    assert ann == Person(
        id=ANN, subject="ann-1", name="Ann (admin)\\u202e", role=Role.ADMIN,
        until=NOW + timedelta(seconds=60), words=("ops", "root"),
    )  # fmt: skip
    assert ann.shown == f"Ann [admin]\\u202e ({ANN[:15]})"
    assert principal_id(ISSUER, "ann-1") == ANN
    assert principal_id("a", "bc") != principal_id("ab", "c")
    assert read(aud="gonogo", realm={"roles": "see"}).role is Role.VIEWER
    assert Person(id="x", subject="x", name="x", role=Role.VIEWER, until=NOW).words == ()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"name": ...}, "ann-1"), ({"name": "  "}, "ann-1"), ({"name": 7}, "ann-1"),
        ({"name": ..., "sub": "s" * 255}, "s" * 100), ({"name": "n" * 101}, "n" * 100),
        ({"name": "a\nb"}, "a\\x0ab"),
    ],
)  # fmt: skip
def test_who_has_no_name_is_called_as_their_provider_knows_them(changes, name):
    assert read(**changes).name == name


@pytest.mark.parametrize("claim", ["scope", "scp"])
def test_roles_may_stand_in_one_text_where_that_is_what_a_provider_does(claim):
    expected = Expected(
        issuer=ISSUER, audience="gonogo", role_claim=claim, roles=ROLES, name_claim="x.y"
    )
    given = CLAIMS | {claim: "openid ops  see", "x": {"y": "Nested"}}
    found = read_claims(given, expected, NOW)
    assert (found.words, found.role, found.name) == (("ops", "see"), Role.OPERATOR, "Nested")
    # A claim of that very name goes before a path.
    assert read_claims(given | {"x.y": "Whole"}, expected, NOW).name == "Whole"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://other"}, "another issuer made it"),
        ({"iss": ...}, "another issuer made it"),
        ({"aud": ["gonogo2"]}, "it is for another audience"),
        ({"aud": ...}, "it is for another audience"),
        ({"cnf": {}}, "it is bound to a key that its sender would have to prove (cnf)"),
        ({"exp": ...}, "it has no end (exp)"),
        ({"exp": True}, "its exp is not a number"),
        ({"exp": None}, "its exp is not a number"),
        ({"exp": -1}, "its exp is out of range"),
        ({"exp": END_OF_TIME + 1}, "its exp is out of range"),
        ({"exp": START}, "it has expired"),
        ({"exp": 0}, "it has expired"),
        ({"nbf": START + 61}, "it is from the future (nbf)"),
        ({"iat": START + 61}, "it is from the future (iat)"),
        ({"sub": ...}, "it names nobody (sub)"),
        ({"sub": ""}, "it names nobody (sub)"),
        ({"sub": 7}, "it names nobody (sub)"),
        ({"sub": "s" * 256}, "it names nobody (sub)"),
    ],
)
def test_a_token_that_does_not_count_is_told_to_the_log_with_the_reason(changes, reason):
    with pytest.raises(NotValid) as refused:
        read(**changes)
    assert refused.value.reason == reason
    over = (
        "The token has expired"
        if "expired" in reason
        else (
            "This server does not accept this token; get a new one from your identity provider, or "
            "create one: gonogo token create"
        )
    )
    assert str(refused.value) == over


def test_a_token_counts_up_to_its_bounds():
    assert read(exp=END_OF_TIME).until.year == 9999
    assert read(exp=START + 0.5).until == NOW + timedelta(seconds=0.5)
    assert read(nbf=START + 60, iat=START + 60).subject == "ann-1"
    assert len(read(sub="s" * 255).subject) == 255
    with pytest.raises(NotValid) as refused:
        read_claims([], EXPECTED, NOW)
    assert refused.value.reason == "its claims are not an object"


@pytest.mark.parametrize("realm", [{"roles": ["x"]}, {"roles": [7]}, {}, [], None, "ops"])
def test_who_has_no_role_here_is_told_so(realm):
    with pytest.raises(NoRole) as refused:
        read(realm=realm)
    assert refused.value.principal_id == ANN
    assert best_role([], ROLES) is None


PART = "its header has a part that must be understood and is not"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ([], "the header is not an object"),
        ({}, "its algorithm is none of those that count"),
        ({"alg": "HS256"}, "its algorithm is none of those that count"),
        ({"alg": "none"}, "its algorithm is none of those that count"),
        ({"alg": ["RS256"]}, "its algorithm is none of those that count"),
        ({"alg": "RS256", "crit": []}, PART),
        ({"alg": "RS256", "b64": False}, PART),
        ({"alg": "RS256", "typ": "dpop+jwt"}, "it is a token for something else (typ)"),
        ({"alg": "RS256", "typ": 7}, "it is a token for something else (typ)"),
        ({"alg": "RS256", "kid": 7}, "its kid is not the name of a key"),
        ({"alg": "RS256", "kid": "k" * 257}, "its kid is not the name of a key"),
    ],
)  # fmt: skip
def test_a_header_that_does_not_count_is_told_to_the_log_with_the_reason(header, reason):
    with pytest.raises(NotValid) as refused:
        read_head(header)
    assert refused.value.reason == reason


@pytest.mark.parametrize("kind", ["JWT", "at+jwt", "application/JWT", "application/at+jwt", ...])
def test_a_header_names_how_it_is_signed_and_with_which_key(kind):
    typed = {} if kind is ... else {"typ": kind}
    assert read_head({"alg": "ES256", "kid": "k" * 256} | typed) == TokenHeader(
        algorithm="ES256", key_id="k" * 256
    )
    assert read_head({"alg": "RS256"} | typed).key_id is None


KEYS = {
    "RS256": {"kty": "RSA"}, "RS384": {"kty": "RSA"}, "RS512": {"kty": "RSA"},
    "PS256": {"kty": "RSA"}, "PS384": {"kty": "RSA"}, "PS512": {"kty": "RSA"},
    "ES256": {"kty": "EC", "crv": "P-256"}, "ES384": {"kty": "EC", "crv": "P-384"},
    "ES512": {"kty": "EC", "crv": "P-521"}, "EdDSA": {"kty": "OKP", "crv": "Ed25519"},
    "Ed25519": {"kty": "OKP", "crv": "Ed25519"},
}  # fmt: skip


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_signature_is_checked_with_a_key_of_its_own_type_and_curve(algorithm):
    key = KEYS[algorithm]
    assert fits(algorithm, key)
    assert fits(algorithm, key | {"alg": algorithm})
    assert not fits(algorithm, key | {"alg": "XS256"})
    assert not fits(algorithm, key | {"kty": "oct"})
    assert fits(algorithm, key | {"crv": "P-1"}) is (key["kty"] == "RSA")
    twins = {"EdDSA", "Ed25519"}
    for other in KEYS.keys() - {algorithm}:
        assert fits(algorithm, key | {"alg": other}) is ({algorithm, other} == twins)
    assert set(ALGORITHMS) == set(KEYS)


@pytest.mark.parametrize(
    ("token", "signed"), [("a.b.c", True), ("a.b", False), ("a.b.c.d", False), ("gng_abc", False)]
)
def test_a_signed_token_has_three_parts(token, signed):
    assert looks_signed(token) is signed


def test_who_is_away_may_for_a_time_what_they_could_when_they_were_here_last():
    memory = Memory(issuer=ISSUER, roles=ROLES, kept=timedelta(hours=1))

    def role(after, issuer=ISSUER, words=("ops",)):
        return memory.role(Sight(issuer=issuer, words=words, at=NOW), NOW + after)

    second = timedelta(seconds=1)
    assert role(timedelta()) is role(timedelta(hours=1)) is Role.OPERATOR
    assert role(timedelta(hours=1) + second) is None
    assert role(-second) is None, "their clock was ahead"
    assert role(second, issuer="https://other") is None
    assert role(second, words=("gone",)) is None
    assert memory.role(None, NOW) is None


def test_a_credential_that_does_not_end_by_itself_says_no_end():
    ann = Principal(id="user:ann", name="Ann", role=Role.VIEWER)
    ann.require(Role.VIEWER)
    assert ann.model_dump() == {
        "id": "user:ann", "name": "Ann", "role": Role.VIEWER, "until": None,
    }  # fmt: skip
