import {
  Alert,
  Anchor,
  Badge,
  Button,
  Card,
  Group,
  Stack,
  Text,
  VisuallyHidden,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { memo } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import { getPlanOptions } from "@/shared/api";
import type { Call, Item } from "@/shared/events";
import { en } from "@/shared/i18n/en";
import { useProblems } from "@/shared/i18n/problems";
import { useWord } from "@/shared/i18n/words";
import { OpenQuestion, useOpenQuestions } from "@/shared/slots";
import { UndoButton } from "@/shared/UndoButton";
import {
  Code,
  colorOf,
  Json,
  Markdown,
  onOneLine,
  StateMark,
  StatusBadge,
  visible,
} from "@/shared/ui";
import classes from "./Chat.module.css";

/** Milliseconds that a call has to take to have them told. */
const SHOWN_MS = 100;
/** The agent of calls that gonogo itself makes, such as the checks of a plan. */
const RUNTIME = "gonogo";

/** One thing that was said or done. */
export const ItemView = memo(function ItemView({
  item,
  sessionId,
}: {
  item: Item;
  sessionId: string;
}) {
  const { t } = useTranslation();
  switch (item.kind) {
    case "user":
      return (
        <div className={classes.user} data-sent={item.pending || undefined}>
          {item.text}
        </div>
      );
    case "assistant":
      return (
        <div className={classes.assistant} aria-busy={item.isGrowing}>
          {item.agent && (
            <Text size="xs" c="dimmed">
              {item.agent}
            </Text>
          )}
          <Markdown text={item.text} />
        </div>
      );
    case "call":
      return <CallView call={item} sessionId={sessionId} />;
    case "switch":
      return (
        <div className={classes.quiet}>
          {t("chat.switched", { from: item.from, to: item.to })}
          <Why item={item} />
        </div>
      );
    case "plan":
      return <PlanCard item={item} sessionId={sessionId} />;
    case "subtask":
      return (
        <Group gap="xs" className={classes.quiet}>
          <StatusBadge of="subtask" status={item.status} />
          <span>{item.subtaskId}</span>
          {item.attempt !== undefined && item.attempt > 1 && (
            <span>{t("chat.attempt", { number: item.attempt })}</span>
          )}
          {item.seconds !== undefined && (
            <span>{t("common.seconds", { seconds: round(item.seconds) })}</span>
          )}
          <span>{item.error?.message ?? item.reason ?? item.text?.replace(COUNTED, "")}</span>
        </Group>
      );
    case "note":
      return <Note item={item} sessionId={sessionId} />;
    case "error":
      return <ErrorView item={item} />;
  }
});

/** The count with which the protocol has each subtask's start begin. */
const COUNTED = /^Subtask \d+\/\d+: /;

/** What happened to a plan: in the page's language where its facts say it, else as it was told. */
function Note({ item: { type, text, facts }, sessionId }: { item: Of<"note">; sessionId: string }) {
  const { t } = useTranslation();
  const wordOf = useWord();
  const { subtask_count: count, status, total, completed, failed, skipped } = facts;
  const told =
    type === "plan_approved" && typeof count === "number"
      ? t("chat.approved", { count })
      : type === "plan_completed"
        ? t("chat.ended", {
            total: Number(total),
            completed: Number(completed),
            failed: Number(failed),
            skipped: Number(skipped),
            status: wordOf("status.plan", String(status)),
          })
        : text;
  if (told === "") {
    return null;
  }
  return type === "plan_completed" ? (
    <Ended told={told} planId={String(facts.plan_id)} sessionId={sessionId} />
  ) : (
    <div className={classes.quiet}>
      <Markdown text={told} />
    </div>
  );
}

/** How a plan ended, and what one does next: look at what it changed, or undo it. */
function Ended({ told, planId, sessionId }: { told: string; planId: string; sessionId: string }) {
  const { t } = useTranslation();
  const { data: plan } = useQuery(getPlanOptions({ path: { plan_id: planId } }));
  return (
    <Card withBorder padding="xs" className={classes.assistant}>
      <Text size="sm">{told}</Text>
      <Group gap="xs" mt={6} mih={30}>
        <Button size="xs" variant="default" component={Link} to={`/sessions/${sessionId}/changes`}>
          {t("plan.steer.changes")}
        </Button>
        {plan && <UndoButton plan={plan} />}
      </Group>
    </Card>
  );
}

/** Why another agent continues: the runtime says it by a word, agents and people in their own. */
function Why({ item: { cause = "", reason, subtaskId } }: { item: Of<"switch"> }) {
  const { t } = useTranslation();
  const known = Object.keys(en.chat.because).find((word) => word === cause) as
    | keyof typeof en.chat.because
    | undefined;
  const why = known ? t(`chat.because.${known}`, { id: subtaskId ?? "" }) : reason;
  return why ? <>: {visible(why)}</> : null;
}

/** What did not work, and what to do. */
function ErrorView({ item: { said, text } }: { item: Of<"error"> }) {
  const { t } = useTranslation();
  const { textOf, nextStep } = useProblems();
  return (
    <Alert color="red" title={t("chat.error")}>
      {visible(textOf({ ...said, detail: text }))}
      <Text size="sm" c="dimmed">
        {nextStep(said.code)}
      </Text>
    </Alert>
  );
}

type Of<Kind extends Item["kind"]> = Extract<Item, { kind: Kind }>;

/** A plan where it was proposed; while it waits for a decision, with the buttons for it. */
function PlanCard({
  item: { plan, planId },
  sessionId,
}: {
  item: Extract<Item, { kind: "plan" }>;
  sessionId: string;
}) {
  const { t } = useTranslation();
  const asked = useOpenQuestions(sessionId).find(
    (one) => one.kind === "plan" && one.plan_id === planId && one.revision === plan.revision,
  );
  return (
    <Stack gap="xs" className={classes.assistant}>
      <Card withBorder padding="xs">
        <Text size="sm" fw={600}>
          {t("chat.plan", { revision: plan.revision, count: plan.subtask_count })}
        </Text>
        {plan.goal && <Text size="sm">{plan.goal}</Text>}
        {asked === undefined && (
          <Anchor component={Link} to={`/sessions/${sessionId}/plan`} size="sm">
            {t("chat.openPlan")}
          </Anchor>
        )}
      </Card>
      <OpenQuestion approval={asked} />
    </Stack>
  );
}

/** A call, and while it waits for an answer the buttons for it. */
function CallView({ call, sessionId }: { call: Call; sessionId: string }) {
  const open = useOpenQuestions(sessionId);
  const asked =
    call.status === "asked"
      ? open.find(({ approval_id }) => approval_id === call.approvalId)
      : undefined;
  return (
    <div className={classes.assistant}>
      <CallLine call={call} />
      <div className={classes.asked}>
        <OpenQuestion approval={asked} />
      </div>
    </div>
  );
}

/** A call of a tool, folded: what it was given, and what came of it. */
function CallLine({ call }: { call: Call }) {
  const { t } = useTranslation();
  return (
    <details className={classes.call}>
      <summary>
        <Text ff="monospace" size="sm" fw={600}>
          {call.agent === RUNTIME ? `${RUNTIME}: ${call.tool}` : call.tool}
        </Text>
        <Text size="sm" c="dimmed" truncate maw="24rem">
          {onOneLine(aim(call.arguments))}
        </Text>
        <CallStanding status={call.status} />
        {call.durationMs !== undefined && call.durationMs >= SHOWN_MS && (
          <Text size="xs" c="dimmed">
            {t("chat.took", { seconds: round(call.durationMs / 1_000) })}
          </Text>
        )}
      </summary>
      <div className={classes.body}>
        <Text size="xs" c="dimmed">
          {[call.agent, call.subtaskId, call.reason].filter(Boolean).join(" · ")}
          {call.decidedBy && ` · ${t("chat.by", { who: call.decidedBy })}`}
        </Text>
        {call.feedback && <Text size="sm">{call.feedback}</Text>}
        <Text size="xs">{t("chat.arguments")}</Text>
        <Json value={call.arguments} />
        {call.error !== undefined && (
          <>
            <Text size="xs">{t("chat.error")}</Text>
            <Code text={call.error} />
          </>
        )}
        {call.result !== undefined && (
          <>
            <Text size="xs">{t("chat.output")}</Text>
            <Json value={call.result} />
          </>
        )}
      </div>
    </details>
  );
}

/** Where a call stands. That it completed is the rule: a mark says it, in a word only to a reader. */
function CallStanding({ status }: { status: Call["status"] }) {
  const { t } = useTranslation();
  const word = t(`chat.call.${status}`);
  return status === "completed" ? (
    <>
      <StateMark status={status} size={14} />
      <VisuallyHidden>{word}</VisuallyHidden>
    </>
  ) : (
    <Badge variant="light" color={colorOf(status)} leftSection={<StateMark status={status} />}>
      {word}
    </Badge>
  );
}

/** What a call is about, in a few words. */
function aim({ path, command, query }: Record<string, unknown>): string {
  const found = [path, command, query].find((value) => typeof value === "string");
  return typeof found === "string" ? found : "";
}

function round(seconds: number): number {
  return Math.round(seconds * 10) / 10;
}
