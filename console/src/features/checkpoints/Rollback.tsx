import { Alert, Badge, Button, Group, Modal, Stack, Switch, Table, Text } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type CheckpointView, type RollbackFile, type RollbackView, rollBack } from "@/shared/api";
import { en } from "@/shared/i18n/en";
import { OnlyLooks, useMay } from "@/shared/me";
import { Failure, Loaded, visible } from "@/shared/ui";

/** What is undone: all since a checkpoint, one subtask with its dependants, or the whole plan. */
export type Target =
  | { checkpoint: Pick<CheckpointView, "checkpoint_id" | "reason"> }
  | { subtask: string }
  | "whole";

const COLORS = { restore: "indigo", delete: "red", conflict: "yellow", shared: "gray" } as const;

/** First what a rollback would do; then, when that is wanted, what it did. */
export function Rollback({
  planId,
  target,
  onOther,
  onClose,
}: {
  planId: string;
  target: Target;
  onOther: (target: Target) => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [includeShared, setIncludeShared] = useState(false);
  const mayRollBack = useMay("operator");
  const rollback = useMutation({
    mutationFn: () => order(planId, target, { includeShared, dryRun: false }),
    onSettled: () => void queries.invalidateQueries(),
  });
  const look = useQuery({
    queryKey: ["rollback", planId, target, includeShared],
    queryFn: () => order(planId, target, { includeShared, dryRun: true }),
    placeholderData: keepPreviousData,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    enabled: rollback.data === undefined,
  });

  return (
    <Modal opened onClose={onClose} size="lg" title={<Name target={target} />}>
      {rollback.data ? (
        <Done rolled={rollback.data} onUndo={onOther} onClose={onClose} />
      ) : (
        <Stack>
          <Loaded query={look}>
            {(would) => (
              <>
                <Text size="sm">{t("checkpoints.dry")}</Text>
                <Files rolled={would} />
                {(would.shared > 0 || includeShared) && (
                  <Switch
                    label={t("checkpoints.includeShared")}
                    description={t("checkpoints.includeSharedHint")}
                    checked={includeShared}
                    onChange={(event) => setIncludeShared(event.currentTarget.checked)}
                  />
                )}
                <OnlyLooks />
                {rollback.error !== null && <Failure error={rollback.error} />}
                <Group justify="flex-end">
                  <Button variant="default" onClick={onClose}>
                    {t("common.cancel")}
                  </Button>
                  {mayRollBack && (
                    <Button
                      color="red"
                      loading={rollback.isPending}
                      disabled={look.isPlaceholderData}
                      onClick={() => rollback.mutate()}
                    >
                      {would.restored > 0
                        ? t("checkpoints.doFiles", { count: would.restored })
                        : t("checkpoints.doIt")}
                    </Button>
                  )}
                </Group>
              </>
            )}
          </Loaded>
        </Stack>
      )}
    </Modal>
  );
}

async function order(
  planId: string,
  target: Target,
  how: { includeShared: boolean; dryRun: boolean },
): Promise<RollbackView> {
  const { data } = await rollBack({
    path: { plan_id: planId },
    body: {
      ...asOrdered(target),
      dry_run: how.dryRun,
      include_shared: how.includeShared,
    },
    throwOnError: true,
  });
  return data;
}

function asOrdered(target: Target) {
  if (target === "whole") {
    return { whole: true };
  }
  return "subtask" in target
    ? { subtask_id: target.subtask }
    : { checkpoint_id: target.checkpoint.checkpoint_id };
}

function Name({ target }: { target: Target }) {
  const { t } = useTranslation();
  if (target === "whole") {
    return t("checkpoints.undoWholeTitle");
  }
  return "subtask" in target
    ? t("checkpoints.undoTitle", { subtask: target.subtask })
    : t("checkpoints.backTo", { reason: visible(target.checkpoint.reason) });
}

/** What a rollback does to subtasks and files. */
function Files({ rolled, isDone = false }: { rolled: RollbackView; isDone?: boolean }) {
  const { t } = useTranslation();
  return (
    <>
      <Text size="sm" style={{ overflowWrap: "anywhere" }}>
        {rolled.subtasks.length > 0
          ? t(isDone ? "checkpoints.undone" : "checkpoints.subtasks", {
              names: rolled.subtasks.join(", "),
            })
          : t("checkpoints.noSubtasks")}
      </Text>
      {rolled.files.length === 0 ? (
        <Text size="sm">{t("checkpoints.noFiles")}</Text>
      ) : (
        <Table verticalSpacing={4} aria-label={t("checkpoints.files")}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("checkpoints.files")}</Table.Th>
              <Table.Th>{t("checkpoints.action")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rolled.files.map((file) => (
              <Table.Tr key={file.path}>
                <Table.Td ff="monospace" style={{ overflowWrap: "anywhere" }}>
                  {visible(file.path)}
                </Table.Td>
                <Table.Td>
                  <Badge variant="light" color={COLORS[file.action]}>
                    {t(`checkpoints.${file.action}`)}
                  </Badge>
                  <Reason file={file} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </>
  );
}

type Known = keyof typeof en.checkpoints.why;

/** Why a file stays as it is. */
function Reason({ file: { reason } }: { file: RollbackFile }) {
  const { t } = useTranslation();
  if (!reason) {
    return null;
  }
  return (
    <Text size="xs" c="dimmed">
      {reason in en.checkpoints.why ? t(`checkpoints.why.${reason as Known}`) : visible(reason)}
    </Text>
  );
}

function Done({
  rolled,
  onUndo,
  onClose,
}: {
  rolled: RollbackView;
  onUndo: (target: Target) => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const { checkpoint_id, restored, conflicts, shared, again = [] } = rolled;
  return (
    <Stack>
      <Alert color="green" role="status">
        {t("checkpoints.done", { restored, left: conflicts + shared })}
      </Alert>
      <Files rolled={rolled} isDone />
      {again.length > 0 && (
        <Text size="sm">{t("checkpoints.again", { names: again.join(", ") })}</Text>
      )}
      <Group justify="flex-end">
        {checkpoint_id !== undefined && restored + again.length > 0 && (
          <Button
            variant="default"
            onClick={() =>
              onUndo({ checkpoint: { checkpoint_id, reason: t("checkpoints.beforeRollback") } })
            }
          >
            {t("checkpoints.undoThis")}
          </Button>
        )}
        <Button onClick={onClose}>{t("common.close")}</Button>
      </Group>
    </Stack>
  );
}
