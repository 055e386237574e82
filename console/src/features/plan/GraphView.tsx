import { Group, Text, useComputedColorScheme } from "@mantine/core";
import {
  type AriaLabelConfig,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { type KeyboardEvent, memo, useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { GraphNode, PlanGraph } from "@/shared/api";
import { colorOf, StatusBadge, visible } from "@/shared/ui";
import { useFacts } from "./facts";
import classes from "./GraphView.module.css";
import { awaitedIn, isOnPath, layoutOf, NODE } from "./layout";
import { LARGE } from "./size";
import { workerOf } from "./worker";

type SubtaskNode = Node<
  { planId: string; node: GraphNode; isCritical: boolean; awaited: readonly string[] },
  "subtask"
>;

const TYPES = { subtask: memo(SubtaskBox) };
const MARGIN = 48;
/** The controls stand at the right. */
const ROOM = { top: "16px", bottom: "16px", left: "16px", right: "56px" } as const;
const LEAST = 200;
const MOST = 560;
const LEAST_ZOOM = 0.2;
/** A large plan is not shrunk until all of it is seen, but to where its words can be read. */
const READABLE = 0.5;

/** A plan drawn as a graph; a subtask that is chosen by pointer or Enter is opened. */
export function GraphView({ graph, onOpen }: { graph: PlanGraph; onOpen: (id: string) => void }) {
  const scheme = useComputedColorScheme();
  const isLarge = graph.nodes.length > LARGE;
  const path = graph.finished_at === undefined ? graph.critical_path : graph.actual_path;
  const shape = JSON.stringify([graph.nodes.map(({ id }) => id), graph.edges]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: times and states move nothing
  const { places, height } = useMemo(() => layoutOf(graph), [shape]);
  const nodes = useMemo(() => nodesOf(graph, places, path), [graph, places, path]);
  const edges = useMemo(() => edgesOf(graph, path), [graph, path]);

  function openByKey(event: KeyboardEvent<HTMLDivElement>): void {
    const chosen = (event.target as HTMLElement).closest<HTMLElement>(".react-flow__node");
    if (chosen?.dataset.id !== undefined && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      onOpen(chosen.dataset.id);
    }
  }

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
        colorMode={scheme}
        ariaLabelConfig={useLabels()}
        onNodeClick={(_, { id }) => onOpen(id)}
        onKeyDown={openByKey}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        preventScrolling={false}
        zoomOnScroll={false}
        minZoom={LEAST_ZOOM}
        maxZoom={1.5}
        fitView
        fitViewOptions={{ padding: ROOM, minZoom: isLarge ? READABLE : LEAST_ZOOM, maxZoom: 1 }}
        onlyRenderVisibleElements={isLarge}
        proOptions={{ hideAttribution: true }}
      >
        <Controls showInteractive={false} position="bottom-right" />
      </ReactFlow>
    </div>
  );
}

function nodesOf(
  graph: PlanGraph,
  places: ReadonlyMap<string, { x: number; y: number }>,
  path: readonly string[],
): SubtaskNode[] {
  const awaitedBy = awaitedIn(graph);
  return graph.nodes.map((node) => ({
    id: node.id,
    type: "subtask",
    position: places.get(node.id) ?? { x: 0, y: 0 },
    data: {
      planId: graph.plan_id,
      node,
      isCritical: path.includes(node.id),
      awaited: awaitedBy(node),
    },
    ...NODE,
    sourcePosition: Position.Right,
    targetPosition: Position.Left,
    ariaRole: "button",
    focusable: true,
  }));
}

function edgesOf({ edges, nodes }: PlanGraph, path: readonly string[]): Edge[] {
  const skipped = new Set(nodes.filter(({ status }) => status === "skipped").map(({ id }) => id));
  return edges.map(({ from = "", to = "" }) => {
    const isCritical = isOnPath(path, from, to);
    return {
      id: `${from} ${to}`,
      source: from,
      target: to,
      className: isCritical ? classes.critical : skipped.has(to) ? classes.skipped : undefined,
      zIndex: isCritical ? 1 : 0,
      markerEnd: { type: MarkerType.ArrowClosed },
    };
  });
}

function SubtaskBox({ data: { planId, node, isCritical, awaited } }: NodeProps<SubtaskNode>) {
  return (
    <div
      className={classes.node}
      data-critical={isCritical || undefined}
      data-skipped={node.status === "skipped" || undefined}
      style={{ borderInlineStartColor: `var(--mantine-color-${colorOf(node.status)}-6)` }}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Group justify="space-between" wrap="nowrap" gap={6}>
        <Text ff="monospace" size="sm" fw={600} truncate title={node.id}>
          {node.id}
        </Text>
        <StatusBadge of="subtask" status={node.status} />
      </Group>
      <Text size="sm" lineClamp={2} lh={1.25}>
        {visible(node.description)}
      </Text>
      <Facts planId={planId} node={node} awaited={awaited} />
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
}

function Facts({
  planId,
  node,
  awaited,
}: {
  planId: string;
  node: GraphNode;
  awaited: readonly string[];
}) {
  const { t } = useTranslation();
  const facts = useFacts(node, planId);
  const told =
    awaited.length > 0 ? [workerOf(node), t("plan.awaits", { names: awaited.join(", ") })] : facts;
  const text = told.filter(Boolean).join(" · ");
  return (
    <Text size="xs" c="dimmed" truncate title={text}>
      {text}
    </Text>
  );
}

function useLabels(): Partial<AriaLabelConfig> {
  const { t } = useTranslation();
  return useMemo(
    () => ({
      "node.a11yDescription.default": t("plan.graph.node"),
      "controls.ariaLabel": t("plan.graph.controls"),
      "controls.zoomIn.ariaLabel": t("plan.graph.zoomIn"),
      "controls.zoomOut.ariaLabel": t("plan.graph.zoomOut"),
      "controls.fitView.ariaLabel": t("plan.graph.fit"),
    }),
    [t],
  );
}
