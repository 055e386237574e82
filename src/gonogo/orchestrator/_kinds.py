"""The kinds that are built in, registered as any other is."""

from dataclasses import dataclass

from gonogo.domain.kinds import BUILT_IN, SubtaskType
from gonogo.engine import Kind, Outcome, Step
from gonogo.orchestrator._agent_step import AgentStep
from gonogo.orchestrator._tool_step import ToolStep


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInKinds:
    """How subtasks of the built-in kinds are carried out."""

    agents: AgentStep
    tools: ToolStep

    def all(self) -> tuple[Kind, ...]:
        """Each of them."""
        runs = {
            SubtaskType.ACTION: self.act,
            SubtaskType.DECISION: self.act,
            SubtaskType.VALIDATION: self.act,
        }
        return tuple(
            Kind(
                name=rule.name, workers=rule.workers, check=rule.check, run=runs[SubtaskType(name)]
            )
            for name, rule in BUILT_IN.items()
        )

    async def act(self, step: Step) -> Outcome:
        """An effect: by an agent, or by a tool directly."""
        if step.subtask.tool is not None:
            return await self.tools.run(step)
        return await self.agents.run(step)
