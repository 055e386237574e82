import { Text, UnstyledButton } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { GraphNode, PlanGraph } from "@/shared/api";
import { StatusBadge, visible } from "@/shared/ui";
import { useFacts } from "./facts";
import classes from "./SubtaskList.module.css";

/** The subtasks of a plan in its order, each with what it waits for; one that is chosen is opened. */
export function SubtaskList({ graph, onOpen }: { graph: PlanGraph; onOpen: (id: string) => void }) {
  const { t } = useTranslation();
  const path = graph.finished_at === undefined ? graph.critical_path : graph.actual_path;
  return (
    <ol className={classes.list} aria-label={t("plan.subtasks")}>
      {graph.nodes.map((node) => (
        <li key={node.id}>
          <UnstyledButton className={classes.row} onClick={() => onOpen(node.id)}>
            <Row planId={graph.plan_id} node={node} isCritical={path.includes(node.id)} />
          </UnstyledButton>
        </li>
      ))}
    </ol>
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
        <StatusBadge of="subtask" status={node.status} />
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
