import { Box, Button, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { getHistoryOptions, type MessageView } from "@/shared/api";
import type { Conversation, Item } from "@/shared/events";
import classes from "./Chat.module.css";
import { Composer } from "./Composer";
import { ItemView } from "./ItemView";

const GUESS = 90;
const NEAR_END = 80;

/** What was said and done, and a field to say more. Only what is in view is drawn. */
export function Chat({
  sessionId,
  conversation,
}: {
  sessionId: string;
  conversation: Conversation;
}) {
  const { t } = useTranslation();
  const history = useQuery(getHistoryOptions({ path: { session_id: sessionId } }));
  const items = useMemo(
    () => withMessages(conversation.items, history.data?.messages ?? []),
    [conversation.items, history.data],
  );
  const frame = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => frame.current,
    estimateSize: () => GUESS,
    getItemKey: (place) => items[place]?.key ?? place,
    overscan: 8,
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: follows whatever is new
  useEffect(() => {
    if (isAtEnd && items.length > 0) {
      rows.scrollToIndex(items.length - 1, { align: "end" });
    }
  }, [items]);

  function watch(): void {
    const box = frame.current;
    if (box !== null) {
      setAtEnd(box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END);
    }
  }

  return (
    <Stack gap="xs" className={classes.chat}>
      <div
        ref={frame}
        className={classes.log}
        onScroll={watch}
        role="log"
        aria-label={t("chat.log")}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        tabIndex={0}
      >
        <Box style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map(({ key, index, start }) => {
            const item = items[index];
            return (
              <div
                key={key}
                ref={rows.measureElement}
                data-index={index}
                className={classes.row}
                style={{ transform: `translateY(${start}px)` }}
              >
                {item && <ItemView item={item} sessionId={sessionId} />}
              </div>
            );
          })}
        </Box>
      </div>
      {!isAtEnd && (
        <Button
          size="xs"
          variant="default"
          onClick={() => rows.scrollToIndex(items.length - 1, { align: "end" })}
        >
          {t("chat.toEnd")}
        </Button>
      )}
      <Composer sessionId={sessionId} isBusy={conversation.isBusy} />
    </Stack>
  );
}

/** People's own messages are in the history alone: each stands where its time is. */
export function withMessages(items: readonly Item[], messages: readonly MessageView[]): Item[] {
  const said = messages
    .filter(({ role, subtask_id }) => role === "user" && subtask_id === undefined)
    .map(
      ({ content, created_at }, place): Item => ({
        kind: "user",
        key: `user-${place}`,
        ts: created_at,
        text: content,
      }),
    );
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
