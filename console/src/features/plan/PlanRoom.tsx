import { Group, Select, Stack, Text } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { listPlansOptions, type PlanStatus, type PlanView } from "@/shared/api";
import { exact, Loaded } from "@/shared/ui";
import { OnePlan } from "./OnePlan";
import { PlanFile } from "./PlanFile";

/** Where a plan stands that keeps no other from being proposed. */
const OVER: ReadonlySet<PlanStatus> = new Set([
  "completed",
  "failed",
  "partial",
  "cancelled",
  "rejected",
  "expired",
]);

/** The plans of a session: the latest, or another that is chosen. */
export default function PlanRoom({ sessionId }: { sessionId: string }) {
  const { t } = useTranslation();
  const [chosen, choose] = useState<string | null>(null);
  const query = useQuery({
    ...listPlansOptions({ query: { session_id: sessionId, limit: 100 } }),
    placeholderData: keepPreviousData,
  });

  return (
    <Loaded query={query}>
      {({ plans }) => {
        const planId = chosen ?? plans[0]?.plan_id;
        return planId === undefined ? (
          <Stack align="flex-start">
            <Text>{t("plan.none")}</Text>
            <PlanFile sessionId={sessionId} />
          </Stack>
        ) : (
          <Stack gap="md">
            {plans.length > 1 && <Choice plans={plans} value={planId} onChange={choose} />}
            <OnePlan key={planId} planId={planId} />
            {plans.every(({ status }) => OVER.has(status)) && (
              <Group>
                <PlanFile sessionId={sessionId} />
              </Group>
            )}
          </Stack>
        );
      }}
    </Loaded>
  );
}

function Choice({
  plans,
  value,
  onChange,
}: {
  plans: readonly PlanView[];
  value: string;
  onChange: (planId: string | null) => void;
}) {
  const { t, i18n } = useTranslation();
  return (
    <Select
      label={t("plan.choose", { number: plans.length })}
      data={plans.map(({ plan_id, goal, status, created_at }) => ({
        value: plan_id,
        label: `${goal} · ${t(`words.status.plan.${status}`)} · ${exact(created_at, i18n.language)}`,
      }))}
      value={value}
      onChange={onChange}
      allowDeselect={false}
    />
  );
}
