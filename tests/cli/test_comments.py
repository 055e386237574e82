"""Comments at the terminal: said, listed, sent back; and the question that comes again."""

import json
import re
from contextlib import asynccontextmanager
from functools import partial

import anyio
import httpx
import pytest

from fakes.door import client_at, served
from gonogo.cli.session.answers import Answerer, Wish
from gonogo.cli.session.conversation import Conversation
from gonogo.cli.support import Exit
from gonogo.cli.terminal.render import EventLines
from gonogo.demo import lay_out
from gonogo.domain.errors import Conflict, Forbidden, InvalidMessage
from gonogo.domain.identity import Role

LIMIT = 60


def proposes(*subtasks, answered=True):
    """A line that proposes subtasks, with an answer to every comment that it was told of."""

    def line(request):
        found = re.findall(r'"comment_id": "([^"]+)"', request.messages[0].content)
        answers = [{"comment_id": each, "answer": f"About {each}"} for each in found]
        steps = [{"id": key, "description": f"Do {key}", "agent": "coder"} for key in subtasks]
        more = {"answers": answers} if found and answered else {}
        arguments = {"goal": "A goal", "subtasks": steps, **more}
        return {"calls": [{"name": "create_plan", "arguments": arguments}]}

    return line


LINES = {
    "main/architect": [proposes("a", "b")], "main/orchestrator": [{"text": "Yes?"}],
    "revise-1": [proposes("a")], "a": [{"text": "done"}], "b": [{"text": "done"}],
}  # fmt: skip
GIVES_UP = {**LINES, "revise-1": [{"text": "I would not know how."}]}


@pytest.fixture
def door(tmp_path):
    """A served runtime with a script; gives clients by name."""

    @asynccontextmanager
    async def serving(lines):
        async with served(tmp_path, lines) as (runtime, socket):

            async def token(name, role):
                return (await runtime.people.create_token(runtime.owner, name, role))[1]

            person = partial(client_at, runtime, socket)
            person.token, person.path = token, str(socket)
            yield person

    return serving


class Typing:
    """A person who answers with what they were going to type."""

    is_there, has_keys = True, False

    def __init__(self, *words):
        self.words = list(words)
        self.asked = []
        self.told = []

    def tell(self, text):
        self.told.append(text)

    async def line(self, prompt):
        self.asked.append(prompt)
        return self.words.pop(0)

    async def choose(self, question, options):
        self.asked.append(" ".join(options))
        said = self.words.pop(0)
        [chosen] = [word for word in options if word.startswith(said)]
        return chosen


async def talks(client, person):
    """A task in a terminal, with somebody who types."""
    session = await client.open_session()
    answers = Answerer(client, session.session_id, person, Wish(), "en")
    from rich.console import Console

    talk = Conversation(client, session.session_id, EventLines(Console(quiet=True)), answers)
    message = {"type": "user_message", "content": "Build it", "agent_type": "architect"}
    with anyio.fail_after(LIMIT):
        return await talk.carry(message)


async def test_a_person_comments_sends_back_reads_the_answers_and_approves(door):
    person = Typing(
        "c", "Dropped", None, "c", "Is b needed?", "z z", "b", "c", "Again", "", "s", "a"
    )
    async with door(LINES) as people, people("ann") as ann:
        assert await talks(ann, person) is Exit.DONE
        [plan] = (await ann.plans()).plans
        found = await ann.plan_comments(plan.plan_id)

    assert (str(plan.status), plan.revision, [s.id for s in plan.subtasks]) == (
        "completed", 2, ["a"],
    )  # fmt: skip
    assert [(c.subtask_id, c.answered_revision) for c in found.comments] == [("b", 2), (None, 2)]
    assert "Saved. Comments without an answer: 2" in person.told
    assert "On which subtask: a, b? (empty: the whole plan)" in person.asked
    assert "This plan has no subtask z z." in person.told
    assert person.words == []


async def test_a_planner_that_gives_up_has_the_same_question_asked_again(door):
    person = Typing("s", "c", "Why?", "z", "", "s", "r", "")
    async with door(GIVES_UP) as people, people("ann") as ann:
        assert await talks(ann, person) is Exit.DENIED
        [plan] = (await ann.plans()).plans

    assert (str(plan.status), plan.revision) == ("rejected", 1)
    assert any("comment on it first" in text for text in person.told)
    assert any("no subtask z" in text for text in person.told)
    assert person.words == []


async def test_comments_over_http(door):
    async with door(GIVES_UP) as people, people("ann") as ann, people("ann", Role.VIEWER) as eyes:
        await ann.open_session(session_id="s1")
        message = {"type": "user_message", "content": "Build it", "agent_type": "architect"}
        async for event in ann.send("s1", message):
            plan_id = event.get("plan_id")
        with pytest.raises(Conflict):
            await ann.revise_plan(plan_id)
        with pytest.raises(Forbidden):
            await eyes.comment_plan(plan_id, "Why?")
        with pytest.raises(InvalidMessage):
            await ann.comment_plan(plan_id, "x" * 4_001)
        with pytest.raises(Conflict):
            await ann.comment_plan(plan_id, "Why?", revision=2)
        made = await ann.comment_plan(plan_id, "Why?", subtask_id="a", revision=1)
        assert (await eyes.plan_comments(plan_id)).comments == [made]
        [asked] = (await ann.approvals(status="pending")).approvals
        assert asked.open_comments == 1
        headers = {"Authorization": f"Bearer {await people.token('ann', Role.OPERATOR)}"}
        transport = httpx.AsyncHTTPTransport(uds=people.path)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://x/api/v1", headers=headers
        ) as raw:
            sent = {"content": "Once", "subtask_id": "b"}
            keyed = {"Idempotency-Key": "k1"}
            first = await raw.post(f"/plans/{plan_id}/comments", json=sent, headers=keyed)
            again = await raw.post(f"/plans/{plan_id}/comments", json=sent, headers=keyed)
            assert (first.status_code, first.json()) == (201, again.json())
        assert (await ann.plan_comments(plan_id)).open == 2
        assert (await ann.revise_plan(plan_id)).revising is True
        with anyio.fail_after(LIMIT):
            async for event in ann.follow("s1", 0):
                if event["type"] == "plan_not_revised":
                    break
        assert (await ann.plan(plan_id)).revising is None


def test_the_commands_say_list_and_send_back(gonogo, tmp_path):
    lay_out(tmp_path / "project")
    task = ("run", "Fix the failing test", "-C", str(tmp_path / "project"), "--model", "demo")
    assert gonogo(*task).returncode == 3
    listed = json.loads(gonogo("plans", "list", "--json").stdout)["plans"]
    plan_id = listed[0]["plan_id"]
    said = gonogo("plans", "comment", plan_id, "Is it\x1b[2J needed?", "--subtask", "document")
    assert said.returncode == 0, said.stderr
    assert "comments without an answer: 1" in said.stdout
    shown = gonogo("plans", "comments", plan_id)
    assert "on document: Is it\\x1b[2J needed?" in shown.stdout
    assert "no answer yet" in shown.stdout
    back = gonogo("plans", "revise", plan_id, env={"GONOGO_MODEL": "demo"})
    assert back.returncode == 3, back.stderr
    assert "The plan was not revised" in back.stdout
    approval = json.loads(gonogo("approvals", "list", "--json").stdout)["approvals"][0]
    assert (
        "comments without an answer: 1"
        in gonogo("approvals", "show", approval["approval_id"]).stdout
    )
