import { Button, Group } from "@mantine/core";
import { useTranslation } from "react-i18next";
import {
  cancelSubtask,
  type GraphNode,
  type PlanView,
  retrySubtask,
  skipSubtask,
} from "@/shared/api";
import { useMay } from "@/shared/me";
import { UndoButton } from "@/shared/UndoButton";
import { Refusal } from "./Refusal";
import { useSteer } from "./useSteer";

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

/** What can be done to a subtask by who looks. */
export function SubtaskActs({ plan, node }: { plan: PlanView; node: GraphNode }) {
  const { t } = useTranslation();
  const path = { plan_id: plan.plan_id, subtask_id: node.id };
  const { mutate, isPending, variables, error } = useSteer((act: Act) => ACTS[act]({ path }));
  const maySteer = useMay("operator");
  const acts = maySteer ? actsOn(plan, node) : [];
  return (
    <>
      {(acts.length > 0 || node.started_at !== undefined) && (
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
          {node.started_at !== undefined && <UndoButton plan={plan} subtaskId={node.id} />}
        </Group>
      )}
      <Refusal error={error} />
    </>
  );
}
