"""A subtask that is one tool call: the runtime itself asks for it, and nobody speaks.

The call is gated, recorded, asked about and recovered as an agent's is. What comes of it is the
subtask's result, or its failure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gonogo.agents import RUNTIME, Loop, Resting, Speak, runtime_profile
from gonogo.domain.failures import Category, Failure, Patterns, Severity
from gonogo.domain.plan import COMMAND_TOOL
from gonogo.domain.records import CallRow
from gonogo.domain.states import BARRED, CallStatus
from gonogo.domain.tool_calls import Reply, ToolRequest
from gonogo.engine import Failed, Outcome, Parked, Step
from gonogo.orchestrator._threads import Opening, Threads
from gonogo.store import new_id
from gonogo.store.calls import thread_calls

_TAIL = 2_000
"""Characters of a command's output that its failure is told with."""
_C, _S = Category, Severity
_TYPED = {
    "policy_denied": (_S.MEDIUM, _C.POLICY),
    "rejected": (_S.MEDIUM, _C.PERMISSION),
    "expired": (_S.MEDIUM, _C.PERMISSION),
    "invalid_arguments": (_S.HIGH, _C.VALIDATION),
    "unknown_tool": (_S.HIGH, _C.DEPENDENCY),
    "timeout": (_S.MEDIUM, _C.TIMEOUT),
    "cancelled": (_S.LOW, _C.CANCELLED),
    "unknown": (_S.MEDIUM, _C.UNKNOWN),
    **dict.fromkeys((*BARRED, "bad_path"), (_S.MEDIUM, _C.POLICY)),
}
"""What a call's error stands for, by the word that it begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep:
    """Carries out subtasks that are one call."""

    threads: Threads
    loop: Loop
    patterns: Patterns

    async def run(self, step: Step) -> Outcome:
        """Call the subtask's own tool with its inputs."""
        ended = await self.call(step, step.subtask.tool or "", step.inputs)
        if isinstance(ended, Parked):
            return ended
        failure = self.failure_of(ended)
        if failure is not None:
            return Failed(failure)
        return step.done(ended.result, tool=ended.tool)

    async def call(self, step: Step, tool: str, arguments: Mapping[str, Any]) -> CallRow | Parked:
        """Have one call made, however often the subtask is taken up again. Gives its end.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        opening = Opening(
            agent=RUNTIME, profile=runtime_profile(tool), speak=_asks_once(tool, arguments)
        )
        thread = await self.threads.open(step, opening)
        if isinstance(await self.loop.drive(thread), Resting):
            return Parked()
        calls = await self.threads.store.read(thread_calls, thread.session_id, thread.name)
        return next(call for call in calls if call.retry_of is None)

    def failure_of(self, call: CallRow) -> Failure | None:
        """Why a subtask fails whose call ended so; None if it does not."""
        if call.status is CallStatus.COMPLETED:
            return self._of_command(call) if call.tool == COMMAND_TOOL else None
        error = call.error or str(call.status)
        message, word = f"{call.tool}: {error}", error.partition(":")[0]
        if word in _TYPED:
            severity, category = _TYPED[word]
            return Failure(message=message, severity=severity, category=category)
        return self._by_words(message)

    def _of_command(self, call: CallRow) -> Failure | None:
        given: Any = call.result
        result = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        code, output = result.get("exit_code"), tail_of(result)
        command = call.arguments.get("command")
        if result.get("timed_out"):
            spent = f"{command!r} was ended at its time limit:\n{output}"
            return Failure(message=spent, category=Category.TIMEOUT)
        if code in (0, None):
            return None
        return self._by_words(f"{command!r} ended with the exit code {code}:\n{output}")

    def _by_words(self, message: str) -> Failure:
        """What the words of a failure stand for; a call that no rule knows was wrong in itself."""
        found = self.patterns.classify_text(message)
        if found.rule is not None:
            return found
        return Failure(message=found.message, category=Category.LOGIC)


def tail_of(result: Mapping[str, Any]) -> str:
    """The end of a command's output, where it says what went wrong."""
    return str(result.get("output", ""))[-_TAIL:]


def _asks_once(tool: str, arguments: Mapping[str, Any]) -> Speak:
    def speak(calls: Sequence[CallRow]) -> Reply:
        if calls:
            return Reply()
        return Reply(calls=(ToolRequest(id=new_id("call"), name=tool, arguments=dict(arguments)),))

    return speak
