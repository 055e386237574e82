"""Links that decide: one answer, by one person, to just what was asked; looking changes nothing."""

import re
import stat

import anyio
import httpx
import pytest

from fakes.receiver import receiver
from fakes.world import LIMIT, calls, of, on_both, plan, says, step, write
from gonogo.domain.errors import Conflict, Forbidden, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.reviews import LinkState
from gonogo.domain.states import DecisionWord
from gonogo.runtime.links import link_key
from gonogo.server import create_app
from gonogo.store.calls import link_of
from scenarios.test_hooks import hooks, secret  # noqa: F401 - fixtures

PUBLIC = "https://gonogo.example:8443"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e"
LINES = {
    "main/orchestrator": [says("Hello")],
    "main/coder": [calls(write("a.txt", EVIL)), says("written")],
    "main/architect": [plan(step("a"), goal=EVIL), says("Good")],
    "a": [says("a is done")],
}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def linked(make):
    """Makes worlds that have a public address."""

    def making(lines=LINES, **set_):
        return make(lines, **{"public_url": PUBLIC, **set_})

    return making


def browser(world, **headers):
    app = create_app(world.runtime, hosts=["gonogo.example"], origins=[PUBLIC])
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=PUBLIC, headers=headers, timeout=LIMIT
    )


async def asked(world, who="ann", role=Role.OPERATOR):
    """A call that waits, and a link for somebody to decide it."""
    await world.runtime.people.create_token(world.runtime.owner, who, role)
    await world.say("Write", "coder")
    (question,) = await world.pending()
    made = await world.runtime.links.make(world.runtime.owner, question.approval_id, who)
    return question, made


async def decide(http, url, decision="approve", **fields):
    return await http.post(url, data={"decision": decision, **fields})


async def test_looking_shows_what_is_asked_and_changes_nothing(linked):
    async with linked() as world, browser(world) as http:
        question, made = await asked(world)
        before = await world.log()
        for agent in ("Slackbot-LinkExpanding 1.0", "TelegramBot (like TwitterBot)", "Mozilla"):
            page = await http.get(made.url, headers={"user-agent": agent})
            assert page.status_code == 200
        head = await http.head(made.url)

        assert head.status_code == 405
        assert await world.log() == before
        assert [each.status for each in await world.pending()] == ["pending"]
        text = page.text
        assert "coder asks to use write_file" in text
        assert question.digest in text
        assert "You decide as ann" in text
        assert text.count("<button") == 2
        assert "<script" not in text
        assert "<img" not in text
        assert "\u202e" not in text
        assert "&lt;script&gt;" in text
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "script-src" not in policy
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-store"


async def test_each_page_is_a_whole_one_that_fits_a_phone_and_needs_nothing_else(linked):
    async with linked() as world, browser(world) as http:
        _, made = await asked(world)
        pages = [(await http.get(each)).text for each in (made.url, f"{made.url}x")]
        pages.append((await decide(http, made.url)).text)

    assert len(set(pages)) == 3
    for page in pages:
        head, _, body = page.partition("<style>")
        assert head == (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            "<title>gonogo</title>"
        )
        assert body.endswith("\n</body></html>\n")
        assert not re.search(r"<[^<>]*(?:https?:|\bsrc=|\bhref=)", page)


async def test_the_page_speaks_the_readers_language(linked):
    async with linked() as world, browser(world) as http:
        _, made = await asked(world)
        russian = await http.get(made.url, headers={"accept-language": "ru-RU,ru;q=0.9,en;q=0.8"})
        neither = await http.get(made.url, headers={"accept-language": "fr"})

        assert 'lang="ru"' in russian.text
        for words in (
            "Одобрить",
            "Вы решаете от имени ann.",
            "Она действует до ",
            "Отпечаток вопроса: ",
        ):
            assert words in russian.text
        assert 'lang="en"' in neither.text


async def test_a_decision_by_link_is_the_persons_and_says_how_it_came(linked):
    async with linked() as world, browser(world, origin="null") as http:
        question, made = await asked(world)
        done = await decide(http, made.url, feedback="go <b>on</b>")
        assert (done.status_code, "Thank you, ann: Approved." in done.text) == (200, True)
        await world.until("assistant_message", content="written")

        assert world.read("a.txt") == EVIL
        view = await world.runtime.approvals.get(world.ann, question.approval_id)
        assert (view.decided_by, view.feedback) == ("ann", "go <b>on</b>")
        [entry] = await world.audit("tool.approved")
        assert (entry.actor, entry.ts) == ("user:ann", view.decided_at)
        assert entry.details["decision"]["via"] == f"link {made.link_id}"
        [made_entry] = await world.audit("link.made")
        assert (made_entry.actor, made_entry.subject) == ("local", "user:ann")
        assert made_entry.details == {
            "link_id": made.link_id, "approval_id": question.approval_id, "name": "ann",
            "expires_at": made.expires_at.isoformat(),
        }  # fmt: skip
        assert made.url.rsplit(".", 1)[1] not in str(await world.audit())

        again = await http.get(made.url)
        assert (again.status_code, "was used already" in again.text) == (410, True)
        assert "<form" not in again.text


async def test_a_plan_is_rejected_by_link_with_a_word(linked):
    async with linked() as world, browser(world) as http:
        await world.runtime.people.create_token(world.runtime.owner, "ann", Role.OPERATOR)
        plan_id = await world.propose()
        (question,) = await world.pending()
        made = await world.runtime.links.make(world.ann, question.approval_id)
        page = await http.get(made.url)
        assert "**a**" in page.text
        assert "<script" not in page.text
        assert "plan_decision" not in page.text
        done = await decide(http, made.url, "reject", feedback="too risky")

        assert "Rejected" in done.text
        status = await world.runtime.plans.get(world.ann, plan_id)
        assert status.status == "rejected"


@on_both
async def test_two_clicks_at_once_are_one_decision(linked):
    async with linked() as world:
        _, made = await asked(world)
        token = made.url.rsplit("/", 1)[1]
        pages = []

        async def click(word):
            pages.append(await world.runtime.links.decide(token, word))

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                for word in (DecisionWord.APPROVE, DecisionWord.REJECT) * 3:
                    group.start_soon(click, word)

        assert sorted(page.state for page in pages) == ["done", *["used"] * 5]
        assert len(of(await world.log(), "approval_resolved")) == 1
        decided = [e for e in await world.audit() if e.action in {"tool.approved", "tool.rejected"}
                   and e.details.get("decision")]  # fmt: skip
        assert len(decided) == 1


async def test_a_link_that_is_forged_or_for_something_else_is_not_known(linked):
    async with linked() as world, browser(world) as http:
        _, made = await asked(world)
        link_id, mac = made.url.rsplit("/", 1)[1].split(".")
        other = "link_" + "0" * 32
        flipped = mac[:-2] + ("AA" if mac[-2:] != "AA" else "BB")
        answers = set()
        for token in (f"{link_id}.{flipped}", f"{other}.{mac}", link_id, f"{link_id}.", "x", "%00"):
            for answer in (await http.get(f"/d/{token}"), await decide(http, f"/d/{token}")):
                answers.add((answer.status_code, answer.text))

        assert len(answers) == 1
        assert answers.pop()[0] == 404
        assert len(await world.pending()) == 1
        assert (await http.get(made.url)).status_code == 200


async def test_whoever_guesses_is_told_to_wait_and_a_right_link_still_works(linked):
    async with linked() as world, browser(world) as http:
        _, made = await asked(world)
        seen = [(await http.get(f"/d/guess{n}")).status_code for n in range(25)]

        assert set(seen[:20]) == {404}
        assert set(seen[20:]) == {429}
        assert (await http.get(made.url)).status_code == 200


async def test_only_a_form_of_the_page_itself_decides(linked):
    async with linked() as world, browser(world) as http:
        _, made = await asked(world)
        body = {"data": {"decision": "approve"}}
        tries = [
            await http.post(made.url, json={"decision": "approve"}),
            await http.post(made.url, **body, headers={"origin": "https://evil.example"}),
            await http.post(made.url, **body, headers={"sec-fetch-site": "cross-site"}),
            await http.post(made.url, data={"decision": "edit"}),
            await http.post(made.url, data={"decision": "hold"}),
            await http.post(made.url, content=b"", headers=FORM),
            await http.post(made.url, content=b"decision=approve&decision=reject", headers=FORM),
            await http.post(made.url, content=b"decision=%ff", headers=FORM),
            await http.post(made.url, content=b"\xff", headers=FORM),
            await http.post(made.url, content=b"a" * 70_000, headers=FORM),
            await http.post(made.url, data={"decision": "approve", "feedback": "x" * 4_001}),
            await http.post(made.url, **body, headers={"host": "rebound.example"}),
        ]
        assert [t.status_code for t in tries] == [
            415, 403, 403, 422, 422, 422, 422, 422, 422, 413, 422, 403,
        ]  # fmt: skip
        assert "The form has more than 65536 bytes" in tries[9].text
        assert len(await world.pending()) == 1
        api = await http.get("/api/v1/approvals", headers={"origin": "null"})
        assert api.status_code == 403, "elsewhere a foreign origin stays one"


async def test_a_link_expires_before_or_with_its_question(linked):
    async with linked(link_expiry=3_600, approval_expiry_tool=7_200) as world:
        question, made = await asked(world)
        token = made.url.rsplit("/", 1)[1]
        assert (made.expires_at - question.created_at).total_seconds() == pytest.approx(
            3_600, abs=60
        )
        await world.later(3_700)
        assert (await world.runtime.links.page(token)).state is LinkState.EXPIRED
        page = await world.runtime.links.decide(token, DecisionWord.APPROVE)
        assert page.state is LinkState.EXPIRED
        assert len(await world.pending()) == 1

        late = await world.runtime.links.make(world.runtime.owner, question.approval_id, "ann")
        assert late.expires_at == question.expires_at
        await world.later(3_600)
        page = await world.runtime.links.page(late.url.rsplit("/", 1)[1])
        assert page.state is LinkState.EXPIRED


async def test_a_link_dies_with_its_question(linked):
    async with linked() as world, browser(world) as http:
        question, made = await asked(world)
        await world.decide(question.call_id, "reject")
        page = await http.get(made.url)

        assert page.status_code == 410
        assert "ann has already decided this. Outcome: Rejected" in page.text
        assert "<form" not in page.text
        with pytest.raises(Conflict):
            await world.runtime.links.make(world.ann, question.approval_id)


async def test_a_link_that_was_withdrawn_decides_nothing(linked):
    async with linked() as world, browser(world) as http:
        question, made = await asked(world)
        await world.runtime.links.revoke(world.runtime.owner, question.approval_id)
        answer = await decide(http, made.url)

        assert (answer.status_code, "revoked" in answer.text) == (410, True)
        assert EVIL[:8] not in answer.text
        assert len(await world.pending()) == 1
        [entry] = await world.audit("link.revoked")
        assert (entry.actor, entry.subject) == ("local", "user:ann")
        assert entry.details == {
            "link_id": made.link_id, "approval_id": question.approval_id, "name": "ann",
        }  # fmt: skip


async def test_who_is_no_admin_withdraws_only_the_links_in_their_own_name(linked):
    async with linked() as world, browser(world) as http:
        await world.runtime.people.create_token(world.runtime.owner, "root", Role.ADMIN)
        question, made = await asked(world)
        other = await world.runtime.links.make(world.runtime.owner, question.approval_id, "root")
        await world.runtime.links.revoke(world.ann, question.approval_id)

        assert (await http.get(made.url)).status_code == 410
        assert (await http.get(other.url)).status_code == 200
        [entry] = await world.audit("link.revoked")
        assert entry.details["link_id"] == made.link_id
        with pytest.raises(NotFound):
            await world.runtime.links.revoke(world.bob, question.approval_id)
        assert (await decide(http, other.url, "reject")).status_code == 200


async def test_a_link_of_a_plan_that_was_edited_decides_nothing_of_the_new_one(linked):
    async with linked() as world, browser(world) as http:
        await world.runtime.people.create_token(world.runtime.owner, "ann", Role.OPERATOR)
        plan_id = await world.propose()
        (question,) = await world.pending()
        made = await world.runtime.links.make(world.ann, question.approval_id)
        await world.send({
            "type": "plan_decision", "plan_id": plan_id, "decision": "edit",
            "modified_subtasks": [step("b")],
        })  # fmt: skip
        answer = await decide(http, made.url)

        assert answer.status_code == 410
        assert "Approved with changes" in answer.text


async def test_what_changed_under_a_link_makes_it_stale(linked):
    async with linked() as world, browser(world) as http:
        question, made = await asked(world)
        world.honest = False
        await world.runtime.parts.store.write(_other_digest, question.approval_id)
        answer = await decide(http, made.url)

        assert (answer.status_code, "has changed" in answer.text) == (410, True)
        assert len(await world.pending()) == 1


def _other_digest(tx, approval_id):
    from gonogo.store.rows import change
    from gonogo.store.schema import approvals

    assert change(tx, approvals, {"id": approval_id}, {"digest": "sha256:other"})


@pytest.mark.parametrize("how", ["revoked", "fell"])
async def test_a_link_is_worth_what_its_person_is_now(linked, how):
    async with linked() as world, browser(world) as http:
        owner = world.runtime.owner
        view, _ = await world.runtime.people.create_token(owner, "bob", Role.ADMIN)
        if how == "fell":
            await world.runtime.people.create_token(owner, "bob", Role.OPERATOR)
        await world.say("Write", "coder")
        (question,) = await world.pending()
        made = await world.runtime.links.make(owner, question.approval_id, "bob")
        assert (await http.get(made.url)).status_code == 200
        await world.runtime.people.revoke_token(owner, view.token_id)
        seen, answer = await http.get(made.url), await decide(http, made.url)

        for each in (seen, answer):
            assert (each.status_code, "bob can no longer decide" in each.text) == (410, True)
            assert "write_file" not in each.text
        assert len(await world.pending()) == 1


async def test_a_refused_answer_does_not_spend_the_link(linked, monkeypatch):
    async with linked() as world, browser(world) as http:
        _, made = await asked(world)
        kind = world.runtime.parts.desk.kinds["tool"]

        class Refuses:
            def settle(self, *_):
                raise Conflict("not now")

        monkeypatch.setitem(world.runtime.parts.desk.kinds, "tool", Refuses())
        first = await decide(http, made.url)
        assert (first.status_code, "not now" in first.text) == (409, True)
        assert "<form" in first.text
        monkeypatch.setitem(world.runtime.parts.desk.kinds, "tool", kind)
        assert (await decide(http, made.url)).status_code == 200
        link = await world.runtime.parts.store.read(link_of, made.link_id)
        assert link.used_at is not None


async def test_a_vote_by_link_counts_once_and_others_are_still_needed(linked, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text(
        '[[review]]\nkind = "plan"\napprovals = 2\nreviewers = ["ann", "bob"]\n'
    )
    async with linked() as world, browser(world) as http:
        for name in ("ann", "bob", "eve"):
            await world.runtime.people.create_token(world.runtime.owner, name, Role.OPERATOR)
        await world.propose()
        (question,) = await world.pending()
        urls = [
            (await world.runtime.links.make(world.runtime.owner, question.approval_id, name)).url
            for name in ("ann", "bob")
        ]
        with pytest.raises(Forbidden):
            await world.runtime.links.make(world.runtime.owner, question.approval_id, "eve")
        first, again = await decide(http, urls[0]), await decide(http, urls[0])
        assert "Other people have to approve, too" in first.text
        assert again.status_code == 410
        second = await decide(http, urls[1])
        assert "Thank you, bob: Approved." in second.text
        await world.until("plan_completed")


async def test_who_makes_links_for_whom(linked):
    async with linked() as world:
        question, _ = await asked(world)
        bob = Principal(id="user:bob", name="bob", role=Role.OPERATOR)
        await world.runtime.people.create_token(world.runtime.owner, "bob", Role.OPERATOR)
        viewer = Principal(id="user:ann", name="ann", role=Role.VIEWER)
        with pytest.raises(Forbidden):
            await world.runtime.links.make(world.ann, question.approval_id, "bob")
        with pytest.raises(NotFound):
            await world.runtime.links.make(bob, question.approval_id)
        with pytest.raises(Forbidden):
            await world.runtime.links.make(world.runtime.owner, question.approval_id, "bob")
        with pytest.raises(NotFound):
            await world.runtime.links.make(world.runtime.owner, question.approval_id, "nobody")
        with pytest.raises(Forbidden):
            await world.runtime.links.make(viewer, question.approval_id)
        own = await world.runtime.links.make(world.ann, question.approval_id, "ann")
        assert own.name == "ann"


async def test_without_a_public_address_there_are_no_links(make):
    async with make(LINES) as world:
        await world.runtime.people.create_token(world.runtime.owner, "ann", Role.OPERATOR)
        await world.say("Write", "coder")
        (question,) = await world.pending()
        with pytest.raises(Conflict, match="GONOGO_PUBLIC_URL"):
            await world.runtime.links.make(world.ann, question.approval_id)


async def test_the_key_is_the_owners_alone_and_stays(linked):
    async with linked() as world, browser(world):
        _, made = await asked(world)
        key = world.root / "home" / "link.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert len(key.read_bytes()) == 32
        assert [p.name for p in key.parent.glob("link.key*")] == ["link.key"]
        await world.restart()
        async with browser(world) as after:
            assert (await after.get(made.url)).status_code == 200
        key.write_bytes(b"x" * 32)
        async with browser(world) as after:
            assert (await after.get(made.url)).status_code == 404


def test_the_key_is_made_once_in_a_folder_that_only_its_owner_enters(tmp_path):
    home = tmp_path / "new" / "home"
    key = link_key(home)

    assert (len(key), link_key(home)) == (32, key)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "link.key").stat().st_mode) == 0o600
    assert [each.name for each in home.iterdir()] == ["link.key"]


async def test_a_link_is_made_and_ended_over_http(linked):
    async with linked() as world, browser(world) as http:
        question, _ = await asked(world)
        _, secret_ = await world.runtime.people.create_token(
            world.runtime.owner, "ann", Role.OPERATOR
        )
        bearer = {"authorization": f"Bearer {secret_}"}
        path = f"/api/v1/approvals/{question.approval_id}/links"
        made = await http.post(path, headers=bearer)
        assert made.status_code == 201, made.text
        assert re.fullmatch(rf"{PUBLIC}/d/link_[0-9a-f]{{32}}\.[\w-]{{43}}", made.json()["url"])
        assert (await http.post(path)).status_code == 401
        assert (await http.delete(path, headers=bearer)).status_code == 204
        assert (await http.get(made.json()["url"])).status_code == 410
        assert (await http.delete(f"{path[:-7]}x/links", headers=bearer)).status_code == 404


async def test_a_hook_is_given_links_that_are_in_no_table(linked, hooks):  # noqa: F811
    async with receiver() as told:
        hooks(told.url, 'links_for = ["ann", "nobody", "local"]')
        async with linked() as world, browser(world) as http:
            await world.runtime.people.create_token(world.runtime.owner, "ann", Role.OPERATOR)
            await world.say("Write", "coder")
            (request,) = await told.got(1)
            (link,) = request.message["data"]["links"]
            (question,) = await world.pending()
            [entry] = await world.audit("link.made")
            expires = entry.details["expires_at"].replace("+00:00", "Z")
            assert (entry.actor, entry.details["approval_id"]) == ("gonogo", question.approval_id)
            assert link == {
                "for": "ann", "link_id": entry.details["link_id"], "url": link["url"],
                "expires_at": expires,
            }  # fmt: skip
            assert link["url"].startswith(f"{PUBLIC}/d/{link['link_id']}.")
            told_of = request.message["data"]["approval"]
            assert set(request.message["data"]) == {"session_id", "text", "approval", "links"}
            assert told_of == question.model_dump(mode="json", exclude_none=True)
            await world.idle()
            database = (world.root / "home" / "gonogo.db").read_bytes()
            wal = world.root / "home" / "gonogo.db-wal"
            assert link["url"].rsplit(".", 1)[1].encode() not in database + wal.read_bytes()
            assert (await decide(http, link["url"])).status_code == 200
            resolved = (await told.got(2))[1].message["data"]

    assert "links" not in resolved
    assert resolved["approval"]["decided_by"] == "ann"
