import type { GraphNode, Subtask } from "@/shared/api";

export const WORKERS = ["agent", "tool", "none"] as const;
export type Worker = (typeof WORKERS)[number];

/** Who carries a subtask out, in a word; nothing where its kind does it by itself. */
export function workerOf({ agent, tool }: Pick<GraphNode, "agent" | "tool">): string | undefined {
  return agent ?? tool;
}

/** Where a subtask stands: one whose work was taken back is no longer what it was. */
export function standingOf({ status, rolled_back }: Pick<GraphNode, "status" | "rolled_back">) {
  return rolled_back ? "rolled_back" : status;
}

/** What it is that carries a subtask out. */
export function workerKind({ agent, tool }: Pick<Subtask, "agent" | "tool">): Worker {
  return tool !== undefined ? "tool" : agent !== undefined ? "agent" : "none";
}
