import { Box, Button, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Following, isWhole, whatPeopleSaid } from "@/shared/events";
import { OnlyLooks, useMay } from "@/shared/me";
import classes from "./Chat.module.css";
import { Composer } from "./Composer";
import { ItemView } from "./ItemView";
import { LaneHead } from "./LaneHead";
import { rowsOf } from "./lanes";
import { withMessages } from "./withMessages";

const GUESS = 90;
const NEAR_END = 80;
const NEAR_TOP = 400;

/** What was said and done, and a field to say more. Only what is in view is drawn. */
export function Chat({ sessionId, following }: { sessionId: string; following: Following }) {
  const { t } = useTranslation();
  const mayWrite = useMay("operator");
  const { conversation, loadEarlier, isLoadingEarlier } = following;
  const history = useQuery(whatPeopleSaid(sessionId));
  const [sent, setSent] = useState<string>();
  const [folded, setFolded] = useState<Readonly<Record<string, boolean>>>({});
  const items = useMemo(() => {
    const since = isWhole(conversation) ? undefined : conversation.events[0]?.ts;
    const told = withMessages(conversation.items, history.data?.messages ?? [], since);
    const isSent = sent !== undefined;
    return rowsOf(
      isSent ? [...told, { kind: "user", key: "sent", text: sent, pending: true }] : told,
      folded,
    );
  }, [conversation, history.data, sent, folded]);
  const frame = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const [isAtTop, setAtTop] = useState(true);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => frame.current,
    estimateSize: () => GUESS,
    getItemKey: (place) => items[place]?.key ?? place,
    overscan: 8,
  });
  const keepPlace = useSamePlace(rows, frame, items[0]?.key);

  // biome-ignore lint/correctness/useExhaustiveDependencies: follows whatever is new
  useEffect(() => {
    if (isAtEnd && items.length > 0) {
      rows.scrollToIndex(items.length - 1, { align: "end" });
    }
  }, [items, rows.getTotalSize()]);

  function watch(): void {
    const box = frame.current;
    if (box === null) {
      return;
    }
    const isEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
    const isTop = box.scrollTop < NEAR_TOP;
    setAtEnd(isEnd);
    setAtTop(isTop);
    keepPlace();
    if (isTop && !isEnd && !isLoadingEarlier) {
      loadEarlier?.();
    }
  }

  return (
    <Stack gap="xs" className={classes.chat}>
      <div className={classes.frame}>
        {loadEarlier && isAtTop && (
          <Button
            size="xs"
            variant="default"
            className={classes.earlier}
            loading={isLoadingEarlier}
            onClick={loadEarlier}
          >
            {t("chat.earlier")}
          </Button>
        )}
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
              const row = items[index];
              return (
                <div
                  key={key}
                  ref={rows.measureElement}
                  data-index={index}
                  data-lane={(row?.kind === "item" && row.lane?.subtaskId) || undefined}
                  className={classes.row}
                  style={{ transform: `translateY(${start}px)` }}
                >
                  {row?.kind === "item" && <ItemView item={row.item} sessionId={sessionId} />}
                  {row?.kind === "lane" && (
                    <LaneHead
                      lane={row.lane}
                      isOpen={row.isOpen}
                      onFold={() => setFolded({ ...folded, [row.lane.key]: row.isOpen })}
                    />
                  )}
                </div>
              );
            })}
          </Box>
        </div>
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
      {mayWrite ? (
        <Composer sessionId={sessionId} isBusy={conversation.isBusy} onSending={setSent} />
      ) : (
        <OnlyLooks />
      )}
    </Stack>
  );
}

/** What is looked at stays where it is when something comes before it; told of each scroll. */
function useSamePlace(
  rows: Virtualizer<HTMLDivElement, Element>,
  frame: RefObject<HTMLDivElement | null>,
  first: string | undefined,
): () => void {
  const seen = useRef<{ key: unknown; within: number }>(undefined);

  // biome-ignore lint/correctness/useExhaustiveDependencies: only another beginning moves what follows
  useLayoutEffect(() => {
    const place = rows.measurementsCache.find(({ key }) => key === seen.current?.key);
    if (frame.current !== null && seen.current !== undefined && place !== undefined) {
      frame.current.scrollTop = place.start + seen.current.within;
    }
  }, [first]);

  return () => {
    const top = frame.current?.scrollTop ?? 0;
    const row = rows.getVirtualItems().find(({ end }) => end > top);
    seen.current = row && { key: row.key, within: top - row.start };
  };
}
