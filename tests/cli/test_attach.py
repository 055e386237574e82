"""`gonogo attach` where nobody is at a terminal: what a session did, and what comes of it yet."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.rows import NOW
from gonogo.cli.daemon import RuntimeLink
from gonogo.cli.session.answers import Wish
from gonogo.cli.session.conversation import Manner, Outcome
from gonogo.cli.session.run import _join, _manner, _recap, _session
from gonogo.cli.support import Exit, Stop
from gonogo.demo import lay_out, run_tests
from gonogo.domain.plan_views import CommentList, CommentView, PlanView, SubtaskView
from gonogo.domain.views import (
    ApprovalView,
    History,
    MessageView,
    PendingApprovals,
    SessionList,
    SessionView,
)


@pytest.fixture
def project(tmp_path):
    lay_out(tmp_path / "project")
    return tmp_path / "project"


class Log:
    """A client that has these events, each of which says whether it is an end for some."""

    def __init__(self, *events: tuple[str, bool]) -> None:
        self.events = [
            {"type": kind, "seq": seq, "is_final": is_final}
            for seq, (kind, is_final) in enumerate(events, 1)
        ]

    async def follow(self, session_id, after):
        assert session_id == "s"
        for event in self.events[after:]:
            yield event


class Joined:
    """Takes part, and keeps whether something was under way."""

    def __init__(self):
        self.outcome, self.running = Outcome(), None

    def remember(self, event):
        self.outcome.note(event)

    def recall(self, plan):
        assert plan is None

    async def join(self, *, running):
        self.running = running
        return Exit.DONE


@pytest.mark.parametrize("is_final", [True, False])
@pytest.mark.parametrize("going", [True, False], ids=["at work", "at rest"])
@pytest.mark.parametrize(
    "kind",
    [
        "approval_voted", "checkpoint_created", "session_info", "plan_commented",
        "plan_rolled_back", "steered",
    ],
)  # fmt: skip
async def test_what_says_nothing_of_work_changes_nothing_about_whether_it_goes_on(
    kind, going, is_final
):
    log, talk = Log(("assistant_message", not going), (kind, is_final)), Joined()
    session = SessionView(
        session_id="s", workspace="/w", agent="coder", created_at=NOW, updated_at=NOW, last_seq=2
    )

    assert await _join(RuntimeLink(log, None), talk, session, None) is Exit.DONE

    assert talk.running is going


@pytest.mark.parametrize(("is_final", "goes_on"), [(True, False), (False, True)])
async def test_where_the_last_that_happened_is_a_question_that_all_waits_for_nothing_goes_on(
    is_final, goes_on
):
    log = Log(("subtask_started", False), ("approval_requested", is_final))
    talk = Joined()
    session = SessionView(
        session_id="s", workspace="/w", agent="coder", created_at=NOW, updated_at=NOW, last_seq=2
    )
    await _join(RuntimeLink(log, None), talk, session, None)
    assert talk.running is goes_on


def test_a_session_is_told_in_short_and_its_plan_goes_on_from_there(gonogo, project):
    nothing = gonogo("attach", cwd=project)
    assert (nothing.returncode, "gonogo run TASK" in nothing.stderr) == (1, True)
    gonogo("run", "Fix the test and add a flag", "-C", str(project), "--model", "demo")

    waits = gonogo("attach", cwd=project)
    assert waits.returncode == 3, waits.stderr
    session, *told = waits.stdout.splitlines()
    assert session.endswith(f"in {project}: Fix the test and add a flag")
    assert told[0] == "user: Fix the test and add a flag"
    assert any(": awaiting_approval, 0 of 5 done" in text for text in told)
    assert any("reproduce: Run the tests" in text for text in told)
    assert "approvals decide" in waits.stderr

    done = gonogo("attach", session.split()[1], "--yes=all", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    events = [json.loads(text) for text in done.stdout.splitlines()]
    seqs = [event["seq"] for event in events if "seq" in event]
    assert seqs == list(range(1, len(seqs) + 1))
    assert "plan_completed" in {event["type"] for event in events}
    assert run_tests(project).passed
    over = gonogo("attach", cwd=project)
    assert (over.returncode, "Completed: 5" in over.stdout) == (0, True)


def session(**more: Any) -> SessionView:
    given = {
        "session_id": "s", "workspace": "/w", "agent": "coder", "created_at": NOW,
        "updated_at": NOW, "last_seq": 7,
    }  # fmt: skip
    return SessionView(**given | more)


def message(content: str, role: str = "user", **more: Any) -> MessageView:
    return MessageView(**{"role": role, "content": content, "created_at": NOW} | more)


def subtask(key: str, status: str, output: str | None = None) -> SubtaskView:
    return SubtaskView(
        id=key, status=status, description="d", type="action", dependencies=[], attempt=1,
        estimated_time="5 min", result=None if output is None else {"output": output},
    )  # fmt: skip


PLAN = PlanView(
    plan_id="p", session_id="s", goal="g" * 301, original_task="t", status="paused",
    pause_reason="quota", revision=1, digest="d", is_approved=True, critical_path=[],
    created_at=NOW,
    subtasks=[
        subtask("a", "completed", "All is well"), subtask("b", "skipped"), subtask("c", "running"),
    ],
)  # fmt: skip


def asked(kind: str, **more: Any) -> ApprovalView:
    return ApprovalView(
        approval_id="a", request_id="a", kind=kind, request_type=kind, session_id="s",
        subject=f"{kind}?", details={}, reason="", digest="d", status="pending", created_at=NOW,
        **more,
    )  # fmt: skip


class Past:
    """A client with a session of so many messages, and what waits in it."""

    def __init__(self, messages, *pending, sessions=()):
        self.messages, self.pending, self.known = messages, pending, list(sessions)

    async def history(self, session_id):
        return History(session_id=session_id, messages=self.messages)

    async def pending_approvals(self, session_id):
        found = list(self.pending)
        return PendingApprovals(session_id=session_id, pending_approvals=found, count=len(found))

    async def session(self, session_id):
        return session(session_id=session_id)

    async def plan_comments(self, plan_id):
        return CommentList(plan_id=plan_id, comments=self.comments, open=2)

    async def sessions(self, *, limit):
        assert limit == 1
        return SessionList(sessions=self.known, total=len(self.known))


async def test_a_session_is_told_by_its_last_messages_its_plan_and_what_is_asked_of_it():
    told = [
        message(f"{number}\n" + "x" * 200, "assistant", agent="coder") for number in range(9)
    ]  # fmt: skip
    told.append(message("9\n" + "l\n" * 20, "assistant", agent="coder"))
    left_out = [message("t", "tool"), message("s", subtask_id="a"), message("", "assistant")]
    client: Any = Past(
        [*told, message("last\r\nwo\x07rd"), *left_out], asked("plan"), asked("tool")
    )

    lines = await _recap(client, session(title="a\n" + "t" * 200), PLAN, "ru")

    assert lines == [
        f"Сессия s в /w: a ⏎ {'t' * 195}…",
        "… ещё 3 сообщения раньше; все: gonogo sessions show s",
        *(f"coder: {number}\n{'x' * 200}" for number in range(3, 9)),
        "coder: 9\n" + "l\n" * 11 + "…",
        "пользователь: last\nwo\\x07rd",
        f"План p: приостановлен (исчерпана квота модели), готово 1 из 3: {'g' * 299}…",
        "  ✓ a All is well",
        "  ↷ b",
        "plan?",
    ]


async def test_the_open_comments_on_a_plan_are_told_with_their_text():
    def comment(content, **more):
        return CommentView(
            comment_id="c", plan_id="p", revision=1, author="ann", content=content, created_at=NOW,
            **more,
        )  # fmt: skip

    client: Any = Past([], asked("plan", open_comments=2))
    client.comments = [
        comment("why?", answer="so"), comment("too\nbig", subtask_id="fix"), comment("soon"),
    ]  # fmt: skip

    assert (await _recap(client, session(), None, "en"))[1:] == [
        "plan?", "comments without an answer: 2", "  ? ann on fix: too ⏎ big",
        "      no answer yet", "  ? ann on the plan: soon", "      no answer yet",
    ]  # fmt: skip


async def test_a_session_of_eight_messages_without_a_plan_is_told_whole():
    client: Any = Past([message(str(number)) for number in range(8)])

    assert await _recap(client, session(), None, "en") == [
        "Session s in /w: ", *(f"user: {number}" for number in range(8)),
    ]  # fmt: skip


async def test_the_newest_session_is_taken_unless_one_is_named(monkeypatch):
    monkeypatch.setenv("GONOGO_LOCALE", "ru")
    client: Any = Past([], sessions=[session(session_id="new")])
    assert (await _session(client, None)).session_id == "new"
    assert (await _session(client, "named")).session_id == "named"
    with pytest.raises(Stop) as caught:
        await _session(Past([]), None)  # type: ignore[arg-type]
    assert str(caught.value) == "Сессий ещё нет; начать: gonogo run ЗАДАЧА"


def test_who_attaches_stays_and_sees_what_is_new_or_all_of_it_as_json():
    assert _manner(session(), Wish()) == Manner(after=7, due=7, stays=True, ours=False)
    assert _manner(session(), Wish(json=True)) == Manner(after=0, due=7, stays=True, ours=False)


@pytest.mark.parametrize(
    ("status", "is_final", "goes_on"),
    [
        ("running", True, False), ("running", False, True), ("replanning", False, True),
        ("paused", False, False), ("approved", False, False), ("awaiting_approval", False, False),
    ],
)  # fmt: skip
async def test_a_plan_goes_on_where_it_is_at_work_and_its_last_event_is_no_end(
    status, is_final, goes_on
):
    found, seen = [], []

    async def join(*, running):
        found.append(running)

    log = Log(("subtask_started", is_final))
    talk: Any = SimpleNamespace(
        outcome=Outcome(), recall=found.append, join=join, remember=seen.append
    )
    plan = PLAN.model_copy(update={"status": status})
    client: Any = log
    await _join(RuntimeLink(client, None), talk, session(last_seq=1), plan)
    assert found == [plan, goes_on]
    assert [event["type"] for event in seen] == ["subtask_started"]


async def test_a_session_in_which_nothing_happened_goes_on_only_with_its_plan():
    for plan, goes_on in ((None, False), (PLAN.model_copy(update={"status": "running"}), True)):
        talk: Any = Joined()
        talk.recall = lambda _: None
        nothing: Any = None
        await _join(RuntimeLink(nothing, None), talk, session(last_seq=0), plan)
        assert talk.running is goes_on
