"""The client: everything that can be asked of a server."""

from datetime import datetime
from typing import Any

from gonogo.client._approvals import Approvals
from gonogo.client._audits import Audits
from gonogo.client._undo import Undo
from gonogo.client._waiting import Waiting
from gonogo.client._wire import named
from gonogo.domain.report_views import Analytics
from gonogo.domain.views import (
    AcceptedTool,
    Agents,
    AgentView,
    Calls,
    CallView,
    Grants,
    GrantView,
    Health,
    MadeToken,
    Me,
    Models,
    PolicyView,
    Servers,
    ServerView,
    Tokens,
    TokenView,
    Tools,
    ToolView,
    Vacuumed,
)


class Client(Audits, Waiting, Undo, Approvals):
    """A client of one server.

    Every method raises the domain's errors, `Unreachable` and `Unintelligible`.
    """

    async def health(self) -> Health:
        """Whether the server is there; needs no token."""
        return await self._get("/health", Health)

    async def me(self) -> Me:
        """Whom the token of this client makes it."""
        return await self._get("/me", Me)

    async def agents(self) -> list[AgentView]:
        """The agent profiles."""
        return (await self._get("/agents", Agents)).agents

    async def tools(self) -> list[ToolView]:
        """The tools that agents may use."""
        return (await self._get("/tools", Tools)).tools

    async def servers(self) -> list[ServerView]:
        """The foreign (MCP) servers, and how they are."""
        return (await self._get("/servers", Servers)).servers

    async def accept_tool(self, name: str) -> AcceptedTool:
        """Have a server's tool count as it was seen last."""
        return await self._post("/tools/accept", AcceptedTool, {"name": name})

    async def models(self) -> list[dict[str, Any]]:
        """The models that could be used there."""
        return (await self._get("/models", Models)).models

    async def policy(self) -> PolicyView:
        """The rules that were read there; for admins."""
        return await self._get("/policy", PolicyView)

    async def vacuum(self, *, dry_run: bool = False) -> Vacuumed:
        """Give back the room that the server's database and snapshots do not need; for admins.

        However long it takes, it is waited for.
        """
        return await self._post("/maintenance/vacuum", Vacuumed, {"dry_run": dry_run}, timeout=None)

    async def grants(self, *, session_id: str | None = None) -> list[GrantView]:
        """What approved plans may do without a question."""
        return (await self._get("/grants", Grants, session_id=session_id)).grants

    async def revoke_grant(self, grant_id: str) -> None:
        """End a grant."""
        await self._delete(f"/grants/{named(grant_id)}")

    async def calls(
        self,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[CallView]:
        """A page of the tool calls as they were judged, oldest first."""
        found = await self._get(
            "/calls", Calls, session_id=session_id, since=since, limit=limit, offset=offset
        )
        return found.calls

    async def analytics(
        self,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Analytics:
        """What came of the work: by default in the last thirty days, over all sessions seen."""
        return await self._get(
            "/analytics", Analytics, session_id=session_id, since=since, until=until
        )

    async def tokens(self) -> list[TokenView]:
        """The tokens, without their secrets."""
        return (await self._get("/tokens", Tokens)).tokens

    async def create_token(self, *, name: str, role: str) -> MadeToken:
        """Make a token; its secret is in this answer and nowhere else."""
        return await self._post("/tokens", MadeToken, {"name": name, "role": role})

    async def revoke_token(self, token_id: str) -> None:
        """End a token, and the connections that it opened."""
        await self._delete(f"/tokens/{named(token_id)}")
