"""What was done to files: one difference of all that a plan, a subtask or a session changed.

It is reckoned from what was written down of each call, not from the files as they are now: what
people changed themselves is no part of it, and what was rolled back is gone from it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

import anyio.to_thread
from msgspec import Struct

from gonogo.domain.errors import Conflict, NotFound, ToolFailed
from gonogo.domain.identity import Principal
from gonogo.domain.paths import is_secret
from gonogo.domain.plan_views import ChangedFile, Changes, ChangesBy
from gonogo.domain.records import FileChange, Plan
from gonogo.domain.text_safety import visible
from gonogo.domain.undo import NetChange, net_changes, shown_path
from gonogo.runtime.rollback import IN_ALL, OF_ONE_FILE
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import seen, seen_plan
from gonogo.store import Tx
from gonogo.store.checkpoints import changes_after, changes_of_session
from gonogo.store.plans import subtask_rows
from gonogo.workspace import Hunks, LineCount, Snapshots

_MOST_COUNTED = 5_000
"""Files whose lines are counted in one answer."""
Whose = tuple[str | None, str | None]
"""A plan and its subtask; neither, for what agents did outside of plans."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which changes are shown."""

    session_id: str
    plan_id: str | None = None
    subtask_id: str | None = None
    path: str | None = None
    limit: int = 100
    offset: int = 0


class FileChanges(Struct, frozen=True):
    """The queries about what was done to files."""

    _parts: Parts

    async def of_plan(
        self,
        principal: Principal,
        plan_id: str,
        *,
        subtask_id: str | None = None,
        path: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Changes:
        """What a plan, or one of its subtasks, did to files.

        Args:
            path: Only this file, with as much of its difference as one answer holds.
            limit: Files on the page, by path.

        Raises:
            NotFound: there is no such plan that the principal may see, or no such subtask, or
                nothing was done to the file.
            Conflict: the contents cannot be compared now.
        """

        def find(tx: Tx) -> tuple[Selection, list[FileChange]]:
            plan = seen_plan(tx, principal, plan_id)
            changes = changes_after(tx, plan.id, 0)
            if subtask_id is not None:
                changes = _of_subtask(tx, plan, subtask_id, changes)
            wanted = Selection(
                session_id=plan.session_id, plan_id=plan.id, subtask_id=subtask_id,
                path=path, limit=limit, offset=offset,
            )  # fmt: skip
            return wanted, changes

        return await self._told(*await self._parts.store.read(find))

    async def of_session(
        self,
        principal: Principal,
        session_id: str,
        *,
        path: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Changes:
        """What all plans of a session, and agents outside of plans, did to files.

        Args:
            path: Only this file, with as much of its difference as one answer holds.
            limit: Files on the page, by path.

        Raises:
            NotFound: there is no such session that the principal may see, or nothing of it did
                anything to the file.
            Conflict: the contents cannot be compared now.
        """

        def find(tx: Tx) -> tuple[Selection, list[FileChange]]:
            if seen(tx, principal, session_id) is None:
                raise NotFound(
                    "No session found with id={session_id}",
                    see="gonogo sessions list",
                    session_id=session_id,
                )
            wanted = Selection(session_id=session_id, path=path, limit=limit, offset=offset)
            return wanted, changes_of_session(tx, session_id)

        return await self._told(*await self._parts.store.read(find))

    async def _told(self, wanted: Selection, changes: Sequence[FileChange]) -> Changes:
        snapshots = self._parts.rollbacks.snapshots
        try:
            return await anyio.to_thread.run_sync(partial(_view, snapshots, wanted, changes))
        except ToolFailed as failure:
            raise Conflict(
                "The files cannot be compared: {failure}; try again", failure=failure
            ) from failure


def _of_subtask(
    tx: Tx, plan: Plan, subtask_id: str, changes: Iterable[FileChange]
) -> list[FileChange]:
    found = [change for change in changes if change.subtask_id == subtask_id]
    known = (row.subtask_id for row in subtask_rows(tx, plan.id, plan.revision))
    if not found and subtask_id not in known:
        raise NotFound(
            "Plan {plan_id} has no subtask {subtask_id!r}; list its subtasks: gonogo plans show "
            "{plan_id}",
            plan_id=plan.id,
            subtask_id=subtask_id,
        )
    return found


def _view(snapshots: Snapshots, wanted: Selection, changes: Sequence[FileChange]) -> Changes:
    runs = defaultdict[Whose, list[FileChange]](list)
    for change in changes:
        runs[change.plan_id, change.subtask_id].append(change)
    each = {whose: net_changes(run) for whose, run in runs.items()}
    net = net_changes(changes)
    if wanted.path is not None:
        net = [found for found in net if shown_path(found.path) == wanted.path]
        if not net:
            raise NotFound(
                "Agents did not change the file {path!r}; to see what they changed, leave out "
                "the file",
                path=wanted.path,
            )
    counts = _counted(snapshots, [*net, *(found for run in each.values() for found in run)])
    page = net[wanted.offset : wanted.offset + wanted.limit]
    added, removed = _sum(net, counts)
    return Changes(
        session_id=wanted.session_id, plan_id=wanted.plan_id, subtask_id=wanted.subtask_id,
        files=_files(snapshots, wanted, page, counts, each), total=len(net),
        lines_added=added, lines_removed=removed,
        by=[_by(whose, run, counts) for whose, run in each.items() if run],
    )  # fmt: skip


Counts = Mapping[tuple[str | None, str | None], LineCount | None]


def _counted(snapshots: Snapshots, found: Iterable[NetChange]) -> Counts:
    pairs = list(dict.fromkeys(change.blobs for change in found))[:_MOST_COUNTED]
    return dict(zip(pairs, snapshots.changed_lines(pairs), strict=True))


def _count(change: NetChange, counts: Counts) -> LineCount | None:
    return None if change.status == "unknown" else counts.get(change.blobs)


def _sum(found: Iterable[NetChange], counts: Counts) -> tuple[int, int]:
    known = [count for change in found if (count := _count(change, counts)) is not None]
    return sum(count.added for count in known), sum(count.removed for count in known)


def _by(whose: Whose, run: Sequence[NetChange], counts: Counts) -> ChangesBy:
    added, removed = _sum(run, counts)
    return ChangesBy(
        plan_id=whose[0], subtask_id=whose[1], files=len(run),
        lines_added=added, lines_removed=removed,
    )  # fmt: skip


def _files(
    snapshots: Snapshots,
    wanted: Selection,
    page: Sequence[NetChange],
    counts: Counts,
    each: Mapping[Whose, Sequence[NetChange]],
) -> list[ChangedFile]:
    doers = defaultdict[str, list[str]](list)
    for (_, subtask), run in each.items():
        for change in run:
            if subtask is not None and subtask not in doers[change.path]:
                doers[change.path].append(subtask)
    # Of a secret nothing is read.
    pairs = [(None, None) if is_secret(each.path) else each.blobs for each in page]
    # One that is asked for alone may fill the answer.
    limit = OF_ONE_FILE if wanted.path is None else IN_ALL
    hunks = snapshots.hunks(pairs, limit=limit, in_all=IN_ALL)
    return [
        _file(change, _count(change, counts), found, doers[change.path])
        for change, found in zip(page, hunks, strict=True)
    ]


def _file(
    change: NetChange, count: LineCount | None, hunks: Hunks, subtasks: list[str]
) -> ChangedFile:
    return ChangedFile(
        path=shown_path(change.path),
        status=change.status,
        lines_added=count.added if count else None,
        lines_removed=count.removed if count else None,
        subtasks=subtasks,
        diff=visible(hunks.text),
        withheld=_withheld(change, count, hunks),
    )


def _withheld(
    change: NetChange, count: LineCount | None, hunks: Hunks
) -> Literal["secret", "no_text", "more"] | None:
    if is_secret(change.path):
        return "secret"
    if hunks.cut:
        return "more"
    return "no_text" if count is None and change.status != "unknown" else None
