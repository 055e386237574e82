"""The moves of a turn that several parts of this room make, inside their caller's transaction."""

from datetime import datetime

from gonogo.domain.events import AgentSwitched, SwitchFacts
from gonogo.domain.records import Turn
from gonogo.domain.states import TurnStatus
from gonogo.engine import Superseded
from gonogo.store import Connection, go_on
from gonogo.store import events as log
from gonogo.store.sessions import move_turn, session_of, turn_of


def check(conn: Connection, turn: Turn) -> None:
    """Check that a turn is still ours.

    Raises:
        Superseded: somebody else drives it, or it is over.
    """
    current = turn_of(conn, turn.id)
    if current is None or current.epoch != turn.epoch or current.status is not TurnStatus.RUNNING:
        raise Superseded(f"Turn {turn.id} is no longer ours")


def move(conn: Connection, turn: Turn, status: TurnStatus, now: datetime) -> None:
    """Move a turn that is ours.

    Raises:
        Superseded: somebody else drives it, or it is over.
    """
    finished = None if status is TurnStatus.PARKED else now
    if not move_turn(conn, turn, status, finished_at=finished):
        raise Superseded(f"Turn {turn.id} is no longer ours")


def wake(conn: Connection, turn: Turn) -> None:
    """Go on with a turn, parked or not."""
    if turn.status is TurnStatus.PARKED:
        move_turn(conn, turn, TurnStatus.RUNNING)
    go_on(conn, "turn", turn.id)


def tell_switch(
    conn: Connection,
    turn: Turn,
    source: str,
    target: str,
    now: datetime,
    *,
    reason: str | None = None,
    confidence: str | float | None = None,
) -> None:
    """Another agent goes on with a turn."""
    facts = SwitchFacts(from_agent=source, to_agent=target, reason=reason, confidence=confidence)
    event = AgentSwitched(metadata=facts, turn_id=turn.id, agent=target)
    log.tell(conn, turn.session_id, now, event)


def restore(conn: Connection, turn: Turn, now: datetime) -> None:
    """The session's own agent answers the next message; told before the turn's last event."""
    session, current = session_of(conn, turn.session_id), turn_of(conn, turn.id)
    began = current is not None and current.agent != ""
    if session is not None and current is not None and began and current.agent != session.agent:
        tell_switch(conn, turn, current.agent, session.agent, now)
