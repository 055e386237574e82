"""Models that do not answer: the wait of turns and searches, and the question when it takes long.

Plans wait as a pause of their own; see the engine. A turn or a search has nothing that could be
paused: its job ends, and a timer has it go on. Both are told when the wait begins, and when the
model has answered.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gonogo.domain.errors import ModelFailed
from gonogo.domain.events import ModelWaited, WaitFacts
from gonogo.domain.failures import Absence
from gonogo.execution.scheduling import MODEL
from gonogo.i18n import say, told
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.jobs import AGAIN, drop_timer, set_timer
from gonogo.store.sessions import spoken_in


class ModelWait(Struct, frozen=True, kw_only=True):
    """Who waits for a model: a job, and where events say that it happens."""

    session_id: str
    kind: str
    key: str
    place: Mapping[str, Any]
    """The fields of events."""

    def begin(
        self, tx: Tx, kept: Mapping[str, Any] | None, error: ModelFailed, patience: float
    ) -> Absence | None:
        """Have the job run again when the model is to be asked the next time.

        Args:
            kept: The absence so far.
            patience: Seconds that the model is waited for in all.

        Returns:
            The absence as it is to be kept; None once patience is at its end.
        """
        absence = Absence.after(kept, error, tx.now)
        until = absence.next_try(tx.now, patience)
        if until is None:
            return None
        set_timer(tx, f"{AGAIN}{self.kind}", self.key, until)
        if kept is None:
            end = absence.ends_at(patience)
            shown = end.strftime("%Y-%m-%d %H:%M:%S UTC")
            facts = WaitFacts(reason=MODEL, until=end, error=absence.error)
            said = told(absence.error, spoken_in(tx, self.session_id))
            self._tell(tx, "model_away", facts, until=shown, error=said)
        return absence

    def end(self, tx: Tx) -> None:
        """The model has answered."""
        drop_timer(tx, f"{AGAIN}{self.kind}", self.key)
        self._tell(tx, "model_back", WaitFacts(reason=MODEL))

    def _tell(
        self,
        tx: Tx,
        what: Any,  # noqa: ANN401 - one of the event's own words
        facts: WaitFacts,
        **said: str | None,
    ) -> None:
        content = say(what, spoken_in(tx, self.session_id), **said)
        event = ModelWaited(type=what, content=content, metadata=facts, **self.place)
        log.tell(tx, self.session_id, event)
