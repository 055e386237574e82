import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { PlanView } from "@/shared/api";
import { Code, useScopeParts } from "@/shared/ui";

/** What the subtasks declare, which the approval of the plan lets them do without a question. */
export function Grants({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const partsOf = useScopeParts("short");
  const granted = plan.subtasks.flatMap((subtask) => {
    const parts = partsOf(subtask).map(([name, values]) => `${name} ${values.join(", ")}`);
    return parts.length === 0 ? [] : [`${subtask.id}: ${parts.join("; ")}`];
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
