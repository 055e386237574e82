import { Anchor, List, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { ApprovalView } from "@/shared/api";
import { plain } from "@/shared/i18n/typography";
import { recordsIn } from "@/shared/json";
import { Code, Diff, Json, visible } from "@/shared/ui";
import { CommandParts } from "./CommandParts";
import { isDiff, matterOf } from "./matter";
import { SubtaskAsked } from "./SubtaskAsked";

/** What would happen, as the server would do it. All of it is text that strangers wrote. */
export function AskedFor({ approval }: { approval: ApprovalView }) {
  switch (matterOf(approval)) {
    case "plan":
      return <PlanAsked approval={approval} />;
    case "tool":
    case "doubt":
      return <CallAsked approval={approval} />;
    case "subtask":
      return recordsIn([approval.details.subtask]).map((subtask) => (
        <SubtaskAsked key={String(subtask.id)} subtask={subtask} />
      ));
    default:
      return <Others approval={approval} />;
  }
}

function CallAsked({ approval }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  const { details, arguments: given } = approval;
  const preview = typeof details.preview === "string" ? details.preview : "";
  return (
    <Stack gap="xs">
      {preview !== "" &&
        (isDiff(preview) ? <Diff text={preview} /> : <Code text={preview} isWhole />)}
      <CommandParts parts={recordsIn(details.parts)} />
      <details open={preview === "" || undefined}>
        <summary>{t("approvals.arguments")}</summary>
        <Json value={given ?? {}} isWhole />
      </details>
    </Stack>
  );
}

function PlanAsked({ approval }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  const { subtasks, findings, changes, instructions } = approval.details;
  const told = recordsIn(instructions).map(({ path }) => visible(String(path)));
  return (
    <Stack gap="xs">
      <Anchor component={Link} to={`/sessions/${approval.session_id}/plan`}>
        {t("approvals.openPlan")}
      </Anchor>
      {told.length > 0 && (
        <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {t("plan.instructions.told", { names: told.join(", ") })}
        </Text>
      )}
      <Findings findings={recordsIn(findings)} />
      {recordsIn(subtasks).map((subtask) => (
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

/** What was noticed about a plan. */
function Findings({ findings }: { findings: readonly Record<string, unknown>[] }) {
  const { t } = useTranslation();
  return findings.length === 0 ? null : (
    <div>
      <Text size="sm" fw={600}>
        {t("approvals.findings")}
      </Text>
      <List size="sm">
        {findings.map(({ message }) => (
          <List.Item key={String(message)}>{visible(plain(String(message)))}</List.Item>
        ))}
      </List>
    </div>
  );
}

/** A question in its own words, and what else is known. */
function Others({ approval: { subject, details } }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  const { about: _, ...known } = details;
  return (
    <Stack gap="xs">
      <Text style={{ whiteSpace: "pre-wrap" }}>{visible(subject)}</Text>
      {Object.keys(known).length > 0 && (
        <details>
          <summary>{t("approvals.details")}</summary>
          <Json value={known} />
        </details>
      )}
    </Stack>
  );
}
