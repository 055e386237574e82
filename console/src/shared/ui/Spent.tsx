import { HoverCard, Text, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { ModelUsageView } from "@/shared/api";
import { useFigures } from "./numbers";

const CLASSES = [
  "input_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
] as const;

/** What requests to models took: tokens and money in a word, each class of them when pointed at. */
export function Spent({ usage }: { usage: ModelUsageView }) {
  const { t, i18n } = useTranslation();
  const { number, dollars } = useFigures();
  const short = new Intl.NumberFormat(i18n.language, { notation: "compact" }).format(usage.tokens);
  const rows: [string, string][] = [
    ...CLASSES.filter((name) => (usage[name] ?? 0) > 0).map((name): [string, string] => [
      t(`usage.${name}`),
      number(usage[name] ?? 0),
    ]),
    [t("usage.requests"), number(usage.requests)],
    [t("usage.cost"), dollars(usage.cost)],
    ...(usage.unpriced_requests > 0
      ? [[t("usage.unpriced_requests"), number(usage.unpriced_requests)] as [string, string]]
      : []),
  ];
  return (
    <HoverCard openDelay={150} withinPortal>
      <HoverCard.Target>
        <UnstyledButton c="dimmed" fz="xs">
          {t("usage.short", { tokens: short })}
          {usage.cost > 0 && ` · ${dollars(usage.cost)}`}
          <VisuallyHidden>{rows.map((row) => row.join(": ")).join("; ")}</VisuallyHidden>
        </UnstyledButton>
      </HoverCard.Target>
      <HoverCard.Dropdown p="xs">
        <table>
          <tbody>
            {rows.map(([name, value]) => (
              <tr key={name}>
                <Text component="th" fz="xs" fw={400} c="dimmed" ta="start" pe="md">
                  {name}
                </Text>
                <Text component="td" fz="xs" ta="end">
                  {value}
                </Text>
              </tr>
            ))}
          </tbody>
        </table>
      </HoverCard.Dropdown>
    </HoverCard>
  );
}
