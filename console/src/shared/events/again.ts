/** Has what may have changed fetched again. */

import type { Query, QueryClient } from "@tanstack/react-query";

/**
 * Fetch again what is stale, where somebody looks at it.
 *
 * An answer that is on its way may be older than the change. The library begins anew only where it
 * has an answer already; a first one is waited for here, and then asked for once more.
 */
export function fetchAgain(
  queries: QueryClient,
  isStale: (query: Query) => boolean,
): Promise<void> {
  for (const query of queries.getQueryCache().findAll({ predicate: isStale })) {
    const { promise, queryKey, state } = query;
    if (state.data === undefined && state.fetchStatus === "fetching") {
      void promise
        ?.catch(() => undefined)
        .then(() => queries.invalidateQueries({ queryKey, exact: true }));
    }
  }
  return queries.invalidateQueries({ predicate: isStale });
}
