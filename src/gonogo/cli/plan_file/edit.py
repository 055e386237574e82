"""Editing a plan in the person's editor: opened again until it can be sent, and nothing is lost.

The text lies in the state folder while it is edited and until what it says was taken; whoever stops
half-way is told where, and goes on from there. Before an edit is sent, the server says what it
finds about it, and the person sees what is otherwise.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from gonogo.cli.folder import read_settings
from gonogo.cli.plan_file.text import FIELDS, Flaw, as_json, marked, subtasks_of, unmarked
from gonogo.cli.support import Stop
from gonogo.cli.terminal.input import TerminalPerson, Withdrawn
from gonogo.cli.terminal.render import diff_lines
from gonogo.client import Client
from gonogo.domain.errors import GonogoError
from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.plan_views import FindingView, RevisionView, plan_diff
from gonogo.domain.text_safety import visible
from gonogo.domain.views import ApprovalView
from gonogo.i18n import say


class EditedPlan(Struct, frozen=True):
    """Subtasks as a person edited them, and the file with what they typed."""

    subtasks: tuple[Subtask, ...]
    file: Path
    plan_id: str


class PlanEditor(Struct, frozen=True, kw_only=True):
    """Lets a person edit plans."""

    client: Client
    person: TerminalPerson
    folder: Path
    locale: str

    async def edit(
        self, approval: ApprovalView, *, given: str | None = None, sure: bool = False
    ) -> EditedPlan | None:
        """Let the person edit the plan that a question is about; None when nothing is to be sent.

        Args:
            given: Begin with this text, as if it had been typed in the editor.
            sure: Ask nothing, neither before it is sent nor by opening the editor again.

        Raises:
            Stop: there is no editor, or the person gave up; where their text is kept is said.
        """
        revision = await self.client.plan_revision(approval.plan_id or "", approval.revision or 1)
        file = self.folder / self._name(revision)
        edit = _Edit(self, revision, file)
        try:
            if given is None:
                await edit.begin(approval)
            else:
                await edit.take(given)
            return await edit.to_its_end(sure=sure)
        except (GonogoError, Withdrawn, anyio.get_cancelled_exc_class()):
            # Somebody else decided, the server went away, or the person was interrupted.
            if file.exists():
                self.person.tell(_kept(file, revision.plan_id, self.locale))
            raise

    def _name(self, revision: RevisionView) -> str:
        return f"{revision.plan_id}-{revision.revision}.yaml"


def plan_editor(client: Client, person: TerminalPerson, locale: str) -> PlanEditor:
    """An editor of plans for this command."""
    folder = read_settings().drafts
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return PlanEditor(client=client, person=person, folder=folder, locale=locale)


class SentEdits:
    """Edits that were sent: their texts go when they were taken, and stay when they were not."""

    def __init__(self, person: TerminalPerson, locale: str) -> None:
        self._person, self._locale = person, locale
        self._sent: dict[str, EditedPlan] = {}

    def sent(self, approval_id: str, draft: EditedPlan) -> None:
        """An edit is on its way."""
        self._sent[approval_id] = draft

    def refused(self, plan_id: str) -> None:
        """It was not taken: say where the text is."""
        for approval_id, draft in list(self._sent.items()):
            if draft.plan_id == plan_id:
                self._person.tell(_kept(draft.file, plan_id, self._locale))
                del self._sent[approval_id]

    def settle(self, pending: Collection[str]) -> None:
        """Take away the texts of questions that are no longer open."""
        for approval_id in [each for each in self._sent if each not in pending]:
            self._sent.pop(approval_id).file.unlink(missing_ok=True)


class _Edit:
    """One edit of one revision."""

    def __init__(self, by: PlanEditor, revision: RevisionView, file: Path) -> None:
        self._by, self._revision, self._file = by, revision, file
        # Every command that talks imports this room, and few need what reads YAML.
        from gonogo.cli.plan_file import yaml

        self._form, self._locale, self._person = yaml, by.locale, by.person
        self._typed = ""
        self._notes: list[FindingView] = []

    async def begin(self, approval: ApprovalView) -> None:
        """Open the plan as it is."""
        fields = ", ".join(FIELDS)
        about = say("cli_plan_help_yaml", self._locale, fields=fields)
        plan = self._form.write(self._revision.goal, self._revision.subtasks)
        text, added = self._form.block(about) + plan, list[str]()
        found = [FindingView.model_validate(f) for f in approval.details.get("findings") or ()]
        warnings = [f for f in found if f.severity != "info"]
        if notes := self._placed(text, warnings):
            intro = say("cli_plan_notes", self._locale)
            text, added = marked(text, notes, self._form.comment, intro)
        await self._open(text, added)

    async def take(self, text: str) -> None:
        """Take a text as typed."""
        self._typed = text
        await anyio.Path(self._file).write_text(text, encoding="utf-8")

    async def to_its_end(self, *, sure: bool) -> EditedPlan | None:
        """Judge what was typed, and go on until it can be sent or is given up."""
        while True:
            subtasks, flaws = await self._judged()
            if flaws:
                await self._mend(flaws, sure=sure)
                continue
            if list(subtasks) == self._revision.subtasks:
                self._tell("cli_plan_unchanged")
                self._file.unlink(missing_ok=True)
                return None
            word = "send" if sure else await self._asked(subtasks)
            if word == "send":
                return EditedPlan(subtasks, self._file, self._revision.plan_id)
            if word != "edit":
                self._person.tell(self._kept())
                return None
            await self._open(self._typed, [])

    async def _judged(self) -> tuple[tuple[Subtask, ...], list[Flaw]]:
        reading = self._form.read(self._typed, self._locale)
        subtasks = subtasks_of(reading, self._revision.goal, self._locale)
        if reading.flaws:
            return (), sorted(reading.flaws, key=lambda flaw: flaw.line)
        found = await self._by.client.check_plan(self._revision.plan_id, as_json(subtasks))
        if found.problem:
            return subtasks, [Flaw(reading.line_of(found.subtask_id), found.problem)]
        self._notes = found.findings
        errors = [f for f in found.findings if f.severity == "error"]
        return subtasks, [Flaw(reading.line_of(f.subtask_id), f.message) for f in errors]

    async def _mend(self, flaws: Sequence[Flaw], *, sure: bool) -> None:
        """Open the text again, with what is wrong in it; given up when it is saved as it was."""
        if sure or not self._person.is_there:
            for flaw in flaws:
                self._person.tell(f"{flaw.line or '-'}: {visible(flaw.message, lines=False)}")
            raise Stop(self._kept())
        first = visible(flaws[0].message, lines=False)
        self._tell("cli_plan_found", count=len(flaws), first=first)
        intro, outro = (say(key, self._locale) for key in ("cli_plan_flaws", "cli_plan_flaws_end"))
        opened, added = marked(self._typed, flaws, self._form.comment, intro, outro)
        await self._open(opened, added)
        if self._saved == opened:
            raise Stop(self._kept())

    async def _asked(self, subtasks: Sequence[Subtask]) -> str | None:
        for line in self._otherwise(subtasks):
            self._person.tell(line)
        options = {
            "send": say("cli_plan_send", self._locale),
            "edit": say("cli_plan_again", self._locale),
            "discard": say("cli_plan_discard", self._locale),
        }
        try:
            return await self._person.choose(say("cli_plan_send_question", self._locale), options)
        except Withdrawn:
            self._person.tell(self._kept())
            raise

    def _otherwise(self, subtasks: Sequence[Subtask]) -> list[str]:
        now = self._revision
        before = _as_revision(now, now.revision, now.subtasks)
        diff = plan_diff(before, _as_revision(now, now.revision + 1, subtasks))
        lines = list(diff_lines(diff))
        if not (diff.added or diff.removed or diff.changed):
            lines[1:] = [say("cli_plan_order", self._locale)]
        return [
            *lines,
            *(f"! {f.severity}: {visible(f.message, lines=False)}" for f in self._notes),
        ]

    def _placed(self, text: str, found: Sequence[FindingView]) -> list[Flaw]:
        reading = self._form.read(text, self._locale)
        return [Flaw(reading.line_of(f.subtask_id), f.message) for f in found]

    async def _open(self, text: str, added: Sequence[str]) -> None:
        try:
            self._saved = await self._person.edit(text, ".yaml", keep=self._file)
        except Stop as problem:
            if await _is(self._file, text):
                self._file.unlink(missing_ok=True)
                raise
            raise Stop(f"{problem}. {self._kept()}", problem.code) from None
        self._typed = unmarked(self._saved, added)

    def _kept(self) -> str:
        return _kept(self._file, self._revision.plan_id, self._locale)

    def _tell(self, key: str, **fields: object) -> None:
        self._person.tell(say(key, self._locale, **fields))


def _kept(file: Path, plan_id: str, locale: str) -> str:
    return say("cli_plan_kept", locale, file=file, plan_id=plan_id)


def _as_revision(view: RevisionView, number: int, subtasks: Sequence[Subtask]) -> Revision:
    return Revision(plan_id=view.plan_id, number=number, goal=view.goal, subtasks=tuple(subtasks))


async def _is(file: Path, text: str) -> bool:
    path = anyio.Path(file)
    return not await path.exists() or await path.read_bytes() == text.encode()
