import { Badge, Button, Stack, Table, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { listTokensOptions, listTokensQueryKey, revokeToken, type TokenView } from "@/shared/api";
import { wordOf } from "@/shared/i18n/words";
import { Confirm, visible, When } from "@/shared/ui";
import { NewToken } from "./NewToken";
import { Permitted } from "./Permitted";
import classes from "./Settings.module.css";

/** Who may come in with a token; a new one is shown once. */
export function Tokens() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const query = useQuery(listTokensOptions());
  const [revoked, setRevoked] = useState<TokenView>();
  const refresh = () => queries.invalidateQueries({ queryKey: listTokensQueryKey() });
  const revocation = useMutation({
    mutationFn: (token_id: string) => revokeToken({ path: { token_id } }),
    onSuccess: async () => {
      await refresh();
      setRevoked(undefined);
    },
  });

  function ask(token: TokenView): void {
    revocation.reset();
    setRevoked(token);
  }

  return (
    <Permitted query={query}>
      {({ tokens }) => (
        <Stack>
          <NewToken onMade={refresh} />
          {tokens.length === 0 ? (
            <Text>{t("settings.token.none")}</Text>
          ) : (
            <TokenTable tokens={tokens} onRevoke={ask} />
          )}
          <Confirm
            question={revoked && t("settings.token.revokeSure", { name: visible(revoked.name) })}
            action={t("settings.token.revoke")}
            error={revocation.error}
            isPending={revocation.isPending}
            onConfirm={() => revoked && revocation.mutate(revoked.token_id)}
            onClose={() => setRevoked(undefined)}
          />
        </Stack>
      )}
    </Permitted>
  );
}

function TokenTable({
  tokens,
  onRevoke,
}: {
  tokens: readonly TokenView[];
  onRevoke: (token: TokenView) => void;
}) {
  const { t } = useTranslation();
  return (
    <Table aria-label={t("settings.tokens")}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>{t("settings.token.name")}</Table.Th>
          <Table.Th>{t("settings.token.role")}</Table.Th>
          <Table.Th visibleFrom="sm">{t("settings.token.made")}</Table.Th>
          <Table.Th visibleFrom="sm">{t("settings.token.state")}</Table.Th>
          <Table.Th>{t("settings.token.actions")}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {tokens.map((token) => (
          <Table.Tr key={token.token_id}>
            <Table.Td className={classes.words}>{visible(token.name)}</Table.Td>
            <Table.Td>{wordOf(t, "role", token.role)}</Table.Td>
            <Table.Td visibleFrom="sm">
              <When moment={token.created_at} size="sm" />
            </Table.Td>
            <Table.Td visibleFrom="sm">
              <State isRevoked={token.revoked_at !== undefined} />
            </Table.Td>
            <Table.Td>
              {token.revoked_at === undefined ? (
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`${t("settings.token.revoke")} ${visible(token.name)}`}
                  onClick={() => onRevoke(token)}
                >
                  {t("settings.token.revoke")}
                </Button>
              ) : (
                <When moment={token.revoked_at} size="sm" c="dimmed" />
              )}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function State({ isRevoked }: { isRevoked: boolean }) {
  const { t } = useTranslation();
  return (
    <Badge variant="light" color={isRevoked ? "gray" : "indigo"} autoContrast>
      {t(isRevoked ? "settings.token.revoked" : "settings.token.good")}
    </Badge>
  );
}
