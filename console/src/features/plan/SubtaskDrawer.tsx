import { Anchor, Drawer, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { GraphNode, PlanGraph, PlanView } from "@/shared/api";
import { StatusBadge, visible } from "@/shared/ui";
import { Comments } from "./Comments";
import { SubtaskActs } from "./SubtaskActs";
import { SubtaskFacts } from "./SubtaskFacts";
import { Words } from "./Words";

/** All of one subtask, and what can be done to it. */
export function SubtaskDrawer({
  plan,
  graph,
  again,
  opened,
  onOpen,
}: {
  plan: PlanView;
  graph: PlanGraph;
  again: readonly string[];
  opened: string | undefined;
  onOpen: (id: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const node = graph.nodes.find(({ id }) => id === opened);
  return (
    <Drawer
      opened={node !== undefined}
      onClose={() => onOpen(undefined)}
      position="right"
      size="lg"
      title={
        <Text ff="monospace" fw={600}>
          {node?.id}
        </Text>
      }
    >
      {node && (
        <Stack key={node.id} gap="md">
          <Group gap="sm">
            <StatusBadge of="subtask" status={node.status} />
            {again.includes(node.id) && <Text size="sm">{t("plan.again")}</Text>}
          </Group>
          <Text style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
            {visible(node.description)}
          </Text>
          <SubtaskActs plan={plan} node={node} />
          <Words plan={plan} node={node} />
          <Neighbours node={node} graph={graph} onOpen={onOpen} />
          <SubtaskFacts plan={plan} node={node} />
          <Comments plan={plan} subtaskId={node.id} />
        </Stack>
      )}
    </Drawer>
  );
}

/** Who waits for whom. */
function Neighbours({
  node,
  graph,
  onOpen,
}: {
  node: GraphNode;
  graph: PlanGraph;
  onOpen: (id: string) => void;
}) {
  const { t } = useTranslation();
  const after = graph.edges.flatMap(({ from, to }) => (from === node.id && to ? [to] : []));
  const sides = [
    [t("plan.waitsFor"), node.dependencies],
    [t("plan.waitedBy"), after],
  ] as const;
  return sides.map(([label, ids]) =>
    ids.length === 0 ? null : (
      <Group key={label} gap="xs">
        <Text size="sm" c="dimmed">
          {label}
        </Text>
        {ids.map((id) => (
          <Anchor key={id} component="button" size="sm" ff="monospace" onClick={() => onOpen(id)}>
            {id}
          </Anchor>
        ))}
      </Group>
    ),
  );
}
