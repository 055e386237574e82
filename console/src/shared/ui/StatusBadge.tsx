import { Badge } from "@mantine/core";
import { useWord } from "@/shared/i18n/words";
import { StateMark } from "./StateMark";
import { colorOf, kindOf } from "./states";

/** A state in a word; its shape and its colour only underline it. */
export function StatusBadge({
  of,
  status,
}: {
  /** What is in the state. */
  of: "plan" | "subtask" | "question" | "session";
  status: string;
}) {
  const wordOf = useWord();
  // A plan that is approved is on hold until somebody starts it; a question is over.
  const stands = of === "plan" && status === "approved" ? "paused" : status;
  return (
    <Badge
      color={colorOf(stands)}
      variant="light"
      leftSection={<StateMark status={stands} />}
      data-state={kindOf(stands)}
    >
      {wordOf(`status.${of}`, status)}
    </Badge>
  );
}
