/** Where the subtasks of a plan are drawn: from left to right, each after what it waits for. */

import { Graph, layout } from "@dagrejs/dagre";
import type { GraphNode, PlanGraph } from "@/shared/api";
import { LARGE } from "./size";

export const NODE = { width: 232, height: 104 } as const;
const BETWEEN_ROWS = 20;
const BETWEEN_COLUMNS = 56;

interface Point {
  x: number;
  y: number;
}

export interface Layout {
  places: ReadonlyMap<string, Point>;
  /** By both ids of an edge: where it passes the columns between its ends. */
  passes: ReadonlyMap<string, readonly Point[]>;
  width: number;
  height: number;
}

interface Shape {
  nodes: readonly Pick<GraphNode, "id" | "dependencies">[];
  edges: PlanGraph["edges"];
}

/** The upper left corner of every subtask. */
export function layoutOf(shape: Shape): Layout {
  return shape.nodes.length > LARGE ? inColumns(shape) : byDagre(shape);
}

/** With the fewest crossings that dagre finds, which for hundreds of subtasks takes seconds. */
function byDagre({ nodes, edges }: Shape): Layout {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: BETWEEN_ROWS, ranksep: BETWEEN_COLUMNS });
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

  const places = new Map<string, Point>();
  for (const { id } of nodes) {
    const { x = 0, y = 0 } = graph.node(id);
    places.set(id, { x: x - NODE.width / 2, y: y - NODE.height / 2 });
  }
  const ends = [...places.values()].map(({ x, y }) => [x + NODE.width, y + NODE.height] as const);
  const [width, height] = [0, 1].map((side) => Math.max(0, ...ends.map((end) => end[side] ?? 0)));
  const passes = new Map(
    graph.edges().map((edge) => [nameOf(edge.v, edge.w), betweenColumns(graph.edge(edge).points)]),
  );
  return { places, passes, width: width ?? 0, height: height ?? 0 };
}

/** What an edge is called. */
export function nameOf(from: string, to: string): string {
  return `${from} ${to}`;
}

/** Dagre bends an edge in each gap and in each column, from its one end to the other. */
function betweenColumns(bends: readonly Point[] = []): Point[] {
  return bends.slice(1, -1).filter((_, place) => place % 2 === 1);
}

/** An edge as a line that goes level through the columns between its ends, past their subtasks. */
export function lineOf(from: Point, passes: readonly Point[], to: Point): string {
  let [{ x, y }, line] = [from, `M${from.x},${from.y}`];
  const bend = (end: Point) => {
    const middle = (x + end.x) / 2;
    line += ` C${middle},${y} ${middle},${end.y} ${end.x},${end.y}`;
  };
  for (const pass of passes) {
    bend({ x: pass.x - NODE.width / 2, y: pass.y });
    x = pass.x + NODE.width / 2;
    y = pass.y;
    line += ` H${x}`;
  }
  bend(to);
  return line;
}

/** Tells of each subtask of a plan what it still waits for, while the plan goes on. */
export function awaitedIn({
  started_at,
  finished_at,
  nodes,
}: Pick<PlanGraph, "started_at" | "finished_at" | "nodes">): (
  node: Pick<GraphNode, "status" | "dependencies">,
) => string[] {
  const goesOn = started_at !== undefined && finished_at === undefined;
  const done = new Set(nodes.filter(({ status }) => status === "completed").map(({ id }) => id));
  return ({ status, dependencies }) =>
    goesOn && status === "pending" ? dependencies.filter((id) => !done.has(id)) : [];
}

/** Each in the column after those that it waits for, near the middle of them. */
function inColumns(shape: Shape): Layout {
  const columns = columnsOf(shape);
  const step = NODE.height + BETWEEN_ROWS;
  const height = step * Math.max(...columns.map((column) => column.length)) - BETWEEN_ROWS;
  const places = new Map<string, Point>();
  columns.forEach((column, number) => {
    const near = column.map(({ id, dependencies }) => {
      const rows = dependencies.flatMap((one) => places.get(one)?.y ?? []);
      return { id, row: rows.reduce((sum, y) => sum + y, 0) / (rows.length || 1) };
    });
    near.sort((one, other) => one.row - other.row);
    const top = (height - (step * column.length - BETWEEN_ROWS)) / 2;
    near.forEach(({ id }, row) => {
      places.set(id, { x: number * (NODE.width + BETWEEN_COLUMNS), y: top + row * step });
    });
  });
  const width = columns.length * (NODE.width + BETWEEN_COLUMNS) - BETWEEN_COLUMNS;
  return { places, passes: new Map(), width, height };
}

/** Subtasks by the length of the longest chain that leads to them. */
function columnsOf({ nodes }: Shape): (readonly Pick<GraphNode, "id" | "dependencies">[])[] {
  const placed = new Set<string>();
  const columns: Pick<GraphNode, "id" | "dependencies">[][] = [];
  let left = [...nodes];
  while (left.length > 0) {
    const free = left.filter(({ dependencies }) => dependencies.every((id) => placed.has(id)));
    // What waits for something that is not there stands at the end rather than nowhere.
    const column = free.length > 0 ? free : left;
    for (const { id } of column) {
      placed.add(id);
    }
    columns.push(column);
    left = left.filter(({ id }) => !placed.has(id));
  }
  return columns;
}

/** The longest chain of a plan: as it is estimated, and at the end as it was. */
export function pathOf(graph: PlanGraph): readonly string[] {
  return graph.finished_at === undefined ? graph.critical_path : graph.actual_path;
}

/** Whether an edge belongs to a chain of subtasks. */
export function isOnPath(path: readonly string[], from: string, to: string): boolean {
  const place = path.indexOf(from);
  return place >= 0 && path[place + 1] === to;
}
