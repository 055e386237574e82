"""Events, questions, revisions and reviews as a person reads them."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from rich.console import Console
from rich.text import Text

from gonogo.cli.language import own_locale
from gonogo.cli.support import Exit, Stop
from gonogo.cli.terminal.output import json_line, laid_out, one_line, spoken
from gonogo.cli.terminal.plan_graph import plan_lines, scope_line
from gonogo.domain.events import MARKS, TONES, Tone
from gonogo.domain.plan import Subtask, worker_name
from gonogo.domain.plan_views import CheckpointDiff, PlanDiff
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.text_safety import guarded, visible, visible_json
from gonogo.domain.views import ApprovalView, ReviewView
from gonogo.i18n import say

# What is otherwise in two revisions of a plan, or in the files of two checkpoints, as lines.


def diff_lines(diff: PlanDiff) -> Iterator[str]:
    """`+` for what was added, `-` for what was removed, `~` for what was changed, and how."""
    yield f"{diff.plan_id}  revision {diff.from_revision} → {diff.to_revision}"
    for subtask in diff.removed:
        yield f"- {_headline_of_change(subtask)}"
    yield from _added(diff.added)
    yield from _changed(diff.changed)
    if not (diff.added or diff.removed or diff.changed):
        yield "The same subtasks."


def revision_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Why there is another revision of a plan, what is otherwise in it, and what to know of it.

    Args:
        facts: `made_by`, `replan`, `changes`, `comments`, `findings` and `instructions` of a
            plan's question or notice, if it has them.
    """
    if made_by := facts.get("made_by"):
        yield say("summary_made_by", own_locale(), name=one_line(made_by))
    replan: Mapping[str, Any] = facts.get("replan") or {}
    changes = facts.get("changes")
    for name in ("cause", "subtask_id", "reason", "root_cause", "suggestion", "by"):
        if name in replan:
            yield f"{_REPLAN[name]}: {one_line(str(replan[name]), 1000)}"
    if changes:
        yield "Against the revision before:"
        yield from (f"- {one_line(key)}" for key in changes["removed"])
        yield from _added(map(Subtask.model_validate, changes["added"]))
        yield from _changed(changes["changed"])
    yield from comment_lines(facts.get("comments") or ())
    for finding in facts.get("findings") or ():
        said = one_line(finding.get("message", ""), 1000)
        yield f"! {finding.get('severity', '')}: {said}"
    if instructions := facts.get("instructions"):
        yield instruction_line(instructions)


def instruction_line(files: Iterable[Mapping[str, Any]]) -> str:
    """Which instruction files the planner was told of."""
    names = (f"{one_line(file['path'])}{' (cut)' * bool(file.get('cut'))}" for file in files)
    return f"The planner was told of: {', '.join(names)}"


def comment_lines(comments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What people said of a plan, and under it the agent's words, marked as such."""
    for comment in comments:
        where = one_line(comment.get("subtask_id") or "the plan")
        yield f"? {one_line(comment['author'])} on {where}: {one_line(comment['content'], 4_000)}"
        answer = comment.get("answer")
        yield f"    the agent answers: {one_line(answer, 4_000)}" if answer else "    no answer yet"


_REPLAN = {
    "cause": "planned anew for",
    "subtask_id": "after subtask",
    "reason": "because",
    "root_cause": "root cause",
    "suggestion": "suggestion",
    "by": "asked for by",
}


def file_lines(diff: CheckpointDiff) -> Iterator[str]:
    """Each file that differs, with its difference."""
    yield f"{diff.checkpoint_id} → {diff.to or 'the workspace now'}"
    for file in diff.files:
        yield f"{file.status} {visible(file.path, lines=False)}"
        yield from (f"    {text}" for text in file.diff.splitlines())
    if not diff.files:
        yield "The same files."
    if diff.truncated:
        yield "There is more than is shown."


def _added(subtasks: Iterable[Subtask]) -> Iterator[str]:
    for subtask in subtasks:
        yield f"+ {_headline_of_change(subtask)}"
        if subtask.dependencies:
            yield f"    after {', '.join(map(one_line, subtask.dependencies))}"
        if needs := scope_line(subtask.model_dump(mode="json")):
            yield f"    allowed: {needs}"


def _changed(changes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for change in changes:
        yield f"~ {one_line(change['id'])}"
        for name, values in change["fields"].items():
            yield f"    {name}: {_value(values['from'])} → {_value(values['to'])}"


def _headline_of_change(subtask: Subtask) -> str:
    worker = one_line(worker_name(subtask))
    return f"{one_line(subtask.id)}: {one_line(subtask.description, 160)} ({worker})"


def _value(value: Any) -> str:  # noqa: ANN401 - a field's JSON
    return "none" if value is None or value == [] else json_line(value, 300)


Event = Mapping[str, Any]
_SPOKEN = frozenset(
    {"create_plan", "execute_plan", "switch_mode", "ask_followup_question", "attempt_completion"}
)
"""Tools whose result other events tell."""
_OUTPUT = 12
"""Lines of a command's output that are shown; the last ones say how it ended."""


class Screen(Protocol):
    """Where events are shown."""

    def show(self, event: Event) -> None:
        """Show one event."""
        ...

    def glance(self, event: Event) -> None:
        """See an event that is not to be shown yet."""
        ...

    def look_at(self, plan_id: str) -> None:
        """A plan is of interest of which nothing has been shown."""
        ...

    async def stay(self) -> None:
        """Show what changes by itself, until cancelled."""
        ...


class PlainScreen:
    """A screen on which nothing changes that is there."""

    def glance(self, event: Event) -> None:
        """Nothing is shown of it."""

    def look_at(self, plan_id: str) -> None:
        """Nothing is shown of it."""

    async def stay(self) -> None:
        """Nothing changes."""


class JsonLines(PlainScreen):
    """One event a line, as it came."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def show(self, event: Event) -> None:
        """Write the event."""
        self._write(json.dumps(event, ensure_ascii=True) + "\n")


_TOLD_BY_OTHERS = frozenset({"plan_replanning", "plan_rolled_back"})
"""The failure before it, or the command that was given, says it."""
_ENDINGS = {"subtask_completed": "green", "subtask_failed": "red"}
_TONES = {
    Tone.NOTICE: "yellow",
    Tone.WARNING: "bold yellow",
    Tone.GOOD: "bold green",
    Tone.AGAIN: "green",
    Tone.RESULT: "bold",
}


class EventLines(PlainScreen):
    """Lines in the order things happen; colours and nothing more where there is a terminal.

    Text streams in as it is written, but for that of subtasks, which run side by side: theirs is
    shown when it is whole.
    """

    def __init__(self, console: Console, *, asks: bool = False) -> None:
        """Show events.

        Args:
            asks: A person is shown each question by itself, with the call that it is about.
        """
        self._console, self._asks = console, asks
        self._streaming = False
        self._streamed = ""
        """What has been shown of a text that is not closed yet."""
        self._calls: dict[str, str] = {}
        self._shows: dict[str, Callable[[Event], None]] = {
            "assistant_message": self._said,
            "agent_switched": self._switched,
            "plan_notification": self._planned,
            "tool_call": self._called,
            "tool_rejected": self._rejected,
            "tool_result": self._resulted,
            "subtask_started": self._started,
            **{
                word: self._ended(mark, _ENDINGS.get(word, "yellow"))
                for word, mark in MARKS.items()
            },
            **{
                word: self._content(_TONES[tone])
                for word, tone in TONES.items()
                if word not in _TOLD_BY_OTHERS
            },
            "plan_progress": self._progressed,
            "instructions_loaded": self._instructed,
            "error": self._failed,
        }

    def show(self, event: Event) -> None:
        """Show one event; those that tell a person nothing are left out."""
        shower = self._shows.get(str(event.get("type")))
        if shower is None:
            return
        if "token" not in event and self._streaming and event["type"] != "assistant_message":
            self._line("")
        shower(event)

    def _line(self, text: str, style: str = "") -> None:
        if self._streaming:
            self._streaming = False
            self._console.print()
            if not text:
                return
        shown = Text(guarded(text), style=style)
        if self._console.is_terminal:
            shown = laid_out(shown, self._console.width)
        self._console.print(shown, soft_wrap=True)

    def _said(self, event: Event) -> None:
        if "subtask_id" in event:
            if "token" not in event and event.get("content"):
                self._line(_where(event) + spoken(event["content"]), "dim")
        elif "token" in event:
            self._streaming = True
            self._streamed += event["token"]
            self._console.print(Text(spoken(event["token"])), end="", soft_wrap=True)
        elif not self._was_streamed(event):
            self._line(spoken(event["content"]))
        elif self._streaming:
            self._line("")

    def _was_streamed(self, event: Event) -> bool:
        """Whether the text that this event closes was shown while it was written.

        Other events may stand between: the switch back to who answered before comes first.
        """
        streamed, self._streamed = self._streamed, ""
        whole = (event.get("content") or "").strip()
        return self._streaming or streamed.rstrip().endswith(whole)

    def _switched(self, event: Event) -> None:
        facts = event["metadata"]
        if facts["from_agent"] != facts["to_agent"] and "subtask_id" not in event:
            reason = f": {one_line(facts['reason'], 300)}" if facts.get("reason") else ""
            self._line(f"→ {facts['to_agent']}{reason}", "cyan")

    def _planned(self, event: Event) -> None:
        facts = event["metadata"]
        title = one_line(facts.get("goal") or event["content"], 1000)
        self._line(f"\nPlan: {title}", "bold")
        self._line(f"{facts['plan_id']} · revision {facts['revision']}", "dim")
        for text in plan_lines(facts["subtasks"]):
            self._line(text)
        for text in revision_lines(facts):
            self._line(text, "yellow" * text.startswith(("!", "?")))

    def _called(self, event: Event) -> None:
        subject = _subject(event["arguments"])
        named = f"{event['tool_name']} {subject}".rstrip()
        self._calls[event["call_id"]] = f"{named}{_lines_of(event.get('metadata') or {})}"
        if event.get("requires_approval") and not self._asks:
            reason = one_line(event["metadata"].get("reason", ""), 300)
            self._line(f"{_where(event)}? {named} ({reason})", "yellow")

    def _rejected(self, event: Event) -> None:
        text = event.get("content") or event["metadata"].get("feedback") or "rejected"
        self._line(f"{_where(event)}✗ {spoken(text)}", "yellow")

    def _resulted(self, event: Event) -> None:
        name = self._calls.pop(event["call_id"], event["tool_name"])
        if event["tool_name"] in _SPOKEN and "error" not in event:
            return
        if "error" in event:
            self._line(f"{_where(event)}✗ {name}: {one_line(event['error'], 300)}", "red")
            return
        self._line(f"{_where(event)}{name} {_outcome(event.get('result'))}".rstrip(), "dim")
        for text in _output(event.get("result")):
            self._line(f"    {spoken(text)}", "dim")

    def _started(self, event: Event) -> None:
        self._line(f"▶ {spoken(event['content'])}", "bold")

    def _ended(self, mark: str, style: str) -> Callable[[Event], None]:
        def show(event: Event) -> None:
            facts = event["metadata"]
            error: Event = facts.get("error") or {}
            said = error.get("message") or facts.get("reason") or event.get("content") or ""
            took = facts.get("duration_seconds")
            time = f" ({took:.1f} s)" if took is not None else ""
            self._line(f"{mark} {facts['subtask_id']}{time} {one_line(said, 300)}".rstrip(), style)

        return show

    def _progressed(self, event: Event) -> None:
        facts = event["metadata"]
        self._line(f"  {facts['done']}/{facts['total']} · {facts['percentage']:.0f} %", "dim")

    def _instructed(self, event: Event) -> None:
        # Each subtask is told of the same files again.
        if "subtask_id" not in event:
            self._line(one_line(event["content"], 1000), "dim")

    def _content(self, style: str) -> Callable[[Event], None]:
        def show(event: Event) -> None:
            if said := event.get("content") or _said_of(event):
                self._line(spoken(said), style)

        return show

    def _failed(self, event: Event) -> None:
        self._line(f"error: {spoken(event.get('content') or event.get('error') or '')}", "bold red")


def _said_of(event: Event) -> str:
    """What a person is told of an event that has no words of its own."""
    try:
        return say(f"told_{event['type']}", own_locale())
    except KeyError:
        return ""


def _where(event: Event) -> str:
    return f"[{event['subtask_id']}] " if "subtask_id" in event else ""


def _lines_of(facts: Mapping[str, Any]) -> str:
    """How many lines an edit adds and takes away, where that is known."""
    if "lines_added" not in facts:
        return ""
    return f" +{facts['lines_added']} −{facts['lines_removed']}"


def _subject(arguments: Mapping[str, Any]) -> str:
    for name in ("command", "path", "source", "pattern", "question", "mode"):
        if isinstance(arguments.get(name), str):
            return one_line(arguments[name], 120)
    return ""


def _outcome(result: Any) -> str:  # noqa: ANN401 - as the tool gave it
    if not isinstance(result, dict) or "exit_code" not in result:
        return ""
    return f"→ exit code {result['exit_code']}"


def _output(result: Any) -> list[str]:  # noqa: ANN401 - as the tool gave it
    if not isinstance(result, dict):
        return []
    fields = cast("dict[str, Any]", result)
    lines = str(fields.get("output", "")).strip().splitlines()
    return lines if len(lines) <= _OUTPUT else ["…", *lines[-_OUTPUT:]]


# A question as a person reads it, and their answer as the wire has it.

_DIFFERS = re.compile(r"^(--- |\+\+\+ |@@ )", re.MULTILINE)
_COMMAND = "execute_command"
_CALL = 300
"""Letters of a call that are shown in the form in which it is judged."""
_PAGE = 60
"""Lines that are shown at once; who wants to approve has the rest shown first."""
_WIDTH = 80
"""Letters that count as one line of a page."""


def pages(lines: Iterable[str]) -> list[list[str]]:
    """The lines of a question, as many at a time as a person can take in; at least one page."""
    found: list[list[str]] = [[]]
    room = _PAGE
    for line in lines:
        rows = 1 + len(line) // _WIDTH
        if rows > room and found[-1]:
            found.append([])
            room = _PAGE
        found[-1].append(line)
        room -= rows
    return found


def question_lines(approval: ApprovalView) -> Iterator[str]:
    """What would happen, and why a person is asked; the text is as strangers wrote it."""
    yield _headline_of_question(approval)
    yield from _preview(approval)
    if approval.reason:
        yield f"reason: {spoken(approval.reason)}"
    if approval.open_comments:
        yield f"comments without an answer: {approval.open_comments}"
    if approval.subtask_id:
        yield f"subtask: {approval.subtask_id}"
    if approval.expires_at:
        yield f"expires: {approval.expires_at:%Y-%m-%d %H:%M}Z"


def decision(
    approval: ApprovalView, word: str, feedback: str | None = None, edited: object = None
) -> dict[str, Any]:
    """The message that answers a question, bound to what was shown.

    Raises:
        Stop: a plan's word for what is no plan, or an edit of another shape.
    """
    message: dict[str, Any] = {"decision": word, "digest": approval.digest}
    if feedback:
        message["feedback"] = feedback
    if approval.kind != "plan":
        return message | _of_call(approval, word, edited)
    message |= {"type": "plan_decision", "plan_id": approval.plan_id}
    if approval.revision is not None:
        message["revision"] = approval.revision
    if edited is not None:
        message["modified_subtasks"] = edited["subtasks"] if isinstance(edited, dict) else edited
    return message


def _headline_of_question(approval: ApprovalView) -> str:
    if approval.kind != "tool":
        return spoken(approval.subject)
    agent = approval.details.get("agent", "agent")
    return f"{agent} asks to use {spoken(approval.tool_name or approval.subject)}:"


def _of_call(approval: ApprovalView, word: str, edited: object) -> dict[str, Any]:
    if word == "hold":
        raise Stop("hold is for plans only; answer approve, edit or reject", Exit.USAGE)
    message: dict[str, Any] = {"type": "hitl_decision", "approval_id": approval.approval_id}
    if edited is not None:
        if not isinstance(edited, dict):
            raise Stop("The new arguments must be a JSON object", Exit.USAGE)
        message["modified_arguments"] = edited
    return message


def _preview(approval: ApprovalView) -> Iterator[str]:
    subtasks = approval.details.get("subtasks")
    if isinstance(subtasks, list):
        yield from plan_lines(cast("list[dict[str, Any]]", subtasks))
        yield from revision_lines(approval.details)
        return
    text = approval.details.get("preview") or _arguments(approval)
    yield from (f"  {line}" for line in str(text).removesuffix("\n").split("\n"))
    yield from _parts(approval.details.get("parts"))


def _parts(parts: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """The parts of a command that has several, and which of them asks."""
    found = cast("list[dict[str, Any]]", parts) if isinstance(parts, list) else []
    for part in found if len(found) > 1 else ():
        said = " ".join(filter(None, [part.get("joined_by"), str(part.get("text", ""))]))
        asks = f"  ← {say('cli_part_asks', own_locale())}" if part.get("asks") else ""
        yield f"    {'?' if part.get('asks') else '·'} {one_line(said, _CALL)}{asks}"


def _arguments(approval: ApprovalView) -> str:
    if not approval.arguments:
        return ""
    return visible_json(approval.arguments, indent=2)


def question_texts(approval: ApprovalView, page: Sequence[str], *, first: bool) -> Iterator["Text"]:
    """A page of a question; the first has its head."""
    from rich.text import Text

    if first:
        yield Text("")
        yield Text(guarded(page[0]), style="bold")
        # A command is shown as it would be typed, and once.
        is_command = approval.tool_name == _COMMAND
        if approval.tool_name and approval.arguments is not None and not is_command:
            call = json_line(approval.arguments, _CALL)
            yield Text(guarded(f"  {approval.tool_name} {call}"), style="cyan")
    differs = _DIFFERS.search(str(approval.details.get("preview"))) is not None
    for line in page[1:] if first else page:
        yield Text(guarded(line), style=_style(line) if differs else "")


def _style(line: str) -> str:
    match line[:3]:
        case "  +":
            return "bold" if line.startswith("  +++ ") else "green"
        case "  -":
            return "bold" if line.startswith("  --- ") else "red"
        case "  @":
            return "cyan"
        case _:
            return ""


# Who decides a question, and which questions are the same, as a person reads it.


def review_lines(approval: ApprovalView, locale: str) -> Iterator[str]:
    """Who may approve, and who has; nothing where anybody may alone."""
    review = approval.review
    if review is None:
        return
    if review.problem:
        yield say("cli_question_problem", locale, problem=review.problem)
    yield from _who_lines(review, locale)
    if review.role != "operator":
        yield say("cli_question_role", locale, role=review.role)
    if review.not_requester:
        askers = dict.fromkeys([approval.requested_by or "?", *(review.asked_too or ())])
        yield say("cli_question_requester", locale, name=", ".join(askers))
    if review.needed > 1:
        yield from _vote_lines(approval, review.needed, locale)
    if review.escalates_at and review.escalates_to:
        when, names = f"{review.escalates_at:%Y-%m-%d %H:%M}", ", ".join(review.escalates_to)
        yield say("cli_question_later", locale, when=when, names=names)


def _who_lines(review: ReviewView, locale: str) -> Iterator[str]:
    if review.reviewers:
        yield say("cli_question_who", locale, names=", ".join(review.reviewers))
    if review.seen_by:
        yield say("cli_question_seen_by", locale, names=", ".join(review.seen_by))


def _vote_lines(approval: ApprovalView, needed: int, locale: str) -> Iterator[str]:
    votes = approval.approved_by or [vote.name for vote in approval.votes or ()]
    yield say("cli_question_needed", locale, votes=len(votes), needed=needed)
    if votes:
        yield say("cli_question_by", locale, names=", ".join(votes))


def standing(approval: ApprovalView, locale: str) -> str:
    """The state of a question, with how many have approved where several have to."""
    review = approval.review
    if approval.status is not ApprovalStatus.PENDING or review is None or review.needed == 1:
        return str(approval.status)
    told = say("cli_question_needed", locale, votes=len(approval.votes or ()), needed=review.needed)
    return f"{approval.status}, {told}"


def once_each(approvals: Sequence[ApprovalView], locale: str) -> Iterator[tuple[ApprovalView, str]]:
    """The questions with what they are about; of identical open ones the first, with how many."""
    same = Counter(_group(approval) for approval in approvals)
    shown: set[str] = set()
    for approval in approvals:
        group = _group(approval)
        if group in shown:
            continue
        shown.add(group)
        more = say("cli_identical", locale, count=same[group])
        yield approval, approval.subject if same[group] == 1 else f"{approval.subject} ({more})"


def _group(approval: ApprovalView) -> str:
    is_open = approval.status is ApprovalStatus.PENDING
    return approval.group if approval.group and is_open else approval.approval_id
