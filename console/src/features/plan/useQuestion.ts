import { useQuery } from "@tanstack/react-query";
import { type ApprovalView, getPendingOptions, type PlanView } from "@/shared/api";

/** The question by which a plan waits for a person; undefined where there is none. */
export function useQuestion({ session_id, plan_id }: PlanView): ApprovalView | undefined {
  const { data } = useQuery(getPendingOptions({ path: { session_id } }));
  return data?.pending_approvals.find((one) => one.kind === "plan" && one.plan_id === plan_id);
}
