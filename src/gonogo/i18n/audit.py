"""Why an entry of the audit log is there, in words.

They say by which rule, grant or person, through which link, with which feedback, after what time.
What agents and people wrote stands as they wrote it; whoever shows it makes it visible. An entry
whose details are not as they were written (somebody changed the database) has fewer words, and
never none of its others.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from gonogo.domain.errors import of_parts
from gonogo.domain.plan_views import AuditEntry
from gonogo.domain.reviews import reviewer_name
from gonogo.i18n.translations import duration, say, term, told

_LONGEST = 300
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


def _comment(entry: AuditEntry, locale: str) -> _Parts:
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


_OWN: dict[str, Callable[[AuditEntry, str], _Parts]] = {
    "link.made": _link_made,
    "link.revoked": _link_revoked,
    "webhook.failed": _failed,
    "token.created": _token,
    "token.revoked": _token,
    "session.opened": _opened,
    "principal.recognised": _person,
    "principal.renamed": _person,
    "plan.commented": _comment,
    "agent.steered": _comment,
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
}
_ANY_KIND = {"asked": _asked, "escalated": _escalated}
"""What is noted of every kind of question."""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
