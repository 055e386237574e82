"""Events, questions, revisions and reviews as a person reads them."""

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from rich.console import Console
from rich.text import Text

from gonogo.cli.support import Exit, Stop
from gonogo.cli.terminal.output import folded, json_line, laid_out, one_line, spoken
from gonogo.cli.terminal.plan_graph import plan_lines, scope_line
from gonogo.domain.errors import of_parts
from gonogo.domain.events import MARKS, TONES, Tone
from gonogo.domain.plan import Subtask, worker_name
from gonogo.domain.plan_views import CheckpointDiff, PlanDiff
from gonogo.domain.states import ApprovalStatus, was_refused
from gonogo.domain.text_safety import guarded, visible, visible_json
from gonogo.domain.tool_calls import RUNTIME
from gonogo.domain.views import ApprovalView, ReviewView
from gonogo.i18n import DEFAULT, decimal, phrase, reworded, say, term, told

# What differs between two revisions of a plan, or between the files of two checkpoints, as lines.


def diff_lines(diff: PlanDiff, locale: str = DEFAULT) -> Iterator[str]:
    """`+` for what was added, `-` for what was removed, `~` for what was changed, and how."""
    revisions = {"first": diff.from_revision, "then": diff.to_revision}
    yield f"{diff.plan_id}  {phrase('revision {first} → {then}', locale, **revisions)}"
    for subtask in diff.removed:
        yield f"- {_headline_of_change(subtask)}"
    yield from _added(diff.added, locale)
    yield from _changed(diff.changed, locale)
    if not (diff.added or diff.removed or diff.changed):
        yield phrase("No subtasks differ.", locale)


def revision_lines(facts: Mapping[str, Any], locale: str = DEFAULT) -> Iterator[str]:
    """Why there is another revision of a plan, what is different in it, and what to know of it.

    Args:
        facts: `made_by`, `replan`, `changes`, `comments`, `findings` and `instructions` of a
            plan's question or notice, if it has them.
    """
    if made_by := facts.get("made_by"):
        yield say("summary_made_by", locale, name=one_line(made_by))
    replan: Mapping[str, Any] = facts.get("replan") or {}
    changes = facts.get("changes")
    yield from _replan_lines(replan, locale)
    if changes:
        yield phrase("Changes since the previous revision:", locale)
        yield from (f"- {one_line(key)}" for key in changes["removed"])
        yield from _added(map(Subtask.model_validate, changes["added"]), locale)
        yield from _changed(changes["changed"], locale)
    yield from comment_lines(facts.get("comments") or (), locale)
    for finding in facts.get("findings") or ():
        said = one_line(finding.get("message", ""), 1000)
        yield f"! {term('severity', finding.get('severity', ''), locale)}: {said}"
    if instructions := facts.get("instructions"):
        yield instruction_line(instructions, locale)


def instruction_line(files: Iterable[Mapping[str, Any]], locale: str = DEFAULT) -> str:
    """Which instruction files the planner was told of."""
    cut = f" ({phrase('cut', locale)})"
    names = (f"{one_line(file['path'])}{cut * bool(file.get('cut'))}" for file in files)
    return phrase("The planner read these instructions: {files}", locale, files=", ".join(names))


def comment_lines(comments: Iterable[Mapping[str, Any]], locale: str = DEFAULT) -> Iterator[str]:
    """What people said of a plan, and under it the agent's words, marked as such."""
    for comment in comments:
        subtask, text = comment.get("subtask_id"), one_line(comment["content"], 4_000)
        said = "? {author} on {subtask}: {text}" if subtask else "? {author} on the plan: {text}"
        named = {"author": one_line(comment["author"]), "subtask": one_line(subtask or "")}
        yield phrase(said, locale, text=text, **named)
        told = one_line(answer, 4_000) if (answer := comment.get("answer")) else None
        if told is None:
            yield f"    {phrase('no answer yet', locale)}"
        else:
            yield f"    {phrase('the agent answers: {text}', locale, text=told)}"


_REPLAN = {
    "cause": "the reason for the new plan: {value}",
    "subtask_id": "after the subtask: {value}",
    "reason": "because: {value}",
    "root_cause": "root cause: {value}",
    "suggestion": "suggestion: {value}",
    "by": "requested by: {value}",
}


def _replan_lines(replan: Mapping[str, Any], locale: str) -> Iterator[str]:
    for name, said in _REPLAN.items():
        if name in replan:
            value = str(replan[name])
            value = term("cause", value, locale) if name == "cause" else value
            yield phrase(said, locale, value=one_line(value, 1000))


def file_lines(diff: CheckpointDiff, locale: str = DEFAULT) -> Iterator[str]:
    """Each file that differs, with its difference."""
    yield f"{diff.checkpoint_id} → {diff.to or phrase('the workspace now', locale)}"
    for file in diff.files:
        yield f"{term('change', file.status, locale)} {visible(file.path, lines=False)}"
        yield from (f"    {text}" for text in file.diff.splitlines())
    if not diff.files:
        yield phrase("No files differ.", locale)
    if diff.truncated:
        yield phrase("Not all differences are shown.", locale)


def _added(subtasks: Iterable[Subtask], locale: str) -> Iterator[str]:
    for subtask in subtasks:
        yield f"+ {_headline_of_change(subtask)}"
        if subtask.dependencies:
            names = ", ".join(map(one_line, subtask.dependencies))
            yield f"    {phrase('after {subtasks}', locale, subtasks=names)}"
        if needs := scope_line(subtask.model_dump(mode="json"), locale):
            yield f"    {phrase('allowed: {scope}', locale, scope=needs)}"


def _changed(changes: Iterable[Mapping[str, Any]], locale: str) -> Iterator[str]:
    for change in changes:
        yield f"~ {one_line(change['id'])}"
        for name, values in change["fields"].items():
            before, after = (_value(values[side], locale) for side in ("from", "to"))
            yield f"    {name}: {before} → {after}"


def _headline_of_change(subtask: Subtask) -> str:
    worker = one_line(worker_name(subtask))
    return f"{one_line(subtask.id)}: {one_line(subtask.description, 160)} ({worker})"


def _value(value: Any, locale: str) -> str:  # noqa: ANN401 - a field's JSON
    return phrase("none", locale) if value is None or value == [] else json_line(value, 300)


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
_CODE = re.compile(r"\A[a-z_]+: ")
"""What stands before the words of an error, for programs."""
_BEGUN = re.compile(r"Subtask (?P<position>\d+)/(?P<total>\d+): (?P<description>.*)", re.DOTALL)
"""What a subtask says that starts, in any language (docs/reference/protocol.md, §3)."""
_ACCOUNT = {
    "plan_id": "Plan Execution Complete",
    "total": "- Total: {number}",
    "completed": "- Completed: {number}",
    "failed": "- Failed: {number}",
    "skipped": "- Skipped: {number}",
    "cancelled": "- Cancelled: {number}",
    "refused": "- Calls denied or rejected: {number}",
}
"""What is said of a plan that is over, by its facts."""
_ALWAYS = frozenset({"plan_id", "total", "completed", "failed"})
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

    def __init__(self, console: Console, locale: str = DEFAULT, *, asks: bool = False) -> None:
        """Show events.

        Args:
            asks: A person is shown each question by itself, with the call that it is about.
        """
        self._console, self._locale, self._asks = console, locale, asks
        self._streaming = False
        self._streamed = ""
        """What has been shown of a text that is not closed yet."""
        self._begun = ""
        """A line of it that is not whole, where lines are shown whole."""
        self._calls: dict[str, tuple[str, str]] = {}
        """What calls are named and how many lines they change, until their results are told."""
        self._shows: dict[str, Callable[[Event], None]] = {
            "assistant_message": self._said,
            "agent_switched": self._switched,
            "plan_notification": self._planned,
            "tool_call": self._called,
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
            "plan_completed": self._completed,
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
            self._stream("\n")
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
            self._stream(event["token"])
        elif not self._was_streamed(event):
            self._line(spoken(event["content"]))
        elif self._streaming:
            self._line("")

    def _stream(self, text: str) -> None:
        """Show a part of a text; at a terminal, whose lines are to be broken, line by line."""
        if self._console.is_terminal:
            whole, end, self._begun = (self._begun + text).rpartition("\n")
            text = "\n".join(folded(spoken(whole), self._console.width)) + end if end else ""
        else:
            text = spoken(text)
        self._console.print(Text(text), end="", soft_wrap=True)

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
            said = told(facts.get("reason") or "", self._locale)
            reason = f": {one_line(said, 300)}" if said else ""
            self._line(f"→ {facts['to_agent']}{reason}", "cyan")

    def _planned(self, event: Event) -> None:
        facts = event["metadata"]
        title = one_line(facts.get("goal") or event["content"], 1000)
        self._line(f"\n{phrase('Plan: {goal}', self._locale, goal=title)}", "bold")
        number = phrase("revision {number}", self._locale, number=facts["revision"])
        self._line(f"{facts['plan_id']} · {number}", "dim")
        for text in plan_lines(facts["subtasks"], self._locale):
            self._line(text)
        for text in revision_lines(facts, self._locale):
            self._line(text, "yellow" * text.startswith(("!", "?")))

    def glance(self, event: Event) -> None:
        """Know what a call is named whose result is shown later."""
        if event.get("type") == "tool_call":
            self._calls[event["call_id"]] = _named(event), _lines_of(event.get("metadata") or {})

    def _called(self, event: Event) -> None:
        self.glance(event)
        named = _named(event)
        if event.get("requires_approval") and not self._asks:
            reason = one_line(event["metadata"].get("reason", ""), 300)
            self._line(f"{_where(event)}? {named} ({reason})", "yellow")

    def _resulted(self, event: Event) -> None:
        name, lines = self._calls.pop(event["call_id"], (event["tool_name"], ""))
        if "error" in event:
            style = "yellow" if was_refused(event["error"]) else "red"
            why = one_line(_CODE.sub("", event["error"]), 1000)
            self._line(f"{_where(event)}✗ {name}: {why}", style)
            return
        if event["tool_name"] in _SPOKEN:
            return
        self._line(f"{_where(event)}{name}{lines} {self._outcome(event)}".rstrip(), "dim")
        for text in _output(event.get("result")):
            self._line(f"    {spoken(text)}", "dim")

    def _started(self, event: Event) -> None:
        said = spoken(event["content"])
        if begun := _BEGUN.fullmatch(said):
            said = phrase(
                "Subtask {position}/{total}: {description}", self._locale, **begun.groupdict()
            )
        self._line(f"▶ {said}", "bold")

    def _ended(self, mark: str, style: str) -> Callable[[Event], None]:
        def show(event: Event) -> None:
            facts = event["metadata"]
            error: Event = facts.get("error") or {}
            said = error.get("message") or facts.get("reason") or event.get("content") or ""
            took = facts.get("duration_seconds")
            time = f" ({self._seconds(took)})" if took is not None else ""
            self._line(f"{mark} {facts['subtask_id']}{time} {one_line(said, 1000)}".rstrip(), style)

        return show

    def _completed(self, event: Event) -> None:
        facts: Event = event.get("metadata") or {}
        if "total" not in facts:
            self._line(spoken(event["content"]), _TONES[Tone.RESULT])
            return
        for name, said in _ACCOUNT.items():
            if facts.get(name) or name in _ALWAYS:
                self._line(phrase(said, self._locale, number=facts.get(name)), _TONES[Tone.RESULT])

    def _seconds(self, seconds: float) -> str:
        return say("time_seconds", self._locale, seconds=decimal(seconds, self._locale))

    def _outcome(self, event: Event) -> str:
        result: Any = event.get("result")
        if not isinstance(result, dict) or "exit_code" not in result:
            return ""
        code = str(cast("Event", result)["exit_code"])
        return f"→ {phrase('exit code {code}', self._locale, code=code)}"

    def _progressed(self, event: Event) -> None:
        facts = event["metadata"]
        done, total, percent = facts["done"], facts["total"], round(facts["percentage"])
        share = phrase("{number}%", self._locale, number=percent)
        # What failed is over and may run again: it is counted on the left, and not in the share.
        agrees = percent == round(100 * done / total)
        self._line(f"  {done}/{total}" + f" · {share}" * agrees, "dim")

    def _instructed(self, event: Event) -> None:
        # Each subtask is told of the same files again.
        if "subtask_id" not in event:
            self._line(one_line(event["content"], 1000), "dim")

    def _content(self, style: str) -> Callable[[Event], None]:
        def show(event: Event) -> None:
            if content := event.get("content"):
                self._line(reworded(spoken(content), self._locale), style)
            elif said := _said_of(event, self._locale):
                self._line(said, style)

        return show

    def _failed(self, event: Event) -> None:
        if "subtask_id" in event:
            # The end of the attempt, which is told with it, says the same.
            return
        said = of_parts(event.get("content") or event.get("error") or "", event)
        problem = spoken(told(said, self._locale))
        self._line(phrase("error: {problem}", self._locale, problem=problem), "bold red")


def _said_of(event: Event, locale: str) -> str:
    """What a person is told of an event that has no words of its own."""
    try:
        return say(f"told_{event['type']}", locale)
    except KeyError:
        return ""


def _where(event: Event) -> str:
    return f"[{event['subtask_id']}] " if "subtask_id" in event else ""


def _named(call: Event) -> str:
    who = f"{RUNTIME}: " if call.get("agent") == RUNTIME else ""
    return f"{who}{call['tool_name']} {_subject(call['arguments'])}".rstrip()


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


def question_lines(approval: ApprovalView, locale: str = DEFAULT) -> Iterator[str]:
    """What would happen, and why a person is asked; the text is as strangers wrote it."""
    head, reason = _headline_of_question(approval, locale)
    yield head
    yield from _preview(approval, locale)
    if reason:
        yield phrase("reason: {reason}", locale, reason=reason)
    if approval.open_comments:
        yield say("cli_comments_open", locale, count=approval.open_comments)
    if approval.subtask_id:
        yield phrase("subtask: {subtask}", locale, subtask=approval.subtask_id)
    if approval.expires_at:
        time = f"{approval.expires_at:%Y-%m-%d %H:%M} UTC"
        yield phrase("expires: {time}", locale, time=time)


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


def _headline_of_question(approval: ApprovalView, locale: str) -> tuple[str, str]:
    """What is asked, and why, where that is not said with it."""
    reason = told(approval.reason or "", locale)
    if approval.kind != "tool":
        says_both = approval.kind != "plan" and approval.subject in reason
        return (spoken(reason), "") if says_both else (spoken(approval.subject), spoken(reason))
    agent, tool = approval.details.get("agent"), spoken(approval.tool_name or approval.subject)
    if agent is None:
        return phrase("An agent asks to use {tool}:", locale, tool=tool), spoken(reason)
    return phrase("{agent} asks to use {tool}:", locale, agent=agent, tool=tool), spoken(reason)


def _of_call(approval: ApprovalView, word: str, edited: object) -> dict[str, Any]:
    if word == "hold":
        raise Stop("hold is for plans only; answer approve, edit or reject", Exit.USAGE)
    message: dict[str, Any] = {"type": "hitl_decision", "approval_id": approval.approval_id}
    if edited is not None:
        if not isinstance(edited, dict):
            raise Stop("The arguments must be one JSON object, such as {}", Exit.USAGE)
        message["modified_arguments"] = edited
    return message


def _preview(approval: ApprovalView, locale: str) -> Iterator[str]:
    subtasks = approval.details.get("subtasks")
    if isinstance(subtasks, list):
        yield from plan_lines(cast("list[dict[str, Any]]", subtasks), locale)
        yield from revision_lines(approval.details, locale)
        return
    for suggestion in approval.details.get("suggestions") or ():
        yield f"  - {one_line(str(suggestion))}"
    text = str(approval.details.get("preview") or _arguments(approval)).removesuffix("\n")
    yield from (f"  {line}" for line in text.split("\n") if text)
    yield from _parts(approval.details.get("parts"), locale)


def _parts(parts: Any, locale: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    """The parts of a command that has several, and which of them asks."""
    found = cast("list[dict[str, Any]]", parts) if isinstance(parts, list) else []
    for part in found if len(found) > 1 else ():
        said = " ".join(filter(None, [part.get("joined_by"), str(part.get("text", ""))]))
        asks = f"  ← {say('cli_part_asks', locale)}" if part.get("asks") else ""
        yield f"    {'?' if part.get('asks') else '·'} {one_line(said, _CALL)}{asks}"


def _arguments(approval: ApprovalView) -> str:
    given = approval.arguments or {}
    if approval.tool_name == _COMMAND and list(given) == ["command"]:
        return spoken(str(given["command"]))
    return visible_json(given, indent=2) if given else ""


def question_texts(approval: ApprovalView, page: Sequence[str], *, first: bool) -> Iterator["Text"]:
    """A page of a question; the first has its head."""
    from rich.text import Text

    if first:
        yield Text("")
        yield Text(guarded(page[0]), style="bold")
        # A command is shown as it would be typed, and once; so are arguments without a preview.
        is_shown = approval.tool_name == _COMMAND or not approval.details.get("preview")
        if approval.tool_name and approval.arguments is not None and not is_shown:
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
    asked = [approval.requested_by or "?", *(review.asked_too or ())]
    barred = dict.fromkeys(asked if review.not_requester else ())
    yield from _who_lines(review, barred, locale)
    if review.role != "operator":
        yield say("cli_question_role", locale, role=review.role)
    if barred:
        yield say("cli_question_requester", locale, name=", ".join(barred))
    if review.needed > 1:
        yield from _vote_lines(approval, review.needed, locale)
    if review.escalates_at and review.escalates_to:
        when, names = f"{review.escalates_at:%Y-%m-%d %H:%M}", ", ".join(review.escalates_to)
        yield say("cli_question_later", locale, when=when, names=names)


def _who_lines(review: ReviewView, barred: Container[str], locale: str) -> Iterator[str]:
    for key, people in (
        ("cli_question_who", review.reviewers),
        ("cli_question_seen_by", review.seen_by),
    ):
        if names := [name for name in people or () if name not in barred]:
            yield say(key, locale, names=", ".join(names))


def _vote_lines(approval: ApprovalView, needed: int, locale: str) -> Iterator[str]:
    votes = approval.approved_by or [vote.name for vote in approval.votes or ()]
    yield say("cli_question_needed", locale, votes=len(votes), needed=needed)
    if votes:
        yield say("cli_question_by", locale, names=", ".join(votes))


def standing(approval: ApprovalView, locale: str = DEFAULT) -> str:
    """The state of a question, with how many have approved where several have to."""
    review = approval.review
    if approval.status is not ApprovalStatus.PENDING or review is None or review.needed == 1:
        return term("question status", approval.status, locale)
    votes = say(
        "cli_question_needed", locale, votes=len(approval.votes or ()), needed=review.needed
    )
    return f"{term('question status', approval.status, locale)}, {votes}"


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
