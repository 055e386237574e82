import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { PlanView } from "@/shared/api";
import { Code, useScopeParts } from "@/shared/ui";

/** What the subtasks declare, which the approval of the plan lets them do without a question. */
export function Grants({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const partsOf = useScopeParts();
  const granted = plan.subtasks.flatMap(({ id, scope }) => {
    const lines = partsOf(scope).map(([name, values]) => `  ${name}: ${values.join(", ")}`);
    return lines.length === 0 ? [] : [id, ...lines];
  });
  return granted.length === 0 ? null : (
    <div>
      <Text size="sm" fw={600}>
        {t("plan.decide.grants")}
      </Text>
      <Code text={granted.join("\n")} />
    </div>
  );
}
