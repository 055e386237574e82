"""The client gives back what the server said, as the domain's own values and errors."""

import json

import anyio
import httpx
import pytest

from gonogo.client import Client, NoAnswer, Unintelligible, Unreachable, error_of, read_event
from gonogo.domain import errors
from gonogo.domain.events import AssistantMessage, Event
from gonogo.domain.messages import HitlDecision, UserMessage
from gonogo.domain.views import SessionView


async def test_it_opens_lists_and_reads_sessions_over_the_socket(client):
    async with client() as c:
        made = await c.open_session(session_id="s_new", title="New")
        page = await c.sessions()
        again = await c.session("s_new")
        history = await c.history("s_new")

    assert isinstance(made, SessionView)
    assert made == again
    assert page.total == 2
    assert history.messages == []


@pytest.mark.parametrize(
    "message",
    [UserMessage(type="user_message", content="hi"), {"type": "user_message", "content": "hi"}],
)
async def test_a_message_gives_its_events_without_the_frame_that_closes_them(
    client, runtime, message
):
    async with client() as c:
        events = [event async for event in c.send("s_A", message)]

    assert [event["content"] for event in events] == ["При", "Привет"]
    assert runtime.accepted[0][0].content == "hi"


async def test_a_decision_is_sent_as_it_was_made(client, runtime):
    async with client() as c:
        decision = HitlDecision(call_id="c1", decision="reject", feedback="Нет")
        async for _ in c.send("s_A", decision):
            pass

    assert runtime.accepted[0][0] == decision


async def test_following_replays_and_goes_on_until_the_reader_leaves(client, runtime):
    for n in range(3):
        runtime.happen("s_A", {"type": "assistant_message", "content": str(n), "seq": 0})
    got = []
    async with client() as c:
        with anyio.fail_after(60):
            async for event in c.follow("s_A", after=1):
                got.append(event["seq"])
                if event["seq"] == 3:
                    runtime.happen("s_A", {"type": "assistant_message", "content": "3", "seq": 0})
                if event["seq"] == 4:
                    break

    assert got == [2, 3, 4]


async def test_refusals_are_raised_as_the_errors_they_were(client, runtime):
    async with client() as c:
        with pytest.raises(errors.NotFound, match="no such session"):
            await c.session("s_404")
        with pytest.raises(errors.NotFound):
            await anext(c.send("s_404", {"type": "cancel"}))
        with pytest.raises(errors.InvalidCursor):
            await anext(c.follow("s_A", after=9))
        with pytest.raises(errors.UnknownType):
            await anext(c.send("s_A", {"type": "odd"}))
        with pytest.raises(errors.Conflict, match="taken"):
            await c.open_session(session_id="s_A")
        with pytest.raises(errors.Forbidden):
            await c.create_token(name="ci", role="viewer")


async def test_a_wrong_token_is_unauthorized(client):
    async with client(token="wrong") as c:
        with pytest.raises(errors.Unauthorized):
            await c.sessions()
        assert (await c.health()).status == "ok"


async def test_who_decided_first_is_told(against):
    body = {
        "code": "already_decided", "status": 409, "detail": "c1 was already approved by Ann",
        "decision": "approved", "decided_by": "Ann", "decided_at": "today",
    }  # fmt: skip
    async with against(lambda _: httpx.Response(409, json=body)) as c:
        with pytest.raises(errors.AlreadyDecided) as caught:
            await c.decide("a1", "approve")

    assert str(caught.value) == "c1 was already approved by Ann"
    assert (caught.value.decision, caught.value.decided_by) == ("approved", "Ann")
    assert caught.value.decided_at == "today"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (422, "invalid_plan", errors.InvalidPlan), (422, "invalid_message", errors.InvalidMessage),
        (415, "invalid_message", errors.UnsupportedMedia), (403, "policy_denied",
        errors.PolicyDenied), (410, "expired", errors.Expired), (429, "rate_limited",
        errors.RateLimited), (502, "model_error", errors.ModelFailed), (503, "internal",
        errors.Busy), (503, "unavailable", errors.Busy), (500, "internal", errors.Internal),
        (418, "new_word", errors.Refused),
        (599, "", errors.Internal), (409, "conflict", errors.Conflict),
    ],
)  # fmt: skip
def test_each_code_has_its_error(status, code, kind):
    error = error_of({"status": status, "code": code, "detail": "why"})

    assert type(error) is kind
    assert str(error) == "why"


def test_an_error_without_some_of_its_parts_is_still_one():
    event, empty = error_of({"code": "conflict", "content": "why"}), error_of({})
    first, last = error_of({"status": 499, "code": "odd"}), error_of({"status": 500, "code": "odd"})
    decided = error_of({"code": "already_decided"})

    assert (type(event), str(event)) == (errors.Conflict, "why")
    assert (type(empty), str(empty)) == (
        errors.Refused,
        "The server refused this and gave no reason; look in its log",
    )
    assert (type(first), type(last)) == (errors.Refused, errors.Internal)
    assert (decided.decision, decided.decided_by, decided.decided_at) == ("", "", "")


@pytest.mark.parametrize("text", ["<html>", "[]"])
async def test_an_answer_that_is_no_problem_document_is_still_an_error(against, text):
    async with against(lambda _: httpx.Response(502, text=text)) as c:
        with pytest.raises(errors.Internal) as refused:
            await c.agents()

    assert str(refused.value) == (
        "The server answered 502 Bad Gateway; try again, and if that does not help, look in its log"
    )


async def test_a_refusal_without_a_status_has_that_of_its_answer(against):
    async with against(lambda _: httpx.Response(503, json={"code": "internal"})) as c:
        with pytest.raises(errors.Busy):
            await c.agents()


async def test_an_answer_of_something_else_is_said_to_be_none(against):
    async with against(lambda _: httpx.Response(200, text="<html>")) as c:
        with pytest.raises(Unintelligible, match="not a valid SessionView"):
            await c.session("s_A")


@pytest.mark.parametrize(
    "name", ["../health", "a/b", "a?b", "a#b", "a b", "a%2Fb", "a\nb", "ж", ""]
)
async def test_what_cannot_be_an_id_is_not_found_and_asks_nothing(against, name):
    asked: list[httpx.Request] = []
    async with against(lambda request: asked.append(request) or httpx.Response(204)) as c:
        for ask in (c.session, c.cancel_plan, c.delete_session, c.approval, c.revoke_token):
            with pytest.raises(errors.NotFound):
                await ask(name)
        with pytest.raises(errors.NotFound):
            c.follow(name)
    assert asked == []


async def test_an_id_of_dots_leads_nowhere_else(client, runtime):
    async with client() as c:
        for name in (".", ".."):
            with pytest.raises(errors.NotFound, match="no such session"):
                await c.session(name)


async def test_no_server_is_said(tmp_path):
    async with Client(uds=tmp_path / "none") as c:
        with pytest.raises(Unreachable):
            await c.sessions()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (httpx.ReadError("the line was cut"), "the line was cut"),
        (httpx.ReadError(""), "ReadError"),
        (httpx.ReadTimeout(""), "it did not answer in time"),
    ],
    ids=["with words", "without", "late"],
)
async def test_a_long_answer_that_breaks_off_says_why(against, error, said):
    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self):
            yield b"{}\n"
            raise error

    async with against(lambda _: httpx.Response(200, stream=Broken())) as c:
        pieces = c.export_audit()
        assert await anext(pieces) == b"{}\n"
        with pytest.raises(Unreachable) as broke:
            await anext(pieces)

    assert str(broke.value) == said
    assert isinstance(broke.value, NoAnswer) is isinstance(error, httpx.ReadTimeout)


def test_an_event_of_a_later_version_keeps_its_envelope():
    known = read_event({"type": "assistant_message", "content": "x", "seq": 3, "new": 1})
    later = read_event({"type": "brand_new", "seq": 4, "session_id": "s"})

    assert isinstance(known, AssistantMessage)
    assert type(later) is Event
    assert (later.type, later.seq) == ("brand_new", 4)


NOW = "2026-11-22T12:00:00Z"
PLAN = {
    "plan_id": "p", "session_id": "s", "goal": "g", "original_task": "t", "revision": 1,
    "digest": "d", "is_approved": True, "subtasks": [], "critical_path": [], "created_at": NOW,
}  # fmt: skip
GRAPH = {
    "plan_id": "p", "session_id": "s", "revision": 1, "status": "running", "as_of": NOW,
    "last_seq": 7, "nodes": [], "edges": [], "critical_path": [], "actual_path": [],
}  # fmt: skip
TOLD = (
    "assistant_message", "plan_progress", "plan_commented", "subtask_started", "plan_paused",
    "approval_requested",
)  # fmt: skip


class Running:
    """A server with one plan, which is in each of these states in turn."""

    def __init__(self, *states: str, questions: int = 0) -> None:
        self.states, self.questions = [*states], questions
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        *_, name = request.url.path.split("/")
        self.asked.append(f"{name} {request.url.params.get('after', '')}".strip())
        if name == "events":
            lines = [json.dumps({"type": each, "seq": n}) for n, each in enumerate(TOLD, 8)]
            return httpx.Response(200, text="".join(f"data: {line}\n\n" for line in lines))
        if name == "pending-approvals":
            open_ = {"session_id": "s", "pending_approvals": [], "count": self.questions}
            return httpx.Response(200, json=open_)
        if name == "p":
            status, _, revising = self.states.pop(0).partition(" ")
            return httpx.Response(
                200, json={**PLAN, "status": status, "revising": bool(revising) or None}
            )
        return httpx.Response(200, json=GRAPH)


async def test_a_plan_is_looked_at_again_when_something_is_told_that_may_end_it(against):
    server = Running("running", "paused", "completed")
    async with against(server) as c:
        ended = await c.wait_for_plan("p", limit=60)

    assert ended.status == "completed"
    assert server.asked == ["graph", "p", "events 7", "p", "p"]


async def test_a_plan_that_is_over_is_not_waited_for(against):
    server = Running("failed")
    async with against(server) as c:
        assert (await c.wait_for_plan("p", or_asked=True)).status == "failed"

    assert server.asked == ["graph", "p"]


async def test_who_waits_for_questions_too_is_told_of_the_first(against):
    server = Running("running", questions=2)
    async with against(server) as c:
        assert (await c.wait_for_plan("p", limit=60, or_asked=True)).status == "running"
    assert server.asked == ["graph", "p", "pending-approvals"]

    # The question of a plan that was sent back to its planner need not be answered yet.
    server = Running("awaiting_approval revising", "awaiting_approval", questions=1)
    async with against(server) as c:
        assert (await c.wait_for_plan("p", limit=60, or_asked=True)).revising is None

    server = Running("running", "running", "completed")
    async with against(server) as c:
        assert (await c.wait_for_plan("p", limit=60, or_asked=True)).status == "completed"
    looked = ["p", "pending-approvals"]
    assert server.asked == ["graph", *looked, "events 7", *looked, "p"]
