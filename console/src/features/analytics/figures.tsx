import { BarChart } from "@mantine/charts";
import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type {
  Analytics,
  ApprovalOutcomes,
  CallOutcomes,
  FailureCause,
  ModelUse,
  SubtaskOutcomes,
} from "@/shared/api";
import { en } from "@/shared/i18n/en";
import { useWord } from "@/shared/i18n/words";
import { colorOf, useFigures } from "@/shared/ui";
import { Figure } from "./Figure";
import { byCause, type Took, took } from "./rows";

const ROW = 34;
const AXES = 70;
/** A legend of several words takes two lines in a narrow window. */
const LEGEND = 28;
const ENDS = ["completed", "failed", "skipped", "cancelled"] as const;

/** Bars that lie, each with its name; as high as their number asks for. */
function Bars({
  data,
  by,
  series,
  stacked = false,
  isWhole = false,
}: {
  data: Record<string, string | number>[];
  by: string;
  series: { name: string; label?: string; color: string }[];
  stacked?: boolean;
  /** Whether only whole numbers make sense on its axis. */
  isWhole?: boolean;
}) {
  const { number } = useFigures();
  const rows = stacked ? data.length : data.length * series.length * 0.7;
  return (
    <BarChart
      h={AXES + Math.max(1, rows) * ROW + (series.length > 2 ? LEGEND : 0)}
      data={data}
      dataKey={by}
      series={series}
      type={stacked ? "stacked" : "default"}
      orientation="vertical"
      withLegend={series.length > 1}
      valueFormatter={number}
      yAxisProps={{ width: 124, interval: 0 }}
      xAxisProps={{ allowDecimals: !isWhole }}
      barChartProps={{ accessibilityLayer: false }}
      barProps={{ isAnimationActive: false }}
      gridAxis="x"
    />
  );
}

/** How subtasks ended, by what did them or by what they were. */
export function Outcomes({ title, outcomes }: { title: string; outcomes: SubtaskOutcomes[] }) {
  const { t } = useTranslation();
  const { percent } = useFigures();
  const data = outcomes.map(({ name, ...counts }) => ({
    name,
    ...Object.fromEntries(ENDS.map((end) => [end, counts[end] ?? 0])),
  }));
  return (
    <Figure
      title={title}
      empty={t("analytics.noSubtasks")}
      head={[
        t("analytics.name"),
        ...ENDS.map((end) => t(`analytics.${end}`)),
        t("analytics.retries"),
        t("analytics.rate"),
      ]}
      rows={outcomes.map((one) => [
        one.name,
        ...ENDS.map((end) => one[end] ?? 0),
        one.retries ?? 0,
        percent(one.success_rate),
      ])}
    >
      <Bars
        data={data}
        by="name"
        series={ENDS.map((end) => ({
          name: end,
          label: t(`analytics.${end}`),
          color: END_COLORS[end],
        }))}
        stacked
        isWhole
      />
    </Figure>
  );
}

const END_COLORS = {
  completed: "green.6",
  failed: "red.6",
  skipped: "gray.4",
  cancelled: "gray.6",
};

function Seconds({
  title,
  empty,
  data,
  note,
}: {
  title: string;
  empty: string;
  data: Took[];
  note?: ReactNode;
}) {
  const { t } = useTranslation();
  return (
    <Figure
      title={title}
      empty={empty}
      head={[
        t("analytics.what"),
        t("analytics.number"),
        t("analytics.half"),
        t("analytics.ninety"),
        t("analytics.most"),
      ]}
      rows={data.map(({ name, count, p50, p90, p99 }) => [name, count, p50, p90, p99])}
      note={note}
    >
      <Bars
        data={data.map((one) => ({ ...one }))}
        by="name"
        series={[
          { name: "p50", label: t("analytics.half"), color: "indigo.3" },
          { name: "p90", label: t("analytics.ninety"), color: "indigo.5" },
          { name: "p99", label: t("analytics.most"), color: "indigo.8" },
        ]}
      />
    </Figure>
  );
}

/** How long plans and subtasks took. */
export function Durations({ found }: { found: Analytics }) {
  const { t } = useTranslation();
  const data = took([
    [t("analytics.plans"), found.plans.duration_seconds],
    [t("analytics.subtasks"), found.subtasks.duration_seconds],
    ...found.by_worker.map((one) => [one.name, one.duration_seconds] as const),
  ]);
  return <Seconds title={t("analytics.durations")} empty={t("analytics.noPlans")} data={data} />;
}

/** Why subtasks failed. */
export function Failures({ failures }: { failures: FailureCause[] }) {
  const { t } = useTranslation();
  const wordOf = useWord();
  const named = failures.map((one) => ({
    ...one,
    category: wordOf("category", one.category),
    type: wordOf("type", one.type),
  }));
  return (
    <Figure
      title={t("analytics.failures")}
      empty={t("analytics.noFailures")}
      head={[
        t("analytics.cause"),
        t("analytics.worker"),
        t("analytics.type"),
        t("analytics.number"),
      ]}
      rows={named.map(({ category, worker, type, count }) => [category, worker, type, count])}
    >
      <Bars
        data={byCause(named).map((one) => ({ ...one }))}
        by="cause"
        isWhole
        series={[{ name: "number", label: t("analytics.number"), color: "red.6" }]}
      />
    </Figure>
  );
}

type Kind = keyof typeof en.analytics.kinds;

/** How long people took to answer, by what they were asked. */
export function Approvals({ approvals }: { approvals: ApprovalOutcomes[] }) {
  const { t } = useTranslation();
  const wordOf = useWord();
  const named = approvals.map((one) => ({
    ...one,
    kind: one.kind in en.analytics.kinds ? t(`analytics.kinds.${one.kind as Kind}`) : one.kind,
  }));
  const data = took(named.map(({ kind, latency_seconds }) => [kind, latency_seconds] as const));
  return (
    <Seconds
      title={t("analytics.latency")}
      empty={t("analytics.noApprovals")}
      data={data}
      note={named.map(({ kind, asked, pending = 0, answers = {} }) => (
        <Text key={kind} size="sm">
          {kind}: {t("analytics.asked")} {asked}, {t("analytics.pending")} {pending}
          {Object.entries(answers).map(
            ([status, count]) => `, ${wordOf("status.question", status)} ${count}`,
          )}
        </Text>
      ))}
    />
  );
}

type By = keyof typeof en.analytics.by;

/** Uses of tools, by how they ended; and by what they were let run. */
export function Calls({ calls: { ended = {}, started = {} } }: { calls: CallOutcomes }) {
  const { t } = useTranslation();
  const wordOf = useWord();
  const data = Object.entries(ended).map(([status, number]) => ({
    outcome: wordOf("status.call", status),
    number,
    color: `${colorOf(status)}.6`,
  }));
  const by = Object.entries(started).map(
    ([who, number]) =>
      `${who in en.analytics.by ? t(`analytics.by.${who as By}`) : who}: ${number}`,
  );
  return (
    <Figure
      title={t("analytics.calls")}
      empty={t("analytics.noCalls")}
      head={[t("analytics.outcome"), t("analytics.number")]}
      rows={data.map(({ outcome, number }) => [outcome, number])}
      note={
        by.length > 0 && (
          <Text size="sm">
            {t("analytics.started")}: {by.join(", ")}
          </Text>
        )
      }
    >
      <Bars
        data={data}
        by="outcome"
        series={[{ name: "number", label: t("analytics.number"), color: "indigo.6" }]}
        isWhole
      />
    </Figure>
  );
}

/** What models were asked, and what that took and cost. */
export function Models({ models }: { models: ModelUse[] }) {
  const { t } = useTranslation();
  const { dollars } = useFigures();
  return (
    <Figure
      title={t("analytics.models")}
      empty={t("analytics.noModels")}
      head={[
        t("analytics.model"),
        t("analytics.requests"),
        t("analytics.failed"),
        t("analytics.input"),
        t("analytics.cached"),
        t("analytics.output"),
        t("analytics.reasoning"),
        t("analytics.cost"),
      ]}
      rows={models.map((one) => [
        one.model,
        one.requests,
        one.failed,
        one.input_tokens,
        one.cached_tokens ?? 0,
        one.output_tokens,
        one.reasoning_tokens ?? 0,
        dollars(one.cost_dollars),
      ])}
    >
      <Bars
        data={models.map((one) => ({ ...one }))}
        by="model"
        series={[
          { name: "input_tokens", label: t("analytics.input"), color: "indigo.6" },
          { name: "output_tokens", label: t("analytics.output"), color: "indigo.3" },
        ]}
        isWhole
      />
    </Figure>
  );
}
