import { Alert, Anchor, Badge, Group, Text } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { Call, Item } from "@/shared/events";
import { Code, Json, Markdown, onOneLine, StatusBadge } from "@/shared/ui";
import classes from "./Chat.module.css";

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
      return <div className={classes.user}>{item.text}</div>;
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
      return <CallView call={item} />;
    case "switch":
      return (
        <div className={classes.quiet}>
          {t("chat.switched", { from: item.from, to: item.to })}
          {item.reason && `: ${item.reason}`}
        </div>
      );
    case "plan":
      return (
        <Alert
          color="green"
          title={t("chat.plan", {
            revision: item.plan.revision,
            count: item.plan.subtask_count,
          })}
        >
          {item.plan.goal && <Text size="sm">{item.plan.goal}</Text>}
          <Anchor component={Link} to={`/sessions/${sessionId}/plan`} size="sm">
            {t("chat.openPlan")}
          </Anchor>
        </Alert>
      );
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
          <span>{item.error?.message ?? item.reason ?? item.text}</span>
        </Group>
      );
    case "note":
      return item.text === "" ? null : (
        <div className={classes.quiet}>
          <Markdown text={item.text} />
        </div>
      );
    case "error":
      return (
        <Alert color="red" title={item.code}>
          {item.text}
        </Alert>
      );
  }
});

const CALL_COLORS: Partial<Record<Call["status"], string>> = {
  running: "blue",
  asked: "yellow",
  approved: "blue",
  completed: "green",
  failed: "red",
  denied: "red",
  rejected: "red",
};

/** A call of a tool, folded: what it was given, and what came of it. */
function CallView({ call }: { call: Call }) {
  const { t } = useTranslation();
  return (
    <details className={classes.call}>
      <summary>
        <Text ff="monospace" size="sm" fw={600}>
          {call.tool}
        </Text>
        <Text size="sm" c="dimmed" truncate maw="24rem">
          {onOneLine(aim(call.arguments))}
        </Text>
        <Badge variant="light" color={CALL_COLORS[call.status] ?? "gray"}>
          {t(`chat.call.${call.status}`)}
        </Badge>
        {call.status === "asked" && call.approvalId && (
          <Anchor component={Link} to={`/approvals/${call.approvalId}`} size="sm">
            {t("chat.decide")}
          </Anchor>
        )}
        {call.durationMs !== undefined && (
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

/** What a call is about, in a few words. */
function aim({ path, command, query }: Record<string, unknown>): string {
  const found = [path, command, query].find((value) => typeof value === "string");
  return typeof found === "string" ? found : "";
}

function round(seconds: number): number {
  return Math.round(seconds * 10) / 10;
}
