"""`gonogo attach` where nobody is at a terminal: what a session did, and what comes of it yet."""

import json

import pytest

from fakes.rows import NOW
from gonogo.cli.daemon import RuntimeLink
from gonogo.cli.session.conversation import Outcome
from gonogo.cli.session.run import _join
from gonogo.cli.support import Exit
from gonogo.demo import lay_out, run_tests
from gonogo.domain.views import SessionView


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
    assert any("is awaiting_approval, 0 of 5" in text for text in told)
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
