import { Text, UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import { useTranslation } from "react-i18next";
import type { GraphNode, PlanGraph } from "@/shared/api";
import { StatusBadge, visible } from "@/shared/ui";
import { useFacts } from "./facts";
import { pathOf } from "./layout";
import classes from "./SubtaskList.module.css";
import { LARGE } from "./size";
import { standingOf } from "./worker";

/** Pixels of a line, until it is measured. */
const ROW = 68;

interface Listed {
  graph: PlanGraph;
  onOpen: (id: string) => void;
}

/** The subtasks of a plan in its order, each with what it waits for; one that is chosen is opened. */
export function SubtaskList(listed: Listed) {
  return listed.graph.nodes.length > LARGE ? <LongList {...listed} /> : <ShortList {...listed} />;
}

function ShortList({ graph, onOpen }: Listed) {
  const { t } = useTranslation();
  return (
    <ol className={classes.list} aria-label={t("plan.subtasks")}>
      {graph.nodes.map((node) => (
        <li key={node.id}>
          <Line graph={graph} node={node} onOpen={onOpen} />
        </li>
      ))}
    </ol>
  );
}

/** In a frame of its own, so that what follows is not hundreds of lines away; drawn where it is seen. */
function LongList({ graph, onOpen }: Listed) {
  const { t } = useTranslation();
  const frame = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: graph.nodes.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW,
    overscan: 6,
  });
  return (
    <div ref={frame} className={classes.long}>
      <ol
        className={classes.rows}
        style={{ height: rows.getTotalSize() }}
        aria-label={t("plan.subtasks")}
      >
        {rows.getVirtualItems().map(({ key, index, start }) => {
          const node = graph.nodes[index];
          return node === undefined ? null : (
            <li
              key={key}
              ref={rows.measureElement}
              data-index={index}
              aria-setsize={graph.nodes.length}
              aria-posinset={index + 1}
              style={{ transform: `translateY(${start}px)` }}
            >
              <Line graph={graph} node={node} onOpen={onOpen} />
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function Line({ graph, node, onOpen }: Listed & { node: GraphNode }) {
  return (
    <UnstyledButton className={classes.row} onClick={() => onOpen(node.id)}>
      <Row planId={graph.plan_id} node={node} isCritical={pathOf(graph).includes(node.id)} />
    </UnstyledButton>
  );
}

function Row({
  planId,
  node,
  isCritical,
}: {
  planId: string;
  node: GraphNode;
  isCritical: boolean;
}) {
  const { t } = useTranslation();
  const facts = [
    ...useFacts(node, planId),
    node.dependencies.length > 0
      ? t("plan.after", { names: node.dependencies.join(", ") })
      : undefined,
    isCritical ? t("plan.critical") : undefined,
  ];
  return (
    <>
      <Text component="span" ff="monospace" size="sm" fw={600} className={classes.id}>
        {node.id}
      </Text>
      <span>
        <StatusBadge of="subtask" status={standingOf(node)} />
      </span>
      <Text component="span" size="sm" lineClamp={2} className={classes.text}>
        {visible(node.description)}
      </Text>
      <Text component="span" size="xs" c="dimmed" className={classes.text}>
        {facts.filter(Boolean).join(" · ")}
      </Text>
    </>
  );
}
