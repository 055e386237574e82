"""`gonogo changes`: what a plan, a subtask or a session did to files."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.arguments import Json, example, plan_ids, session_ids
from gonogo.cli.language import own_locale, own_words
from gonogo.cli.support import Exit, carry_out

if TYPE_CHECKING:
    from rich.text import Text

    from gonogo.domain.plan_views import ChangedFile, Changes, ChangesBy

top = typer.Typer()
_PAGE = 500


@top.command(
    epilog=example(
        "gonogo changes plan_0192",
        "gonogo changes plan_0192 --subtask api",
        "gonogo changes plan_0192 --file src/api.py",
        "gonogo changes --session s_0192 --stat",
    )
)
def changes(
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
) -> None:  # fmt: skip
    """Show what agents changed in files, as one diff from first to last.

    Changes that people made and changes that were rolled back are left out.
    """
    if (plan_id is None) == (session is None):
        raise typer.BadParameter(own_words("give the id of a plan, or --session ID"))
    if subtask is not None and plan_id is None:
        raise typer.BadParameter(own_words("--subtask needs the id of a plan"))
    carry_out(_show, plan_id, session, subtask, file, stat, json)


async def _show(
    plan_id: str | None,
    session: str | None,
    subtask: str | None,
    file: str | None,
    stat: bool,
    json: bool,
) -> Exit:
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
