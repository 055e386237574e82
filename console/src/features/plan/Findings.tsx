import { Alert, Anchor, List } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { PlanView } from "@/shared/api";
import { recordsIn } from "@/shared/json";
import { useQuestion } from "./useQuestion";

interface Finding {
  severity: string;
  message: string;
  subtaskId?: string;
}

const COLORS = { error: "red", warning: "yellow", info: "gray" } as const;

/** What is to be known of a plan before it is decided, errors first. */
export function Findings({ plan, onOpen }: { plan: PlanView; onOpen: (id: string) => void }) {
  const { t } = useTranslation();
  const found = useFindings(plan);
  return SEVERITIES.map((severity) => {
    const these = found.filter((finding) => finding.severity === severity);
    return these.length === 0 ? null : (
      <Alert
        key={severity}
        variant="default"
        style={{ borderInlineStart: `4px solid var(--mantine-color-${COLORS[severity]}-6)` }}
        title={t(`plan.findings.${severity}`, { count: these.length })}
        p="xs"
      >
        <Lines findings={these.slice(0, FIRST)} onOpen={onOpen} />
        {these.length > FIRST && <More findings={these.slice(FIRST)} onOpen={onOpen} />}
      </Alert>
    );
  });
}

interface Found {
  findings: readonly Finding[];
  onOpen: (id: string) => void;
}

/** Folded, and drawn when they are unfolded: a large plan has hundreds. */
function More({ findings, onOpen }: Found) {
  const { t } = useTranslation();
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t("plan.findings.more", { number: findings.length })}</summary>
      {isOpen && <Lines findings={findings} onOpen={onOpen} />}
    </details>
  );
}

function Lines({ findings, onOpen }: Found) {
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

/** Findings come with the question that puts a revision before a person. */
function useFindings(plan: PlanView): Finding[] {
  const asked = useQuestion(plan);
  const found = asked?.revision === plan.revision ? asked.details.findings : undefined;
  return recordsIn(found).map(({ severity, message, subtask_id }) => ({
    severity: String(severity),
    message: String(message),
    subtaskId: typeof subtask_id === "string" ? subtask_id : undefined,
  }));
}
