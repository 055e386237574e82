import { Badge, Button, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import {
  type CommentView,
  comment,
  listCommentsOptions,
  type PlanView,
  revise,
} from "@/shared/api";
import { useMay } from "@/shared/me";
import { When } from "@/shared/ui";
import { Refusal } from "./Refusal";
import { Say } from "./Say";
import { useSteer } from "./useSteer";

/** What people said of a plan or of one of its subtasks, and a field to say more while it waits. */
export function Comments({ plan, subtaskId }: { plan: PlanView; subtaskId?: string }) {
  const { t } = useTranslation();
  const query = useQuery(listCommentsOptions({ path: { plan_id: plan.plan_id } }));
  const all = query.data?.comments ?? [];
  const shown = subtaskId === undefined ? all : all.filter((one) => one.subtask_id === subtaskId);
  const mayComment = useMay("operator");
  const isOpen = plan.status === "awaiting_approval" && mayComment;
  if (shown.length === 0 && !isOpen) {
    return null;
  }
  return (
    <Stack gap="sm" component="section" aria-label={t("plan.comments.title")}>
      <Title order={3} size="h5">
        {t("plan.comments.title")}
      </Title>
      {shown.map((one) => (
        <Comment key={one.comment_id} comment={one} isOfPlan={subtaskId === undefined} />
      ))}
      {isOpen && <NewComment plan={plan} subtaskId={subtaskId} />}
      {isOpen && <SendBack plan={plan} open={query.data?.open ?? 0} />}
    </Stack>
  );
}

function Comment({ comment, isOfPlan }: { comment: CommentView; isOfPlan: boolean }) {
  const { t } = useTranslation();
  const { author, created_at, revision, subtask_id, content, answer, answered_revision } = comment;
  return (
    <Stack gap={2}>
      <Group gap="xs">
        <Text size="sm" fw={600}>
          {author}
        </Text>
        <Text size="xs" c="dimmed">
          {t("plan.revision", { number: revision })} · <When moment={created_at} span />
        </Text>
        {isOfPlan && subtask_id && (
          <Badge variant="default" tt="none">
            {subtask_id}
          </Badge>
        )}
      </Group>
      <Text size="sm" style={PLAIN}>
        {content}
      </Text>
      <Text size="sm" c="dimmed" pl="md" style={PLAIN}>
        {answer === undefined
          ? t("plan.comments.unanswered")
          : t("plan.comments.answer", { number: answered_revision ?? revision, text: answer })}
      </Text>
    </Stack>
  );
}

const PLAIN = { whiteSpace: "pre-wrap", overflowWrap: "anywhere" } as const;

function NewComment({ plan, subtaskId }: { plan: PlanView; subtaskId?: string }) {
  const { t } = useTranslation();
  const path = { plan_id: plan.plan_id };
  const about = { subtask_id: subtaskId, revision: plan.revision };
  return (
    <Say
      label={
        subtaskId === undefined
          ? t("plan.comments.new")
          : t("plan.comments.newOf", { id: subtaskId })
      }
      button={t("plan.comments.add")}
      send={(content) => comment({ path, body: { content, ...about } })}
    />
  );
}

function SendBack({ plan, open }: { plan: PlanView; open: number }) {
  const { t } = useTranslation();
  const { mutate, isPending, error } = useSteer(() => revise({ path: { plan_id: plan.plan_id } }));
  if (plan.revising) {
    return <Text size="sm">{t("plan.revising")}</Text>;
  }
  return open === 0 ? null : (
    <Stack gap={4}>
      <Text size="sm" c="dimmed">
        {t("plan.comments.sendBackHint", { count: open })}
      </Text>
      <Refusal error={error} />
      <Button
        size="xs"
        loading={isPending}
        onClick={() => mutate()}
        style={{ alignSelf: "flex-start" }}
      >
        {t("plan.comments.sendBack")}
      </Button>
    </Stack>
  );
}
