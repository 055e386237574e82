/** A session's conversation, live: it goes on where it was after a break, without gap or repeat. */

import { useEffect, useReducer, useRef, useState } from "react";
import type { Event } from "@/shared/api";
import { type Conversation, EMPTY, follow } from "./reducer";

export type Link = "connecting" | "live" | "broken";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

type Step = { events: readonly Event[] } | "anew";

function step(state: Conversation, taken: Step): Conversation {
  return taken === "anew" ? EMPTY : follow(state, taken.events);
}

/**
 * Follow a session.
 *
 * @param onEvents Is told of what came, a batch at a time.
 */
export function useSession(
  sessionId: string,
  onEvents: (events: readonly Event[]) => void,
): { conversation: Conversation; link: Link } {
  const [conversation, take] = useReducer(step, EMPTY);
  const [link, setLink] = useState<Link>("connecting");
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
      setLink,
    );
  }, [sessionId]);

  return { conversation, link };
}

/** Read a session's events until the returned function is called. */
function stream(
  sessionId: string,
  onEvents: (events: readonly Event[]) => void,
  onLink: (link: Link) => void,
): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame: number | undefined;
  let waited = FIRST_WAIT;
  let seq = 0;
  let waiting: Event[] = [];

  // Ten thousand events of a replay are drawn in a few steps, not in ten thousand.
  function flush(): void {
    frame = undefined;
    const events = waiting;
    waiting = [];
    onEvents(events);
  }

  function receive(message: MessageEvent<string>): void {
    waited = FIRST_WAIT;
    const event = JSON.parse(message.data) as Event;
    seq = Math.max(seq, event.seq ?? 0);
    waiting.push(event);
    frame ??= window.setTimeout(flush, 16);
  }

  function open(): void {
    onLink("connecting");
    source = new EventSource(
      `/api/v1/sessions/${encodeURIComponent(sessionId)}/events?after=${seq}`,
    );
    source.onopen = () => onLink("live");
    source.onmessage = receive;
    source.addEventListener("error", (happened) => {
      if (happened instanceof MessageEvent) {
        receive(happened);
        return;
      }
      // The browser's own retry repeats the address it began with: begin where we are instead.
      source?.close();
      onLink("broken");
      timer = setTimeout(open, waited);
      waited = Math.min(2 * waited, LONGEST_WAIT);
    });
  }

  open();
  return () => {
    source?.close();
    clearTimeout(timer);
    clearTimeout(frame);
  };
}
