"""Texts longer than a sentence: of plans, of questions, and of entries of the audit log."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

from gonogo.domain.checks import DoneCheck
from gonogo.domain.errors import of_parts
from gonogo.domain.events import PlanEndedFacts
from gonogo.domain.plan import RetryPolicy, Revision, Scope, Subtask, critical_path, own_tool
from gonogo.domain.plan_views import AuditEntry, PlanChanges
from gonogo.domain.records import Approval
from gonogo.domain.reviews import reviewer_name
from gonogo.domain.states import ApprovalKind
from gonogo.domain.text_safety import visible, visible_json
from gonogo.i18n import LOCALES, duration, estimate, figure, say, term, told

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


# Why an entry of the audit log is there, in words.
#
# They say by which rule, grant or person, through which link, with which feedback, after what time.
# What agents and people wrote stands as they wrote it; whoever shows it makes it visible. An entry
# whose details are not as they were written (somebody changed the database) has fewer words, and
# never none of its others.

_SHORTENED = 300
_Parts = Iterator[str]


def why(entry: AuditEntry, locale: str) -> str:
    """What an entry's details say, in one line."""
    what = entry.action.rpartition(".")[2]
    own = _OWN.get(entry.action) or _ANY_KIND.get(what, _common)
    # Each is a way to the same details, which may hold anything once somebody changed them.
    parts = list[str]()
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        parts.extend(own(entry, locale))
    return " · ".join(_short(part) for part in parts if part)


def about(entry: AuditEntry) -> str:
    """What an entry is about: its subject, and of a call the command or the file."""
    given = entry.details.get("arguments")
    if isinstance(given, dict):
        named = cast("dict[str, Any]", given)
        what = named.get("command") or named.get("path")
        if isinstance(what, str):
            return f"{entry.subject}: {_short(what)}"
    return entry.subject


def _common(entry: AuditEntry, locale: str) -> _Parts:
    """What any entry can have: a decision, a rule, a reason."""
    details = entry.details
    if isinstance(details.get("decision"), dict):
        yield from _decision(details, details["decision"], locale)
        return
    if entry.action.endswith(".expired"):
        yield say("why_expired", locale)
    if details.get("source") == "person":
        name = entry.actor_name or entry.actor
        yield say("why_again" if "retry_of" in details else "why_person", locale, name=name)
        return
    if "rule" in details:
        yield from _by(details, locale)
    if "reason" in details and details.get("source") != "grant":
        yield _reason(details, locale)
    if "subtask_id" in details and "rule" not in details:
        yield say("why_subtask", locale, name=details["subtask_id"])


def _by(details: Mapping[str, Any], locale: str) -> _Parts:
    """The rules or the grant that decided; of a compound command there are several."""
    for rule in str(details["rule"]).split("+"):
        kind, _, rest = rule.partition(":")
        plan, _, subtask = rest.partition("#")
        if kind == "grant" and subtask:
            yield say("why_grant", locale, plan=plan, subtask=subtask)
        elif kind in {"builtin", "default"}:
            said = term("rule", rule, locale)
            yield said if said != rule else say("why_builtin", locale, rule=rest)
        else:
            yield say("why_rule", locale, rule=rule)


def _reason(details: Mapping[str, Any], locale: str) -> str:
    return told(of_parts(str(details.get("reason") or ""), details.get("reason_parts", {})), locale)


def _decision(details: Mapping[str, Any], said: Mapping[str, Any], locale: str) -> _Parts:
    if "needed" in details:
        yield say("why_votes", locale, votes=details["votes"], needed=details["needed"])
    if said.get("approved_by"):
        yield say("why_with", locale, names=", ".join(said["approved_by"]))
    if said.get("via"):
        yield say("why_link", locale, link=str(said["via"]).removeprefix("link "))
    if "waited_seconds" in details:
        taken = duration(details["waited_seconds"], locale)
        yield say("why_after", locale, time=taken)
    if said.get("changes") is not None:
        yield say("why_edited", locale)
    if said.get("rule"):
        yield say("why_for_plan" if said.get("for_plan") else "why_for_session", locale)
    if said.get("feedback"):
        yield say("why_feedback", locale, text=said["feedback"])


def _asked(entry: AuditEntry, locale: str) -> _Parts:
    details = entry.details
    yield _reason(details, locale)
    if details.get("requested_by"):
        yield say("why_asked_for", locale, name=reviewer_name(str(details["requested_by"])))
    review: Mapping[str, Any] = details.get("review") or {}
    needed = review.get("needed", 1)
    if needed > 1:
        yield say("why_needed", locale, needed=needed)


def _escalated(entry: AuditEntry, locale: str) -> _Parts:
    yield say("why_escalated", locale, names=", ".join(entry.details["escalated_to"]))


def _link_made(entry: AuditEntry, locale: str) -> _Parts:
    details = entry.details
    until = f"{str(details['expires_at'])[:16].replace('T', ' ')}Z"
    name, asked = details.get("name") or reviewer_name(str(entry.subject)), details["approval_id"]
    yield say("why_link_made", locale, name=name, approval=asked, until=until)


def _link_revoked(entry: AuditEntry, locale: str) -> _Parts:
    name = entry.details.get("name") or reviewer_name(str(entry.subject))
    yield say("why_link_revoked", locale, name=name, approval=entry.details["approval_id"])


def _failed(entry: AuditEntry, locale: str) -> _Parts:
    details = entry.details
    yield say("why_attempts", locale, count=details["attempts"], error=details.get("error"))


def _token(entry: AuditEntry, locale: str) -> _Parts:
    details = entry.details
    if "name" in details:
        yield say("why_token", locale, name=details["name"], role=details["role"])
    if details.get("withdrawn_votes"):
        yield say("why_withdrawn", locale, count=details["withdrawn_votes"])


def _opened(entry: AuditEntry, locale: str) -> _Parts:
    del locale
    yield str(entry.details["workspace"])


def _person(entry: AuditEntry, locale: str) -> _Parts:
    known = entry.details
    yield say("why_person_is", locale, name=known["name"], issuer=known["issuer"], sub=known["sub"])


def _commented(entry: AuditEntry, locale: str) -> _Parts:
    if entry.details.get("subtask_id"):
        yield say("why_subtask", locale, name=entry.details["subtask_id"])
    yield say("why_feedback", locale, text=entry.details["content"])


def _comments(entry: AuditEntry, locale: str) -> _Parts:
    told = entry.details.get("comments") or entry.details.get("answers") or ()
    yield say("why_comments", locale, count=len(told))


def _written(entry: AuditEntry, locale: str) -> _Parts:
    yield say("why_written", locale, count=entry.details["subtasks"])


def _rolled_back(entry: AuditEntry, locale: str) -> _Parts:
    counts = entry.details
    left = counts["conflicts"] + counts["shared"]
    yield say("why_rolled_back", locale, restored=counts["restored"], left=left)


def _retried(entry: AuditEntry, locale: str) -> _Parts:
    yield say("why_subtasks", locale, names=", ".join(entry.details["subtasks"]))


def _reached(entry: AuditEntry, locale: str) -> _Parts:
    if entry.details.get("reached"):
        yield say("why_reached", locale, hosts=", ".join(entry.details["reached"]))
    refused = [
        f"{each['host']} ({told(str(each['reason']), locale)})" if each.get("reason")
        else each["host"]
        for each in entry.details.get("refused") or ()
    ]  # fmt: skip
    if refused:
        yield say("why_refused", locale, hosts=", ".join(refused))


def _names(entry: AuditEntry, locale: str) -> _Parts:
    yield say("why_names", locale, names=", ".join(entry.details["names"]))
    if entry.details.get("folder"):
        name, folder = entry.details.get("by"), entry.details["folder"]
        yield say("why_taken", locale, name=name, folder=folder)


def _anchored(entry: AuditEntry, locale: str) -> _Parts:
    yield say("why_heads", locale, count=entry.details["chains"])


def _pruned(entry: AuditEntry, locale: str) -> _Parts:
    yield say("why_pruned", locale, first=entry.details["first"], last=entry.details["last"])


def _accepted(entry: AuditEntry, locale: str) -> _Parts:
    yield from (told(str(each), locale) for each in entry.details["missing"])


_OWN: dict[str, Callable[[AuditEntry, str], _Parts]] = {
    "link.made": _link_made,
    "link.revoked": _link_revoked,
    "webhook.failed": _failed,
    "token.created": _token,
    "token.revoked": _token,
    "session.opened": _opened,
    "principal.recognised": _person,
    "principal.renamed": _person,
    "plan.commented": _commented,
    "agent.steered": _commented,
    "plan.sent_back": _comments,
    "plan.comments_answered": _comments,
    "plan.written": _written,
    "plan.rolled_back": _rolled_back,
    "plan.retried": _retried,
    "tool.network": _reached,
    "tool.left_names": _names,
    "tool.names_taken": _names,
    "audit.anchored": _anchored,
    "audit.pruned": _pruned,
    "database.accepted": _accepted,
}
_ANY_KIND = {"asked": _asked, "escalated": _escalated}
"""What is noted of every kind of question."""


def _short(text: str) -> str:
    return text if len(text) <= _SHORTENED else f"{text[: _SHORTENED - 1]}…"
