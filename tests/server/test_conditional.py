"""What a client has already is not sent again, and what is large is packed."""

import gzip
import json

import pytest

from gonogo.server import app as serving

SESSION = "/api/v1/sessions/s_A"
SESSIONS = "/api/v1/sessions"


async def test_an_answer_that_did_not_change_is_a_304_without_a_body(ask):
    async with ask() as client:
        first = await client.get(SESSION)
        again = await client.get(SESSION, headers={"If-None-Match": first.headers["etag"]})

    assert first.headers["etag"].startswith('W/"')
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["cache-control"] == "no-store"
    assert "content-type" not in again.headers
    assert "content-length" not in again.headers


async def test_an_answer_that_changed_is_sent_whole(ask, runtime):
    async with ask() as client:
        first = await client.get(SESSIONS)
        runtime.sessions_of["s_C"] = "a"
        second = await client.get(SESSIONS, headers={"If-None-Match": first.headers["etag"]})

    assert (first.status_code, second.status_code) == (200, 200)
    assert first.headers["etag"] != second.headers["etag"]
    assert second.json() != first.json()


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("*", 304), ("{tag}", 304), ('"of another"', 200), ('"of another", {tag}', 304),
        ("{strong}", 304), ("", 200), ("{tag}x", 200),
    ],
)  # fmt: skip
async def test_tags_are_compared_as_the_rule_says(ask, told, status):
    async with ask() as client:
        tag = (await client.get(SESSION)).headers["etag"]
        wanted = told.format(tag=tag, strong=tag.removeprefix("W/"))
        answer = await client.get(SESSION, headers={"If-None-Match": wanted})

    assert answer.status_code == status


async def test_only_what_was_shown_has_a_tag(ask):
    async with ask() as client:
        refused = await client.get(f"{SESSIONS}/s_404", headers={"If-None-Match": "*"})
        made = await client.post(SESSIONS, json={}, headers={"If-None-Match": "*"})
        page = await client.get("/", headers={"If-None-Match": "*"})

    assert (refused.status_code, made.status_code, page.status_code) == (404, 201, 200)
    for answer in (refused, made, page):
        assert "etag" not in answer.headers


async def test_a_client_that_may_not_see_it_is_told_nothing_by_a_tag(ask):
    async with ask() as client:
        tag = (await client.get(SESSION)).headers["etag"]
    async with ask(None) as client:
        answer = await client.get(SESSION, headers={"If-None-Match": tag})

    assert answer.status_code == 401


async def test_a_large_answer_is_packed_for_those_who_can_read_that(ask, runtime):
    runtime.sessions_of.update({f"s_{number}": "a" for number in range(50)})
    async with ask() as client:
        packed = await client.get(SESSIONS)
        plain = await client.get(SESSIONS, headers={"Accept-Encoding": "identity"})
        small = await client.get(SESSION)
        async with client.stream("GET", SESSIONS) as answer:
            sent = b"".join([part async for part in answer.aiter_raw()])

    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] == plain.headers["etag"]
    assert json.loads(gzip.decompress(sent)) == plain.json() == packed.json()
    assert len(sent) * 4 < len(plain.content)
    for whole in (plain, small):
        assert "content-encoding" not in whole.headers


@pytest.mark.parametrize("path", [SESSIONS, "/assets/x.js"])
@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip;q=0", False), ("br, GZIP ; Q = 0.000", False), ("xgzip", False), ("br", False),
        ("gzip;q=0.001", True), ("br;q=0, gzip", True), ("deflate, GZip;q=1", True),
    ],
)  # fmt: skip
async def test_an_answer_is_packed_only_for_those_who_do_not_refuse_it(
    ask, runtime, tmp_path, monkeypatch, path, accepted, packed
):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "x.js").write_text("let x = 1;\n" * 100)
    monkeypatch.setattr(serving, "CONSOLE", tmp_path)
    serving._assets.cache_clear()
    runtime.sessions_of.update({f"s_{number}": "a" for number in range(50)})
    async with ask() as client:
        answer = await client.get(path, headers={"Accept-Encoding": accepted})
    serving._assets.cache_clear()

    assert answer.status_code == 200
    assert ("content-encoding" in answer.headers) is packed
    assert answer.headers["vary"] == "Accept-Encoding"


async def test_pages_that_have_secrets_are_never_packed(ask):
    async with ask() as client:
        page = await client.get("/", headers={"Accept-Encoding": "gzip"})

    assert "content-encoding" not in page.headers
