import "@mantine/charts/styles.css";
import { Alert, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Analytics, analyticsOptions } from "@/shared/api";
import { useWord } from "@/shared/i18n/words";
import {
  Loaded,
  type Range,
  RangeSelect,
  rangeOf,
  SessionSelect,
  type Span,
  useFigures,
} from "@/shared/ui";
import { Approvals, Calls, Durations, Failures, Models, Outcomes } from "./figures";

const SPANS: readonly Span[] = ["day", "week", "month", "year", "own"];

/** What came of the work: how much succeeds, how long it takes, why it fails, how people answer. */
export function AnalyticsPage() {
  const { t } = useTranslation();
  const wordOf = useWord();
  const [sessionId, setSessionId] = useState<string | null>(null);
  const [range, setRange] = useState<Range>(() => rangeOf("month", Date.now()));
  const query = useQuery({
    ...analyticsOptions({
      query: { session_id: sessionId ?? undefined, since: range.since, until: range.until },
    }),
    placeholderData: keepPreviousData,
  });

  return (
    <Stack>
      <Title order={1} size="h2">
        {t("analytics.title")}
      </Title>
      <Group align="flex-end" gap="xs">
        <RangeSelect range={range} spans={SPANS} onChange={setRange} />
        <SessionSelect sessionId={sessionId} onChange={setSessionId} />
      </Group>
      <Loaded query={query}>
        {(found) => (
          <>
            {isNothing(found) && <Alert>{t("analytics.nothing")}</Alert>}
            <Totals found={found} />
            <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="sm">
              <Outcomes title={t("analytics.byWorker")} outcomes={found.by_worker} />
              <Outcomes
                title={t("analytics.byType")}
                outcomes={found.by_type.map((one) => ({ ...one, name: wordOf("type", one.name) }))}
              />
              <Durations found={found} />
              <Failures failures={found.failures} />
              <Approvals approvals={found.approvals} />
              <Calls calls={found.tool_calls} />
              <Models models={found.models} />
            </SimpleGrid>
          </>
        )}
      </Loaded>
    </Stack>
  );
}

function isNothing({ plans, subtasks, tool_calls, models }: Analytics): boolean {
  return !plans.ended && !subtasks.ended && !tool_calls.asked && models.length === 0;
}

function Totals({ found: { plans, subtasks } }: { found: Analytics }) {
  const { t } = useTranslation();
  const { number, percent } = useFigures();
  const totals = [
    [t("analytics.successRate"), percent(plans.success_rate)],
    [t("analytics.subtaskRate"), percent(subtasks.success_rate)],
    [`${t("analytics.plans")}, ${t("analytics.ended")}`, number(plans.ended ?? 0)],
    [`${t("analytics.subtasks")}, ${t("analytics.ended")}`, number(subtasks.ended ?? 0)],
    [t("analytics.retries"), number(subtasks.retries ?? 0)],
    [t("analytics.replans"), number(plans.replans ?? 0)],
    [t("analytics.rollbacks"), number(plans.rollbacks ?? 0)],
  ];
  return (
    <SimpleGrid component="dl" cols={{ base: 2, sm: 4, lg: 7 }} spacing="sm" m={0}>
      {totals.map(([name, total]) => (
        <div key={name}>
          <Text component="dt" size="xs" c="dimmed">
            {name}
          </Text>
          <Text component="dd" size="xl" fw={700} m={0}>
            {total}
          </Text>
        </div>
      ))}
    </SimpleGrid>
  );
}
