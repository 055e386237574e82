import { BaseEdge, type Edge, type EdgeProps } from "@xyflow/react";
import { type Layout, lineOf } from "./layout";

type Passes = Edge<{ passes?: ReturnType<Layout["passes"]["get"]> }, "passing">;

/** How what joins subtasks is drawn. */
export const EDGE_TYPES = { passing: PassingEdge };

/** An edge that goes round the subtasks in the columns that it skips. */
function PassingEdge({ id, data, ...edge }: EdgeProps<Passes>) {
  const from = { x: edge.sourceX, y: edge.sourceY };
  const to = { x: edge.targetX, y: edge.targetY };
  return (
    <BaseEdge
      id={id}
      path={lineOf(from, data?.passes ?? [], to)}
      markerEnd={edge.markerEnd}
      interactionWidth={edge.interactionWidth}
    />
  );
}
