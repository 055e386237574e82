import { Badge } from "@mantine/core";
import { useWord } from "@/shared/i18n/words";

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

/** The colour of a state, the same wherever it is shown. */
export function colorOf(status: string): string {
  return COLORS[status] ?? "gray";
}

/** A state in words; its colour only underlines them. */
export function StatusBadge({
  of,
  status,
}: {
  /** What is in the state. */
  of: "plan" | "subtask" | "question";
  status: string;
}) {
  const wordOf = useWord();
  return (
    <Badge color={colorOf(status)} variant="light" autoContrast>
      {wordOf(`status.${of}`, status)}
    </Badge>
  );
}
