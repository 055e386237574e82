import { Button, Group, Select, Stack, Text, Timeline, Title } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type CheckpointView, listCheckpointsOptions, type PlanView } from "@/shared/api";
import { Loaded, StatusBadge, visible, When } from "@/shared/ui";
import { Look } from "./Look";
import { Rollback, type Target } from "./Rollback";
import { TakeCheckpoint } from "./TakeCheckpoint";

const MOST = 500;

/** A plan's checkpoints, what there is to see of each, and the way back to it. */
export function PlanCheckpoints({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const [looked, setLooked] = useState<CheckpointView>();
  const [target, setTarget] = useState<Target>();
  const [page, setPage] = useState(0);
  const path = { plan_id: plan.plan_id };
  // The server gives the oldest first: the newest are at the end of all there are.
  const total = useQuery({
    ...listCheckpointsOptions({ query: { ...path, limit: 1 } }),
  });
  const end = Math.max(0, (total.data?.total ?? 0) - page * MOST);
  const offset = Math.max(0, end - MOST);
  const list = useQuery({
    ...listCheckpointsOptions({ query: { ...path, limit: Math.max(1, end - offset), offset } }),
    enabled: total.data !== undefined,
    placeholderData: keepPreviousData,
    select: ({ checkpoints }) => checkpoints.map((checkpoint) => named(checkpoint, t)),
  });

  return (
    <Stack>
      <Group gap="xs">
        <StatusBadge of="plan" status={plan.status} />
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {plan.goal} · {t("checkpoints.revision", { revision: plan.revision })}
        </Text>
      </Group>
      <TakeCheckpoint planId={plan.plan_id} />
      <Loaded query={list}>
        {(checkpoints) =>
          checkpoints.length === 0 ? (
            <Text>{t("checkpoints.none")}</Text>
          ) : (
            <>
              <Undo plan={plan} onUndo={setTarget} />
              <Title order={2} size="h5">
                {t("checkpoints.list")}
              </Title>
              <Timeline role="list" bulletSize={14} lineWidth={2} active={-1}>
                {checkpoints.toReversed().map((checkpoint) => (
                  <Timeline.Item role="listitem" key={checkpoint.checkpoint_id}>
                    <OneCheckpoint
                      checkpoint={checkpoint}
                      onLook={() => setLooked(checkpoint)}
                      onBack={() => setTarget({ checkpoint })}
                    />
                  </Timeline.Item>
                ))}
              </Timeline>
              <Group>
                {page > 0 && (
                  <Button variant="default" onClick={() => setPage(page - 1)}>
                    {t("checkpoints.newer")}
                  </Button>
                )}
                {offset > 0 && (
                  <Button variant="default" onClick={() => setPage(page + 1)}>
                    {t("checkpoints.older")}
                  </Button>
                )}
              </Group>
              {looked && (
                <Look
                  checkpoint={looked}
                  others={checkpoints}
                  onClose={() => setLooked(undefined)}
                />
              )}
            </>
          )
        }
      </Loaded>
      {target && (
        <Rollback
          key={JSON.stringify(target)}
          planId={plan.plan_id}
          target={target}
          onOther={setTarget}
          onClose={() => setTarget(undefined)}
        />
      )}
    </Stack>
  );
}

/** With its reason in the reader's language where we know what it says. */
function named(checkpoint: CheckpointView, t: TFunction): CheckpointView {
  const { subtask_id: subtask, attempt } = checkpoint;
  return subtask === undefined
    ? checkpoint
    : { ...checkpoint, reason: t("checkpoints.beforeSubtask", { subtask, attempt }) };
}

/** What can be undone without a look at the checkpoints. */
function Undo({ plan, onUndo }: { plan: PlanView; onUndo: (target: Target) => void }) {
  const { t } = useTranslation();
  const [chosen, setChosen] = useState<string | null>(null);
  return (
    <Group align="flex-end" gap="xs">
      <Select
        label={t("checkpoints.undo")}
        description={t("checkpoints.undoHint")}
        data={plan.subtasks.map(({ id }) => id)}
        value={chosen}
        onChange={setChosen}
        searchable
        clearable
        maw="100%"
      />
      <Button
        variant="default"
        disabled={chosen === null}
        onClick={() => chosen !== null && onUndo({ subtask: chosen })}
      >
        {t("checkpoints.undoOne")}
      </Button>
      <Button variant="default" onClick={() => onUndo("whole")}>
        {t("checkpoints.undoWhole")}
      </Button>
    </Group>
  );
}

function OneCheckpoint({
  checkpoint,
  onLook,
  onBack,
}: {
  checkpoint: CheckpointView;
  onLook: () => void;
  onBack: () => void;
}) {
  const { t } = useTranslation();
  const reason = visible(checkpoint.reason);
  return (
    <Group justify="space-between" gap="xs">
      <Stack gap={0} style={{ overflowWrap: "anywhere", minWidth: 0 }}>
        <Text size="sm" fw={600}>
          {reason}
        </Text>
        <Group gap={6} c="dimmed">
          <When moment={checkpoint.created_at} size="xs" />
          <Text size="xs">{t("checkpoints.revision", { revision: checkpoint.revision })}</Text>
          <State checkpoint={checkpoint} />
        </Group>
      </Stack>
      <Group gap="xs">
        <Button
          size="xs"
          variant="default"
          aria-label={`${t("checkpoints.look")}: ${reason}`}
          onClick={onLook}
        >
          {t("checkpoints.look")}
        </Button>
        {checkpoint.swept_at === undefined && (
          <Button
            size="xs"
            variant="light"
            aria-label={`${t("checkpoints.back")}: ${reason}`}
            onClick={onBack}
          >
            {t("checkpoints.back")}
          </Button>
        )}
      </Group>
    </Group>
  );
}

/** What there is not of a checkpoint, if anything. */
function State({ checkpoint }: { checkpoint: CheckpointView }) {
  const { t } = useTranslation();
  if (checkpoint.swept_at !== undefined) {
    return (
      <Text size="xs">{t("checkpoints.swept", { when: checkpoint.swept_at.slice(0, 10) })}</Text>
    );
  }
  return checkpoint.tree === undefined ? (
    <Text size="xs">{t("checkpoints.noSnapshot")}</Text>
  ) : null;
}
