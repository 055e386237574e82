import { Alert, Anchor, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { GraphNode, PlanGraph, PlanView } from "@/shared/api";
import { visible } from "@/shared/ui";
import { SubtaskActs } from "./SubtaskActs";

/** The subtasks that failed, each with what went wrong and a way to try again. */
export function Failures({
  plan,
  graph,
  onOpen,
}: {
  plan: PlanView;
  graph: PlanGraph;
  onOpen: (id: string) => void;
}) {
  const { t } = useTranslation();
  const failed = graph.nodes.filter(({ status }) => status === "failed");
  return failed.length === 0 ? null : (
    <Alert color="red" title={t("plan.failures", { count: failed.length })}>
      <Stack gap="sm">
        {failed.map((node) => (
          <Group key={node.id} justify="space-between" align="flex-start" wrap="nowrap">
            <div>
              <Anchor
                component="button"
                ff="monospace"
                size="sm"
                underline="always"
                onClick={() => onOpen(node.id)}
              >
                {visible(node.id)}
              </Anchor>
              <Text size="sm" lineClamp={3} style={{ overflowWrap: "anywhere" }}>
                {visible(whyOf(node))}
              </Text>
            </div>
            <SubtaskActs plan={plan} node={node} />
          </Group>
        ))}
      </Stack>
    </Alert>
  );
}

function whyOf({ error, reason }: GraphNode): string {
  return typeof error?.message === "string" ? error.message : (reason ?? "");
}
