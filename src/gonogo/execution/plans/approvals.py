"""What answers about plans, subtasks, doubts and budgets mean: kinds of the desk."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.base import elapsed
from gonogo.domain.errors import Conflict, InvalidMessage, because
from gonogo.domain.failures import Category, Failure
from gonogo.domain.plan import Revision, dependants
from gonogo.domain.plan_views import plan_changes
from gonogo.domain.records import Approval, Plan, SubtaskRow
from gonogo.domain.replanning import WORDS, Limits
from gonogo.domain.states import DecisionWord
from gonogo.execution.approvals import ApprovalType, Matter, Ruling
from gonogo.execution.plans.controls import Pauses
from gonogo.execution.plans.ending import also_asked, completed
from gonogo.execution.plans.engine import Engine
from gonogo.execution.plans.lifecycle import Planning
from gonogo.execution.scheduling import MODEL
from gonogo.i18n import told
from gonogo.store import Tx
from gonogo.store.plans import (
    add_revision,
    count_revisions,
    current_revision,
    plan_of,
    revise_plan,
    revision_of,
    set_plan,
    subtask_key,
)
from gonogo.store.reports import runs_of_plan, used_by_plan, used_by_session
from gonogo.store.sessions import session_of, spoken_in


class PlanKind(Struct, frozen=True):
    """What a person's answer to a plan means."""

    planning: Planning

    def check(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """The answer is about the revision that the person saw."""
        _check_named(tx, _plan(tx, approval), ruling)

    def matter(self, tx: Tx, approval: Approval, ruling: Ruling) -> Matter:
        """What the plan's subtasks would be."""
        plan = _plan(tx, approval)
        revision = self.planning.edit(plan, current_revision(tx, plan), ruling.changes)
        return Matter(subtasks=revision.subtasks)

    def ask_again(self, tx: Tx, approval: Approval, ruling: Ruling) -> Approval:
        """Make the edit the plan's next revision, and put it before people."""
        plan = _plan(tx, approval)
        current, session = current_revision(tx, plan), session_of(tx, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        revision = self._take_over(tx, plan, current, ruling)
        self.planning.ending.drop_searches(tx, plan)
        if not revise_plan(tx, plan, revision, plan.floor):
            raise Conflict("Plan {plan_id} has just changed; look at it again", plan_id=plan.id)
        revised = replace(plan, revision=revision.number, digest=revision.digest)
        return self.planning.proposals.put_before_person(
            tx, session, revised, revision, changes=plan_changes(current, revision),
            edited_by=ruling.by.name, instead_of=approval,
        )  # fmt: skip

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Approve, approve as edited, hold, or reject."""
        plan = _plan(tx, approval)
        current = current_revision(tx, plan)
        _check_named(tx, plan, ruling)
        match ruling.word:
            case DecisionWord.REJECT:
                self.planning.reject(tx, plan, ruling)
            case DecisionWord.EDIT:
                revision = self._take_over(tx, plan, current, ruling)
                self.planning.approve(tx, plan, revision, ruling, edited=True)
            case _:
                edited = "edited_by" in approval.details
                self.planning.approve(tx, plan, current, ruling, edited=edited)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody decided in time."""
        self.planning.expire(tx, _plan(tx, approval))

    def _take_over(self, tx: Tx, plan: Plan, current: Revision, ruling: Ruling) -> Revision:
        """Keep what a person wrote as the next revision."""
        revision = self.planning.edit(plan, current, ruling.changes)
        kept = _untouched(completed(tx, plan), current, revision)
        add_revision(tx, revision, ruling.by.id, "edited", kept=kept)
        set_plan(tx, plan, asked_by=also_asked(plan, ruling.by.id))
        return revision


def _plan(tx: Tx, approval: Approval) -> Plan:
    plan = plan_of(tx, approval.plan_id or "")
    assert plan is not None  # noqa: S101 - approvals of this kind always name a plan
    return plan


def _untouched(
    done: Mapping[str, SubtaskRow], current: Revision, revision: Revision
) -> dict[str, SubtaskRow]:
    """What is done and stands in the edited revision as it was, with all that it built on."""
    before, after = current.by_id, revision.by_id
    other = {key for key in before if after.get(key) != before[key]}
    stale = other.union(*(dependants(current.subtasks, key) for key in other))
    return {key: row for key, row in done.items() if key not in stale}


def _check_named(tx: Tx, plan: Plan, ruling: Ruling) -> None:
    """Check that the decision is about the revision that the person saw."""
    if ruling.revision is not None and ruling.revision != plan.revision:
        raise Conflict(
            "The plan is at revision {revision} ({digest}), not {revision2}; look at the plan "
            "again",
            revision=plan.revision, digest=plan.digest, revision2=ruling.revision,
        )  # fmt: skip
    unnamed = ruling.revision is None and ruling.digest is None
    if unnamed and count_revisions(tx, plan.id) > 1:
        raise Conflict(
            "The plan has several revisions; name revision {revision} or {digest}",
            revision=plan.revision, digest=plan.digest,
        )  # fmt: skip


# Subtasks that ask before they start: the kind `subtask` of the desk.


class SubtaskKind(Struct, frozen=True):
    """What a person's answer to "may this subtask start?" means."""

    engine: Engine

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Start exactly that subtask, or leave it out."""
        match ruling.word:
            case DecisionWord.APPROVE:
                self.engine.work.resume(tx, _key(approval))
            case DecisionWord.REJECT:
                self._reject(tx, approval, ruling)
            case _:
                raise InvalidMessage(
                    "You can approve or reject the start of a subtask, but you cannot edit it"
                )

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody answered in time: the subtask is left out."""
        self._leave_out(tx, approval, "expiry")

    def _reject(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        revision = revision_of(tx, approval.plan_id or "", approval.revision or 0)
        subtask_id = approval.subtask_id or ""
        if revision is None or revision.subtask(subtask_id).on_reject != "fail":
            self._leave_out(tx, approval, ruling.by.id)
            return
        said = (ruling.feedback or "").strip()
        start = because("Its start was rejected by {name}", name=ruling.by.name)
        start = told(start, spoken_in(tx, approval.session_id))
        message = f"{start}: {said}" if said else start
        failure = Failure(message=message, category=Category.PERMISSION)
        self.engine.controls.fail_subtask(tx, revision.plan_id, subtask_id, failure)

    def _leave_out(self, tx: Tx, approval: Approval, by: str) -> None:
        self.engine.controls.skip_subtask(tx, approval.plan_id or "", approval.subtask_id or "", by)


def _key(approval: Approval) -> str:
    return subtask_key(approval.plan_id or "", approval.revision or 0, approval.subtask_id or "")


# Interventions: the kind `intervention` of the desk, by what each is about.
#
# One that says in its details under `about` what matter it is has a kind of its own. Any other
# names the call whose outcome, or whose question, it is about.


class InterventionKind(Struct, frozen=True, kw_only=True):
    """Hands each answer to what it is about."""

    of_calls: ApprovalType
    others: Mapping[str, ApprovalType] = field(default_factory=dict[str, ApprovalType])
    """By the word under `about`."""

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Go on or run again, take a person's result, or fail it."""
        self._kind_of(approval).settle(tx, approval, ruling)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody answered in time."""
        self._kind_of(approval).lapse(tx, approval)

    def _kind_of(self, approval: Approval) -> ApprovalType:
        about = str(approval.details.get("about"))
        if about in self.others:
            return self.others[about]
        if approval.call_id is None:
            raise Conflict(
                "gonogo cannot carry out an answer about {about!r}; update gonogo, or cancel "
                "the plan",
                about=about,
            )
        return self.of_calls


# Budgets that are spent: the question about one, and what its answers mean.

_MOST = 1e15


class BudgetKind(Struct, frozen=True, kw_only=True):
    """The answers about budgets: more of the same, other limits, or the end."""

    pauses: Pauses
    limits: Limits
    """Those of the settings: what an approval adds."""

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Go on with more, or end the plan."""
        plan_id = approval.plan_id or ""
        match ruling.word:
            case DecisionWord.REJECT:
                name = ruling.by.name
                said = because("the budget is spent, and {name} did not extend it", name=name)
                self.pauses.give_up(tx, plan_id, said)
            case DecisionWord.EDIT:
                limits = _limits(ruling.changes)
                _check_used(tx, plan_id, limits)
                self.pauses.extend(tx, plan_id, limits, ruling.by.id)
            case _:
                more = self._more(tx, approval)
                self.pauses.extend(tx, plan_id, more, ruling.by.id)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody answered in time."""
        said = because("the budget is spent, and the question about it expired")
        self.pauses.give_up(tx, approval.plan_id or "", said)

    def _more(self, tx: Tx, approval: Approval) -> Limits:
        what, limit = approval.details["what"], approval.details["limit"]
        base = max(limit, approval.details["used"])
        plan = plan_of(tx, approval.plan_id or "")
        if what == "seconds" and plan is not None and plan.started_at is not None:
            # The time that the question itself took is not held against the plan.
            base = max(base, elapsed(plan.started_at, tx.now))
        return {what: base + self.limits.get(what, limit)}


def _check_used(tx: Tx, plan_id: str, limits: Limits) -> None:
    """Refuse limits that are reached already: the same question would come back at once."""
    plan = plan_of(tx, plan_id)
    if plan is None:
        return
    used = used_by_plan(tx, plan_id).by_word() | {"subtasks": runs_of_plan(tx, plan)}
    used |= used_by_session(tx, plan.session_id).by_word("session_")
    if plan.started_at is not None:
        used["seconds"] = elapsed(plan.started_at, tx.now)
    low = [what for what, limit in limits.items() if limit <= used.get(what, 0)]
    if low:
        said = "; ".join(f"{what}: {used[what]:g} used, {limits[what]:g} given" for what in low)
        raise InvalidMessage("A limit must be higher than what is already used: {said}", said=said)


def _limits(changes: Any) -> Limits:  # noqa: ANN401 - as the person sent it
    given = _result(changes)
    if not isinstance(given, dict) or not given:
        raise InvalidMessage(
            "A budget is edited with modified_arguments {shape}", shape='{"result": {…limits}}'
        )
    found = cast("Mapping[str, Any]", given)
    for name, value in found.items():
        if name not in WORDS:
            raise InvalidMessage(
                "There is no limit {name!r}; use {known}", name=name, known=", ".join(sorted(WORDS))
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidMessage("{name} must be a number", name=name)
        if not 0 < value <= _MOST:
            raise InvalidMessage(
                "{name} must be above zero and at most {most:g}", name=name, most=_MOST
            )
    return found


def _result(changes: Any) -> Any:  # noqa: ANN401 - as the person sent it
    """What a person gave in the place of a result."""
    return cast("dict[str, Any]", changes).get("result") if isinstance(changes, dict) else None


# Models that do not answer: what the answers about one mean.


class AbsenceKind(Struct, frozen=True, kw_only=True):
    """The answers about a model that does not answer: wait on, ask another, or end the plan."""

    pauses: Pauses

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Wait for as long again, ask another one, or end the plan with what it has reached."""
        plan_id = approval.plan_id or ""
        match ruling.word:
            case DecisionWord.APPROVE:
                self.pauses.wait_on(tx, plan_id, ruling.by.id)
            case DecisionWord.REJECT:
                name = ruling.by.name
                said = because("the model did not answer, and {name} waited no longer", name=name)
                self.pauses.give_up(tx, plan_id, said, about=MODEL)
            case DecisionWord.EDIT if approval.details.get("models"):
                model = _chosen_model(ruling.changes, approval.details["models"])
                self.pauses.ask_other(tx, plan_id, model, ruling.by.id)
            case _:
                raise InvalidMessage(
                    "You can approve or reject more waiting, but you cannot edit it: there is "
                    "no other model"
                )

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody answered in time."""
        said = because("the model did not answer, and the question about it expired")
        self.pauses.give_up(tx, approval.plan_id or "", said, about=MODEL)


def _chosen_model(changes: Any, models: Sequence[str]) -> str:  # noqa: ANN401 - as it was sent
    given = _result(changes)
    model: Any = cast("dict[str, Any]", given).get("model") if isinstance(given, dict) else None
    if model not in models:
        raise InvalidMessage(
            'To choose another model, send modified_arguments {{"result": {{"model": NAME}}}}; '
            "NAME is one of {models}",
            models=", ".join(models),
        )
    return model
