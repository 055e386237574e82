"""Sessions: open, look, change, delete; say something in one, and follow what happens."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal

from pydantic import BaseModel

from gonogo.client._events import EventBody
from gonogo.client._wire import Question, Wire, given, named
from gonogo.domain.messages import ClientMessage
from gonogo.domain.views import (
    History,
    PendingApprovals,
    SessionList,
    SessionRules,
    SessionRuleView,
    SessionView,
)


class Sessions(Wire):
    """What can be asked about sessions."""

    def send(
        self, session_id: str | None, message: ClientMessage | Mapping[str, Any]
    ) -> AsyncGenerator[EventBody]:
        """Say something in a session, and get the events that it causes up to the final one.

        Leaving early changes nothing in the session; close the generator then
        (`contextlib.aclosing`).

        Args:
            session_id: Without one, `user_message` and `switch_agent` open a session.

        Raises:
            Refused: the message cannot be taken. What is refused later comes as an `error` event.
            Unreachable: no server answers.
        """
        body: dict[str, Any] = {"message": _plain(message)}
        if session_id is not None:
            body["session_id"] = session_id
        question = Question(method="POST", path="/agent/message/stream", body=body, follows=False)
        return self._stream(question)

    def follow(self, session_id: str, after: int = 0) -> AsyncGenerator[EventBody]:
        """Every event of a session after a place in its log, then live, without an end.

        Args:
            after: The last event that is known; 0 starts at the beginning.

        Raises:
            InvalidCursor: nothing has that place yet.
            NotFound: there is no such session, or no more.
            Unreachable: the server went away and did not come back.
        """
        path = f"/sessions/{named(session_id)}/events"
        return self._stream(Question(method="GET", path=path, follows=True, seen=after))

    async def open_session(
        self,
        *,
        session_id: str | None = None,
        workspace: str | None = None,
        title: str | None = None,
        locale: str | None = None,
        tool_host: Literal["server", "client"] | None = None,
    ) -> SessionView:
        """Open a session."""
        fields = {
            "session_id": session_id,
            "workspace": workspace,
            "title": title,
            "locale": locale,
            "tool_host": tool_host,
        }
        return await self._post("/sessions", SessionView, given(fields))

    async def sessions(
        self, *, limit: int = 50, offset: int = 0, q: str | None = None
    ) -> SessionList:
        """A page of the sessions, or of those with `q` in their title, folder or id."""
        return await self._get("/sessions", SessionList, limit=limit, offset=offset, q=q)

    async def session(self, session_id: str) -> SessionView:
        """One session."""
        return await self._get(f"/sessions/{named(session_id)}", SessionView)

    async def edit_session(
        self, session_id: str, *, title: str | None = None, locale: str | None = ""
    ) -> SessionView:
        """Change a session's title or language.

        Args:
            locale: None: none of its own. Empty: as it was.
        """
        change = given({"title": title}) | ({} if locale == "" else {"locale": locale})
        return await self._patch(f"/sessions/{named(session_id)}", SessionView, change)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session."""
        await self._delete(f"/sessions/{named(session_id)}")

    async def history(self, session_id: str) -> History:
        """A session's messages."""
        return await self._get(f"/sessions/{named(session_id)}/history", History)

    async def pending_approvals(self, session_id: str) -> PendingApprovals:
        """What a session waits for."""
        return await self._get(f"/sessions/{named(session_id)}/pending-approvals", PendingApprovals)

    async def session_rules(self, session_id: str) -> list[SessionRuleView]:
        """The rules that hold in a session."""
        return (await self._get(f"/sessions/{named(session_id)}/rules", SessionRules)).rules

    async def add_session_rule(self, session_id: str, rule: Mapping[str, Any]) -> SessionRuleView:
        """Make a rule for a session, written as a rules file would have it."""
        body = {"rule": dict(rule)}
        return await self._post(f"/sessions/{named(session_id)}/rules", SessionRuleView, body)

    async def remove_session_rule(self, session_id: str, rule_id: str) -> None:
        """End a rule of a session."""
        await self._delete(f"/sessions/{named(session_id)}/rules/{named(rule_id)}")


def _plain(message: ClientMessage | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(message, BaseModel):
        return dict(message)
    return {**message.model_dump(mode="json", exclude_unset=True), "type": message.type}
