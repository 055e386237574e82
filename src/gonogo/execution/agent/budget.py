"""The meter: keeps what each request to a model took, and refuses those that no budget allows.

Where there is a budget, a request is reserved in a transaction of its own before it is sent, with
an estimate: a token for every four bytes of what is sent, and for the reply as many as the largest
so far; its cost that of the dearest so far. So requests that are under way at once never pass a
limit together by more than their replies pass the estimate. A reserved request whose process died
counts as its estimate. Without a budget a request is written with its reply, and costs no commit.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.errors import ModelFailed
from gonogo.domain.records import ModelRequestRow, Plan
from gonogo.domain.replanning import (
    DEFAULT_OUTPUT,
    OF_REQUESTS,
    OF_SESSIONS,
    BudgetSpent,
    Excess,
    Limits,
    Used,
    excess,
    in_force,
    tokens_of,
    with_session,
)
from gonogo.domain.tool_calls import TOKENS, ModelRequest, Reply
from gonogo.execution.agent.conversation import Thread
from gonogo.i18n import say
from gonogo.store import Store, Tx, new_id
from gonogo.store.plans import lock_plan
from gonogo.store.reports import (
    add_request,
    end_request,
    hold_session,
    refuse_request,
    used_by_plan,
    used_by_session,
)


class Meter(Struct, frozen=True, kw_only=True):
    """Counts what is asked of models over one store."""

    store: Store
    limits: Limits = field(default_factory=dict[str, float])

    async def ask(
        self, thread: Thread, request: ModelRequest, send: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """Send a request, if the budgets allow it. The reply carries the id of its row.

        Raises:
            BudgetSpent: it would pass a limit; it was not sent.
            ModelFailed: the model did not answer.
        """
        request_id = new_id("req")
        limits = with_session(self.limits, thread.limits)
        reserved = not (OF_REQUESTS | OF_SESSIONS).isdisjoint(limits)
        if reserved:
            size = tokens_of(_bytes(request))
            await self.store.write(self._reserve, thread, request_id, size)
        try:
            reply = await send()
        except ModelFailed as error:
            if reserved:
                free = error.http_status is not None or not error.sent
                await self.store.write(refuse_request, request_id, free=free)
            raise
        return reply.model_copy(update={"request_id": request_id})

    def _reserve(self, tx: Tx, thread: Thread, request_id: str, size: int) -> None:
        # The rows of the plan and the session are held, so that nobody counts at the same time.
        plan = lock_plan(tx, thread.plan_id) if thread.plan_id else None
        thread.owner.check(tx)
        of_plan = used_by_plan(tx, plan.id) if plan else Used()
        of_session = Used()
        if plan is None or not OF_SESSIONS.isdisjoint(with_session(self.limits, thread.limits)):
            hold_session(tx, thread.session_id)
            of_session = used_by_session(tx, thread.session_id)
        known = of_plan if plan else of_session
        row = ModelRequestRow(
            id=request_id, session_id=thread.session_id, plan_id=thread.plan_id,
            subtask_id=thread.subtask_id, thread=thread.name, agent=thread.agent, model="",
            status="reserved", input_tokens=size,
            output_tokens=known.largest_output or DEFAULT_OUTPUT,
            cost_micros=max(of_plan.largest_cost, of_session.largest_cost),
            duration_ms=None, created_at=tx.now,
        )  # fmt: skip
        self._check(thread, plan, of_plan, of_session, row)
        add_request(tx, row)

    def _check(
        self,
        thread: Thread,
        plan: Plan | None,
        of_plan: Used,
        of_session: Used,
        row: ModelRequestRow,
    ) -> None:
        estimate = Used(
            requests=1, input_tokens=row.input_tokens, output_tokens=row.output_tokens,
            cost_micros=row.cost_micros,
        )  # fmt: skip
        used, more = of_session.by_word("session_"), estimate.by_word("session_")
        if plan is not None:
            used |= of_plan.by_word()
            more |= estimate.by_word()
        limits = in_force(self.limits, plan.budget if plan else None, thread.limits)
        found = excess(limits, used, more)
        if found is not None:
            own = with_session({}, thread.limits).get(found.what)
            found = replace(found, is_own=own == found.limit)
            said = say(
                "budget_spent", thread.locale, used=f"{found.used:g}", limit=f"{found.limit:g}",
                what=say(f"budget_{found.what}", thread.locale),
                setting=name_of_limit(found, thread.locale),
            )  # fmt: skip
            raise BudgetSpent(said, found)


def name_of_limit(spent: Excess, locale: str) -> str:
    """Where a limit that was reached can be changed: its setting, or the session's own."""
    return say("budget_own", locale) if spent.is_own else spent.setting


def keep_usage(tx: Tx, thread: Thread, reply: Reply) -> None:
    """Write what a reply took, in the transaction that keeps it."""
    if not reply.request_id:
        return
    usage = reply.usage
    row = ModelRequestRow(
        id=reply.request_id, session_id=thread.session_id, plan_id=thread.plan_id,
        subtask_id=thread.subtask_id, thread=thread.name, agent=thread.agent, model=reply.model,
        status="done", **{name: getattr(usage, name) for name in TOKENS},
        cost_micros=round((usage.cost or 0.0) * 1_000_000),
        duration_ms=round(usage.duration_ms),
        created_at=tx.now - timedelta(milliseconds=round(usage.duration_ms)),
    )  # fmt: skip
    end_request(tx, row)


def _bytes(request: ModelRequest) -> int:
    said = sum(len(str(message).encode()) for message in request.messages)
    tools = sum(len(str(tool).encode()) for tool in request.tools)
    return len(request.system.encode()) + said + tools
