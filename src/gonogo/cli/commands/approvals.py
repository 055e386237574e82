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
    carry_out,
    example,
    group,
    own_locale,
    own_words,
)

app = group("Approvals: questions that wait for an answer.")


class AnswerWord(StrEnum):
    """What a person may answer."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    HOLD = "hold"


@app.command("list", epilog=example("gonogo approvals list"))
def list_approvals(
    session: Session = None,
    status: Annotated[
        str, typer.Option("--status", help="A status, such as pending or approved; or all.")
    ] = ("pending"),
    mine: Annotated[
        bool, typer.Option("--mine", help="Only questions that you can answer.")
    ] = False,
    json: Json = False,
) -> None:
    """List open questions; identical ones share a line."""
    carry_out(_list, session, status, mine, json)


@app.command("watch", epilog=example("gonogo approvals watch", "gonogo approvals watch --mine"))
def watch_approvals(
    session: Session = None,
    mine: Annotated[
        bool, typer.Option("--mine", help="Only questions that you can answer.")
    ] = False,
    bell: Annotated[bool, typer.Option("--bell", help="Ring the bell for each question.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON objects, one on each line.")
    ] = False,
) -> None:
    """Follow the questions of all sessions: a line for each question, answer and expiry.

    It changes nothing and runs until Ctrl-C.
    """
    carry_out(_watch, session, mine, json, bell)


@app.command("show", epilog=example("gonogo approvals show appr_0192"))
def show_approval(approval_id: ApprovalId, json: Json = False) -> None:
    """Show one question in full."""
    carry_out(_show, approval_id, json)


@app.command(
    "decide",
    epilog=example(
        "gonogo approvals decide appr_0192 approve",
        "gonogo approvals decide appr_0192 approve --for-plan",
        'gonogo approvals decide appr_0192 reject --feedback "Too risky"',
        """gonogo approvals decide appr_0192 edit --arguments '{"command": "pytest -q"}'""",
        "gonogo approvals decide --group appr_0192 approve",
    ),
)
def decide(
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
) -> None:
    """Answer a question, or all identical ones; the work that waited continues."""
    if same_as is not None:
        carry_out(_decide_group, same_as, approval_id, decision, feedback, json)
    if decision is None:
        raise typer.BadParameter(own_words("give an answer: approve, edit, reject or hold"))
    if for_session and for_plan:
        raise typer.BadParameter(own_words("give either --for-session or --for-plan"))
    longer = "for_session" if for_session else "for_plan" if for_plan else None
    carry_out(_decide, approval_id, decision.value, feedback, arguments, longer, json)


@app.command(
    "link",
    epilog=example("gonogo approvals link appr_0192", "gonogo approvals link appr_0192 --for ann"),
)
def link(
    approval_id: ApprovalId,
    name: Annotated[
        str | None,
        typer.Option("--for", help="The person who decides; only an admin can name somebody else."),
    ] = None,
    json: Json = False,
) -> None:
    """Create a one-time link: anyone who opens it can approve or reject as that person."""
    carry_out(_link, approval_id, name, json)


@app.command("unlink", epilog=example("gonogo approvals unlink appr_0192"))
def unlink(approval_id: ApprovalId, json: Json = False) -> None:
    """Revoke the links of a question."""
    carry_out(_unlink, approval_id, json)


async def _link(approval_id: str, name: str | None, json: bool) -> Exit:
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


async def _unlink(approval_id: str, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import outcome

    async with connected() as client:
        await client.revoke_links(approval_id)
    said = own_words("The links of {approval_id} no longer work.", approval_id=approval_id)
    return outcome({"approval_id": approval_id, "revoked": True}, said, json=json)


async def _list(session: str | None, status: str, mine: bool, json: bool) -> Exit:
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


async def _watch(session: str | None, mine: bool, json: bool, bell: bool) -> Exit:
    from gonogo.cli.session.live import watch_approvals

    return await watch_approvals(session, mine, json, bell)


async def _show(approval_id: str, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line
    from gonogo.cli.terminal.render import question_lines, review_lines
    from gonogo.i18n import term

    async with connected() as client:
        approval = await client.approval(approval_id)
        if json:
            return facts(approval)
        locale = own_locale()
        kind = term("question", approval.kind, locale)
        line(f"{approval.approval_id}  {kind}  {term('question status', approval.status, locale)}")
        for text in question_lines(approval, locale):
            line(text)
        for text in review_lines(approval, locale):
            line(text)
        return Exit.DONE


async def _decide_group(
    same_as: str, word: str, more: AnswerWord | None, feedback: str | None, json: bool
) -> Exit:
    from gonogo.cli.session.decisions import decide_group

    if more is not None or word not in {"approve", "reject"}:
        raise Stop("with --group, give one answer: approve or reject", Exit.USAGE)
    return await decide_group(same_as, word, feedback, json=json)


async def _decide(
    approval_id: str,
    word: str,
    feedback: str | None,
    arguments: str | None,
    longer: str | None,
    json: bool,
) -> Exit:
    from gonogo.cli.session.decisions import decide_one

    if longer and word != "approve":
        raise Stop(
            "{option} works only with approve; leave it out",
            Exit.USAGE,
            option=f"--{longer.replace('_', '-')}",
        )
    edited = _given(word, arguments)
    return await decide_one(approval_id, word, feedback, edited, longer=longer, json=json)


def _given(word: str, arguments: str | None) -> object:
    from gonogo.domain.base import loads

    if arguments is None:
        if word == "edit":
            raise Stop("edit needs the new arguments as JSON: --arguments JSON", Exit.USAGE)
        return None
    return loads(arguments)
