import { Text, UnstyledButton } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { onOneLine, StatusBadge } from "@/shared/ui";
import classes from "./Chat.module.css";
import type { Lane } from "./lanes";

/** The head of a subtask's lane: who does it, where it stands; pressed, it is folded or unfolded. */
export function LaneHead({
  lane,
  isOpen,
  onFold,
}: {
  lane: Lane;
  isOpen: boolean;
  onFold: () => void;
}) {
  const { t } = useTranslation();
  const { subtaskId, agent, status, attempt, seconds, calls, outcome } = lane;
  const facts = [
    agent,
    calls > 0 && t("chat.calls", { count: calls }),
    attempt > 1 && t("chat.attempt", { number: attempt }),
    seconds !== undefined && t("common.seconds", { seconds: round(seconds) }),
  ];
  return (
    <UnstyledButton
      className={classes.laneHead}
      aria-expanded={isOpen}
      onClick={onFold}
      data-lane={subtaskId}
    >
      <span className={classes.fold} aria-hidden="true" />
      <Text span ff="monospace" size="sm" fw={600}>
        {subtaskId}
      </Text>
      <StatusBadge of="subtask" status={status} />
      <Text span size="xs" c="dimmed">
        {facts.filter(Boolean).join(" · ")}
      </Text>
      {!isOpen && outcome && (
        <Text span size="sm" c="dimmed" truncate className={classes.outcome}>
          {onOneLine(outcome)}
        </Text>
      )}
    </UnstyledButton>
  );
}

function round(seconds: number): number {
  return Math.round(seconds * 10) / 10;
}
