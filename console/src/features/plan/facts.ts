import { useTranslation } from "react-i18next";
import type { GraphNode } from "@/shared/api";
import { span, useElapsed } from "./times";
import { workerOf } from "./worker";

/** What is told of a subtask in a few words: who does it, what it is, how long, which attempt. */
export function useFacts(node: GraphNode): (string | undefined)[] {
  const { t } = useTranslation();
  const took = useElapsed(node);
  return [
    workerOf(node),
    node.type === "action" ? undefined : node.type,
    took === undefined ? `~${node.estimated_time}` : span(took, t),
    node.attempt > 1 ? t("plan.attempt", { number: node.attempt }) : undefined,
  ];
}
