"""Analytics: what came of the work over some time."""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from gonogo.domain.audit_chain import SYSTEM, Anchor, AuditFilter, AuditPlace, ChainHead, end_of
from gonogo.domain.base import elapsed
from gonogo.domain.errors import Conflict, InvalidMessage, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan_views import (
    WINDOW,
    Analytics,
    ApprovalOutcomes,
    AuditAnchor,
    AuditEntry,
    AuditReport,
    CallOutcomes,
    FailureCause,
    ModelUse,
    PlanOutcomes,
    SubtaskOutcomes,
    percentiles,
    rate,
)
from gonogo.domain.tool_calls import TOKENS
from gonogo.domain.views import Audit, CallView, Judgement, PolicyView, RuleView
from gonogo.execution.agent import explained
from gonogo.policy import Rule
from gonogo.policy.reviewers import ReviewRule
from gonogo.runtime.services import Parts, bare_thread
from gonogo.runtime.sessions import visible, whose
from gonogo.store import Tx, patiently
from gonogo.store import audit as audit_log
from gonogo.store import audit as auditing
from gonogo.store import events as log
from gonogo.store.audit import Stretch
from gonogo.store.calls import JudgedCall, judged_calls
from gonogo.store.people import OWNER, names
from gonogo.store.reports import Counted, count

_PENDING = "pending"


class Reports(Struct, frozen=True):
    """The queries about what came of the work."""

    _parts: Parts

    async def analytics(
        self,
        principal: Principal,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Analytics:
        """What came of plans, subtasks, questions, tool calls and requests to models.

        Args:
            session_id: Only of this session; else of all that the principal may see.
            since: By default thirty days before `until`.
            until: By default now.

        Raises:
            InvalidMessage: the time ends before it begins.
            NotFound: there is no such session that the principal may see.
        """
        try:
            last = (until or self._parts.store.clock()).astimezone(UTC)
            first = (since or last - WINDOW).astimezone(UTC)
        except OverflowError:
            raise InvalidMessage(
                "since, until: there is no such date; write one such as 2026-01-31"
            ) from None
        if first >= last:
            raise InvalidMessage("since: must be before until")
        found = await self._parts.store.read(_counted, principal, session_id, first, last)
        return _summary(found, session_id, first, last)

    async def calls(
        self,
        principal: Principal,
        session_id: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[CallView]:
        """A page of the calls that the principal may see, oldest first.

        Raises:
            NotFound: there is no such session that the principal may see.
        """
        page = {"since": since or _BEGINNING, "limit": limit, "offset": offset}
        found = await self._parts.store.read(_page, principal, session_id, page)
        return [_call_view(call) for call in found]


def _counted(
    tx: Tx,
    principal: Principal,
    session_id: str | None,
    since: datetime,
    until: datetime,
) -> Counted:
    if session_id is not None:
        visible(tx, principal, session_id)
    of = whose(principal)
    return count(tx, principal_id=of, session_id=session_id, since=since, until=until)


def _summary(found: Counted, session_id: str | None, since: datetime, until: datetime) -> Analytics:
    return Analytics(
        since=since,
        until=until,
        session_id=session_id,
        plans=_plans(found),
        subtasks=_subtasks("all", found, lambda row: True),
        by_worker=_each(found, lambda row: row.worker),
        by_type=_each(found, lambda row: row.type),
        failures=[
            FailureCause(category=row.category, worker=row.worker, type=row.type, count=row.many)
            for row in found.failures
        ],
        approvals=_approvals(found),
        tool_calls=_calls(found.calls),
        models=[
            ModelUse(
                model=row.model, requests=row.requests, failed=int(row.failed),
                **{name: int(getattr(row, name)) for name in TOKENS},
                cost_dollars=int(row.cost_micros) / 1_000_000,
            )
            for row in found.models
        ],
    )  # fmt: skip


def _plans(found: Counted) -> PlanOutcomes:
    by_status = {str(row[0]): row[1] for row in found.plans}
    ended = sum(by_status.values())
    return PlanOutcomes(
        **by_status,
        ended=ended,
        success_rate=rate(by_status.get("completed", 0), ended),
        replans=sum(int(row[2]) for row in found.plans),
        rollbacks=found.rollbacks,
        duration_seconds=percentiles(elapsed(*row) for row in found.plan_times),
    )


def _each(found: Counted, name: Callable[[Any], str]) -> list[SubtaskOutcomes]:
    names = sorted({name(row) for row in found.subtasks})
    return [_subtasks(each, found, lambda row, each=each: name(row) == each) for each in names]


def _subtasks(name: str, found: Counted, wanted: Callable[[Any], bool]) -> SubtaskOutcomes:
    counted = [row for row in found.subtasks if wanted(row)]
    by_status = _added((str(row.status), row.many) for row in counted)
    completed, failed = by_status.get("completed", 0), by_status.get("failed", 0)
    times = [row for row in found.subtask_times if wanted(row)]
    return SubtaskOutcomes(
        **by_status,
        name=name,
        ended=sum(by_status.values()),
        retries=sum(int(row.retries) for row in counted),
        success_rate=rate(completed, completed + failed),
        duration_seconds=percentiles(elapsed(row.started_at, row.finished_at) for row in times),
    )


def _approvals(found: Counted) -> list[ApprovalOutcomes]:
    kinds = sorted({str(row.kind) for row in found.approvals})
    return [_kind(kind, found) for kind in kinds]


def _kind(kind: str, found: Counted) -> ApprovalOutcomes:
    counts = {str(row.status): row.many for row in found.approvals if row.kind == kind}
    answers = [row for row in found.answers if row.kind == kind]
    return ApprovalOutcomes(
        kind=kind,
        asked=sum(counts.values()),
        pending=counts.pop(_PENDING, 0),
        answers=counts,
        latency_seconds=percentiles(elapsed(row.created_at, row.decided_at) for row in answers),
    )


def _calls(counted: list[Any]) -> CallOutcomes:
    ends = {"completed", "failed", "denied", "rejected", "expired", "cancelled", "unknown"}
    return CallOutcomes(
        asked=sum(row.many for row in counted),
        started=_added((row.source, row.many) for row in counted if row.source != "nobody"),
        ended=_added((str(row.status), row.many) for row in counted if row.status in ends),
    )


def _added(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, number in pairs:
        found[name] += number
    return dict(sorted(found.items()))


_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_JUDGED_BY = ("path", "source", "destination", "patch", "command", "cwd")
"""The arguments that say what a call touches; what it writes is of no interest here."""


def _page(
    tx: Tx, principal: Principal, session_id: str | None, page: dict[str, Any]
) -> list[JudgedCall]:
    if session_id is not None:
        visible(tx, principal, session_id)
    return judged_calls(tx, session_id=session_id, principal_id=whose(principal), **page)


def _call_view(call: JudgedCall) -> CallView:
    said = call.verdict
    return CallView.of(
        call, call_id=call.id, tool_name=call.tool,
        arguments={n: call.arguments[n] for n in _JUDGED_BY if n in call.arguments},
        decision=said.get("decision"), rule=said.get("rule"), reason=said.get("reason"),
    )  # fmt: skip


# The rules in force, for those who answer for them, and what they make of a call.


class Policies(Struct, frozen=True):
    """The queries about the rules of the files."""

    _parts: Parts

    def in_force(self, principal: Principal) -> PolicyView:
        """The rules and the rules of review that were read when this began.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        rules = self._parts.gate.rules
        return PolicyView(
            version=rules.version,
            rules=[_rule_view(rule) for rule in rules.all()],
            reviews=[_rule_view(rule) for rule in self._parts.desk.reviews.rules],
        )

    async def judge(
        self, principal: Principal, tool: str, arguments: dict[str, Any], agent: str
    ) -> Judgement:
        """Judge a call in the server's own folder as the gate would; nothing runs.

        Raises:
            Forbidden: the principal is no admin.
            NotFound: there is no such agent.
        """
        principal.require(Role.ADMIN)
        gate = self._parts.gate
        if agent not in gate.profiles:
            raise NotFound(
                "There is no agent {agent!r}; see the agents in GET /api/v1/agents", agent=agent
            )
        thread = bare_thread(self._parts.settings.workspace, agent)
        gated = await gate.judge(thread, tool, arguments)
        shown = explained(gated, gate.rules)
        return Judgement.model_validate({**shown, "preview": gated.preview})


def _rule_view(rule: Rule | ReviewRule) -> RuleView:
    tier: Literal["admin", "user"] = "admin" if rule.name.startswith("admin:") else "user"
    written = rule.text.model_dump(mode="json", exclude_defaults=True)
    return RuleView(name=rule.name, tier=tier, where=rule.where, rule=written)


# The verbs about the audit log: read, export, verify, anchor, shorten.

_PAGE = 50
"""Entries that are in memory at once while the log is exported."""
_ANY = AuditFilter()
_Next = Callable[[Tx, str], list[Stretch]]


class AuditLog(Struct, frozen=True):
    """What can be done with the audit log; nothing changes an entry."""

    _parts: Parts

    async def entries(
        self,
        principal: Principal,
        session_id: str | None = None,
        after: int = 0,
        limit: int = 100,
        wanted: AuditFilter = _ANY,
    ) -> list[AuditEntry]:
        """Entries of a session's audit chain, or of the system's, oldest first.

        An unknown session has none.
        """
        chain = session_id or SYSTEM
        if chain == SYSTEM:
            principal.require(Role.ADMIN)
        try:
            return await self._parts.store.read(_entries, principal, chain, after, limit, wanted)
        except NotFound:
            return []

    async def page(
        self,
        principal: Principal,
        wanted: AuditFilter = _ANY,
        before: AuditPlace | None = None,
        limit: int = 100,
    ) -> Audit:
        """The newest entries of all chains that the principal may read, oldest first.

        A page with a `before` is not the last one, even if it is short or empty: it looked at as
        many entries as one page may.

        Args:
            before: Only what stands before this place.
        """
        principal.require(Role.VIEWER)
        return await self._parts.store.read(_log_page, principal, wanted, before, limit)

    async def verify(
        self,
        principal: Principal,
        anchors: Sequence[Anchor] = (),
        session_id: str | None = None,
    ) -> AuditReport:
        """Walk the audit chains, and name each entry that was changed, removed or moved.

        Args:
            anchors: Kept elsewhere; where they say that chains stood, they must stand.
            session_id: Look at this session's chain alone, and at the system's.

        Raises:
            NotFound: there is no such session that the principal may see.
        """
        principal.require(Role.VIEWER)
        # This tells whether the database is away; that a long walk takes its time is not that.
        await self._parts.store.read(log.extent_of, SYSTEM)
        with patiently():
            return await self._parts.store.read(_verify, principal, anchors, session_id)

    async def anchor(self, principal: Principal) -> AuditAnchor:
        """Note where every chain stands; the anchor's text is for keeping elsewhere.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        await self._parts.store.write(auditing.set_anchor, principal.id)
        anchor = await self._parts.store.read(auditing.last_anchor)
        return AuditAnchor(
            text=anchor.text(), at=anchor.at, seq=anchor.seq, hash=anchor.hash,
            chains=anchor.chains, heads=anchor.heads,
        )  # fmt: skip

    async def export(
        self,
        principal: Principal,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        removable: datetime | None = None,
    ) -> AsyncGenerator[str]:
        """The log as lines of JSON, each chain in order, and a last line that says how much it was.

        Args:
            since: Leave out what came before.
            until: Leave out what came from then on.
            removable: Only what could be removed of what came before this.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        if removable is not None:
            before = removable
            self._check_age(before)
            return self._lines(lambda tx, after: auditing.removable(tx, after, session_id, before))
        return self._lines(lambda tx, after: auditing.windows(tx, after, session_id, since, until))

    async def prune(
        self, principal: Principal, before: datetime, heads: Sequence[ChainHead]
    ) -> list[ChainHead]:
        """Remove the beginnings of chains up to entries that were exported.

        Gives those that were removed; what a session needs that is under way stays.

        Raises:
            Forbidden: the principal is no admin.
            Conflict: nothing may be removed here, or an entry is not the exported one.
            InvalidMessage: `before` is not long enough ago.
        """
        principal.require(Role.ADMIN)
        self._check_age(before)
        return await self._parts.store.write(auditing.prune, heads, before, principal.id)

    def _check_age(self, before: datetime) -> None:
        days = self._parts.settings.keep_audit_days
        if not days:
            raise Conflict(
                "The audit log is kept forever; to remove old entries, set GONOGO_KEEP_AUDIT_DAYS"
            )
        limit = self._parts.store.clock() - timedelta(days=days)
        if before > limit:
            raise InvalidMessage(
                "before: entries are kept for {days:g} days (GONOGO_KEEP_AUDIT_DAYS), so this "
                "must not be after {limit}",
                days=days, limit=f"{limit:%Y-%m-%dT%H:%M:%SZ}",
            )  # fmt: skip

    async def _lines(self, find: _Next) -> AsyncGenerator[str]:
        digest, chains, entries, after = hashlib.sha256(), 0, 0, ""
        while found := await self._parts.store.read(find, after):
            for stretch in found:
                head = ""
                async for text, more, ends in self._stretch(stretch):
                    entries, head = entries + more, ends
                    yield text
                digest.update(f"{stretch.chain} {stretch.last} {head}\n".encode())
            chains, after = chains + len(found), found[-1].chain
        yield json.dumps({"end": end_of(chains, entries, digest.hexdigest())}) + "\n"

    async def _stretch(self, stretch: Stretch) -> AsyncIterator[tuple[str, int, str]]:
        after = stretch.first - 1
        while after < stretch.last:
            page = await self._parts.store.read(
                auditing.links, stretch.chain, after, stretch.last, _PAGE
            )
            if not page:
                return
            yield "".join(link.line() + "\n" for link in page), len(page), page[-1].hash
            after = page[-1].seq


def _verify(
    tx: Tx, principal: Principal, anchors: Sequence[Anchor], session_id: str | None
) -> AuditReport:
    if session_id is not None and not (
        whose(principal) is None and auditing.has_chain(tx, session_id)
    ):
        visible(tx, principal, session_id)
    return auditing.verify(tx, anchors, session_id)


def _entries(
    tx: Tx,
    principal: Principal,
    chain: str,
    after: int,
    limit: int,
    wanted: AuditFilter,
) -> list[AuditEntry]:
    if whose(principal) is not None:
        visible(tx, principal, chain)
    sieve = audit_log.sieve(tx, wanted)
    return _named(tx, audit_log.chain_entries(tx, chain, after, limit, sieve))


def _log_page(
    tx: Tx,
    principal: Principal,
    wanted: AuditFilter,
    before: AuditPlace | None,
    limit: int,
) -> Audit:
    sieve = audit_log.sieve(tx, wanted)
    found, rest = audit_log.newest_entries(tx, whose(principal), before, limit, sieve)
    return Audit(entries=_named(tx, found), before=rest.text() if rest else None)


def _named(tx: Tx, found: Sequence[AuditEntry]) -> list[AuditEntry]:
    # The owner has the name of the token that commands use as well, which says less.
    known = {**names(tx, (entry.actor for entry in found)), OWNER.id: OWNER.name}
    return [
        entry.model_copy(update={"actor_name": known[entry.actor]})
        if entry.actor in known
        else entry
        for entry in found
    ]
