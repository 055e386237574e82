import { Anchor, Button, Drawer, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import {
  cancelSubtask,
  type GraphNode,
  type PlanGraph,
  type PlanView,
  retrySubtask,
  skipSubtask,
} from "@/shared/api";
import { useMay } from "@/shared/me";
import { StatusBadge, visible } from "@/shared/ui";
import { Comments } from "./Comments";
import { Refusal } from "./Refusal";
import { SubtaskFacts } from "./SubtaskFacts";
import { useSteer } from "./useSteer";

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
            <StatusBadge status={node.status} />
            {again.includes(node.id) && <Text size="sm">{t("plan.again")}</Text>}
          </Group>
          <Text style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
            {visible(node.description)}
          </Text>
          <Acts plan={plan} node={node} />
          <Neighbours node={node} graph={graph} onOpen={onOpen} />
          <SubtaskFacts plan={plan} node={node} />
          <Comments plan={plan} subtaskId={node.id} />
        </Stack>
      )}
    </Drawer>
  );
}

const ACTS = { retry: retrySubtask, skip: skipSubtask, cancel: cancelSubtask } as const;
type Act = keyof typeof ACTS;

/** What makes sense of a subtask by where it stands; the server has the last word. */
function actsOn(plan: PlanView, { status }: GraphNode): Act[] {
  if (status === "failed" || status === "cancelled") {
    return ["running", "paused", "failed", "partial"].includes(plan.status) ? ["retry"] : [];
  }
  if (plan.status !== "running" && plan.status !== "paused") {
    return [];
  }
  const open: Partial<Record<GraphNode["status"], Act[]>> = {
    pending: ["skip", "cancel"],
    waiting_approval: ["skip", "cancel"],
    running: ["cancel"],
  };
  return open[status] ?? [];
}

function Acts({ plan, node }: { plan: PlanView; node: GraphNode }) {
  const { t } = useTranslation();
  const path = { plan_id: plan.plan_id, subtask_id: node.id };
  const { mutate, isPending, variables, error } = useSteer((act: Act) => ACTS[act]({ path }));
  const maySteer = useMay("operator");
  const acts = maySteer ? actsOn(plan, node) : [];
  return (
    <>
      {acts.length > 0 && (
        <Group gap="xs">
          {acts.map((act) => (
            <Button
              key={act}
              size="xs"
              variant={act === "retry" ? "filled" : "default"}
              loading={isPending && variables === act}
              onClick={() => mutate(act)}
            >
              {t(`plan.act.${act}`)}
            </Button>
          ))}
        </Group>
      )}
      <Refusal error={error} />
    </>
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
