import { expect, it } from "vitest";
import type { GraphNode } from "@/shared/api";
import { awaitedBy } from "./layout";

function node(id: string, status: GraphNode["status"], ...dependencies: string[]): GraphNode {
  const rest = { description: id, type: "action", estimated_time: "5 min", attempt: 0 };
  return { id, status, dependencies, ...rest };
}

it("says what a subtask still waits for, while its plan goes on", () => {
  const last = node("c", "pending", "a", "b");
  const nodes = [node("a", "completed"), node("b", "running"), last];
  const started_at = "2026-01-01T00:00:00Z";
  expect(awaitedBy(last, { nodes, started_at })).toEqual(["b"]);
  expect(awaitedBy(last, { nodes })).toEqual([]);
  expect(awaitedBy(last, { nodes, started_at, finished_at: started_at })).toEqual([]);
  expect(awaitedBy({ ...last, status: "skipped" }, { nodes, started_at })).toEqual([]);
});
