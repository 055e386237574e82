import { expect, it } from "vitest";
import type { GraphNode, PlanGraph } from "@/shared/api";
import { awaitedIn, layoutOf, lineOf, NODE } from "./layout";

function node(id: string, status: GraphNode["status"], ...dependencies: string[]): GraphNode {
  const rest = { description: id, type: "action", estimated_time: "5 min", attempt: 0 };
  return { id, status, dependencies, ...rest };
}

it("says what a subtask still waits for, while its plan goes on", () => {
  const last = node("c", "pending", "a", "b");
  const nodes = [node("a", "completed"), node("b", "running"), last];
  const started_at = "2026-01-01T00:00:00Z";
  expect(awaitedIn({ nodes, started_at })(last)).toEqual(["b"]);
  expect(awaitedIn({ nodes })(last)).toEqual([]);
  expect(awaitedIn({ nodes, started_at, finished_at: started_at })(last)).toEqual([]);
  expect(awaitedIn({ nodes, started_at })({ ...last, status: "skipped" })).toEqual([]);
});

const WIDE = 50;

/** Layers of subtasks, each waiting for two of the layer before; the last layer comes first. */
function layered(layers: number): Pick<PlanGraph, "nodes" | "edges"> {
  const nodes = Array.from({ length: layers * WIDE }, (_, place) => {
    const before = Math.floor(place / WIDE) - 1;
    const waitsFor = before < 0 ? [] : [place % WIDE, (place * 7) % WIDE];
    const dependencies = [...new Set(waitsFor)].map((one) => `s${before * WIDE + one}`);
    return { id: `s${place}`, dependencies };
  }).reverse() as unknown as PlanGraph["nodes"];
  const edges = nodes.flatMap(({ id, dependencies }) =>
    dependencies.map((from) => ({ from, to: id })),
  );
  return { nodes, edges };
}

it.each([1, 10])(
  "puts each subtask after those that it waits for, and none over another",
  (many) => {
    const shape = layered(many);
    const { places, height } = layoutOf(shape);
    for (const { from, to } of shape.edges) {
      expect(places.get(from ?? "")?.x).toBeLessThan((places.get(to ?? "")?.x ?? 0) - NODE.width);
    }
    const spots = [...places.values()].sort((one, other) => one.x - other.x || one.y - other.y);
    spots.forEach((spot, at) => {
      const next = spots[at + 1];
      expect(spot.y).toBeGreaterThanOrEqual(0);
      expect(spot.y + NODE.height).toBeLessThanOrEqual(height);
      expect(next?.x === spot.x && next.y < spot.y + NODE.height).toBe(false);
    });
    expect(places.size).toBe(shape.nodes.length);
  },
);

it("draws what waits for something that is not there", () => {
  const { nodes } = layered(3);
  const { places } = layoutOf({ nodes: nodes.slice(0, 120), edges: [] });
  expect(places.size).toBe(120);
});

it("draws a line that skips a column past its subtasks, not behind one", () => {
  const edges = [
    { from: "a", to: "b" },
    { from: "b", to: "c" },
    { from: "a", to: "c" },
    { from: "b", to: "d" },
  ];
  const nodes = ["a", "b", "c", "d"].map((id) => ({ id, dependencies: [] }));
  const { places, passes } = layoutOf({ nodes, edges });
  expect(passes.get("a b")).toEqual([]);
  const [pass, ...others] = passes.get("a c") ?? [];
  expect(others).toEqual([]);
  const b = places.get("b") ?? { x: 0, y: 0 };
  expect(pass?.x).toBe(b.x + NODE.width / 2);
  expect(Math.abs((pass?.y ?? 0) - (b.y + NODE.height / 2))).toBeGreaterThan(NODE.height / 2);
  expect(lineOf({ x: 0, y: 5 }, [{ x: 300, y: 90 }], { x: 600, y: 5 })).toBe(
    "M0,5 C92,5 92,90 184,90 H416 C508,90 508,5 600,5",
  );
});
