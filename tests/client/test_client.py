"""The client gives back what the server said, as the domain's own values and errors."""

import anyio
import httpx
import pytest

from gonogo.client import Client, Unintelligible, Unreachable, error_of, read_event
from gonogo.domain import errors
from gonogo.domain.events import AssistantMessage, Event
from gonogo.domain.messages import HitlDecision, PlanDecision, UserMessage
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


async def test_an_answer_that_is_no_problem_document_is_still_an_error(against):
    async with against(lambda _: httpx.Response(502, text="<html>")) as c:
        with pytest.raises(errors.Internal, match="502 Bad Gateway"):
            await c.agents()


async def test_an_answer_of_something_else_is_said_to_be_none(against):
    async with against(lambda _: httpx.Response(200, text="<html>")) as c:
        with pytest.raises(Unintelligible, match="no SessionView"):
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
    [(httpx.ReadError("the line was cut"), "the line was cut"), (httpx.ReadError(""), "ReadError")],
    ids=["with words", "without"],
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


async def test_every_call_asks_its_path_of_the_protocol(against):
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        query = f"?{request.url.query.decode()}" if request.url.query else ""
        asked.append(f"{request.method} {request.url.path}{query}")
        return httpx.Response(404, json={"code": "not_found", "detail": "none"})

    async with against(handler) as c:
        for call in (
            c.edit_session("s", title="t"), c.delete_session("s"), c.pending_approvals("s"),
            c.plans(status="running"), c.plan("p"), c.plan_status("p"), c.plan_graph("p"),
            c.plan_revisions("p"), c.plan_revision("p", 2), c.plan_diff("p", 1, 2),
            c.decide_plan(PlanDecision(plan_id="p", decision="approve")), c.start_plan("p"),
            c.pause_plan("p"), c.resume_plan("p"), c.cancel_plan("p"), c.retry_subtask("p", "x"),
            c.skip_subtask("p", "x"), c.cancel_subtask("p", "x"), c.approvals(kind="tool"),
            c.approval("a"), c.decide_many([{"approval_id": "a", "decision": "approve"}]),
            c.me(), c.tools(), c.models(), c.grants(session_id="s"), c.revoke_grant("g"),
            c.audit(session_id="s", limit=5), c.verify_audit(),
            c.verify_audit("a", "s"), c.audit_log(before="b", limit=5, locale="ru"), c.tokens(),
            c.revoke_token("t"),
        ):  # fmt: skip
            with pytest.raises(errors.NotFound):
                await call

    assert [line.replace("/api/v1/", "") for line in asked] == [
        "PATCH sessions/s", "DELETE sessions/s", "GET sessions/s/pending-approvals",
        "GET plans?status=running&limit=50&offset=0", "GET plans/p", "GET plans/p/status",
        "GET plans/p/graph", "GET plans/p/revisions", "GET plans/p/revisions/2",
        "GET plans/p/diff?from=1&to=2", "POST plans/p/decision", "POST plans/p/start",
        "POST plans/p/pause", "POST plans/p/resume", "POST plans/p/cancel",
        "POST plans/p/subtasks/x/retry", "POST plans/p/subtasks/x/skip",
        "POST plans/p/subtasks/x/cancel", "GET approvals?kind=tool", "GET approvals/a",
        "POST approvals/decisions", "GET me", "GET tools", "GET models", "GET grants?session_id=s",
        "DELETE grants/g", "GET audit?session_id=s&after=0&limit=5", "GET audit/verify",
        "GET audit/verify?anchor=a&session_id=s", "GET audit?before=b&limit=5&locale=ru",
        "GET tokens", "DELETE tokens/t",
    ]  # fmt: skip


def test_an_event_of_a_later_version_keeps_its_envelope():
    known = read_event({"type": "assistant_message", "content": "x", "seq": 3, "new": 1})
    later = read_event({"type": "brand_new", "seq": 4, "session_id": "s"})

    assert isinstance(known, AssistantMessage)
    assert type(later) is Event
    assert (later.type, later.seq) == ("brand_new", 4)
