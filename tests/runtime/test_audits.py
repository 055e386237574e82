"""The audit log over HTTP: who may have it, in what form, and what every entry names."""

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from sqlalchemy import text

from fakes.world import call, calls, plan, says, step, world_of, write
from gonogo.domain.audit_chain import FileCheck, read_anchors
from gonogo.domain.identity import Role
from gonogo.server import create_app
from gonogo.store.audit import verify

LINES = {
    "main/architect": [plan(step("one"))],
    "one": [calls(write("one.txt"), call("list_files", path=".")), says("a")],
    "main/coder": [calls(write("two.txt")), says("Done")],
    "main/ask": [calls(call("list_files", path=".")), says("Seen")],
}
STARTED = text("SELECT id FROM tool_calls WHERE started_at IS NOT NULL AND tool <> 'create_plan'")
AUDIT = "/api/v1/audit"
HEAD = {"chain": "s", "seq": 1, "hash": "0" * 64}
HEAD_OF = text("SELECT hash FROM audit WHERE chain = :chain AND seq = :seq")
DECISIVE = (".asked", ".approved", "tool.allowed")
PRUNE = {"before": "2020-01-01T00:00:00Z", "heads": [HEAD]}


@pytest.fixture
async def world(tmp_path):
    async with world_of(tmp_path, LINES) as world:
        yield world


async def client(world, name, role):
    _, secret = await world.runtime.people.create_token(world.runtime.owner, name, role)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(create_app(world.runtime)), base_url="http://localhost",
        headers={"Authorization": f"Bearer {secret}"},
    )  # fmt: skip


async def story(world):
    """Calls that a grant, a person, and nothing but the default allowed."""
    await world.say("Write it", "coder")
    (asked,) = await world.pending()
    await world.decide(asked.call_id)
    await world.say("What is there?", "ask")
    await world.begin()
    await world.until("plan_completed")
    await world.idle()


async def test_the_log_is_exported_for_admins_only_and_checks_without_the_server(world):
    await story(world)
    async with await client(world, "root", Role.ADMIN) as root:
        answer = await root.get(f"{AUDIT}/export")
        one = await root.get(f"{AUDIT}/export", params={"session_id": world.session})
        none = await root.get(f"{AUDIT}/export", params={"since": "2999-01-01T00:00:00Z"})
    async with await client(world, "ann", Role.OPERATOR) as ann:
        for method, path in (("GET", "/export"), ("POST", "/anchors"), ("POST", "/prune")):
            more = {"json": PRUNE if path == "/prune" else {}} if method == "POST" else {}
            assert (await ann.request(method, AUDIT + path, **more)).status_code == 403

    assert answer.headers["content-type"].startswith("application/x-ndjson")
    for written, chains in ((answer.text, 2), (one.text, 1), (none.text, 0)):
        check = FileCheck()
        for line in written.splitlines():
            check.take(line)
        check.finish()
        assert (check.problems, len(check.ends)) == ([], chains)


async def test_an_anchor_is_made_and_checked_over_http(world):
    await story(world)
    async with await client(world, "root", Role.ADMIN) as root:
        made = (await root.post(f"{AUDIT}/anchors", json={})).json()
        report = (await root.get(f"{AUDIT}/verify", params={"anchor": made["text"]})).json()
        forged = made["text"].replace(made["hash"], "0" * 64)
        other = (await root.get(f"{AUDIT}/verify", params={"anchor": forged})).json()
        wrong = await root.get(f"{AUDIT}/verify", params={"anchor": "x"})

    assert read_anchors(made["text"])[0].chains == 1
    assert (report["ok"], report["problems"]) == (True, [])
    assert other["ok"] is False
    assert wrong.status_code == 422


async def test_nothing_is_removed_that_was_not_seen_or_is_too_young(tmp_path):
    async with world_of(tmp_path, LINES, keep_audit_days=30) as world:
        world.honest = False
        await story(world)
        async with await client(world, "root", Role.ADMIN) as root:
            young = datetime.now(UTC) - timedelta(days=29)
            seen = {"chain": world.session, "seq": 1, "hash": "0" * 64}
            body = {"before": young.isoformat(), "heads": [seen]}
            assert (await root.post(f"{AUDIT}/prune", json=body)).status_code == 422
            world.clock.ahead += timedelta(days=60)
            before = young + timedelta(days=30, hours=1)
            body["before"] = before.isoformat()
            assert (await root.post(f"{AUDIT}/prune", json=body)).status_code == 409
            answer = await root.get(f"{AUDIT}/export", params={"removable": before})
            last = json.loads(answer.text.splitlines()[-2])
            body["heads"] = [{name: last[name] for name in ("chain", "seq", "hash")}]
            assert (await root.post(f"{AUDIT}/prune", json=body)).json() == {"heads": body["heads"]}
            report = (await root.get(f"{AUDIT}/verify")).json()
            assert (await root.get(AUDIT, params={"session_id": world.session})).json() == {
                "entries": []
            }

    assert report["ok"]
    assert [floor["chain"] for floor in report["removed"]] == [world.session]


async def test_the_whole_log_is_read_from_its_end_page_by_page(world):
    await story(world)
    async with await client(world, "root", Role.ADMIN) as root:
        asked, pages = {"limit": 5}, []
        while True:
            page = (await root.get(AUDIT, params=asked)).json()
            pages.append([(each["chain"], each["seq"]) for each in page["entries"]])
            if "before" not in page:
                break
            asked["before"] = page["before"]
        whole = (await root.get(AUDIT, params={"limit": 1000})).json()["entries"]

    read = [place for page in reversed(pages) for place in page]
    assert len(pages) > 2
    assert read == [(each["chain"], each["seq"]) for each in whole]
    assert [each["ts"] for each in whole] == sorted(each["ts"] for each in whole)
    assert {each["chain"] for each in whole} == {"system", world.session}


async def test_everybody_reads_the_log_of_their_own_sessions_and_only_admins_the_systems(world):
    await story(world)
    async with (
        await client(world, "root", Role.ADMIN) as root,
        await client(world, "eve", Role.VIEWER) as eve,
        await client(world, "ann", Role.VIEWER) as ann,
    ):
        assert (await eve.get(AUDIT)).json() == {"entries": []}
        own = (await ann.get(AUDIT)).json()["entries"]
        assert {each["chain"] for each in own} == {world.session}
        system = {"session_id": "system"}
        assert (await ann.get(AUDIT, params=system)).status_code == 403
        found = (await root.get(AUDIT, params=system)).json()["entries"]
        assert [each["seq"] for each in found] == list(range(1, len(found) + 1))
        await world.runtime.sessions.delete(world.ann, world.session)
        assert (await ann.get(AUDIT)).json() == {"entries": []}
        gone = (await root.get(AUDIT, params={"session_id": world.session})).json()["entries"]
        assert [each["seq"] for each in gone][: len(own)] == [each["seq"] for each in own]


async def test_the_log_is_sifted_by_who_what_and_when(world):
    await story(world)
    async with await client(world, "root", Role.ADMIN) as root:

        async def found(**wanted):
            answer = await root.get(AUDIT, params=wanted)
            return {(each["actor"], each["action"]) for each in answer.json()["entries"]}

        await world.runtime.people.create_token(world.runtime.owner, "ann", Role.VIEWER)
        mine = await found(actor="ann")
        assert mine == await found(actor="user:ann")
        assert {actor for actor, _ in mine} == {"user:ann"}
        assert ("user:ann", "plan.approved") in mine
        tools = await found(action="tool.", session_id=world.session)
        assert {action.partition(".")[0] for _, action in tools} == {"tool"}
        assert await found(since="2999-01-01T00:00:00Z") == set()
        assert await found(until="2000-01-01T00:00:00Z", session_id=world.session) == set()
        both = ({"before": "x", "session_id": "s"}, {"before": "x", "after": 3})
        for wrong in ({"before": "x"}, *both):
            answer = await root.get(AUDIT, params=wrong)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


async def test_after_without_a_session_is_a_stretch_of_the_systems_chain(world):
    async with (
        await client(world, "root", Role.ADMIN) as root,
        await client(world, "ann", Role.VIEWER) as ann,
    ):
        alone = (await root.get(AUDIT, params={"after": 1})).json()
        named = (await root.get(AUDIT, params={"after": 1, "session_id": "system"})).json()
        assert (await ann.get(AUDIT, params={"after": 0})).status_code == 403
    assert alone == named
    assert [each["seq"] for each in alone["entries"]] == [2]
    assert "before" not in alone


async def test_what_a_person_caused_names_them_and_what_ran_says_why(world):
    await story(world)
    async with await client(world, "root", Role.ADMIN) as root:
        params = {"session_id": world.session, "limit": 1000}
        entries = (await root.get(AUDIT, params=params)).json()["entries"]
        russian = (await root.get(AUDIT, params=params | {"locale": "ru-RU"})).json()["entries"]
        system = (await root.get(AUDIT)).json()["entries"]
    executed = await world.runtime.parts.store.read(lambda tx: list(tx.execute(STARTED).scalars()))

    by_people = [e for e in entries if e["action"] in {"plan.approved", "tool.approved"}]
    assert [e["actor"] for e in by_people] == ["user:ann"] * 2
    assert {e["actor_name"] for e in system if e["actor"] == "local"} == {"local"}
    for entry in entries + system:
        assert entry["actor"].startswith(("user:", "agent:", "gonogo", "local")), entry
    allowed = {
        e["details"]["call_id"]: e["details"] for e in entries if e["action"] == "tool.allowed"
    }
    assert len(executed) == 4
    assert set(executed) <= set(allowed)
    plans = {e["details"].get("plan_id") for e in entries if e["action"] == "plan.approved"}
    assert len(plans) == 1
    assert {details.get("plan_id") for details in allowed.values()} == {None, *plans}
    for details in allowed.values():
        why = {name for name in ("reason", "rule", "source", "decision") if details.get(name)}
        assert why, details
    said = [
        [e["why"] for e in found if e["details"].get("source") == "grant"]
        for found in (entries, russian)
    ]
    assert said[0]
    assert all(why.startswith("approved plan") for why in said[0]), said[0]
    assert all(why.startswith("одобренный план") for why in said[1]), said[1]


class Undone(Exception):
    pass


async def cut(world, chain, seq):
    """What verify finds once a chain ends after an entry, and should end at entry so."""
    table, key = ("chains", "chain") if chain == "system" else ("sessions", "id")
    found = []

    def attempt(tx):
        head = tx.execute(HEAD_OF, {"chain": chain, "seq": seq}).scalar() or "0" * 64
        where = {"chain": chain, "seq": seq, "hash": head}
        tx.execute(text("DELETE FROM audit WHERE chain = :chain AND seq > :seq"), where)
        tx.execute(
            text(f"UPDATE {table} SET audit_seq = :seq, audit_hash = :hash WHERE {key} = :chain"),  # noqa: S608
            where,
        )
        found.extend([verify(tx, only=chain).problems, verify(tx).problems])
        raise Undone

    with pytest.raises(Undone):
        await world.runtime.parts.store.write(attempt)
    assert found[0] == found[1]
    return found[0]


async def test_a_chain_that_was_emptied_or_cut_off_with_its_head_is_found(world):
    await story(world)
    entries = await world.audit()
    last = max(entry.seq for entry in entries if entry.action.endswith(DECISIVE))

    assert await cut(world, world.session, len(entries)) == []
    for seq in range(last):
        found = await cut(world, world.session, seq)
        assert any("is in the database, and there is no entry" in problem for problem in found), seq
        assert all(problem.startswith(world.session) for problem in found)


async def test_the_systems_chain_cannot_lose_its_end_either(world):
    await story(world)
    _, secret = await world.runtime.people.create_token(world.runtime.owner, "eve", Role.VIEWER)
    eve = await world.runtime.people.authenticate(secret)
    [token] = [t for t in await world.runtime.people.tokens(world.runtime.owner) if t.name == "eve"]
    await world.runtime.people.revoke_token(world.runtime.owner, token.token_id)
    entries = await world.audit(session="system")

    for seq in range(len(entries)):
        found = await cut(world, "system", seq)
        missing = f"there is no entry {entries[-1].action} for"
        assert any(missing in problem for problem in found), seq
    assert (entries[-1].action, eve.name) == ("token.revoked", "eve")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM approvals WHERE kind = 'tool'",
        "DELETE FROM tool_calls WHERE tool = 'list_files'",
        "UPDATE approvals SET decided_by = 'user:eve' WHERE kind = 'tool'",
        "UPDATE approvals SET status = 'rejected' WHERE kind = 'plan'",
        "UPDATE approvals SET digest = 'sha256:0' WHERE kind = 'plan'",
        "UPDATE tool_calls SET digest = 'sha256:0' WHERE tool = 'write_file'",
        "UPDATE grants SET status = 'revoked'",
        "UPDATE tool_calls SET started_at = NULL, id = id || 'x' WHERE tool = 'write_file'",
        "UPDATE sessions SET deleted = 1",
    ],
)
async def test_what_the_database_holds_and_what_the_chains_say_is_one(world, statement):
    world.honest = False
    await story(world)

    await world.runtime.parts.store.write(lambda tx: tx.execute(text(statement)))
    whole = await world.runtime.audit.verify(world.ann)

    assert not whole.ok
    assert all("database" in problem for problem in whole.problems)


async def test_one_session_is_verified_by_itself_for_those_who_may_see_it(world):
    world.honest = False
    await story(world)
    other = await world.runtime.sessions.open(world.bob)
    await world.runtime.parts.store.write(
        lambda tx: tx.execute(text("DELETE FROM approvals WHERE kind = 'tool'"))
    )

    async with await client(world, "root", Role.ADMIN) as root:
        harmed = await root.get(f"{AUDIT}/verify", params={"session_id": world.session})
        whole = await root.get(f"{AUDIT}/verify", params={"session_id": other.session_id})
        none = await root.get(f"{AUDIT}/verify", params={"session_id": "nobody"})
    async with await client(world, "eve", Role.VIEWER) as eve:
        others = await eve.get(f"{AUDIT}/verify", params={"session_id": world.session})

    assert (harmed.json()["ok"], whole.json()["ok"]) == (False, True)
    assert (none.status_code, others.status_code) == (404, 404)
