import { Alert } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Refused } from "@/shared/api";
import { useProblems } from "@/shared/i18n/problems";
import { Loaded, visible } from "@/shared/ui";

/** What a query brought. To whom it is not shown, that is said and is no failure. */
export function Permitted<T>({
  query,
  children,
}: {
  query: UseQueryResult<T, unknown>;
  children: (data: T) => ReactNode;
}) {
  const { t } = useTranslation();
  const { textOf } = useProblems();
  const { error } = query;
  if (error instanceof Refused && error.status === 403) {
    return (
      <Alert color="gray" title={t("settings.forbidden")}>
        {visible(textOf(error.said))}
      </Alert>
    );
  }
  return <Loaded query={query}>{children}</Loaded>;
}
