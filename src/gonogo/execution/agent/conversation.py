"""The conversation that a loop drives, and who owns it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from gonogo.domain.records import CallRow, Session
from gonogo.domain.tool_calls import Reply
from gonogo.execution.agent.profiles import Profile
from gonogo.llm import ModelRole
from gonogo.store import Tx
from gonogo.store.plans import lock_plan
from gonogo.store.sessions import lock_turn

Speak = Callable[[Sequence[CallRow]], Reply]
"""Says what a model would: told the thread's calls so far, in order."""


class Owner(Protocol):
    """Whose work a conversation is. It is told of the work inside the loop's own transactions."""

    def check(self, tx: Tx) -> None:
        """Raise `Superseded` when the owner no longer holds its work."""
        ...

    def park(self, tx: Tx) -> None:
        """Let go of its place: everything left waits for a person."""
        ...

    def is_waiting(self, tx: Tx) -> bool:
        """Whether it waits for a model that does not answer."""
        ...

    def answered(self, tx: Tx) -> None:
        """Wait no longer: the model answered what was asked meanwhile."""
        ...


class _Nobody:
    """The owner of a conversation in which a single call is judged."""

    def check(self, tx: Tx) -> None: ...

    def park(self, tx: Tx) -> None: ...

    def is_waiting(self, tx: Tx) -> bool:
        del tx
        return False

    def answered(self, tx: Tx) -> None: ...


NOBODYS: Owner = _Nobody()
_ROLES: dict[str, ModelRole] = {"orchestrator": "route", "architect": "plan"}


class Thread(Struct, frozen=True, kw_only=True):
    """One conversation between an agent and a model, in one workspace.

    Its owner is a turn, a subtask or a search; an explorer's is its asker's.
    """

    session_id: str
    name: str
    """`main`, or the subtask's key and attempt; of an explorer also the call that asks."""
    script: str
    """What a scripted model looks the conversation up by."""
    agent: str
    locale: str
    workspace: Path
    remote: bool
    """The client carries out the workspace tools."""
    owner: "Owner"
    turn_id: str | None = None
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    auto_approve: bool = True
    profile: Profile | None = None
    """What the agent may use here, in the place of what its name stands for."""
    speak: Speak | None = None
    """Speaks in the place of a model."""
    model: str | None = None
    """The model that is asked for everything; None: the one of the role."""
    role: ModelRole = "work"
    """What the model is asked for."""
    attended: bool = True
    """Somebody can be asked."""
    words: str | None = None
    """The command by which its subtask is checked, if that is all that it is for."""
    quiet: bool = False
    """What is said in it is no answer to a person, and not told."""
    max_requests: int | None = None
    """Requests to the model at most; None: as many as the loop allows."""
    limits: Mapping[str, float] | None = None
    """What its session may take in all, as it was opened."""

    def hold(self, tx: Tx) -> None:
        """Have whoever goes on with the owner's work wait until this transaction ends."""
        if self.subtask_id is not None:
            lock_plan(tx, self.plan_id or "")
        elif self.turn_id is not None:
            lock_turn(tx, self.turn_id)

    @property
    def place(self) -> dict[str, Any]:
        """The fields by which events name where they happened."""
        named = {
            "turn_id": self.turn_id,
            "plan_id": self.plan_id,
            "subtask_id": self.subtask_id,
            "agent": self.agent,
        }
        return {name: value for name, value in named.items() if value is not None}


def role_of(agent: str) -> ModelRole:
    """What a model is asked for by an agent that has no subtask."""
    return _ROLES.get(agent, "work")


def fields_from(session: Session) -> dict[str, Any]:
    """What every conversation of a session has from it."""
    return {
        "session_id": session.id, "locale": session.spoken, "workspace": Path(session.workspace),
        "remote": session.tool_host == "client", "model": session.model,
        "attended": not session.unattended, "limits": session.limits,
    }  # fmt: skip
