"""One session in an editor: it shows the session's events and asks the person its questions.

All updates come from the session's own stream, in order and without gaps, whoever caused them. A
prompt ends when the stream of its message has ended, all of that is shown, and the person has no
open question.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from acp import RequestError, schema
from acp.core import Connection
from acp.helpers import update_tool_call
from anyio.abc import TaskGroup
from pydantic import BaseModel, TypeAdapter, ValidationError

from gonogo.acp_server.protocol import Pipe, refused
from gonogo.acp_server.updates import (
    ANSWER,
    EDIT,
    FIELDS,
    REVISE,
    Event,
    ShownPlan,
    Update,
    Updates,
    after_why,
    answered,
    call_of,
    chosen,
    decided,
    edited,
    fenced,
    form_of,
    is_plan,
    options_of,
    said,
    start_of,
)
from gonogo.client import Client, Unreachable, error_of
from gonogo.domain.errors import Conflict, GonogoError, Internal, InvalidMessage, Refused
from gonogo.domain.events import asks_person
from gonogo.domain.states import ApprovalKind, wants_words
from gonogo.domain.views import ApprovalView, SessionView
from gonogo.i18n import say

# The editor at the other end: updates and requests to it.

_ANSWER: TypeAdapter[Any] = TypeAdapter(schema.CreateElicitationResponse)
_PERMISSION: TypeAdapter[Any] = TypeAdapter(schema.RequestPermissionResponse)


class Editor:
    """The protocol's client."""

    def __init__(self, connection: Connection, pipe: Pipe) -> None:
        self._connection, self._pipe = connection, pipe
        self.forms = False
        """Whether it supports forms, not only choices."""

    async def show(self, session_id: str, *updates: Update) -> None:
        """Send updates, unless the editor has disconnected."""
        for update in updates:
            params = schema.SessionNotification(session_id=session_id, update=update)
            with suppress(ConnectionError):
                await self._connection.send_notification("session/update", plain(params))

    async def choose(
        self,
        session_id: str,
        call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
    ) -> str | None:
        """Ask the person to choose; None if they did not.

        If this is cancelled, it withdraws the question.
        """
        request = schema.RequestPermissionRequest(
            session_id=session_id, tool_call=call, options=options
        )
        answer = await self._ask("session/request_permission", plain(request))
        with suppress(ValidationError):
            outcome = _PERMISSION.validate_python(answer, by_name=False).outcome
            if isinstance(outcome, schema.AllowedOutcome):
                known = {option.option_id for option in options}
                return outcome.option_id if outcome.option_id in known else None
        return None

    async def fill_in(
        self, session_id: str, message: str, form: schema.ElicitationSchema
    ) -> dict[str, Any] | None:
        """Ask the person to fill in a form; None if they did not."""
        request = schema.CreateFormSessionElicitationRequest(
            session_id=session_id, message=message, mode="form", requested_schema=form
        )
        answer = await self._ask("elicitation/create", plain(request))
        with suppress(ValidationError):
            found = _ANSWER.validate_python(answer, by_name=False)
            if isinstance(found, schema.AcceptElicitationResponse):
                return dict(found.content or {})
        return None

    async def _ask(self, method: str, params: dict[str, Any]) -> object:
        try:
            return await self._connection.send_request(method, params)
        except (RequestError, ConnectionError):
            return None
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._take_back(params)
            raise
        finally:
            self._pipe.number_of(params)

    async def _take_back(self, params: dict[str, Any]) -> None:
        number = self._pipe.number_of(params)
        if number is not None:
            with suppress(ConnectionError), anyio.move_on_after(1):
                await self._connection.send_notification("$/cancel_request", {"requestId": number})


def plain(model: BaseModel) -> dict[str, Any]:
    """A value of the protocol as JSON."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


Act = Callable[[], Awaitable[None]]
_LOG = logging.getLogger(__name__)
_FAREWELL = 5.0
"""Seconds that cancelled work may take to end."""
_DECIDED = frozenset({"approved", "edited"})
_IN_WORDS = {EDIT: "", REVISE: "editor_say_changes", ANSWER: "editor_say_answer"}
"""Choices that need a text, with the key of the request for it if there are no forms."""


class Run:
    """One prompt."""

    def __init__(self) -> None:
        self.cancelled = self.stopped = False
        """Whether the editor has cancelled the prompt, and whether its work has stopped."""
        self.scope = anyio.CancelScope()


class Dialogue:
    """A session, from this editor's point of view."""

    def __init__(
        self, editor: Editor, client: Client, session: SessionView, group: TaskGroup, locale: str
    ) -> None:
        self._editor, self._client = editor, client
        self._outer = self._group = group
        self.id, self.root, self.locale = session.session_id, session.workspace, locale
        self.updates = Updates(session.workspace, ShownPlan(), locale)
        self._seen = self._due = session.last_seq
        self._open = self._finals = 0
        self._known: set[str] = set()
        """Approvals that the person is being asked about."""
        self.shown: set[str] = set()
        """All approvals that they were ever asked about during a prompt, so they saw them."""
        self._left: set[str] = set()
        """Approvals that the person was asked about and did not answer."""
        self._unprompted: set[str] = set()
        """Approvals asked about outside a prompt; some editors do not show these."""
        self._plans: dict[str, str] = {}
        """The id of each plan with the id of its approval."""
        self._asking: dict[str, anyio.CancelScope] = {}
        self._runs: set[Run] = set()
        self._next: tuple[ApprovalView, str] | None = None
        """The question that the next message answers, and the choice that was made."""
        self._broken: GonogoError | None = None
        self._scope = anyio.CancelScope()
        self._changed = anyio.Event()

    @property
    def is_broken(self) -> bool:
        """Whether the connection to the server was lost; `follow` connects again."""
        return self._broken is not None

    # What happens --------------------------------------------------------------------------------

    def follow(self) -> None:
        """Show events from now on, and ask the open questions."""
        self._broken, self._scope = None, anyio.CancelScope()
        self._outer.start_soon(self._follow)

    def leave(self) -> None:
        """Stop showing and asking. The work continues; prompts that wait for it end."""
        self._broken = Conflict(
            "The session was opened again or deleted here; what the prompt has set going is shown "
            "where it was opened"
        )
        self._scope.cancel()
        self._tell()

    async def show(self, *updates: Update) -> None:
        """Send updates of this session."""
        await self._editor.show(self.id, *updates)

    async def _follow(self) -> None:
        with self._scope:
            try:
                async with anyio.create_task_group() as group:
                    self._group = group
                    await self._ask_all()
                    async with aclosing(self._client.follow(self.id, self._seen)) as events:
                        async for event in events:
                            await self._take(event)
            except* GonogoError as errors:
                self._broken = next(_leaves(errors))
            except* Exception as errors:
                _LOG.exception("what happens in %s is not shown any more", self.id)
                self._broken = Internal(
                    "The session can no longer be shown: {exceptions!r}; load it again",
                    exceptions=errors.exceptions[0],
                )
        self._tell()

    async def _take(self, event: Event) -> None:
        if event["type"] == "plan_approved":
            await self._catch_up(event["metadata"])
        await self.show(*self._worth_showing(event))
        if event["type"] == "approval_resolved":
            await self._resolved(event["metadata"])
        if event["type"] == "plan_not_revised":
            self._known.discard(self._plans.pop(event["plan_id"], ""))
        if asks_person(event):
            await self._ask_all()
        self._seen = max(self._seen, event.get("seq", 0))
        self._finals += bool(event.get("is_final") and "seq" in event)
        self._tell()

    def _worth_showing(self, event: Event) -> list[Update]:
        if event["type"] != "error":
            return self.updates.of(event)
        # If it ends a prompt, it becomes the answer of the prompt.
        is_answer = event.get("is_final") and self._runs
        return [] if is_answer else [said(f"\n\n{event.get('content') or event['error']}\n\n")]

    async def _catch_up(self, facts: Event) -> None:
        """Fetch the approved revision if a person has edited it."""
        board = self.updates.board
        if board.plan_id == facts["plan_id"] and board.revision == facts["revision"]:
            return
        plan = await self._client.plan_revision(facts["plan_id"], facts["revision"])
        subtasks = [s.model_dump(mode="json", exclude_none=True) for s in plan.subtasks]
        await self.show(board.show(plan.plan_id, plan.revision, subtasks))

    async def _resolved(self, facts: Event) -> None:
        if self._next and self._next[0].approval_id == facts["approval_id"]:
            self._next = None
        scope = self._asking.pop(facts["approval_id"], None)
        if scope is not None:
            scope.cancel()
        if facts["kind"] != ApprovalKind.TOOL and facts["approval_id"] in self._known:
            status = "completed" if facts["status"] in _DECIDED else "failed"
            await self.show(update_tool_call(facts["approval_id"], status=status))

    # What is asked -------------------------------------------------------------------------------

    async def _ask_all(self) -> None:
        pending = await self._client.pending_approvals(self.id)
        for approval in pending.pending_approvals:
            if approval.approval_id in self._known:
                continue
            self._known.add(approval.approval_id)
            (self.shown if self._runs else self._unprompted).add(approval.approval_id)
            if is_plan(approval):
                self._plans[approval.plan_id or ""] = approval.approval_id
            if approval.kind != ApprovalKind.TOOL:
                await self.show(start_of(approval, self.root))
            self._begin(self._ask, approval)

    async def _ask_again(self) -> None:
        """Ask the unanswered questions again, because the person is there now."""
        for waiting in self._unprompted & self._asking.keys():
            self._asking.pop(waiting).cancel()
        self._known -= self._left | self._unprompted
        self._left.clear()
        self._unprompted.clear()
        await self._ask_all()

    def _begin(self, act: Callable[..., Awaitable[None]], *args: object) -> None:
        self._open += 1
        self._group.start_soon(self._counted, act, *args)

    async def _counted(self, act: Callable[..., Awaitable[None]], *args: object) -> None:
        try:
            await act(*args)
        except GonogoError as error:
            await self.show(said(f"\n\n{error}\n\n"))
        finally:
            self._open -= 1
            self._tell()

    async def _ask(self, approval: ApprovalView) -> None:
        word = act = None
        with anyio.CancelScope() as scope:
            self._asking[approval.approval_id] = scope
            options = options_of(approval, self.locale, forms=self._editor.forms)
            word = await self._editor.choose(self.id, call_of(approval, self.root), options)
            act = await self._meant(approval, word) if word else None
        if scope.cancelled_caught:
            # Whoever cancelled this has withdrawn the question, and may ask it again.
            return
        self._asking.pop(approval.approval_id, None)
        if act is not None:
            # The act may end the question, so it must not run as a part of asking.
            await act()
            return
        self._left.add(approval.approval_id)
        if word is None:
            await self.show(said(f"\n\n{say('editor_left', self.locale)}\n\n"))

    async def _meant(self, approval: ApprovalView, word: str) -> Act | None:
        """The act of a choice; None if there is nothing to do now."""
        if word not in _IN_WORDS:
            return partial(self.carry, chosen(approval, word))
        answers = await self._filled_in(approval, word)
        if answers and word == EDIT:
            return partial(self.carry, edited(approval, answers))
        if answers:
            return self._told(approval, word, str(answers.get(FIELDS[word], "")))
        if word != EDIT and not self._editor.forms:
            return partial(self._expect, approval, word)
        return None

    def _told(self, approval: ApprovalView, word: str, text: str) -> Act:
        if word == REVISE:
            return partial(self.revise, approval.plan_id or "", text)
        return partial(self.carry, answered(approval, text))

    async def _expect(self, approval: ApprovalView, word: str) -> None:
        self._next = approval, word
        await self.show(said(f"\n\n{say(_IN_WORDS[word], self.locale)}\n\n"))

    async def _filled_in(self, approval: ApprovalView, word: str) -> dict[str, Any] | None:
        if not self._editor.forms:
            return None
        form = form_of(approval, word, self.locale)
        return await self._editor.fill_in(self.id, approval.subject, form)

    # What the person says ------------------------------------------------------------------------

    async def prompt(self, act: Act) -> schema.StopReason:
        """Do what a prompt asks for, and follow the resulting work to its end.

        Raises:
            GonogoError: it cannot be done, or it ended with an error.
        """
        async with self._running() as run:
            await act()
            if not run.cancelled and self._broken is None:
                await self._ask_again()
            while self._open or self._seen < self._due or run.cancelled > run.stopped:
                if self._broken is not None:
                    raise self._broken
                await self._changed.wait()
        return "cancelled" if run.cancelled else "end_turn"

    async def carry(self, message: dict[str, Any]) -> None:
        """Send a message, and wait for the end of its stream.

        Raises:
            GonogoError: it is refused, or it ended with an error.
        """
        last, problem = 0, None
        async for event in self._client.send(self.id, message):
            last = max(last, event.get("seq", 0))
            if event["type"] == "error" and event.get("is_final") and "subtask_id" not in event:
                problem = event
        self._due = max(self._due, last)
        if problem is not None:
            raise error_of(problem)

    async def switch(self, agent: str) -> None:
        """Switch to another agent, and show that before the switch is complete."""
        await self.carry({"type": "switch_agent", "agent_type": agent})
        while self._seen < self._due and self._broken is None:
            await self._changed.wait()

    async def say(self, text: str) -> None:
        """Send the person's text to an agent, or to the planner of a plan."""
        about, self._next = self._next, None
        if about is None:
            await self.carry({"type": "user_message", "content": text})
        else:
            await self._told(*about, text)()

    async def revise(self, plan_id: str, changes: str) -> None:
        """Send a plan back to its planner for changes; it will be asked about again."""
        await self._client.comment_plan(plan_id, changes)
        await self.until_final(lambda: self._client.revise_plan(plan_id))

    async def reject(self, approval: ApprovalView, why: str) -> None:
        """Ask whether to plan again with the reason for the rejection, or to stop."""
        options = after_why(approval, self.locale)
        word = await self._editor.choose(self.id, call_of(approval, self.root), options)
        if word == REVISE:
            await self.revise(approval.plan_id or "", why)
        elif word is not None:
            await self.carry(decided(approval, word) | {"feedback": why})

    async def until_final(self, act: Callable[[], Awaitable[object]]) -> None:
        """Do something that has no stream of its own, and wait for the next final event."""
        before = self._finals
        await act()
        while self._finals == before and self._broken is None:
            await self._changed.wait()

    async def cancel(self) -> None:
        """Stop the work of this editor's prompts; the next message is then no answer."""
        self._next = None
        if not self._runs:
            return
        runs = list(self._runs)
        for run in runs:
            run.cancelled = True
        asking, self._asking = self._asking, {}
        for scope in asking.values():
            scope.cancel()
        try:
            with suppress(Unreachable):
                await self._stop()
        finally:
            for run in runs:
                run.stopped = True
            self._tell()
        with anyio.move_on_after(_FAREWELL):
            while self._runs & set(runs):
                await self._changed.wait()
        for run in runs:
            run.scope.cancel()

    async def _stop(self) -> None:
        session = await self._client.session(self.id)
        if session.active_plan_id:
            with suppress(Refused):
                await self._client.cancel_plan(session.active_plan_id)
        with suppress(Conflict):
            async for event in self._client.send(self.id, {"type": "cancel"}):
                self._due = max(self._due, event.get("seq", 0))

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[Run]:
        run = Run()
        self._runs.add(run)
        try:
            with run.scope:
                yield run
        except GonogoError:
            # A stopped prompt has not failed.
            if not run.cancelled:
                raise
        finally:
            self._runs.discard(run)
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _leaves(group: BaseExceptionGroup[GonogoError]) -> Iterator[GonogoError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


# Commands that a person writes instead of a prompt: `/approve`, `/reject why`.
#
# An answer in the protocol is only a choice, and is asked for once. Commands can say more, at any
# time. Only a prompt that begins with a command counts as one; no decision is read from other text.

_HINTS = {"reject": "editor_why", "revise": "editor_changes"}
_GOES = ("approve", "hold")
_DECISIONS = (*_GOES, "reject")
_STEERING = ("start", "pause", "resume")
NAMES = (*_DECISIONS, "revise", *_STEERING)


def command_updates(locale: str) -> schema.AvailableCommandsUpdate:
    """The update that lists the available commands."""
    commands = [
        schema.AvailableCommand(
            name=name,
            description=say(f"editor_do_{name}", locale),
            input=_hint(name, locale),
        )
        for name in NAMES
    ]
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update", available_commands=commands
    )


async def act_of(text: str, client: Client, dialogue: Dialogue) -> Act:
    """The act that a prompt asks for.

    Raises:
        RequestError: it is a command, and there is no question for it.
    """
    word, _, rest = text.removeprefix("/").partition(" ")
    if not text.startswith("/") or word not in NAMES:
        return partial(dialogue.say, text)
    if word in _STEERING:
        return await _steering(word, client, dialogue)
    approval = await _asked(word, client, dialogue)
    if word in _GOES and approval.approval_id not in dialogue.shown:
        # Another client may have replaced the question that the person has read.
        return partial(dialogue.show, said(f"\n\n{say('editor_not_shown', dialogue.locale)}\n\n"))
    if word == "revise":
        if not rest.strip():
            raise refused(say("editor_say_changes", dialogue.locale))
        return partial(dialogue.revise, approval.plan_id or "", rest.strip())
    why = rest.strip()
    if word == "approve" and not why and wants_words(approval.kind, approval.details):
        raise refused(say("editor_approve_answer", dialogue.locale))
    if word == "reject" and why and is_plan(approval):
        return partial(dialogue.reject, approval, why)
    return partial(dialogue.carry, decided(approval, word) | ({"feedback": why} if why else {}))


async def _asked(word: str, client: Client, dialogue: Dialogue) -> ApprovalView:
    """The question that a command answers: the plan's, or else the only open one.

    Raises:
        RequestError: there is none, or there are several.
    """
    pending = (await client.pending_approvals(dialogue.id)).pending_approvals
    plans = [approval for approval in pending if is_plan(approval)]
    found = plans if plans or word in {"hold", "revise"} else pending
    if not found:
        raise refused(say("editor_nothing_asked", dialogue.locale))
    if len(found) > 1:
        raise refused(say("editor_many_asked", dialogue.locale, count=len(found)))
    return found[0]


async def _steering(word: str, client: Client, dialogue: Dialogue) -> Act:
    plan_id = (await client.session(dialogue.id)).active_plan_id
    if plan_id is None:
        raise refused(say("editor_no_plan", dialogue.locale))
    if word == "pause":
        return partial(_pause, client, plan_id)
    act = client.start_plan if word == "start" else client.resume_plan
    return partial(dialogue.until_final, partial(act, plan_id))


async def _pause(client: Client, plan_id: str) -> None:
    await client.pause_plan(plan_id)


def _hint(name: str, locale: str) -> schema.AvailableCommandInput | None:
    if name not in _HINTS:
        return None
    hint = schema.UnstructuredCommandInput(hint=say(_HINTS[name], locale))
    return schema.AvailableCommandInput(hint)


# A prompt of the protocol as a text for an agent.

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def text_of(blocks: Sequence[Block], root: str) -> str:
    """Join all blocks into one text; files of the workspace get the paths that tools use.

    Raises:
        InvalidMessage: there is no text, or a block of a kind that the agent does not support.
    """
    text = "".join(_part(block, root) for block in blocks).strip()
    if not text:
        raise InvalidMessage("prompt: there is no text in it; write what you want")
    return text


def _part(block: Block, root: str) -> str:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return f"`{_name(block.uri, root)}`"
        case schema.EmbeddedResourceContentBlock():
            return _embedded(block.resource, root)
        case _:
            raise InvalidMessage(
                "prompt: a block of the type {type} is not taken; send text", type=block.type
            )


def _embedded(
    resource: schema.TextResourceContents | schema.BlobResourceContents, root: str
) -> str:
    name = _name(resource.uri, root)
    if isinstance(resource, schema.BlobResourceContents):
        return f"`{name}`"
    return f"\n\n{name}:\n{fenced(resource.text)}\n\n"


def _name(uri: str, root: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
