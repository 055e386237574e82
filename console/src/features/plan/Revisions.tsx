import { Group, Select, Stack, Text, Title } from "@mantine/core";
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  getPlanDiffOptions,
  listRevisionsOptions,
  type PlanView,
  type RevisionView,
} from "@/shared/api";
import { Loaded, When } from "@/shared/ui";
import { Changes } from "./Changes";
import { changesOf, type PlanChanges } from "./changes";

/** What changed between two revisions of a plan; nothing is asked where the first has none before. */
export function useDiff(planId: string, from: number, to: number): UseQueryResult<PlanChanges> {
  return useQuery({
    ...getPlanDiffOptions({ path: { plan_id: planId }, query: { from, to } }),
    select: changesOf,
    enabled: from > 0,
    // Revisions never change.
    staleTime: Number.POSITIVE_INFINITY,
  }) as UseQueryResult<PlanChanges>;
}

/** What a plan's revision is compared with: what was approved, where that is another one. */
export function earlierOf({ revision, approved_revision: approved }: PlanView): number {
  return approved !== undefined && approved < revision ? approved : revision - 1;
}

/** Why a plan has the revision that it has, and what it has otherwise than one before. */
export function Revisions({ plan }: { plan: PlanView }) {
  return plan.revision === 1 ? null : <Later key={plan.revision} plan={plan} />;
}

function Later({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const { plan_id, revision } = plan;
  const [from, setFrom] = useState(earlierOf(plan));
  const revisions = useQuery(listRevisionsOptions({ path: { plan_id } }));
  const diff = useDiff(plan_id, from, revision);
  const title = t("plan.changes.title", { number: revision });
  return (
    <Stack gap="xs" component="section" aria-label={title}>
      <Group justify="space-between" align="flex-end">
        <Title order={3} size="h5">
          {title}
        </Title>
        <Select
          size="xs"
          label={t("plan.changes.since")}
          data={Array.from({ length: revision - 1 }, (_, place) => ({
            value: String(place + 1),
            label: t("plan.revision", { number: place + 1 }),
          }))}
          value={String(from)}
          allowDeselect={false}
          onChange={(number) => setFrom(Number(number))}
        />
      </Group>
      {revisions.data?.revisions
        .filter(({ revision }) => revision > from)
        .map((one) => (
          <Cause key={one.revision} revision={one} />
        ))}
      <Loaded query={diff}>{(changes) => <Changes changes={changes} />}</Loaded>
    </Stack>
  );
}

/** The reason of a revision that a person wrote; that of others is in words. */
const EDITED = "edited";

function Cause({ revision }: { revision: RevisionView }) {
  const { t } = useTranslation();
  return (
    <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
      {t("plan.revision", { number: revision.revision })} · {revision.created_by} ·{" "}
      <When moment={revision.created_at} span />
      {revision.reason !== "" &&
        ` · ${EDITED === revision.reason ? t("plan.edited") : revision.reason}`}
    </Text>
  );
}
