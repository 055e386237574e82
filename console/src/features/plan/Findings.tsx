import { Alert, Anchor, List } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { PlanView } from "@/shared/api";
import type { Conversation } from "@/shared/events";

interface Finding {
  severity: string;
  message: string;
  subtaskId?: string;
}

const COLORS = { error: "red", warning: "orange", info: "blue" } as const;

/** What is to be known of a plan before it is decided, errors first. */
export function Findings({
  plan,
  conversation,
  onOpen,
}: {
  plan: PlanView;
  conversation: Conversation;
  onOpen: (id: string) => void;
}) {
  const { t } = useTranslation();
  const { plan_id, revision } = plan;
  const found = useMemo(
    () => findingsOf(conversation, plan_id, revision),
    [conversation, plan_id, revision],
  );
  return SEVERITIES.map((severity) => {
    const these = found.filter((finding) => finding.severity === severity);
    return these.length === 0 ? null : (
      <Alert
        key={severity}
        variant="default"
        style={{ borderInlineStart: `4px solid var(--mantine-color-${COLORS[severity]}-6)` }}
        title={t(`plan.findings.${severity}`, { number: these.length })}
        p="xs"
      >
        <List size="sm">
          {these.map(({ message, subtaskId }) => (
            <List.Item key={`${subtaskId} ${message}`} style={{ overflowWrap: "anywhere" }}>
              {message}{" "}
              {subtaskId !== undefined && (
                <Anchor component="button" size="sm" onClick={() => onOpen(subtaskId)}>
                  {subtaskId}
                </Anchor>
              )}
            </List.Item>
          ))}
        </List>
      </Alert>
    );
  });
}

const SEVERITIES = ["error", "warning", "info"] as const;

/** Findings come with the event that put a revision before a person. */
function findingsOf({ items }: Conversation, planId: string, revision: number): Finding[] {
  const told = items.findLast(
    (item) =>
      item.kind === "plan" && item.plan.plan_id === planId && item.plan.revision === revision,
  );
  return told?.kind !== "plan"
    ? []
    : (told.plan.findings ?? []).map(({ severity, message, subtask_id }) => ({
        severity: String(severity),
        message: String(message),
        subtaskId: typeof subtask_id === "string" ? subtask_id : undefined,
      }));
}
