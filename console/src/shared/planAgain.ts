import { useMutation, useQueryClient } from "@tanstack/react-query";
import { comment, revise } from "@/shared/api";
import { refreshPlans } from "@/shared/events";

/** Has a plan that waits for approval planned again, with what is wrong with it. */
export function usePlanAgain(planId: string, onDone?: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (content: string) => {
      const path = { plan_id: planId };
      await comment({ path, body: { content } });
      await revise({ path });
    },
    onSuccess: onDone,
    onSettled: () => refreshPlans(queries),
  });
}
