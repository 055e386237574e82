/** Where the subtasks of a plan are drawn: from left to right, each after what it waits for. */

import { Graph, layout } from "@dagrejs/dagre";
import type { GraphNode, PlanGraph } from "@/shared/api";

export const NODE = { width: 232, height: 104 } as const;

export interface Layout {
  places: ReadonlyMap<string, { x: number; y: number }>;
  height: number;
}

/** The upper left corner of every subtask. */
export function layoutOf({ nodes, edges }: Pick<PlanGraph, "nodes" | "edges">): Layout {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 20, ranksep: 56 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of nodes) {
    graph.setNode(id, { ...NODE });
  }
  for (const { from, to } of edges) {
    if (from !== undefined && to !== undefined) {
      graph.setEdge(from, to);
    }
  }
  layout(graph);

  const places = new Map<string, { x: number; y: number }>();
  let height = 0;
  for (const { id } of nodes) {
    const { x = 0, y = 0 } = graph.node(id);
    places.set(id, { x: x - NODE.width / 2, y: y - NODE.height / 2 });
    height = Math.max(height, y + NODE.height / 2);
  }
  return { places, height };
}

/** What a subtask of a plan that goes on still waits for. */
export function awaitedBy(
  { status, dependencies }: Pick<GraphNode, "status" | "dependencies">,
  { started_at, finished_at, nodes }: Pick<PlanGraph, "started_at" | "finished_at" | "nodes">,
): string[] {
  if (status !== "pending" || started_at === undefined || finished_at !== undefined) {
    return [];
  }
  const done = new Set(nodes.filter((node) => node.status === "completed").map(({ id }) => id));
  return dependencies.filter((id) => !done.has(id));
}

/** Whether an edge belongs to a chain of subtasks. */
export function isOnPath(path: readonly string[], from: string, to: string): boolean {
  const place = path.indexOf(from);
  return place >= 0 && path[place + 1] === to;
}
