"""Whoever watches is told of each question once when it comes, and once when it is over."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from gonogo.cli.session.live import (
    News,
    OpenQuestions,
    _as_json,
    _looked,
    _writer,
    news_line,
    watch_news,
)
from gonogo.cli.terminal.render import review_lines
from gonogo.client import Client
from gonogo.domain.errors import NotFound
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalView, SessionView

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


SESSION = SessionView(
    session_id="s1", workspace="/x", agent="coder", last_seq=0, created_at=NOW, updated_at=NOW
)


def question(key, **more):
    fields = {
        "approval_id": key, "request_id": "r", "kind": "tool", "request_type": "tool",
        "session_id": "s1", "subject": "run \x1b[2Jmake", "details": {}, "reason": "",
        "digest": "d", "status": "pending", "created_at": NOW,
    }  # fmt: skip
    return ApprovalView(**fields | more)


PIECES = (
    {},
    {"session_id": "s1", "events": ["plan_progress", "subtask_started"]},
    {"session_id": "s1", "events": ["approval_requested"]},
    {"events": ["approval_granted"]},
)
"""What the news say: that they begin, and what happened in a session of ours and in another's."""


class Server:
    """Questions that are open, and how others ended."""

    def __init__(self) -> None:
        self.open, self.past, self.ended, self.asked = [], [], {}, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rsplit("/", 1)[1]
        if name == "s1":
            return httpx.Response(200, content=SESSION.model_dump_json())
        if name == "news":
            told = "".join(f"data: {json.dumps({'type': 'news', **each})}\n\n" for each in PIECES)
            return httpx.Response(200, content=told)
        if name == "approvals":
            self.asked.append(str(request.url.query))
            wanted = self.open if "status" in request.url.params else [*self.past, *self.open]
            found = [json.loads(each.model_dump_json(exclude_none=True)) for each in wanted]
            return httpx.Response(200, json={"approvals": found, "count": len(found)})
        if name not in self.ended:
            return httpx.Response(404, json={"code": "not_found", "detail": "none"})
        return httpx.Response(200, content=self.ended[name].model_dump_json(exclude_none=True))


async def test_whoever_watches_a_session_that_is_not_there_is_told_so():
    desk = OpenQuestions(session_id="s_typo")
    async with Client("http://x", transport=httpx.MockTransport(Server())) as client:
        with pytest.raises(NotFound):
            await _looked(desk, client)


async def test_a_question_is_news_when_it_comes_changes_and_ends():
    server, desk = Server(), OpenQuestions(mine=True)
    vote = {"name": "ann", "decision": "approve", "created_at": NOW}
    async with Client("http://x", transport=httpx.MockTransport(server)) as client:

        async def news():
            found = await desk.look(client)
            return [(n.change, n.approval.approval_id, n.approval.status) for n in found]

        server.open = [question("a"), question("b")]
        assert await news() == [("asked", "a", "pending"), ("asked", "b", "pending")]
        assert await news() == []
        server.open = [question("a", votes=[vote])]
        server.ended["b"] = question("b", status="rejected")
        assert await news() == [("closed", "b", "rejected"), ("changed", "a", "pending")]
        server.open = []
        assert await news() == [("closed", "a", "cancelled")]
    assert all("mine=true" in query and "status=pending" in query for query in server.asked)


async def test_a_question_that_is_asked_and_answered_between_two_looks_is_told_once():
    server, desk = Server(), OpenQuestions()
    soon = datetime.now(UTC)
    async with Client("http://x", transport=httpx.MockTransport(server)) as client:

        async def news():
            return [(n.change, n.approval.approval_id) for n in await desk.look(client)]

        server.past = [question("before", status=ApprovalStatus.APPROVED, created_at=soon)]
        assert await news() == []
        long_ago = question("long_ago", status=ApprovalStatus.APPROVED)
        between = question("between", status=ApprovalStatus.REJECTED, created_at=soon)
        server.past = [long_ago, *server.past, between]
        server.open = [question("open", created_at=soon)]
        told = [("asked", "between"), ("closed", "between"), ("asked", "open")]
        assert await news() == told
        server.open, server.ended["open"] = [], question("open", status="approved")
        server.past.append(question("open", status="approved", created_at=soon))
        assert await news() == [("closed", "open")]
        assert await news() == []


async def test_what_is_answered_during_a_look_is_told_once():
    server, desk = Server(), OpenQuestions()
    both = question("a", created_at=datetime.now(UTC))
    done = both.model_copy(update={"status": ApprovalStatus.APPROVED})
    async with Client("http://x", transport=httpx.MockTransport(server)) as client:
        await desk.look(client)
        server.open, server.past = [both], [done]
        assert [n.change for n in await desk.look(client)] == ["asked"]
        server.open, server.ended = [], {"a": done}
        assert [n.change for n in await desk.look(client)] == ["closed"]
        assert await desk.look(client) == []


async def test_questions_are_looked_at_when_the_news_tell_of_one_and_no_more_often():
    server, desk, told = Server(), OpenQuestions(mine=True), list[News]()
    server.open = [question("a")]
    async with Client("http://x", transport=httpx.MockTransport(server)) as client:
        await watch_news(desk, client, told.append)

    assert ([news.change for news in told], len(server.asked)) == (["asked"], 3)


VOTE = {"name": "ann", "decision": "approve", "created_at": NOW}
REVIEW = {"needed": 2, "role": "operator", "rules": ["r"]}


def test_who_has_approved_is_named_beside_how_many_must():
    votes = [{"name": name, "decision": "approve", "created_at": NOW} for name in ("ann", "bob")]
    asked = question("a", review=REVIEW | {"needed": 3}, votes=votes)

    assert [*review_lines(asked, "ru")] == ["одобрений: 2 из 3", "одобрили: ann, bob"]


@pytest.mark.parametrize(
    ("change", "fields", "said"),
    [
        ("asked", {}, "12:30:00Z ? a tool s1 run \\x1b[2Jmake · gonogo approvals show a"),
        ("changed", {"review": REVIEW}, "12:30:00Z ~ a tool s1 pending, approvals: 0 of 2: run"),
        ("closed", {"status": "expired"}, "12:30:00Z - a tool s1 expired"),
        (
            "closed",
            {
                "status": "rejected", "decided_by": "ann", "feedback": "no\nway",
                "decided_at": NOW.replace(hour=13),
            },
            "13:30:00Z ✗ a tool s1 rejected by ann: no ⏎ way",
        ),
        (
            "closed",
            {"status": "approved", "decided_by": "bob", "approved_by": ["ann", "bob"]},
            "12:30:00Z ✓ a tool s1 approved by ann, bob",
        ),
    ],
)  # fmt: skip
def test_what_happened_is_one_line(change, fields, said, monkeypatch):
    monkeypatch.setattr("gonogo.cli.session.live.program", lambda: "gonogo")
    line = news_line(News(change, question("a", **fields)), "en")

    assert line.startswith(said)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("change", "fields", "said"),
    [
        ("asked", {"subject": "x" * 101, "decided_at": NOW.replace(hour=3)},
         f"12:30:00Z ? a вызов инструмента s1 {'x' * 99}… · gonogo approvals show a"),
        ("changed", {"review": REVIEW, "votes": [VOTE]},
         "12:30:00Z ~ a вызов инструмента s1 ждёт ответа, одобрений: 1 из 2: run \\x1b[2Jmake"),
        ("closed", {"status": "edited", "decided_by": "ann", "decided_at": NOW.replace(hour=3)},
         "03:30:00Z ✓ a вызов инструмента s1 изменён и одобрен, решение: ann"),
        ("closed", {"status": "cancelled", "feedback": "f\x07"},
         "12:30:00Z - a вызов инструмента s1 отменён: f\\x07"),
        ("closed", {"status": "approved", "decided_by": "b\nob", "approved_by": []},
         "12:30:00Z ✓ a вызов инструмента s1 одобрен, решение: b ⏎ ob"),
    ],
)  # fmt: skip
def test_what_happened_is_told_whole_in_the_language_of_who_watches(
    change, fields, said, monkeypatch
):
    monkeypatch.setattr("gonogo.cli.session.live.program", lambda: "gonogo")
    assert news_line(News(change, question("a", **fields)), "ru") == said


def test_what_happened_is_one_object_a_line_for_programs(capsys):
    asked = question("a", subject="ж")
    _writer("ru", json=True, bell=True)(News("asked", asked))
    _writer("ru", json=False, bell=True)(News("closed", asked))
    first, second = capsys.readouterr().out.splitlines()

    assert json.loads(first) == {
        "change": "asked", "approval": asked.model_dump(mode="json", exclude_none=True),
    }  # fmt: skip
    assert first == _as_json(News("asked", asked))
    assert first.isascii()
    assert second == "12:30:00Z - a вызов инструмента s1 ждёт ответа"


async def test_where_nobody_can_be_asked_nothing_is_known_and_nothing_forgotten():
    def away(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("gone")

    desk = OpenQuestions(session_id="s1")
    assert await _looked(desk, None) is None
    async with Client("http://x", transport=httpx.MockTransport(away)) as client:
        assert await _looked(desk, client) is None
    server = Server()
    server.open = [question("a")]
    async with Client("http://x", transport=httpx.MockTransport(server)) as client:
        assert [news.change for news in await _looked(desk, client) or ()] == ["asked"]
        server.open = [question("a", escalated_at=NOW)]
        assert [news.change for news in await _looked(desk, client) or ()] == ["changed"]
    assert all("session_id=s1" in query and "mine" not in query for query in server.asked)
