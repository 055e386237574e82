"""What agents are told of instruction files and skills, and when.

Before each request the files are looked at. What was not told in the conversation yet is appended
to it as one message, kept like any other, so that later requests have the same bytes. A file that
has changed since is told as the difference from what was told first. Nothing of it reaches the
gate: scopes, rules, grants and questions are made without it.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import anyio.to_thread
from msgspec import Struct, field

from gonogo.domain.errors import ToolFailed
from gonogo.domain.events import InstructedFacts, InstructionsLoaded
from gonogo.domain.instructions import (
    MOST_CHANGED,
    MOST_TOLD,
    FoundInstructions,
    FoundSkill,
    InstructionText,
    beginning,
    changed_lines,
    quoted,
    skill_index,
)
from gonogo.domain.records import CallRow
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import InstructionFile, Instructions, Message, ToolSchema, unfinished
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.profiles import MODEL
from gonogo.i18n import say
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.sessions import append_message, set_session
from gonogo.tools import READ_SKILL, touched
from gonogo.workspace import InstructionReader

MOST_FILES = 64
"""Files, and changes of files, that one conversation is told of."""
_INDEX = ("skills", "skills")

Block = tuple[InstructionFile, str]
"""What is told of one file, and the words."""


class Briefings(Struct, frozen=True, kw_only=True):
    """Tells conversations what instruction files say."""

    reader: InstructionReader

    async def news(
        self, thread: Thread, said: Sequence[Message], calls: Sequence[CallRow]
    ) -> Instructions | None:
        """What a conversation was not told yet; None: nothing is new."""
        # A model alone is no agent, and what it has begun to say is not to be broken.
        if not self.reader.on or thread.agent == MODEL or unfinished(said):
            return None
        folder = None if thread.remote else thread.workspace
        paths = touched_paths(calls)
        found = await anyio.to_thread.run_sync(self._look, folder, paths)
        return None if found is None else compose(said, found, thread.locale)

    def _look(self, folder: Path | None, paths: Sequence[str]) -> FoundInstructions | None:
        try:
            return self.reader.look(folder, paths)
        except (OSError, ToolFailed):
            # The workspace is away: whoever works in it will say so.
            return None

    def keep(self, tx: Tx, thread: Thread, said: Sequence[Message], told: Instructions) -> None:
        """Append what is told to what was said, and write down which files: paths and digests."""
        thread.owner.check(tx)
        append_message(
            tx, thread.session_id, thread.name, told, turn_id=thread.turn_id, agent=thread.agent,
        )  # fmt: skip
        files = [facts_of(file) for file in told.files]
        names = ", ".join(file.path for file in told.files)
        event = InstructionsLoaded(
            content=say("instructions_loaded", thread.locale, names=names),
            metadata=InstructedFacts(files=files), **thread.place,
        )  # fmt: skip
        log.tell(tx, thread.session_id, event)
        log.note(
            tx, thread.session_id, actor=f"agent:{thread.agent}", action="instructions.loaded",
            subject=thread.name, files=files,
        )  # fmt: skip
        if thread.subtask_id is None:
            # What planners know is shown with their plans.
            known = [file for file in told_of([*said, told]).values() if file.how != "gone"]
            set_session(tx, thread.session_id, instructions=[facts_of(file) for file in known])


def facts_of(file: InstructionFile) -> dict[str, object]:
    """What events, plans and the audit log say of a file: never what stands in it."""
    known = {} if file.sha256 is None else {"sha256": file.sha256}
    cut = file.how in {"cut", "named", "changed"}
    where = {"path": file.path, "source": file.source}
    return {**where, **known, "bytes": file.size, "how": file.how, "cut": cut}


def told_of(said: Sequence[Message]) -> dict[tuple[str, str], InstructionFile]:
    """What a conversation was told last of each file."""
    return {
        file.key: file
        for message in said
        if isinstance(message, Instructions)
        for file in message.files
    }


def usable(tools: Sequence[ToolSchema], said: Sequence[Message]) -> tuple[ToolSchema, ...]:
    """The tools without `read_skill` where a conversation was told of no skill."""
    listed = told_of(said).get(_INDEX)
    if listed is not None and listed.how != "gone":
        return tuple(tools)
    return tuple(tool for tool in tools if tool.name != READ_SKILL)


def touched_paths(calls: Sequence[CallRow]) -> list[str]:
    """The paths that calls which were carried out have named, each once, in order."""
    found: dict[str, None] = {}
    for call in calls:
        if call.status is not CallStatus.COMPLETED:
            continue
        try:
            access = touched(call.tool, call.arguments)
        except (ToolFailed, KeyError):
            continue
        paths = (*access.reads, *access.writes, *access.deletes, access.cwd)
        found |= {path: None for path in paths if path is not None}
    return list(found)


def compose(said: Sequence[Message], found: FoundInstructions, locale: str) -> Instructions | None:
    """The message that tells a conversation what it does not know of what was found."""
    before = [message for message in said if isinstance(message, Instructions)]
    telling = _Telling(before=before, locale=locale)
    if found.skills:
        telling.index(found.skills)
    for file in found.files:
        telling.tell(file)
    telling.gone({(file.source, file.path) for file in found.files})
    if not telling.blocks:
        return None
    opening = say("model_instructions_more" if before else "model_instructions", locale)
    ending = say("model_instructions_end", locale)
    words = "\n".join(words for _, words in telling.blocks)
    return Instructions(
        content=f"{opening}\n\n{words}\n{ending}", files=tuple(file for file, _ in telling.blocks)
    )


class _Telling(Struct, kw_only=True):
    """One message as it comes to be, with what the conversation was told before."""

    before: Sequence[Instructions]
    locale: str
    blocks: list[Block] = field(default_factory=list[Block])

    def tell(self, file: InstructionText) -> None:
        """Tell of a file, unless the conversation knows it as it is."""
        last = self._known.get((file.source, file.path))
        named = last is not None and last.how == "offered" and not file.offered
        if self._is_full or (last is not None and last.sha256 == file.sha256 and not named):
            return
        base = self._first_told((file.source, file.path))
        if (other := self._same(file)) is not None:
            self._add(file, "same", other=other)
        elif file.offered:
            self._add(file, "offered", quoted(file.offered))
        elif last is None or named:
            self._whole(file)
        elif base is not None:
            self._change(file, base)
        else:
            self._add(file, "changed")

    def index(self, skills: Sequence[FoundSkill]) -> None:
        """Tell the names of skills, and what each is about."""
        text = skill_index(skills)
        if not text:
            return
        digest = sha256(text.encode()).hexdigest()
        last = self._known.get(_INDEX)
        words = say("model_skills", self.locale) + "\n" + quoted(text)
        known = last is not None and last.sha256 == digest
        if known or self._is_full or len(words.encode()) > self._room:
            return
        file = InstructionFile(
            path="skills", source="skills", sha256=digest, size=len(text.encode()), how="whole"
        )
        self.blocks.append((file, words))

    def gone(self, there: set[tuple[str, str]]) -> None:
        """Tell of what is no longer there."""
        for key, last in self._known.items():
            if key in there or key == _INDEX or last.how == "gone" or self._is_full:
                continue
            file = InstructionFile(path=last.path, source=last.source, how="gone")
            self.blocks.append((file, say("model_instruction_gone", self.locale, path=last.path)))

    @property
    def _known(self) -> Mapping[tuple[str, str], InstructionFile]:
        """What was told last of each file, this message included."""
        return told_of(self.before) | {file.key: file for file, _ in self.blocks}

    @property
    def _is_full(self) -> bool:
        told = sum(len(message.files) for message in self.before)
        return told + len(self.blocks) >= MOST_FILES

    @property
    def _room(self) -> int:
        before = sum(len(message.content.encode()) for message in self.before)
        return MOST_TOLD - before - sum(len(words.encode()) for _, words in self.blocks)

    def _first_told(self, key: tuple[str, str]) -> str | None:
        """The text of a file as it was told first, where that was the whole of it."""
        told = (file for message in self.before for file in message.files)
        return next((file.text for file in told if file.key == key and file.how == "whole"), None)

    def _same(self, file: InstructionText) -> str | None:
        """Another file that says just the same, and was told."""
        for key, told in self._known.items():
            other = key != (file.source, file.path) and told.sha256 == file.sha256
            if other and told.how in {"whole", "cut", "diff"}:
                return told.path
        return None

    def _whole(self, file: InstructionText) -> None:
        text = quoted(file.text)
        if len(text.encode()) <= self._room:
            self._add(file, "whole", text)
            return
        kept = beginning(file.text, self._room)
        if kept:
            self._add(file, "cut", quoted(kept))
        else:
            self._add(file, "named")

    def _change(self, file: InstructionText, base: str) -> None:
        text = quoted(changed_lines(base, file.text))
        small = len(text.encode()) <= min(MOST_CHANGED, self._room)
        self._add(file, *(("diff", text) if small else ("changed",)))

    def _add(self, file: InstructionText, how: str, text: str = "", *, other: str = "") -> None:
        head = say(
            f"model_instruction_{how}", self.locale, path=file.path, sha=file.sha256,
            size=file.size, other=other, source=say(f"model_source_{file.source}", self.locale),
        )  # fmt: skip
        told = InstructionFile.model_validate(
            {
                "path": file.path, "source": file.source, "sha256": file.sha256,
                "size": file.size, "how": how, "text": file.text if how == "whole" else "",
            }
        )  # fmt: skip
        self.blocks.append((told, f"{head}\n{text}"))
