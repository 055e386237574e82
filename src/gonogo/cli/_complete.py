"""What the shell completes ids with: those that the process that owns the state folder knows.

Where nobody owns the folder, where the answer takes longer than a person waits, or where anything
goes wrong, there is nothing to offer. Only ids are given, and only of characters that mean nothing
to a shell: what agents write is never handed to one.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gonogo.client import Client

_LIMIT = 1.5
"""Seconds that the owner may take."""
_MOST = 100
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

Ask = Callable[["Client"], Awaitable[Iterable[str]]]


def plan_ids(incomplete: str) -> list[str]:
    """Plans, newest first."""

    async def ask(client: "Client") -> Iterable[str]:
        return [plan.plan_id for plan in (await client.plans(limit=_MOST)).plans]

    return _completed(ask, incomplete)


def session_ids(incomplete: str) -> list[str]:
    """Sessions, newest first."""

    async def ask(client: "Client") -> Iterable[str]:
        return [each.session_id for each in (await client.sessions(limit=_MOST)).sessions]

    return _completed(ask, incomplete)


def approval_ids(incomplete: str) -> list[str]:
    """Questions that are open."""

    async def ask(client: "Client") -> Iterable[str]:
        found = await client.approvals(status="pending")
        return [approval.approval_id for approval in found.approvals[:_MOST]]

    return _completed(ask, incomplete)


def _completed(ask: Ask, incomplete: str) -> list[str]:
    import anyio

    try:
        found = anyio.run(_found, ask)
    except Exception:
        # Whoever presses a key at a prompt is not told why there is nothing to choose from.
        return []
    return [each for each in found if each.startswith(incomplete) and _HARMLESS.fullmatch(each)]


async def _found(ask: Ask) -> Iterable[str]:
    import anyio

    from gonogo.cli._folder import Folder
    from gonogo.cli._owner import glance
    from gonogo.cli._setup import read_settings

    settings = read_settings()
    folder = Folder(settings.home)
    if not folder.socket.exists():
        return ()
    with anyio.move_on_after(_LIMIT):
        async with glance(folder, settings, alone=False) as client:
            return () if client is None else await ask(client)
    return ()
