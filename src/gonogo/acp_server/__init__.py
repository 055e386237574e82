"""The server for editors: an agent of the Agent Client Protocol on standard input and output.

It is a client of the runtime, as every command is. So an editor sees the same session as the
console and the terminal, and the work continues without the editor. It promises:

- Every request of an editor gets an answer; a bad one gets an error that says what is wrong, and
  never ends the server.
- Only the protocol is written to the protocol's output.
- A question is shown as it is and bound to its digest. Only the person's choice decides it, never
  a text in the conversation. Closing the editor decides nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import anyio
from acp import PROTOCOL_VERSION, schema
from acp.core import Connection
from anyio.abc import TaskGroup

from gonogo import __version__
from gonogo.acp_server.protocol import Pipe, ProtocolReply, Route, Router, farewell
from gonogo.acp_server.session import Dialogue, Editor, act_of, command_updates, plain, text_of
from gonogo.acp_server.updates import TOLD, Update, asked, one_line, said
from gonogo.client import Client
from gonogo.domain.base import loads
from gonogo.domain.errors import Forbidden, GonogoError, InvalidMessage
from gonogo.domain.plan_views import PlanView
from gonogo.domain.views import MessageView, SessionView
from gonogo.i18n import resolve, say

__all__ = ["Pipe", "serve_editor"]


# The history of a session, shown to an editor that loads it.


async def replay(client: Client, dialogue: Dialogue, session: SessionView) -> None:
    """Show the conversation so far, and the current state of the plan."""
    history = await client.history(session.session_id)
    for message in history.messages:
        await dialogue.show(*_of(message, dialogue))
    plan = await _plan_of(client, session)
    if plan is not None:
        subtasks = [s.model_dump(mode="json", exclude_none=True) for s in plan.subtasks]
        await dialogue.show(
            dialogue.updates.board.show(plan.plan_id, plan.revision, subtasks, plan.critical_path)
        )


async def _plan_of(client: Client, session: SessionView) -> PlanView | None:
    if session.active_plan_id:
        return await client.plan(session.active_plan_id)
    found = await client.plans(session_id=session.session_id, limit=1)
    return next(iter(found.plans), None)


def _of(message: MessageView, dialogue: Dialogue) -> list[Update]:
    if message.role == "user":
        # Messages to a subtask's agent are not the user's.
        return [] if message.subtask_id else [asked(message.content)]
    if message.role == "tool":
        return _result(message, dialogue)
    where = f"[{message.subtask_id}] " if message.subtask_id else ""
    updates: list[Update] = [said(f"{where}{message.content}\n\n")] if message.content else []
    calls = [call for call in message.tool_calls or [] if call["name"] not in TOLD]
    return [*updates, *(_call(call, message, dialogue) for call in calls)]


def _call(call: Mapping[str, Any], message: MessageView, dialogue: Dialogue) -> Update:
    arguments: Mapping[str, Any] = call.get("arguments") or {}
    return dialogue.updates.call(call["id"], call["name"], arguments, message.subtask_id)


def _result(message: MessageView, dialogue: Dialogue) -> list[Update]:
    tool = message.tool_name or ""
    if tool in TOLD or message.call_id is None:
        return []
    result: object = message.content
    with suppress(GonogoError):
        result = loads(message.content)
    return [dialogue.updates.ended(message.call_id, tool, result, None)]


_PAGE = 100
Answer = Mapping[str, Any]


class Named(Protocol):
    """An MCP server that an editor offers."""

    name: str


async def serve_editor(client: Client, pipe: Pipe, locale: str | None) -> None:
    """Speak the protocol with the editor at the pipe until it disconnects.

    Args:
        client: The client of the runtime.
        locale: The operator's setting for the language of texts.
    """
    async with anyio.create_task_group() as group:
        wrote = anyio.Event()

        async def write() -> None:
            await pipe.write()
            wrote.set()
            group.cancel_scope.cancel()

        group.start_soon(write)
        door = EditorAgent(client, pipe, group, locale)
        await door.listen()
        await farewell(pipe, wrote)
        group.cancel_scope.cancel()


class EditorAgent:
    """The protocol's agent for one editor."""

    def __init__(self, client: Client, pipe: Pipe, group: TaskGroup, locale: str | None) -> None:
        self._client, self._group, self._locale = client, group, locale
        self._dialogues: dict[str, Dialogue] = {}
        self._unused: set[str] = set()
        """The editor's MCP servers that the person was told are not used."""
        requests = {
            "initialize": Route(schema.InitializeRequest, self._initialize),
            "authenticate": Route(schema.AuthenticateRequest, self._authenticate),
            "session/new": Route(schema.NewSessionRequest, self._new),
            "session/load": Route(schema.LoadSessionRequest, self._load),
            "session/resume": Route(schema.ResumeSessionRequest, self._resume),
            "session/list": Route(schema.ListSessionsRequest, self._list),
            "session/close": Route(schema.CloseSessionRequest, self._close),
            "session/delete": Route(schema.DeleteSessionRequest, self._delete),
            "session/set_mode": Route(schema.SetSessionModeRequest, self._set_mode),
            "session/prompt": Route(schema.PromptRequest, self._prompt),
        }
        notifications = {"session/cancel": Route(schema.CancelNotification, self._cancel)}
        self._connection = Connection(
            Router(requests, notifications, locale), pipe, listening=False
        )
        self._editor = Editor(self._connection, pipe)

    async def listen(self) -> None:
        """Answer requests until the editor disconnects."""
        try:
            await self._connection.main_loop()
        finally:
            with anyio.CancelScope(shield=True):
                await self._connection.close()

    async def _initialize(self, request: schema.InitializeRequest) -> Answer:
        able = request.client_capabilities
        # The library passes unreadable capabilities on as a bare dict; they count as none.
        asks = able.elicitation if isinstance(able, schema.ClientCapabilities) else None
        self._editor.forms = asks is not None and asks.form is not None
        abilities = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(),
                resume=schema.SessionResumeCapabilities(),
                close=schema.SessionCloseCapabilities(),
                delete=schema.SessionDeleteCapabilities(),
            ),
        )
        return plain(
            schema.InitializeResponse(
                protocol_version=PROTOCOL_VERSION,
                agent_capabilities=abilities,
                agent_info=schema.Implementation(
                    name="gonogo", title="gonogo", version=__version__
                ),
            )
        )

    async def _authenticate(self, request: schema.AuthenticateRequest) -> Answer:
        del request
        return {}

    async def _new(self, request: schema.NewSessionRequest) -> Answer:
        cwd = _folder(request.cwd)
        try:
            session = await self._client.open_session(workspace=cwd, locale=self._locale)
        except Forbidden as error:
            raise Forbidden(
                "{error}. {what}", error=error.said, what=say("editor_other_roots", self._locale)
            ) from None
        dialogue = self._dialogue(session)
        answer = schema.NewSessionResponse(
            session_id=session.session_id, modes=await self._modes(session)
        )
        return ProtocolReply(plain(answer), lambda: self._begin(dialogue, request.mcp_servers))

    async def _load(self, request: schema.LoadSessionRequest) -> Answer:
        session = await self._client.session(request.session_id)
        dialogue = self._dialogue(session)
        await replay(self._client, dialogue, session)
        answer = schema.LoadSessionResponse(modes=await self._modes(session))
        return ProtocolReply(plain(answer), lambda: self._begin(dialogue, request.mcp_servers))

    async def _resume(self, request: schema.ResumeSessionRequest) -> Answer:
        session = await self._client.session(request.session_id)
        dialogue = self._dialogue(session)
        answer = schema.ResumeSessionResponse(modes=await self._modes(session))
        return ProtocolReply(plain(answer), lambda: self._begin(dialogue, request.mcp_servers))

    async def _list(self, request: schema.ListSessionsRequest) -> Answer:
        offset = _place(request.cursor)
        page = await self._client.sessions(limit=_PAGE, offset=offset)
        found = [
            _info(session)
            for session in page.sessions
            if request.cwd is None or _same(session.workspace, request.cwd)
        ]
        after = offset + len(page.sessions)
        more = str(after) if page.sessions and after < page.total else None
        return plain(schema.ListSessionsResponse(sessions=found, next_cursor=more))

    async def _close(self, request: schema.CloseSessionRequest) -> Answer:
        dialogue = self._known(request.session_id)
        await dialogue.cancel()
        dialogue.leave()
        # Meanwhile the editor may have closed it again, or reopened it.
        if self._dialogues.get(request.session_id) is dialogue:
            del self._dialogues[request.session_id]
        return {}

    async def _delete(self, request: schema.DeleteSessionRequest) -> Answer:
        await self._client.delete_session(request.session_id)
        if dialogue := self._dialogues.pop(request.session_id, None):
            dialogue.leave()
        return {}

    async def _set_mode(self, request: schema.SetSessionModeRequest) -> Answer:
        await self._known(request.session_id).switch(request.mode_id)
        return {}

    async def _prompt(self, request: schema.PromptRequest) -> Answer:
        dialogue = self._known(request.session_id)
        text = text_of(request.prompt, dialogue.root)
        dialogue.locale = dialogue.updates.locale = resolve(self._locale, None, text)
        act = await act_of(text, self._client, dialogue)
        reason = await dialogue.prompt(act)
        return plain(schema.PromptResponse(stop_reason=reason))

    async def _cancel(self, request: schema.CancelNotification) -> Answer:
        await self._known(request.session_id).cancel()
        return {}

    # Parts ------------------------------------------------------------------------------------

    def _dialogue(self, session: SessionView) -> Dialogue:
        if before := self._dialogues.get(session.session_id):
            before.leave()
        locale = resolve(session.locale, self._locale)
        dialogue = Dialogue(self._editor, self._client, session, self._group, locale)
        self._dialogues[session.session_id] = dialogue
        return dialogue

    def _begin(self, dialogue: Dialogue, offered: Sequence[Named] | None) -> None:
        """Start sending updates: the editor knows the session now."""
        self._group.start_soon(self._greet, dialogue, [server.name for server in offered or ()])
        dialogue.follow()

    async def _greet(self, dialogue: Dialogue, offered: Sequence[str]) -> None:
        await dialogue.show(command_updates(dialogue.locale))
        unknown = set(offered) - self._unused
        if unknown:
            # A project's file may have named these programs, and nobody has allowed them here.
            with suppress(GonogoError):
                unknown -= {server.name for server in await self._client.servers()}
        if unknown:
            self._unused |= unknown
            names = one_line(", ".join(sorted(unknown)))
            await dialogue.show(said(f"{say('editor_servers', dialogue.locale, names=names)}\n\n"))

    def _known(self, session_id: str) -> Dialogue:
        dialogue = self._dialogues.get(session_id)
        if dialogue is None:
            raise InvalidMessage(
                "No session {session_id!r} was opened or loaded here; open or load it first",
                session_id=session_id,
            )
        if dialogue.is_broken:
            dialogue.follow()
        return dialogue

    async def _modes(self, session: SessionView) -> schema.SessionModeState:
        agents = await self._client.agents()
        modes = [
            schema.SessionMode(
                id=agent.name, name=agent.name.capitalize(), description=agent.description
            )
            for agent in agents
        ]
        return schema.SessionModeState(current_mode_id=session.agent, available_modes=modes)


def _folder(cwd: str) -> str:
    if not Path(cwd).is_absolute():
        raise InvalidMessage("cwd: it must be an absolute path")
    return cwd


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _place(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise InvalidMessage("cursor: this agent did not issue it; start again without a cursor")
    return int(cursor)


def _info(session: SessionView) -> schema.SessionInfo:
    return schema.SessionInfo(
        session_id=session.session_id,
        cwd=session.workspace,
        title=session.title,
        updated_at=session.updated_at.isoformat(),
    )
