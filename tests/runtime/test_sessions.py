"""Sessions: opened with what was said, shown to whom they belong, and read from any place on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.rows import NOW, call, session
from fakes.world import calls, plan, run, says, step, world_of, write
from gonogo.domain.errors import NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import SessionPlace
from gonogo.domain.states import CallStatus, SessionState
from gonogo.domain.tool_calls import RUNTIME
from gonogo.execution.agent import NOBODYS, runtime_profile
from gonogo.runtime.approvals import _thread_of
from gonogo.runtime.sessions import _place_of, _results
from gonogo.store.sessions import MessageRow, spoken_in

LINES = {
    "main/architect": [plan(step("one"))],
    "main/coder": [calls(write("a.txt"), run("make all"), text="First"), says("Then")],
    "one": [calls(write("one.txt")), says("one is there")],
}


async def test_a_session_has_what_it_was_opened_with_and_the_audit_log_says_by_whom(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, LINES, locale="ru") as world:
        (world.folder / "sub").mkdir()
        given: dict[str, Any] = {
            "session_id": "s1", "title": "T", "locale": "en", "tool_host": "client",
            "model": "demo", "unattended": True,
        }  # fmt: skip
        view = await world.runtime.sessions.open(
            world.ann, **given, workspace=f"{world.folder}/sub/../sub"
        )
        plain = await world.runtime.sessions.open(world.ann)
        entries = await world.runtime.audit.entries(world.runtime.owner)

    assert view.workspace.endswith("/sub")
    shown = view.model_dump(exclude_none=True, exclude={"created_at", "updated_at", "workspace"})
    assert shown == {**given, "agent": "orchestrator", "last_seq": 0}
    assert plain.session_id.startswith("s_")
    shown = plain.model_dump(exclude_none=True, exclude={"created_at", "updated_at"})
    assert shown == {
        "session_id": plain.session_id, "workspace": str(world.folder), "tool_host": "server",
        "agent": "orchestrator", "last_seq": 0, "unattended": False,
    }  # fmt: skip
    [first, second] = [each for each in entries if each.action == "session.opened"]
    assert (first.actor, first.subject) == ("user:ann", "s1")
    assert first.details == {"workspace": view.workspace}
    assert (second.subject, second.details) == (plain.session_id, {"workspace": str(world.folder)})


async def test_a_title_and_a_language_are_changed_each_by_itself(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES, locale="ru") as world:
        verbs, ann = world.runtime.sessions, world.ann
        await verbs.open(ann, session_id="s1", title="T", locale="en")
        edit = verbs.edit

        async def spoken() -> str:
            return await world.runtime.parts.store.read(spoken_in, "s1") or ""

        found = await edit(ann, "s1", title="New")
        assert (found.title, found.locale, await spoken()) == ("New", "en", "en")
        found = await edit(ann, "s1", locale=None)
        assert (found.title, found.locale, await spoken()) == ("New", None, "ru")
        found = await edit(ann, "s1", locale="en")
        assert (found.title, found.locale, await spoken()) == ("New", "en", "en")
        assert found.updated_at > found.created_at


async def test_sessions_are_found_by_a_word_and_shown_page_by_page(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        page, ann = world.runtime.sessions.page, world.ann
        for number in range(3):
            await world.runtime.sessions.open(ann, session_id=f"a{number}", title="Write")
        await world.runtime.sessions.open(ann, session_id="b", title="Read")
        await world.runtime.sessions.open(world.bob, session_id="c", title="Write")

        def ids(found: Any) -> tuple[list[str], int]:
            return [each.session_id for each in found.sessions], found.total

        assert ids(await page(ann, 2, 0)) == (["b", "a2"], 4)
        assert ids(await page(ann, 2, 2)) == (["a1", "a0"], 4)
        assert ids(await page(ann, 2, 0, "write")) == (["a2", "a1"], 3)
        assert ids(await page(ann, 2, 2, "write")) == (["a0"], 3)
        assert (await page(world.runtime.owner, 9, 0, "write")).total == 4


async def test_the_list_goes_on_after_its_page_and_says_how_sessions_stand(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        page, ann = world.runtime.sessions.page, world.ann
        for number in range(3):
            await world.runtime.sessions.open(ann, session_id=f"a{number}")
        first = await page(ann, 2)
        assert [each.session_id for each in first.sessions] == ["a2", "a1"]
        rest = await page(ann, 2, after=SessionPlace.read(first.next or ""))
        waits = await page(ann, 2, state=SessionState.WAITING)
        await world.decide_plan(plan_id, "reject")
        over = await page(ann, 2, state=SessionState.DONE)

        assert [each.session_id for each in rest.sessions] == ["a0", world.session]
        assert (rest.next, rest.total, waits.total, over.total) == (None, 4, 1, 1)
        [new, waiting] = [each.summary for each in rest.sessions if each.summary]
        assert (new.state, new.waiting, new.total) == (SessionState.NEW, 0, 0)
        assert (waiting.state, waiting.waiting, waiting.done, waiting.total) == (
            SessionState.WAITING, 1, 0, 1,
        )  # fmt: skip


async def test_folders_are_those_used_last_and_those_that_are_allowed(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        for number, name in enumerate(("one", "two", "one")):
            (world.folder / name).mkdir(exist_ok=True)
            await world.later(number)
            await world.runtime.sessions.open(world.ann, workspace=f"{world.folder}/{name}")
        await world.runtime.sessions.open(world.bob, workspace=str(world.folder))
        found = await world.runtime.sessions.workspaces(world.ann)

    assert found.recent == [f"{world.folder}/one", f"{world.folder}/two"]
    assert (found.default, found.roots) == (str(world.folder), [str(world.folder)])


async def test_what_a_session_took_counts_its_plans_too_and_is_told_beside_its_limits(
    tmp_path: Path,
) -> None:
    budget = {
        "budget_session_tokens": 10**6,
        "budget_session_cost": 2.0,
        "budget_plan_tokens": 9**6,
    }
    async with world_of(tmp_path, LINES, **budget) as world:
        await world.begin()
        own = await world.runtime.sessions.open(world.ann, limits={"tokens": 5.0, "cost": 3.0})
        opened = await world.runtime.sessions.usage(world.ann, own.session_id)
        await world.idle()
        used = await world.runtime.sessions.usage(world.ann, world.session)
        with pytest.raises(NotFound):
            await world.runtime.sessions.usage(world.bob, world.session)

    assert used.usage.requests == sum(len(world.model.asked(each)) for each in ("main", "one"))
    assert used.limits == {"tokens": 10**6, "cost": 2.0}
    # What a session is opened with only makes a limit lower.
    assert opened.limits == {"tokens": 5.0, "cost": 2.0}


async def test_news_say_which_sessions_change_to_those_who_may_know(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        streams = world.runtime.streams
        async with streams.news(world.ann) as hers, streams.news(world.bob) as his:
            for one in (hers, his):
                assert await anext(one) == {"type": "news"}

            async def until(one: Any, is_it: Callable[[Any], bool]) -> list[Any]:
                seen: list[Any] = []
                with anyio.fail_after(60):
                    while not seen or not is_it(seen[-1]):
                        seen.append(await anext(one))
                return seen

            await world.propose()
            await until(hers, lambda news: "approval_requested" in news.get("events", ()))
            foreign = await until(his, lambda news: "approval_requested" in news.get("events", ()))
            assert all("session_id" not in news for news in foreign)
            assert foreign[-1] == {"type": "news", "events": ["approval_requested"]}

            await world.runtime.sessions.edit(world.ann, world.session, title="Another")
            changed = (await until(hers, lambda news: news.get("events") == []))[-1]
            assert changed == {"type": "news", "session_id": world.session, "events": []}


async def test_the_log_is_read_back_from_any_place(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        log = await world.log()
        read, of, end = world.runtime.sessions.log_page, world.session, len(log)
        assert end > 5

        async def seqs(before: int | None, limit: int) -> list[int]:
            page = await read(world.ann, of, before, limit)
            assert page == [log[each["seq"] - 1] for each in page]
            return [each["seq"] for each in page]

        assert await seqs(None, 2) == [end - 1, end]
        assert await seqs(4, 2) == [2, 3]
        assert await seqs(3, 9) == [1, 2]
        assert await seqs(1, 9) == []
        assert await seqs(end + 9, 2) == [end - 1, end]
        assert await seqs(end + 1, 1) == [end]
        assert await seqs(end, 1) == [end - 1]


async def test_the_history_tells_what_was_said_asked_and_came_of_it(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.say("Make it", "coder")
        for question in await world.pending():
            await world.decide(question.call_id, "reject")
        found = await world.history()
        people = await world.runtime.sessions.history(world.ann, world.session, by_people=True)

    said, first, wrote, ran, last = [
        each.model_dump(exclude_none=True, exclude={"created_at"}) for each in found
    ]
    write_id, run_id = (each["id"] for each in first["tool_calls"])
    assert said == {"role": "user", "content": "Make it"}
    assert first == {
        "role": "assistant", "content": "First", "agent": "coder",
        "tool_calls": [
            {"id": write_id, "name": "write_file",
             "arguments": {"path": "a.txt", "content": "made\n"}},
            {"id": run_id, "name": "execute_command", "arguments": {"command": "make all"}},
        ],
    }  # fmt: skip
    assert {each["call_id"]: each["tool_name"] for each in (wrote, ran)} == {
        write_id: "write_file", run_id: "execute_command",
    }  # fmt: skip
    assert {each["role"] for each in (wrote, ran)} == {"tool"}
    assert last == {"role": "assistant", "content": "Then", "agent": "coder"}
    assert [each.content for each in people.messages] == ["Make it"]
    assert people.session_id == world.session


def message(thread: str) -> MessageRow:
    return MessageRow(thread=thread, agent="coder", body={}, created_at=NOW)


def test_a_message_is_of_the_subtask_whose_conversation_it_is_in() -> None:
    for thread, subtask in (
        ("main", None), ("p1/1/one", "one"), ("p1/1/one#2", "one"), ("main#2", None),
    ):  # fmt: skip
        assert _place_of(message(thread)) == {
            "agent": "coder", "subtask_id": subtask, "created_at": NOW,
        }  # fmt: skip


def test_results_are_told_in_the_order_of_their_calls_once_they_are_there() -> None:
    over = {"finished_at": NOW, "status": CallStatus.COMPLETED}
    rows = {
        "a": call("a", position=3, result={"х": 1}, **over),
        "b": call("b", position=2, error="not_found: no", result={"x": 1}, **over),
        "c": call("c", position=1), "d": call("d", position=4, error="", result=1, **over),
    }  # fmt: skip
    asked = [call(name) for name in ("a", "b", "c", "d", "gone")]
    place = {"agent": "coder", "subtask_id": None, "created_at": NOW}
    found = [each.model_dump(exclude_none=True) for each in _results(asked, rows, place)]

    told = {"role": "tool", "tool_name": "write_file", "agent": "coder", "created_at": NOW}
    assert found == [
        {**told, "call_id": "b", "content": "not_found: no"},
        {**told, "call_id": "a", "content": '{"х": 1}'},
        {**told, "call_id": "d", "content": ""},
    ]


async def test_a_rule_of_a_session_is_shown_with_who_made_it_and_ended_by_either_name(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, LINES) as world:
        verbs, ann = world.runtime.sessions, world.ann
        await verbs.open(ann, session_id="s1")
        rule = {"decision": "deny", "command": "make"}
        first, second = [await verbs.add_rule(ann, "s1", rule) for _ in range(2)]

        assert await verbs.rules(ann, "s1") == [first, second]
        shown = second.model_dump(exclude_none=True, exclude={"created_at", "rule_id"})
        assert shown == {
            "session_id": "s1", "name": "session:2", "rule": rule, "made_by": shown["made_by"],
        }  # fmt: skip
        assert shown["made_by"] in {"ann", "user:ann"}
        await verbs.remove_rule(ann, "s1", "session:1")
        assert await verbs.rules(ann, "s1") == [second]
        await verbs.remove_rule(world.runtime.owner, "s1", second.rule_id)
        assert await verbs.rules(ann, "s1") == []


def test_a_call_is_judged_anew_in_the_conversation_that_it_was_made_in() -> None:
    made = call(
        thread="p1/1/a", agent="debug", turn_id="t", plan_id="p1", revision=2, subtask_id="a"
    )
    found = _thread_of(session(workspace="/w", model="m", tool_host="client"), made)

    assert (found.session_id, found.name, found.script, found.agent) == (
        "s1", "p1/1/a", "", "debug",
    )  # fmt: skip
    assert (found.turn_id, found.plan_id, found.revision, found.subtask_id) == ("t", "p1", 2, "a")
    assert (found.workspace, found.model, found.remote) == (Path("/w"), "m", True)
    assert (found.owner, found.profile) == (NOBODYS, None)
    own = _thread_of(session(), call(agent=RUNTIME, tool="edit"))
    assert own.profile == runtime_profile("edit")


async def test_whose_sessions_somebody_sees_is_a_matter_of_their_role(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.propose()
        plans, grants = world.runtime.plans.page, world.runtime.plans.grants
        root = Principal(id="user:root", name="root", role=Role.ADMIN)
        for who, many in ((world.ann, 1), (world.bob, 0), (root, 1)):
            page = await plans(who)
            assert (page.total, len(page.plans)) == (many, many)
            assert (await plans(who, status="running")).total == 0
            assert (await plans(who, limit=0)).plans == []
            assert (await plans(who, offset=1)).plans == []
            assert await grants(who) == []
        assert (await plans(world.ann, world.session, "awaiting_approval")).total == 1
        assert await grants(world.ann, world.session) == []
