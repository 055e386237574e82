import { Alert, Anchor, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import { type ApprovalView, getApprovalOptions, getSessionOptions } from "@/shared/api";
import { plain } from "@/shared/i18n/typography";
import { Loaded, StatusBadge, visible, When } from "@/shared/ui";
import { Answer } from "./Answer";
import classes from "./Approvals.module.css";
import { AskedFor } from "./AskedFor";
import { Countdown } from "./Countdown";
import type { Draft } from "./drafts";
import { Facts } from "./Facts";
import { sameAs } from "./lines";
import { Review } from "./Review";
import { ScopeLeft } from "./ScopeAsked";
import { useKindName } from "./useKindName";

interface BodyProps {
  approval: ApprovalView;
  /** The questions that wait: identical ones are answered together. */
  waiting: readonly ApprovalView[];
  draft: Draft;
  onDraft: (changes: Partial<Draft>) => void;
  /** Told once an answer is taken, with the questions that it answered. */
  onDone?: (answered: readonly string[]) => void;
}

/** What would happen, who may decide it, and the answer. */
export function QuestionBody({ approval, waiting, draft, onDraft, onDone }: BodyProps) {
  return (
    <>
      {approval.reason !== "" && (
        <Text size="sm" style={{ whiteSpace: "pre-wrap" }}>
          {visible(plain(approval.reason))}
        </Text>
      )}
      <AskedFor approval={approval} />
      {approval.kind === "tool" && <ScopeLeft approval={approval} />}
      <Review approval={approval} />
      <Answer
        approval={approval}
        same={sameAs(approval, waiting)}
        draft={draft}
        onDraft={onDraft}
        onDone={onDone}
      />
    </>
  );
}

/** One question, whole. Somebody else's answer is seen as it comes. */
export function Question({
  approvalId,
  waiting,
  draft,
  onDraft,
  onDone,
}: {
  approvalId: string;
} & Omit<BodyProps, "approval">) {
  const { t } = useTranslation();
  const frame = useRef<HTMLElement>(null);
  const query = useQuery(getApprovalOptions({ path: { approval_id: approvalId } }));

  // Whoever opens a question goes on from it, by keyboard and by ear.
  useEffect(() => frame.current?.focus({ preventScroll: true }), []);

  return (
    <section
      ref={frame}
      className={classes.question}
      tabIndex={-1}
      aria-label={t("approvals.question")}
      data-question
    >
      <Stack gap="sm">
        <Anchor component={Link} to="/approvals" size="sm" className={classes.back}>
          {t("approvals.back")}
        </Anchor>
        <Loaded query={query}>
          {(approval) => (
            <>
              <Heading approval={approval} />
              {approval.status !== "pending" && <Decided approval={approval} />}
              <QuestionBody
                approval={approval}
                waiting={waiting}
                draft={draft}
                onDraft={onDraft}
                onDone={onDone}
              />
              <Titled approval={approval} />
            </>
          )}
        </Loaded>
      </Stack>
    </section>
  );
}

function Heading({ approval }: { approval: ApprovalView }) {
  const kind = useKindName(approval.kind);
  const { tool_name, subject, expires_at, status } = approval;
  return (
    <Group justify="space-between" align="flex-start">
      <div>
        <Text size="xs" c="dimmed">
          {kind}
        </Text>
        <Title order={2} size="h4">
          {visible(approval.kind === "tool" ? (tool_name ?? subject) : subject)}
        </Title>
      </div>
      <Group gap="xs">
        {status === "pending" && expires_at !== undefined && <Countdown until={expires_at} />}
        <StatusBadge of="question" status={status} />
      </Group>
    </Group>
  );
}

/** Who decided, when, and with which words. */
export function Decided({ approval }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  const { decided_by, decided_at, approved_by, feedback } = approval;
  return (
    <Alert color="gray" role="status">
      <Stack gap={4}>
        <Group gap="xs">
          <StatusBadge of="question" status={approval.status} />
          {decided_by !== undefined && (
            <Text size="sm">{t("approvals.by", { who: visible(decided_by) })}</Text>
          )}
          {decided_at !== undefined && <When moment={decided_at} size="sm" />}
        </Group>
        {approved_by !== undefined && approved_by.length > 1 && (
          <Text size="sm">
            {t("approvals.approvedBy", { who: visible(approved_by.join(", ")) })}
          </Text>
        )}
        {feedback !== undefined && (
          <Text size="sm" style={{ whiteSpace: "pre-wrap" }}>
            {visible(feedback)}
          </Text>
        )}
      </Stack>
    </Alert>
  );
}

/** The facts, with the session's title for those who may see it. */
function Titled({ approval }: { approval: ApprovalView }) {
  const path = { session_id: approval.session_id };
  const session = useQuery({ ...getSessionOptions({ path }), staleTime: 30_000, retry: false });
  return <Facts approval={approval} title={session.data?.title} />;
}
