"""The inbox: takes a user's words in, for an agent that will answer or for one at work."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import RateLimited
from gonogo.domain.events import (
    AgentSwitched,
    AssistantMessage,
    Steered,
    SteeringFacts,
    SwitchFacts,
)
from gonogo.domain.identity import Principal
from gonogo.domain.messages import title_of
from gonogo.domain.records import MAIN, CallRow, Session, Turn
from gonogo.domain.reviews import checked_content
from gonogo.domain.states import CallStatus, PlanStatus, TurnStatus
from gonogo.domain.tool_calls import Steering, count_unheard
from gonogo.execution.agent.call_log import end_call
from gonogo.execution.scheduling import Superseded
from gonogo.i18n import resolve, say
from gonogo.store import Tx, go_on, new_id
from gonogo.store import events as log
from gonogo.store.calls import open_calls
from gonogo.store.plans import plan_of
from gonogo.store.sessions import (
    add_turn,
    append_message,
    conversation,
    lock_turn,
    move_turn,
    open_turns,
    session_of,
    set_session,
    spoken_in,
    turn_of,
)

ORCHESTRATOR = "orchestrator"
QUESTION_TOOL = "ask_followup_question"


class Kept(Struct, frozen=True, kw_only=True):
    """A message that was taken in: the turn that answers it."""

    turn_id: str


class Inbox(Struct, frozen=True, kw_only=True):
    """Where messages of users arrive; every function is a part of one transaction."""

    locale: str | None
    """The operator's setting."""

    def receive(
        self, tx: Tx, session: Session, content: str, agent: str | None, by: str | None = None
    ) -> Kept:
        """Keep a message and have it answered: at once, or after what goes on now.

        Args:
            by: The principal whose message it is.
        """
        spoken = self.heard(tx, session, content).spoken
        question = _open_question(tx, session)
        if question is not None and question.turn_id is not None:
            return self._answer(tx, question, content)
        before = open_turns(tx, session.id)
        turn = add_turn(tx, new_id("turn"), session.id, content, agent or "", by)
        plan = plan_of(tx, session.active_plan_id) if session.active_plan_id else None
        if plan is not None and plan.status is not PlanStatus.APPROVED:
            undecided = plan.status is PlanStatus.AWAITING_APPROVAL
            tell_queued(tx, turn, spoken, undecided=undecided)
        elif any(earlier.status is TurnStatus.PARKED for earlier in before):
            tell_queued(tx, turn, spoken, undecided=False)
        elif not before:
            go_on(tx, "turn", turn.id)
        return Kept(turn_id=turn.id)

    def heard(self, tx: Tx, session: Session, content: str) -> Session:
        """Set a session's language from what a person says and, the first time, its title."""
        spoken = resolve(session.locale, self.locale, content)
        title = session.title or title_of(content)
        set_session(tx, session.id, spoken=spoken, title=title, updated_at=tx.now)
        return replace(session, spoken=spoken, title=title)

    def plan_started(self, tx: Tx, session_id: str) -> None:
        """Tell senders of waiting messages that they wait for a plan that was held until now."""
        session = session_of(tx, session_id)
        if session is not None:
            tell_all_queued(tx, session)

    def switch(
        self,
        tx: Tx,
        session: Session,
        agent: str,
        reason: str | None,
        confidence: str | float | None,
        *,
        final: bool,
    ) -> None:
        """Have another agent answer from now on."""
        set_session(tx, session.id, agent=agent, updated_at=tx.now)
        facts = SwitchFacts(
            from_agent=session.agent, to_agent=agent, reason=reason, confidence=confidence
        )
        event = AgentSwitched(metadata=facts, agent=agent, is_final=final or None)
        log.tell(tx, session.id, event)

    def _answer(self, tx: Tx, question: CallRow, content: str) -> Kept:
        """Take a message as the answer to a question that an agent asked."""
        end_call(tx, question, CallStatus.COMPLETED, result={"answer": content})
        turn = turn_of(tx, question.turn_id or "")
        assert turn is not None  # noqa: S101 - the call names its turn
        if turn.status is TurnStatus.PARKED:
            move_turn(tx, turn, TurnStatus.RUNNING)
        go_on(tx, "turn", turn.id)
        return Kept(turn_id=turn.id)


def tell_queued(tx: Tx, turn: Turn, locale: str, *, undecided: bool) -> None:
    """Tell the sender of a message that it is kept, and what it waits for."""
    content = say("plan_waiting" if undecided else "message_queued", locale)
    event = AssistantMessage(content=content, turn_id=turn.id, agent=ORCHESTRATOR, is_final=True)
    log.tell(tx, turn.session_id, event)


def tell_all_queued(tx: Tx, session: Session, *, undecided: bool = False) -> None:
    """Tell everybody whose message comes after something that now waits for a person."""
    for turn in open_turns(tx, session.id):
        if turn.status is TurnStatus.QUEUED:
            tell_queued(tx, turn, session.spoken, undecided=undecided)


def next_turn(tx: Tx, session: Session) -> None:
    """Go on with the oldest message that waits, if nothing stands before it."""
    left = open_turns(tx, session.id)
    if left and left[0].status is TurnStatus.QUEUED:
        go_on(tx, "turn", left[0].id)


def _open_question(tx: Tx, session: Session) -> CallRow | None:
    calls = open_calls(tx, session.id, MAIN)
    asked = (c for c in calls if c.tool == QUESTION_TOOL and c.status is CallStatus.STARTED)
    return next(asked, None)


# The moves of a turn that several parts of this room make, inside their caller's transaction.


def check(tx: Tx, turn: Turn, *, hold: bool = False) -> Turn:
    """Check that a turn is still ours. Gives it as it is now.

    Args:
        hold: Whoever would change it waits until this transaction ends.

    Raises:
        Superseded: somebody else drives it, or it is over.
    """
    current = lock_turn(tx, turn.id) if hold else turn_of(tx, turn.id)
    if current is None or current.epoch != turn.epoch or current.status is not TurnStatus.RUNNING:
        raise Superseded(f"Turn {turn.id} is no longer ours")
    return current


def move(tx: Tx, turn: Turn, status: TurnStatus) -> None:
    """Move a turn that is ours.

    Raises:
        Superseded: somebody else drives it, or it is over.
    """
    finished = None if status is TurnStatus.PARKED else tx.now
    if not move_turn(tx, turn, status, finished_at=finished):
        raise Superseded(f"Turn {turn.id} is no longer ours")


def wake(tx: Tx, turn: Turn) -> None:
    """Go on with a turn, parked or not."""
    if turn.status is TurnStatus.PARKED:
        move_turn(tx, turn, TurnStatus.RUNNING)
    go_on(tx, "turn", turn.id)


def tell_switch(
    tx: Tx,
    turn: Turn,
    source: str,
    target: str,
    *,
    reason: str | None = None,
    confidence: str | float | None = None,
) -> None:
    """Tell that another agent goes on with a turn."""
    facts = SwitchFacts(from_agent=source, to_agent=target, reason=reason, confidence=confidence)
    event = AgentSwitched(metadata=facts, turn_id=turn.id, agent=target)
    log.tell(tx, turn.session_id, event)


def restore(tx: Tx, turn: Turn, held: Turn | None = None) -> None:
    """Tell, before a turn's last event, that the session's own agent answers the next message.

    Args:
        held: The turn as it is now, if the caller has read it.
    """
    session, current = session_of(tx, turn.session_id), held or turn_of(tx, turn.id)
    began = current is not None and current.agent != ""
    if session is not None and current is not None and began and current.agent != session.agent:
        tell_switch(tx, turn, current.agent, session.agent)


# Steering: a person says something to an agent that is at work.
#
# The words become a message of the conversation in the transaction that tells the event and writes
# the audit entry. They come before the conversation's next request to a model, each once, in order;
# nothing else changes: no scope, no grant, no question, no digest.
#
# A conversation does not end with words that its agent has not heard: whoever ends it asks
# `is_unheard` in the transaction that would, and has it go on instead.

MOST_UNHEARD = 100
"""How many messages to one conversation may wait until its agent hears them."""


def steer(
    tx: Tx,
    session_id: str,
    thread: str,
    content: str,
    by: Principal,
    *,
    agent: str,
    **place: Any,  # noqa: ANN401 - fields of events
) -> None:
    """Store what a person says to the agent that works in a conversation, and tell followers.

    Args:
        agent: The agent that works.
        place: The other fields by which events name where it happened.

    Raises:
        InvalidMessage: nothing is said, or too much.
        RateLimited: too much of what was said has not been heard yet.
    """
    words = checked_content(content)
    if count_unheard(conversation(tx, session_id, thread)) >= MOST_UNHEARD:
        raise RateLimited(
            "The agent has {most} messages to read, and no more are possible; wait until it has "
            "read some",
            most=MOST_UNHEARD,
        )
    said = Steering(content=words)
    append_message(tx, session_id, thread, said, turn_id=place.get("turn_id"), agent=agent)
    told = say("steered", spoken_in(tx, session_id), author=by.name, agent=agent, content=words)
    facts = SteeringFacts(author=by.name, content=words)
    log.tell(tx, session_id, Steered(content=told, metadata=facts, agent=agent, **place))
    log.note(
        tx, session_id, actor=by.id, action="agent.steered", subject=agent, content=words, **place
    )


def is_unheard(tx: Tx, session_id: str, thread: str, heard: int = 0) -> bool:
    """Whether people have said something in a conversation that its agent has not heard.

    Args:
        heard: How many such messages it knew when it gave a reply that is not stored yet.
    """
    return count_unheard(conversation(tx, session_id, thread), heard) > 0
