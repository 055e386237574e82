"""`gonogo changes`, `checkpoints` and `rollback`: what was done to files, and the way back."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.support import (
    Exit,
    Json,
    Limit,
    PlanId,
    Stop,
    command,
    group,
    own_locale,
    own_words,
    plan_ids,
    session_ids,
)

if TYPE_CHECKING:
    from rich.text import Text

    from gonogo.client import Client
    from gonogo.domain.plan_views import (
        ChangedFile,
        Changes,
        ChangesBy,
        CheckpointView,
        RollbackView,
    )


# `gonogo changes`: what a plan, a subtask or a session did to files.

top = typer.Typer()
_PAGE = 500


@command(
    top,
    "changes",
    "gonogo changes plan_0192",
    "gonogo changes plan_0192 --subtask api",
    "gonogo changes plan_0192 --file src/api.py",
    "gonogo changes --session s_0192 --stat",
)
async def changes(
    plan_id: Annotated[
        str | None, typer.Argument(help="The plan's id.", autocompletion=plan_ids)
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", help="Everything that this session changed, in plans and outside them.",
            autocompletion=session_ids,
        ),
    ] = None,
    subtask: Annotated[
        str | None, typer.Option("--subtask", metavar="ID", help="Only what this subtask did.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="PATH", help="Only this file, at full length.")
    ] = None,
    stat: Annotated[
        bool, typer.Option("--stat", help="Only the names of files and the numbers of changed "
        "lines.")
    ] = False,
    json: Json = False,
) -> Exit:  # fmt: skip
    """Show what agents changed in files, as one diff from first to last.

    Changes that people made and changes that were rolled back are left out.
    """
    if (plan_id is None) == (session is None):
        raise typer.BadParameter(own_words("give the id of a plan, or --session ID"))
    if subtask is not None and plan_id is None:
        raise typer.BadParameter(own_words("--subtask needs the id of a plan"))
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, paper

    async with connected() as client:
        if plan_id is not None:
            found = await client.plan_changes(
                plan_id, subtask_id=subtask, path=file, limit=_PAGE
            )  # fmt: skip
        else:
            found = await client.session_changes(session or "", path=file, limit=_PAGE)
    if json:
        return facts(found)
    console = paper()
    for line in _lines(found, own_locale(), stat=stat):
        console.print(line, soft_wrap=True)
    return Exit.DONE


def _lines(found: "Changes", locale: str, *, stat: bool) -> "Iterator[Text]":
    from rich.text import Text

    from gonogo.i18n import say

    if not found.files:
        yield Text(say("cli_changes_none", locale))
        return
    total = say("cli_changes_total", locale, count=found.total)
    yield Text(f"{total}  {_numbers(found.lines_added, found.lines_removed)}", style="bold")
    for by in found.by:
        yield _of(by, locale)
    yield Text("")
    for file in found.files:
        yield _head(file, locale)
        if not stat:
            yield from _body(file, locale)
    if found.total > len(found.files):
        yield Text(say("cli_changes_more", locale, count=found.total - len(found.files)))


def _of(by: "ChangesBy", locale: str) -> "Text":
    from rich.text import Text

    from gonogo.cli.terminal.output import one_line
    from gonogo.i18n import say

    name = one_line(by.subtask_id) if by.subtask_id else say("cli_changes_outside", locale)
    count = say("cli_changes_total", locale, count=by.files)
    return Text(f"  {name}  {count}  {_numbers(by.lines_added, by.lines_removed)}")


def _head(file: "ChangedFile", locale: str) -> "Text":
    from rich.text import Text

    from gonogo.domain.text_safety import guarded, visible
    from gonogo.i18n import say

    words = [say(f"cli_changes_{file.status}", locale), visible(file.path, lines=False)]
    if file.lines_added is not None and file.lines_removed is not None:
        words.append(_numbers(file.lines_added, file.lines_removed))
    words.append(visible(", ".join(file.subtasks), lines=False))
    return Text(guarded("  ".join(filter(None, words))), style="bold")


def _body(file: "ChangedFile", locale: str) -> "Iterator[Text]":
    from rich.text import Text

    from gonogo.domain.text_safety import guarded, visible
    from gonogo.i18n import say

    for line in file.diff.splitlines():
        yield Text(guarded(line), style=_STYLES.get(line[:1], ""))
    if file.withheld is not None:
        path = visible(file.path, lines=False)
        yield Text(say(f"cli_changes_withheld_{file.withheld}", locale, path=path), style="italic")
    yield Text("")


_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _numbers(added: int, removed: int) -> str:
    return f"+{added} −{removed}"


# `gonogo checkpoints` and `gonogo rollback`: where a plan can go back to, and going there.

LATEST = "latest"
_WOULD = ("{count} file would be restored.", "{count} files would be restored.")
_DONE = ("{count} file restored.", "{count} files restored.")
_CONFLICTS = (
    "{count} file kept: somebody changed it since.",
    "{count} files kept: somebody changed them since.",
)
_SHARED = (
    "{count} file kept: it changed while a command ran. Undo it too with --include-shared.",
    "{count} files kept: they changed while a command ran. Undo them too with --include-shared.",
)
_FURTHER = (
    "Nothing has changed since the latest checkpoint. To go further back, use --to CHECKPOINT; "
    "list the checkpoints: gonogo checkpoints list {plan_id}"
)


@command(
    top,
    "rollback",
    "gonogo rollback plan_0192 --dry-run",
    "gonogo rollback plan_0192",
    "gonogo rollback plan_0192 --subtask api",
    "gonogo rollback plan_0192 --to checkpoint_0192",
)
async def rollback(
    plan_id: PlanId,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="CHECKPOINT",
            help="Undo only what came after this checkpoint; `latest` is the newest one.",
        ),
    ] = None,
    subtask: Annotated[
        str | None,
        typer.Option(
            "--subtask", metavar="ID", help="Undo only this subtask and those that depend on it."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be undone.")
    ] = False,
    include_shared: Annotated[
        bool,
        typer.Option("--include-shared", help="Also undo what changed while a command ran."),
    ] = False,
    json: Json = False,
) -> Exit:
    """Undo everything that a plan did to files; what people changed since then stays.

    A checkpoint is made first: roll back to it to undo the rollback.
    """
    if to is not None and subtask is not None:
        raise typer.BadParameter(own_words("give either --to or --subtask"))
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts

    async with connected() as client:
        done = await client.rollback(
            plan_id, checkpoint_id=None if to == LATEST else to, subtask_id=subtask,
            whole=to is None and subtask is None, dry_run=dry_run, include_shared=include_shared,
        )  # fmt: skip
        return facts(done) if json else _told(done, to_latest=to == LATEST)


def _told(done: "RollbackView", *, to_latest: bool) -> Exit:
    from gonogo.cli.terminal.output import lines, table, word

    lines(_account(done, to_latest=to_latest))
    rows = [(word("file", file.action), file.path, file.reason or "") for file in done.files]
    return table(("action", "file", "why"), rows) if rows else Exit.DONE


def _account(done: "RollbackView", *, to_latest: bool) -> Iterator[str]:
    from gonogo.i18n import counted, phrase

    locale = own_locale()
    forms = _WOULD if done.dry_run else _DONE
    yield counted(*forms, done.restored, locale)
    if done.conflicts:
        yield counted(*_CONFLICTS, done.conflicts, locale)
    if done.shared:
        yield counted(*_SHARED, done.shared, locale)
    if to_latest and not done.files:
        yield phrase(_FURTHER, locale, plan_id=done.plan_id)
    if done.again:
        names = ", ".join(done.again)
        yield phrase("These subtasks run again when the plan resumes: {names}", locale, names=names)
    if done.checkpoint_id and (done.restored or done.again):
        command = f"gonogo rollback {done.plan_id} --to {done.checkpoint_id}"
        yield phrase("Undo this rollback: {command}", locale, command=command)


# `gonogo checkpoints`: the places that a rollback can go back to.

CheckpointId = Annotated[str, typer.Argument(help="The checkpoint's id.")]
checkpoints = group("Checkpoints: the states that a rollback can restore.")


@command(checkpoints, "list", "gonogo checkpoints list plan_0192")
async def list_checkpoints(
    plan_id: PlanId,
    limit: Limit = 50,
    json: Json = False,
) -> Exit:
    """List a plan's checkpoints, oldest first."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table, word

    async with connected() as client:
        page = await client.checkpoints(plan_id, limit=limit)
        if json:
            return facts(page)
        rows = [
            (c.checkpoint_id, c.created_at, word("answer", "yes" if c.tree else "no"), c.reason)
            for c in page.checkpoints
        ]
        return table(("checkpoint", "created", "snapshot", "taken"), rows)


@command(
    checkpoints,
    "create",
    "gonogo checkpoints create plan_0192",
    'gonogo checkpoints create s_0192 --note "before I try the other way"',
)
async def create_checkpoint(
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION|PLAN",
            help="A session or a plan; by default the newest session. For a session: its newest "
            "plan.",
        ),
    ] = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="A note on what it is for.")
    ] = None,
    json: Json = False,
) -> Exit:
    """Make a checkpoint now, between two subtasks of a plan or after it.

    This is not possible while a subtask runs: pause the plan first.
    """
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line, one_line
    from gonogo.i18n import say

    async with connected() as client:
        made = await _taken(client, of, note)
    if json:
        return facts(made)
    line(f"{made.checkpoint_id}  {one_line(made.reason, _REASON)}")
    back = f"gonogo rollback {made.plan_id} --to {made.checkpoint_id}"
    line(say("cli_checkpoint_taken", own_locale(), command=back))
    return Exit.DONE


@command(checkpoints, "show", "gonogo checkpoints show checkpoint_0192")
async def show_checkpoint(
    checkpoint_id: CheckpointId,
    json: Json = False,
) -> Exit:
    """Show the state of every subtask, and whether the checkpoint is complete."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line, spoken, table, word

    async with connected() as client:
        found = await client.checkpoint(checkpoint_id)
        if json:
            return facts(found)
        line(f"{found.checkpoint_id}  {spoken(found.reason)}")
        said = "verified" if found.verified else "CHANGED SINCE IT WAS MADE; do not roll back to it"
        line(f"{found.hash}  {own_words(said)}")
        rows = [(each.id, word("subtask", each.status)) for each in found.subtasks]
        return table(("subtask", "stood"), rows)


@command(
    checkpoints,
    "diff",
    "gonogo checkpoints diff checkpoint_0192",
    "gonogo checkpoints diff checkpoint_0192 --to checkpoint_0193",
)
async def diff_checkpoint(
    checkpoint_id: CheckpointId,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Another checkpoint; by default the files as they are now."),
    ] = None,
    json: Json = False,
) -> Exit:
    """Show how files differ between a checkpoint and another one, or the workspace now."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, lines
    from gonogo.cli.terminal.render import file_lines

    async with connected() as client:
        found = await client.checkpoint_diff(checkpoint_id, to=to)
        return facts(found) if json else lines(file_lines(found, own_locale()))


_REASON = 1_000
"""Characters of a reason that are shown; one by hand holds a note."""


async def _taken(client: "Client", of: str | None, note: str | None) -> "CheckpointView":
    from gonogo.cli.session.run import newest_session
    from gonogo.domain.errors import NotFound
    from gonogo.i18n import say

    if of is not None:
        with suppress(NotFound):
            return await client.create_checkpoint(plan_id=of, note=note)
        with suppress(NotFound):
            return await client.create_checkpoint(session_id=of, note=note)
        raise Stop(say("cli_no_plan_or_session", own_locale(), id=of))
    session = await newest_session(client)
    return await client.create_checkpoint(session_id=session.session_id, note=note)
