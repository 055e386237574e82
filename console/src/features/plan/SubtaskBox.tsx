import { type AriaLabelConfig, Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { type KeyboardEvent, memo, useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { GraphNode, PlanGraph } from "@/shared/api";
import { useWord } from "@/shared/i18n/words";
import { colorOf, kindOf, StateMark, visible } from "@/shared/ui";
import { useFacts } from "./facts";
import classes from "./GraphView.module.css";
import { awaitedIn, NODE } from "./layout";
import { standingOf, workerOf } from "./worker";

export type SubtaskNode = Node<
  {
    planId: string;
    node: GraphNode;
    isCritical: boolean;
    isJoined: boolean;
    awaited: readonly string[];
  },
  "subtask"
>;

/** How subtasks are drawn. */
export const TYPES = { subtask: memo(SubtaskBox) };

/** How every graph of a plan behaves: it is looked at and moved; its subtasks stay in their places. */
export const STEADY = {
  nodesDraggable: false,
  elementsSelectable: false,
  preventScrolling: false,
  zoomOnScroll: false,
  maxZoom: 1.5,
  proOptions: { hideAttribution: true },
} as const;

/** Opens the subtask that has the focus, by Enter or the space bar. */
export function openByKey(
  event: KeyboardEvent<HTMLDivElement>,
  onOpen: (id: string) => void,
): void {
  const chosen = (event.target as HTMLElement).closest<HTMLElement>(".react-flow__node");
  if (chosen?.dataset.id !== undefined && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    onOpen(chosen.dataset.id);
  }
}

/**
 * The subtasks of a plan, each in its place.
 *
 * @param isJoined Whether what joins them are elements, too.
 */
export function nodesOf(
  graph: PlanGraph,
  places: ReadonlyMap<string, { x: number; y: number }>,
  path: readonly string[],
  isJoined: boolean,
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
      isJoined,
      awaited: awaitedBy(node),
    },
    ...NODE,
    sourcePosition: Position.Right,
    targetPosition: Position.Left,
    ariaRole: "button",
    focusable: true,
  }));
}

function SubtaskBox({
  data: { planId, node, isCritical, isJoined, awaited },
}: NodeProps<SubtaskNode>) {
  return (
    <div
      className={classes.node}
      data-critical={isCritical || undefined}
      data-skipped={node.status === "skipped" || undefined}
      style={{ borderInlineStartColor: `var(--mantine-color-${colorOf(standingOf(node))}-6)` }}
    >
      {isJoined && <Handle type="target" position={Position.Left} isConnectable={false} />}
      <div className={classes.head}>
        <span className={classes.id} title={node.id}>
          {node.id}
        </span>
        <State status={standingOf(node)} />
      </div>
      <div className={classes.words}>{visible(node.description)}</div>
      <Facts planId={planId} node={node} awaited={awaited} />
      {isJoined && <Handle type="source" position={Position.Right} isConnectable={false} />}
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
    <div className={classes.facts} title={text}>
      {text}
    </div>
  );
}

/** A badge of few elements: there are many of them. */
function State({ status }: { status: string }) {
  const wordOf = useWord();
  const color = `var(--mantine-color-${colorOf(status)}-light`;
  return (
    <span
      className={classes.state}
      data-state={kindOf(status)}
      style={{ color: `${color}-color)`, background: `${color})` }}
    >
      <StateMark status={status} />
      {wordOf("status.subtask", status)}
    </span>
  );
}

/** What the parts of a graph are called; `node` says what can be done with a subtask. */
export function useLabels(node?: string): Partial<AriaLabelConfig> {
  const { t } = useTranslation();
  return useMemo(
    () => ({
      "node.a11yDescription.default": node ?? t("plan.graph.node"),
      "controls.ariaLabel": t("plan.graph.controls"),
      "controls.zoomIn.ariaLabel": t("plan.graph.zoomIn"),
      "controls.zoomOut.ariaLabel": t("plan.graph.zoomOut"),
      "controls.fitView.ariaLabel": t("plan.graph.fit"),
    }),
    [t, node],
  );
}
