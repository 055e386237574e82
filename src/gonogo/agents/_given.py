"""What people gave a conversation besides the operator's rules: the session's, and a grant."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gonogo.agents._session_rules import rules_of
from gonogo.agents._thread import Thread
from gonogo.domain.gate import Grant
from gonogo.domain.plan import Scope
from gonogo.policy import Rule
from gonogo.store import Connection, Store
from gonogo.store.plans import active_grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What holds in one conversation, read at one moment."""

    rules: tuple[Rule, ...] = ()
    """The session's rules."""
    grant: Grant | None = None
    """What the approved plan allows the subtask."""


Giving = Callable[[Thread], Awaitable[Given]]


async def nothing_given(thread: Thread) -> Given:
    """What a call has that belongs to no session and no plan."""
    del thread
    return Given()


def given_in(store: Store) -> Giving:
    """Reads what people have given, as it is now."""

    async def given(thread: Thread) -> Given:
        return await store.read(_given, thread)

    return given


def _given(conn: Connection, thread: Thread) -> Given:
    return Given(rules=rules_of(conn, thread.session_id), grant=_grant(conn, thread))


def _grant(conn: Connection, thread: Thread) -> Grant | None:
    if thread.plan_id is None or thread.subtask_id is None or thread.revision is None:
        return None
    row = active_grant(conn, thread.plan_id, thread.revision, thread.subtask_id)
    if row is None:
        return None
    return Grant(
        grant_id=row.id,
        plan_id=row.plan_id,
        revision=row.revision,
        subtask_id=row.subtask_id,
        scope=Scope.model_validate(row.scope) if row.scope is not None else None,
    )
