"""The gate as the settings have it, and what commands may take and reach."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gonogo.agents import Gate, Giving, Means, Profile, Thread, nothing_given
from gonogo.domain.network import PrivateHosts
from gonogo.domain.reviews import Review, deed_of
from gonogo.domain.tool_calls import Call
from gonogo.policy import Reviews, load_rules
from gonogo.settings import Settings
from gonogo.tools import Servers, Tool
from gonogo.workspace import DEFAULT_PATH, Ceilings, Network, Programs, Sandbox


def open_gate(
    settings: Settings,
    tools: Mapping[str, Tool],
    profiles: Mapping[str, Profile],
    reviews: Reviews,
    given: Giving = nothing_given,
    servers: Servers | None = None,
    path: str | None = None,
) -> Gate:
    """Make the gate of these tools and agents.

    Args:
        path: The PATH that we have, by which programs of commands are found.

    Raises:
        BadRules: naming file and line of the first defect in the rules.
    """
    return Gate(
        tools=tools, profiles=profiles, home=settings.home, given=given,
        servers=servers, programs=open_programs(settings, path),
        reviewed=partial(_review_of, reviews),
        unforeseen=partial(_is_unforeseen, reviews.of_places),
        rules=load_rules(settings.admin_rules, settings.rules),
        sandbox=Sandbox.detect() if settings.sandbox else None,
        attended=not settings.unattended, repo_trusted=settings.repo_trusted,
        readers=settings.readers,
    )  # fmt: skip


def bare_thread(
    workspace: Path, agent: str = "universal", *, locale: str = "en", remote: bool = False
) -> Thread:
    """A conversation of nobody, in which a single call can be judged.

    Args:
        remote: A client runs its tools, so that nothing is looked up on this disk.
    """
    return Thread(
        session_id="", name="tool", script="", agent=agent, locale=locale,
        workspace=workspace, remote=remote, check=lambda conn: None, park=lambda conn, now: None,
    )  # fmt: skip


def _review_of(reviews: Reviews, call: Call) -> Review | None:
    return reviews.of("tool", (deed_of(call.agent, call.tool, call.access),))


def _is_unforeseen(places: Reviews, call: Call) -> bool:
    # A plan declares how a command begins; what that is told to touch is seen when it is called.
    return call.access.command is not None and _review_of(places, call) is not None


def open_programs(settings: Settings, path: str | None) -> Programs:
    """Where programs are looked for: in no folder that agents may get as their workspace."""
    return Programs(path=path or DEFAULT_PATH, roots=settings.allowed_roots)


def open_means(settings: Settings) -> Means:
    """What tools may have."""
    return Means(
        command_timeout=settings.command_timeout, command_output=settings.command_output,
        hidden=_hidden(settings),
        ceilings=Ceilings(
            processes=settings.command_processes, memory=settings.command_memory,
            file=settings.command_file_size, disk=settings.command_disk,
            temporary=settings.command_temporary,
        ),
        network=Network(
            hosts=False, private=PrivateHosts.read(settings.network_private_hosts),
            own_ports=frozenset({settings.port}), transfer=settings.network_transfer << 20,
        ),
    )  # fmt: skip


def _hidden(settings: Settings) -> tuple[Path, ...]:
    """What commands do not see besides the state folder: our other files, and the user's home."""
    files = [
        settings.config,
        settings.admin_rules,
        settings.hooks,
        settings.mcp,
        Path("~").expanduser(),
    ]
    if settings.db is not None and settings.db.startswith("sqlite"):
        name = settings.db.partition("///")[2].partition("?")[0]
        files += [Path(f"{name}{end}") for end in ("", "-wal", "-shm", "-journal")] if name else []
    found = {file.absolute() for file in files if file is not None}
    return tuple(sorted(found - {Path("/")}))
