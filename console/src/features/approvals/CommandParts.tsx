import { Badge, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { countBlanks, visible } from "@/shared/ui";
import classes from "./Approvals.module.css";

/** A command as it was understood: its parts in order, and those that ask. */
export function CommandParts({ parts }: { parts: readonly Record<string, unknown>[] }) {
  const { t } = useTranslation();
  return parts.length === 0 ? null : (
    <div>
      <Text size="xs" c="dimmed">
        {t("approvals.parts")}
      </Text>
      <ol className={classes.parts}>
        {parts.map(({ text, joined_by, asks }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a part of a command is its place
          <li key={place}>
            {joined_by !== "" && `${visible(String(joined_by))} `}
            {countBlanks(visible(String(text)))}{" "}
            {asks === true && (
              <Badge size="sm" color="yellow" variant="light" tt="none" autoContrast>
                {t("approvals.asks")}
              </Badge>
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}
