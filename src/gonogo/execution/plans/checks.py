"""Calls and checks of the runtime itself: single calls as subtasks, validations, and checks.

The gate treats a call of the runtime like an agent's call: it is recorded, asked about and
recovered in the same way, in a conversation of its own without a model. A check that does not hold
is no failure yet: first the agent that said the work was done gets to know it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.checks import DoneCheck, ran_no_test
from gonogo.domain.errors import InvalidArguments, ToolFailed, because
from gonogo.domain.failures import Category, Failure, Patterns, Severity
from gonogo.domain.paths import is_secret
from gonogo.domain.plan import COMMAND_TOOL, READ_TOOL
from gonogo.domain.records import CallRow
from gonogo.domain.states import BARRED, CallStatus
from gonogo.domain.text_safety import visible_json
from gonogo.domain.tool_calls import RUNTIME, Reply, ToolRequest
from gonogo.domain.undo import FOLDER, State, came_to, real_path, shown_path
from gonogo.execution.agent import (
    MODEL,
    Loop,
    Resting,
    Speak,
    Thread,
    Traces,
    model_profile,
    runtime_profile,
)
from gonogo.execution.plans.ending import cut
from gonogo.execution.plans.engine import Opening, Threads, begun_in
from gonogo.execution.scheduling import Completed, Failed, Outcome, Parked, Step
from gonogo.i18n import say, told
from gonogo.policy import ParsedCommand, covers, parse_command, read_prefix
from gonogo.store import Tx, new_id
from gonogo.store.calls import thread_calls
from gonogo.store.checkpoints import changes_of_subtask
from gonogo.tools import file_difference

# A subtask that is one tool call: the runtime itself makes it, without a model.
#
# The call's result is the subtask's result, and its error the subtask's failure.

_TAIL = 2_000
"""Characters of a command's output that its failure contains."""
_CATEGORY, _SEVERITY = Category, Severity
_TYPED = {
    "policy_denied": (_SEVERITY.MEDIUM, _CATEGORY.POLICY),
    "rejected": (_SEVERITY.MEDIUM, _CATEGORY.PERMISSION),
    "expired": (_SEVERITY.MEDIUM, _CATEGORY.PERMISSION),
    "invalid_arguments": (_SEVERITY.HIGH, _CATEGORY.VALIDATION),
    "unknown_tool": (_SEVERITY.HIGH, _CATEGORY.DEPENDENCY),
    "timeout": (_SEVERITY.MEDIUM, _CATEGORY.TIMEOUT),
    "cancelled": (_SEVERITY.LOW, _CATEGORY.CANCELLED),
    "unknown": (_SEVERITY.MEDIUM, _CATEGORY.UNKNOWN),
    **dict.fromkeys((*BARRED, "bad_path"), (_SEVERITY.MEDIUM, _CATEGORY.POLICY)),
}
"""Severity and category of a call's error, by the word that it begins with."""


class Place(Struct, frozen=True, kw_only=True):
    """In which conversation the runtime makes a call that is only a part of a subtask."""

    part: str = ""
    """The end of the conversation's name."""
    words: str | None = None
    """The command, if approving the plan allows exactly that as a check."""
    attended: bool = True
    """A person may be asked about it."""


class ToolStep(Struct, frozen=True, kw_only=True):
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

    async def call(
        self,
        step: Step,
        tool: str,
        arguments: Mapping[str, Any],
        place: Place = Place(),  # noqa: B008
    ) -> CallRow | Parked:
        """Make one call, only once however often the subtask is resumed; return how it ended.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        opening = Opening(
            agent=RUNTIME, profile=runtime_profile(tool), speak=_asks_once(tool, arguments),
            part=place.part, words=place.words, attended=place.attended,
        )  # fmt: skip
        thread, begins = await self.threads.open(step, opening)
        begun = begun_in(step, thread)
        if isinstance(await self.loop.drive(thread, begins, begun), Resting):
            return Parked()
        calls = await self.threads.store.read(thread_calls, thread.session_id, thread.name)
        return next(call for call in calls if call.retry_of is None)

    def failure_of(self, call: CallRow) -> Failure | None:
        """The failure of a subtask whose call ended like this; None if it did not fail."""
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
            spent = because(
                "{command!r} was ended at its time limit:\n{output}", command=command, output=output
            )
            return Failure(message=spent, category=Category.TIMEOUT)
        if code in (0, None):
            return None
        said = because(
            "{command!r} ended with the exit code {code}:\n{output}",
            command=command, code=code, output=output,
        )  # fmt: skip
        return self._by_words(said)

    def _by_words(self, message: str) -> Failure:
        """Classify a failure by its text; without a matching rule it is a logic error."""
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


def invalid(why: str) -> Failure:
    """The failure of a validation that does not hold."""
    return Failure(
        message=because("Validation failed: {why}", why=why),
        severity=Severity.HIGH, category=Category.VALIDATION,
    )  # fmt: skip


# What needs no judgement: a command's exit code, or a file's contents.

_ABSENT = ("file_not_found", "not_found")


class CallSeen(Struct, frozen=True, kw_only=True):
    """What the end of a command, or a file, showed."""

    holds: bool
    said: str
    ended: CallRow
    failure: Failure | None = None
    """Why nothing could be seen."""

    def verdict(self, step: Step) -> Outcome:
        """The outcome of a validation that saw this."""
        if self.failure is not None:
            return Failed(self.failure)
        if not self.holds:
            return Failed(invalid(self.said))
        given = {"valid": True, "reasons": [self.said]}
        return step.done(given, tool=self.ended.tool, result=self.ended.result)


async def validate_command(tools: ToolStep, step: Step) -> Outcome:
    """Run a command through the gate, and compare its exit code."""
    seen = await see_command(tools, step, step.inputs)
    return seen if isinstance(seen, Parked) else seen.verdict(step)


async def validate_file(tools: ToolStep, step: Step) -> Outcome:
    """Read a file through the gate, and compare its contents."""
    seen = await see_file(tools, step, step.inputs)
    return seen if isinstance(seen, Parked) else seen.verdict(step)


async def see_command(
    tools: ToolStep,
    step: Step,
    inputs: Mapping[str, Any],
    place: Place = Place(),  # noqa: B008
) -> CallSeen | Parked:
    """Run a command, and compare its exit code with `exit_code`, or 0."""
    arguments = dict(inputs)
    wanted = arguments.pop("exit_code", 0)
    if not isinstance(wanted, int):
        raise InvalidArguments("exit_code: it must be a number, not {wanted!r}", wanted=wanted)
    ended = await tools.call(step, COMMAND_TOOL, arguments, place)
    if isinstance(ended, Parked):
        return ended
    result = _fields(ended)
    failure = None if _exited(ended, result) else tools.failure_of(ended)
    command, code = arguments.get("command"), result.get("exit_code")
    said = because("{command!r} ended with the exit code {code}", command=command, code=code)
    if code != wanted:
        said = because(
            "{said}, not {wanted}:\n{output}", said=said, wanted=wanted, output=tail_of(result)
        )
        return CallSeen(holds=False, said=said, ended=ended, failure=failure)
    if code == 0 and ran_no_test(str(result.get("output", ""))):
        output = tail_of(result)
        said = because("{command!r} ran no test:\n{output}", command=command, output=output)
        return CallSeen(holds=False, said=said, ended=ended, failure=failure)
    return CallSeen(holds=failure is None, said=said, ended=ended, failure=failure)


async def see_file(
    tools: ToolStep,
    step: Step,
    inputs: Mapping[str, Any],
    place: Place = Place(),  # noqa: B008
) -> CallSeen | Parked:
    """Read a `file`, and compare whether it `exists` and what it `contains`."""
    path, exists = inputs["file"], inputs.get("exists", True)
    ended = await tools.call(step, READ_TOOL, {"path": path}, place)
    if isinstance(ended, Parked):
        return ended
    absent = (ended.error or "").partition(":")[0] in _ABSENT
    there = ended.status is CallStatus.COMPLETED
    if not there and not absent:
        failure = tools.failure_of(ended)
        return CallSeen(holds=False, said=str(ended.error), ended=ended, failure=failure)
    if there is not exists or not there:
        said = because("{path!r} does not exist", path=path)
        if there:
            said = because("{path!r} exists", path=path)
        return CallSeen(holds=there is exists, said=said, ended=ended)
    lacking = _lacking(inputs, ended)
    said = lacking or because("{path!r} is as it should be", path=path)
    return CallSeen(holds=lacking is None, said=said, ended=ended)


def _lacking(inputs: Mapping[str, Any], ended: CallRow) -> str | None:
    wanted, result = inputs.get("contains"), _fields(ended)
    if wanted is None or str(wanted) in str(result.get("content", "")):
        return None
    path = inputs["file"]
    if not result.get("truncated"):
        return because("{path!r} does not contain {wanted!r}", path=path, wanted=wanted)
    return because(
        "{path!r} does not contain {wanted!r} in the part that was read", path=path, wanted=wanted
    )


def _exited(ended: CallRow, result: dict[str, Any]) -> bool:
    """Whether a command ended by itself."""
    return ended.status is CallStatus.COMPLETED and not result.get("timed_out")


def _fields(ended: CallRow) -> dict[str, Any]:
    given: Any = ended.result
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


# Whether the record supports an agent's verdict: its commands were run, and succeeded.

_COMPARE = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "["})
"""Programs whose exit code 1 is an answer and no error."""


def contradiction(commands: Sequence[str], calls: Sequence[CallRow]) -> Failure | None:
    """Why the commands that were run do not support a positive verdict; None if they do.

    Args:
        commands: The beginnings of the commands that the plan gave to the judging agent.
        calls: All calls of the conversation, in their order.
    """
    prefixes = [words for words in map(read_prefix, commands) if isinstance(words, tuple)]
    last: dict[tuple[str, ...], CallRow] = {}
    for call in calls:
        if call.tool == COMMAND_TOOL and call.status is CallStatus.COMPLETED:
            last |= {words: call for words in prefixes if _runs(call, words)}
    if not last:
        unrun = because(
            "none of the commands of this validation was run: {commands}",
            commands=", ".join(commands),
        )  # fmt: skip
        return Failure(message=unrun, category=Category.NO_WORK)
    for words, call in last.items():
        result = _fields(call)
        code = result.get("exit_code", 0)
        is_answer = code == 0 or (code == 1 and _compares(words))
        if result.get("timed_out") or not is_answer:
            said = because(
                "the last run of {prefix!r} ended with the exit code {code}",
                prefix=" ".join(words), code=code,
            )  # fmt: skip
            return invalid(said)
        if ran_no_test(str(result.get("output", ""))):
            return invalid(
                because("the last run of {prefix!r} ran no test", prefix=" ".join(words))
            )
    return None


def _runs(call: CallRow, words: tuple[str, ...]) -> bool:
    """Whether a command, or a part whose exit code is its own, begins with these words."""
    command = parse_command(str(call.arguments.get("command")))
    parts = command.parts if isinstance(command, ParsedCommand) else ()
    return any(
        part.argv[: len(words)] == words
        and not part.negated
        and all(each.joined_by in {"", "&&", ";"} for each in parts[: n + 1])
        and all(each.joined_by == "&&" for each in parts[n + 1 :])
        for n, part in enumerate(parts)
    )


def _compares(words: tuple[str, ...]) -> bool:
    return words[0] in _COMPARE or words[:2] in {("git", "diff"), ("git", "grep")}


# The checks by which a subtask counts as done.

_MOST_DIFF = 30_000
"""Characters of a subtask's changes that a model gets."""
_MOST_SEEN = 2_000
_MOST_NAMED = 10
VERDICT_TOOL = "give_verdict"
Write = Callable[[Tx], None]
Judge = Callable[[Step, Opening], Awaitable[Outcome]]
"""Has a model give its verdict, in a conversation of its own."""
_BARRED = frozenset({Category.POLICY, Category.PERMISSION})


class CheckSeen(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    check: DoneCheck
    holds: bool
    seen: str
    failure: Failure | None = None
    """Why it can never hold: the check itself was not allowed."""
    also: Write | None = None
    """What to write together with the consequence of the check."""

    @property
    def facts(self) -> dict[str, Any]:
        """The check and what was seen, as results show them."""
        return {"check": self.check.facts, "holds": self.holds, "seen": self.seen[:_MOST_SEEN]}


class Checks(Struct, frozen=True, kw_only=True):
    """Makes the checks of subtasks."""

    tools: ToolStep
    traces: Traces

    async def look(
        self, step: Step, thread: Thread, time: int, judge: Judge
    ) -> list[CheckSeen] | Parked:
        """Make a subtask's checks, in their order; a model is asked last, if all else holds.

        A check that was made before a stop or a wait is not made again.

        Args:
            thread: The conversation of the agent that says it is done.
            time: How often it has said so, from 1.

        Raises:
            Superseded: somebody else holds the subtask.
            ModelFailed: the model did not answer.
        """
        found: dict[int, CheckSeen] = {}
        checks = list(enumerate(step.subtask.done_when or (), start=1))
        for n, check in sorted(checks, key=lambda each: each[1].ask is not None):
            if check.ask is not None and not all(seen.holds for seen in found.values()):
                break
            seen = await self._seen(step, thread, check, f"/checks/{time}/{n}", judge)
            if isinstance(seen, Parked):
                return seen
            found[n] = replace(seen, seen=told(seen.seen, thread.locale))
        return [found[n] for n in sorted(found)]

    async def _seen(
        self, step: Step, thread: Thread, check: DoneCheck, part: str, judge: Judge
    ) -> CheckSeen | Parked:
        if check.command is not None:
            return await self._of_command(step, check, check.command, part)
        if check.file is not None:
            return await self._of_file(step, check, part)
        if thread.remote:
            said = because("the files are a client's: nobody here can tell what was changed")
            return CheckSeen(check=check, holds=False, seen=said)
        changes = await self._changes(step)
        if check.unchanged is not None:
            return left_alone(check, check.unchanged, changes)
        return await self._of_model(step, thread, check, part, judge, changes)

    async def _of_command(
        self, step: Step, check: DoneCheck, command: str, part: str
    ) -> CheckSeen | Parked:
        inputs = {"command": command} | ({"timeout": check.timeout} if check.timeout else {})
        seen = await see_command(self.tools, step, inputs, Place(part=part, words=command))
        if isinstance(seen, Parked):
            return seen
        barred = seen.failure is not None and seen.failure.category in _BARRED
        return _checked(check, seen, failure=seen.failure if barred else None)

    async def _of_file(self, step: Step, check: DoneCheck, part: str) -> CheckSeen | Parked:
        wanted = {} if check.file_contains is None else {"contains": check.file_contains.text}
        # A link may lead to a secret, and no person is asked to let the runtime read that.
        place = Place(part=part, attended=False)
        seen = await see_file(self.tools, step, {"file": check.file, **wanted}, place)
        return seen if isinstance(seen, Parked) else _checked(check, seen)

    async def _of_model(
        self,
        step: Step,
        thread: Thread,
        check: DoneCheck,
        part: str,
        judge: Judge,
        changes: Sequence[tuple[str, State, State]],
    ) -> CheckSeen | Parked:
        subtask, locale = step.subtask, thread.locale
        diff = cut(await anyio.to_thread.run_sync(self._diff, changes), _MOST_DIFF, locale)
        told = say(
            "model_check", locale, goal=step.work.revision.goal, subtask=subtask.id,
            description=subtask.description, question=check.ask, diff=visible_json({"diff": diff}),
        )  # fmt: skip
        opening = Opening(agent=MODEL, profile=model_profile(VERDICT_TOOL), told=told, part=part)
        match await judge(step, opening):
            case Completed(result, also):
                said = "; ".join(result["output"]["reasons"])
                return CheckSeen(check=check, holds=True, seen=said, also=also)
            case Failed(failure, also):
                return CheckSeen(check=check, holds=False, seen=failure.message, also=also)
            case _:
                return Parked()

    async def _changes(self, step: Step) -> list[tuple[str, State, State]]:
        """The files that the subtask has changed, in all its attempts: path, before and after."""
        key = (step.work.revision.plan_id, step.subtask.id)
        found = came_to(await self.tools.threads.store.read(changes_of_subtask, *key))
        return [(path, *states) for path, states in sorted(found.items()) if FOLDER not in states]

    def _diff(self, changes: Sequence[tuple[str, State, State]]) -> str:
        """What was changed, as far as a model may see it and needs to."""
        parts: list[str] = []
        for path, before, after in changes:
            if sum(map(len, parts)) > _MOST_DIFF:
                break
            parts.append(self._difference(shown_path(path), before, after))
        return "".join(parts)

    def _difference(self, path: str, before: State, after: State) -> str:
        if is_secret(path):
            return f"{path}: changed; what it holds may be secret\n"
        try:
            return file_difference(path, self._content(before), self._content(after))
        except (ToolFailed, KeyError):
            return f"{path}: changed; nobody knows how\n"

    def _content(self, state: State) -> bytes | None:
        return None if state is None else self.traces.snapshots.read(state["blob"])


def _checked(check: DoneCheck, seen: CallSeen, failure: Failure | None = None) -> CheckSeen:
    said = seen.said if seen.failure is None else seen.failure.message
    return CheckSeen(check=check, holds=seen.holds, seen=said, failure=failure)


def left_alone(
    check: DoneCheck, globs: Sequence[str], changes: Sequence[tuple[str, State, State]]
) -> CheckSeen:
    """Whether no file was changed that the globs cover; unknown changes count as a change."""
    unknown = any("unknown" in (after or {}) for _, _, after in changes)
    met = [shown_path(path) for path, _, _ in changes if covers(globs, real_path(path))]
    if unknown and not met:
        said = because("what a command changed is not known")
        return CheckSeen(check=check, holds=False, seen=said)
    if not met:
        return CheckSeen(check=check, holds=True, seen=because("unchanged"))
    names = ", ".join(met[:_MOST_NAMED])
    said = because("changed: {names}", names=names)
    if left := len(met[_MOST_NAMED:]):
        said = because("changed: {names}, … {count} more", names=names, count=left)
    return CheckSeen(check=check, holds=False, seen=said)
