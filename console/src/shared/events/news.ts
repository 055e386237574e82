/**
 * What changes on the server: pages ask again where news come, and at no other time.
 *
 * All tabs of a browser share one stream, as a browser keeps few connections to a server: one tab
 * reads it and tells the others. When that tab is closed, another takes its place.
 */

import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { isObject } from "@/shared/json";
import { fetchAgain } from "./again";
import { refreshPlans } from "./plans";

/** A change. Without a session it is about the list of them, or about questions of others'. */
export interface News {
  session_id?: string;
  /** The types of the events that tell of it; empty where none does. */
  events?: readonly string[];
}

const NAME = "gonogo-news";
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
/** Milliseconds in which whatever comes is one piece of news. */
const GATHER = 300;
/** The same for what takes the server long; who has gone back in the audit log is not moved. */
const GATHER_LONG = 5_000;

const LISTS: ReadonlySet<unknown> = new Set(["listSessions", "listGrants", "listServers"]);
const QUESTIONS: ReadonlySet<unknown> = new Set(["listApprovals", "getApproval", "getPending"]);
const SLOW: ReadonlySet<unknown> = new Set(["analytics", "audit"]);

/** Be told of news until the returned function is called. */
export function followNews(onNews: (news: News) => void): () => void {
  const ended = new AbortController();
  const tabs = new BroadcastChannel(NAME);
  tabs.onmessage = ({ data }) => onNews(data as News);
  const tell = (news: News) => {
    onNews(news);
    tabs.postMessage(news);
  };
  // Locks are there only where the page came by HTTPS, or from this machine.
  if ("locks" in navigator) {
    navigator.locks
      .request(NAME, { signal: ended.signal }, () => read(tell, ended.signal))
      .catch(() => undefined);
  } else {
    void read(tell, ended.signal);
  }
  return () => {
    ended.abort();
    tabs.close();
  };
}

/** Read the stream, and again where it breaks, until it is wanted no more. */
function read(tell: (news: News) => void, ended: AbortSignal): Promise<void> {
  return new Promise((over) => {
    let source: EventSource;
    let timer: ReturnType<typeof setTimeout>;
    let waited = FIRST_WAIT;
    function open(): void {
      source = new EventSource("/api/v1/news");
      source.onmessage = ({ data }) => {
        waited = FIRST_WAIT;
        tell(JSON.parse(data) as News);
      };
      source.onerror = () => {
        source.close();
        timer = setTimeout(open, waited);
        waited = Math.min(2 * waited, LONGEST_WAIT);
      };
    }
    ended.addEventListener("abort", () => {
      source.close();
      clearTimeout(timer);
      over();
    });
    open();
  });
}

/** Which of the answers that are kept may have changed by some news. */
export function staleBy(news: readonly News[]): (id: unknown) => boolean {
  const isAll = news.some(({ session_id, events }) => session_id === undefined && !events);
  const asks = news.some(({ events }) => events?.some((type) => type.startsWith("approval_")));
  return (id) => LISTS.has(id) || ((isAll || asks) && QUESTIONS.has(id));
}

/** Have everything that several sessions share fetched again when it may have changed. */
export function useNews(): void {
  const queries = useQueryClient();
  useEffect(() => {
    let news: News[] = [];
    let soon: number | undefined;
    let later: number | undefined;
    const leave = followNews((one) => {
      news.push(one);
      soon ??= window.setTimeout(() => {
        const stale = staleBy(news);
        refresh(queries, stale);
        // What people do to a plan is not always an event: comments, another name.
        if (news.some(({ session_id, events }) => session_id && events?.length === 0)) {
          void refreshPlans(queries);
          refresh(queries, (id) => id === "getSession" || id === "getHistory");
        }
        news = [];
        soon = undefined;
      }, GATHER);
      later ??= window.setTimeout(() => {
        later = undefined;
        refresh(queries, (id, pages) => SLOW.has(id) && pages < 2);
      }, GATHER_LONG);
    });
    return () => {
      leave();
      clearTimeout(soon);
      clearTimeout(later);
    };
  }, [queries]);
}

function refresh(queries: QueryClient, isStale: (id: unknown, pages: number) => boolean): void {
  void fetchAgain(queries, ({ queryKey: [first], state: { data } }) => {
    const pages = isObject(data) && Array.isArray(data.pages) ? data.pages.length : 1;
    return isStale(isObject(first) ? first._id : first, pages);
  });
}
