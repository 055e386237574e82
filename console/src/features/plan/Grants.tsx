import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { PlanView, Scope, SubtaskView } from "@/shared/api";
import { Code } from "@/shared/ui";

/** What the subtasks declare, which the approval of the plan lets them do without a question. */
export function Grants({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const names = {
    paths: t("plan.scope.paths"),
    commands: t("plan.scope.commands"),
    tools: t("plan.scope.tools"),
    network: t("plan.scope.network"),
    any: t("plan.scope.anyHost"),
  };
  const granted = plan.subtasks.flatMap((subtask) => scopeLines(subtask, names));
  return granted.length === 0 ? null : (
    <div>
      <Text size="sm" fw={600}>
        {t("plan.decide.grants")}
      </Text>
      <Code text={granted.join("\n")} />
    </div>
  );
}

type Names = Record<"paths" | "commands" | "tools" | "network" | "any", string>;

function scopeLines({ id, scope }: SubtaskView, names: Names): string[] {
  const { paths = [], commands = [], tools = [], network = false }: Scope = scope ?? {};
  const hosts = Array.isArray(network) ? network : network ? [names.any] : [];
  const parts = [
    [names.paths, paths],
    [names.commands, commands],
    [names.tools, tools],
    [names.network, hosts],
  ] as const;
  const lines = parts
    .filter(([, values]) => values.length > 0)
    .map(([name, values]) => `  ${name}: ${values.join(", ")}`);
  return lines.length === 0 ? [] : [id, ...lines];
}
