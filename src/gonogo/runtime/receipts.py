"""What a sender gets back at once: that the message is kept, and where its answer will be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct
from pydantic import TypeAdapter

from gonogo.domain.errors import Conflict
from gonogo.domain.identity import Principal
from gonogo.domain.views import DecisionAnswer
from gonogo.runtime.services import Parts
from gonogo.store import Tx
from gonogo.store import people as rows


class Once(Struct, frozen=True, kw_only=True):
    """A request that may be repeated and is carried out once: its sender's key for it."""

    by: Principal
    key: str
    digest: str
    """Of what is asked; the same key for something else is a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An accepted message. Its answer is what follows `after` in the session's log."""

    session_id: str
    after: int
    turn_id: str | None = None
    plan_id: str | None = None
    answers: tuple[DecisionAnswer, ...] = ()
    """One for each id of a batch."""
    told: int = 0
    """The last event that taking the message in told at once; it belongs to the answer."""
    settled: int = 0
    """Where the last decision of a batch was taken: nothing before it ends the answer."""
    created: bool = False
    """The message made the session."""
    ends: int = 0
    """The last event of an answer that sets nothing going: more people have to agree."""
    approval_id: str = ""
    """The question that was answered, or that an edit put in its place."""
    outcome: Literal["decided", "voted", "asked_again"] | None = None
    """What came of a decision."""

    def as_json(self) -> dict[str, Any]:
        """The receipt as it is kept for a repeat of its request."""
        return _RECEIPT.dump_python(self, mode="json", exclude_none=True)

    @staticmethod
    def of_json(kept: dict[str, Any]) -> "Receipt":
        """A receipt that was kept."""
        return _RECEIPT.validate_python(kept)

    def covers(self, body: Mapping[str, Any]) -> bool:
        """Whether an event belongs to the answer."""
        if self.turn_id is None and self.plan_id is None:
            return True
        if self.turn_id is not None and body.get("turn_id") == self.turn_id:
            return True
        if self.plan_id is not None and body.get("plan_id") == self.plan_id:
            return True
        return body.get("seq", self.told + 1) <= self.told


_RECEIPT: TypeAdapter[Receipt] = TypeAdapter(Receipt)


def kept_answer(tx: Tx, once: Once) -> Any:  # noqa: ANN401 - JSON
    """The answer to an earlier request with that key, or None.

    Raises:
        Conflict: the key was used for another request.
    """
    row = rows.kept_answer(tx, once.by.id, once.key)
    if row is None:
        return None
    if row.request_digest != once.digest:
        raise other_request()
    return row.answer


def keep_answer(tx: Tx, once: Once, answer: Any, about: str = "") -> None:  # noqa: ANN401 - JSON
    """Keep an answer for a repeat of its request.

    Args:
        about: The path that was asked.
    """
    row = {
        "principal_id": once.by.id, "key": once.key, "request_digest": once.digest,
        "answer": answer,
    }  # fmt: skip
    rows.keep_answer(tx, row, about)


def other_request() -> Conflict:
    """What is said of a key that stood for something else."""
    return Conflict("This Idempotency-Key was used for another request; use a new key")


class KeptAnswers(Struct, frozen=True):
    """Answers kept for repeated requests, whatever they were about."""

    _parts: Parts

    async def find(self, principal: Principal, key: str, request_digest: str) -> Any:  # noqa: ANN401
        """As `kept_answer`."""
        once = Once(by=principal, key=key, digest=request_digest)
        return await self._parts.store.read(kept_answer, once)

    async def keep(
        self,
        principal: Principal,
        key: str,
        request_digest: str,
        answer: Any,  # noqa: ANN401
        about: str = "",
    ) -> None:
        """As `keep_answer`."""
        once = Once(by=principal, key=key, digest=request_digest)
        await self._parts.store.write(keep_answer, once, answer, about)
