"""Stuck loops: a conversation that goes on and gets nowhere.

What counts is what came back: a call whose result differs from the last time is progress, however
often it is made; the same call with the same result, over and over, is not. Looks only at what
happened since the model was last told something, and only at the end of it, so asking after every
step costs the same however long the conversation is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gonogo.domain.canonical import canonical_json
from gonogo.domain.conversation import Message, Reply, ToolAnswer, UserText


class LoopKind(StrEnum):
    """How a conversation is stuck."""

    REPEATED = "repeated"
    """The same calls, with the same results, again and again."""
    PING_PONG = "ping_pong"
    """Two or three replies in turn, each with the same calls and the same results."""
    SAME_ERROR = "same_error"
    """One tool, called in different ways, fails with the same words."""
    MONOLOGUE = "monologue"
    """Replies that only talk, with nobody answering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """How often is too often. Each is the number that is stopped, not the last one allowed."""

    repeated: int = 4
    rounds: int = 3
    """Of a ping-pong: times that the replies come in the same turn."""
    same_error: int = 5
    monologue: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A loop that was found."""

    kind: LoopKind
    count: int
    """How often it went round, as far as one looks."""
    tools: tuple[str, ...] = ()
    detail: str = ""
    """The error, when it is one."""

    @property
    def key(self) -> str:
        """The key of the text that says it."""
        return f"stuck_{self.kind}"


@dataclass(frozen=True, slots=True)
class _Step:
    """What one reply had done: all its calls that have their results."""

    calls: tuple[tuple[str, str, str], ...]
    """Tool, arguments and result of each."""
    error: tuple[str, str] | None
    """Tool and words, when all of them failed alike."""

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tool for tool, _, _ in self.calls))


_MAX_PERIOD = 3
_MAX_DETAIL = 300
_TOOK = re.compile(r'"duration_ms": ?[0-9.]+|\b\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds?)\b')


def stuck(messages: Sequence[Message], limits: LoopLimits | None = None) -> Stuck | None:
    """Whether the end of a conversation is a loop.

    How long something took does not make a result another one.

    Args:
        messages: One conversation, in order; a call without a result is not looked at.
    """
    limits = limits or LoopLimits()
    recent = _since_told(messages, _window(limits))
    steps = _steps(recent)
    return (
        _monologue(recent, limits.monologue)
        or _repeated(steps, limits)
        or _same_error(steps, limits.same_error)
    )


def _window(limits: LoopLimits) -> int:
    """The number of replies that are looked at."""
    return max(limits.repeated, limits.rounds * _MAX_PERIOD, limits.same_error, limits.monologue)


def _since_told(messages: Sequence[Message], window: int) -> list[Message]:
    """The end of a conversation: what was said since the user spoke, and no more than needed."""
    recent: list[Message] = []
    replies = 0
    for message in reversed(messages):
        if isinstance(message, UserText) or replies == window:
            break
        recent.append(message)
        replies += isinstance(message, Reply)
    return recent[::-1]


def _monologue(recent: Sequence[Message], limit: int) -> Stuck | None:
    count = 0
    for message in reversed(recent):
        if not isinstance(message, Reply) or message.calls:
            break
        # What is no answer yet has a bound of its own.
        count += not message.is_unfinished
    return Stuck(kind=LoopKind.MONOLOGUE, count=count) if count >= limit else None


def _repeated(steps: Sequence[_Step], limits: LoopLimits) -> Stuck | None:
    for period in range(1, _MAX_PERIOD + 1):
        count = _rounds(steps, period)
        last = steps[-period:]
        tools = tuple(dict.fromkeys(tool for step in last for tool in step.tools))
        if period == 1 and count >= limits.repeated:
            return Stuck(kind=LoopKind.REPEATED, count=count, tools=tools)
        if len(set(last)) > 1 and count >= limits.rounds:
            return Stuck(kind=LoopKind.PING_PONG, count=count, tools=tools)
    return None


def _rounds(steps: Sequence[_Step], period: int) -> int:
    """How often the last `period` steps come one after the other at the end."""
    last = steps[-period:]
    count, end = 0, len(steps)
    while end >= period and steps[end - period : end] == last:
        count += 1
        end -= period
    return count


def _same_error(steps: Sequence[_Step], limit: int) -> Stuck | None:
    error = steps[-1].error if steps else None
    if error is None:
        return None
    count = next((n for n, step in enumerate(reversed(steps)) if step.error != error), len(steps))
    if count < limit:
        return None
    tool, words = error
    return Stuck(kind=LoopKind.SAME_ERROR, count=count, tools=(tool,), detail=words[:_MAX_DETAIL])


def _steps(recent: Sequence[Message]) -> list[_Step]:
    answers = {m.call_id: m for m in recent if isinstance(m, ToolAnswer)}
    found = (_step(reply, answers) for reply in recent if isinstance(reply, Reply))
    return [step for step in found if step.calls]


def _step(reply: Reply, answers: Mapping[str, ToolAnswer]) -> _Step:
    calls: list[tuple[str, str, str]] = []
    errors: set[tuple[str, str] | None] = set()
    for call in reply.calls:
        answer = answers.get(call.id)
        if answer is None:
            continue
        result = _TOOK.sub("#", answer.content)
        calls.append((call.name, call.problem or canonical_json(call.arguments), result))
        errors.add((call.name, result) if answer.is_error else None)
    return _Step(tuple(calls), errors.pop() if len(errors) == 1 else None)
