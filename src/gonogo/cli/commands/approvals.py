"""`gonogo approvals`: what waits for a person, and the answer to it."""

from enum import StrEnum
from typing import Annotated

import typer

from gonogo.cli.support import (
    ApprovalId,
    Exit,
    Json,
    Session,
    Stop,
    approval_ids,
    command,
    group,
    own_locale,
    own_words,
)

app = group("Approvals: questions that wait for an answer.")


Mine = Annotated[bool, typer.Option("--mine", help="Only questions that you can answer.")]


class AnswerWord(StrEnum):
    """What a person may answer."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    HOLD = "hold"


@command(app, "list", "gonogo approvals list")
async def list_approvals(
    session: Session = None,
    status: Annotated[
        str, typer.Option("--status", help="A status, such as pending or approved; or all.")
    ] = ("pending"),
    mine: Mine = False,
    json: Json = False,
) -> Exit:
    """List open questions; identical ones share a line."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, shown_as, table, word
    from gonogo.cli.terminal.render import once_each, standing

    async with connected() as client:
        found = await client.approvals(
            session_id=session, status=None if status == "all" else status, mine=mine
        )
        if json:
            return facts(found)
        locale = own_locale()
        rows = [
            (
                a.approval_id, word("question", a.kind),
                shown_as(standing(a), standing(a, locale)),
                a.session_id, a.created_at, subject,
            )
            for a, subject in once_each(found.approvals, locale)
        ]  # fmt: skip
        return table(("approval", "kind", "status", "session", "asked", "subject"), rows)


@command(app, "watch", "gonogo approvals watch", "gonogo approvals watch --mine")
async def watch_approvals(
    session: Session = None,
    mine: Mine = False,
    bell: Annotated[bool, typer.Option("--bell", help="Ring the bell for each question.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON objects, one on each line.")
    ] = False,
) -> Exit:
    """Follow the questions of all sessions: a line for each question, answer and expiry.

    It changes nothing and runs until Ctrl-C.
    """
    from gonogo.cli.session.live import watch_approvals

    return await watch_approvals(session, mine, json, bell)


@command(app, "show", "gonogo approvals show appr_0192")
async def show_approval(approval_id: ApprovalId, json: Json = False) -> Exit:
    """Show one question in full."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line, lines
    from gonogo.cli.terminal.render import question_lines, review_lines
    from gonogo.i18n import term

    async with connected() as client:
        approval = await client.approval(approval_id)
        if json:
            return facts(approval)
        locale = own_locale()
        kind = term("question", approval.kind, locale)
        line(f"{approval.approval_id}  {kind}  {term('question status', approval.status, locale)}")
        lines(question_lines(approval, locale))
        return lines(review_lines(approval, locale))


@command(
    app,
    "decide",
    "gonogo approvals decide appr_0192 approve",
    "gonogo approvals decide appr_0192 approve --for-plan",
    'gonogo approvals decide appr_0192 reject --feedback "Too risky"',
    """gonogo approvals decide appr_0192 edit --arguments '{"command": "pytest -q"}'""",
    "gonogo approvals decide --group appr_0192 approve",
)
async def decide(
    approval_id: Annotated[
        str,
        typer.Argument(help="The approval's id; not with --group.", autocompletion=approval_ids),
    ],
    decision: Annotated[
        AnswerWord | None, typer.Argument(help="Your answer; hold is for plans.")
    ] = None,
    feedback: Annotated[str | None, typer.Option("--feedback", help="The reason.")] = None,
    arguments: Annotated[
        str | None,
        typer.Option("--arguments", help="With edit: the new arguments, or subtasks, as JSON."),
    ] = None,
    for_session: Annotated[
        bool,
        typer.Option(
            "--for-session",
            help="With approve: also allow exactly this for the rest of the session.",
        ),
    ] = False,
    for_plan: Annotated[
        bool,
        typer.Option(
            "--for-plan", help="With approve: also allow exactly this for the rest of the plan."
        ),
    ] = False,
    same_as: Annotated[
        str | None,
        typer.Option(
            "--group", help="Answer all identical questions: a group, or the id of one of them."
        ),
    ] = None,
    json: Json = False,
) -> Exit:
    """Answer a question, or all identical ones; the work that waited continues."""
    from gonogo.cli.session.decisions import decide_group, decide_one

    if same_as is not None:
        if decision is not None or approval_id not in {"approve", "reject"}:
            raise Stop("with --group, give one answer: approve or reject", Exit.USAGE)
        return await decide_group(same_as, approval_id, feedback, json=json)
    if decision is None:
        raise typer.BadParameter(own_words("give an answer: approve, edit, reject or hold"))
    if for_session and for_plan:
        raise typer.BadParameter(own_words("give either --for-session or --for-plan"))
    longer = "for_session" if for_session else "for_plan" if for_plan else None
    if longer and decision is not AnswerWord.APPROVE:
        option = f"--{longer.replace('_', '-')}"
        raise Stop("{option} works only with approve; leave it out", Exit.USAGE, option=option)
    word = decision.value
    edited = _given(word, arguments)
    return await decide_one(approval_id, word, feedback, edited, longer=longer, json=json)


@command(
    app, "link", "gonogo approvals link appr_0192", "gonogo approvals link appr_0192 --for ann"
)
async def link(
    approval_id: ApprovalId,
    name: Annotated[
        str | None,
        typer.Option("--for", help="The person who decides; only an admin can name somebody else."),
    ] = None,
    json: Json = False,
) -> Exit:
    """Create a one-time link: anyone who opens it can approve or reject as that person."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts
    from gonogo.i18n import say

    async with connected() as client:
        made = await client.make_link(approval_id, name)
        if json:
            return facts(made)
        typer.echo(made.url)
        until = f"{made.expires_at:%Y-%m-%d %H:%M}Z"
        typer.echo(say("cli_link_made", own_locale(), name=made.name, until=until), err=True)
        return Exit.DONE


@command(app, "unlink", "gonogo approvals unlink appr_0192")
async def unlink(approval_id: ApprovalId, json: Json = False) -> Exit:
    """Revoke the links of a question."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import outcome

    async with connected() as client:
        await client.revoke_links(approval_id)
    said = own_words("The links of {approval_id} no longer work.", approval_id=approval_id)
    return outcome({"approval_id": approval_id, "revoked": True}, said, json=json)


def _given(word: str, arguments: str | None) -> object:
    from gonogo.domain.base import loads

    if arguments is None:
        if word == "edit":
            raise Stop("edit needs the new arguments as JSON: --arguments JSON", Exit.USAGE)
        return None
    if word != "edit":
        raise Stop("--arguments works only with edit; leave it out", Exit.USAGE)
    return loads(arguments)
