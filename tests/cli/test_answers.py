"""A person approves what they were shown, and nothing else can be answered yes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import RenderableType

from gonogo.cli.session.answers import Answerer, Wish
from gonogo.cli.terminal.input import TerminalPerson
from gonogo.domain.errors import Conflict
from gonogo.domain.views import ApprovalView, PendingApprovals

LONG = [f"line {number}" for number in range(1, 201)]


class Reader(TerminalPerson):
    """A person who answers in these words, and what they were shown and could answer."""

    def __init__(self, *words: str, has_keys: bool = False) -> None:
        super().__init__({})
        self.has_keys = has_keys
        self.words = list(words)
        self.read: list[str] = []
        self.options: list[list[str]] = []

    is_there = True

    def tell(self, text: str) -> None:
        self.read += text.split("\n")

    def show(self, *shown: RenderableType) -> None:
        self.read += [str(each) for each in shown]

    async def edit(self, text: str, suffix: str = ".json", *, keep: Path | None = None) -> str:
        del suffix, keep
        self.read.append(text)
        return self.words.pop(0)

    async def line(self, prompt: str, *, ahead: bool = False) -> str | None:
        return "no"

    async def choose(self, question: str, options: Mapping[str, str]) -> str | None:
        self.options.append(list(options))
        return self.words.pop(0)


class Client:
    """Has one question open."""

    def __init__(self, *lines: str, **details: Any) -> None:
        self.asked = ApprovalView.model_validate({
            "approval_id": "a", "request_id": "c", "kind": "tool", "request_type": "tool",
            "session_id": "s", "subject": "execute_command", "tool_name": "execute_command",
            "details": {"agent": "coder", "preview": "\n".join(lines), **details}, "reason": "why",
            "digest": "d", "status": "pending", "created_at": "2026-01-01T00:00:00Z",
            "arguments": {"command": "\n".join(lines)},
        })  # fmt: skip

    async def pending_approvals(self, session_id: str) -> PendingApprovals:
        found = {"session_id": session_id, "pending_approvals": [self.asked], "count": 1}
        return PendingApprovals.model_validate(found)


async def answered(person: Reader, *lines: str, **details: Any) -> list[dict[str, Any]]:
    client: Any = Client(*lines, **details)
    return await Answerer(client, "s", person, Wish(), "en").to_what_waits()


async def test_a_long_command_is_approved_only_after_all_of_it_was_shown():
    for has_keys in (False, True):
        person = Reader("more", "more", "more", "approve", has_keys=has_keys)

        [message] = await answered(person, *LONG)

        assert message["decision"] == "approve"
        assert [line.strip() for line in person.read if line.strip() in LONG] == LONG
        assert person.options == [["more", "reject"]] * 3 + [["approve", "edit", "reject"]]


async def test_a_long_command_can_be_rejected_at_once():
    [message] = await answered(Reader("reject"), *LONG)

    assert message["decision"] == "reject"


async def test_a_line_that_is_wrapped_counts_for_as_many_as_it_takes():
    person = Reader("more", "approve")

    await answered(person, "x" * 80 * 50, "y" * 80 * 20, "; touch z")

    assert person.options == [["more", "reject"], ["approve", "edit", "reject"]]


async def test_a_short_command_is_shown_whole_line_by_line():
    person = Reader("approve")

    await answered(person, "echo ok", "", "touch x")

    assert person.read[2:5] == ["  echo ok", "  ", "  touch x"]
    assert person.options == [["approve", "edit", "reject"]]


async def test_a_command_of_a_plan_can_be_allowed_for_the_plan_where_that_is_offered():
    person = Reader("these_words")

    [message] = await answered(person, "touch x", words_for_plan="touch x")

    assert person.options == [["approve", "these_words", "session", "edit", "reject"]]
    assert (message["decision"], message["for_plan"]) == ("approve", True)


async def test_a_call_can_be_allowed_for_the_session_by_a_key_and_a_plan_cannot():
    person = Reader("session")
    [message] = await answered(person, "ls", parts=[{"text": "ls"}])
    assert (message["decision"], message["for_session"]) == ("approve", True)
    client: Any = Client()
    for kind in ("plan", "subtask", "intervention"):
        client.asked = client.asked.model_copy(update={"kind": kind, "plan_id": "p"})
        person = Reader("approve")
        await Answerer(client, "s", person, Wish(), "en").to_what_waits()
        assert "session" not in person.options[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"details": {"parts": [{"text": "a"}, {"text": "b", "joined_by": "|"}]}},
        {"details": {}},
        {"details": {"parts": [{"text": "a"}]}, "plan_id": "p"},
        {"tool_name": "delete_file"},
    ],
)
async def test_what_no_rule_can_allow_is_not_offered_for_the_session(fields):
    client: Any = Client("ls")
    client.asked = client.asked.model_copy(update=fields)
    person = Reader("approve")
    await Answerer(client, "s", person, Wish(), "en").to_what_waits()
    assert person.options == [["approve", "edit", "reject"]]


@pytest.mark.parametrize(
    ("kind", "about"),
    [("subtask", None), ("intervention", "replan"), ("intervention", "guarded_names")],
)
async def test_what_cannot_be_edited_is_not_offered_to_be(kind, about):
    client: Any = Client()
    client.asked = client.asked.model_copy(update={"kind": kind, "details": {"about": about}})
    person = Reader("approve")
    await Answerer(client, "s", person, Wish(), "en").to_what_waits()
    assert person.options == [["approve", "reject"]]


async def test_what_an_agent_of_a_subtask_asks_is_answered_by_writing():
    client: Any = Client()
    details = {"question": "Which?", "suggestions": ["red", "bl\x07ue"]}
    given = {"details": details, "arguments": None, "kind": "intervention", "subtask_id": "one"}
    client.asked = client.asked.model_copy(update=given)
    person = Reader("answer")

    [message] = await Answerer(client, "s", person, Wish(), "en").to_what_waits()

    assert person.options == [["answer", "reject"]]
    assert [line for line in person.read if line.startswith("  - ")] == ["  - red", "  - bl\\x07ue"]
    assert (message["decision"], message["feedback"]) == ("approve", "no")


class Planner(Client):
    """Keeps what it is told of a plan, or refuses it."""

    def __init__(self, refusal: str | None = None) -> None:
        super().__init__()
        self.asked = self.asked.model_copy(
            update={"kind": "plan", "plan_id": "p", "revision": 3, "tool_name": None}
        )
        self.refusal, self.told = refusal, list[object]()

    async def comment_plan(self, plan_id: str, content: str, *, revision: int | None) -> None:
        if self.refusal:
            raise Conflict(self.refusal)
        self.told.append((plan_id, content, revision))

    async def revise_plan(self, plan_id: str) -> None:
        self.told.append(plan_id)


async def test_a_plan_that_is_rejected_with_a_reason_is_planned_again_or_all_stops():
    planner: Any = Planner()
    person = Reader("reject", "plan_again")
    assert await Answerer(planner, "s", person, Wish(), "en").to_what_waits() == [
        {"type": "follows"}
    ]
    assert planner.told == [("p", "no", 3), "p"]
    assert person.options[1] == ["plan_again", "stop", "back"]

    planner = Planner()
    [message] = await Answerer(planner, "s", Reader("reject", "stop"), Wish(), "en").to_what_waits()
    assert (message["decision"], message["feedback"], planner.told) == ("reject", "no", [])

    [message] = await Answerer(
        planner, "s", Reader("reject", "back", "approve"), Wish(), "en"
    ).to_what_waits()
    assert message["decision"] == "approve"


async def test_a_plan_that_cannot_be_planned_again_is_asked_about_again_and_says_why():
    planner: Any = Planner("it is being planned already")
    person = Reader("reject", "plan_again", "approve")
    [message] = await Answerer(planner, "s", person, Wish(), "en").to_what_waits()
    assert message["decision"] == "approve"
    assert "it is being planned already" in "\n".join(person.read)


async def test_a_plan_that_is_rejected_without_a_reason_is_rejected_at_once():
    client: Any = Client()
    client.asked = PLAN
    person = Telling("", words=("reject",))
    [message] = await Answerer(client, "s", person, Wish(), "en").to_what_waits()
    assert (message["decision"], len(person.questions)) == ("reject", 1)


PARTS = [
    {"text": "cd src", "joined_by": "", "asks": False},
    {"text": "make all", "joined_by": "&&", "asks": True},
]


@pytest.mark.parametrize("has_keys", [False, True])
async def test_a_command_is_shown_once_as_text_with_its_parts_and_the_one_that_asks(has_keys):
    client: Any = Client("cd src && make all")
    client.asked.details["parts"] = PARTS
    person = Reader("approve", has_keys=has_keys)
    await Answerer(client, "s", person, Wish(), "en").to_what_waits()
    shown = [line for line in person.read if line]
    assert shown == [
        "coder asks to use execute_command:", "  cd src && make all", "    · cd src",
        "    ? && make all  ← this part needs approval", "reason: why",
    ]  # fmt: skip


async def test_what_a_person_is_asked_is_answered_in_words_of_their_own_from_an_empty_text():
    person = Reader("edit", '{"result": "blue"}')
    client: Any = Client()
    client.asked = client.asked.model_copy(update={"kind": "intervention", "tool_name": None})

    [message] = await Answerer(client, "s", person, Wish(), "en").to_what_waits()

    assert person.read[-1] == '{\n  "result": ""\n}'
    assert message["decision"] == "edit"


async def test_a_call_that_was_changed_in_the_editor_is_sent_as_it_was_changed():
    [message] = await answered(Reader("edit", '{"command": "ls -l"}'), "ls")

    assert message["decision"] == "edit"
    assert message["modified_arguments"] == {"command": "ls -l"}


async def test_what_was_not_changed_in_the_editor_is_asked_again():
    person = Reader("edit", '{\n  "command": "ls"\n}\n', "approve")

    [message] = await answered(person, "ls")

    assert message["decision"] == "approve"


async def refused(
    code: str, person: Reader, message: Mapping[str, Any] | None = None, **wish: bool
) -> tuple[Answerer, list[dict[str, Any]]]:
    """What is sent after an answer was refused with a code."""
    client: Any = Client("ls")
    answers = Answerer(client, "s", person, Wish(**wish), "en")
    [given] = await answers.to_what_waits()
    assert await answers.to_what_waits() == []
    await answers.refused({**given, **(message or {})}, code)
    return answers, await answers.to_what_waits()


async def test_a_question_whose_answer_was_refused_is_asked_again():
    person = Reader("approve", "reject")

    answers, [again] = await refused("invalid_message", person)

    assert again["decision"] == "reject"
    assert answers.left == []


@pytest.mark.parametrize("code", ["conflict", "already_decided", "expired", "not_found"])
async def test_a_question_that_is_gone_is_not_asked_again(code):
    answers, again = await refused(code, Reader("approve"))

    assert (again, answers.left) == ([], [])


@pytest.mark.parametrize(
    "message", [{"type": "user_message"}, {"approval_id": "b"}, {"type": "plan_decision"}]
)
async def test_what_was_refused_of_another_matter_asks_nothing_again(message):
    other = {**message, "plan_id": "p"}

    answers, again = await refused("invalid_message", Reader("approve"), other)

    assert (again, answers.left) == ([], [])


@pytest.mark.parametrize(("plan_id", "again"), [("p", ["approve"]), ("q", [])])
async def test_a_plan_is_asked_about_again_when_an_answer_about_that_plan_was_refused(
    plan_id, again
):
    client: Any = Client()
    client.asked = client.asked.model_copy(update={"kind": "plan", "plan_id": "p"})
    answers = Answerer(client, "s", Reader("reject", "stop", "approve"), Wish(), "en")
    [given] = await answers.to_what_waits()
    assert (given["type"], given["plan_id"]) == ("plan_decision", "p")

    await answers.refused({**given, "plan_id": plan_id}, "invalid_message")

    assert [message["decision"] for message in await answers.to_what_waits()] == again


@pytest.mark.parametrize("wish", [{"all": True}, {"unattended": True}])
async def test_an_answer_that_nobody_was_asked_for_is_not_given_twice_but_left(wish):
    answers, again = await refused("invalid_message", Reader(), **wish)

    assert (again, answers.left) == ([], ["a"])


async def test_what_is_left_to_others_is_named_and_not_looked_at_again():
    client: Any = Client("ls")
    answers = Answerer(client, "s", Reader(), Wish(unattended=True), "en")
    client.asked = client.asked.model_copy(update={"kind": "plan", "plan_id": "p"})

    assert [await answers.to_what_waits() for _ in range(2)] == [[], []]
    assert answers.left == ["a"]


ASKED = Client("ls", parts=[{"text": "ls"}]).asked
PLAN = ASKED.model_copy(update={"kind": "plan", "plan_id": "p", "revision": 2, "tool_name": None})
YES = {"type": "hitl_decision", "approval_id": "a", "digest": "d", "decision": "approve"}
NO = YES | {"decision": "reject", "feedback": "Nobody is there to answer (--unattended)"}
GO = {
    "type": "plan_decision", "plan_id": "p", "revision": 2, "digest": "d", "decision": "approve",
}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "wish", "messages", "left"),
    [
        (ASKED, {}, [YES], []),
        (ASKED, {"yes": True}, [YES], []),
        (ASKED, {"all": True}, [YES], []),
        (ASKED, {"unattended": True}, [NO], []),
        (ASKED, {"unattended": True, "all": True}, [NO], []),
        (ASKED, {"plan_only": True}, [YES], []),
        (PLAN, {}, [GO], []),
        (PLAN, {"yes": True}, [GO], []),
        (PLAN, {"all": True}, [GO], []),
        (PLAN, {"yes": True, "plan_only": True}, [], ["a"]),
        (PLAN, {"plan_only": True}, [], ["a"]),
        (PLAN, {"unattended": True}, [], ["a"]),
        (PLAN, {"unattended": True, "yes": True}, [GO], []),
    ],
)
async def test_what_was_said_beforehand_answers_and_the_person_is_asked_the_rest(
    asked, wish, messages, left
):
    client: Any = Client()
    client.asked = asked
    answers = Answerer(client, "s", Reader("approve"), Wish(**wish), "en")

    assert await answers.to_what_waits() == messages
    assert answers.left == left


class Nobody(Reader):
    is_there = False


@pytest.mark.parametrize("asked", [ASKED, PLAN])
async def test_where_nobody_is_there_what_is_asked_is_left(asked):
    client: Any = Client()
    client.asked = asked
    answers = Answerer(client, "s", Nobody(), Wish(), "en")

    assert (await answers.to_what_waits(), answers.left) == ([], ["a"])
    answers.waits("a")
    answers.waits("b")
    assert answers.left == ["a", "b"]
    assert await answers.to_question("Which?") is None


class Telling(Reader):
    """A person who says what they were going to, and keeps what they were asked."""

    def __init__(self, *lines: str | None, words: tuple[str, ...] = ()) -> None:
        super().__init__(*words)
        self.lines, self.prompts, self.questions = list(lines), [], []
        self.withdrawn = 0

    async def line(self, prompt: str, *, ahead: bool = False) -> str | None:
        self.prompts.append(prompt)
        return self.lines.pop(0)

    async def choose(self, question: str, options: Mapping[str, str]) -> str | None:
        self.questions.append((question, dict(options)))
        return await super().choose(question, options)

    def withdraw(self) -> None:
        self.withdrawn += 1


CALL_WORDS = {
    "approve": "одобрить", "session": "всегда разрешать это в сессии", "edit": "изменить",
    "reject": "отклонить",
}  # fmt: skip
PLAN_WORDS = {
    "approve": "одобрить", "edit": "изменить", "hold": "одобрить сейчас, начать позже",
    "reject": "отклонить", "comment": "оставить комментарий",
    "send_back": "вернуть с комментариями",
}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "question", "words"),
    [(ASKED, "Разрешить?", CALL_WORDS), (PLAN, "Выполнить этот план?", PLAN_WORDS)],
)
async def test_a_question_is_put_in_the_language_of_the_person(asked, question, words):
    client: Any = Client()
    client.asked = asked
    person = Telling("so", words=("reject", "stop"))

    [message] = await Answerer(client, "s", person, Wish(), "ru").to_what_waits()

    assert person.questions[0] == (question, words)
    assert len(person.questions) == 1 + (asked is PLAN)
    assert person.prompts == ["Почему? (необязательно)"]
    assert (message["decision"], message["feedback"]) == ("reject", "so")


@pytest.mark.parametrize(("json", "prompt"), [(False, ">"), (True, "Which\\x07?\n>")])
async def test_what_an_agent_wants_to_know_is_asked_and_sent(json, prompt):
    person = Telling("the first", None, "")
    nobody: Any = None
    answers = Answerer(nobody, "s", person, Wish(json=json), "en")

    said = [await answers.to_question("Which\x07?") for _ in range(3)]
    assert said == [{"type": "user_message", "content": "the first"}, None, None]
    assert person.prompts == [prompt] * 3


RESOLVED = {
    "type": "approval_resolved",
    "metadata": {"approval_id": "a", "status": "approved", "decided_by": "a\nnn"},
}
OTHER = {"type": "approval_resolved", "metadata": {"approval_id": "b", "status": "approved"}}


@pytest.mark.parametrize(
    ("event", "withdrawn", "told"),
    [
        (RESOLVED, 1, True),
        (OTHER, 0, False),
        (RESOLVED | {"type": "approval_voted"}, 0, False),
        ({"type": "plan_progress"}, 0, False),
    ],
)
async def test_only_the_question_that_is_asked_now_is_taken_back(event, withdrawn, told):
    person = Telling(words=("approve",))
    client: Any = Client("ls")
    answers = Answerer(client, "s", person, Wish(), "ru")
    choose = person.choose

    async def overhears(question, options):
        answers.overhear(event)
        return await choose(question, options)

    person.choose = overhears  # type: ignore[method-assign]
    await answers.to_what_waits()
    assert person.withdrawn == withdrawn
    assert ("Тем временем решение принято (a ⏎ nn): одобрен" in person.read) is told
    answers.overhear(RESOLVED)
    assert person.withdrawn == withdrawn


def absence(**details: Any) -> ApprovalView:
    asked = Client().asked
    about = {"about": "model", "error": "503", **details}
    return asked.model_copy(
        update={"kind": "intervention", "tool_name": None, "arguments": None, "details": about}
    )


async def test_another_model_is_chosen_by_its_number():
    person = Reader("other_model", "2")
    client: Any = Client()
    client.asked = absence(models=["openai:a", "openai:b"])

    [message] = await Answerer(client, "s", person, Wish(), "en").to_what_waits()

    assert person.options == [["approve", "other_model", "reject"], ["1", "2"]]
    assert (message["decision"], message["modified_arguments"]) == (
        "edit", {"result": {"model": "openai:b"}},
    )  # fmt: skip


async def test_where_there_is_no_other_model_none_is_offered():
    person = Reader("approve")
    client: Any = Client()
    client.asked = absence()

    [message] = await Answerer(client, "s", person, Wish(), "en").to_what_waits()

    assert (person.options, message["decision"]) == ([["approve", "reject"]], "approve")
