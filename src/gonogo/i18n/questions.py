"""A question as a person reads it who has no client at hand."""

from msgspec import Struct

from gonogo.domain.records import Approval
from gonogo.domain.states import ApprovalKind
from gonogo.domain.text_safety import visible, visible_json
from gonogo.i18n.translations import LOCALES, say


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
