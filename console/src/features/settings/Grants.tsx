import { Badge, Button, Card, Checkbox, Group, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type GrantView, listGrantsOptions, listGrantsQueryKey, revokeGrant } from "@/shared/api";
import { useMay } from "@/shared/me";
import { Confirm, Json, visible, When } from "@/shared/ui";
import { Permitted } from "./Permitted";
import { SessionPick, usePicked } from "./SessionPick";
import classes from "./Settings.module.css";

const COLORS = { active: "indigo", ended: "gray", revoked: "red" } as const;

/** What approved plans may do without a further question. */
export function Grants() {
  const { t } = useTranslation();
  const [sessionId] = usePicked();
  const [isWhole, setWhole] = useState(false);
  const [revoked, setRevoked] = useState<GrantView>();
  const queries = useQueryClient();
  const filter = { query: { session_id: sessionId } };
  const query = useQuery(listGrantsOptions(filter));
  const revocation = useMutation({
    mutationFn: (grant_id: string) => revokeGrant({ path: { grant_id } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: listGrantsQueryKey(filter) });
      setRevoked(undefined);
    },
  });

  function ask(grant: GrantView): void {
    revocation.reset();
    setRevoked(grant);
  }

  return (
    <Stack gap="sm">
      <SessionPick placeholder={t("settings.session.all")} />
      <Checkbox
        label={t("settings.grant.inactive")}
        checked={isWhole}
        onChange={(event) => setWhole(event.currentTarget.checked)}
      />
      <Permitted query={query}>
        {({ grants }) => {
          const shown = grants.filter(({ status }) => isWhole || status === "active");
          return (
            <>
              {shown.length === 0 && <Text>{t("settings.grant.none")}</Text>}
              {shown.map((grant) => (
                <Grant key={grant.grant_id} grant={grant} onRevoke={() => ask(grant)} />
              ))}
            </>
          );
        }}
      </Permitted>
      <Confirm
        question={
          revoked && t("settings.grant.revokeSure", { subtask: visible(revoked.subtask_id) })
        }
        action={t("settings.grant.revoke")}
        error={revocation.error}
        isPending={revocation.isPending}
        onConfirm={() => revoked && revocation.mutate(revoked.grant_id)}
        onClose={() => setRevoked(undefined)}
      />
    </Stack>
  );
}

function Grant({ grant, onRevoke }: { grant: GrantView; onRevoke: () => void }) {
  const { t } = useTranslation();
  const mayRevoke = useMay("operator");
  const { status, scope, ended_because, plan_id, revision } = grant;
  const subtask = visible(grant.subtask_id);
  return (
    <Card withBorder padding="sm">
      <Group justify="space-between" align="flex-start">
        <Group gap="xs">
          <Badge variant="light" color={COLORS[status]} autoContrast>
            {t(`settings.grant.status.${status}`)}
          </Badge>
          <Text size="sm" fw={600} className={classes.words}>
            {t("settings.grant.for", { subtask, plan: plan_id, revision })}
          </Text>
        </Group>
        {status === "active" && mayRevoke && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`${t("settings.grant.revoke")} ${subtask}`}
            onClick={onRevoke}
          >
            {t("settings.grant.revoke")}
          </Button>
        )}
      </Group>
      <Text size="xs" c="dimmed" className={classes.words}>
        {grant.session_id} · <When moment={grant.created_at} span />
        {ended_because && ` · ${t("settings.grant.because", { why: visible(ended_because) })}`}
      </Text>
      {scope === undefined ? (
        <Text size="sm">{t("settings.grant.wholePlan")}</Text>
      ) : (
        <Json value={scope} />
      )}
    </Card>
  );
}
