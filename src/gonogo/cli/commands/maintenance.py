"""Keeping an installation in order: its process, who may speak to it, its database, its health."""

import os
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.support import Exit, Json, Restored, Stop, command, group, own_locale, own_words

if TYPE_CHECKING:
    from gonogo.cli.folder import Folder, OwnerFacts
    from gonogo.settings import Settings

# `status` and `stop`: the process that carries the work out.

process = typer.Typer()
_STARTS = 5.0
"""Seconds in which a process that has just begun is expected to answer."""


@command(process, "status", "gonogo status", "gonogo status --json")
async def status(json: Json = False) -> Exit:
    """Show which process does the work, and what work there is.

    If that process was killed, this command starts it again. If none was running, it starts none.
    """
    from gonogo.cli.daemon import runs_in_background, start
    from gonogo.cli.folder import Folder, read_settings
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import say

    settings, locale = read_settings(), own_locale()
    folder = Folder(settings.home)
    folder.prepare()
    found = folder.read_facts()
    if found is not None and not folder.is_owned() and runs_in_background(settings):
        await start(folder, settings)
    found = folder.holder()
    if found is None:
        if json:
            return facts({"running": False})
        line(say("cli_no_process", locale, home=settings.home))
        return Exit.DONE
    running, asked, urls = await _work_of(folder, settings, found)
    if json:
        return facts(
            {
                "running": True, "pid": found.pid, "kind": found.kind, "version": found.version,
                "since": found.since, "log": str(folder.log), "plans": running,
                "questions": asked, "urls": urls,
            }
        )  # fmt: skip
    line(
        say(
            f"cli_process_{found.kind}", locale, pid=found.pid, version=found.version,
            since=f"{found.since:%Y-%m-%d %H:%M:%S} UTC",
        )
    )  # fmt: skip
    for url in urls:
        line(say("cli_process_url", locale, url=url))
    line(say("cli_process_work", locale, plans=running, questions=asked, log=folder.log))
    return Exit.DONE


async def _work_of(
    folder: "Folder", settings: "Settings", found: "OwnerFacts"
) -> tuple[int, int, list[str]]:
    """How many plans a process runs, how many questions are open there, and where it listens."""
    import anyio

    from gonogo.cli.daemon import GLANCE, answers, glance
    from gonogo.domain.errors import Refused
    from gonogo.domain.states import ApprovalStatus, PlanStatus
    from gonogo.i18n import say

    with anyio.move_on_after(_STARTS):
        while folder.holder() == found and not await answers(folder):  # noqa: ASYNC110 - a socket
            await anyio.sleep(GLANCE)
    async with glance(folder, settings, alone=False) as client:
        if client is None:
            raise Stop(say("cli_process_silent", own_locale(), pid=found.pid))
        running = (await client.plans(status=PlanStatus.RUNNING, limit=1)).total
        asked = len((await client.approvals(status=ApprovalStatus.PENDING)).approvals)
        urls = list[str]()
        # One of an earlier version does not say it.
        with suppress(Refused):
            urls = await client.listeners()
    return running, asked, urls


@command(process, "stop", "gonogo stop", "gonogo stop --now")
async def stop(
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Stop immediately: do not ask, and do not wait for running work."
        ),
    ] = False,
    json: Json = False,
) -> Exit:
    """Stop the background process.

    Unfinished work continues with the next gonogo run or attach.
    """
    import signal

    from gonogo.cli.daemon import PATIENCE, has_left, leaves
    from gonogo.cli.folder import Folder, environment, read_settings
    from gonogo.cli.session.live import ask
    from gonogo.cli.terminal.input import TerminalPerson
    from gonogo.cli.terminal.output import outcome
    from gonogo.i18n import say

    settings, locale = read_settings(), own_locale()
    folder = Folder(settings.home)
    folder.prepare()
    found = folder.holder()
    if found is None:
        said = say("cli_no_process", locale, home=settings.home)
        return outcome({"stopped": False}, said, json=json)
    if found.kind != "background":
        raise Stop(say("cli_process_elsewhere", locale, pid=found.pid))
    if not now and not await leaves(folder):
        question = say("cli_stop_process", locale, pid=found.pid)
        options = {word: say(f"cli_stop_{word}", locale) for word in ("yes", "no")}
        if not TerminalPerson(environment()).is_there:
            raise Stop(say("cli_process_works", locale, pid=found.pid), Exit.WAITS)
        if await ask(question, options) != "yes":
            return outcome({"stopped": False, "pid": found.pid}, json=json)
    if folder.holder() == found:
        os.kill(found.pid, signal.SIGTERM)
    if not await has_left(folder, PATIENCE):
        raise Stop(say("cli_process_silent", locale, pid=found.pid))
    said = say("cli_process_stopped", locale, pid=found.pid)
    return outcome({"stopped": True, "pid": found.pid}, said, json=json)


# `gonogo token`: who may speak to the server.

tokens = group("Tokens: who may use the server, and in which role.")


class RoleWord(StrEnum):
    """What a token's holder may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@command(
    tokens,
    "create",
    "gonogo token create --role operator --name ci",
    options="--role ROLE [--name NAME] [OPTIONS]",
)
async def create(
    role: Annotated[RoleWord, typer.Option("--role", help="What the token allows.")],
    name: Annotated[str, typer.Option("--name", help="A name for your own use.")] = "token",
    json: Json = False,
) -> Exit:
    """Create a token and print it; it is shown only once."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts
    from gonogo.i18n import say

    async with connected() as client:
        made = await client.create_token(name=name, role=role.value)
        if json:
            return facts({"token": made.token, "token_id": made.view.token_id})
        typer.echo(made.token)
        typer.echo(say("cli_token_once", own_locale()), err=True)
        return Exit.DONE


@command(tokens, "list", "gonogo token list")
async def list_tokens(json: Json = False) -> Exit:
    """List tokens, without their secrets."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table, word

    async with connected() as client:
        tokens = await client.tokens()
        if json:
            return facts(tokens)
        rows = [
            (t.token_id, t.name, word("role", t.role), t.created_at, t.revoked_at or "")
            for t in tokens
        ]
        return table(("token", "name", "role", "created", "revoked"), rows)


@command(tokens, "revoke", "gonogo token revoke token_0192")
async def revoke(
    token_id: Annotated[str, typer.Argument(help="The token's id.")], json: Json = False
) -> Exit:
    """Revoke a token, and close the connections that use it."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import outcome

    async with connected() as client:
        await client.revoke_token(token_id)
    said = own_words("Token {token_id} is revoked.", token_id=token_id)
    return outcome({"token_id": token_id, "revoked": True}, said, json=json)


# `gonogo db` and `gonogo doctor`: keeping an installation in order.

top = typer.Typer()
app = group("The database.")
_STATES = {
    "current": "The database has the schema of this version.",
    "older": "The database has the schema {found}, and this version needs {wanted}. Update it "
    "with: gonogo db migrate",
    "empty": "The database is empty. Set it up with: gonogo db migrate",
    "damaged": "The database is damaged: {problem}. Stop gonogo and restore a backup.",
}
_OUTGROWN = (
    "Process {pid} uses the database with the schema {found}, and this version needs {wanted}. "
    "Stop the process, for example with gonogo stop, then try again"
)
_NO_PLACE = (
    "No workspace that workers share has the path {path}; gonogo place list shows all paths, and "
    "gonogo place list --json also their ids"
)
place = group("Workspaces that several servers and workers share.")


@command(app, "migrate", "gonogo db migrate", "gonogo db migrate --accept-restored")
async def migrate(
    accept_restored: Restored = False,
    json: Json = False,
) -> Exit:
    """Update the database to the schema of this version; an up-to-date one stays as it is.

    On PostgreSQL, servers and workers of the previous version can keep running.
    """
    import anyio

    from gonogo.cli.daemon import connected
    from gonogo.cli.folder import Folder, read_settings
    from gonogo.cli.terminal.output import outcome
    from gonogo.runtime import Runtime, look_at_database

    given = {"accept_restored": accept_restored or None}
    settings = read_settings(given)
    # Who serves this folder may be of an older version, which the database is to outgrow.
    on_server = settings.db is not None and settings.db.startswith("postgresql")
    async with Runtime.open(settings, idle=True) if on_server else connected(given):
        found, wanted, _ = await anyio.to_thread.run_sync(look_at_database, settings)
        if found != wanted:
            pid = Folder(settings.home).owner()
            raise Stop(_OUTGROWN, pid=pid, found=found, wanted=wanted)
        return outcome({"state": "current"}, own_words(_STATES["current"]), json=json)


@command(app, "check", "gonogo db check", "gonogo db check --json")
async def check(json: Json = False) -> Exit:
    """Check that gonogo can use the database, and that a SQLite file is neither damaged nor old.

    The check changes nothing, and a server can keep running. Exit code 1 means that there is
    something to do.
    """
    import anyio

    from gonogo.cli.folder import read_settings
    from gonogo.cli.terminal.output import facts, line
    from gonogo.runtime import look_at_database

    found, wanted, damage = await anyio.to_thread.run_sync(look_at_database, read_settings())
    whole = "empty" if found is None else "current" if found == wanted else "older"
    state = "damaged" if damage else whole
    if json:
        facts({"state": state, "schema": found, "expected": wanted, "problem": damage})
    else:
        line(own_words(_STATES[state], found=found, wanted=wanted, problem=damage))
    return Exit.DONE if state == "current" else Exit.FAILED


@command(app, "vacuum", "gonogo db vacuum --dry-run", "gonogo db vacuum")
async def vacuum(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show how much space would be freed.")
    ] = False,
    json: Json = False,
) -> Exit:
    """Free the space that the database and the snapshots no longer need.

    A server can keep running; its writes wait until this is done.
    """
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import say

    async with connected() as client:
        done = await client.vacuum(dry_run=dry_run)
    if json:
        return facts(done)
    locale = own_locale()
    form = "would_be" if dry_run else "room"
    for name in ("database", "log", "snapshots"):
        before, after = (_size(getattr(room, name)) for room in (done.before, done.after))
        line(say(f"cli_{form}_{name}", locale, before=before, after=after))
    if dry_run:
        line(say("cli_room_dry", locale))
    return Exit.DONE


@command(top, "nodes", "gonogo nodes", "gonogo nodes --json")
async def nodes(json: Json = False) -> Exit:
    """List the servers and workers that share the work on one PostgreSQL database."""
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


@command(place, "list", "gonogo place list", "gonogo place list --json")
async def place_list(json: Json = False) -> Exit:
    """List the workspaces, and which worker works in each."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table

    async with connected() as client:
        found = (await client.places()).places
    if json:
        return facts(found)
    rows = [(p.status, p.pool, _process(p.host, p.pid), str(p.fence), p.workspace) for p in found]
    return table(("status", "pool", "worker", "fence", "workspace"), rows)


@command(place, "show", "gonogo place show SESSION", "gonogo place show /srv/code/shop --json")
async def place_show(
    session: Annotated[
        str, typer.Argument(help="A session in the workspace, or the workspace's path or id.")
    ],
    json: Json = False,
) -> Exit:
    """Show which worker works in a workspace, since when, and the workers before it.

    If its worker stops answering, another worker can take the workspace at the time under "until".
    """
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table

    named = _named(session)
    async with connected() as client:
        places = (await client.places()).places if "/" in named else []
        by_path = [each.place_id for each in places if each.workspace == named]
        if "/" in named and not by_path:
            raise Stop(_NO_PLACE, path=named)
        found = await client.place(by_path[0] if by_path else named)
    if json:
        return facts(found)
    row = (
        found.status, found.pool, str(found.fence), found.since or "", found.until or "",
        str(found.handed), found.workspace,
    )  # fmt: skip
    table(("status", "pool", "fence", "since", "until", "handed", "workspace"), [row])
    rows = [
        (each.since, str(each.fence), _process(each.host, each.pid) or each.node_id)
        for each in found.owners
    ]
    return table(("since", "fence", "worker"), rows)


@command(place, "release", "gonogo place release /srv/code/shop")
async def place_release(
    workspace: Annotated[str, typer.Argument(help="The workspace's path or id.")],
    json: Json = False,
) -> Exit:
    """Let another worker take a workspace.

    Its worker finishes running steps first, for up to 30 seconds.
    """
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import outcome
    from gonogo.i18n import say

    workspace = _named(workspace)
    async with connected() as client:
        found = (await client.places()).places
        named = [each for each in found if workspace in (each.workspace, each.place_id)]
        if "/" in workspace and not named:
            raise Stop(_NO_PLACE, path=workspace)
        done = await client.release_place(named[0].place_id if named else workspace)
    said = say("cli_place_released" if done.released else "cli_place_unowned", own_locale())
    if not done.released and named and (lost := named[0]).status == "lost":
        said = say("cli_place_lost", own_locale(), host=lost.host, pid=lost.pid, pool=lost.pool)
    return outcome(done, said, json=json)


@command(top, "doctor", "gonogo doctor", "gonogo doctor --cluster", "gonogo doctor --json")
async def doctor(
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Check the servers and workers of the database.")
    ] = False,
    json: Json = False,
) -> Exit:
    """Check what gonogo needs, and show what is missing."""
    from gonogo.cli.checks import cluster_findings, findings
    from gonogo.cli.daemon import connected
    from gonogo.cli.folder import environment, read_settings
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import term, told

    if cluster:
        async with connected() as client:
            nodes, places = (await client.nodes()).nodes, (await client.places()).places
        found = list(cluster_findings(nodes, places))
    else:
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


def _named(workspace: str) -> str:
    """A path in full; an id as it is."""
    return os.path.realpath(workspace) if "/" in workspace else workspace


def _process(host: str | None, pid: int | None) -> str:
    return f"{host} {pid}" if host else ""


def _size(count: int) -> str:
    """Bytes as people read them."""
    from gonogo.i18n import decimal

    small = count < 1 << 20
    number = decimal(count / (1 << 10 if small else 1 << 20), own_locale())
    return own_words("{number} KiB" if small else "{number} MiB", number=number)
