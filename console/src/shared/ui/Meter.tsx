import { Progress, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";

/** From which part of a limit on it is said aloud. */
const NEAR = 0.8;

/** What was used of something; beside its limit, with a bar, where it has one. */
export function Meter({
  name,
  used,
  limit,
  write,
}: {
  name: string;
  used: number;
  limit?: number;
  write: (value: number) => string;
}) {
  const { t } = useTranslation();
  const part = limit === undefined ? 0 : used / limit;
  const isNear = part >= NEAR;
  return (
    <div>
      <Text size="xs" c={isNear ? undefined : "dimmed"} fw={isNear ? 600 : undefined}>
        {name}: {write(used)}
        {limit !== undefined && ` ${t("usage.of", { limit: write(limit) })}`}
      </Text>
      {limit !== undefined && (
        <Progress
          size={4}
          mt={2}
          value={Math.min(100, 100 * part)}
          color={part >= 1 ? "red" : isNear ? "yellow" : undefined}
          aria-label={t("usage.budget", { what: name })}
        />
      )}
    </div>
  );
}
