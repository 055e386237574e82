import { Alert, Button, CopyButton, Group, List, Stack, Text, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type AuditReport, anchorAudit, verifyAudit } from "@/shared/api";
import { useProblems } from "@/shared/i18n/problems";
import { Code, Failure, type Range, visible } from "@/shared/ui";

/** Whether the log is whole; for admins, what is kept elsewhere of it. */
export function Upkeep({
  isAdmin,
  sessionId,
  range,
}: {
  isAdmin: boolean;
  sessionId: string | null;
  range: Range;
}) {
  const { t } = useTranslation();
  const [anchors, setAnchors] = useState("");
  const verify = useMutation({
    mutationFn: async () => {
      const query = { anchor: anchors.trim() || undefined };
      return (await verifyAudit({ query, throwOnError: true })).data;
    },
  });
  const anchor = useMutation({
    mutationFn: async () => (await anchorAudit({ body: {}, throwOnError: true })).data,
  });

  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Button variant="light" loading={verify.isPending} onClick={() => verify.mutate()}>
          {t("audit.verify")}
        </Button>
        {isAdmin && (
          <>
            <Button variant="default" loading={anchor.isPending} onClick={() => anchor.mutate()}>
              {t("audit.anchor")}
            </Button>
            <Button
              component="a"
              variant="default"
              href={exportOf(sessionId, range)}
              download="audit.jsonl"
              title={t("audit.exportHint")}
            >
              {t("audit.export")}
            </Button>
          </>
        )}
      </Group>
      <details>
        <summary>{t("audit.hold")}</summary>
        <Textarea
          label={t("audit.against")}
          value={anchors}
          onChange={(event) => setAnchors(event.currentTarget.value)}
          autosize
          minRows={2}
          maxRows={6}
        />
      </details>
      {verify.error !== null && <Failure error={verify.error} />}
      {verify.data && <Report report={verify.data} />}
      {anchor.error !== null && <Failure error={anchor.error} />}
      {anchor.data && <Kept text={anchor.data.text} />}
    </Stack>
  );
}

/** Where the server gives the entries of one chain or all, as lines. */
function exportOf(sessionId: string | null, { since, until }: Range): string {
  const wanted = Object.entries({ session_id: sessionId ?? undefined, since, until });
  const query = new URLSearchParams(
    wanted.filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  return `/api/v1/audit/export?${query}`;
}

function Report({ report }: { report: AuditReport }) {
  const { t } = useTranslation();
  const { textOf } = useProblems();
  const { ok, chains, entries, problems, removed = [], older = [], parts = {} } = report;
  return (
    <Alert color={ok ? "green" : "red"} role={ok ? "status" : "alert"}>
      <Text size="sm">{t(ok ? "audit.ok" : "audit.broken", { chains, entries })}</Text>
      <List size="sm">
        {problems.map((problem) => (
          <List.Item key={problem}>
            {visible(textOf({ detail: problem, ...parts[problem] }))}
          </List.Item>
        ))}
        {removed.map(({ chain, seq }) => (
          <List.Item key={chain}>{t("audit.removed", { chain: visible(chain), seq })}</List.Item>
        ))}
      </List>
      {older.length > 0 && (
        <Text size="sm">
          {t("audit.olderHeads", { names: older.map(({ chain }) => visible(chain)).join(", ") })}
        </Text>
      )}
    </Alert>
  );
}

function Kept({ text }: { text: string }) {
  const { t } = useTranslation();
  return (
    <Stack gap={4} role="status">
      <Text size="sm">{t("audit.anchorHint")}</Text>
      <Code text={text} />
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button size="xs" variant="default" onClick={copy} style={{ alignSelf: "flex-start" }}>
            {t(copied ? "common.copied" : "common.copy")}
          </Button>
        )}
      </CopyButton>
    </Stack>
  );
}
