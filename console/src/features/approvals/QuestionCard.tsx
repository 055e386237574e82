import { Card, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ApprovalView, getApprovalOptions } from "@/shared/api";
import { StateMark, visible } from "@/shared/ui";
import { Countdown } from "./Countdown";
import { type Draft, NOTHING } from "./drafts";
import { Decided, QuestionBody } from "./Question";
import { useKindName } from "./useKindName";
import { useWaiting } from "./useQuestions";

/** What was begun, by question: rows that are out of view are not drawn, and lose nothing by it. */
const BEGUN = new Map<string, Draft>();

/**
 * A question where it came up: what would happen, and what answers it.
 *
 * Nothing once it is decided, except for who has begun to write an answer.
 */
export default function QuestionCard({
  approval: asked,
  onDone,
}: {
  approval: ApprovalView;
  onDone?: () => void;
}) {
  const { approval_id } = asked;
  const [draft, setDraft] = useState<Draft>(BEGUN.get(approval_id) ?? NOTHING);
  const { data: approval = asked } = useQuery({
    ...getApprovalOptions({ path: { approval_id } }),
    placeholderData: asked,
  });
  const kind = useKindName(approval.kind);
  const waiting = useWaiting() ?? [];
  const { tool_name, subject, expires_at, status } = approval;
  const isOpen = status === "pending";
  if (!isOpen && draft.feedback === "" && draft.edit === undefined) {
    return null;
  }

  function change(changes: Partial<Draft>): void {
    const next = { ...draft, ...changes };
    BEGUN.set(approval_id, next);
    setDraft(next);
  }

  return (
    <Card withBorder padding="sm" component="section" aria-label={`${kind}: ${visible(subject)}`}>
      <Stack gap="sm">
        <Group justify="space-between" gap="xs">
          <Group gap={6} wrap="nowrap">
            <StateMark status={isOpen ? "waiting" : status} size={14} />
            <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
              {kind}: {visible(approval.kind === "tool" ? (tool_name ?? subject) : subject)}
            </Text>
          </Group>
          {isOpen && expires_at !== undefined && <Countdown until={expires_at} />}
        </Group>
        {!isOpen && <Decided approval={approval} />}
        <QuestionBody
          approval={approval}
          waiting={waiting}
          draft={draft}
          onDraft={change}
          onDone={onDone}
        />
      </Stack>
    </Card>
  );
}
