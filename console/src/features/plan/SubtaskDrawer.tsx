import { Anchor, Drawer, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { GraphNode, ModelUsageView, PlanGraph, PlanView } from "@/shared/api";
import { useWindow } from "@/shared/events";
import { OpenQuestion, SubtaskTranscript, useOpenQuestions } from "@/shared/slots";
import { Spent, StatusBadge, visible } from "@/shared/ui";
import { Comments } from "./Comments";
import { SubtaskActs } from "./SubtaskActs";
import { SubtaskFacts } from "./SubtaskFacts";
import { Words } from "./Words";
import { standingOf } from "./worker";

/** All of one subtask, and what can be done to it. */
export function SubtaskDrawer({
  plan,
  graph,
  again,
  spent,
  opened,
  onOpen,
}: {
  plan: PlanView;
  graph: PlanGraph;
  again: readonly string[];
  /** What each subtask took. */
  spent: ReadonlyMap<string, ModelUsageView>;
  opened: string | undefined;
  onOpen: (id: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const asked = useOpenQuestions(plan.session_id);
  const usage = spent.get(opened ?? "");
  const filled = useWindow(plan.plan_id, opened);
  const node = graph.nodes.find(({ id }) => id === opened);
  return (
    <Drawer
      opened={node !== undefined}
      onClose={() => onOpen(undefined)}
      position="right"
      size="xl"
      title={
        <Text ff="monospace" fw={600}>
          {node?.id}
        </Text>
      }
    >
      {node && (
        <Stack key={node.id} gap="md">
          <Group gap="sm">
            <StatusBadge of="subtask" status={standingOf(node)} />
            {usage && <Spent usage={usage} />}
            {filled !== undefined && (
              <Text size="xs" c="dimmed" title={t("window.hint")}>
                {t("window.used", { percent: filled })}
              </Text>
            )}
            {again.includes(node.id) && <Text size="sm">{t("plan.again")}</Text>}
          </Group>
          <Text style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
            {visible(node.description)}
          </Text>
          {asked
            .filter(({ plan_id, subtask_id }) => plan_id === plan.plan_id && subtask_id === node.id)
            .map((approval) => (
              <OpenQuestion key={approval.approval_id} approval={approval} />
            ))}
          <SubtaskActs plan={plan} node={node} />
          <Words plan={plan} node={node} />
          <Neighbours node={node} graph={graph} onOpen={onOpen} />
          <SubtaskFacts plan={plan} node={node} />
          {node.started_at !== undefined && (
            <SubtaskTranscript planId={plan.plan_id} subtaskId={node.id} />
          )}
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
