import { useTranslation } from "react-i18next";
import { type GraphNode, type PlanView, steerSubtask } from "@/shared/api";
import { useMay } from "@/shared/me";
import { Say } from "./Say";

/** A field for words to the agent of a subtask that is at work; the server has the last word. */
export function Words({ plan, node }: { plan: PlanView; node: GraphNode }) {
  const { t } = useTranslation();
  const path = { plan_id: plan.plan_id, subtask_id: node.id };
  const mayTell = useMay("operator");
  const isAtWork =
    node.agent !== undefined && ["running", "waiting_approval"].includes(node.status);
  if (!mayTell || !isAtWork) {
    return null;
  }
  return (
    <Say
      label={t("plan.words.new", { agent: node.agent ?? "" })}
      hint={t("plan.words.hint")}
      button={t("plan.words.say")}
      send={(content) => steerSubtask({ path, body: { content } })}
    />
  );
}
