import type { MessageView } from "@/shared/api";
import type { Item } from "@/shared/events";

/**
 * People's own messages are in the history alone: each stands where its time is.
 *
 * @param since When the first of the events was; what was said before it is not shown yet.
 */
export function withMessages(
  items: readonly Item[],
  messages: readonly MessageView[],
  since?: string,
): Item[] {
  const said = messages
    .map(
      ({ content, created_at }, place): Item => ({
        kind: "user",
        key: `user-${place}`,
        ts: created_at,
        text: content,
      }),
    )
    .filter(({ ts }) => since === undefined || (ts ?? "") >= since);
  const all: Item[] = [];
  let next = 0;
  for (const item of items) {
    for (let one = said[next]; one && (item.ts ?? "9") >= (one.ts ?? ""); one = said[next]) {
      all.push(one);
      next += 1;
    }
    all.push(item);
  }
  return [...all, ...said.slice(next)];
}
