"""The kinds that are built in, registered as any other is."""

from dataclasses import dataclass

from gonogo.domain.plan import BUILT_IN, COMMAND_TOOL, READ_TOOL, SubtaskType, own_tool
from gonogo.engine import Kind, Outcome, Step
from gonogo.orchestrator._agent_step import AgentStep
from gonogo.orchestrator._checks import check_command, check_file
from gonogo.orchestrator._endings import DECISION, VERDICT
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
            SubtaskType.DECISION: self.decide,
            SubtaskType.VALIDATION: self.validate,
        }
        return tuple(
            Kind(
                name=rule.name, workers=rule.workers, check=rule.check, run=runs[SubtaskType(name)]
            )
            for name, rule in BUILT_IN.items()
        )

    async def act(self, step: Step) -> Outcome:
        """An effect, by an agent or by a tool directly; or what a model alone can say."""
        if step.subtask.tool is not None:
            return await self.tools.run(step)
        return await self.agents.run(step)

    async def decide(self, step: Step) -> Outcome:
        """A choice among options, by an agent or by a model alone."""
        return await self.agents.run(step, DECISION)

    async def validate(self, step: Step) -> Outcome:
        """A verdict: by an agent, a tool, a command's exit code, a file, or a model alone."""
        tool = own_tool(step.subtask)
        if tool == COMMAND_TOOL:
            return await check_command(self.tools, step)
        if step.subtask.tool is not None:
            return await self.tools.run(step)
        if tool == READ_TOOL:
            return await check_file(self.tools, step)
        return await self.agents.run(step, VERDICT)
