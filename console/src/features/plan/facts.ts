import { useTranslation } from "react-i18next";
import type { GraphNode } from "@/shared/api";
import { useWindow } from "@/shared/events";
import { estimate } from "@/shared/i18n/typography";
import { wordOf } from "@/shared/i18n/words";
import { span, useElapsed } from "./times";
import { workerOf } from "./worker";

const OPEN: readonly string[] = ["running", "waiting_approval"];

/**
 * What is told of a subtask in a few words: who does it, what it is, how long, which attempt, and
 * while it is at work how full its model's window is.
 */
export function useFacts(node: GraphNode, planId: string): (string | undefined)[] {
  const { t, i18n } = useTranslation();
  const took = useElapsed(node);
  const filled = useWindow(planId, node.id);
  return [
    workerOf(node),
    node.type === "action" ? undefined : wordOf(t, "type", node.type),
    took === undefined ? `~${estimate(node.estimated_time, i18n.language)}` : span(took, t),
    node.attempt > 1 ? t("plan.attempt", { number: node.attempt }) : undefined,
    filled !== undefined && OPEN.includes(node.status)
      ? t("window.used", { percent: filled })
      : undefined,
  ];
}
