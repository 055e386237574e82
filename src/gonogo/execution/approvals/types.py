"""What is asked and what is answered, and what a kind of question has to know."""

from typing import Any, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import Refused
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Subtask
from gonogo.domain.records import Approval
from gonogo.domain.reviews import Deed
from gonogo.domain.states import ApprovalKind, DecisionWord
from gonogo.domain.strict_json import digest
from gonogo.policy import RuleText
from gonogo.store import Tx

NOBODY = Principal(id="gonogo", name="gonogo", role=Role.OPERATOR)
"""Who decides when nobody did in time, where an operator wants that to be a rejection."""


class Ruling(Struct, frozen=True, kw_only=True):
    """What a person answered."""

    word: DecisionWord
    by: Principal
    digest: str | None = None
    revision: int | None = None
    feedback: str | None = None
    changes: Any = None
    """The edited arguments or subtasks, as the person sent them."""
    prepared: Any = None
    """What the kind worked out of `changes` before the transaction."""
    rule: RuleText | None = None
    """What the answer allows for the rest of the session, besides this once."""
    for_plan: bool = False
    """The rule holds in the plan of what was asked about, and nowhere else."""
    start: bool = True
    auto_approve_tools: bool = True
    after: int | None = None
    """The place in the session's log that the answer follows, for a sender who repeats it."""
    via: str | None = None
    """How the answer came, where it was not by a client that showed who asks."""
    agreed: tuple[str, ...] = ()
    """The names of all who approved, where several had to; who came last decided."""

    def as_json(self) -> dict[str, Any]:
        """The answer as it is kept and audited."""
        said = {
            "decision": str(self.word),
            "feedback": self.feedback,
            "changes": self.changes,
            "rule": self.rule and self.rule.model_dump(mode="json", exclude_defaults=True),
            "for_plan": self.for_plan or None,
            "decided_name": self.by.name,
            "after": self.after,
            "approved_by": list(self.agreed) or None,
            "via": self.via,
        }
        return {name: value for name, value in said.items() if value is not None}

    def ballot(self, approval: Approval) -> str:
        """What exactly is approved. Only votes for one and the same thing count together."""
        if self.word is not DecisionWord.EDIT:
            # What is said to an agent that asked is its answer, and no remark.
            answer = self.feedback if "question" in approval.details else None
            return digest({"of": approval.digest, "answer": answer}) if answer else approval.digest
        return digest({"of": approval.digest, "changes": self.changes})

    def repeats(self, said: dict[str, Any]) -> bool:
        """Whether this is what was said before."""
        return said.get("decision") == self.word and said.get("changes") == self.changes

    def as_approval(self) -> "Ruling":
        """Who wrote an edit approves what became of it."""
        return replace(self, word=DecisionWord.APPROVE, changes=None)


class Matter(Struct, frozen=True, kw_only=True):
    """What a question is about, as rules of review look at it."""

    deeds: tuple[Deed, ...] = ()
    subtasks: tuple[Subtask, ...] = ()


class Question(Struct, frozen=True, kw_only=True):
    """What a person is asked."""

    session_id: str
    kind: ApprovalKind | str
    subject: str
    details: dict[str, Any]
    reason: str
    digest: str
    turn_id: str | None = None
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    call_id: str | None = None
    agent: str | None = None
    matter: Matter = Matter()
    same: Any = None
    """What questions have in common that one answer may be given to; None: nothing."""
    instead_of: Approval | None = None
    """The question that was edited into this one: its review holds on."""


class Refusal(Struct, frozen=True):
    """A decision that did not take effect although the transaction was committed."""

    error: Refused


class ApprovalType(Protocol):
    """What answers about one kind of thing mean."""

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Carry out a ruling, in the transaction that records it.

        Raises:
            Refused: it cannot be; nothing changes.
        """
        ...

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Carry out that nobody answered in time."""
        ...


@runtime_checkable
class Revisable(ApprovalType, Protocol):
    """A kind whose edit can be asked about anew, where its author may not decide it alone.

    Of other kinds everybody sends the same edit, and it holds once enough people have.
    """

    def check(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Check an answer that decides nothing yet.

        Raises:
            Refused: it could not be carried out.
        """
        ...

    def matter(self, tx: Tx, approval: Approval, ruling: Ruling) -> Matter:
        """What an edit would make of what was asked.

        Raises:
            Refused: the edit is not valid.
        """
        ...

    def ask_again(self, tx: Tx, approval: Approval, ruling: Ruling) -> Approval:
        """Take an edit over, and ask about it in the place of the question that was edited."""
        ...
