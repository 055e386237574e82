import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ApprovalView, decideMany, type NamedAnswer } from "@/shared/api";
import { lookAgain } from "./useQuestions";

export type Word = "approve" | "reject" | "edit";
export type Ruling = Omit<NamedAnswer, "approval_id" | "digest" | "decision"> & { decision: Word };

/** Answers questions as they were shown: each with its own digest, and each by itself. */
export function useDecisions() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({
      approvals,
      ruling,
    }: {
      approvals: readonly ApprovalView[];
      ruling: Ruling;
    }) => {
      const decisions = approvals.map(({ approval_id, digest }) => ({
        ...ruling,
        approval_id,
        digest,
      }));
      const { data } = await decideMany({ body: { decisions }, throwOnError: true });
      return data.answers;
    },
    onSettled: (_answers, _error, { approvals }) =>
      lookAgain(
        queries,
        approvals.map(({ approval_id }) => approval_id),
      ),
  });
}
