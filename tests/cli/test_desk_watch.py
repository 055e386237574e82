"""Whoever watches is told of each question once when it comes, and once when it is over."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from gonogo.cli.session.watching import News, OpenQuestions, news_line
from gonogo.cli.terminal.render import review_lines
from gonogo.client import Client
from gonogo.domain.views import ApprovalView

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def question(key, **more):
    fields = {
        "approval_id": key, "request_id": "r", "kind": "tool", "request_type": "tool",
        "session_id": "s1", "subject": "run \x1b[2Jmake", "details": {}, "reason": "",
        "digest": "d", "status": "pending", "created_at": NOW,
    }  # fmt: skip
    return ApprovalView(**fields | more)


class Server:
    """Questions that are open, and how others ended."""

    def __init__(self) -> None:
        self.open, self.ended, self.asked = [], {}, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rsplit("/", 1)[1]
        if name == "approvals":
            self.asked.append(str(request.url.query))
            found = [json.loads(each.model_dump_json(exclude_none=True)) for each in self.open]
            return httpx.Response(200, json={"approvals": found, "count": len(found)})
        if name not in self.ended:
            return httpx.Response(404, json={"code": "not_found", "detail": "none"})
        return httpx.Response(200, content=self.ended[name].model_dump_json(exclude_none=True))


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


REVIEW = {"needed": 2, "role": "operator", "rules": ["r"]}


def test_who_has_approved_is_named_beside_how_many_must():
    votes = [{"name": name, "decision": "approve", "created_at": NOW} for name in ("ann", "bob")]
    asked = question("a", review=REVIEW | {"needed": 3}, votes=votes)

    assert [*review_lines(asked, "ru")] == ["подтверждений: 2 из 3", "подтвердили: ann, bob"]


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
    monkeypatch.setattr("gonogo.cli.session.watching.program", lambda: "gonogo")
    line = news_line(News(change, question("a", **fields)), "en")

    assert line.startswith(said)
    assert "\n" not in line
