/** A session's conversation, live: it goes on where it was after a break, without gap or repeat. */

import { useCallback, useEffect, useReducer, useRef, useState } from "react";
import { type Event, getLog } from "@/shared/api";
import { type Conversation, cut, EMPTY, follow, isWhole, precede } from "./reducer";

export type Link = "connecting" | "live" | "broken";

export interface Following {
  conversation: Conversation;
  link: Link;
  /** Have what came before the conversation added to it; absent where nothing did. */
  loadEarlier?: () => void;
  isLoadingEarlier: boolean;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
/** Milliseconds in which what comes is drawn at once. */
const GATHER = 50;
/** Events that are read at once, the latest first. */
const PAGE = 500;

type Step = { events: readonly Event[] } | { earlier: readonly Event[] } | "anew" | "cut";

function step(state: Conversation, taken: Step): Conversation {
  if (taken === "anew") {
    return EMPTY;
  }
  if (taken === "cut") {
    return cut(state);
  }
  return "earlier" in taken ? precede(state, taken.earlier) : follow(state, taken.events);
}

/**
 * Follow a session.
 *
 * @param onEvents Is told of what came, a batch at a time.
 */
export function useSession(
  sessionId: string,
  onEvents: (events: readonly Event[]) => void,
): Following {
  const [conversation, take] = useReducer(step, EMPTY);
  const [link, setLink] = useState<Link>("connecting");
  const [isLoadingEarlier, setLoadingEarlier] = useState(false);
  const told = useRef(onEvents);
  told.current = onEvents;

  useEffect(() => {
    take("anew");
    return stream(
      sessionId,
      (events) => {
        take({ events });
        told.current(events);
      },
      (link) => {
        setLink(link);
        if (link === "broken") {
          take("cut");
        }
      },
    );
  }, [sessionId]);

  const first = conversation.events[0]?.seq;
  const loadEarlier = useCallback(() => {
    setLoadingEarlier(true);
    void page(sessionId, first)
      .then((earlier) => take({ earlier }))
      // The stream says that the line is broken; whoever still wants it asks again, in a while.
      .catch(() => new Promise((goOn) => setTimeout(goOn, FIRST_WAIT)))
      .finally(() => setLoadingEarlier(false));
  }, [sessionId, first]);

  return {
    conversation,
    link,
    loadEarlier: isWhole(conversation) ? undefined : loadEarlier,
    isLoadingEarlier,
  };
}

/** The latest events before a seq, or at the end of the log. */
async function page(sessionId: string, before?: number): Promise<readonly Event[]> {
  const { data } = await getLog({
    path: { session_id: sessionId },
    query: { before, limit: PAGE },
    throwOnError: true,
  });
  return data.events;
}

/** Read a session's events, from its latest on, until the returned function is called. */
function stream(
  sessionId: string,
  onEvents: (events: readonly Event[]) => void,
  onLink: (link: Link) => void,
): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame: number | undefined;
  let waited = FIRST_WAIT;
  let seq: number | undefined;
  let waiting: Event[] = [];
  let isOver = false;

  // What was missed during a break is drawn in a few steps, not in as many as there are events.
  function flush(): void {
    frame = undefined;
    const events = waiting;
    waiting = [];
    onEvents(events);
  }

  function receive(message: MessageEvent<string>): void {
    waited = FIRST_WAIT;
    const event = JSON.parse(message.data) as Event;
    seq = Math.max(seq ?? 0, event.seq ?? 0);
    waiting.push(event);
    frame ??= window.setTimeout(flush, GATHER);
  }

  function tryAgain(): void {
    onLink("broken");
    timer = setTimeout(open, waited);
    waited = Math.min(2 * waited, LONGEST_WAIT);
  }

  /** Whoever comes back to the page, or into the network, waits no longer. */
  function hurry(): void {
    if (timer !== undefined && document.visibilityState === "visible") {
      clearTimeout(timer);
      waited = FIRST_WAIT;
      open();
    }
  }

  function open(): void {
    timer = undefined;
    onLink("connecting");
    if (seq !== undefined) {
      listen(seq);
      return;
    }
    page(sessionId)
      .then((latest) => {
        if (!isOver) {
          seq = latest.at(-1)?.seq ?? 0;
          onEvents(latest);
          listen(seq);
        }
      })
      .catch(() => isOver || tryAgain());
  }

  function listen(after: number): void {
    const address = `/api/v1/sessions/${encodeURIComponent(sessionId)}/events?after=${after}`;
    source = new EventSource(address);
    source.onopen = () => onLink("live");
    source.onmessage = receive;
    source.addEventListener("error", (happened) => {
      if (happened instanceof MessageEvent) {
        receive(happened);
        return;
      }
      // The browser's own retry repeats the address it began with: begin where we are instead.
      source?.close();
      tryAgain();
    });
  }

  window.addEventListener("online", hurry);
  document.addEventListener("visibilitychange", hurry);
  open();
  return () => {
    isOver = true;
    window.removeEventListener("online", hurry);
    document.removeEventListener("visibilitychange", hurry);
    source?.close();
    clearTimeout(timer);
    clearTimeout(frame);
  };
}
