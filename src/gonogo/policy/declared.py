"""What a plan declares as commands, looked at before it is approved: what asks all the same."""

from collections.abc import Sequence

from gonogo.domain.plan import COMMAND_TOOL, Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.policy.kinds import CommandPlace
from gonogo.policy.prefixes import read_prefix
from gonogo.policy.programs import Part, read_command
from gonogo.policy.rules import Rules
from gonogo.policy.shell import quote
from gonogo.policy.trace import Conditions
from gonogo.policy.verdict import verdict

_PLAN, _SUBTASK = "plan", "subtask"


def asks_anyway(written: str, agent: str, rules: Rules, conditions: Conditions) -> str | None:
    """Why a command asks, or is denied, that a scope declares and that may be declared.

    None for a beginning that only means something with more words behind it, and where it matters
    where the workspace lies, which nobody knows here.
    """
    words = read_prefix(written)
    if isinstance(words, str) or _is_unfinished(words) or any(w.startswith("/") for w in words):
        return None
    call = Call(
        tool=COMMAND_TOOL, tool_class=ToolClass.OTHER, agent=agent, arguments={},
        access=Access(command=_text(words)), plan_id=_PLAN, revision=1, subtask_id=_SUBTASK,
    )  # fmt: skip
    grant = Grant(
        grant_id="", plan_id=_PLAN, revision=1, subtask_id=_SUBTASK,
        scope=Scope(commands=(written,)),
    )  # fmt: skip
    found = verdict(call, rules, conditions, grant)
    return None if found.decision == "allow" else found.reason


def takes_no_more(written: str) -> bool:
    """Whether every word behind a command that may be declared asks."""
    words = read_prefix(written)
    if isinstance(words, str) or _is_unfinished(words):
        return False
    return all(
        part.known is not None and not part.known.table.options and bool(part.reading.problems)
        for part in _read((*words, "x"))
    )


def _is_unfinished(words: Sequence[str]) -> bool:
    """Whether something is missing that only words behind these can give."""
    places = [place for part in _read(words) for place, _ in part.reading.problems]
    return bool(places) and all(place < 0 for place in places)


def _read(words: Sequence[str]) -> Sequence[Part]:
    return read_command(_text(words), CommandPlace(workspace="/")).parts


def _text(words: Sequence[str]) -> str:
    return " ".join(map(quote, words))
