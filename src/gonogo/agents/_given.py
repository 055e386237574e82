"""What people gave a conversation besides the operator's rules: the session's, and a grant."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gonogo.agents._session_rules import rules_of
from gonogo.agents._thread import Thread
from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Call, Grant, Standing
from gonogo.policy import Rule
from gonogo.store import Connection, Store
from gonogo.store.calls import Begun, perhaps_done
from gonogo.store.plans import active_grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What holds in one conversation, read at one moment."""

    rules: tuple[Rule, ...] = ()
    """The session's rules."""
    grant: Grant | None = None
    """What the approved plan allows the subtask."""
    since: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """When each of them was given, by its name."""
    perhaps_done: Sequence[Begun] = ()
    """Calls of the plan that must not simply run again."""

    def is_perhaps_done(self, call: Call) -> bool:
        """Whether the same call has begun before, and only a person knows what came of it."""
        return any(
            (begun.tool, begun.arguments) == (call.tool, call.arguments)
            for begun in self.perhaps_done
        )

    def still(self, standing: Standing) -> "Given":
        """What of it allows a foreign tool as that is now, and all that forbids or asks."""
        covers = {name for name, at in self.since.items() if standing.covers(at)}
        kept = (r for r in self.rules if r.text.decision != "allow" or r.name in covers)
        grant = self.grant if self.grant is not None and self.grant.name in covers else None
        return replace(self, rules=tuple(kept), grant=grant)


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
    rules = rules_of(conn, thread.session_id, thread.plan_id)
    grant, granted_at = _grant(conn, thread)
    since = {rule.name: made_at for rule, made_at in rules}
    if grant is not None and granted_at is not None:
        since[grant.name] = granted_at
    begun = perhaps_done(conn, thread.plan_id) if thread.plan_id is not None else ()
    return Given(
        rules=tuple(rule for rule, _ in rules), grant=grant, since=since, perhaps_done=begun
    )


def _grant(conn: Connection, thread: Thread) -> tuple[Grant | None, datetime | None]:
    if thread.plan_id is None or thread.subtask_id is None or thread.revision is None:
        return None, None
    row = active_grant(conn, thread.plan_id, thread.revision, thread.subtask_id)
    if row is None:
        return None, None
    grant = Grant(
        grant_id=row.id,
        plan_id=row.plan_id,
        revision=row.revision,
        subtask_id=row.subtask_id,
        scope=Scope.model_validate(row.scope or {}),
    )
    return grant, row.created_at
