import { type UseMutationResult, useMutation, useQueryClient } from "@tanstack/react-query";
import { refreshPlans } from "@/shared/events";

/** Something that a person does to a plan; how the plan stands after it is seen, refused or not. */
export function useSteer<V = void>(
  act: (wanted: V) => Promise<unknown>,
  onDone?: () => void,
): UseMutationResult<unknown, unknown, V> {
  const queries = useQueryClient();
  return useMutation<unknown, unknown, V>({
    mutationFn: act,
    onSuccess: onDone,
    onSettled: () => refreshPlans(queries),
  });
}
