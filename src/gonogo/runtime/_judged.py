"""The calls that were judged, for trying other rules on them."""

from datetime import UTC, datetime
from typing import Any

from gonogo.domain.identity import Principal
from gonogo.domain.views import CallView
from gonogo.runtime._parts import Parts
from gonogo.runtime._sessions import visible, whose
from gonogo.store import Connection
from gonogo.store.calls import JudgedCall, judged_calls

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_JUDGED_BY = ("path", "source", "destination", "patch", "command", "cwd")
"""The arguments that say what a call touches; what it writes is of no interest here."""


class JudgedCalls:
    """The query about calls and their verdicts."""

    parts: Parts

    async def calls(
        self,
        principal: Principal,
        session_id: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[CallView]:
        """A page of the calls that the principal may see, oldest first.

        Raises:
            NotFound: there is no such session that the principal may see.
        """
        page = {"since": since or _BEGINNING, "limit": limit, "offset": offset}
        found = await self.parts.store.read(_page, principal, session_id, page)
        return [_view(call) for call in found]


def _page(
    conn: Connection, principal: Principal, session_id: str | None, page: dict[str, Any]
) -> list[JudgedCall]:
    if session_id is not None:
        visible(conn, principal, session_id)
    return judged_calls(conn, session_id=session_id, principal_id=whose(principal), **page)


def _view(call: JudgedCall) -> CallView:
    said = call.verdict
    return CallView(
        call_id=call.id, session_id=call.session_id, agent=call.agent, tool_name=call.tool,
        tool_class=call.tool_class, plan_id=call.plan_id, revision=call.revision,
        subtask_id=call.subtask_id, created_at=call.created_at, answer=call.answer,
        granted=call.granted, scope=call.scope,
        arguments={n: call.arguments[n] for n in _JUDGED_BY if n in call.arguments},
        decision=said.get("decision"), rule=said.get("rule"), reason=said.get("reason"),
    )  # fmt: skip
