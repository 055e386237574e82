import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { checkDraft, type PlanCheck, type PlanView, type Subtask } from "@/shared/api";

const PAUSE = 500;

/**
 * What the server says of an edit, soon after the last letter; nothing is changed by it.
 *
 * @param written Its subtasks, as JSON.
 */
export function useCheck(
  plan: PlanView,
  written: string,
  isWanted: boolean,
): PlanCheck | undefined {
  const [settled] = useDebouncedValue(written, PAUSE);
  const isSettled = settled === written;
  const { data } = useQuery({
    queryKey: ["plan-check", plan.plan_id, plan.revision, settled],
    queryFn: async ({ signal }) => {
      const body = { modified_subtasks: JSON.parse(settled) as Subtask[] };
      const path = { plan_id: plan.plan_id };
      return (await checkDraft({ path, body, signal, throwOnError: true })).data;
    },
    enabled: isWanted && isSettled,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  return isWanted ? data : undefined;
}
