"""Reads the subtasks of a plan, and checks all that can be known before it runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gonogo.domain.conditions import check_references, references
from gonogo.domain.errors import InvalidArguments, InvalidPlan, defects_of
from gonogo.domain.plan import KindRule, Subtask, parse_subtasks
from gonogo.domain.tool_calls import ToolClass
from gonogo.engine import check_condition
from gonogo.tools import SchemaChecks, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReader:
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
        checks = SchemaChecks()
        for subtask in subtasks:
            with defects_of(subtask.id):
                _check_condition(subtask)
                self._check_arguments(subtask, checks)
        return subtasks

    def _check_arguments(self, subtask: Subtask, checks: SchemaChecks) -> None:
        """Check the inputs of a tool that are known already."""
        if subtask.tool is None or references(subtask.inputs):
            return
        try:
            self.tools[subtask.tool].parse(subtask.inputs or {}, checks)
        except InvalidArguments as problem:
            raise InvalidPlan(f"Subtask {subtask.id!r}: inputs: {problem}") from None


def _check_condition(subtask: Subtask) -> None:
    if subtask.condition is None:
        return
    try:
        check_condition(subtask.condition)
    except InvalidPlan as problem:
        raise InvalidPlan(f"Subtask {subtask.id!r}: {problem}") from None
