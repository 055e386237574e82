import { Button, Stack, Text } from "@mantine/core";
import { createContext, useContext } from "react";
import { useTranslation } from "react-i18next";
import type { Following } from "@/shared/events";
import { ItemView } from "./ItemView";
import { laneOf, laneWith, rowsIn } from "./lanes";

/** The session that is on the page. */
const Known = createContext<{ sessionId: string; following: Following } | undefined>(undefined);

export const Followed = Known.Provider;

/** All that was said and done in one subtask of the session that is on the page. */
export function Transcript({ planId, subtaskId }: { planId: string; subtaskId: string }) {
  const known = useContext(Known);
  return known && <Told {...known} planId={planId} subtaskId={subtaskId} />;
}

function Told({
  following,
  sessionId,
  planId,
  subtaskId,
}: {
  following: Following;
  sessionId: string;
  planId: string;
  subtaskId: string;
}) {
  const { t } = useTranslation();
  const { conversation, loadEarlier, isLoadingEarlier } = following;
  const key = `${planId}/${subtaskId}`;
  const rows = rowsIn(
    laneWith(
      key,
      conversation.items.filter((item) => laneOf(item) === key),
    ),
  );
  return (
    <Stack gap="xs" component="section" aria-label={t("chat.transcript")}>
      <Text fw={600} size="sm">
        {t("chat.transcript")}
      </Text>
      {loadEarlier && (
        <Button size="xs" variant="default" loading={isLoadingEarlier} onClick={loadEarlier}>
          {t("chat.earlier")}
        </Button>
      )}
      {rows.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("chat.nothing")}
        </Text>
      )}
      {rows.map(
        (row) =>
          row.kind === "item" && <ItemView key={row.key} item={row.item} sessionId={sessionId} />,
      )}
    </Stack>
  );
}
