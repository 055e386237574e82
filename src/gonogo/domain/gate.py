"""What the gate is asked and what it answers: calls, accesses, verdicts, grants."""

from enum import StrEnum
from typing import Any, Literal

from gonogo.domain.base import Frozen
from gonogo.domain.canonical import digest
from gonogo.domain.network import Network
from gonogo.domain.plan import Scope
from gonogo.domain.reason import Said


class ToolClass(StrEnum):
    """What running a tool twice, or not at all, would mean."""

    PURE = "pure"
    """Changes nothing: may run again, and needs no question."""
    IDEMPOTENT = "idempotent"
    """Running it again gives the same state."""
    OTHER = "other"
    """Starts at most once."""
    IRREVERSIBLE = "irreversible"
    """Starts at most once, and no checkpoint brings back what it did."""
    CONTROL = "control"
    """Speaks to the runtime itself: plans, switches, questions, completion."""


class Access(Frozen):
    """What a call touches, found from its final arguments before anything runs.

    Paths are relative to the workspace, normalised, with `/`.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    command: str | None = None
    cwd: str | None = None
    """Where the command runs, relative to the workspace; None is the workspace itself."""
    network: tuple[str, ...] = ()
    """The hosts that the command asks to reach."""
    own_programs: tuple[str, ...] = ()
    """Programs of the workspace itself that the command would run."""
    unlooked: tuple[str, ...] = ()
    """Folders of which nobody can say what the command must not change, for they are too many."""


class FileEffect(Frozen):
    """What a file tool will do to one file, as content hashes; None is no file."""

    path: str
    before: str | None
    after: str | None


class Call(Frozen):
    """A tool call as the gate sees it: final arguments, and what they touch."""

    tool: str
    tool_class: ToolClass
    agent: str
    arguments: dict[str, Any]
    access: Access = Access()
    base_hashes: dict[str, str | None] = {}
    """Content hashes of the files that the call would change, when it was proposed."""
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    definition: str | None = None
    """Digest of what a foreign server said of the tool when the call was judged."""

    def digest(self, policy_version: str) -> str:
        """What an approval of this call binds: everything that decides what will run."""
        shown = self.model_dump(
            mode="json",
            include={
                "tool", "arguments", "access", "base_hashes", "plan_id", "revision", "subtask_id",
            },
        )  # fmt: skip
        # What is there only now and then is no part of the digests of what lacks it.
        rare = {"own_programs", "unlooked"}
        shown["access"] = {
            name: value for name, value in shown["access"].items() if value or name not in rare
        }
        foreign = {} if self.definition is None else {"definition": self.definition}
        return digest({**shown, **foreign, "policy_version": policy_version})


class Verdict(Frozen):
    """The gate's answer, with what made it."""

    decision: Literal["allow", "ask", "deny"]
    reason: Said
    rule: str
    """The rule, grant or default that decided: `builtin:protected-path`, `user:3`,
    `grant:<plan>#<subtask>`, `default:pure`."""
    source: Literal["rule", "grant"] = "rule"
    run_as: str | None = None
    """For a command that no person looks at: the parsed form, each word quoted, that is run
    instead of the text that was written."""
    git_as: str | None = None
    """For a command that writes in the workspace's repository, whoever allows it: the form that is
    run where git can write there, and obeys nothing of it."""
    network: Network = False
    """What the command may reach when no person looks at it."""
    read_only: bool = False
    """The command is allowed only where it can write nothing and reach nothing."""
    expects: tuple[str, ...] = ()
    """Globs of the guarded names that a command makes or changes, as whoever allowed it knows."""
    definition: str | None = None
    """As the call's."""


class Grant(Frozen):
    """What approving a plan allows one of its subtasks without further questions."""

    grant_id: str
    plan_id: str
    revision: int
    subtask_id: str
    scope: Scope = Scope()

    @property
    def name(self) -> str:
        """How verdicts name it."""
        return f"grant:{self.plan_id}#{self.subtask_id}"
