import { Group, Progress, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { PlanStatusView, PlanView, UsageView } from "@/shared/api";
import {
  colorOf,
  exact,
  Meter,
  Spent,
  StatusBadge,
  useFigures,
  useNow,
  visible,
  When,
} from "@/shared/ui";
import { span } from "./times";
import { standingOf } from "./worker";

/** What a plan is for, how far it is, and what it took. */
export function PlanHead({ plan, status }: { plan: PlanView; status?: PlanStatusView }) {
  const { t } = useTranslation();
  return (
    <Stack gap={6}>
      <Group gap="sm" align="center">
        <Title order={2} size="h4" style={{ overflowWrap: "anywhere" }}>
          {visible(plan.goal)}
        </Title>
        <StatusBadge of="plan" status={plan.status} />
        {plan.revising && <Text size="sm">{t("plan.revising")}</Text>}
      </Group>
      <Group gap="md">
        <Text size="sm">{t("plan.revision", { number: plan.revision })}</Text>
        {plan.made_by && <Text size="sm">{t("plan.madeBy", { name: visible(plan.made_by) })}</Text>}
        <Times plan={plan} />
      </Group>
      <Pause plan={plan} />
      {plan.feedback && (
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {t("plan.feedbackWas", { text: plan.feedback })}
        </Text>
      )}
      <Instructions plan={plan} />
      {status && <Done status={status} />}
      {status?.usage && <Usage usage={status.usage} limits={status.limits ?? {}} />}
    </Stack>
  );
}

/** Which instruction files its planner was told of. */
function Instructions({ plan: { instructions = [] } }: { plan: PlanView }) {
  const { t } = useTranslation();
  const names = instructions.map(({ path, cut }) =>
    cut ? t("plan.instructions.cut", { path: visible(path) }) : visible(path),
  );
  return names.length === 0 ? null : (
    <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
      {t("plan.instructions.told", { names: names.join(", ") })}
    </Text>
  );
}

function Times({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const now = useNow();
  if (plan.started_at === undefined) {
    return (
      <Text size="sm" c="dimmed">
        {t("plan.created")} <When key={plan.created_at} moment={plan.created_at} span />
      </Text>
    );
  }
  const isOver = plan.finished_at !== undefined;
  const end = plan.finished_at === undefined ? now : Date.parse(plan.finished_at);
  const seconds = Math.max(0, (end - Date.parse(plan.started_at)) / 1_000);
  // What still runs is told in whole seconds, as how long ago it started.
  const took = span(isOver ? seconds : Math.floor(seconds), t);
  return (
    <Text size="sm" c="dimmed">
      {t("plan.started")} <When moment={plan.started_at} now={now} span /> ·{" "}
      {t(isOver ? "plan.took" : "plan.goesOn", { took })}
    </Text>
  );
}

function Pause({ plan: { pause_reason, paused_until } }: { plan: PlanView }) {
  const { t, i18n } = useTranslation();
  if (pause_reason === undefined) {
    return null;
  }
  const reasons: Record<string, string> = {
    quota: t("plan.pause.quota"),
    budget: t("plan.pause.budget"),
    model: t("plan.pause.model"),
    disk: t("plan.pause.disk"),
    rollback: t("plan.pause.rollback"),
  };
  return (
    <Text size="sm">
      {reasons[pause_reason] ?? pause_reason}
      {paused_until !== undefined &&
        ` ${t("plan.pause.until", { moment: exact(paused_until, i18n.language) })}`}
    </Text>
  );
}

function Done({ status }: { status: PlanStatusView }) {
  const { t } = useTranslation();
  const counts = OVER.map(
    (word) => status.subtasks.filter((each) => standingOf(each) === word).length,
  );
  const total = status.total_steps;
  const [completed = 0, failed = 0, , , undone = 0] = counts;
  return (
    <Group gap="sm" wrap="nowrap">
      <Progress.Root style={{ flex: 1, maxWidth: "28rem" }}>
        {OVER.map((word, place) => (
          <Progress.Section
            key={word}
            value={(100 * (counts[place] ?? 0)) / Math.max(total, 1)}
            color={colorOf(word)}
            aria-label={`${t("plan.progress")}: ${t(`words.status.subtask.${word}`)}`}
          />
        ))}
      </Progress.Root>
      <Text size="sm">{t("plan.over", { done: completed, total })}</Text>
      {failed > 0 && (
        <Text size="sm" fw={600} c="red">
          {t("plan.failed", { number: failed })}
        </Text>
      )}
      {undone > 0 && (
        <Text size="sm" fw={600}>
          {t("plan.rolledBack", { number: undone })}
        </Text>
      )}
    </Group>
  );
}

/** How a subtask can be over; only the first is green. */
const OVER = ["completed", "failed", "skipped", "cancelled", "rolled_back"] as const;
const SPENT = ["tokens", "cost", "seconds", "requests", "subtasks"] as const;

/** Whether something is told by itself: tokens and money are told together. */
function isTold(usage: UsageView, name: (typeof SPENT)[number]): boolean {
  return usage[name] > 0 && name !== "tokens" && name !== "cost" && name !== "requests";
}

/** What was spent, each beside its limit where there is one. */
function Usage({ usage, limits }: { usage: UsageView; limits: Record<string, number> }) {
  const { t } = useTranslation();
  const { number, dollars } = useFigures();
  const shown = (name: (typeof SPENT)[number], value: number) =>
    name === "seconds" ? span(value, t) : name === "cost" ? dollars(value) : number(value);
  return (
    <Group gap="md" align="flex-start">
      {usage.requests > 0 && <Spent usage={usage} />}
      {SPENT.filter((name) => limits[name] !== undefined || isTold(usage, name)).map((name) => (
        <Meter
          key={name}
          name={t(`usage.${name}`)}
          used={usage[name]}
          limit={limits[name]}
          write={(value) => shown(name, value)}
        />
      ))}
    </Group>
  );
}
