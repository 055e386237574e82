import { Alert, Button, Group, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Refused } from "@/shared/api";
import { Loading } from "./Loading";

/** What a query brought, or what to do when it did not. */
export function Loaded<T>({
  query,
  children,
}: {
  query: UseQueryResult<T, unknown>;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) {
    return <>{children(query.data)}</>;
  }
  if (query.error !== null) {
    return <Failure error={query.error} again={() => void query.refetch()} />;
  }
  return <Loading />;
}

/** What went wrong, in the server's words. */
export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  const { t } = useTranslation();
  return (
    <Alert color="red" role="alert">
      <Group justify="space-between">
        <Text size="sm">{useReason(error)}</Text>
        {again && (
          <Button size="xs" variant="default" onClick={again}>
            {t("common.retry")}
          </Button>
        )}
      </Group>
    </Alert>
  );
}

/** Why something failed, for people. */
export function useReason(error: unknown): string {
  const { t } = useTranslation();
  if (error instanceof Refused && error.message !== "") {
    return error.message;
  }
  return error instanceof Refused || error instanceof TypeError
    ? t("common.unreachable")
    : String(error);
}
