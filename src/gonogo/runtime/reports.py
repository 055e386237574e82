"""Analytics: what came of the work over some time."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from gonogo.domain.errors import InvalidMessage, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.report_views import (
    WINDOW,
    Analytics,
    ApprovalOutcomes,
    CallOutcomes,
    FailureCause,
    ModelUse,
    PlanOutcomes,
    SubtaskOutcomes,
    percentiles,
    rate,
)
from gonogo.domain.schedule import elapsed
from gonogo.domain.tool_calls import TOKENS
from gonogo.domain.views import CallView, Judgement, PolicyView, RuleView
from gonogo.execution.agent import explained
from gonogo.policy import Rule
from gonogo.policy.reviewers import ReviewRule
from gonogo.runtime.services import Parts, bare_thread
from gonogo.runtime.sessions import visible, whose
from gonogo.store import Tx
from gonogo.store.calls import JudgedCall, judged_calls
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
    return CallView(
        call_id=call.id, session_id=call.session_id, agent=call.agent, tool_name=call.tool,
        tool_class=call.tool_class, plan_id=call.plan_id, revision=call.revision,
        subtask_id=call.subtask_id, created_at=call.created_at, answer=call.answer,
        granted=call.granted, scope=call.scope,
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
