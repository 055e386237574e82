"""Sessions: the verbs that open, edit and delete them, and the queries about them."""

import json
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from gonogo.domain.base import WrittenEvent
from gonogo.domain.errors import Conflict, Forbidden, InvalidMessage, ModelNotConfigured, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import validated
from gonogo.domain.records import MAIN, CallRow, Plan, Session, SessionPlace, SessionRule
from gonogo.domain.replanning import Limits, Used, limits_of_session
from gonogo.domain.states import ENDED, SessionState
from gonogo.domain.tool_calls import (
    MESSAGE,
    Reply,
    Steering,
    ToolRequest,
    UserText,
    server_of,
)
from gonogo.domain.views import (
    ContextPart,
    ContextView,
    History,
    MessageView,
    PendingApprovals,
    SessionList,
    SessionRuleView,
    SessionUsage,
    SessionView,
    Workspaces,
)
from gonogo.execution.agent import (
    EXPLORER,
    NOBODYS,
    Thread,
    fields_from,
    make_session_rule,
    parts_of,
    remove_session_rule,
)
from gonogo.execution.approvals import withdraw_all
from gonogo.execution.recovery import SESSION_TIMEOUT
from gonogo.i18n import resolve
from gonogo.llm import REPLAY
from gonogo.policy import RuleText
from gonogo.runtime.services import Parts
from gonogo.runtime.views import listed_session, model_usage_view, session_view, view_of
from gonogo.store import Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import pending_approvals, thread_calls
from gonogo.store.erasing import was_erased
from gonogo.store.jobs import set_timer
from gonogo.store.places import add_place
from gonogo.store.plans import plan_of
from gonogo.store.reports import used_by_session
from gonogo.store.sessions import (
    MessageRow,
    SessionFilter,
    active_rules,
    add_session,
    end_rules,
    history,
    history_in,
    list_sessions,
    open_turns,
    recent_workspaces,
    session_of,
    set_session,
    standings,
)

# A session's messages as clients see them.


def history_of(tx: Tx, session_id: str) -> Iterator[MessageView]:
    """Every message in order; explorers' replies are in the result of the call that asked them."""
    # The calls of a conversation are read once, not for each message.
    calls: dict[str, dict[str, CallRow]] = {}
    for row in history(tx, session_id):
        if row.agent == EXPLORER:
            continue
        if row.thread not in calls:
            found = thread_calls(tx, session_id, row.thread)
            calls[row.thread] = {call.id: call for call in found}
        yield from _views(row, calls[row.thread])


def said_by_people(tx: Tx, session_id: str) -> Iterator[MessageView]:
    """What people said, in order."""
    for row in history_in(tx, session_id, MAIN):
        if row.body["role"] == "user":
            yield from _views(row, {})


def _views(row: MessageRow, calls: dict[str, CallRow]) -> Iterator[MessageView]:
    message = MESSAGE.validate_python(row.body)
    place = _place_of(row)
    if isinstance(message, UserText | Steering):
        yield MessageView(role="user", content=message.content, **place)
    if not isinstance(message, Reply):
        return
    asked = [call.model_dump(mode="json", exclude_none=True) for call in message.calls]
    yield MessageView(role="assistant", content=message.text, tool_calls=asked or None, **place)
    yield from _results(message.calls, calls, place)


def _place_of(row: MessageRow) -> dict[str, Any]:
    parts = row.thread.split("#")[0].rsplit("/", 1)
    subtask_id = parts[1] if len(parts) == 2 else None
    return {"agent": row.agent, "subtask_id": subtask_id, "created_at": row.created_at}


def _results(
    asked: Iterable[ToolRequest], calls: dict[str, CallRow], place: dict[str, Any]
) -> Iterator[MessageView]:
    made = [calls[each.id] for each in asked if each.id in calls]
    for call in sorted(made, key=lambda call: call.position):
        if call.finished_at is not None:
            content = call.error if call.error is not None else _text(call.result)
            yield MessageView(
                role="tool", call_id=call.id, tool_name=call.tool, content=content, **place
            )


def _text(result: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(result, ensure_ascii=False)


_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_RECENT = 20
"""How many recent folders are offered for a new session."""
_TOOL_HOSTS = frozenset({"server", "client"})


class SessionOpening(Struct, frozen=True, kw_only=True):
    """The fields with which a session is opened."""

    session_id: str | None = None
    workspace: str | None = None
    title: str | None = None
    locale: str | None = None
    tool_host: str = "server"
    model: str | None = None
    unattended: bool = False
    limits: dict[str, float] | None = None
    anywhere: bool = False


class Sessions(Struct, frozen=True):
    """The verbs about sessions."""

    _parts: Parts
    _given: Path | None
    """The default folder of sessions, from the settings."""
    _opened: list[Path] = field(default_factory=list[Path])
    """The folders that are open for a while; the newest is last."""

    @contextmanager
    def opened_to(self, folder: Path | None) -> Generator[None]:
        """Let sessions work in a folder as if it were a root, for the duration of a block.

        It is also the default folder, if the settings have none.
        """
        if folder is None:
            yield
            return
        self._opened.append(folder)
        self._parts.gate.programs.know(folder)
        try:
            yield
        finally:
            self._opened.remove(folder)

    async def open(  # noqa: PLR0913 - each is a field of what opens one
        self,
        principal: Principal,
        *,
        session_id: str | None = None,
        workspace: str | None = None,
        title: str | None = None,
        locale: str | None = None,
        tool_host: str | None = None,
        model: str | None = None,
        unattended: bool = False,
        limits: dict[str, float] | None = None,
        anywhere: bool = False,
    ) -> SessionView:
        """Open a session.

        Args:
            anywhere: The caller is the user who runs this process on this machine, so sessions may
                work in all their own folders, as in the roots.
            model: The model that its agents use; by default the one that is configured here.
            unattended: Nobody can answer in it: calls that would ask are denied.
            limits: The most that it may use: `cost` (US dollars), `tokens`, `requests` (to
                models) and `seconds` (from now on).

        Raises:
            Conflict: the id is taken.
            Forbidden: the workspace is outside the roots, the role is not enough, or the model is a
                file that only the user of this machine may name.
            InvalidMessage: the id or the tool host is not valid.
        """
        principal.require(Role.OPERATOR)
        if model is not None and model.startswith(REPLAY) and not anywhere:
            raise Forbidden(
                "Only the user of this machine can use a recording as the model; choose "
                "another model"
            )
        opening = SessionOpening(
            session_id=session_id, workspace=workspace, title=title, locale=locale,
            tool_host=tool_host or "server", model=model, unattended=unattended,
            limits=limits or None, anywhere=anywhere,
        )  # fmt: skip
        session = await self._parts.store.write(self.create, principal, opening)
        return session_view(session)

    async def get(self, principal: Principal, session_id: str) -> SessionView:
        """A session.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        return session_view(await self._parts.store.read(visible, principal, session_id))

    async def page(
        self,
        principal: Principal,
        limit: int,
        offset: int = 0,
        text: str | None = None,
        *,
        state: SessionState | None = None,
        after: SessionPlace | None = None,
    ) -> SessionList:
        """A page of the sessions that the principal may see, newest first.

        Args:
            text: List only sessions with this in their title, folder or id.
            state: List only sessions in this state.
            after: The place in the list that the page follows.
        """
        wanted = SessionFilter(owner=whose(principal), text=text, state=state, after=after)
        return await self._parts.store.read(_page, wanted, limit, offset)

    async def usage(self, principal: Principal, session_id: str) -> SessionUsage:
        """What the model requests of a session have used, including those of its plans.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        used, opened, own = await self._parts.store.read(_used, principal, session_id)
        limits = limits_of_session(self._parts.settings.budget, opened, own)
        usage = model_usage_view(used)
        return SessionUsage(session_id=session_id, usage=usage, limits=limits or None)

    async def workspaces(self, principal: Principal) -> Workspaces:
        """The folders in which the principal can open a session."""
        recent = await self._parts.store.read(recent_workspaces, whose(principal), _RECENT)
        default = self._default
        return Workspaces(
            default=str(default) if default else None, recent=recent,
            roots=[str(root) for root in self._roots],
        )  # fmt: skip

    async def edit(
        self,
        principal: Principal,
        session_id: str,
        title: str | None = None,
        locale: str | None = "",
    ) -> SessionView:
        """Change a session's title or language.

        Args:
            locale: None: no language of its own, so it keeps the present one until somebody says
                something. Empty: no change.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        principal.require(Role.OPERATOR)
        await self._parts.store.write(self._edit, principal, session_id, title, locale)
        return await self.get(principal, session_id)

    async def delete(self, principal: Principal, session_id: str) -> None:
        """Delete a session: stop whatever it runs, and erase everything that was said in it.

        The audit log keeps that it existed, and who opened and deleted it; its id is not used
        again. If erasing takes long, it goes on after this returns.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        principal.require(Role.OPERATOR)
        workspace = await self._parts.store.write(self._delete, principal, session_id)
        if self._parts.dispatcher.serves:
            await self._parts.erasures.done(session_id)
        else:
            await self._parts.erasures.erase(workspace)

    async def history(
        self, principal: Principal, session_id: str, *, by_people: bool = False
    ) -> History:
        """Every message of a session in order, with the results of tools.

        Args:
            by_people: Only what people said; no event contains that.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        return await self._parts.store.read(_history, principal, session_id, by_people)

    async def context(self, principal: Principal, session_id: str) -> ContextView:
        """What the next request of a session's own conversation would contain.

        It is the request of the agent that answers now or, if none does, would answer next.

        Raises:
            NotFound: there is none of that id that the principal may see, or its agent is gone.
        """
        session, agent = await self._parts.store.read(_answering, principal, session_id)
        if agent not in self._parts.gate.profiles:
            raise NotFound("The agent {agent!r} no longer exists; choose another one", agent=agent)
        thread = Thread(**fields_from(session), name=MAIN, script=MAIN, agent=agent, owner=NOBODYS)
        loop = self._parts.turns.loop
        found = await loop.contexts.read(thread)
        frame = await loop.frame(thread, found)
        try:
            window = loop.contexts.window(thread, found)
        except ModelNotConfigured:
            window = None
        parts = [
            ContextPart(part=part.name, tokens=part.tokens, count=part.count)
            for part in parts_of(found, frame)
        ]
        return ContextView(
            session_id=session_id, agent=agent, window=window,
            tokens=found.tokens(frame), parts=parts,
        )  # fmt: skip

    async def log_page(
        self, principal: Principal, session_id: str, before: int | None, limit: int
    ) -> list[WrittenEvent]:
        """The last events of a session before a place in its log, oldest first.

        Args:
            before: A seq; None for the end of the log.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        return await self._parts.store.read(_log_page, principal, session_id, before, limit)

    async def pending(self, principal: Principal, session_id: str) -> PendingApprovals:
        """The open questions of a session.

        Raises:
            NotFound: there is none of that id that the principal may see.
        """
        views = await self._parts.store.read(_pending, principal, session_id)
        return PendingApprovals(session_id=session_id, pending_approvals=views, count=len(views))

    # Transactions -----------------------------------------------------------------------------

    def create(self, tx: Tx, principal: Principal, opening: SessionOpening) -> Session:
        """Insert a session, in its caller's transaction."""
        if opening.session_id:
            _check_free(tx, opening.session_id)
        wanted = opening.session_id or new_id("s")
        if opening.tool_host not in _TOOL_HOSTS:
            raise InvalidMessage("tool_host: it must be server or client")
        session = Session(
            id=wanted, principal_id=principal.id, title=opening.title,
            workspace=str(self._workspace(opening)), locale=opening.locale,
            spoken=resolve(opening.locale, self._parts.settings.locale),
            tool_host=opening.tool_host, agent="orchestrator", active_plan_id=None, last_seq=0,
            deleted=False, created_at=tx.now, updated_at=tx.now, model=opening.model,
            unattended=opening.unattended, limits=opening.limits,
        )  # fmt: skip
        add_session(tx, session)
        if seconds := (opening.limits or {}).get("seconds"):
            set_timer(tx, SESSION_TIMEOUT, wanted, tx.now + timedelta(seconds=seconds))
        if self._parts.store.shared_as is not None:
            add_place(tx, session.workspace, self._parts.store.shared_as)
        log.note(
            tx, log.SYSTEM, actor=principal.id, action="session.opened", subject=wanted,
            workspace=session.workspace,
        )  # fmt: skip
        return session

    def _workspace(self, opening: SessionOpening) -> Path:
        named = opening.workspace or self._default
        if named is None:
            raise InvalidMessage("workspace: name the folder to work in")
        try:
            path = Path(named).expanduser().resolve()
        except (OSError, RuntimeError) as error:
            raise InvalidMessage("workspace: {error}", error=error) from None
        roots = [root.resolve() for root in self._roots]
        is_inside = any(path.is_relative_to(root) for root in roots)
        if not is_inside and not (opening.anywhere and self._is_own(path)):
            raise _not_allowed(path, roots, own=opening.anywhere)
        # os.path, unlike Path, treats a name that is too long as one that does not exist.
        if not os.path.isdir(path):
            raise InvalidMessage("workspace: {path} is not a folder; name a folder", path=path)
        if not is_inside:
            self._parts.gate.programs.know(path)
        return path

    @property
    def _roots(self) -> list[Path]:
        return [*self._parts.gate.programs.roots, *self._opened]

    @property
    def _default(self) -> Path | None:
        return self._given or (self._opened[-1] if self._opened else None)

    def _is_own(self, path: Path) -> bool:
        """Whether a folder belongs to the user of this process; gonogo's own and `/` do not."""
        settings = self._parts.settings
        ours = (settings.home.resolve(), settings.config.resolve())
        if path == Path("/") or any(path.is_relative_to(folder) for folder in ours):
            return False
        try:
            return path.stat().st_uid == os.geteuid()
        except OSError:
            # It does not exist, and the caller checks that next.
            return True

    def _edit(
        self,
        tx: Tx,
        principal: Principal,
        session_id: str,
        title: str | None,
        locale: str | None,
    ) -> None:
        session = visible(tx, principal, session_id)
        changed: dict[str, Any] = {"updated_at": tx.now}
        if title is not None:
            changed["title"] = title
        if locale != "":
            wanted = self._parts.settings.locale if locale is None else locale
            changed |= {"locale": locale, "spoken": resolve(wanted, session.spoken)}
        set_session(tx, session_id, **changed)

    def _delete(self, tx: Tx, principal: Principal, session_id: str) -> str:
        session = visible(tx, principal, session_id)
        plan = plan_of(tx, session.active_plan_id) if session.active_plan_id else None
        withdraw_all(tx, self._parts.desk, session_id)
        if plan is not None and plan.status not in ENDED:
            self._parts.engine.controls.cancel(tx, plan.id, principal.id)
        for turn in open_turns(tx, session_id):
            self._parts.turns.cancel(tx, turn, principal.id)
        self._parts.hands.watches.abandon(tx, session_id)
        end_rules(tx, session_id)
        self._parts.erasures.begin(tx, session, principal.id)
        return session.workspace

    # Rules of the session -----------------------------------------------------------------------

    async def add_rule(
        self, principal: Principal, session_id: str, rule: dict[str, Any]
    ) -> SessionRuleView:
        """Make a rule that holds in a session from now on.

        Raises:
            InvalidMessage: the rule would not be valid in a file, or there is no such tool.
            NotFound: there is no such session that the principal may see.
        """
        principal.require(Role.OPERATOR)
        text = validated(RuleText, rule)
        return _view(await self._parts.store.write(self._add_rule, principal, session_id, text))

    async def rules(self, principal: Principal, session_id: str) -> list[SessionRuleView]:
        """The rules that hold in a session, in the order in which they were made.

        Raises:
            NotFound: there is no such session that the principal may see.
        """
        rows = await self._parts.store.read(_rules, principal, session_id)
        return [_view(row) for row in rows]

    async def remove_rule(self, principal: Principal, session_id: str, rule_id: str) -> None:
        """End a rule, by its id or its name; gonogo asks again about what it allowed.

        Raises:
            NotFound: there is no such session that the principal may see, or it has no such rule.
        """
        principal.require(Role.OPERATOR)
        await self._parts.store.write(self._remove_rule, principal, session_id, rule_id)

    def _add_rule(
        self, tx: Tx, principal: Principal, session_id: str, text: RuleText
    ) -> SessionRule:
        visible(tx, principal, session_id)
        self._require_tool(text.tool)
        return make_session_rule(tx, session_id, text, principal)

    def _require_tool(self, tool: str | None) -> None:
        # A rule that denies a wrong name would deny nothing. Servers may bring their tools later.
        tools = self._parts.tools
        if tool not in {None, "*", *tools} and server_of(str(tool)) is None:
            raise InvalidMessage(
                "tool: there is no tool {tool!r}; name one of these: {tools}",
                tool=tool, tools=", ".join(sorted(tools)),
            )  # fmt: skip

    def _remove_rule(self, tx: Tx, principal: Principal, session_id: str, rule_id: str) -> None:
        visible(tx, principal, session_id)
        for row in active_rules(tx, session_id):
            if rule_id in {row.id, f"session:{row.position}"}:
                remove_session_rule(tx, row, principal)
                return
        raise NotFound(
            "No rule found with id={rule_id}", see="gonogo policy list SESSION", rule_id=rule_id
        )


def visible(tx: Tx, principal: Principal, session_id: str) -> Session:
    """The session of that id, if the principal may see it.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    session = seen(tx, principal, session_id)
    if session is None:
        raise NotFound(
            "No session found with id={session_id}",
            see="gonogo sessions list",
            session_id=session_id,
        )
    return session


def seen(tx: Tx, principal: Principal, session_id: str) -> Session | None:
    """The session of that id, or None if there is none that the principal may see."""
    session = session_of(tx, session_id)
    if session is None or session.deleted or whose(principal) not in (None, session.principal_id):
        return None
    return session


def seen_plan(tx: Tx, principal: Principal, plan_id: str, session_id: str | None = None) -> Plan:
    """The plan of that id, if the principal may see it.

    Args:
        session_id: The session to which it has to belong, if that matters.

    Raises:
        NotFound: otherwise, whatever the reason.
    """
    plan = plan_of(tx, plan_id)
    session = seen(tx, principal, plan.session_id) if plan else None
    if plan is None or session is None or session_id not in (None, session.id):
        raise NotFound("No plan found with id={plan_id}", see="gonogo plans list", plan_id=plan_id)
    return plan


def whose(principal: Principal) -> str | None:
    """The id of the owner whose sessions the principal sees; None: everybody's."""
    return None if principal.role >= Role.ADMIN else principal.id


def _check_free(tx: Tx, session_id: str) -> None:
    """Check that a new session may have the id that a client names.

    Raises:
        Conflict: there is or was a session with that id.
        InvalidMessage: the id is not valid.
    """
    if not _ID.fullmatch(session_id):
        raise InvalidMessage("session_id: 1 to 128 letters, digits, or any of _ . : -")
    known = session_of(tx, session_id) is not None or was_erased(tx, session_id)
    if known or session_id == log.SYSTEM:
        raise Conflict("The session id {wanted} is taken; choose another one", wanted=session_id)


def _page(tx: Tx, wanted: SessionFilter, limit: int, offset: int) -> SessionList:
    # One row more than is wanted shows whether there is another page.
    found, total = list_sessions(tx, wanted, limit + 1, offset)
    shown, more = found[:limit], found[limit:]
    stand = standings(tx, [session.id for session in shown])
    last = SessionPlace(shown[-1].created_at, shown[-1].id) if more else None
    return SessionList(
        sessions=[listed_session(session, stand[session.id]) for session in shown],
        total=total, next=last.text() if last else None,
    )  # fmt: skip


def _used(
    tx: Tx, principal: Principal, session_id: str
) -> tuple[Used, Limits | None, dict[str, Any] | None]:
    """What a session has used, the limits with which it was opened, and its plan's budget."""
    session = visible(tx, principal, session_id)
    plan = plan_of(tx, session.active_plan_id) if session.active_plan_id else None
    return used_by_session(tx, session.id), session.limits, plan.budget if plan else None


def _pending(tx: Tx, principal: Principal, session_id: str) -> list[Any]:
    visible(tx, principal, session_id)
    found = pending_approvals(tx, session_id)
    return [view_of(tx, approval) for approval in found]


def _answering(tx: Tx, principal: Principal, session_id: str) -> tuple[Session, str]:
    """A session, and the agent that makes its next request."""
    session = visible(tx, principal, session_id)
    turn = next(iter(open_turns(tx, session_id)), None)
    return session, (turn and turn.agent) or session.agent


def _history(tx: Tx, principal: Principal, session_id: str, by_people: bool) -> History:
    visible(tx, principal, session_id)
    read = said_by_people if by_people else history_of
    return History(session_id=session_id, messages=list(read(tx, session_id)))


def _log_page(
    tx: Tx, principal: Principal, session_id: str, before: int | None, limit: int
) -> list[WrittenEvent]:
    last = visible(tx, principal, session_id).last_seq
    end = last if before is None else min(before - 1, last)
    after = max(0, end - limit)
    return log.events_after(tx, session_id, after, end - after)


def _rules(tx: Tx, principal: Principal, session_id: str) -> list[SessionRule]:
    visible(tx, principal, session_id)
    return active_rules(tx, session_id)


def _view(row: SessionRule) -> SessionRuleView:
    return SessionRuleView.of(row, rule_id=row.id, name=f"session:{row.position}")


def _not_allowed(path: Path, roots: Sequence[Path], *, own: bool) -> Forbidden:
    if own and not roots:
        return Forbidden(
            "The workspace {path} is not allowed: it must be a folder of yours, and neither / nor "
            "a folder of gonogo; choose another folder",
            path=path,
        )
    return Forbidden(
        "The workspace {path} is outside the allowed roots: {shown}; choose a folder inside them",
        path=path,
        shown=", ".join(map(str, roots)) or "none",
    )
