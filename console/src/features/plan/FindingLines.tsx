import { List, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { FindingView } from "@/shared/api";
import { plain } from "@/shared/i18n/typography";
import { visible } from "@/shared/ui";

/** What is to be known of one subtask, or of the plan as a whole, while it is written. */
export function FindingLines({ findings }: { findings: readonly FindingView[] }) {
  const { t } = useTranslation();
  return findings.length === 0 ? null : (
    <List size="xs" listStyleType="none" pb={4}>
      {findings.map(({ severity, code, message }) => (
        <List.Item key={`${code} ${message}`} style={{ overflowWrap: "anywhere" }}>
          <Text
            span
            size="xs"
            fw={600}
            c={severity === "error" ? "var(--mantine-color-error)" : undefined}
          >
            {t(`plan.finding.${severity}`)}:
          </Text>{" "}
          {visible(plain(message))}
        </List.Item>
      ))}
    </List>
  );
}
