import { Alert, Button, Group, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Refused } from "@/shared/api";
import { useProblems } from "@/shared/i18n/problems";
import { Loading } from "./Loading";
import { visible } from "./visible";

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

/** What went wrong, and what to do; a way to try again where that can help. */
export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  const { t } = useTranslation();
  const { nextStep } = useProblems();
  const isFinal = error instanceof Refused && [403, 404, 410].includes(error.status);
  const next = error instanceof Refused ? nextStep(error.code) : undefined;
  return (
    <Alert color="red" role="alert">
      <Group justify="space-between">
        <div>
          <Text size="sm">{useReason(error)}</Text>
          {next !== undefined && (
            <Text size="sm" c="dimmed">
              {next}
            </Text>
          )}
        </div>
        {again && !isFinal && (
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
  const { textOf } = useProblems();
  if (error instanceof Refused && error.message !== "") {
    return visible(textOf(error.said));
  }
  return error instanceof Refused || error instanceof TypeError
    ? t("common.unreachable")
    : String(error);
}
