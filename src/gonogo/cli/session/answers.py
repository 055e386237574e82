"""A person's answers to questions, and the comments that they leave on plans."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gonogo.cli.daemon import connected
from gonogo.cli.plan_file import SentEdits, as_json, plan_editor
from gonogo.cli.support import Exit, Stop, own_locale, said_of
from gonogo.cli.terminal.input import TerminalPerson, Withdrawn
from gonogo.cli.terminal.output import facts, line, one_line, spoken
from gonogo.cli.terminal.render import (
    comment_lines,
    decision,
    pages,
    question_lines,
    question_texts,
)
from gonogo.client import Client
from gonogo.domain.base import loads
from gonogo.domain.errors import GonogoError, NotFound
from gonogo.domain.states import ApprovalKind, wants_words
from gonogo.domain.text_safety import visible_json
from gonogo.domain.views import ApprovalView
from gonogo.i18n import phrase, say, term
from gonogo.policy import lasting

# `gonogo plans comment`, `comments`, and the same two at the terminal's question about a plan.


async def comment_on(plan_id: str, content: str, subtask_id: str | None, json: bool) -> Exit:
    """Comment on a plan that waits for approval."""
    async with connected() as client:
        kept = await client.comment_plan(plan_id, content, subtask_id=subtask_id)
        if json:
            return facts(kept)
        found = await client.plan_comments(plan_id)
    line(f"{kept.comment_id}  {say('cli_comments_open', own_locale(), count=found.open)}")
    return Exit.DONE


async def list_comments(plan_id: str, json: bool) -> Exit:
    """Show the comments on a plan and their answers."""
    async with connected() as client:
        found = await client.plan_comments(plan_id)
    if json:
        return facts(found)
    comments = [c.model_dump(exclude_none=True) for c in found.comments]
    for text in comment_lines(comments, own_locale()):
        line(text)
    if not found.comments:
        line(say("cli_no_comments", own_locale()))
    return Exit.DONE


_LONGEST_LIST = 200
"""Most characters for the names of subtasks in a question."""


class PlanTalk:
    """A person's comments on a plan at the terminal, and sending it back to its planner."""

    def __init__(self, client: Client, person: TerminalPerson, locale: str) -> None:
        self._client, self._person, self._locale = client, person, locale

    async def comment(self, approval: ApprovalView) -> None:
        """Ask for a comment and save it; tell the person if that fails."""
        content = await self._person.line(say("cli_comment_text", self._locale))
        names = [str(each["id"]) for each in approval.details.get("subtasks", ())]
        listed = one_line(", ".join(names), _LONGEST_LIST)
        asked = say("cli_comment_where", self._locale, subtasks=listed)
        is_kept = not content
        while not is_kept:
            where = await self._person.line(asked)
            if where is None:
                return
            if where and names and where not in names:
                self._person.tell(say("cli_comment_nowhere", self._locale, subtask=one_line(where)))
            else:
                is_kept = await self._keep(approval, content or "", where)

    async def _keep(self, approval: ApprovalView, content: str, where: str) -> bool:
        """Save a comment. Returns False if there is no such subtask, so another can be named."""
        plan_id = approval.plan_id or ""
        try:
            await self._client.comment_plan(
                plan_id, content, subtask_id=where or None, revision=approval.revision
            )
            found = await self._client.plan_comments(plan_id)
        except GonogoError as error:
            self._person.tell(spoken(said_of(error)))
            return not (where and isinstance(error, NotFound))
        self._person.tell(say("cli_comment_kept", self._locale, count=found.open))
        return True

    async def plan_again(self, approval: ApprovalView, why: str) -> bool:
        """Send the plan back with a reason. Returns False if that fails, and tells why."""
        try:
            await self._client.comment_plan(approval.plan_id or "", why, revision=approval.revision)
        except GonogoError as error:
            self._person.tell(spoken(str(error)))
            return False
        return await self.send_back(approval)

    async def send_back(self, approval: ApprovalView) -> bool:
        """Send the plan back with its comments. Returns False if that fails, and tells why."""
        try:
            await self._client.revise_plan(approval.plan_id or "")
        except GonogoError as error:
            self._person.tell(spoken(said_of(error)))
            return False
        return True


# The answers to open questions: typed by the person, or given beforehand with `--yes`.
#
# An answer names the digest of the question as it was shown. A question that nobody answers stays
# open and can be decided from any client.

_NOBODY = "Nobody is there to answer (--unattended)"
_PLAN = ("approve", "edit", "hold", "reject", "comment", "send_back")
_QUESTION = ("answer", "reject")
"""Answers to an agent's question in words."""
_EDITED = (None, "budget")
"""Interventions that can be answered with an edit: those about a call or a budget."""
_REJECTED = ("plan_again", "stop", "back")
"""What may follow when a plan is rejected with a reason."""
_MORE = "more"
"""Shows the next page of a question that is long."""
_LONGER = {"these_words": "for_plan", "session": "for_session"}
"""Answers that allow a call from now on, and their words in the protocol."""
_GONE = frozenset({"conflict", "already_decided", "expired", "not_found"})
"""Refusals after which the question no longer exists."""
FOLLOWS = "follows"
"""Instead of a message's type: there is nothing to send, but more events follow."""


class Wish(Struct, frozen=True, kw_only=True):
    """The options of a command: what to answer, ask and show."""

    yes: bool = False
    """Approve the plan."""
    all: bool = False
    """Answer yes to every other question too."""
    plan_only: bool = False
    agent: str | None = None
    """The agent that answers, so that the orchestrator need not choose."""
    unattended: bool = False
    foreground: bool = False
    """Do all the work in this process."""
    json: bool = False
    limits: Mapping[str, float] | None = None
    """The limits of the run by `cost` and `seconds`."""
    keeps: bool = True
    """Ctrl-C at a terminal pauses and asks; unfinished work is kept for later."""
    prefix: str = ""
    """A prefix for the commands that the person is told, so that they use this state folder."""


class Answerer:
    """Asks the person the open questions, and turns the answers into messages."""

    def __init__(
        self, client: Client, session_id: str, person: TerminalPerson, wish: Wish, locale: str
    ) -> None:
        self._client, self._session_id = client, session_id
        self.person, self.wish, self.locale = person, wish, locale
        self.left: list[str] = []
        """The ids of approvals that nobody has answered."""
        self._given: set[str] = set()
        self._is_gone = False
        self._asked_now = ""
        self._sent_back: dict[str, str] = {}
        """The id of each plan whose planner answers comments, with its question."""
        self._talk = PlanTalk(client, person, locale)
        self._drafts = SentEdits(person, locale)

    def know(self, approval_id: str) -> None:
        """Do not ask about an approval whose answer is already on the way."""
        self._given.add(approval_id)

    def waits(self, approval_id: str) -> None:
        """Record that an answered question also waits for other people."""
        if approval_id not in self.left:
            self.left.append(approval_id)

    async def is_sent_back(self, plan_id: str) -> None:
        """Do not ask about a plan that was sent back until its planner has finished."""
        pending = await self._client.pending_approvals(self._session_id)
        for approval in pending.pending_approvals:
            if approval.kind == ApprovalKind.PLAN and approval.plan_id == plan_id:
                self.know(approval.approval_id)
                self._sent_back[plan_id] = approval.approval_id

    def comes_back(self, plan_id: str) -> None:
        """Ask about a plan again whose planner gave up: its question is still open."""
        self._given.discard(self._sent_back.pop(plan_id, ""))

    async def to_what_waits(self) -> list[dict[str, Any]]:
        """Ask all open questions that were not asked yet, and return the messages to send."""
        pending = await self._client.pending_approvals(self._session_id)
        self._drafts.settle({approval.approval_id for approval in pending.pending_approvals})
        messages: list[dict[str, Any]] = []
        for approval in pending.pending_approvals:
            if approval.approval_id in self._given or approval.approval_id in self.left:
                continue
            try:
                message = await self._answer(approval)
            except Withdrawn:
                if not self._is_gone:
                    return messages
                message = {"type": FOLLOWS}
            if message:
                self._given.add(approval.approval_id)
                messages.append(message)
            else:
                self.left.append(approval.approval_id)
        return messages

    def overhear(self, event: Mapping[str, Any]) -> None:
        """Withdraw the question on the screen if it was answered elsewhere."""
        facts: Mapping[str, Any] = event.get("metadata") or {}
        if event["type"] != "approval_resolved" or facts["approval_id"] != self._asked_now:
            return
        self._is_gone = True
        self.person.withdraw()
        who = one_line(facts.get("decided_by") or "gonogo")
        status = term("question status", facts["status"], self.locale)
        self.person.tell(say("cli_answered", self.locale, who=who, status=status))

    async def to_question(self, question: str) -> dict[str, Any] | None:
        """Ask the person an agent's question in words."""
        if not self.person.is_there:
            return None
        said = await self.person.line(f"{spoken(question)}\n>" if self.wish.json else ">")
        return {"type": "user_message", "content": said} if said else None

    async def refused(self, message: dict[str, Any], code: str) -> None:
        """After a refused decision, ask again, unless the question is gone or nobody was asked."""
        self._drafts.refused(message.get("plan_id", ""))
        if code in _GONE or not message["type"].endswith("_decision"):
            return
        pending = await self._client.pending_approvals(self._session_id)
        for approval in pending.pending_approvals:
            if _answers(message, approval):
                self._given.discard(approval.approval_id)
                if not self.person.is_there or self._beforehand(approval) is not None:
                    self.left.append(approval.approval_id)

    async def _answer(self, approval: ApprovalView) -> dict[str, Any] | None:
        if beforehand := self._beforehand(approval):
            return beforehand
        is_plan = approval.kind == ApprovalKind.PLAN
        if (is_plan and (self.wish.plan_only or self.wish.unattended)) or not self.person.is_there:
            return None
        return await self._asked(approval)

    def _beforehand(self, approval: ApprovalView) -> dict[str, Any] | None:
        is_plan = approval.kind == ApprovalKind.PLAN
        if is_plan and self.wish.yes and not self.wish.plan_only:
            return decision(approval, "approve")
        if is_plan:
            return None
        if self.wish.unattended:
            return decision(approval, "reject", phrase(_NOBODY, self.locale))
        # Somebody who set a limit has not agreed to a higher one.
        limited = self.wish.limits and approval.details.get("about") == "budget"
        return decision(approval, "approve") if self.wish.all and not limited else None

    async def _asked(self, approval: ApprovalView) -> dict[str, Any] | None:
        self._asked_now, self._is_gone = approval.approval_id, False
        try:
            return await self._put(approval)
        finally:
            self._asked_now = ""

    async def _put(self, approval: ApprovalView) -> dict[str, Any] | None:
        is_plan = approval.kind == ApprovalKind.PLAN
        said = wants_words(approval.kind, approval.details)
        asked = "plan" if is_plan else "agent" if said else "tool"
        question = say(f"cli_{asked}_question", self.locale)
        # A plan was shown when it arrived.
        left = [] if is_plan else pages(question_lines(approval, self.locale))
        if left:
            self._show(approval, left.pop(0), first=True)
        while True:
            word = await self.person.choose(question, self._options(approval, len(left)))
            if word is None:
                return None
            if word == _MORE:
                self._show(approval, left.pop(0), first=False)
            elif message := await self._meant(approval, word):
                return message

    def _options(self, approval: ApprovalView, pages_left: int) -> dict[str, str]:
        """The possible answers; nothing can be approved before all of it was shown."""
        words = (_MORE, "reject") if pages_left else _words_of(approval)
        return {word: say(f"cli_{word}", self.locale, count=pages_left) for word in words}

    def _show(self, approval: ApprovalView, page: list[str], *, first: bool) -> None:
        if self.person.has_keys:
            self.person.show(*question_texts(approval, page, first=first))
        else:
            self.person.tell("\n" * first + "\n".join(page))

    async def _meant(self, approval: ApprovalView, word: str) -> dict[str, Any] | None:
        """The message for the person's answer; None if they must be asked again."""
        match word:
            case "reject":
                return await self._rejected(approval)
            case "edit":
                return await self._edited(approval)
            case "answer":
                said = await self.person.line(">")
                return decision(approval, "approve", said) if said else None
            case "comment":
                await self._talk.comment(approval)
                return None
            case "send_back":
                return self._follows(approval) if await self._talk.send_back(approval) else None
            case "other_model":
                return await self._other_model(approval)
            case "these_words" | "session":
                return decision(approval, "approve") | {_LONGER[word]: True}
            case _:
                return decision(approval, word)

    async def _rejected(self, approval: ApprovalView) -> dict[str, Any] | None:
        """Ask for a reason; for a plan also whether to plan again with it, or to stop."""
        why = await self.person.line(say("cli_feedback", self.locale))
        if not why or approval.kind != ApprovalKind.PLAN:
            return decision(approval, "reject", why)
        options = {word: say(f"cli_reject_{word}", self.locale) for word in _REJECTED}
        word = await self.person.choose(say("cli_reject_question", self.locale), options)
        if word == "stop":
            return decision(approval, "reject", why)
        if word != "plan_again" or not await self._talk.plan_again(approval, why):
            return None
        return self._follows(approval)

    def _follows(self, approval: ApprovalView) -> dict[str, Any]:
        self._sent_back[approval.plan_id or ""] = approval.approval_id
        return {"type": FOLLOWS}

    async def _other_model(self, approval: ApprovalView) -> dict[str, Any] | None:
        """Let the person choose one of the models in a question by its number."""
        names = {str(n): str(name) for n, name in enumerate(approval.details["models"], start=1)}
        shown = {number: one_line(name) for number, name in names.items()}
        number = await self.person.choose(say("cli_which_model", self.locale), shown)
        if number is None:
            return None
        return decision(approval, "edit", None, {"result": {"model": names[number]}})

    async def _edited(self, approval: ApprovalView) -> dict[str, Any] | None:
        if approval.kind == ApprovalKind.PLAN:
            return await self._edited_plan(approval)
        try:
            arguments = approval.arguments or {}
            is_call = approval.kind != ApprovalKind.INTERVENTION
            before = visible_json(arguments if is_call else {"result": ""}, indent=2)
            after = await self.person.edit(before)
            if after.strip() == before:
                return None
            return decision(approval, "edit", None, loads(after))
        except (GonogoError, Stop) as error:
            self.person.tell(say("cli_edit_failed", self.locale, detail=said_of(error)))
            return None

    async def _edited_plan(self, approval: ApprovalView) -> dict[str, Any] | None:
        try:
            draft = await plan_editor(self._client, self.person, self.locale).edit(approval)
        except (GonogoError, Stop) as error:
            self.person.tell(spoken(said_of(error)))
            return None
        if draft is None:
            return None
        self._drafts.sent(approval.approval_id, draft)
        return decision(approval, "edit", None, as_json(draft.subtasks))


def _words_of(approval: ApprovalView) -> tuple[str, ...]:
    """The possible answers to a question of this kind."""
    details = approval.details
    match approval.kind:
        case ApprovalKind.PLAN:
            return _PLAN
        case ApprovalKind.TOOL:
            ways = set(lasting(approval))
            longer = (word for word, way in _LONGER.items() if way in ways)
            return ("approve", *longer, "edit", "reject")
        case kind if wants_words(kind, details):
            return _QUESTION
        case ApprovalKind.INTERVENTION if details.get("about") in _EDITED:
            return ("approve", "edit", "reject")
        case _:
            return ("approve", *(["other_model"] if details.get("models") else ()), "reject")


def _answers(message: dict[str, Any], approval: ApprovalView) -> bool:
    if message["type"] == "plan_decision":
        return approval.kind == ApprovalKind.PLAN and message["plan_id"] == approval.plan_id
    return message.get("approval_id") == approval.approval_id
