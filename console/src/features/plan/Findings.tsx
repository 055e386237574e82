import { Alert, Anchor, List } from "@mantine/core";
import { useEffect, useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { PlanView } from "@/shared/api";
import type { Conversation, Following } from "@/shared/events";

interface Finding {
  severity: string;
  message: string;
  subtaskId?: string;
}

const COLORS = { error: "red", warning: "orange", info: "blue" } as const;

/** What is to be known of a plan before it is decided, errors first. */
export function Findings({
  plan,
  following,
  onOpen,
}: {
  plan: PlanView;
  following: Following;
  onOpen: (id: string) => void;
}) {
  const { t } = useTranslation();
  const { plan_id, revision } = plan;
  const { conversation, loadEarlier, isLoadingEarlier } = following;
  const told = useMemo(
    () => findingsOf(conversation, plan_id, revision),
    [conversation, plan_id, revision],
  );
  const isMissing = told === undefined && loadEarlier !== undefined && !isLoadingEarlier;

  // It was put before a person longer ago than the conversation reaches back.
  useEffect(() => {
    if (isMissing) {
      loadEarlier();
    }
  }, [isMissing, loadEarlier]);

  const found = told ?? [];
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
        <Lines findings={these.slice(0, FIRST)} onOpen={onOpen} />
        {these.length > FIRST && (
          <details>
            <summary>{t("plan.findings.more", { number: these.length - FIRST })}</summary>
            <Lines findings={these.slice(FIRST)} onOpen={onOpen} />
          </details>
        )}
      </Alert>
    );
  });
}

function Lines({
  findings,
  onOpen,
}: {
  findings: readonly Finding[];
  onOpen: (id: string) => void;
}) {
  return (
    <List size="sm">
      {findings.map(({ message, subtaskId }) => (
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
  );
}

/** Of each severity; the others are folded, so that what is decided is not pushed out of sight. */
const FIRST = 10;
const SEVERITIES = ["error", "warning", "info"] as const;

/** Findings come with the event that put a revision before a person. */
function findingsOf(
  { items }: Conversation,
  planId: string,
  revision: number,
): Finding[] | undefined {
  const told = items.findLast(
    (item) =>
      item.kind === "plan" && item.plan.plan_id === planId && item.plan.revision === revision,
  );
  return told?.kind !== "plan"
    ? undefined
    : (told.plan.findings ?? []).map(({ severity, message, subtask_id }) => ({
        severity: String(severity),
        message: String(message),
        subtaskId: typeof subtask_id === "string" ? subtask_id : undefined,
      }));
}
