"""Decisions made by command: about one question, a group of them, a plan that is edited."""

import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from gonogo.cli.daemon import RuntimeLink, connected, linked
from gonogo.cli.folder import environment, read_settings
from gonogo.cli.plan_file import EditedPlan, as_json, plan_editor, text_of
from gonogo.cli.session.answers import Wish
from gonogo.cli.session.conversation import Conversation, Manner
from gonogo.cli.session.interrupts import status_line
from gonogo.cli.session.live import conversing
from gonogo.cli.support import Exit, Stop, own_locale, said_of
from gonogo.cli.terminal.input import TerminalPerson
from gonogo.cli.terminal.output import facts, line, outcome
from gonogo.cli.terminal.render import decision, standing
from gonogo.client import Client, error_of
from gonogo.domain.states import ApprovalKind, ApprovalStatus
from gonogo.domain.views import ApprovalView, DecisionAnswer
from gonogo.i18n import resolve, say, term

# `gonogo approvals decide` and `gonogo plans start`: one answer, and what it sets going.


async def decide_one(
    approval_id: str,
    word: str,
    feedback: str | None,
    edited: object,
    *,
    longer: str | None = None,
    json: bool,
) -> Exit:
    """Answer a question.

    The process that owns the state folder carries on from there. Where this command is the owner,
    it stays until what the answer set going is over or waits again.

    Args:
        longer: `for_session` or `for_plan`, where the call is allowed from now on.
    """
    async with linked(read_settings()) as link:
        approval = await link.client.approval(approval_id)
        message = decision(approval, word, feedback, edited)
        if longer is not None and approval.kind != "tool":
            option = f"--{longer.replace('_', '-')}"
            raise Stop("{option} is for tool calls only; leave it out", Exit.USAGE, option=option)
        if longer is not None:
            message[longer] = True
        # An answer to what is decided sets nothing going.
        if link.runtime is not None and approval.status == ApprovalStatus.PENDING:
            return await see_through(link, approval, message, Wish(json=json))
        await tell(link, approval.session_id, message)
        approval = await link.client.approval(approval_id)
    return _stands(approval, json=json)


def _stands(approval: ApprovalView, *, json: bool) -> Exit:
    said = f"{approval.approval_id} {standing(approval, own_locale())}"
    return outcome(approval, said, json=json)


async def decide_group(same_as: str, word: str, feedback: str | None, *, json: bool) -> Exit:
    """Give one answer to all questions that are identical and open now.

    Args:
        same_as: What they have in common, or the id of one of them.
    """
    async with linked(read_settings()) as link:
        group = same_as if ":" in same_as else (await link.client.approval(same_as)).group
        if group is None:
            raise Stop("{id} has no identical questions; answer it without --group", id=same_as)
        found = (await link.client.approvals(group=group, status="pending")).approvals
        alone = not any(each.review and each.review.needed > 1 for each in found)
        answers: list[DecisionAnswer] = []

        async def decide() -> None:
            answers.extend(await link.client.decide_group(group, word, feedback=feedback))

        if link.runtime is not None and found and alone:
            async with _conversing(link, found[0].session_id, Wish(json=json)) as talk:
                for each in found:
                    talk.know(each.approval_id)
                ended = await talk.watch(decide)
        else:
            await decide()
            ended = Exit.DONE
    return _told(answers, ended, json=json)


def _told(answers: list[DecisionAnswer], ended: Exit, *, json: bool) -> Exit:
    if json:
        facts({"answers": answers})
    else:
        for answer in answers:
            said = answer.detail
            if answer.ok and answer.outcome:
                said = term("question status", answer.outcome, own_locale())
            line(f"{answer.id} {said}")
    return ended if all(answer.ok for answer in answers) else Exit.FAILED


async def steer(verb: str, plan_id: str, *, json: bool, **given: str | None) -> Exit:
    """Start, pause, resume, cancel or replan a plan, send it back, or retry or skip a subtask.

    Where this command is the owner, it stays until what it started is over or waits.

    Args:
        given: Why a plan is cancelled or replanned, or which subtask it is.
    """
    async with linked(read_settings()) as link:
        whole = "subtask" if "subtask_id" in given else "plan"
        name = verb if verb == "replan" else f"{verb}_{whole}"
        act = partial(getattr(link.client, name), plan_id, **given)
        if link.runtime is not None and verb not in {"pause", "cancel"}:
            plan = await link.client.plan(plan_id)
            async with _conversing(link, plan.session_id, Wish(json=json)) as talk:
                if verb == "revise":
                    await talk.is_sent_back(plan_id)
                return await talk.watch(act)
        plan = await act()
    return outcome(plan, status_line(plan), json=json)


async def see_through(
    link: RuntimeLink, approval: ApprovalView, message: dict[str, Any], wish: Wish
) -> Exit:
    """Give an answer as the owner, and stay until what it set going is over or waits again."""
    async with _conversing(link, approval.session_id, wish) as talk:
        talk.know(approval.approval_id)
        return await talk.carry(message)


@asynccontextmanager
async def _conversing(
    link: RuntimeLink, session_id: str, wish: Wish
) -> AsyncGenerator[Conversation]:
    session = await link.client.session(session_id)
    locale = resolve(session.locale, own_locale())
    with conversing(link, session_id, wish, locale, Manner(after=session.last_seq)) as talk:
        yield talk


async def tell(link: RuntimeLink, session_id: str, message: dict[str, Any]) -> None:
    """Give an answer to the owner, who carries on from there.

    Raises:
        Stop: it was refused.
    """
    async with aclosing(link.client.send(session_id, message)) as events:
        async for event in events:
            if event["type"] == "error" and "seq" not in event:
                refused = error_of(event)
                raise Stop(said_of(refused)) from refused
            # Taken in: the owner does not need us to watch.
            return


_TAKEN = frozenset({ApprovalStatus.EDITED, ApprovalStatus.SUPERSEDED})


async def _as_yaml(plan_id: str) -> str:
    from gonogo.cli.plan_yaml import write

    async with connected() as client:
        plan = await client.plan(plan_id)
        revision = await client.plan_revision(plan_id, plan.revision)
    return write(revision.goal, revision.subtasks)


async def export_plan(plan_id: str, output: Path | None, *, json: bool) -> Exit:
    """Write a plan into a new file that `run --plan` reads, or to standard output."""
    text = await _as_yaml(plan_id)
    if output is None:
        return outcome({"plan_id": plan_id, "text": text}, text.rstrip("\n"), json=json)
    try:
        async with await anyio.open_file(output, "x", encoding="utf-8", newline="") as file:
            await file.write(text)
    except FileExistsError:
        said = say("cli_plan_file_there", own_locale(), file=output)
        raise Stop(said, Exit.USAGE) from None
    named = shlex.quote(str(output))
    said = say("cli_plan_exported", own_locale(), plan_id=plan_id, file=output, named=named)
    return outcome({"plan_id": plan_id, "file": str(output)}, said, json=json)


async def edit_plan(plan_id: str, source: Path | None, *, sure: bool, json: bool) -> Exit:
    """Let the person edit a plan that waits, and approve it as edited."""
    given = None if source is None else text_of(source, own_locale())
    person = TerminalPerson(environment())
    if not sure and not person.is_there:
        raise Stop(say("cli_plan_no_terminal", own_locale()), Exit.USAGE)
    async with linked(read_settings()) as link:
        approval = await _question(link.client, plan_id)
        session = await link.client.session(approval.session_id)
        locale = resolve(session.locale, own_locale())
        editor = plan_editor(link.client, person, locale)
        draft = await editor.edit(approval, given=given, sure=sure)
        if draft is None:
            return outcome(approval, json=json)
        return await _send(link, approval, draft, json=json)


async def _send(
    link: RuntimeLink, approval: ApprovalView, draft: EditedPlan, *, json: bool
) -> Exit:
    message = decision(approval, "edit", None, as_json(draft.subtasks))
    ended = Exit.DONE
    if link.runtime is not None:
        ended = await see_through(link, approval, message, Wish(json=json))
    else:
        await tell(link, approval.session_id, message)
    decided = await link.client.approval(approval.approval_id)
    if decided.status in _TAKEN:
        draft.file.unlink(missing_ok=True)
    return _stands(decided, json=json) if link.runtime is None else ended


async def _question(client: Client, plan_id: str) -> ApprovalView:
    plan = await client.plan(plan_id)
    pending = await client.pending_approvals(plan.session_id)
    for approval in pending.pending_approvals:
        if approval.kind == ApprovalKind.PLAN and approval.plan_id == plan_id:
            return approval
    said = say(
        "cli_plan_not_waiting",
        own_locale(),
        plan_id=plan_id,
        status=term("plan", plan.status, own_locale()),
    )
    raise Stop(said)
