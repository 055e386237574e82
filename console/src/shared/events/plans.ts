/** What is known of plans, fetched again when their events come or a person has done something. */

import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import type { Event } from "@/shared/api";
import { isObject } from "@/shared/json";

const OF_PLANS: ReadonlySet<unknown> = new Set([
  "listPlans",
  "getPlan",
  "getStatus",
  "getGraph",
  "listRevisions",
  "listComments",
  "getPending",
  "getPlanChanges",
  "getSessionChanges",
]);
/** Milliseconds in which whatever comes is one piece of news. */
const GATHER = 300;

/** Have everything fetched again that speaks of a plan. */
export function refreshPlans(queries: QueryClient): Promise<void> {
  return queries.invalidateQueries({
    predicate: ({ queryKey: [first] }) => isObject(first) && OF_PLANS.has(first._id),
  });
}

/** Takes a session's events, and has its plans fetched again when these speak of them. */
export function usePlanNews(): (events: readonly Event[]) => void {
  const queries = useQueryClient();
  const timer = useRef<number>(undefined);

  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );

  return useCallback(
    (events) => {
      if (timer.current === undefined && events.some(isNews)) {
        timer.current = window.setTimeout(() => {
          timer.current = undefined;
          void refreshPlans(queries);
        }, GATHER);
      }
    },
    [queries],
  );
}

function isNews({ type, plan_id }: Event): boolean {
  return plan_id !== undefined && /^(plan|subtask|approval)_/.test(type);
}
