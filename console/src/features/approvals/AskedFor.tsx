import { Alert, Anchor, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { ApprovalView } from "@/shared/api";
import { Code, Diff, Json, visible } from "@/shared/ui";
import { isDiff, matterOf } from "./matter";

/** What would happen, as the server would do it. All of it is text that strangers wrote. */
export function AskedFor({ approval }: { approval: ApprovalView }) {
  switch (matterOf(approval)) {
    case "plan":
      return <PlanAsked approval={approval} />;
    case "tool":
    case "doubt":
      return <CallAsked approval={approval} />;
    case "subtask":
      return <Json value={approval.details.subtask} />;
    default:
      return <Others approval={approval} />;
  }
}

function CallAsked({ approval: { details, arguments: given } }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  const preview = typeof details.preview === "string" ? details.preview : "";
  return (
    <Stack gap="xs">
      {preview !== "" && (isDiff(preview) ? <Diff text={preview} /> : <Code text={preview} />)}
      <details open={preview === ""}>
        <summary>{t("approvals.arguments")}</summary>
        <Json value={given ?? {}} />
      </details>
    </Stack>
  );
}

function PlanAsked({ approval }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  const { subtasks, findings, changes } = approval.details;
  return (
    <Stack gap="xs">
      <Anchor component={Link} to={`/sessions/${approval.session_id}/plan`}>
        {t("approvals.openPlan")}
      </Anchor>
      {Array.isArray(findings) && findings.length > 0 && (
        <Alert color="orange" title={t("approvals.findings")}>
          <Json value={findings} />
        </Alert>
      )}
      {(Array.isArray(subtasks) ? (subtasks as Record<string, unknown>[]) : []).map((subtask) => (
        <SubtaskAsked key={String(subtask.id)} subtask={subtask} />
      ))}
      {changes !== undefined && (
        <details>
          <summary>{t("approvals.changes")}</summary>
          <Json value={changes} />
        </details>
      )}
    </Stack>
  );
}

/** What is decided with a plan's subtask: what it does, by whom, and what it may touch. */
function SubtaskAsked({ subtask }: { subtask: Record<string, unknown> }) {
  const { id, description, ...others } = subtask;
  return (
    <div>
      <Title order={3} size="sm">
        {visible(`${id}: ${description}`)}
      </Title>
      <Json value={others} />
    </div>
  );
}

/** A question in its own words; its details where they say more. */
function Others({ approval: { subject, details } }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  return (
    <Stack gap="xs">
      <Text style={{ whiteSpace: "pre-wrap" }}>{visible(subject)}</Text>
      {Object.keys(details).length > 0 && (
        <details>
          <summary>{t("approvals.details")}</summary>
          <Json value={details} />
        </details>
      )}
    </Stack>
  );
}
