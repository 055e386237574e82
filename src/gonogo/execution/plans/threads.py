"""Opens the conversation in which a subtask is carried out."""

from msgspec import Struct

from gonogo.domain.tool_calls import UserText
from gonogo.execution.agent import Profile, Speak, Thread, fields_from
from gonogo.execution.plans.brief import brief
from gonogo.execution.plans.engine import Engine, check_held
from gonogo.execution.scheduling import MODEL, Step
from gonogo.store import Store, Tx
from gonogo.store.plans import plan_of, thread_name
from gonogo.store.sessions import append_message, conversation, session_of


class Opening(Struct, frozen=True, kw_only=True):
    """Who carries a subtask out."""

    agent: str
    profile: Profile | None = None
    """In the place of what the agent's name stands for."""
    speak: Speak | None = None
    """In the place of a model, which then needs no brief."""
    ending: str | None = None
    """Key of the text that says how the conversation ends."""


class Threads(Struct, frozen=True, kw_only=True):
    """The conversations of subtasks."""

    store: Store
    engine: Engine

    async def open(self, step: Step, opening: Opening) -> Thread:
        """The conversation of an attempt, begun or gone on with.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        return await self.store.write(self._open, step, opening)

    def _open(self, tx: Tx, step: Step, opening: Opening) -> Thread:
        work = step.work
        check_held(tx, work)
        plan = plan_of(tx, work.revision.plan_id)
        assert plan is not None  # noqa: S101 - `check` found its subtask
        session = session_of(tx, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        name = thread_name(work.key, step.attempt)
        if opening.speak is None and not conversation(tx, session.id, name):
            told = UserText(content=brief(step, session.spoken, opening.ending))
            append_message(tx, session.id, name, told, agent=opening.agent)
        return Thread(
            **fields_from(session), name=name, script=work.subtask.id, agent=opening.agent,
            plan_id=plan.id, revision=work.revision.number, subtask_id=work.subtask.id,
            auto_approve=plan.auto_approve_tools, profile=opening.profile, speak=opening.speak,
            check=lambda tx: check_held(tx, work),
            park=lambda tx: self.engine.work.park(tx, work),
            is_waiting=lambda tx: waits_for_model(tx, plan.id),
            answered=lambda tx: self.engine.pauses.model_answered(tx, plan.id),
        )  # fmt: skip


def waits_for_model(tx: Tx, plan_id: str) -> bool:
    """Whether a plan is paused because its model does not answer."""
    plan = plan_of(tx, plan_id)
    return plan is not None and plan.pause_reason == MODEL
