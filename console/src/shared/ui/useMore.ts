import { useEffect, useState } from "react";

/**
 * Another page when it is wanted, once: news that come meanwhile have the pages fetched anew, which
 * cuts off what is under way.
 */
export function useMore(query: {
  data?: { pages: unknown[] };
  hasNextPage: boolean;
  isFetching: boolean;
  isFetchNextPageError: boolean;
  fetchNextPage: () => unknown;
}): { isWanted: boolean; want: () => void } {
  const [had, setHad] = useState<number>();
  const { hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = query;
  const pages = query.data?.pages.length ?? 0;
  useEffect(() => {
    if (had === undefined || isFetching) {
      return;
    }
    if (pages > had || !hasNextPage || isFetchNextPageError) {
      setHad(undefined);
    } else {
      fetchNextPage();
    }
  }, [had, pages, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage]);
  function want(): void {
    setHad(pages);
    fetchNextPage();
  }

  return { isWanted: had !== undefined, want };
}
