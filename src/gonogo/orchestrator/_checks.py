"""Validations that need no judgement: a command's exit code, or what a file holds."""

from typing import Any, cast

from gonogo.domain.errors import InvalidArguments
from gonogo.domain.failures import Failure
from gonogo.domain.plan import COMMAND_TOOL, READ_TOOL
from gonogo.domain.records import CallRow
from gonogo.domain.states import CallStatus
from gonogo.engine import Completed, Failed, Outcome, Parked, Step
from gonogo.orchestrator._endings import invalid
from gonogo.orchestrator._tool_step import ToolStep, tail_of

_ABSENT = ("file_not_found", "not_found")


async def check_command(tools: ToolStep, step: Step) -> Outcome:
    """Run a command through the gate, and compare its exit code."""
    inputs = dict(step.inputs)
    wanted = inputs.pop("exit_code", 0)
    if not isinstance(wanted, int):
        raise InvalidArguments(f"exit_code: a number is needed, not {wanted!r}")
    ended = await tools.call(step, COMMAND_TOOL, inputs)
    if isinstance(ended, Parked):
        return ended
    result = _fields(ended)
    failure = None if _exited(ended, result) else tools.failure_of(ended)
    if failure is not None:
        return Failed(failure)
    command, code = inputs.get("command"), result.get("exit_code")
    said = f"{command!r} ended with the exit code {code}"
    if code != wanted:
        return Failed(invalid(f"{said}, not {wanted}:\n{tail_of(result)}"))
    return _valid(step, said, ended)


async def check_file(tools: ToolStep, step: Step) -> Outcome:
    """Read a file through the gate, and compare what it holds."""
    path, exists = step.inputs["file"], step.inputs.get("exists", True)
    ended = await tools.call(step, READ_TOOL, {"path": path})
    if isinstance(ended, Parked):
        return ended
    absent = (ended.error or "").partition(":")[0] in _ABSENT
    if absent or not exists:
        there = ended.status is CallStatus.COMPLETED
        failure = None if there or absent else tools.failure_of(ended)
        if failure is not None:
            return Failed(failure)
        word = "exists" if there else "does not exist"
        said = f"{path!r} {word}"
        return _valid(step, said, ended) if there is exists else Failed(invalid(said))
    failure = tools.failure_of(ended) or _lacking(step, ended)
    return Failed(failure) if failure else _valid(step, f"{path!r} is as it should be", ended)


def _lacking(step: Step, ended: CallRow) -> Failure | None:
    wanted, result = step.inputs.get("contains"), _fields(ended)
    if wanted is None or str(wanted) in str(result.get("content", "")):
        return None
    more = ", in so far as it was read" if result.get("truncated") else ""
    return invalid(f"{step.inputs['file']!r} does not contain {wanted!r}{more}")


def _exited(ended: CallRow, result: dict[str, Any]) -> bool:
    """Whether a command came to an end of its own."""
    return ended.status is CallStatus.COMPLETED and not result.get("timed_out")


def _valid(step: Step, said: str, ended: CallRow) -> Completed:
    return step.done({"valid": True, "reasons": [said]}, tool=ended.tool, result=ended.result)


def _fields(ended: CallRow) -> dict[str, Any]:
    given: Any = ended.result
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}
