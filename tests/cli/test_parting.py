"""How a command leaves a session: what it cancels, what it says of the way back, its exit code."""

from pathlib import Path
from typing import Any

import pytest

from gonogo.cli.folder import Folder
from gonogo.cli.session.answers import Answerer, Wish
from gonogo.cli.session.conversation import (
    Conversation,
    Exchange,
    Manner,
    Outcome,
    Over,
    _ends,
    _tells,
)
from gonogo.cli.session.interrupts import Pausing
from gonogo.cli.support import Exit
from gonogo.cli.terminal.render import PlainScreen
from gonogo.domain.errors import Conflict, NotFound, because
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.i18n import say


class Plan:
    """A plan in these states, one look after the other."""

    def __init__(self, *statuses: str, running: tuple[bool, ...] = ()) -> None:
        self.statuses, self.running, self.status = list(statuses), list(running), statuses[0]
        self.plan_id = "p"

    def look(self) -> "Plan":
        self.status = PlanStatus(self.statuses.pop(0) if self.statuses[1:] else self.statuses[0])
        return self

    @property
    def subtasks(self) -> list[Any]:
        is_running = self.running.pop(0)
        return [type("S", (), {"status": SubtaskStatus.RUNNING if is_running else "completed"})]


class Client:
    """A client that keeps what it was asked to do; what is to fail fails."""

    def __init__(self, plan: Plan | None = None, *fails: str) -> None:
        self._plan, self._fails, self.did = plan, fails, list[Any]()

    def _do(self, what: str, of: Any) -> Plan:
        self.did.append((what, of))
        if what in self._fails:
            raise Conflict(f"{what} is refused")
        if self._plan is None:
            raise NotFound("none")
        return self._plan

    async def plan(self, plan_id: str) -> Plan:
        if self._plan is None:
            raise NotFound("none")
        return self._plan.look()

    async def pause_plan(self, plan_id: str) -> Plan:
        return self._do("pause", plan_id).look()

    async def resume_plan(self, plan_id: str) -> Plan:
        return self._do("resume", plan_id)

    async def cancel_plan(self, plan_id: str) -> Plan:
        return self._do("cancel", plan_id)

    async def send(self, session_id: str, message: Any) -> Any:
        self.did.append((session_id, message))
        for number in range(2):
            self.did.append(number)
            yield {"type": "done"}
        if "send" in self._fails:
            raise Conflict("no turn")


class Person:
    is_there = True
    has_keys = False

    def __init__(self, *words: str | None) -> None:
        self.words, self.told, self.asked = list(words), list[str](), list[Any]()

    def tell(self, text: str) -> None:
        self.told.append(text)

    async def choose(self, question: str, options: Any) -> str | None:
        self.asked.append((question, options))
        return self.words.pop(0)


def talks(client: Any, *, manner: Manner | None = None, **wish: Any) -> Any:
    person: Any = Person()
    answers = Answerer(client, "s", person, Wish(**wish), "ru")
    return Conversation(client, "s", PlainScreen(), answers, manner=manner)


@pytest.fixture(autouse=True)
def named(monkeypatch):
    monkeypatch.setattr("gonogo.cli.session.conversation.program", lambda: "gng")


CANCELLED = [("s", {"type": "cancel"}), 0, 1]


@pytest.mark.parametrize("fails", [(), ("send",)])
@pytest.mark.parametrize(
    ("plan_id", "ours", "did"),
    [
        (None, True, CANCELLED),
        (None, False, []),
        ("p", True, [("cancel", "p"), *CANCELLED]),
        ("p", False, []),
    ],
)
async def test_who_is_cut_off_cancels_what_is_their_own(plan_id, ours, did, fails):
    client = Client(Plan("running"), *fails)
    talk = talks(client, manner=Manner(ours=ours), prefix="HOME=x ")
    talk.outcome.plan_id = plan_id

    await talk._give_up()

    assert client.did == did
    assert talk._person.told == ["Прервано. Сессия сохранена. Продолжить: HOME=x gng attach s"]


async def test_a_plan_that_cannot_be_cancelled_hinders_no_farewell():
    client = Client(Plan("running"), "cancel")
    talk = talks(client, keeps=False)
    talk.outcome.plan_id = "p"

    await talk._give_up()

    assert client.did == [("cancel", "p"), *CANCELLED]
    assert talk._person.told == ["Прервано. Учебный проект удалён. Начать снова: gonogo demo"]


@pytest.mark.parametrize(
    ("plan_id", "ours", "did"),
    [(None, True, CANCELLED), (None, False, []), ("p", True, [("pause", "p")])],
)
async def test_who_leaves_pauses_the_plan_or_cancels_their_own_turn(plan_id, ours, did):
    client = Client(Plan("running", "paused"))
    talk = talks(client, manner=Manner(ours=ours))
    talk.outcome.plan_id = plan_id

    with pytest.raises(KeyboardInterrupt):
        await talk._leave()
    assert client.did == did
    assert talk._person.told == ["Сессия сохранена. Продолжить: gng attach s"]


LEFT = "Ждёт решения: a. Решить: HOME=x gng approvals decide a approve"
PAUSED = "План приостановлен человеком. Продолжить: HOME=x gng plans resume p"
QUESTION = {
    "type": "tool_call", "call_id": "c", "tool_name": "ask_followup_question",
    "arguments": {"question": "Which\x07?"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "wish", "code", "told"),
    [
        ({}, {}, Exit.DONE, []),
        ({"_denied": True}, {}, Exit.DENIED, []),
        ({"plan_id": "p"}, {}, Exit.WAITS, []),
        ({"plan_id": "p", "is_held": True}, {}, Exit.DONE, []),
        ({"plan_id": "p", "is_paused": True}, {}, Exit.WAITS, [PAUSED]),
        ({"plan_id": "p", "left": ["a"]}, {"plan_only": True}, Exit.DONE, [LEFT]),
        ({"left": ["a"]}, {"plan_only": True}, Exit.WAITS, [LEFT]),
        ({"left": ["a"], "_denied": True}, {}, Exit.WAITS, [LEFT]),
    ],
)
def test_at_the_end_it_is_told_what_waits_and_how_to_go_on(facts, wish, code, told):
    talk = talks(Client(), prefix="HOME=x ", **wish)
    given = dict(facts)
    talk._answers.left = given.pop("left", [])
    for name, value in given.items():
        setattr(talk.outcome, name, value)

    assert talk._end() is code
    assert talk._person.told == told


def test_a_question_that_nobody_answered_is_told_at_the_end():
    talk = talks(Client())
    talk.outcome.note(QUESTION)

    assert talk._end() is Exit.WAITS
    assert talk._person.told == [r"Which\x07?", "Сессия ждёт вашего ответа. Ответить: gng attach s"]


@pytest.mark.parametrize(
    ("event", "ends", "tells"),
    [
        ({"type": "plan_approved", "metadata": {"held": True}}, True, False),
        ({"type": "plan_approved", "metadata": {"held": False}}, False, False),
        ({"type": "plan_approved", "metadata": {}}, False, False),
        ({"type": "plan_paused", "metadata": {"held": True}}, False, False),
        ({"type": "assistant_message", "is_final": True}, True, True),
        ({"type": "assistant_message", "is_final": False}, False, False),
        ({"type": "plan_notification"}, False, True),
        ({"type": "approval_requested", "metadata": {"kind": "tool"}}, False, True),
        ({"type": "approval_requested", "metadata": {"kind": "plan"}}, False, False),
    ],
)
def test_what_ends_an_answer_and_what_may_give_the_person_something_to_do(event, ends, tells):
    assert (_ends(event), _tells(event)) == (ends, tells)


def test_there_is_more_to_come_until_what_was_sent_and_what_was_due_is_over():
    nobody: Any = None
    exchange = Exchange(nobody, "s", nobody, seen=3, due=5)
    assert exchange.is_busy
    exchange.note({"type": "x", "seq": 4})
    exchange.note({"type": "x"})
    assert (exchange.seen, exchange.is_busy) == (4, True)
    exchange.note({"type": "x", "seq": 5})
    exchange.note({"type": "x", "seq": 2})
    assert (exchange.seen, exchange.is_busy) == (5, False)
    exchange.open = 1
    assert exchange.is_busy
    exchange.note(Over(7))
    assert (exchange.open, exchange.is_busy) == (0, True)
    exchange.note({"type": "x", "seq": 7})
    assert not exchange.is_busy
    exchange.note(Over(0))
    assert exchange.open == -1


def test_a_plan_is_remembered_until_it_is_over_and_what_holds_it_up():
    outcome = Outcome()

    def state() -> tuple[Any, ...]:
        return outcome.plan_id, outcome.is_paused, outcome.is_held, outcome.exit

    def note(type_: str, **metadata: Any) -> tuple[Any, ...]:
        outcome.note({"type": type_, "metadata": metadata})
        return state()

    assert state() == (None, False, False, Exit.DONE)
    assert note("plan_notification", plan_id="p") == ("p", False, False, Exit.DONE)
    assert note("plan_approved", held=True) == ("p", False, True, Exit.DONE)
    assert note("plan_approved") == ("p", False, False, Exit.DONE)
    assert note("plan_paused") == ("p", True, False, Exit.DONE)
    assert note("plan_paused", reason="quota") == ("p", False, False, Exit.DONE)
    assert note("plan_paused", reason="lunch") == ("p", True, False, Exit.DONE)
    assert note("plan_completed", status="rejected") == (None, False, False, Exit.DENIED)
    assert note("plan_notification", plan_id="q")[0] == "q"
    assert note("plan_rejected") == (None, False, False, Exit.DENIED)
    assert note("plan_cancelled") == (None, False, False, Exit.FAILED)
    assert note("plan_completed", status="completed")[3] is Exit.DONE


def test_only_the_result_of_the_question_that_stands_answers_it():
    outcome = Outcome()
    outcome.note(QUESTION | {"subtask_id": "a"})
    outcome.note(QUESTION | {"tool_name": "read_file"})
    assert outcome.question is None
    outcome.note(QUESTION | {"arguments": {}})
    assert outcome.question == ""
    outcome.note(QUESTION)
    outcome.note({"type": "tool_result", "call_id": "d", "tool_name": "read_file"})
    outcome.note({"type": "tool_call", "call_id": "c", "tool_name": "x", "arguments": {}})
    assert outcome.question == "Which\x07?"
    outcome.note({"type": "tool_result", "call_id": "c", "tool_name": "x"})
    assert outcome.question is None
    outcome.note(QUESTION)
    outcome.fresh()
    assert outcome.question is None


def pausing(client: Any, *words: str | None, stays: bool = False) -> Any:
    person: Any = Person(*words)
    return Pausing(client=client, person=person, locale="ru", stays=stays)


@pytest.mark.parametrize(
    ("plan_id", "plan", "fails", "paused", "did"),
    [
        (None, Plan("running"), (), False, []),
        ("p", Plan("running", "paused"), (), True, [("pause", "p")]),
        ("p", Plan("running", "running"), ("pause",), False, [("pause", "p")]),
        ("p", Plan("paused"), (), True, []),
        ("p", Plan("awaiting_approval"), (), False, []),
        ("p", None, (), False, []),
    ],
)
async def test_only_a_plan_that_runs_is_paused(plan_id, plan, fails, paused, did):
    client = Client(plan, *fails)
    assert await pausing(client).pause(plan_id) is paused
    assert client.did == did


@pytest.mark.parametrize(
    ("status", "is_open"), [("running", True), ("paused", True), ("completed", False)]
)
async def test_a_plan_is_open_until_it_is_over(status, is_open):
    assert await pausing(Client(Plan(status))).is_open("p") is is_open
    assert not await pausing(Client(Plan(status))).is_open(None)
    assert not await pausing(Client()).is_open("p")


@pytest.mark.parametrize(
    ("paused", "plan", "stays", "asked"),
    [
        (True, True, False, ("cli_paused_question", {
            "resume": "cli_resume", "message": "cli_message", "cancel": "cli_cancel_plan",
            "leave": "cli_leave_running",
        })),
        (True, True, True, ("cli_paused_question", {
            "resume": "cli_resume", "message": "cli_message", "cancel": "cli_cancel_plan",
            "leave": "cli_leave",
        })),
        (False, False, False, ("cli_stop_question", {
            "go_on": "cli_go_on", "message": "cli_message", "cancel": "cli_cancel_turn",
            "leave": "cli_leave",
        })),
        (False, True, False, ("cli_stop_question", {
            "go_on": "cli_go_on", "message": "cli_message", "cancel": "cli_cancel_plan",
            "leave": "cli_leave",
        })),
    ],
)  # fmt: skip
async def test_what_can_come_next_is_asked_and_no_answer_leaves(paused, plan, stays, asked):
    found = pausing(Client(), "message", None, stays=stays)
    assert [await found.ask(paused=paused, plan=plan) for _ in range(2)] == ["message", "leave"]
    question, options = asked
    told = {word: say(key, "ru") for word, key in options.items()}
    assert found.person.asked == [(say(question, "ru"), told)] * 2
    assert list(found.person.asked[0][1]) == list(options)


async def test_that_a_plan_cannot_go_on_is_said():
    found = pausing(Client(Plan("paused"), "resume"))
    await found.resume("p")
    assert found.person.told == ["resume is refused"]


async def test_what_runs_of_a_paused_plan_is_waited_for():
    plan = Plan("paused", running=(True, False))
    await pausing(Client(plan)).rest("p")
    assert plan.running == []
    await pausing(Client()).rest("p")
    await pausing(Client()).rest(None)


async def test_a_person_is_told_once_that_the_disk_is_full_and_once_that_it_is_not(monkeypatch):
    full, read_only = because("the disk of {folder} is full; free some space", folder="/s"), "it"
    problems = [None, full, full, read_only, None, None]
    looked: list[Path] = []

    def looks(home: Path) -> str | None:
        looked.append(home)
        if not problems:
            raise InterruptedError
        return problems.pop(0)

    monkeypatch.setattr("gonogo.cli.session.conversation._LOOK", 0)
    monkeypatch.setattr("gonogo.cli.session.conversation.disk_problem", looks)
    talk = talks(Client())
    with pytest.raises(InterruptedError):
        await talk._tell_of_disk(Folder(Path("/s")))

    assert {*looked} == {Path("/s")}
    assert talk._person.told == [
        "gonogo ждёт, пока сможет писать: на диске с папкой /s нет места; освободите его. "
        "После этого работа продолжится сама.",
        say("cli_home_waits", "ru", problem="it"),
        say("cli_home_writable", "ru", home="/s"),
    ]
