import { Select, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { listPlansOptions } from "@/shared/api";
import { Loaded } from "@/shared/ui";
import { PlanCheckpoints } from "./PlanCheckpoints";

const PLANS = 100;

/** The places that the plans of a session can be taken back to. */
export function Checkpoints({ sessionId }: { sessionId: string }) {
  const { t } = useTranslation();
  const [chosen, setChosen] = useState<string | null>(null);
  const plans = useQuery({
    ...listPlansOptions({ query: { session_id: sessionId, limit: PLANS } }),
  });

  return (
    <Loaded query={plans}>
      {({ plans }) => {
        const latestFirst = plans.toSorted((a, b) => b.created_at.localeCompare(a.created_at));
        const plan = latestFirst.find(({ plan_id }) => plan_id === chosen) ?? latestFirst[0];
        if (plan === undefined) {
          return <Text>{t("checkpoints.noPlan")}</Text>;
        }
        return (
          <Stack>
            {latestFirst.length > 1 && (
              <Select
                label={t("checkpoints.plan")}
                data={latestFirst.map(({ plan_id, goal }) => ({ value: plan_id, label: goal }))}
                value={plan.plan_id}
                onChange={setChosen}
                allowDeselect={false}
                searchable
              />
            )}
            <PlanCheckpoints key={plan.plan_id} plan={plan} />
          </Stack>
        );
      }}
    </Loaded>
  );
}
