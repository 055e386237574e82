"""Nothing that a person typed into a plan is lost, and nothing is sent that they did not change."""

import json
import re
import stat
from datetime import UTC, datetime

import httpx
import pytest

from gonogo.cli import plan_yaml as form
from gonogo.cli.daemon import RuntimeLink
from gonogo.cli.plan_file import MAX_TEXT, EditedPlan, PlanEditor, SentEdits, text_of
from gonogo.cli.plan_yaml import read
from gonogo.cli.session.decisions import _send
from gonogo.cli.support import Exit, Stop
from gonogo.cli.terminal.input import TerminalPerson, Withdrawn
from gonogo.client import Client, Unreachable
from gonogo.domain.errors import NotFound
from gonogo.domain.plan import Subtask
from gonogo.domain.plan_views import RevisionView
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalView

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = [
    Subtask(id="a", description="Do a", agent="coder"),
    Subtask(id="b", description="Do b", agent="coder", dependencies=("a",)),
]
REVISION = RevisionView(
    plan_id="p1", revision=2, digest="d", goal="Goal", subtasks=PLAN, created_at=NOW,
    created_by="ann", reason="proposed",
)  # fmt: skip
FOUND = {"severity": "warning", "code": "no_paths", "subtask_id": "b", "message": "b: anywhere"}
QUESTION = ApprovalView(
    approval_id="appr_1", request_id="r", kind="plan", request_type="plan", session_id="s",
    subject="Goal", details={"findings": [FOUND]}, reason="", digest="d", status="pending",
    created_at=NOW, plan_id="p1", revision=2,
)  # fmt: skip


class Server:
    """Gives the revision, and finds what it is told to find."""

    def __init__(self) -> None:
        self.found, self.checked = {}, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/revisions/2"):
            return httpx.Response(200, json=REVISION.model_dump(mode="json", exclude_none=True))
        if isinstance(self.found, Exception):
            raise self.found
        self.checked.append(json.loads(request.content)["modified_subtasks"])
        return httpx.Response(200, json={"ok": True, **self.found})


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def edit(server, tmp_path):
    """Edit with a shell script as the editor, which finds the file as its argument."""

    async def edited(script="true", **options):
        editor = tmp_path / "editor"
        editor.write_text(f"#!/bin/sh\n{script}\n")
        editor.chmod(stat.S_IRWXU)
        person = TerminalPerson({"VISUAL": "", "EDITOR": f"'{editor}'"})
        async with Client("http://x", transport=httpx.MockTransport(server)) as client:
            desk = PlanEditor(
                client=client, person=person, folder=tmp_path / "drafts", locale="en",
            )  # fmt: skip
            desk.folder.mkdir()
            return await desk.edit(QUESTION, sure=True, **options)

    return edited


async def test_a_question_about_no_plan_has_nothing_to_edit_and_asks_the_server_nothing(
    tmp_path,
):
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(404, json={"code": "not_found", "detail": "none"})

    async with Client("http://x", transport=httpx.MockTransport(answer)) as client:
        desk = PlanEditor(
            client=client, person=TerminalPerson({}), folder=tmp_path, locale="en",
        )  # fmt: skip
        with pytest.raises(NotFound):
            await desk.edit(QUESTION.model_copy(update={"plan_id": None}))
        assert asked == []
        with pytest.raises(NotFound):
            await desk.edit(QUESTION.model_copy(update={"revision": None}))
        assert asked == ["/api/v1/plans/p1/revisions/1"]


async def test_what_the_person_saved_is_what_is_sent(edit, server):
    draft = await edit('sed -i "s/Do b/Do it/" "$1"')

    assert draft.subtasks == (PLAN[0], PLAN[1].model_copy(update={"description": "Do it"}))
    assert server.checked[0][1]["description"] == "Do it"
    assert draft.file.name == "p1-2.yaml"


async def test_what_is_known_of_the_plan_stands_in_the_text(edit, tmp_path):
    await edit(f'cp "$1" {tmp_path}/seen')
    seen = (tmp_path / "seen").read_text()

    assert seen.startswith("# Please note:\n")
    assert "# ! b: anywhere\n- id: b\n" in seen


async def test_an_unchanged_plan_is_not_sent_and_leaves_nothing(edit, tmp_path):
    assert await edit() is None
    assert list((tmp_path / "drafts").iterdir()) == []


@pytest.mark.parametrize(
    "found",
    [
        {"findings": [FOUND | {"severity": "error", "message": "no such agent"}]},
        {"problem": "no such agent", "subtask_id": "b"},
    ],
)
async def test_what_the_server_would_refuse_is_not_sent_and_the_text_is_kept(
    edit, server, tmp_path, capsys, found
):
    server.found = found
    with pytest.raises(Stop) as caught:
        await edit('sed -i "s/Do b/Do it/" "$1"')
    assert re.fullmatch(r"\d+: no such agent\n", capsys.readouterr().err)

    (kept,) = (tmp_path / "drafts").iterdir()
    assert f"--from {kept}" in str(caught.value)
    assert "Do it" in kept.read_text()


async def test_a_server_that_goes_away_loses_nothing(edit, server, tmp_path, capsys):
    server.found = httpx.ConnectError("gone")
    with pytest.raises(Unreachable):
        await edit('sed -i "s/Do b/Do it/" "$1"')

    (kept,) = (tmp_path / "drafts").iterdir()
    assert "Do it" in kept.read_text()
    assert f"--from {kept}" in capsys.readouterr().err


async def test_a_text_from_elsewhere_is_taken_as_typed(edit, tmp_path):
    draft = await edit("exit 9", given="- {id: a, description: Only this, agent: coder}\n")

    assert [subtask.description for subtask in draft.subtasks] == ["Only this"]
    assert "Only this" in draft.file.read_text()


@pytest.mark.parametrize(
    ("script", "said", "kept"),
    [
        ("exit 1", "ended with exit code 1", 0),
        ('rm "$1"; exit 1', "ended with exit code 1", 0),
        ('echo typed >> "$1"; exit 1', "--from", 1),
        ('printf "\\377" >> "$1"', "not UTF-8", 1),
    ],
)
async def test_an_editor_that_fails_loses_nothing(edit, tmp_path, script, said, kept):
    with pytest.raises(Stop, match=said):
        await edit(script)

    assert len(list((tmp_path / "drafts").iterdir())) == kept


async def test_a_text_goes_away_when_it_was_taken_and_stays_when_it_was_refused(edit, capsys):
    drafts = SentEdits(TerminalPerson({}), "en")
    draft = await edit('sed -i "s/Do b/Do it/" "$1"')
    drafts.sent("appr_1", draft)
    drafts.settle({"appr_1"})
    drafts.refused("p1")
    drafts.settle(())
    assert draft.file.exists()
    assert f"--from {draft.file}" in capsys.readouterr().err

    drafts.sent("appr_1", draft)
    drafts.settle(())
    assert not draft.file.exists()


@pytest.mark.parametrize(
    ("status", "is_kept"),
    [("edited", False), ("superseded", False), ("pending", True), ("rejected", True)],
)
@pytest.mark.parametrize("is_there", [True, False], ids=["there", "gone"])
async def test_a_text_that_was_sent_by_command_goes_away_when_it_was_taken_and_may_be_gone_already(
    tmp_path, capsys, status, is_kept, is_there
):
    file = tmp_path / "p1-2.yaml"
    file.write_text("typed")
    decided = QUESTION.model_copy(update={"status": ApprovalStatus(status)})

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=decided.model_dump(mode="json", exclude_none=True))
        if not is_there:
            file.unlink()
        assert json.loads(request.content)["message"]["decision"] == "edit"
        told = {"type": "session_info", "session_id": "s"}
        text = f"event: message\ndata: {json.dumps(told)}\n\n"
        return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})

    async with Client("http://x", transport=httpx.MockTransport(answer)) as client:
        draft = EditedPlan(tuple(PLAN), file, "p1")
        ended = await _send(RuntimeLink(client, None), QUESTION, draft, json=False)

    assert ended is Exit.DONE
    assert file.exists() is (is_kept and is_there)
    assert "appr_1" in capsys.readouterr().out


async def test_a_text_that_somebody_took_away_meanwhile_is_not_missed(edit):
    drafts = SentEdits(TerminalPerson({}), "en")
    draft = await edit('sed -i "s/Do b/Do it/" "$1"')
    draft.file.unlink()
    drafts.sent("appr_1", draft)
    drafts.settle(())
    assert not draft.file.exists()


@pytest.mark.parametrize("value", ["'unclosed", "/no/such/editor --wait"])
async def test_an_editor_that_cannot_be_started_is_said(value):
    with pytest.raises(Stop, match=r"EDITOR|VISUAL"):
        await TerminalPerson({"VISUAL": value, "EDITOR": "true"}).edit("x")


def test_a_file_that_is_too_long_is_not_cut_but_said_to_be(tmp_path):
    file = tmp_path / "plan"
    file.write_text("ж" * (MAX_TEXT + 2))
    [flaw] = read(text_of(file, "en"), "en").flaws
    assert "more than 8388608 characters" in flaw.message


class Editing:
    """A person at a terminal who edits a text in these ways, and answers in these words."""

    is_there = True

    def __init__(self, edits, words=()):
        self.edits, self.words = list(edits), list(words)
        self.told, self.asked, self.opened = [], [], []

    def tell(self, text):
        self.told.append(text)

    async def edit(self, text, suffix=".json", *, keep=None):
        self.opened.append(text)
        changed = self.edits.pop(0)(text)
        keep.write_text(changed)
        return changed

    async def choose(self, question, options):
        self.asked.append((question, options))
        word = self.words.pop(0)
        if isinstance(word, Exception):
            raise word
        return word


@pytest.fixture
def talk(server, tmp_path):
    """Let a person edit the plan, in Russian; gives what is to be sent, and the folder of texts."""

    async def talked(person, approval=QUESTION, **options):
        async with Client("http://x", transport=httpx.MockTransport(server)) as client:
            (tmp_path / "drafts").mkdir(exist_ok=True)
            desk = PlanEditor(
                client=client, person=person, folder=tmp_path / "drafts", locale="ru",
            )  # fmt: skip
            return await desk.edit(approval, **options)

    return talked


KEPT = (
    "Ничего не отправлено. Ваш текст сохранён в {file}; продолжить: gonogo plans edit p1 "
    "--from {file}"
)
ASKED = (
    "Одобрить план в вашей правке?",
    {"send": "одобрить и отправить", "edit": "править дальше", "discard": "не отправлять"},
)
ORDER = "Подзадачи те же, но в другом порядке."
WRONG = (
    "# Отправить это пока нельзя:",
    "# Исправьте и сохраните. Если сохранить без изменений, ничего не отправится, а ваш "
    "текст сохранится.",
)
FOUND_TWO = (
    "Нужно исправить 2 ошибки; редактор откроется снова. Первая: поля agnet нет; поля: "
    "description, "
)


def same(text):
    return text


def better(text):
    return text.replace("Do b", "Do it")


def kept_in(folder):
    return [path.name for path in (folder / "drafts").iterdir()]


async def test_what_is_otherwise_is_told_before_it_is_sent(talk, server, tmp_path):
    person = Editing([better], ["send"])
    server.found = {"findings": [FOUND | {"severity": "info", "message": "i\x07"}]}

    draft = await talk(person)

    assert [subtask.description for subtask in draft.subtasks] == ["Do a", "Do it"]
    assert person.told == [
        "p1  ревизии 2 → 3", "~ b", "    description: Do b → Do it", "! к сведению: i\\x07",
    ]  # fmt: skip
    assert person.asked == [ASKED]
    assert (draft.plan_id, draft.file) == ("p1", tmp_path / "drafts" / "p1-2.yaml")


async def test_another_order_is_a_change_of_its_own(talk):
    person = Editing([lambda _: form.write("Goal", [PLAN[1], PLAN[0]])], ["send"])

    draft = await talk(person)

    assert [subtask.id for subtask in draft.subtasks] == ["b", "a"]
    assert person.told == ["p1  ревизии 2 → 3", ORDER]


async def test_a_text_is_edited_again_as_often_as_the_person_wants(talk, tmp_path):
    person = Editing([better, lambda text: text.replace("Do it", "Do well")], ["edit", "send"])

    draft = await talk(person)

    assert [subtask.description for subtask in draft.subtasks] == ["Do a", "Do well"]
    assert "Do it" in person.opened[1]
    assert "anywhere" not in person.opened[1]


@pytest.mark.parametrize("word", ["discard", None])
async def test_a_text_that_is_given_up_is_kept_and_named(talk, tmp_path, word):
    person = Editing([better], [word])

    assert await talk(person) is None
    assert kept_in(tmp_path) == ["p1-2.yaml"]
    assert person.told[-1] == KEPT.format(file=tmp_path / "drafts" / "p1-2.yaml")


async def test_a_text_that_was_given_up_is_what_is_opened_next(talk, tmp_path):
    file = tmp_path / "drafts" / "p1-2.yaml"
    await talk(Editing([better], ["discard"]))
    person = Editing([lambda text: text.replace("Do it", "Do it well")], ["send"])

    draft = await talk(person)

    assert [subtask.description for subtask in draft.subtasks] == ["Do a", "Do it well"]
    assert person.told[0].startswith(f"Продолжаем с вашего черновика: {file}.")
    file.unlink()
    person = Editing([better], ["send"])
    await talk(person)
    assert "Do b" in person.opened[0]


async def test_a_question_that_is_taken_back_while_it_is_edited_loses_nothing(talk, tmp_path):
    person = Editing([better], [Withdrawn()])

    with pytest.raises(Withdrawn):
        await talk(person)
    assert person.told[-1] == KEPT.format(file=tmp_path / "drafts" / "p1-2.yaml")


async def test_what_is_wrong_stands_in_the_text_when_it_opens_again(talk, server):
    person = Editing([lambda text: text.replace("agent: coder", "agnet: coder"), mended], ["send"])

    draft = await talk(person)

    assert [subtask.description for subtask in draft.subtasks] == ["Do a", "Do b now"]
    first, second, third, fourth = person.opened[1].split("\n")[:4]
    assert (first, fourth) == WRONG
    assert second.startswith("# ! ")
    assert third.startswith("# ! ")
    assert person.told[0].startswith(FOUND_TWO)


def mended(text):
    return text.replace("agnet: coder", "agent: coder").replace("Do b", "Do b now")


async def test_a_text_that_is_saved_with_what_is_wrong_in_it_is_given_up(talk, tmp_path):
    person = Editing([lambda text: text.replace("agent: coder", "agnet: coder"), same])

    with pytest.raises(Stop) as caught:
        await talk(person)
    assert str(caught.value) == KEPT.format(file=tmp_path / "drafts" / "p1-2.yaml")


async def test_where_nobody_can_mend_it_each_flaw_is_told_with_its_line(talk, server, tmp_path):
    person = Editing([])
    person.is_there = False
    server.found = {"findings": [
        FOUND | {"severity": "error", "message": "bad\nb"},
        FOUND | {"severity": "error", "subtask_id": None, "message": "all of it"},
        FOUND,
    ]}  # fmt: skip

    with pytest.raises(Stop):
        await talk(person, given="- {id: a, description: D}\n- {id: b, description: E}\n")
    assert person.told == ["2: bad\\x0ab", "-: all of it"]


OPENED = """\
# Обратите внимание:
# ! 16: b: anywhere
# Измените план, сохраните и закройте редактор. До отправки вы увидите, что изменилось.
# Чтобы добавить подзадачу, скопируйте одну из них; чтобы убрать, удалите её. Цель здесь не \
меняется.
# Поля: description, agent, tool, type, dependencies, estimated_time, inputs, condition, scope, \
approval_required, retry_policy, timeout, on_reject, after_skipped, done_when, must_change
# Числа, true, false и null — как в JSON; любое другое слово — текст. Якоря и теги \
не поддерживаются.
# Комментарии не учитываются.

goal: Goal
subtasks:
- id: a
  description: Do a
  agent: coder
  estimated_time: 5 min
# ! b: anywhere
- id: b
  description: Do b
  agent: coder
  dependencies:
  - a
  estimated_time: 5 min
"""
HELP = OPENED.split("\n", 2)[2].replace("# ! b: anywhere\n", "")
FINE, ALL = FOUND | {"severity": "info"}, FOUND | {"subtask_id": None, "message": "all"}


@pytest.mark.parametrize(
    ("findings", "opened"),
    [
        ([FOUND], OPENED),
        ([FINE, ALL], f"# Обратите внимание:\n# ! all\n{HELP}"),
        ([FINE], HELP),
        (None, HELP),
    ],
)
async def test_a_plan_opens_with_what_can_be_done_and_what_is_worth_knowing(
    talk, tmp_path, findings, opened
):
    person = Editing([same])
    asked = QUESTION.model_copy(update={"details": {"findings": findings}})

    assert await talk(person, asked) is None
    assert person.opened == [opened]
    assert person.told == ["Изменений нет; ничего не отправлено."]
    assert kept_in(tmp_path) == []
