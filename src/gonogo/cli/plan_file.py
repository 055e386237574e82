"""A plan as a YAML file that a person edits until it can be sent, so that nothing is lost."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct, field
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gonogo.cli.folder import read_settings
from gonogo.cli.support import Exit, Stop
from gonogo.cli.terminal.input import TerminalPerson, Withdrawn
from gonogo.cli.terminal.render import diff_lines
from gonogo.client import Client
from gonogo.domain.errors import GonogoError, InvalidPlan, mistake_of
from gonogo.domain.plan import MAX_SUBTASKS, Revision, Subtask, check_graph
from gonogo.domain.plan_views import FindingView, RevisionView, plan_diff
from gonogo.domain.text_safety import visible
from gonogo.domain.views import ApprovalView
from gonogo.i18n import say, term, told

# A plan as a text that a person edits: what was read of it, what is wrong with it, and where.
#
# How it is written and read is in `plan_yaml`: what was written and nobody changed is read back as
# exactly the same subtasks. Nothing here looks at files or at a server.

MAX_TEXT = 8 * 1024 * 1024
"""Characters; the largest plan that the wire takes is far below."""


class Flaw(Struct, frozen=True):
    """Something to tell of a text, at one of its lines; 0 is the whole text."""

    line: int
    message: str


class WrittenSubtask(Struct, frozen=True, kw_only=True):
    """One subtask as a person wrote it."""

    fields: Mapping[str, Any]
    line: int
    """Where it begins; lines count from 1."""
    lines: Mapping[str, int]
    """Where each field stands; one that is not named, where the subtask begins."""


class ReadPlan(Struct, frozen=True, kw_only=True):
    """What was read of a text."""

    goal: str | None = None
    items: list[WrittenSubtask] = field(default_factory=list[WrittenSubtask])
    flaws: list[Flaw] = field(default_factory=list[Flaw])

    def line_of(self, subtask_id: str | None) -> int:
        """Where a subtask begins; 0 where there is none of that id."""
        return next((i.line for i in self.items if i.fields.get("id") == subtask_id), 0)


def subtasks_of(reading: ReadPlan, goal: str, locale: str) -> tuple[Subtask, ...]:
    """The subtasks that were read. What is wrong with them is added to the reading's flaws.

    Args:
        goal: What the plan is for; an edit leaves it as it is.
    """
    flaws = reading.flaws
    if reading.goal is not None and reading.goal != goal:
        flaws.append(Flaw(0, say("cli_plan_goal", locale)))
    if not reading.items and not flaws:
        flaws.append(Flaw(0, say("cli_plan_empty", locale)))
    if len(reading.items) > MAX_SUBTASKS:
        flaws.append(Flaw(0, say("cli_plan_too_many", locale, count=MAX_SUBTASKS)))
    found = [each for item in reading.items if (each := _subtask(item, flaws, locale))]
    if flaws:
        return ()
    try:
        check_graph(found)
    except InvalidPlan as defect:
        flaws.append(Flaw(reading.line_of(defect.subtask_id), told(defect.said, locale)))
    return tuple(found)


def own_plan(reading: ReadPlan, locale: str) -> tuple[str, tuple[Subtask, ...]]:
    """The goal and the subtasks of a plan that a person wrote; flaws are added to the reading's."""
    goal = (reading.goal or "").strip()
    if not reading.flaws and not goal:
        reading.flaws.append(Flaw(1, say("cli_plan_no_goal", locale)))
    if not reading.flaws and not reading.items:
        reading.flaws.append(Flaw(0, say("cli_plan_no_subtasks", locale)))
    return goal, subtasks_of(reading, reading.goal or "", locale)


def as_json(subtasks: Iterable[Subtask]) -> list[dict[str, Any]]:
    """Subtasks as the wire has them: what was written, and nothing that was left out."""
    return [
        subtask.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        for subtask in subtasks
    ]


_HANDED_OVER = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def text_of(file: Path, locale: str) -> str:
    """What a file holds, as far as it is not longer than a plan may be, and one character more.

    Raises:
        Stop: it cannot be read as text, or is no file: a named pipe may never end.
    """
    # What the shell hands over, by these names, is a pipe as a rule.
    if not file.is_file() and not str(file.absolute()).startswith(_HANDED_OVER):
        raise Stop(say("cli_plan_no_file", locale, file=file), Exit.USAGE)
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            # One more than may be: whoever reads it says that it is too long.
            return opened.read(MAX_TEXT + 1)
    except UnicodeDecodeError:
        raise Stop(say("cli_plan_not_utf8", locale, file=file), Exit.USAGE) from None


def marked(
    text: str, notes: Sequence[Flaw], comment: Callable[[str], str], *around: str
) -> tuple[str, list[str]]:
    """The text with notes as comments: all at its top with their lines, and each at its place.

    Gives the lines that were added, too, so that `unmarked` can take them out again.

    Args:
        around: What stands before the notes at the top, and after them.
    """
    lines = text.split("\n")
    places = sorted({note.line for note in notes if note.line})
    top = len(notes) + len(around)
    beside = {note.line: list[str]() for note in notes}
    said: list[str] = []
    for note in notes:
        shown = visible(note.message, lines=False)
        beside[note.line].append(comment(f"! {shown}"))
        # What is added above a line: the top, and the notes at lines before it and at itself.
        above = sum(other.line <= note.line for other in notes if other.line)
        where = f"{note.line + top + above}: " if note.line else ""
        said.append(comment(f"! {where}{shown}"))
    added = [*map(comment, around[:1]), *said, *map(comment, around[1:])]
    for place in reversed(places):
        lines[place - 1 : place - 1] = beside[place]
    inserted = [each for place in places for each in beside[place]]
    return "\n".join([*added, *lines]), [*added, *inserted]


def unmarked(text: str, added: Iterable[str]) -> str:
    """The text without lines that were added; one that the person changed stays."""
    left = list(added)
    kept: list[str] = []
    for line in text.split("\n"):
        if line.rstrip("\r") in left:
            left.remove(line.rstrip("\r"))
        else:
            kept.append(line)
    return "\n".join(kept)


def _subtask(item: WrittenSubtask, flaws: list[Flaw], locale: str) -> Subtask | None:
    try:
        return Subtask.model_validate(item.fields)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in each["loc"])
            line = item.lines.get(str(each["loc"][0]) if each["loc"] else "", item.line)
            flaws.append(Flaw(line, _said(each, name, locale)))
        return None


def _said(found: ErrorDetails, name: str, locale: str) -> str:
    if found["type"] == "extra_forbidden" and len(found["loc"]) == 1:
        return say("cli_plan_unknown_field", locale, name=name, fields=", ".join(FIELDS))
    return f"{name}: {told(mistake_of(found), locale)}"


FIELDS = tuple(name for name in Subtask.model_fields if name != "id")


# Editing a plan in the person's editor: opened again until it can be sent, and nothing is lost.
#
# The text lies in the state folder while it is edited and until what it says was taken; whoever
# stops half-way is told where, and goes on from there. Before an edit is sent, the server says what
# it finds about it, and the person sees what is otherwise.


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
            kept = None if given is not None else await edit.kept()
            if given is not None:
                await edit.take(given)
            elif kept is None:
                await edit.begin(approval)
            else:
                await edit.go_on(kept)
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
        # Every command that talks imports this room, and few need what reads YAML.
        from gonogo.cli import plan_yaml

        self._by, self._revision, self._file = by, revision, file
        self._form, self._locale, self._person = plan_yaml, by.locale, by.person
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

    async def kept(self) -> str | None:
        """What was typed when this revision was edited before, and not sent."""
        path = anyio.Path(self._file)
        if not await path.exists():
            return None
        return (await path.read_bytes()).decode(errors="replace")

    async def go_on(self, text: str) -> None:
        """Open what was typed before."""
        self._tell("cli_plan_goes_on", file=self._file)
        await self._open(text, [])

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
        lines = list(diff_lines(diff, self._locale))
        if not (diff.added or diff.removed or diff.changed):
            lines[1:] = [say("cli_plan_order", self._locale)]
        return [
            *lines,
            *(
                f"! {term('severity', f.severity, self._locale)}: {visible(f.message, lines=False)}"
                for f in self._notes
            ),
        ]

    def _placed(self, text: str, found: Sequence[FindingView]) -> list[Flaw]:
        reading = self._form.read(text, self._locale)
        return [Flaw(reading.line_of(f.subtask_id), f.message) for f in found]

    async def _open(self, text: str, added: Sequence[str]) -> None:
        try:
            self._saved = await self._person.edit(text, keep=self._file)
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
