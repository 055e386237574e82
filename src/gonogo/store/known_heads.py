"""Known heads: a small file beside a database says where its chains stood.

A database that lost its log, or that an old copy was put in the place of, is whole by itself and
knows nothing of what was done since. The file knows. It is written after commits, at most once a
second and without a sync: so it is never ahead of the database, and after a crash it may be behind,
which is no harm.
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.exc import DBAPIError

from gonogo.domain.errors import Conflict, because, together
from gonogo.store.events import extent_of, hash_at
from gonogo.store.outage import is_away, raise_told
from gonogo.store.transaction import Extent, Tx

_LOG = logging.getLogger(__name__)
_EVERY = 1.0
"""Seconds between two writes of the file."""
_MOST = 100
"""Chains that it names: those that something was added to last."""
_NAMED = 3
_EXTENTS = TypeAdapter(dict[str, Extent])


class KnownHeads:
    """What is known of a database besides what it says itself."""

    def __init__(self, database: Path) -> None:
        """Read the file of a database, if there is one that can be read."""
        self.database = database
        self.path = database.with_name(f"{database.name}-heads")
        self._extents = self._read()
        self._is_new = False
        self._written = -_EVERY

    def missing(self, tx: Tx, *, accept: bool) -> list[str]:
        """What was in the database and is not there any more.

        Args:
            accept: Go on with what is there.

        Raises:
            Conflict: something is missing, and that is not accepted; how to go on.
            Busy: the database cannot be read.
        """
        lost = [said for chain, known in self._extents.items() for said in _lost(tx, chain, known)]
        if lost and not accept:
            left = len(lost) - _NAMED
            more = because(" (and {count} more)", count=left) if left > 0 else ""
            raise Conflict(
                "The database {database} is older than gonogo's last record of it: "
                "{lost}{more}. Its -wal file was lost, or an older copy replaced it, so later "
                "work is missing from it. Restore the newer database together with its -wal "
                "file. To continue with this one, check what changed in your files, then accept "
                "it: start once with --accept-restored (gonogo serve or gonogo db migrate)",
                database=self.database, lost=together(lost[:_NAMED]), more=more,
            )  # fmt: skip
        if lost:
            self._extents = {}
        return lost

    def saw(self, extents: Mapping[str, Extent]) -> None:
        """Take note of where chains stand after a commit, and write it down if it is time."""
        for chain, extent in extents.items():
            self._extents.pop(chain, None)
            self._extents[chain] = extent
        while len(self._extents) > _MOST:
            del self._extents[next(iter(self._extents))]
        self._is_new = self._is_new or bool(extents)
        if self._is_new and not self.due:
            self.write()

    @property
    def due(self) -> float | None:
        """Seconds until there is something to write; None for not before the next commit."""
        if not self._is_new:
            return None
        return max(0.0, self._written + _EVERY - time.monotonic())

    def write(self) -> None:
        """Write the file, if there is something new."""
        if not self._is_new:
            return
        self._is_new, self._written = False, time.monotonic()
        new = self.path.with_name(f"{self.path.name}-{os.getpid()}")
        try:
            with open(new, "w", opener=_private) as file:
                json.dump(self._extents, file)
            new.replace(self.path)
        except OSError as failure:
            # A full disk, say: the database will tell of that by itself.
            _LOG.warning("%s cannot be written: %s", self.path, failure.strerror)
            with suppress(OSError):
                new.unlink(missing_ok=True)

    def _read(self) -> dict[str, Extent]:
        try:
            return _EXTENTS.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError):
            # Cut off as the machine went down: it was not synced.
            _LOG.warning("%s cannot be read; it is made anew", self.path)
            return {}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _lost(tx: Tx, chain: str, known: Extent) -> Iterator[str]:
    try:
        found = extent_of(tx, chain)
    except DBAPIError as error:
        if is_away(error):
            raise_told(error)
        # It has not even the tables.
        found = None
    if found is None:
        yield because(
            "chain {chain} had {known} entries, and is gone", chain=chain, known=known.entries
        )
    elif found.entries < known.entries:
        yield because(
            "chain {chain} had {known} entries, and now has {found}",
            chain=chain, known=known.entries, found=found.entries,
        )  # fmt: skip
    elif found.events is not None and found.events < (known.events or 0):
        yield because(
            "session {session} had {known} events, and now has {found}",
            session=chain, known=known.events, found=found.events,
        )  # fmt: skip
    elif hash_at(tx, chain, known.entries) not in (None, known.hash):
        yield because(
            "entry {seq} of chain {chain} was another one", seq=known.entries, chain=chain
        )
