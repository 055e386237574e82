import { Alert, Group, Modal, Select, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  type CheckpointView,
  type FileDiff,
  getCheckpointDiffOptions,
  getCheckpointOptions,
} from "@/shared/api";
import { Diff, exact, FileHead, Loaded, StatusBadge, visible } from "@/shared/ui";

const NOW = "";

/** One checkpoint: whether it is whole, where the subtasks stood, and how its files differ. */
export function Look({
  checkpoint,
  others,
  onClose,
}: {
  checkpoint: CheckpointView;
  others: readonly CheckpointView[];
  onClose: () => void;
}) {
  const { t, i18n } = useTranslation();
  const path = { checkpoint_id: checkpoint.checkpoint_id };
  const state = useQuery(getCheckpointOptions({ path }));

  return (
    <Modal opened onClose={onClose} size="xl" title={visible(checkpoint.reason)}>
      <Stack>
        <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {exact(checkpoint.created_at, i18n.language)} · {checkpoint.checkpoint_id}
        </Text>
        <Loaded query={state}>
          {({ verified, subtasks }) => (
            <>
              <Alert color={verified ? "green" : "red"} p="xs">
                {t(verified ? "checkpoints.verified" : "checkpoints.notVerified")}
              </Alert>
              <Title order={3} size="h6">
                {t("checkpoints.stood")}
              </Title>
              <Group gap="xs">
                {subtasks.map(({ id, status }) => (
                  <Group key={id} gap={4}>
                    <Text size="sm">{id}</Text>
                    <StatusBadge of="subtask" status={status} />
                  </Group>
                ))}
              </Group>
            </>
          )}
        </Loaded>
        {isKept(checkpoint) ? (
          <Compared checkpoint={checkpoint} others={others} />
        ) : (
          <Text size="sm">{t("checkpoints.noSnapshot")}</Text>
        )}
      </Stack>
    </Modal>
  );
}

function isKept({ tree, swept_at }: CheckpointView): boolean {
  return tree !== undefined && swept_at === undefined;
}

function Compared({
  checkpoint,
  others,
}: {
  checkpoint: CheckpointView;
  others: readonly CheckpointView[];
}) {
  const { t } = useTranslation();
  const [to, setTo] = useState(NOW);
  const diff = useQuery({
    ...getCheckpointDiffOptions({
      path: { checkpoint_id: checkpoint.checkpoint_id },
      query: { to: to || undefined },
    }),
    staleTime: 0,
  });
  const choices = others
    .filter((other) => isKept(other) && other.checkpoint_id !== checkpoint.checkpoint_id)
    .map((other) => ({ value: other.checkpoint_id, label: visible(other.reason) }));

  return (
    <>
      <Select
        label={t("checkpoints.compareWith")}
        data={[{ value: NOW, label: t("checkpoints.now") }, ...choices]}
        value={to}
        onChange={(value) => setTo(value ?? NOW)}
        allowDeselect={false}
      />
      <Loaded query={diff}>
        {({ files, truncated }) => (
          <Stack gap="xs">
            {files.length === 0 && <Text size="sm">{t("checkpoints.same")}</Text>}
            {files.map((file) => (
              <OneFile key={file.path} file={file} />
            ))}
            {truncated && <Alert color="yellow">{t("checkpoints.truncated")}</Alert>}
          </Stack>
        )}
      </Loaded>
    </>
  );
}

function OneFile({ file }: { file: FileDiff }) {
  const { t } = useTranslation();
  return (
    <section aria-label={visible(file.path)}>
      <FileHead path={file.path} status={file.status} />
      {file.diff === "" ? (
        <Text size="sm" c="dimmed">
          {t("checkpoints.notShown")}
        </Text>
      ) : (
        <Diff text={file.diff} />
      )}
    </section>
  );
}
