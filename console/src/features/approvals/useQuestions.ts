import { type QueryClient, useQuery } from "@tanstack/react-query";
import {
  type ApprovalView,
  getApprovalQueryKey,
  listApprovalsOptions,
  listApprovalsQueryKey,
  listSessionsOptions,
} from "@/shared/api";

const MOST_SESSIONS = 200;

/** Which questions a list shows. */
export type Shown = "mine" | "waiting" | "decided";
export type Filters = { shown: Shown; kind: string | null; session: string | null };

/** The questions that wait for the one who looks. */
export function useWaiting(): readonly ApprovalView[] | undefined {
  const { data } = useQuery(listApprovalsOptions({ query: { status: "pending", mine: true } }));
  return data?.approvals;
}

/** The questions that fit; decided ones the latest first. */
export function useList({ shown, kind, session }: Filters) {
  const isDecided = shown === "decided";
  const query = {
    ...(isDecided ? {} : { status: "pending" as const }),
    ...(shown === "mine" ? { mine: true } : {}),
    ...(session === null ? {} : { session_id: session }),
  };
  return useQuery({
    ...listApprovalsOptions({ query }),
    placeholderData: (before) => before,
    select: ({ approvals }) => {
      const fit = approvals.filter((one) => kind === null || one.kind === kind);
      return isDecided ? fit.filter(({ status }) => status !== "pending").reverse() : fit;
    },
  });
}

/** The sessions that one may see, by what they are called. */
export function useTitles(): ReadonlyMap<string, string> {
  const { data } = useQuery({
    ...listSessionsOptions({ query: { limit: MOST_SESSIONS } }),
    staleTime: 30_000,
  });
  return new Map(
    (data?.sessions ?? []).map(({ session_id, title }) => [session_id, title ?? session_id]),
  );
}

/** Ask again what waits, after answers were given or refused. */
export function lookAgain(queries: QueryClient, ids: readonly string[]): void {
  void queries.invalidateQueries({ queryKey: listApprovalsQueryKey() });
  for (const approval_id of ids) {
    void queries.invalidateQueries({ queryKey: getApprovalQueryKey({ path: { approval_id } }) });
  }
}
