/** How long things take, in few words. */

import type { TFunction } from "i18next";
import type { GraphNode } from "@/shared/api";
import { useNow } from "@/shared/ui";

const MINUTE = 60;
const HOUR = 3_600;
/** Milliseconds. Nothing moves where nothing runs, and a plan may have hundreds of subtasks. */
const SOON = 1_000;
const SELDOM = 60_000;

/** Seconds as "45 s", "3 min 20 s" or "2 h 5 min". */
export function span(seconds: number, t: TFunction): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE) {
    return t("plan.span.seconds", { seconds: seconds < 10 ? round(seconds) : whole });
  }
  if (whole < HOUR) {
    const minutes = Math.floor(whole / MINUTE);
    return t("plan.span.minutes", { minutes, seconds: whole % MINUTE });
  }
  const hours = Math.floor(whole / HOUR);
  return t("plan.span.hours", { hours, minutes: Math.floor((whole % HOUR) / MINUTE) });
}

/** How long a subtask took, or takes so far, told anew every second while it does. */
export function useElapsed(node: GraphNode): number | undefined {
  return elapsed(node, useNow(node.finished_at === undefined && node.started_at ? SOON : SELDOM));
}

/** How long a subtask took, or takes so far; nothing before it began. */
function elapsed(node: GraphNode, now: number): number | undefined {
  if (node.duration_seconds !== undefined) {
    return node.duration_seconds;
  }
  if (node.started_at === undefined || node.status === "pending") {
    return undefined;
  }
  const end = node.finished_at === undefined ? now : Date.parse(node.finished_at);
  return Math.max(0, (end - Date.parse(node.started_at)) / 1_000);
}

function round(seconds: number): number {
  return Math.max(0, Math.round(seconds * 10) / 10);
}
