"""Texts about plans and questions that are longer than a sentence."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gonogo.domain.checks import DoneCheck
from gonogo.domain.events import PlanEndedFacts
from gonogo.domain.plan import RetryPolicy, Revision, Scope, Subtask, critical_path, own_tool
from gonogo.domain.plan_views import PlanChanges
from gonogo.domain.records import Approval
from gonogo.domain.states import ApprovalKind
from gonogo.domain.text_safety import visible, visible_json
from gonogo.i18n.translations import LOCALES, estimate, figure, say, term

_LONGEST = 4_000
"""Characters of one value that a summary shows."""


def plan_summary(
    revision: Revision,
    locale: str,
    *,
    findings: Sequence[Mapping[str, Any]] = (),
    tool_host: str = "server",
    changes: PlanChanges | None = None,
    comments: Sequence[Mapping[str, Any]] = (),
    made_by: str | None = None,
) -> str:
    """The plan as a person reads it before deciding, in Markdown.

    Lists every subtask with who does it, how long it takes, what it waits for and what it may
    touch; then the three decisions, and how to answer.

    Args:
        findings: `{severity, message}` each.
        changes: What this revision has otherwise than the one before.
        comments: `{author, revision, subtask_id?, content, answer?}` each.
        made_by: The person who wrote the plan, where no agent proposed it.
    """
    written = [say("summary_made_by", locale, name=_line(made_by))] if made_by else []
    parts = [
        say("summary_title", locale, goal=_line(revision.goal)),
        *written,
        _count(revision, locale),
        "\n".join(_entry(n, s, locale) for n, s in enumerate(revision.subtasks, start=1)),
        say("summary_critical", locale, path=" → ".join(critical_path(revision.subtasks))),
    ]
    if changes is not None:
        parts.append(say("summary_changes", locale))
        parts.append("\n".join(_changed(changes, locale)))
    if comments:
        parts.append(say("summary_comments", locale))
        parts.append("\n".join(_comment(comment, locale) for comment in comments))
    if findings:
        parts.append(say("summary_findings", locale))
        parts.append("\n".join(_finding(finding, locale) for finding in findings))
    if tool_host == "client":
        parts.append(say("summary_client_host", locale))
    parts.append(say("summary_decide", locale, plan_id=revision.plan_id))
    return "\n\n".join(parts)


def rejected_plan(feedback: str | None, locale: str) -> str:
    """What the session says when a plan was rejected, with the person's reason if there is one."""
    said = (feedback or "").strip() or say("plan_rejected_default", locale)
    return say("plan_rejected", locale, feedback=said)


def account(facts: PlanEndedFacts, locale: str) -> str:
    """The numbers that end a plan; those of what was not to happen only if there are any."""
    numbers = facts.model_dump()
    lines = [say("plan_completed", locale, **numbers)]
    unusual = ("skipped", "cancelled", "refused")
    lines += [say(f"plan_{name}_line", locale, **numbers) for name in unusual if numbers[name]]
    return "\n".join(lines)


def _finding(finding: Mapping[str, Any], locale: str) -> str:
    return say("summary_finding", locale, **{**finding, "message": _line(finding["message"])})


def _comment(comment: Mapping[str, Any], locale: str) -> str:
    """What a person said, and the agent's words to it; neither can pass for the other."""
    where = comment.get("subtask_id")
    head = say(
        "summary_comment", locale, author=_line(comment["author"]), revision=comment["revision"],
        where=f"`{_line(where)}`" if where else say("summary_comment_plan", locale),
    )  # fmt: skip
    said, answer = _line(comment["content"]), comment.get("answer")
    told = say("summary_no_answer", locale)
    if answer is not None:
        told = f"{say('summary_answer', locale)} {_code(_line(answer))}"
    return f"{head} {_code(said)}\n   - {told}"


def _changed(changes: PlanChanges, locale: str) -> list[str]:
    added = [
        say("summary_added", locale, subtask=s.id, description=_line(s.description))
        for s in changes.added
    ]
    removed = [say("summary_removed", locale, subtask=s.id) for s in changes.removed]
    fields = [
        say("summary_changed", locale, subtask=key, fields=_fields(fields, locale))
        for key, fields in changes.changed
    ]
    return [*added, *removed, *fields]


def _fields(names: Iterable[str], locale: str) -> str:
    return ", ".join(term("field", name, locale) for name in sorted(names))


def _count(revision: Revision, locale: str) -> str:
    count = say("summary_count", locale, count=len(revision.subtasks))
    if revision.number == 1:
        return count
    return f"{count} · {say('summary_revision', locale, revision=revision.number)}"


def _entry(number: int, subtask: Subtask, locale: str) -> str:
    facts = [_worker(subtask, locale), _time(subtask, locale)]
    facts.append(_after(subtask, locale))
    if subtask.approval_required:
        facts.append(say("summary_asks", locale))
    lines = [
        f"{number}. **{subtask.id}**: {_line(subtask.description)}",
        f"   - {' · '.join(facts)}",
    ]
    if needs := _needs(subtask, locale):
        lines.append(f"   - {say('summary_needs', locale, needs='; '.join(needs))}")
    lines += [f"   - {line}" for line in _rules(subtask, locale)]
    return "\n".join(lines)


def _time(subtask: Subtask, locale: str) -> str:
    return say("summary_time", locale, time=estimate(subtask.estimated_time, locale))


def _rules(subtask: Subtask, locale: str) -> list[str]:
    """What else decides what will run: it is approved with the plan, so it is shown."""
    found: list[str] = []
    if subtask.condition:
        found.append(say("summary_condition", locale, condition=_code(_line(subtask.condition))))
    if subtask.inputs:
        found.append(say("summary_inputs", locale, inputs=_code(visible_json(subtask.inputs))))
    found += [_check(check, locale) for check in subtask.done_when or ()]
    return found + terms_of(subtask.model_dump(mode="json", exclude_none=True), locale)


_WORDS = {
    ("after_skipped", "run"), ("after_skipped", "skip"),
    ("on_reject", "fail"), ("on_reject", "skip"),
}  # fmt: skip


def terms_of(subtask: Mapping[str, Any], locale: str) -> list[str]:
    """On what terms a subtask runs, in words: attempts, time, what a skip or a rejection means.

    Args:
        subtask: As the wire has it. A value that is not known is shown as it came.
    """
    found: list[str] = []
    for name in ("after_skipped", "on_reject"):
        if (value := subtask.get(name)) is not None:
            known = (name, value) in _WORDS
            told = say(f"summary_{name}_{value}", locale) if known else visible_json({name: value})
            found.append(told)
    if policy := subtask.get("retry_policy"):
        found.append(_attempts(policy, locale))
    if limit := subtask.get("timeout"):
        found.append(say("summary_limit", locale, time=_span(limit, locale)))
    if (must := subtask.get("must_change")) is not None:
        found.append(say("summary_must_change" if must else "summary_may_not_change", locale))
    return found


def _attempts(policy: Mapping[str, Any], locale: str) -> str:
    """How often a failed subtask is tried again; what is not written has the protocol's default."""
    whole = RetryPolicy.model_construct(**policy)
    kinds = ", ".join(whole.on) or say("summary_transient", locale)
    return say(
        "summary_attempts", locale, count=whole.max_attempts, delay=_span(whole.delay, locale),
        backoff=figure(whole.backoff, locale), kinds=kinds,
    )  # fmt: skip


def _span(seconds: float, locale: str) -> str:
    """A time that was written in seconds: in minutes where these are whole."""
    whole = seconds >= 60 and seconds % 60 == 0
    return estimate(f"{seconds / 60:g} min" if whole else f"{seconds:g} s", locale)


def _check(check: DoneCheck, locale: str) -> str:
    """What has to hold before a subtask counts as done."""
    contains = check.file_contains
    fields = {
        "command": check.command, "path": check.file, "question": check.ask,
        "text": contains and contains.text, "globs": ", ".join(check.unchanged or ()),
    }  # fmt: skip
    shown = {name: _code(_line(value)) for name, value in fields.items() if value}
    return say(f"summary_check_{check.kind}", locale, **shown)


def _code(line: str) -> str:
    """A line that cannot end its own quotation; what is cut off is said."""
    if len(line) > _LONGEST:
        line = f"{line[:_LONGEST]} … +{len(line) - _LONGEST}"
    marks = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{space}{line}{space}{marks}"


def _worker(subtask: Subtask, locale: str) -> str:
    if subtask.agent is None:
        tool = own_tool(subtask)
        if tool is None:
            return say("summary_nobody", locale, kind=subtask.type)
        return say("summary_tool", locale, tool=tool)
    return say("summary_agent", locale, agent=subtask.agent)


def _after(subtask: Subtask, locale: str) -> str:
    if not subtask.dependencies:
        return say("summary_at_once", locale)
    return say("summary_after", locale, dependencies=_quoted(subtask.dependencies))


def _needs(subtask: Subtask, locale: str) -> list[str]:
    """What it may do without a question once it is approved."""
    scope = subtask.scope or Scope()
    needs: list[str] = []
    if subtask.agent is not None:
        needs.append(_declared("tools", scope.tools, locale))
    if subtask.agent is not None or subtask.tool is not None:
        needs.append(_declared("paths", scope.paths, locale))
    if scope.commands:
        needs.append(_declared("commands", scope.commands, locale))
    return [*needs, *_network(scope, locale)]


def _declared(name: str, values: Sequence[str] | None, locale: str) -> str:
    if not values:
        return say(f"summary_{'any' if values is None else 'no'}_{name}", locale)
    return say(f"summary_{name}", locale, **{name: _quoted(values)})


def _network(scope: Scope, locale: str) -> list[str]:
    match scope.network:
        case False:
            return []
        case True:
            return [say("summary_network", locale)]
        case hosts:
            return [say("summary_network_hosts", locale, hosts=_quoted(hosts))]


def _quoted(values: Sequence[str]) -> str:
    return ", ".join(f"`{_line(value)}`" for value in values)


def _line(text: str) -> str:
    """One visible line, so that a description cannot draw headings or entries of its own."""
    return visible(" ".join(text.split()), lines=False)


# A question as a person reads it who has no client at hand.


class QuestionText(Struct, frozen=True, kw_only=True):
    """What is asked, in parts that are safe to look at."""

    headline: str
    text: str
    """The plan, or what would change; may be empty."""
    facts: str
    """The very arguments, or all the facts of a question of another kind, as JSON."""
    reason: str

    def plain(self) -> str:
        """All of it as one text; the arguments only where nothing else says what would happen."""
        parts = (self.headline, self.text or self.facts, self.reason)
        return "\n\n".join(part for part in parts if part)


def asked(approval: Approval, locale: str) -> QuestionText:
    """What an approval asks, for people."""
    details, reason = approval.details, visible(approval.reason)
    subject = visible(approval.subject, lines=False)
    if approval.kind == ApprovalKind.PLAN:
        headline = say("asked_plan", locale, subject=subject)
        subtasks = visible_json(details.get("subtasks", []), indent=2)
        return QuestionText(headline=headline, text=_plan(details), facts=subtasks, reason="")
    if approval.kind == ApprovalKind.TOOL:
        agent = visible(str(details.get("agent", "agent")), lines=False)
        tool = visible(str(details.get("tool", approval.subject)), lines=False)
        return QuestionText(
            headline=say("asked_tool", locale, agent=agent, tool=tool),
            # The gate made it visible already.
            text=str(details.get("preview", "")),
            facts=visible_json(details.get("arguments", {}), indent=2), reason=reason,
        )  # fmt: skip
    return QuestionText(
        headline=subject, text="", facts=visible_json(details, indent=2), reason=reason
    )


def _plan(details: dict[str, object]) -> str:
    """The summary without its last part, which tells how to answer in a client."""
    summary = str(details.get("summary", ""))
    for locale in LOCALES:
        heading = say("summary_decide", locale, plan_id="").splitlines()[0]
        summary = summary.partition(f"\n\n{heading}\n")[0]
    return summary
