/** A conversation by subtask: what agents do at the same time stands in a lane each. */

import type { Item } from "@/shared/events";

export interface Lane {
  key: string;
  planId: string;
  subtaskId: string;
  agent?: string;
  /** Where the subtask stands, as it was told last. */
  status: string;
  attempt: number;
  seconds?: number;
  calls: number;
  /** The last that was said in it, or why it failed. */
  outcome?: string;
  items: readonly Item[];
}

export type Row =
  | { key: string; kind: "item"; item: Item; lane?: Lane }
  | { key: string; kind: "lane"; lane: Lane; isOpen: boolean };

const OVER: ReadonlySet<string> = new Set(["completed", "skipped", "cancelled"]);

/** Whose lane an item is in; nothing for what was said to the session itself. */
export function laneOf({ planId, subtaskId }: Pick<Item, "planId" | "subtaskId">) {
  return planId === undefined || subtaskId === undefined ? undefined : `${planId}/${subtaskId}`;
}

/**
 * The rows of a conversation: each subtask stands where it began, with all that is its own below it.
 *
 * @param folded What a person has folded or unfolded; by default what is over well is folded.
 */
export function rowsOf(
  items: readonly Item[],
  folded: Readonly<Record<string, boolean>> = {},
): Row[] {
  const byLane = new Map<string, Item[]>();
  const order: (Item | string)[] = [];
  for (const item of items) {
    const key = laneOf(item);
    if (key === undefined) {
      // Who takes a plan's work over is said by the lanes.
      if (item.kind !== "switch" || item.planId === undefined) {
        order.push(item);
      }
      continue;
    }
    const own = byLane.get(key);
    if (own === undefined) {
      byLane.set(key, [item]);
      order.push(key);
    } else {
      own.push(item);
    }
  }
  return order.flatMap((each): Row[] => {
    if (typeof each !== "string") {
      return [{ key: each.key, kind: "item", item: each }];
    }
    const lane = laneWith(each, byLane.get(each) ?? []);
    const isOpen = !(folded[each] ?? OVER.has(lane.status));
    const head: Row = { key: `lane-${each}`, kind: "lane", lane, isOpen };
    return isOpen ? [head, ...rowsIn(lane)] : [head];
  });
}

/** What stands below a lane's head: without what the head says already. */
export function rowsIn(lane: Lane): Row[] {
  return lane.items
    .filter(
      (item) => item.kind !== "switch" && (item.kind !== "subtask" || item.error !== undefined),
    )
    .map((item) => ({ key: item.key, kind: "item", item, lane }));
}

/** All that is known of a subtask's conversation. */
export function laneWith(key: string, items: readonly Item[]): Lane {
  const told = items.filter((item) => item.kind === "subtask");
  const last = told.at(-1);
  const said = items.findLast((item) => item.kind === "assistant" && item.text !== "");
  const isAsked = items.some((item) => item.kind === "call" && item.status === "asked");
  const status = last?.status ?? "running";
  return {
    key,
    planId: items[0]?.planId ?? "",
    subtaskId: items[0]?.subtaskId ?? "",
    agent: items.find(({ agent, kind }) => agent !== undefined && kind !== "switch")?.agent,
    status: isAsked && !OVER.has(status) && status !== "failed" ? "waiting_approval" : status,
    attempt: Math.max(1, ...told.map(({ attempt }) => attempt ?? 1)),
    seconds: last?.seconds,
    calls: items.filter(({ kind }) => kind === "call").length,
    outcome: last?.error?.message ?? last?.reason ?? (said?.kind === "assistant" ? said.text : ""),
    items,
  };
}
