import type { GraphNode } from "@/shared/api";

/** Who carries a subtask out, in a word; nothing where its kind does it by itself. */
export function workerOf({ agent, tool }: Pick<GraphNode, "agent" | "tool">): string | undefined {
  return agent ?? tool;
}
