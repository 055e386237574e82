"""A database that is away: running work waits for it, and requests get an error in time.

"Away" means every failure that passes and that the work did not cause: the server restarts,
connections are cut, the disk is full, the file is locked or read-only. A job, a timer or a stream
waits as long as necessary, as nobody else knows what it would write. A request waits a few seconds
and is then refused with `Busy`. The log says once that the database is away, and when it is back.

The code of the driver's error decides which case it is (https://sqlite.org/rescode.html,
https://www.postgresql.org/docs/current/errcodes-appendix.html), never its text.
"""

import asyncio
import logging
import math
import sqlite3
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from random import uniform
from time import monotonic
from typing import NoReturn, TypeVar

import anyio
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gonogo.domain.errors import Busy, NotFound, because
from gonogo.store.transaction import seconds_passed

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_SQLITE = frozenset(
    {
        sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOTADB,
    }
)  # fmt: skip
"""Primary result codes of errors that are no fault of the statement."""
_POSTGRES = ("08", "53", "55P03", "57", "58", "25006", "25P03", "40", "XX001", "XX002")
"""The SQLSTATEs of such errors begin so. A lost connection has no SQLSTATE."""
_FIRST, _LONGEST = 0.05, 2.0
_LATE = "The database does not answer in time; try again in a moment"
_patient: ContextVar[bool] = ContextVar("patient", default=False)
_watch: ContextVar["Stopwatch | None"] = ContextVar("watch", default=None)


def told(error: BaseException) -> BaseException:
    """Replace an error that means that the database is away by `Busy`; else return the error.

    A violated foreign key becomes `NotFound`: the session to which the row belongs was deleted.
    """
    if _refers_to_nothing(error):
        return NotFound("Its session has been deleted; open a new session")
    if not is_away(error):
        return error
    cause = getattr(error, "orig", None) or error
    return Busy(reason=" ".join(str(cause).split()) or type(cause).__name__)


def raise_told(error: Exception) -> NoReturn:
    """Raise what `told` makes of an error."""
    said = told(error)
    if said is error:
        raise error
    raise said from error


def is_away(error: BaseException) -> bool:
    """Whether the error is no fault of the work, so that the same work may succeed later."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE
    if isinstance(error, DBAPIError):
        state: str | None = getattr(cause, "sqlstate", None)
        if state is not None:
            return state.startswith(_POSTGRES)
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    # A connection that was lost inside a savepoint raises this for every use.
    return isinstance(error, PoolTimeout | PendingRollbackError)


def _refers_to_nothing(error: BaseException) -> bool:
    cause = getattr(error, "orig", None) or error
    sqlite = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
    return sqlite or getattr(cause, "sqlstate", None) == "23503"


@contextmanager
def patiently() -> Generator[None]:
    """Inside this context, reads and writes wait for the database, however long it is away."""
    token = _patient.set(True)
    try:
        yield
    finally:
        _patient.reset(token)


@contextmanager
def standing_still() -> Generator[None]:
    """The time inside this context does not count for the current stopwatch and its deadline."""
    watch = _watch.get()
    with watch.stopped() if watch else nullcontext():
        yield


class Pool:
    """Threads for calls that may hang; if a caller is cancelled, its queued call never begins."""

    def __init__(self, threads: int, name: str) -> None:
        """Start the first thread, so that there is always one that takes calls.

        Raises:
            Busy: no thread can be started.
        """
        self._threads = ThreadPoolExecutor(threads, name)
        self._is_closed = False
        try:
            self._threads.submit(int)
        except RuntimeError as error:
            why = because(
                "the system starts no more threads; raise the limits of processes and memory "
                "(ulimit -u and -v)"
            )
            raise Busy(reason=why) from error

    async def run(self, work: Callable[[], T]) -> T:
        """Call a function in one of the threads.

        Raises:
            Busy: the pool is closed.
        """
        asked = Future[T]()
        try:
            self._threads.submit(_answer, asked, work)
        except RuntimeError as error:
            if self._is_closed:
                raise Busy(reason=because("the database is closed")) from error
            # No more threads can be started. The call is in the queue of the existing ones.
        return await asyncio.wrap_future(asked)

    def close(self) -> None:
        """Finish all calls, and end the threads."""
        self._is_closed = True
        self._threads.shutdown()


def _answer(asked: Future[T], work: Callable[[], T]) -> None:
    if not asked.set_running_or_notify_cancel():
        return
    try:
        asked.set_result(work())
    except BaseException as error:
        asked.set_exception(error)


class Stopwatch:
    """Counts the seconds of work, without those in which the work waits for the database.

    It extends the deadline of the work by these waits. It counts the seconds that pass, so a clock
    that is set does not matter.
    """

    def __init__(self, before: float = 0.0, seconds: Callable[[], float] = seconds_passed) -> None:
        """Begin to count.

        Args:
            before: Seconds of earlier work, which count too.
        """
        self._seconds, self._zero = seconds, seconds() - before
        self.stood = 0.0
        """Seconds in which it did not count, so far."""
        self._scope: anyio.CancelScope | None = None
        self._waiting = 0
        self._since = self._left = 0.0

    def worked(self) -> float:
        """The seconds of work so far."""
        return self._seconds() - self._zero - self.stood

    def worked_ms(self) -> int:
        """The same in milliseconds, as rows store it."""
        return round(1000 * self.worked())

    @contextmanager
    def holding(self, scope: anyio.CancelScope) -> Generator[None]:
        """Extend the deadline of a scope by the waits of what runs inside this context."""
        self._scope = scope
        token = _watch.set(self)
        try:
            yield
        finally:
            _watch.reset(token)

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Do not count the time inside this context; several tasks may be inside at once."""
        assert self._scope is not None  # noqa: S101 - only what it holds finds it
        if not self._waiting:
            self._since = anyio.current_time()
            self._left, self._scope.deadline = self._scope.deadline - self._since, math.inf
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                now = anyio.current_time()
                self.stood += now - self._since
                self._scope.deadline = now + self._left


class Outage:
    """Knows whether something is away, such as the database, and lets its users wait for it."""

    def __init__(self, what: str, patience: float) -> None:
        """Begin without knowing anything.

        Args:
            what: The name of the thing in the log.
            patience: For how many seconds callers wait that do not wait `patiently`.
        """
        self._what, self._patience = what, patience
        self._since: float | None = None
        self._by_write = False
        self._news = anyio.Event()
        self._era = 0
        self._is_over = False

    async def ride(self, attempt: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        """Make an attempt, and repeat it while the thing is away.

        Args:
            attempt: Raises `Busy` if the thing is away; it has then changed nothing.
            writes: The attempt writes. After failed writes, a successful read does not show that
                the thing is back.

        Raises:
            Busy: it is away for longer than the caller waits, or nobody may wait any more.
        """
        if _patient.get():
            return await self._insist(attempt, writes)
        with anyio.move_on_after(self._patience):
            return await self._insist(attempt, writes)
        late = Busy(_LATE)
        self._missed(late, writes)
        raise late

    def wake(self) -> None:
        """Let all who wait try again at once."""
        news, self._news = self._news, anyio.Event()
        news.set()

    def drop(self) -> None:
        """Refuse all who wait now: nobody needs their work any more."""
        self._era += 1
        self.wake()

    def end(self) -> None:
        """From now on nobody waits; everybody may still try once."""
        self._is_over = True
        self.drop()

    async def _insist(self, attempt: Callable[[], Awaitable[T]], writes: bool) -> T:
        era, delay = self._era, 0.0
        while True:
            try:
                outcome = await attempt()
            except Busy as error:
                if self._is_over or self._is_no_news():
                    raise
                # The first failure may be one cut connection: the second attempt has a new one.
                if delay:
                    self._missed(error, writes)
                await self._pause(delay)
                if era != self._era:
                    raise
                delay = min(max(2 * delay, _FIRST), _LONGEST)
            else:
                self._found(writes)
                return outcome

    def _is_no_news(self) -> bool:
        """Whether an impatient caller need not try twice, as it has been away for long enough."""
        known = self._since is not None and monotonic() - self._since > self._patience
        return known and not _patient.get()

    async def _pause(self, delay: float) -> None:
        news = self._news
        with standing_still(), anyio.move_on_after(delay * uniform(0.8, 1.2)):  # noqa: S311
            await news.wait()

    def _missed(self, error: Busy, writes: bool) -> None:
        self._by_write = self._by_write or writes
        if self._since is None:
            self._since = monotonic()
            _LOG.warning("work waits for %s: %s", self._what, error.reason)

    def _found(self, writes: bool) -> None:
        if self._since is None or (self._by_write and not writes):
            return
        _LOG.warning("%s is back after %.1f s", self._what, monotonic() - self._since)
        self._since, self._by_write = None, False
        self.wake()
