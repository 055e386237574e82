"""Planning: a plan from its proposal to its end, and the effects of a person's decision on it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.conditions import check_references, references
from gonogo.domain.errors import (
    Conflict,
    InvalidArguments,
    InvalidPlan,
    NotFound,
    Reason,
    defects_of,
)
from gonogo.domain.events import (
    AgentSwitched,
    AssistantMessage,
    PlanApproved,
    PlanApprovedFacts,
    PlanFacts,
    PlanNotified,
    PlanRejected,
    PlanRejectedFacts,
    SwitchFacts,
)
from gonogo.domain.findings import Finding, FindingSeverity, findings
from gonogo.domain.identity import Principal
from gonogo.domain.plan import (
    MAX_DESCRIPTION,
    MAX_GOAL,
    KindRule,
    Revision,
    Subtask,
    critical_path,
    parse_subtasks,
    with_types,
    worker_name,
)
from gonogo.domain.plan_views import PlanChanges, as_planned
from gonogo.domain.records import MAIN, Approval, Plan, Session, Turn
from gonogo.domain.reviews import standing_comments
from gonogo.domain.states import (
    ENDED,
    ApprovalKind,
    DecisionWord,
    PlanStatus,
    SubtaskStatus,
    TurnStatus,
)
from gonogo.domain.text_safety import is_blank, visible_json
from gonogo.domain.tool_calls import RUNTIME, ToolClass, UserText, Verdict
from gonogo.execution.agent import Gate
from gonogo.execution.agent.inbox import ORCHESTRATOR, next_turn, tell_all_queued
from gonogo.execution.approvals import ApprovalService, Matter, Question, Ruling
from gonogo.execution.plans.ending import (
    ARCHITECT,
    PlanEnding,
    completed,
    cut,
    execution_result,
    mint_grants,
)
from gonogo.execution.plans.engine import Engine
from gonogo.execution.scheduling import check_condition
from gonogo.i18n import DEFAULT, say, told
from gonogo.i18n.texts import plan_summary, rejected_plan
from gonogo.policy import Conditions, asks_anyway, check_asks, read_prefix, takes_no_more
from gonogo.store import Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import comments_of
from gonogo.store.people import name_of
from gonogo.store.plans import WRITTEN, add_plan, add_revision, move_plan, plan_of, sole_maker_of
from gonogo.store.sessions import append_message, begin_plan, open_turns, session_of, spoken_in
from gonogo.tools import SchemaChecks, Tool

# A revision as a person sees it: its contents, the findings about it, and the question.


class Proposals(Struct, frozen=True, kw_only=True):
    """Asks about revisions."""

    desk: ApprovalService
    gate: Gate

    def in_order(self, revision: Revision) -> Revision:
        """The revision, if no finding refuses it.

        Raises:
            InvalidPlan: a finding refuses it.
        """
        return self.looked_over(revision, unattended=False).revision

    def looked_over(self, revision: Revision, *, unattended: bool) -> "LookedOver":
        """The revision, with the findings about it.

        Args:
            unattended: Nobody is asked in its session.

        Raises:
            InvalidPlan: a finding refuses it.
        """
        noticed = self.noticed(revision, unattended=False)
        for finding in noticed:
            if finding.severity is FindingSeverity.ERROR:
                defect = InvalidPlan(say(finding.key, "en", **finding.fields))
                defect.subtask_id = finding.subtask_id
                raise defect
        if unattended:
            noticed = self.noticed(revision, unattended=True)
        return LookedOver(revision, noticed)

    def noticed(self, revision: Revision, *, unattended: bool) -> Sequence[Finding]:
        """The findings about a revision; an error refuses it. This may take seconds.

        Args:
            unattended: Nobody is asked in its session.
        """
        doings = self.desk.doings
        return findings(
            revision, agents=doings.agents, tools=doings.tools, prefix_problem=_prefix_problem,
            asks=self._asks_anyway, takes_no_more=takes_no_more, check_asks=self._check_asks,
            attended=self.gate.attended and not unattended,
        )  # fmt: skip

    def _asks_anyway(self, subtask: Subtask, command: str) -> Verdict | None:
        """The verdict that asks about a command of a subtask's scope, as far as known up front."""
        agent = subtask.agent or ""
        profile = self.desk.doings.agents.get(agent)
        may_write = None if profile is None else profile.may_write
        return asks_anyway(command, agent, self.gate.rules, self._conditions(may_write))

    def _check_asks(self, command: str) -> Verdict | None:
        """The verdict that asks about the command of a check, if one does."""
        return check_asks(command, RUNTIME, self.gate.rules, self._conditions(None))

    def _conditions(self, may_write: tuple[str, ...] | None) -> Conditions:
        """The conditions that are known before anything runs."""
        gate = self.gate
        return Conditions(
            workspace="/", home=str(gate.home), repo_trusted=gate.repo_trusted,
            sandboxed=gate.sandbox is not None, max_write_globs=may_write,
            writes_barred=gate.sandbox is not None and may_write == (),
        )  # fmt: skip

    def put_before_person(
        self,
        tx: Tx,
        session: Session,
        plan: Plan,
        revision: Revision,
        *,
        changes: PlanChanges | None = None,
        replan: dict[str, Any] | None = None,
        edited_by: str | None = None,
        noticed: Sequence[Finding] | None = None,
        instead_of: Approval | None = None,
    ) -> Approval:
        """Ask a person about a revision, and show people's comments on the plan with it.

        It also shows the author, if no agent has proposed any part of it.

        Args:
            changes: Its differences from the revision before.
            replan: Why the plan was changed.
            edited_by: The person whose edit it is.
            noticed: The findings about it, if they are known already.
            instead_of: The question that was answered with this edit.
        """
        if noticed is None:
            noticed = self.noticed(revision, unattended=session.unattended)
        findings, maker = in_words(noticed, session.spoken), sole_maker_of(tx, plan)
        made_by = None if maker is None else name_of(tx, maker)
        comments = _comments_on(tx, revision)
        summary = plan_summary(
            revision, session.spoken, findings=findings, tool_host=session.tool_host,
            changes=changes, comments=comments, made_by=made_by,
        )  # fmt: skip
        subtasks = [s.model_dump(mode="json", exclude_none=True) for s in revision.subtasks]
        question = say("plan_question", session.spoken, goal=plan.goal, count=len(subtasks))
        more = {
            "changes": changes and _as_json(changes), "replan": replan, "findings": findings,
            "comments": comments, "edited_by": edited_by, "made_by": made_by,
            "instructions": plan.instructions,
        }  # fmt: skip
        approval = self.desk.open(
            tx,
            Question(
                session_id=session.id, kind=ApprovalKind.PLAN, subject=plan.goal,
                details={
                    "goal": plan.goal, "original_task": plan.original_task,
                    "summary": summary, "subtasks": subtasks,
                    **{name: said for name, said in more.items() if said},
                },
                reason=question, digest=revision.digest, turn_id=plan.turn_id, plan_id=plan.id,
                revision=revision.number, agent=None if made_by else ARCHITECT,
                matter=Matter(subtasks=revision.subtasks),
                instead_of=instead_of,
            ),
        )  # fmt: skip
        log.tell(tx, session.id, _notice(plan, revision, approval))
        return approval


class LookedOver(NamedTuple):
    """A revision that no finding refuses, and the findings about it."""

    revision: Revision
    noticed: Sequence[Finding]


def _comments_on(tx: Tx, revision: Revision) -> list[dict[str, Any]]:
    """The comments to show with a revision; the first revision has none yet."""
    if revision.number == 1:
        return []
    return standing_comments(comments_of(tx, revision.plan_id), revision.number)


def in_words(noticed: Sequence[Finding], locale: str) -> list[dict[str, Any]]:
    """The findings about a plan as JSON, with texts in a person's language."""
    return [
        {
            **finding.model_dump(mode="json", exclude={"fields"}, exclude_none=True),
            "message": say(finding.key, locale, **_said(finding.fields, locale)),
        }
        for finding in noticed
    ]


def _prefix_problem(prefix: str) -> str | None:
    found = read_prefix(prefix)
    return found if isinstance(found, str) else None


def _notice(plan: Plan, revision: Revision, approval: Approval) -> PlanNotified:
    """The event about a revision: it shows exactly what the question about it shows."""
    shown = approval.details
    facts = PlanFacts(
        plan_id=plan.id, revision=revision.number, digest=revision.digest, goal=plan.goal,
        subtask_count=len(shown["subtasks"]), subtasks=shown["subtasks"], approval_id=approval.id,
        critical_path=list(critical_path(revision.subtasks)), findings=shown.get("findings", []),
        changes=shown.get("changes"), replan=shown.get("replan"), comments=shown.get("comments"),
        instructions=shown.get("instructions"), made_by=shown.get("made_by"),
    )  # fmt: skip
    return PlanNotified(
        content=shown["summary"], metadata=facts, turn_id=plan.turn_id, plan_id=plan.id,
        agent=None if facts.made_by else ARCHITECT, is_final=True,
    )  # fmt: skip


def _as_json(changes: PlanChanges) -> dict[str, Any]:
    return {
        "added": [s.model_dump(mode="json", exclude_none=True) for s in changes.added],
        "removed": [s.id for s in changes.removed],
        "changed": [{"id": key, "fields": fields} for key, fields in changes.changed],
    }


def _said(fields: Mapping[str, str], locale: str) -> dict[str, str]:
    """The fields of a finding, with reasons in the reader's language."""
    return {
        name: told(value, locale) if isinstance(value, Reason) else value
        for name, value in fields.items()
    }


_S = SubtaskStatus
_MOST_TOLD = 16_000
"""Characters of a person's own plan that the agents of its session get."""


# Reads the subtasks of a plan, and checks everything that can be checked before it runs.


class PlanReader(Struct, frozen=True, kw_only=True):
    """Knows who can carry out subtasks, and what they can give."""

    workers: frozenset[str]
    """The agents that may carry out subtasks."""
    tools: Mapping[str, Tool]
    kinds: Mapping[str, KindRule]

    def read(
        self,
        raw: Any,  # noqa: ANN401 - as a stranger wrote it
        done: Collection[str] = (),
    ) -> tuple[Subtask, ...]:
        """Read the subtasks of a new plan, of an edited one, or what is left of one.

        Args:
            done: Ids of subtasks that these may depend on and that are kept.

        Raises:
            InvalidPlan: with the first defect, naming the subtask and the field.
        """
        usable = {name for name, t in self.tools.items() if t.tool_class is not ToolClass.CONTROL}
        subtasks = parse_subtasks(
            raw, agents=self.workers, tools=usable, kinds=self.kinds, known=done
        )
        check_references(subtasks, done)
        checks: SchemaChecks | None = None
        for subtask in subtasks:
            with defects_of(subtask.id):
                _check_condition(subtask)
                if subtask.tool is not None and not references(subtask.inputs):
                    # All schema checks of one plan share one time limit.
                    checks = checks or SchemaChecks()
                    self._check_arguments(subtask, subtask.tool, checks)
        return subtasks

    def _check_arguments(self, subtask: Subtask, tool: str, checks: SchemaChecks) -> None:
        """Check the inputs of a tool, if all of them are known already."""
        try:
            self.tools[tool].parse(subtask.inputs or {}, checks)
        except InvalidArguments as problem:
            raise InvalidPlan(
                "Subtask {subtask_id!r}: inputs: {problem}", subtask_id=subtask.id, problem=problem
            ) from None


def _check_condition(subtask: Subtask) -> None:
    if subtask.condition is None:
        return
    try:
        check_condition(subtask.condition)
    except InvalidPlan as problem:
        raise InvalidPlan(
            "Subtask {subtask_id!r}: {problem}", subtask_id=subtask.id, problem=problem
        ) from None


class Planning(Struct, frozen=True, kw_only=True):
    """Plans, as parts of their callers' transactions."""

    engine: Engine
    reader: PlanReader
    max_parallel: int
    proposals: Proposals

    @property
    def ending(self) -> PlanEnding:
        """What ends plans."""
        return self.engine.rounds.ending

    def draft(self, arguments: Mapping[str, Any]) -> Revision:
        """A first revision of a new plan, from the arguments of `create_plan`.

        Raises:
            InvalidPlan: with the first defect.
        """
        goal = _goal(str(arguments.get("goal", "")))
        subtasks = self.proposed(arguments)
        revision = Revision(plan_id=new_id("plan"), number=1, goal=goal, subtasks=subtasks)
        return self.proposals.in_order(revision)

    def proposed(
        self, arguments: Mapping[str, Any], kept: Collection[str] = ()
    ) -> tuple[Subtask, ...]:
        """Read the subtasks that a model proposes.

        Args:
            kept: Ids of other subtasks that these may depend on.

        Raises:
            InvalidPlan: with the first defect.
        """
        return self.reader.read(with_types(arguments.get("subtasks")), kept)

    def result(self, revision: Revision, locale: str) -> dict[str, Any]:
        """What `create_plan` answers."""
        return {
            "plan_id": revision.plan_id,
            "status": PlanStatus.AWAITING_APPROVAL,
            "goal": revision.goal,
            "subtasks_count": len(revision.subtasks),
            "message": say("model_plan_created", locale),
        }

    def propose(self, tx: Tx, session: Session, turn: Turn, revision: Revision) -> None:
        """Store a plan that an agent made, and ask a person about it."""
        plan = self._new_plan(session, revision, tx.now)
        plan = replace(
            plan, turn_id=turn.id, original_task=turn.content, instructions=session.instructions
        )
        self._store(tx, plan, revision, f"agent:{turn.agent}", "proposed")
        self.proposals.put_before_person(tx, session, plan, revision)

    def written(self, goal: str, raw: Any) -> Revision:  # noqa: ANN401 - as a stranger wrote it
        """The first revision of a plan that a person wrote, whatever its findings are.

        Raises:
            InvalidPlan: it cannot be read.
        """
        subtasks = self.reader.read(as_planned(raw), ())
        return Revision(plan_id=new_id("plan"), number=1, goal=_goal(goal), subtasks=subtasks)

    def own(self, goal: str, raw: Any, *, unattended: bool) -> LookedOver:  # noqa: ANN401
        """The first revision of a plan that a person wrote, with the findings about it.

        Args:
            unattended: Nobody is asked in its session.

        Raises:
            InvalidPlan: it cannot be read, or a finding refuses it.
        """
        return self.proposals.looked_over(self.written(goal, raw), unattended=unattended)

    def propose_own(self, tx: Tx, session: Session, own: LookedOver, by: Principal) -> Plan:
        """Store a plan that a person wrote, and ask whoever decides about it.

        Raises:
            Conflict: the session has a plan that is not over, or answers a message.
        """
        revision = own.revision
        _check_free(tx, session)
        plan = self._new_plan(session, revision, tx.now)
        self._store(tx, plan, revision, by.id, WRITTEN)
        tell_all_queued(tx, session, undecided=True)
        append_message(tx, session.id, MAIN, UserText(content=_own_plan(revision, session.spoken)))
        if session.agent != ARCHITECT:
            facts = SwitchFacts(from_agent=session.agent, to_agent=ARCHITECT)
            switch = AgentSwitched(metadata=facts, plan_id=plan.id, agent=ARCHITECT)
            log.tell(tx, session.id, switch)
        log.note(
            tx, session.id, actor=by.id, action="plan.written", subject=plan.id,
            revision=revision.number, digest=revision.digest, subtasks=len(revision.subtasks),
        )  # fmt: skip
        self.proposals.put_before_person(tx, session, plan, revision, noticed=own.noticed)
        return plan

    def execute(
        self, tx: Tx, session: Session, plan_id: str | None, turn: Turn
    ) -> dict[str, Any] | None:
        """Answer `execute_plan` for a plan that is over, with its result.

        Returns None for a plan that was approved: its result comes when it ends.

        Raises:
            NotFound: the session has no such plan.
            Conflict: nobody has approved it yet.
        """
        plan = plan_of(tx, plan_id) if plan_id else None
        if plan is None or plan.session_id != session.id:
            raise NotFound(
                "No plan found with id={plan_id}", see="gonogo plans list", plan_id=plan_id
            )
        if plan.status in {PlanStatus.DRAFT, PlanStatus.AWAITING_APPROVAL}:
            raise Conflict(say("model_plan_undecided", session.spoken, plan_id=plan.id))
        if plan.status in ENDED:
            return execution_result(tx, plan)
        return None

    def set_going(self, tx: Tx, plan_id: str) -> None:
        """Start a plan that was approved and held; any other plan gets its next round."""
        plan = plan_of(tx, plan_id)
        if plan is not None and plan.status is PlanStatus.APPROVED:
            self.engine.rounds.begin(tx, plan)
        else:
            self.engine.rounds.advance(tx, plan_id)

    # Decisions --------------------------------------------------------------------------------

    def approve(
        self,
        tx: Tx,
        plan: Plan,
        revision: Revision,
        ruling: Ruling,
        *,
        edited: bool,
    ) -> None:
        """Carry out a person's approval: make the grants, and start unless the plan is held.

        Args:
            edited: A person wrote the revision.
        """
        approved = replace(
            plan, status=PlanStatus.APPROVED, revision=revision.number,
            approved_revision=revision.number, auto_approve_tools=ruling.auto_approve_tools,
        )  # fmt: skip
        moved = move_plan(
            tx, plan, PlanStatus.APPROVED, approved_at=tx.now, revision=revision.number,
            digest=revision.digest, auto_approve_tools=ruling.auto_approve_tools,
            feedback=ruling.feedback,
        )  # fmt: skip
        if not moved:
            raise Conflict("Plan {plan_id} has just changed; look at it again", plan_id=plan.id)
        self.ending.drop_searches(tx, plan)
        mint_grants(tx, approved, revision, completed(tx, approved))
        held = ruling.word is DecisionWord.HOLD or not ruling.start
        self._tell_approved(tx, approved, revision, edited=edited, held=held)
        if held:
            log.tell_final(tx, plan.session_id)
            session = session_of(tx, plan.session_id)
            if session is not None:
                next_turn(tx, session)
            return
        self.engine.rounds.begin(tx, approved)

    def edit(self, plan: Plan, current: Revision, raw: Any) -> Revision:  # noqa: ANN401
        """The next revision, as a person wrote it.

        Raises:
            InvalidPlan: it is not valid; nothing changes.
        """
        if raw is None:
            raise InvalidPlan("EDIT decision requires modified_subtasks")
        return self.proposals.in_order(self.drafted(plan, current, raw))

    def drafted(self, plan: Plan, current: Revision, raw: Any) -> Revision:  # noqa: ANN401
        """The next revision as it is written, whatever its findings are.

        Raises:
            InvalidPlan: it cannot be read.
        """
        subtasks = self.reader.read(as_planned(raw), ())
        return Revision(
            plan_id=plan.id, number=plan.revision + 1, goal=current.goal, subtasks=subtasks
        )

    def reject(self, tx: Tx, plan: Plan, ruling: Ruling) -> None:
        """Carry out a person's rejection."""
        session = session_of(tx, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        begun = plan.started_at is not None
        if not begun:
            move_plan(tx, plan, PlanStatus.REJECTED, finished_at=tx.now, feedback=ruling.feedback)
        said = ruling.feedback or say("plan_rejected_default", session.spoken)
        told = say("model_plan_rejected", session.spoken, feedback=said)
        append_message(tx, session.id, MAIN, UserText(content=told))
        if not begun:
            self.ending.close(tx, session, plan, PlanStatus.REJECTED)
        facts = PlanRejectedFacts(plan_id=plan.id, feedback=ruling.feedback)
        event = PlanRejected(
            content=rejected_plan(ruling.feedback, session.spoken), metadata=facts,
            plan_id=plan.id, agent=ARCHITECT, is_final=None if begun else True,
        )  # fmt: skip
        log.tell(tx, session.id, event)
        if begun:
            self.engine.controls.end_unfinished(tx, plan.id, say("replan_rejected", session.spoken))
            return
        next_turn(tx, replace(session, active_plan_id=None))

    def expire(self, tx: Tx, plan: Plan) -> None:
        """End a plan, as nobody decided in time."""
        session = session_of(tx, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        if plan.started_at is not None:
            self.engine.controls.end_unfinished(tx, plan.id, say("replan_expired", session.spoken))
            return
        move_plan(tx, plan, PlanStatus.EXPIRED, finished_at=tx.now)
        self.ending.close(tx, session, plan, PlanStatus.EXPIRED)
        content = say("plan_expired", session.spoken)
        append_message(tx, session.id, MAIN, UserText(content=content))
        event = AssistantMessage(
            content=content, plan_id=plan.id, agent=ORCHESTRATOR, is_final=True
        )
        log.tell(tx, session.id, event)
        next_turn(tx, replace(session, active_plan_id=None))

    # Parts ------------------------------------------------------------------------------------

    def _store(self, tx: Tx, plan: Plan, revision: Revision, by: str, reason: str) -> None:
        add_plan(tx, plan)
        add_revision(tx, revision, by, reason)
        if not begin_plan(tx, plan.session_id, plan.id, ARCHITECT):
            raise Conflict("The session has just got another plan; finish or cancel that one first")

    def _new_plan(self, session: Session, revision: Revision, now: datetime) -> Plan:
        return Plan(
            id=revision.plan_id, session_id=session.id, turn_id=None, goal=revision.goal,
            original_task=revision.goal, status=PlanStatus.AWAITING_APPROVAL, revision=1,
            digest=revision.digest, auto_approve_tools=True, max_parallel=self.max_parallel,
            created_at=now, approved_at=None, started_at=None, finished_at=None, feedback=None,
        )  # fmt: skip

    def _tell_approved(
        self,
        tx: Tx,
        plan: Plan,
        revision: Revision,
        *,
        edited: bool,
        held: bool,
    ) -> None:
        locale = spoken_in(tx, plan.session_id) or DEFAULT
        key = "plan_held" if held else "plan_updated" if edited else "plan_approved"
        count = len(revision.subtasks)
        facts = PlanApprovedFacts(
            plan_id=plan.id, revision=revision.number, subtask_count=count,
            was_edited=edited or None, held=held or None,
        )  # fmt: skip
        event = PlanApproved(
            content=say(key, locale, count=count), metadata=facts, plan_id=plan.id,
            agent=ARCHITECT,
        )  # fmt: skip
        log.tell(tx, plan.session_id, event)


def _goal(given: str) -> str:
    goal = given.strip()
    if is_blank(goal):
        raise InvalidPlan("goal: a plan needs a goal")
    if len(goal) > MAX_GOAL:
        raise InvalidPlan(
            "goal: at most {most} characters, not {count}; shorten it",
            most=MAX_GOAL,
            count=len(goal),
        )
    return goal


def _check_free(tx: Tx, session: Session) -> None:
    """Refuse a person's own plan while the session is busy with something else.

    Raises:
        Conflict: the text says what to do about it.
    """
    if session.active_plan_id is not None:
        raise Conflict(
            "Plan {active_plan_id} of this session has not ended yet; decide on it, wait until "
            "it ends or cancel it, or open another session",
            active_plan_id=session.active_plan_id,
        )
    for turn in open_turns(tx, session.id):
        if turn.status is not TurnStatus.QUEUED:
            raise Conflict(
                "The session is answering a message (turn {turn_id}); wait for the answer, "
                "answer its question, or cancel the turn",
                turn_id=turn.id,
            )


def _own_plan(revision: Revision, locale: str) -> str:
    """What agents learn about a plan that a person wrote, in the session's conversation."""
    subtasks = [
        {"id": s.id, "by": worker_name(s), "after": s.dependencies, "task": s.description}
        for s in revision.subtasks
    ]
    shown = cut(visible_json(subtasks), _MOST_TOLD, locale)
    goal = cut(revision.goal, MAX_DESCRIPTION, locale)
    return say("model_plan_written", locale, plan_id=revision.plan_id, goal=goal, subtasks=shown)


def is_held(tx: Tx, plan_id: str) -> bool:
    """Whether a plan is approved and waits for its start; messages are answered meanwhile."""
    plan = plan_of(tx, plan_id)
    return plan is not None and plan.status is PlanStatus.APPROVED
