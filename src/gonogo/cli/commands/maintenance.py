"""`gonogo db` and `gonogo doctor`: keeping an installation in order."""

from typing import Annotated

import typer

from gonogo.cli.arguments import Json, example, group
from gonogo.cli.language import own_locale, own_words
from gonogo.cli.support import Exit, carry_out

top = typer.Typer()
app = group("The database.")


@app.command("migrate", epilog=example(
    "gonogo db migrate", "gonogo db migrate --accept-restored",
))  # fmt: skip
def migrate(
    accept_restored: Annotated[
        bool,
        typer.Option(
            "--accept-restored",
            help="Start even if the database has lost data, for example after a restore.",
        ),
    ] = False,
) -> None:
    """Update the database to the schema of this version; an up-to-date one stays as it is."""
    carry_out(_migrate, accept_restored)


@app.command("vacuum", epilog=example(
    "gonogo db vacuum --dry-run", "gonogo db vacuum",
))  # fmt: skip
def vacuum(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show how much would be freed.")
    ] = False,
    json: Json = False,
) -> None:
    """Free the space that the database and the snapshots no longer need.

    A server can keep running; its writes wait until this is done.
    """
    carry_out(_vacuum, dry_run, json)


@top.command(epilog=example("gonogo nodes", "gonogo nodes --json"))
def nodes(json: Json = False) -> None:
    """List the servers and workers that share the work on one PostgreSQL database."""
    carry_out(_nodes, json)


@top.command(epilog=example("gonogo doctor", "gonogo doctor --json"))
def doctor(json: Json = False) -> None:
    """Check what gonogo needs, and show what is missing."""
    carry_out(_doctor, json)


async def _nodes(json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table

    async with connected() as client:
        found = (await client.nodes()).nodes
    if json:
        return facts(found)
    rows = [
        (n.kind, n.status, n.pool or "", f"{n.places}/{n.capacity}" if n.capacity else "", n.host,
         str(n.pid), n.beat_at)
        for n in found
    ]  # fmt: skip
    return table(("kind", "status", "pool", "workspaces", "host", "process", "seen"), rows)


async def _doctor(json: bool) -> Exit:
    from gonogo.cli.checks import findings
    from gonogo.cli.folder import environment, read_settings
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import term, told

    found = [check async for check in findings(read_settings(), environment())]
    bad = any(check.state == "bad" for check in found)
    if json:
        facts([check.as_json() for check in found])
        return Exit.FAILED if bad else Exit.DONE
    locale = own_locale()
    states = [term("check", check.state, locale) for check in found]
    names = [own_words(told(check.name, locale)) for check in found]
    for state, name, check in zip(states, names, found, strict=True):
        head = f"{state:<{max(map(len, states))}} {name:<{max(map(len, names))}}"
        line(f"{head} {told(check.text, locale)}")
    return Exit.FAILED if bad else Exit.DONE


async def _vacuum(dry_run: bool, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import say

    async with connected() as client:
        done = await client.vacuum(dry_run=dry_run)
    if json:
        return facts(done)
    locale = own_locale()
    for name in ("database", "log", "snapshots"):
        before, after = (_size(getattr(room, name)) for room in (done.before, done.after))
        line(say(f"cli_room_{name}", locale, before=before, after=after))
    if dry_run:
        line(say("cli_room_dry", locale))
    return Exit.DONE


def _size(count: int) -> str:
    """Bytes as people read them."""
    from gonogo.i18n import decimal

    small = count < 1 << 20
    number = decimal(count / (1 << 10 if small else 1 << 20), own_locale())
    return own_words("{number} KiB" if small else "{number} MiB", number=number)


async def _migrate(accept_restored: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import line

    async with connected({"accept_restored": accept_restored or None}):
        line(own_words("The database has the schema of this version."))
    return Exit.DONE
