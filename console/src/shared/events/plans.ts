/** What is known of plans, fetched again when their events come or a person has done something. */

import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import type { Event } from "@/shared/api";
import { isObject } from "@/shared/json";
import { fetchAgain } from "./again";

const OF_PLANS: ReadonlySet<unknown> = new Set([
  "listPlans",
  "getPlan",
  "getStatus",
  "getGraph",
  "listRevisions",
  "listComments",
  "listCheckpoints",
  "getPending",
  "getPlanChanges",
  "getSessionChanges",
  "getUsage",
]);
/** What grows with every request of a model and every call, by which nothing else moves. */
const GROWING: ReadonlySet<unknown> = new Set([
  "getStatus",
  "getUsage",
  "getPlanChanges",
  "getSessionChanges",
]);
/** Milliseconds in which whatever comes is one piece of news. */
const GATHER = 300;
const GATHER_GROWING = 1_500;

/** Have everything fetched again that speaks of a plan. */
export function refreshPlans(queries: QueryClient): Promise<void> {
  return refresh(queries, OF_PLANS);
}

function refresh(queries: QueryClient, ids: ReadonlySet<unknown>): Promise<void> {
  return fetchAgain(queries, ({ queryKey: [first] }) => isObject(first) && ids.has(first._id));
}

/** Takes a session's events, and has its plans fetched again when these speak of them. */
export function usePlanNews(): (events: readonly Event[]) => void {
  const queries = useQueryClient();
  const timers = useRef(new Map<ReadonlySet<unknown>, number>());

  useEffect(() => {
    const running = timers.current;
    return () => {
      for (const timer of running.values()) {
        clearTimeout(timer);
      }
      running.clear();
    };
  }, []);

  return useCallback(
    (events) => {
      function soon(ids: ReadonlySet<unknown>, wait: number): void {
        if (!timers.current.has(ids)) {
          const timer = window.setTimeout(() => {
            timers.current.delete(ids);
            void refresh(queries, ids);
          }, wait);
          timers.current.set(ids, timer);
        }
      }
      if (events.some(isNews)) {
        soon(OF_PLANS, GATHER);
      } else if (events.some(({ seq }) => seq !== undefined)) {
        soon(GROWING, GATHER_GROWING);
      }
    },
    [queries],
  );
}

function isNews({ type, plan_id }: Event): boolean {
  return (
    type.startsWith("approval_") ||
    (plan_id !== undefined && /^(plan|subtask|checkpoint)_/.test(type))
  );
}
