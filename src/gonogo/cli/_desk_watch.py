"""`gonogo approvals watch`: what people are asked, in all sessions, as it comes and is answered.

Each look is short: this command is nobody's guest in between, so no owner of the state folder stays
for it. Where nobody owns the folder, nothing moves, and it is looked at less often.
"""

import json as codec
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import anyio

from gonogo.cli._ask import Person
from gonogo.cli._escape import one_line
from gonogo.cli._exits import Exit
from gonogo.cli._folder import Folder
from gonogo.cli._interrupts import Interrupts
from gonogo.cli._owner import glance
from gonogo.cli._print import is_terminal, line, plain
from gonogo.cli._reviews import standing
from gonogo.cli._setup import environment, own_locale, program, read_settings
from gonogo.client import Client, Unreachable
from gonogo.domain.errors import NotFound
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalView
from gonogo.texts import say

_EVERY = 2.0
"""Seconds between looks while somebody owns the folder."""
_EVERY_ALONE = 15.0
_BELL = "\a"
_MARKS = {"approved": "✓", "edited": "✓", "rejected": "✗"}


class News(NamedTuple):
    """Something that happened to a question."""

    change: Literal["asked", "changed", "closed"]
    approval: ApprovalView


@dataclass(slots=True)
class Desk:
    """The questions that are known to be open."""

    mine: bool = False
    """Only those that wait for whoever asks."""
    session_id: str | None = None
    _known: dict[str, ApprovalView] = field(default_factory=dict[str, ApprovalView])

    async def look(self, client: Client) -> list[News]:
        """What has happened since the last look, oldest first."""
        found = await client.approvals(
            status=ApprovalStatus.PENDING, mine=self.mine, session_id=self.session_id
        )
        now = {approval.approval_id: approval for approval in found.approvals}
        gone = [each for each in self._known.values() if each.approval_id not in now]
        closed = [News("closed", await _as_it_ended(client, each)) for each in gone]
        news = [*closed, *self._opened(now)]
        self._known = now
        return news

    def _opened(self, now: dict[str, ApprovalView]) -> Iterator[News]:
        for key, approval in now.items():
            before = self._known.get(key)
            if before is None:
                yield News("asked", approval)
            elif (before.votes, before.escalated_at) != (approval.votes, approval.escalated_at):
                yield News("changed", approval)


async def watch_approvals(session_id: str | None, mine: bool, json: bool, bell: bool) -> Exit:
    """Tell of every question and answer until interrupted."""
    settings, locale = read_settings(), own_locale()
    folder = Folder(settings.home)
    folder.prepare()
    desk, write = Desk(mine, session_id), _writer(locale, json=json, bell=bell)
    async with Interrupts().heeded():
        first, alone = True, 0.0
        while True:
            look_alone = anyio.current_time() >= alone
            async with glance(folder, settings, alone=look_alone) as client:
                news = await _looked(desk, client)
            if look_alone:
                alone = anyio.current_time() + _EVERY_ALONE
            for each in news or ():
                write(each)
            if first and news is not None:
                first = False
                Person(environment()).tell(say("cli_watching", locale, count=len(news)))
            await anyio.sleep(_EVERY)
    return Exit.DONE


def news_line(news: News, locale: str) -> str:
    """What happened, in one line; text is as strangers wrote it."""
    approval = news.approval
    when = (approval.decided_at if news.change == "closed" else None) or approval.created_at
    head = f"{when:%H:%M:%SZ}"
    about = f"{approval.approval_id} {approval.kind} {approval.session_id}"
    if news.change == "closed":
        mark = _MARKS.get(approval.status, "-")
        return f"{head} {mark} {about} {_ending(approval, locale)}"
    subject = one_line(approval.subject)
    if news.change == "changed":
        return f"{head} ~ {about} {standing(approval, locale)}: {subject}"
    return f"{head} ? {about} {subject} · {program()} approvals show {approval.approval_id}"


def _ending(approval: ApprovalView, locale: str) -> str:
    said = standing(approval, locale)
    if approval.decided_by:
        by = one_line(", ".join(approval.approved_by or ()) or approval.decided_by)
        said = say("cli_watch_by", locale, status=said, by=by)
    return f"{said}: {one_line(approval.feedback)}" if approval.feedback else said


async def _looked(desk: Desk, client: Client | None) -> list[News] | None:
    """What is new; None where nobody could be asked."""
    if client is None:
        return None
    try:
        return await desk.look(client)
    except Unreachable:
        return None


async def _as_it_ended(client: Client, before: ApprovalView) -> ApprovalView:
    try:
        return await client.approval(before.approval_id)
    except NotFound:
        # Its session was deleted, or it is no longer shown to us.
        return before.model_copy(update={"status": ApprovalStatus.CANCELLED})


def _writer(locale: str, *, json: bool, bell: bool) -> Callable[[News], None]:
    rings = bell and is_terminal()

    def write(news: News) -> None:
        if json:
            line(_as_json(news))
            return
        line(news_line(news, locale))
        if rings and news.change == "asked":
            sys.stdout.write(_BELL)
            sys.stdout.flush()

    return write


def _as_json(news: News) -> str:
    return codec.dumps({"change": news.change, "approval": plain(news.approval)}, ensure_ascii=True)
