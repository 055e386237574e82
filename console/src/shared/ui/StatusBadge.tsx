import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { en } from "@/shared/i18n/en";

const COLORS: Record<string, string> = {
  running: "blue",
  in_progress: "blue",
  replanning: "violet",
  retrying: "violet",
  completed: "green",
  approved: "green",
  edited: "green",
  failed: "red",
  rejected: "red",
  partial: "orange",
  waiting_approval: "yellow",
  awaiting_approval: "yellow",
  paused: "yellow",
};

type Known = keyof typeof en.status;

/** The colour of a state, the same wherever it is shown. */
export function colorOf(status: string): string {
  return COLORS[status] ?? "gray";
}

/** A state in words; its colour only underlines them. */
export function StatusBadge({ status }: { status: string }) {
  const { t } = useTranslation();
  const text = status in en.status ? t(`status.${status as Known}`) : status;
  return (
    <Badge color={colorOf(status)} variant="light" autoContrast>
      {text}
    </Badge>
  );
}
