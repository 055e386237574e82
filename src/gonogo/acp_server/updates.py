"""Events of a session as the updates that editors are sent, one after the other.

What streams in comes as it is written; of a subtask, which writes beside others, when it is whole.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from acp import schema
from acp.helpers import (
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_current_mode,
    update_tool_call,
)

from gonogo.domain.events import MARKS, TONES
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.states import ApprovalKind, wants_words
from gonogo.domain.text_safety import guarded, visible, visible_json
from gonogo.domain.views import ApprovalView
from gonogo.i18n import phrase, reworded, say
from gonogo.policy import lasting

# Tool calls as editors show them: what kind, which files, what changes in them.

Content = (
    schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent
)
TOLD = frozenset(
    {"create_plan", "execute_plan", "switch_mode", "ask_followup_question", "attempt_completion"}
)
"""Tools of which other events tell."""
_KINDS: Mapping[str, schema.ToolKind] = {
    "read_file": "read",
    "read_skill": "read",
    "list_files": "search",
    "search_in_code": "search",
    "read_output": "read",
    "explore": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "apply_patch": "edit",
    "create_directory": "edit",
    "move_file": "move",
    "delete_file": "delete",
    "execute_command": "execute",
    "give_decision": "think",
    "give_verdict": "think",
}
_SHOW_DIFFERENCES = frozenset({"edit", "delete"})
"""Kinds of tools whose preview is what changes in files."""
_PATHS = ("path", "source", "destination")
_SUBJECTS = ("path", "source", "pattern", "url", "name")
_LONGEST_TITLE, _LONGEST_OUTPUT = 200, 20_000
_FILE = re.compile(
    r"^--- (?P<old>[^\t\n]+)[^\n]*\n\+\+\+ (?P<new>[^\t\n]+)[^\n]*$(?=\n@@)", re.MULTILINE
)
"""Lines that were `-- …` and become `++ …` look like it, but no hunk comes after them."""
_NOTHING = "/dev/null"


def kind_of(tool: str) -> schema.ToolKind:
    """What kind of thing a tool does."""
    return _KINDS.get(tool, "other")


def title_of(tool: str, arguments: Mapping[str, Any], subtask_id: str | None = None) -> str:
    """A call in one line."""
    where = f"[{subtask_id}] " if subtask_id else ""
    command = arguments.get("command")
    if tool == "execute_command" and isinstance(command, str):
        return where + f"`{one_line(command)}`"
    subject = next((arguments[n] for n in _SUBJECTS if isinstance(arguments.get(n), str)), "")
    return where + f"{tool} {one_line(subject)}".rstrip()


def one_line(text: str, longest: int = _LONGEST_TITLE) -> str:
    """A stranger's text in one line, with what could deceive escaped."""
    line = " ".join(text.split())
    return visible(line if len(line) <= longest else line[: longest - 1] + "…")


def locations_of(
    tool: str, arguments: Mapping[str, Any], root: str
) -> list[schema.ToolCallLocation]:
    """The files that a call is about, as absolute paths."""
    paths = [arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)]
    if tool == "apply_patch":
        paths = [path for path, _, _ in fragments(str(arguments.get("patch", "")))]
    line = arguments.get("start_line")
    return [
        schema.ToolCallLocation(
            path=absolute(root, path), line=line if isinstance(line, int) else None
        )
        for path in dict.fromkeys(paths)
    ]


def absolute(root: str, path: str) -> str:
    """A path of a workspace as the editor names it."""
    return posixpath.normpath(posixpath.join(root, path))


def changes_of(tool: str, arguments: Mapping[str, Any], root: str) -> list[Content]:
    """What a call would change, as far as its arguments alone tell."""
    if tool == "apply_patch":
        return differences(str(arguments.get("patch", "")), root)
    if tool != "edit_file":
        return []
    path, old, new = (str(arguments.get(name, "")) for name in ("path", "old", "new"))
    return [tool_diff_content(absolute(root, path), new, old)]


def created(arguments: Mapping[str, Any], result: object, root: str) -> list[Content]:
    """A file that a call has made."""
    if not (isinstance(result, dict) and cast("dict[str, Any]", result).get("created") is True):
        return []
    path, content = arguments.get("path"), arguments.get("content")
    if not (isinstance(path, str) and isinstance(content, str)):
        return []
    return [tool_diff_content(absolute(root, path), content)]


def differences(patch: str, root: str) -> list[Content]:
    """A unified diff, piece by piece."""
    return [
        tool_diff_content(absolute(root, path), new, old) for path, old, new in fragments(patch)
    ]


def fragments(patch: str) -> Iterator[tuple[str, str | None, str]]:
    """The path, the old and the new lines of each hunk; no old ones where the file is new."""
    files = list(_FILE.finditer(patch))
    ends = [*(found.start() for found in files[1:]), len(patch)]
    for found, end in zip(files, ends, strict=False):
        old, new = found["old"].strip(), found["new"].strip()
        path = re.sub(r"^[ab]/", "", old if new == _NOTHING else new)
        for hunk in re.split(r"^@@.*$", patch[found.end() : end], flags=re.MULTILINE)[1:]:
            lines = hunk.strip("\n").split("\n")
            before = _side(lines, "-")
            yield path, None if old == _NOTHING else before, _side(lines, "+")


def _side(lines: list[str], sign: str) -> str:
    kept = [line[1:] for line in lines if line[:1] in (" ", sign, "")]
    return "".join(f"{line}\n" for line in kept)


def text_content(text: str) -> schema.ContentToolCallContent:
    """A text in the place of a call's content."""
    if len(text) > _LONGEST_OUTPUT:
        text = "…\n" + text[-_LONGEST_OUTPUT:]
    return tool_content(text_block(text))


def output_of(tool: str, result: object, locale: str | None = None) -> list[Content]:
    """What a call gave, where its content is worth reading."""
    if tool != "execute_command" or not isinstance(result, dict):
        return []
    fields = cast("dict[str, Any]", result)
    output = visible(str(fields.get("output", ""))).rstrip()
    code = fields.get("exit_code")
    ended = phrase("exit code {code}", locale, code=code) if code is not None else ""
    shown = f"{fenced(output)}\n{ended}" if output else ended
    return [text_content(shown.strip())] if shown.strip() else []


def fenced(text: str) -> str:
    """A text as it is: between fences longer than any in it, so that it cannot end them itself."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


# A question to a person as a request for permission, and their choice as the wire has it.
#
# An answer of the protocol is the id of an option and nothing more; what else there is to say is
# asked for in a form, where the editor has forms, or said in the next message.

REVISE, EDIT, ANSWER = "revise", "edit", "answer"
FIELDS = {REVISE: "changes", ANSWER: "answer"}
"""Choices after which a person writes something, and the field of a form for it."""
# A client that nobody sits at takes the first option of a kind: what it declines is rejected.
_PLAN: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    ("approve", "allow_once"), ("hold", "allow_once"), ("reject", "reject_once"),
    (REVISE, "reject_once"),
)  # fmt: skip
_AFTER_WHY: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    (REVISE, "reject_once"), ("reject", "reject_once"),
)  # fmt: skip
"""Of a plan that is rejected with a reason."""
_OF_PLANS = {"reject": "editor_stop"}
"""How options are called where they are about a plan, and elsewhere mean something else."""
_TOOL: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    ("approve", "allow_once"), ("approve_plan", "allow_always"),
    ("approve_session", "allow_always"), (EDIT, "allow_once"), ("reject", "reject_once"),
)  # fmt: skip
_LASTING = {"approve_plan": "for_plan", "approve_session": "for_session"}
"""Choices that allow a call from now on, and what says so on the wire."""
_QUESTION: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    (ANSWER, "allow_once"), ("reject", "reject_once"),
)  # fmt: skip
"""Of an agent that wants to know something."""
_OTHER: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    ("approve", "allow_once"), ("reject", "reject_once"),
)  # fmt: skip
_SUGGESTION = "answer:"
"""What the choice of an answer begins with that the agent itself suggests."""
_MODEL = "model:"
"""What the choice of a model begins with that is asked in the place of one that does not answer."""
_OPTIONS = {ApprovalKind.PLAN: _PLAN, ApprovalKind.TOOL: _TOOL}


def is_plan(approval: ApprovalView) -> bool:
    """Whether a plan is asked about."""
    return approval.kind == ApprovalKind.PLAN


def shown_as(approval: ApprovalView) -> str:
    """The id under which a question stands among the tool calls of its session."""
    if approval.kind == ApprovalKind.TOOL and approval.call_id:
        return approval.call_id
    return approval.approval_id


def options_of(
    approval: ApprovalView, locale: str, *, forms: bool
) -> list[schema.PermissionOption]:
    """What a person may choose.

    Args:
        forms: Whether the editor can ask for more than a choice.
    """
    if wants_words(approval.kind, approval.details):
        return [*_suggested(approval), *_choices(_QUESTION, approval, locale)]
    ways = {EDIT: forms} | {word: way in lasting(approval) for word, way in _LASTING.items()}
    given = _OPTIONS.get(cast("ApprovalKind", approval.kind), _OTHER)
    found = _choices([each for each in given if ways.get(each[0], True)], approval, locale)
    models: list[str] = approval.details.get("models", [])
    # Before what ends the work, as at a terminal.
    found[-1:-1] = [
        schema.PermissionOption(
            option_id=f"{_MODEL}{model}", kind="allow_once",
            name=say("editor_other_model", locale, model=one_line(model)),
        )
        for model in models
    ]  # fmt: skip
    return found


def after_why(approval: ApprovalView, locale: str) -> list[schema.PermissionOption]:
    """What a person may choose who has said why they reject a plan."""
    return _choices(_AFTER_WHY, approval, locale)


def _choices(
    given: Sequence[tuple[str, schema.PermissionOptionKind]], approval: ApprovalView, locale: str
) -> list[schema.PermissionOption]:
    own = _OF_PLANS if is_plan(approval) else {}
    return [
        schema.PermissionOption(
            option_id=word, kind=kind, name=say(own.get(word, f"editor_{word}"), locale)
        )
        for word, kind in given
    ]


def _suggested(approval: ApprovalView) -> Iterator[schema.PermissionOption]:
    """The agent's own suggestions, each shown whole, as it is sent when it is chosen."""
    found = [str(each) for each in approval.details.get("suggestions") or () if str(each).strip()]
    for suggestion in dict.fromkeys(found):
        name = one_line(suggestion, len(suggestion))
        yield schema.PermissionOption(
            option_id=f"{_SUGGESTION}{suggestion}", kind="allow_once", name=name
        )


def start_of(approval: ApprovalView, root: str) -> schema.ToolCallStart:
    """A question that is not about a tool call, as an entry of its own."""
    return start_tool_call(
        shown_as(approval),
        one_line(approval.subject),
        kind="think",
        status="pending",
        content=content_of(approval, root),
    )


def call_of(approval: ApprovalView, root: str) -> schema.ToolCallUpdate:
    """What is asked about, as it would run."""
    is_call = approval.kind == ApprovalKind.TOOL
    tool, arguments = approval.tool_name or "", approval.arguments or {}
    return schema.ToolCallUpdate(
        tool_call_id=shown_as(approval),
        title=(
            title_of(tool, arguments, approval.subtask_id)
            if is_call
            else one_line(approval.subject)
        ),
        kind=kind_of(tool) if is_call else "think",
        status="pending",
        content=content_of(approval, root),
        locations=(locations_of(tool, arguments, root) or None) if is_call else None,
        raw_input=arguments or None,
        field_meta={
            "approval_id": approval.approval_id, "digest": approval.digest,
            "reason": approval.reason,
        },
    )  # fmt: skip


def content_of(approval: ApprovalView, root: str) -> list[Content]:
    """What a person reads before they choose."""
    preview = approval.details.get("preview")
    tool = approval.tool_name or str(approval.details.get("tool", ""))
    # Of any other tool it is text of the agent's, which may look like a difference.
    is_difference = isinstance(preview, str) and kind_of(tool) in _SHOW_DIFFERENCES
    if is_difference and (pieces := differences(str(preview), root)):
        return [*pieces, text_content(approval.reason)]
    subtasks = approval.details.get("subtasks")
    if isinstance(subtasks, list):
        summary = approval.details.get("summary") or _listed(cast("list[Any]", subtasks))
        return [text_content(f"{summary}\n\n{approval.reason}".strip())]
    text = preview or (visible_json(approval.arguments, indent=2) if approval.arguments else "")
    block = f"{fenced(str(text))}\n" if text else ""
    return [text_content(f"{block}{approval.reason}".strip() or approval.subject)]


def decided(approval: ApprovalView, word: str) -> dict[str, Any]:
    """The message that carries a choice, bound to what was shown."""
    if is_plan(approval):
        decision = PlanDecision(
            plan_id=approval.plan_id or "", decision=word, digest=approval.digest,
            revision=approval.revision,
        )  # fmt: skip
    else:
        decision = HitlDecision(
            approval_id=approval.approval_id, decision=word.split("_")[0],
            digest=approval.digest, for_session=_LASTING.get(word) == "for_session",
            for_plan=_LASTING.get(word) == "for_plan",
        )  # fmt: skip
    return decision.model_dump(mode="json", exclude_none=True)


def chosen(approval: ApprovalView, word: str) -> dict[str, Any]:
    """The message of a choice: of another model from now on, of a suggested answer, or a word."""
    if word.startswith(_MODEL):
        other = {"result": {"model": word.removeprefix(_MODEL)}}
        return {**decided(approval, EDIT), "modified_arguments": other}
    if word.startswith(_SUGGESTION):
        return answered(approval, word.removeprefix(_SUGGESTION))
    return decided(approval, word)


def answered(approval: ApprovalView, text: str) -> dict[str, Any]:
    """The message that tells an agent what it wants to know."""
    return {**decided(approval, "approve"), "feedback": text}


def edited(approval: ApprovalView, answers: Mapping[str, Any]) -> dict[str, Any]:
    """The message that carries other arguments."""
    fields = {**(approval.arguments or {}), **answers}
    return {**decided(approval, EDIT), "modified_arguments": fields}


def form_of(approval: ApprovalView, word: str, locale: str) -> schema.ElicitationSchema:
    """What is asked for beyond a choice: changes to a plan, an answer, or a call's arguments."""
    if name := FIELDS.get(word):
        title = "editor_changes" if word == REVISE else "editor_your_answer"
        field = schema.ElicitationStringPropertySchema(
            type="string", title=say(title, locale), min_length=1
        )
        return schema.ElicitationSchema(properties={name: field}, required=[name])
    properties = {
        name: schema.ElicitationStringPropertySchema(type="string", title=name, default=value)
        for name, value in (approval.arguments or {}).items()
        if isinstance(value, str)
    }
    return schema.ElicitationSchema(properties=cast("dict[str, Any]", properties))


def _listed(subtasks: list[Any]) -> str:
    return "\n".join(
        f"- {subtask.get('id')}: {subtask.get('description')}"
        for subtask in cast("list[dict[str, Any]]", subtasks)
    )


# A plan as the list of entries that editors show, kept up to date with its graph.
#
# The protocol's entries are a list, and know three states. The graph is in `_meta`: `id`,
# `dependencies`, and the exact `status`. An entry that failed, was skipped or was cancelled is not
# shown as completed: it stays `pending`, and its text says what came of it.

_STATES: Mapping[str, schema.PlanEntryStatus] = {
    "running": "in_progress",
    "in_progress": "in_progress",
    "waiting_approval": "in_progress",
    "completed": "completed",
}
_ENDS = {
    "subtask_started": "running",
    "subtask_completed": "completed",
    "subtask_failed": "failed",
    "subtask_skipped": "skipped",
    "subtask_cancelled": "cancelled",
    "subtask_retrying": "pending",
}
_SAID = frozenset({"failed", "skipped", "cancelled"})
_META = ("id", "dependencies", "agent", "tool", "type", "estimated_time")


class ShownPlan:
    """The plan that a session shows now."""

    def __init__(self) -> None:
        self.plan_id: str | None = None
        self.revision = 0
        self._subtasks: list[Mapping[str, Any]] = []
        self._critical: frozenset[str] = frozenset()
        self._states: dict[str, str] = {}

    def show(
        self,
        plan_id: str,
        revision: int,
        subtasks: Iterable[Mapping[str, Any]],
        critical: Iterable[str] | None = None,
    ) -> schema.AgentPlanUpdate:
        """Show a revision; what is known of subtasks that it keeps stays known."""
        if plan_id != self.plan_id:
            self._states = {}
        if critical is not None:
            self._critical = frozenset(critical)
        self.plan_id, self.revision, self._subtasks = plan_id, revision, list(subtasks)
        for subtask in self._subtasks:
            if "status" in subtask:
                self._states[subtask["id"]] = str(subtask["status"])
        return self._entries()

    def hear(self, event: Mapping[str, Any]) -> schema.AgentPlanUpdate | None:
        """Take in an event of a subtask; the list, if that has changed it."""
        state = _ENDS.get(event["type"])
        if state is None or event.get("plan_id") != self.plan_id:
            return None
        subtask_id = event["metadata"]["subtask_id"]
        if self._states.get(subtask_id) == state:
            return None
        self._states[subtask_id] = state
        return self._entries()

    def clear(self) -> schema.AgentPlanUpdate:
        """There is no plan any more."""
        self.plan_id, self._subtasks = None, []
        return self._entries()

    def _entries(self) -> schema.AgentPlanUpdate:
        entries = [self._entry(subtask) for subtask in self._subtasks]
        return schema.AgentPlanUpdate(session_update="plan", entries=entries)

    def _entry(self, subtask: Mapping[str, Any]) -> schema.PlanEntry:
        state = self._states.get(subtask["id"], "pending")
        said = f"{state}: " if state in _SAID else ""
        meta = {name: subtask[name] for name in _META if subtask.get(name) is not None}
        meta |= {"status": state, "plan_id": self.plan_id, "revision": self.revision}
        return schema.PlanEntry(
            content=said + guarded(str(subtask["description"])),
            priority="high" if subtask["id"] in self._critical else "medium",
            status=_STATES.get(state, "pending"),
            field_meta=meta,
        )


Event = Mapping[str, Any]
Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.AvailableCommandsUpdate
    | schema.CurrentModeUpdate
    | schema.SessionInfoUpdate
    | schema.UsageUpdate
)
_ASIDE = frozenset({"assistant_message", "window_used"})
"""Events after which what is being said goes on."""
_QUIET = frozenset({"subtask_completed", "subtask_cancelled"})
"""The list of subtasks says it."""


def said(text: str) -> schema.AgentMessageChunk:
    """Something that an agent says, or that is said in its place."""
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=text_block(text))


def asked(text: str) -> schema.UserMessageChunk:
    """Something that the user has said."""
    return schema.UserMessageChunk(session_update="user_message_chunk", content=text_block(text))


class Updates:
    """What a session's events look like in an editor; knows what it has shown so far."""

    def __init__(self, root: str, board: ShownPlan, locale: str | None = None) -> None:
        self._root, self.board, self.locale = root, board, locale
        self._written: dict[str, str] = {}
        """Message → what of it has come already."""
        self._speaking: str | None = None
        """The message that was shown last, if nothing else was shown since."""
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._shows: dict[str, Callable[[Event], list[Update]]] = {
            "assistant_message": self._spoken,
            "agent_switched": self._switched,
            "plan_notification": self._planned,
            "tool_call": self._called,
            "tool_approved": self._allowed,
            "tool_rejected": self._refused,
            "tool_result": self._resulted,
            "window_used": self._filled,
            **dict.fromkeys(TONES, self._noticed),
        }

    def of(self, event: Event) -> list[Update]:
        """What is to be shown of an event."""
        kind = str(event["type"])
        if kind.startswith("subtask_"):
            found = self._progressed(event)
        else:
            show = self._shows.get(kind)
            found = show(event) if show else []
        if found and kind not in _ASIDE:
            self._speaking = None
        return found

    def call(
        self, call_id: str, tool: str, arguments: Mapping[str, Any], subtask_id: str | None
    ) -> schema.ToolCallStart:
        """A call that begins."""
        self._calls[call_id] = tool, arguments
        return start_tool_call(
            call_id,
            title_of(tool, arguments, subtask_id),
            kind=kind_of(tool),
            status="pending",
            content=changes_of(tool, arguments, self._root) or None,
            locations=locations_of(tool, arguments, self._root) or None,
            raw_input=dict(arguments),
        )

    def _filled(self, event: Event) -> list[Update]:
        """How full the window of the session's own conversation is; subtasks have their own."""
        facts = event["metadata"]
        if event.get("subtask_id"):
            return []
        used, size = facts["tokens"], facts["window"]
        return [schema.UsageUpdate(session_update="usage_update", used=used, size=size)]

    def ended(
        self, call_id: str, tool: str, result: object, error: str | None
    ) -> schema.ToolCallProgress:
        """A call that is over."""
        _, arguments = self._calls.pop(call_id, (tool, {}))
        content: list[Content]
        if error is not None:
            content = [text_content(error)]
        else:
            shown = output_of(tool, result, self.locale)
            content = shown or created(arguments, result, self._root)
        return update_tool_call(
            call_id,
            status="completed" if error is None else "failed",
            content=content or None,
            raw_output=result if error is None else {"error": error},
        )

    def _spoken(self, event: Event) -> list[Update]:
        key = f"{event.get('turn_id')}/{event.get('subtask_id')}/{event.get('agent')}"
        if "token" in event:
            if "subtask_id" in event:
                return []
            self._written[key] = self._written.get(key, "") + event["token"]
            return self._say(key, event["token"])
        before = self._written.pop(key, "")
        text = str(event.get("content") or "")
        if before and text.startswith(before):
            text = text[len(before) :]
        elif before.endswith(text):
            # It was cut off, and written once more from its beginning.
            text = ""
        if not text:
            return []
        updates = self._say(key, _where(event) + text if not before else text)
        self._speaking = None if before else self._speaking
        return updates

    def _say(self, key: str, text: str) -> list[Update]:
        new = self._speaking != key
        apart = "\n\n" if new and self._speaking is not None else ""
        self._speaking = key
        return [said(apart + text)]

    def _switched(self, event: Event) -> list[Update]:
        if "subtask_id" in event:
            return []
        return [update_current_mode(event["metadata"]["to_agent"])]

    def _planned(self, event: Event) -> list[Update]:
        facts = event["metadata"]
        return [
            self.board.show(
                facts["plan_id"], facts["revision"], facts["subtasks"], facts.get("critical_path")
            )
        ]

    def _called(self, event: Event) -> list[Update]:
        if event["tool_name"] in TOLD:
            return []
        start = self.call(
            event["call_id"], event["tool_name"], event["arguments"], event.get("subtask_id")
        )
        if not event["requires_approval"]:
            start.status = "in_progress"
        start.field_meta = _meta(event)
        return [start]

    def _allowed(self, event: Event) -> list[Update]:
        changed = event["metadata"].get("modified_arguments")
        call_id = event["call_id"]
        if changed and call_id in self._calls:
            tool, _ = self._calls[call_id]
            start = self.call(call_id, tool, changed, event.get("subtask_id"))
            return [
                update_tool_call(
                    call_id, title=start.title, status="in_progress", content=start.content,
                    locations=start.locations, raw_input=start.raw_input,
                )
            ]  # fmt: skip
        return [update_tool_call(call_id, status="in_progress")]

    def _refused(self, event: Event) -> list[Update]:
        text = event.get("content") or event["metadata"].get("feedback") or "rejected"
        self._calls.pop(event["call_id"], None)
        return [update_tool_call(event["call_id"], status="failed", content=[text_content(text)])]

    def _resulted(self, event: Event) -> list[Update]:
        if event["tool_name"] in TOLD or event["call_id"] not in self._calls:
            return []
        return [
            self.ended(
                event["call_id"], event["tool_name"], event.get("result"), event.get("error")
            )
        ]

    def _progressed(self, event: Event) -> list[Update]:
        update = self.board.hear(event)
        updates: list[Update] = [update] if update else []
        mark = MARKS.get(event["type"])
        if mark is None or event["type"] in _QUIET:
            return updates
        facts = event["metadata"]
        error: Event = facts.get("error") or {}
        text = error.get("message") or facts.get("reason") or event.get("content") or ""
        return [*updates, said(f"\n\n{mark} {facts['subtask_id']}: {text}\n\n")]

    def _noticed(self, event: Event) -> list[Update]:
        text = reworded(event.get("content") or "", self.locale)
        updates: list[Update] = [said(f"\n\n{text}\n\n")] if text else []
        if event["type"] == "plan_rejected":
            updates.append(self.board.clear())
        return updates


def _where(event: Event) -> str:
    return f"[{event['subtask_id']}] " if "subtask_id" in event else ""


def _meta(event: Event) -> dict[str, Any] | None:
    names = ("plan_id", "subtask_id", "agent")
    return {name: event[name] for name in names if name in event} or None
