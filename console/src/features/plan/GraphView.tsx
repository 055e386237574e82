import { useComputedColorScheme } from "@mantine/core";
import { Controls, type Edge, MarkerType, ReactFlow } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useMemo } from "react";
import type { PlanGraph } from "@/shared/api";
import classes from "./GraphView.module.css";
import { LargeGraph } from "./LargeGraph";
import { isOnPath, type Layout, layoutOf, nameOf, pathOf } from "./layout";
import { EDGE_TYPES } from "./PassingEdge";
import { nodesOf, openByKey, STEADY, TYPES, useLabels } from "./SubtaskBox";
import { LARGE } from "./size";

const MARGIN = 48;
/** The controls stand at the right. */
const ROOM = { top: "16px", bottom: "16px", left: "16px", right: "56px" } as const;
const LEAST = 200;
const MOST = 560;

interface Drawn {
  graph: PlanGraph;
  onOpen: (id: string) => void;
}

/** A plan drawn as a graph; a subtask that is chosen by pointer or Enter is opened. */
export function GraphView(drawn: Drawn) {
  return drawn.graph.nodes.length > LARGE ? <LargeGraph {...drawn} /> : <SmallGraph {...drawn} />;
}

function SmallGraph({ graph, onOpen }: Drawn) {
  const scheme = useComputedColorScheme();
  const path = pathOf(graph);
  const shape = JSON.stringify([graph.nodes.map(({ id }) => id), graph.edges]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: times and states move nothing
  const { places, passes, height } = useMemo(() => layoutOf(graph), [shape]);
  const nodes = useMemo(() => nodesOf(graph, places, path, true), [graph, places, path]);
  const edges = useMemo(() => edgesOf(graph, path, passes), [graph, path, passes]);

  return (
    <div
      className={classes.frame}
      style={{ height: Math.min(MOST, Math.max(LEAST, height + MARGIN)) }}
    >
      <ReactFlow
        key={shape}
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        edgeTypes={EDGE_TYPES}
        colorMode={scheme}
        ariaLabelConfig={useLabels()}
        onNodeClick={(_, { id }) => onOpen(id)}
        onKeyDown={(event) => openByKey(event, onOpen)}
        {...STEADY}
        nodesConnectable={false}
        edgesFocusable={false}
        minZoom={0.2}
        fitView
        fitViewOptions={{ padding: ROOM, maxZoom: 1 }}
      >
        <Controls showInteractive={false} position="bottom-right" />
      </ReactFlow>
    </div>
  );
}

/** As large as the others, which grow with their line, and of its colour. */
const CRITICAL_END = {
  type: MarkerType.ArrowClosed,
  width: 7,
  height: 7,
  color: "var(--critical)",
};

function edgesOf(
  { edges, nodes }: PlanGraph,
  path: readonly string[],
  passes: Layout["passes"],
): Edge[] {
  const skipped = new Set(nodes.filter(({ status }) => status === "skipped").map(({ id }) => id));
  return edges.map(({ from = "", to = "" }) => {
    const isCritical = isOnPath(path, from, to);
    return {
      id: nameOf(from, to),
      type: "passing",
      data: { passes: passes.get(nameOf(from, to)) },
      source: from,
      target: to,
      className: isCritical ? classes.critical : skipped.has(to) ? classes.skipped : undefined,
      zIndex: isCritical ? 1 : 0,
      markerEnd: isCritical ? CRITICAL_END : { type: MarkerType.ArrowClosed },
    };
  });
}
