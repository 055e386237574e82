import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { exact, useNow } from "@/shared/ui";
import { clockOf } from "./lines";

const SOON = 120_000;

/** How long a question still waits for its answer. */
export function Countdown({ until }: { until: string }) {
  const { t, i18n } = useTranslation();
  const left = Date.parse(until) - useNow();
  const clock = clockOf(left);
  const when = exact(until, i18n.language);
  return (
    <Text
      span
      size="xs"
      c={left < SOON ? "red" : "dimmed"}
      fw={left < SOON ? 700 : undefined}
      title={when}
    >
      {clock === undefined
        ? t("approvals.expiresAt", { when })
        : t("approvals.expiresIn", { clock })}
    </Text>
  );
}
