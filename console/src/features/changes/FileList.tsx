import { Alert, Anchor, Button, CopyButton, Group, Stack, Text } from "@mantine/core";
import { type UseQueryOptions, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { ChangedFile, Changes } from "@/shared/api";
import { Diff, editorLink, FileHead, firstLine, Lines, useEditor, visible } from "@/shared/ui";

// biome-ignore lint/suspicious/noExplicitAny: the options of either of two generated queries
type Whole = (file: string) => UseQueryOptions<any, any, Changes, any>;

/** The changed files with their differences, and how much each subtask did. */
export function FileList({
  changes,
  whole,
  workspace,
}: {
  changes: Changes;
  whole: Whole;
  /** The folder that the files' paths begin in, where it is known. */
  workspace?: string;
}) {
  const { t } = useTranslation();
  const { files, total, by } = changes;
  if (files.length === 0) {
    return <Text size="sm">{t("changes.none")}</Text>;
  }
  return (
    <Stack gap="md">
      <Stack gap={2}>
        <Group gap="xs">
          <Text fw={600}>{t("changes.files", { count: total })}</Text>
          <Lines added={changes.lines_added} removed={changes.lines_removed} />
        </Group>
        {by.length > 1 &&
          by.map(({ plan_id, subtask_id, files, lines_added, lines_removed }) => (
            <Group key={`${plan_id} ${subtask_id}`} gap="xs">
              <Text size="sm">{subtask_id ?? t("changes.outside")}</Text>
              <Text size="sm" c="dimmed">
                {t("changes.files", { count: files })}
              </Text>
              <Lines added={lines_added} removed={lines_removed} />
            </Group>
          ))}
      </Stack>
      {files.map((file) => (
        <OneFile key={file.path} file={file} whole={whole} workspace={workspace} />
      ))}
      {total > files.length && (
        <Alert color="yellow">{t("changes.more", { count: total - files.length })}</Alert>
      )}
    </Stack>
  );
}

function OneFile({
  file,
  whole,
  workspace,
}: {
  file: ChangedFile;
  whole: Whole;
  workspace?: string;
}) {
  const { t } = useTranslation();
  const [isWhole, setWhole] = useState(false);
  const long = useQuery({ ...whole(file.path), enabled: isWhole, staleTime: 0 });
  const shown = long.data?.files[0] ?? file;
  const canGrow = shown.withheld === "more" && !isWhole;
  return (
    <section aria-label={visible(file.path)}>
      <FileHead path={file.path} status={file.status}>
        <Lines added={file.lines_added} removed={file.lines_removed} />
        <Text size="xs" c="dimmed">
          {file.subtasks.join(", ")}
        </Text>
        {workspace !== undefined && file.status !== "deleted" && (
          <OpenLink path={`${workspace}/${file.path}`} line={firstLine(file.diff)} />
        )}
        <CopyText what={t("changes.copyPath")} text={file.path} />
        {shown.diff && <CopyText what={t("changes.copyDiff")} text={shown.diff} />}
      </FileHead>
      {shown.diff && <Diff text={shown.diff} path={file.path} />}
      {shown.withheld !== undefined && !canGrow && (
        <Text size="sm" c="dimmed">
          {t(`changes.withheld.${shown.withheld}`)}
        </Text>
      )}
      {canGrow && (
        <Button size="xs" variant="default" mt={4} onClick={() => setWhole(true)}>
          {t("changes.whole")}
        </Button>
      )}
    </section>
  );
}

/** Opens the file in the editor that this browser was told of. */
function OpenLink({ path, line }: { path: string; line: number }) {
  const { t } = useTranslation();
  const [editor] = useEditor();
  const link = editorLink(editor, path, line);
  return link === undefined ? null : (
    <Anchor href={link} size="xs" fw={600}>
      {t("changes.open")}
    </Anchor>
  );
}

function CopyText({ what, text }: { what: string; text: string }) {
  const { t } = useTranslation();
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Button size="compact-xs" variant="subtle" onClick={copy}>
          {copied ? t("common.copied") : what}
        </Button>
      )}
    </CopyButton>
  );
}
