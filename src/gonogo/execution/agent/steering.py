"""Steering: a person says something to an agent that is at work.

The words become a message of the conversation in the transaction that tells the event and writes
the audit entry. They come before the conversation's next request to a model, each once, in order;
nothing else changes: no scope, no grant, no question, no digest.

A conversation does not end with words that its agent has not heard: whoever ends it asks
`is_unheard` in the transaction that would, and has it go on instead.
"""

from typing import Any

from gonogo.domain.errors import RateLimited
from gonogo.domain.events import Steered, SteeringFacts
from gonogo.domain.identity import Principal
from gonogo.domain.reviews import checked_content
from gonogo.domain.tool_calls import Steering, count_unheard
from gonogo.i18n import say
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.sessions import append_message, conversation, spoken_in

MOST_UNHEARD = 100
"""Words to one conversation that its agent has not heard yet."""


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
    """Keep what a person says to who is at work in a conversation, and tell it.

    Args:
        agent: Who is at work.
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
        heard: How many words the agent knew of when it gave a reply that is not kept yet.
    """
    return count_unheard(conversation(tx, session_id, thread), heard) > 0
