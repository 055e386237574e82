"""What answers about plans, subtasks, interventions and budgets do, and comments on plans."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.base import elapsed
from gonogo.domain.errors import Conflict, InvalidMessage, RateLimited, because
from gonogo.domain.events import CommentFacts, PlanChanged, PlanChangedFacts, PlanCommented
from gonogo.domain.failures import Category, Failure
from gonogo.domain.identity import Principal
from gonogo.domain.plan import Revision, dependants, no_subtask
from gonogo.domain.plan_views import plan_changes
from gonogo.domain.records import Approval, Comment, Plan, SubtaskRow
from gonogo.domain.replanning import WORDS, BudgetSpent, Limits, next_revision
from gonogo.domain.reviews import MOST_OPEN, checked_content, comment_facts, read_answers
from gonogo.domain.states import ApprovalStatus, DecisionWord, PlanStatus
from gonogo.execution.approvals import ApprovalService, ApprovalType, Matter, Ruling
from gonogo.execution.plans.controls import Pauses
from gonogo.execution.plans.ending import ARCHITECT, also_asked, completed, revise_thread
from gonogo.execution.plans.engine import Engine
from gonogo.execution.plans.lifecycle import Planning
from gonogo.execution.plans.replanning import ArchitectTalk
from gonogo.execution.scheduling import MODEL, REPLAN, Superseded
from gonogo.i18n import say, told
from gonogo.store import Tx, go_on, new_id
from gonogo.store import events as log
from gonogo.store.calls import (
    add_comment,
    answer_comment,
    approval_of_plan,
    comments_of,
    count_open_comments,
    lock_approval,
)
from gonogo.store.plans import (
    add_revision,
    count_revisions,
    current_revision,
    end_revising,
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
        """Check that the answer is about the revision that the person saw."""
        _check_named(tx, _plan(tx, approval), ruling)

    def matter(self, tx: Tx, approval: Approval, ruling: Ruling) -> Matter:
        """What the plan's subtasks would be after the edit."""
        plan = _plan(tx, approval)
        revision = self.planning.edit(plan, current_revision(tx, plan), ruling.changes)
        return Matter(subtasks=revision.subtasks)

    def ask_again(self, tx: Tx, approval: Approval, ruling: Ruling) -> Approval:
        """Make the edit the plan's next revision, and ask people about it."""
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
        """Expire the plan, as nobody decided in time."""
        self.planning.expire(tx, _plan(tx, approval))

    def _take_over(self, tx: Tx, plan: Plan, current: Revision, ruling: Ruling) -> Revision:
        """Store what a person wrote as the next revision."""
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
    """The completed subtasks that the edit did not change, nor anything that they depend on."""
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
        """Leave the subtask out, as nobody answered in time."""
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
# An intervention whose details have a known word under `about` has a type of its own. Any other one
# names the call whose outcome, or whose question, it is about.


class InterventionKind(Struct, frozen=True, kw_only=True):
    """Hands each answer to the type that knows what it is about."""

    of_calls: ApprovalType
    others: Mapping[str, ApprovalType] = field(default_factory=dict[str, ApprovalType])
    """By the word under `about`."""

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Go on or run again, take a person's result, or fail it."""
        self._kind_of(approval).settle(tx, approval, ruling)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Carry out what follows if nobody answered in time."""
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


# Budgets that are spent: what the answers about them do.

_MOST = 1e15


class BudgetKind(Struct, frozen=True, kw_only=True):
    """The answers about budgets: more of the same, other limits, or the end."""

    pauses: Pauses
    limits: Limits
    """The limits in the settings: an approval adds the same again."""

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
        """End the plan, as nobody answered in time."""
        said = because("the budget is spent, and the question about it expired")
        self.pauses.give_up(tx, approval.plan_id or "", said)

    def _more(self, tx: Tx, approval: Approval) -> Limits:
        what, limit = approval.details["what"], approval.details["limit"]
        base = max(limit, approval.details["used"])
        plan = plan_of(tx, approval.plan_id or "")
        if what == "seconds" and plan is not None and plan.started_at is not None:
            # The time that the question itself took does not count against the plan.
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
    """The result that a person gave in an edit."""
    return cast("dict[str, Any]", changes).get("result") if isinstance(changes, dict) else None


# Models that do not answer: what the answers about them do.


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
        """End the plan, as nobody answered in time."""
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


# Comments on a plan that waits for a person, and the revision that answers them.
#
#     awaiting_approval, revision n ── comments; they decide nothing
#         │ a person sends it back
#         ▼
#     awaiting_approval, revision n, the planner at work ── a decision ends the search
#         │                                  └── nothing found: as it was, the comments open
#         ▼
#     awaiting_approval, revision n+1: asks anew, and answers each comment that was sent back
#
# The question stays open all the time, so a decision is never in vain. Whoever comments, sends
# back, decides or proposes locks the question's row, so that these happen one after the other.

# What the planner gets of a plan that came back with comments: both, as data.

_EARLIER = 20
"""Answered comments that are shown again, so that the planner does not undo what they led to."""


def brief(tx: Tx, plan: Plan, locale: str) -> str:
    """The first message of the conversation in which comments are answered."""
    revision = current_revision(tx, plan)
    wanted = set((plan.revising or {}).get("comments", ()))
    found = comments_of(tx, plan.id)
    subtasks = [s.model_dump(mode="json", exclude_none=True) for s in revision.subtasks]
    current: dict[str, Any] = {
        "goal": revision.goal, "subtasks": subtasks, "completed": sorted(completed(tx, plan)),
    }  # fmt: skip
    parts = [
        say("model_revise", locale),
        say("model_revise_task", locale, task=plan.original_task),
        say("model_revise_plan", locale, plan=_json(current)),
        say("model_revise_comments", locale, comments=_json(
            [comment_facts(comment) for comment in found if comment.id in wanted]
        )),
    ]  # fmt: skip
    if earlier := [comment_facts(c) for c in found if c.answer is not None][-_EARLIER:]:
        parts.append(say("model_revise_earlier", locale, comments=_json(earlier)))
    return "\n\n".join(parts)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class ReviseTalk(ArchitectTalk, frozen=True):
    """The conversation in which a plan's planner answers comments on it."""

    column: ClassVar = "revising"

    @property
    def name(self) -> str:
        """A name for each time that the plan is sent back."""
        return revise_thread(self.plan)

    @property
    def script(self) -> str:
        """The name for scripted models, with the revision that was commented on."""
        return f"revise-{self.plan.revision}"

    def brief(self, tx: Tx, locale: str) -> str:
        """The plan, and the comments on it."""
        return brief(tx, self.plan, locale)

    def check(self, tx: Tx) -> None:
        """Raise `Superseded` when the plan is no longer with its planner, or was sent back again.

        This locks the question's row, as a decision does.
        """
        asked = approval_of_plan(tx, self.plan.id)
        if asked is not None:
            lock_approval(tx, asked.id)
        current = plan_of(tx, self.plan.id)
        found = current.revising if current else None
        if found is None or current is None or current.status is not PlanStatus.AWAITING_APPROVAL:
            raise Superseded(f"Plan {self.plan.id} is no longer with its planner")
        if found["id"] != (self.plan.revising or {}).get("id"):
            raise Superseded(f"Plan {self.plan.id} was sent back again")


class Answering(Struct, frozen=True, kw_only=True):
    """Takes comments on plans, and has the planner answer them."""

    desk: ApprovalService
    planning: Planning

    def talk(self, plan: Plan) -> ArchitectTalk:
        """The conversation in which the comments are answered."""
        return ReviseTalk(plan)

    # What people do ---------------------------------------------------------------------------

    def comment(
        self,
        tx: Tx,
        plan_id: str,
        content: str,
        by: Principal,
        *,
        subtask_id: str | None = None,
        revision: int | None = None,
    ) -> Comment:
        """Store a person's comment on a plan, or on one of its subtasks.

        Args:
            revision: The one that they saw; None: the current one.

        Raises:
            Conflict: the plan does not wait for approval, or is at another revision.
            NotFound: it has no such subtask.
            RateLimited: it has too many comments without an answer.
            InvalidMessage: nothing is said, or too much.
        """
        said = checked_content(content)
        plan, _ = _waiting(tx, plan_id)
        self._check_named(tx, plan, subtask_id, revision)
        count = count_open_comments(tx, plan_id) + 1
        if count > MOST_OPEN:
            raise RateLimited(
                "A plan can have at most {most} comments without an answer; send it back to its "
                "planner first",
                most=MOST_OPEN,
            )
        comment = Comment(
            id=new_id("comment"), session_id=plan.session_id, plan_id=plan_id,
            revision=plan.revision, subtask_id=subtask_id, author_id=by.id, author=by.name,
            content=said, created_at=tx.now,
        )  # fmt: skip
        add_comment(tx, comment)
        _tell_commented(tx, comment, count)
        return comment

    def send_back(self, tx: Tx, plan_id: str, by: Principal) -> None:
        """Have the planner answer the open comments with another revision.

        Raises:
            Conflict: the plan does not wait for approval, is with its planner already, or has no
                open comment.
        """
        plan, _ = _waiting(tx, plan_id)
        if plan.revising is not None:
            raise Conflict(
                "Plan {plan_id} is already with its planner; wait for the new revision",
                plan_id=plan_id,
            )
        wanted = [comment.id for comment in comments_of(tx, plan_id) if comment.answer is None]
        if not wanted:
            raise Conflict(
                "Plan {plan_id} has no comment without an answer; comment on it first",
                plan_id=plan_id,
            )
        about = {"id": new_id("revise"), "by": by.id, "comments": wanted, "began": None}
        if not set_plan(tx, plan, revising=about):
            raise Conflict("Plan {plan_id} has just changed; look at it again", plan_id=plan_id)
        facts = PlanChangedFacts(plan_id=plan.id, by=by.id, open_comments=len(wanted))
        said = say("plan_sent_back", spoken_in(tx, plan.session_id), count=len(wanted))
        event = PlanChanged(
            type="plan_sent_back", content=said, plan_id=plan.id, agent=ARCHITECT, metadata=facts
        )
        log.tell(tx, plan.session_id, event)
        log.note(
            tx, plan.session_id, actor=by.id, action="plan.sent_back", subject=plan.id,
            revision=plan.revision, digest=plan.digest, comments=wanted,
        )  # fmt: skip
        go_on(tx, REPLAN, plan.id)

    def _check_named(
        self, tx: Tx, plan: Plan, subtask_id: str | None, revision: int | None
    ) -> None:
        if revision is not None and revision != plan.revision:
            raise Conflict(
                "The plan is at revision {revision} ({digest}), not {revision2}; look at the "
                "plan again",
                revision=plan.revision, digest=plan.digest, revision2=revision,
            )  # fmt: skip
        if subtask_id is not None and subtask_id not in current_revision(tx, plan).by_id:
            raise no_subtask(plan.id, subtask_id)

    # The search -------------------------------------------------------------------------------

    def ready(self, tx: Tx, plan: Plan) -> bool:
        """Whether the plan is with its planner."""
        return plan.revising is not None

    def revision(self, tx: Tx, plan: Plan, arguments: Mapping[str, Any], locale: str) -> Revision:
        """The proposed revision; it may be the same again, if the answers say why.

        Raises:
            InvalidPlan: it is not valid, or a comment has no answer.
        """
        kept = set(completed(tx, plan))
        read_answers(arguments.get("answers"), _wanted(plan))
        rest = self.planning.proposed(arguments, kept)
        revision = next_revision(current_revision(tx, plan), kept, rest)
        return self.planning.proposals.in_order(revision)

    def adopt(self, tx: Tx, plan: Plan, revision: Revision, arguments: Mapping[str, Any]) -> None:
        """Ask people about the revision instead of the old one, and show the answers."""
        session, asked = session_of(tx, plan.session_id), approval_of_plan(tx, plan.id)
        assert session is not None and asked is not None  # noqa: S101, PT018 - `check` found it
        current = current_revision(tx, plan)
        kept = completed(tx, plan)
        add_revision(tx, revision, f"agent:{ARCHITECT}", "answered comments", kept=kept)
        set_plan(tx, plan, asked_by=also_asked(plan, (plan.revising or {}).get("by")))
        told = session.instructions
        if not revise_plan(tx, plan, revision, plan.floor, instructions=told):
            raise Superseded(f"Plan {plan.id} changed at this moment")
        answers = read_answers(arguments.get("answers"), _wanted(plan))
        for comment_id, answer in answers.items():
            answer_comment(tx, comment_id, answer, revision.number)
        log.note(
            tx, plan.session_id, actor=f"agent:{ARCHITECT}", action="plan.comments_answered",
            subject=plan.id, revision=revision.number, digest=revision.digest, answers=answers,
        )  # fmt: skip
        self.planning.ending.drop_search(tx, plan, revise_thread(plan))
        self.desk.withdraw(tx, asked, ApprovalStatus.SUPERSEDED)
        revised = replace(
            plan, revision=revision.number, digest=revision.digest, revising=None,
            instructions=told,
        )  # fmt: skip
        self.planning.proposals.put_before_person(
            tx, session, revised, revision, changes=plan_changes(current, revision),
            replan=asked.details.get("replan"), instead_of=asked,
        )  # fmt: skip

    def spent(self, tx: Tx, plan: Plan, error: BudgetSpent) -> None:
        """End the search, as a budget is spent; the plan waits as it was, as in `give_up`."""
        locale = spoken_in(tx, plan.session_id)
        self.give_up(tx, plan, say("replan_gave_up", locale, reason=error))

    def give_up(self, tx: Tx, plan: Plan, reason: str) -> None:
        """End the search without a new revision; the plan waits as it was, with open comments."""
        self.planning.ending.drop_search(tx, plan, revise_thread(plan))
        end_revising(tx, plan.id)
        count = count_open_comments(tx, plan.id)
        facts = PlanChangedFacts(plan_id=plan.id, reason=reason, open_comments=count)
        said = say("plan_not_revised", spoken_in(tx, plan.session_id), reason=reason)
        event = PlanChanged(
            type="plan_not_revised", content=said, plan_id=plan.id, agent=ARCHITECT,
            metadata=facts, is_final=True,
        )  # fmt: skip
        log.tell(tx, plan.session_id, event)
        log.note(
            tx, plan.session_id, actor="gonogo", action="plan.not_revised", subject=plan.id,
            revision=plan.revision, reason=reason, open_comments=count,
        )  # fmt: skip


def _waiting(tx: Tx, plan_id: str) -> tuple[Plan, Approval]:
    """A plan that waits for approval, and its question, locked until the transaction ends.

    Raises:
        Conflict: the plan does not wait for approval, or its question is closed.
    """
    asked = approval_of_plan(tx, plan_id)
    asked = lock_approval(tx, asked.id) if asked else None
    plan = plan_of(tx, plan_id)
    if plan is None or asked is None or plan.status is not PlanStatus.AWAITING_APPROVAL:
        status = plan.status if plan else "gone"
        raise Conflict(
            "Plan {plan_id} is {plan_status}; you can comment only on a plan that waits for "
            "approval",
            plan_id=plan_id, plan_status=status,
        )  # fmt: skip
    over = asked.expires_at is not None and asked.expires_at <= tx.now
    if over or asked.status is not ApprovalStatus.PENDING:
        raise Conflict(
            "The question about plan {plan_id} is closed; look at it again", plan_id=plan_id
        )
    return plan, asked


def _wanted(plan: Plan) -> Sequence[str]:
    return (plan.revising or {}).get("comments", ())


def _tell_commented(tx: Tx, comment: Comment, count: int) -> None:
    locale = spoken_in(tx, comment.session_id)
    where = f" ({comment.subtask_id})" if comment.subtask_id else ""
    said = say(
        "plan_commented", locale, author=comment.author, where=where, content=comment.content
    )
    facts = CommentFacts(
        plan_id=comment.plan_id, revision=comment.revision, comment_id=comment.id,
        subtask_id=comment.subtask_id, author=comment.author, content=comment.content,
        open_comments=count,
    )  # fmt: skip
    event = PlanCommented(content=said, plan_id=comment.plan_id, metadata=facts)
    log.tell(tx, comment.session_id, event)
    log.note(
        tx, comment.session_id, actor=comment.author_id, action="plan.commented",
        subject=comment.plan_id, comment_id=comment.id, revision=comment.revision,
        subtask_id=comment.subtask_id, content=comment.content,
    )  # fmt: skip
