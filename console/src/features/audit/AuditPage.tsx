import { Alert, Button, Group, Select, Stack, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Audit, readAudit } from "@/shared/api";
import { en } from "@/shared/i18n/en/words";
import { wordOf } from "@/shared/i18n/words";
import { useMe } from "@/shared/me";
import { Loaded, type Range, RangeSelect, SessionSelect, type Span, useMore } from "@/shared/ui";
import { Entry } from "./Entry";
import { Upkeep } from "./Upkeep";

const PAGE = 100;
/** Milliseconds. Whoever has paged back is not moved by what comes in. */
const SYSTEM = "system";
const SPANS: readonly Span[] = ["all", "day", "week", "month", "own"];
const ACTIONS = [
  "tool",
  "plan",
  "subtask",
  "session",
  "grant",
  "rule",
  "link",
  "token",
  "audit",
] as const;

interface Wanted {
  actor: string;
  action: string;
  sessionId: string | null;
  range: Range;
}

const EVERYTHING: Wanted = { actor: "", action: "", sessionId: null, range: { span: "all" } };

/** Who did what, and why it was allowed. */
export function AuditPage() {
  const { t } = useTranslation();
  const [wanted, setWanted] = useState(EVERYTHING);
  const [settled] = useDebouncedValue(wanted, 300);
  const role = useMe()?.role;
  const isAdmin = role === "admin";

  return (
    <Stack>
      <Title order={1} size="h2">
        {t("audit.title")}
      </Title>
      {role !== undefined && !isAdmin && <Alert>{t("audit.partial")}</Alert>}
      <Upkeep isAdmin={isAdmin} sessionId={wanted.sessionId} range={wanted.range} />
      <Filters wanted={wanted} isAdmin={isAdmin} onChange={setWanted} />
      <Log wanted={settled} />
    </Stack>
  );
}

function Filters({
  wanted,
  isAdmin,
  onChange,
}: {
  wanted: Wanted;
  isAdmin: boolean;
  onChange: (wanted: Wanted) => void;
}) {
  const { t } = useTranslation();
  return (
    <Group align="flex-end" gap="xs" role="group" aria-label={t("audit.filters")}>
      <TextInput
        label={t("audit.actor")}
        placeholder={t("audit.actorHint")}
        value={wanted.actor}
        onChange={(event) => onChange({ ...wanted, actor: event.currentTarget.value })}
      />
      <Select
        label={t("audit.action")}
        placeholder={t("audit.anyAction")}
        data={ACTIONS.map((of) => ({
          group: t(`audit.actionsOf.${of}`),
          items: [
            { value: `${of}.`, label: t("audit.allOf", { what: t(`audit.actionsOf.${of}`) }) },
            ...Object.keys(en.action[of]).map((name) => ({
              value: `${of}.${name}`,
              label: wordOf(t, "action", `${of}.${name}`),
            })),
          ],
        }))}
        value={wanted.action || null}
        onChange={(action) => onChange({ ...wanted, action: action ?? "" })}
        clearable
        searchable
      />
      <SessionSelect
        sessionId={wanted.sessionId}
        more={isAdmin ? [{ value: SYSTEM, label: t("audit.system") }] : []}
        onChange={(sessionId) => onChange({ ...wanted, sessionId })}
      />
      <RangeSelect
        range={wanted.range}
        spans={SPANS}
        onChange={(range) => onChange({ ...wanted, range })}
      />
    </Group>
  );
}

/** Where a page begins: all chains are paged back in time, one chain forth from its first entry. */
type Place = { before?: string; after?: number };

function Log({ wanted }: { wanted: Wanted }) {
  const { t, i18n } = useTranslation();
  const { actor, action, sessionId, range } = wanted;
  const query = {
    actor: actor.trim() || undefined,
    action: action.trim() || undefined,
    session_id: sessionId ?? undefined,
    since: range.since,
    until: range.until,
    limit: PAGE,
    locale: i18n.language,
  };
  const log = useInfiniteQuery({
    queryKey: ["audit", query],
    queryFn: async ({ pageParam, signal }) => {
      const asked = { query: { ...query, ...pageParam }, signal, throwOnError: true as const };
      return (await readAudit(asked)).data;
    },
    initialPageParam: {} as Place,
    placeholderData: (before) => before,
    getNextPageParam: (page) => placeAfter(page, sessionId !== null),
  });
  const more = useMore(log);
  const isNarrow = query.actor || query.action || query.session_id || query.since || query.until;

  return (
    <Loaded query={log}>
      {({ pages }) => {
        const entries = pages.flatMap((page) =>
          sessionId === null ? page.entries.toReversed() : page.entries,
        );
        return (
          <Stack gap="xs">
            <Text size="sm" c="dimmed">
              {t(sessionId === null ? "audit.newestFirst" : "audit.oldestFirst")}
            </Text>
            {entries.map((entry) => (
              <Entry key={`${entry.chain} ${entry.seq}`} entry={entry} />
            ))}
            {log.hasNextPage ? (
              <>
                {entries.length === 0 && <Text>{t("audit.looking")}</Text>}
                <Button variant="default" loading={more.isWanted} onClick={more.want}>
                  {t(sessionId === null ? "audit.older" : "audit.later")}
                </Button>
              </>
            ) : (
              <Text size="sm">
                {t(entries.length > 0 ? "audit.end" : isNarrow ? "audit.none" : "audit.nothing")}
              </Text>
            )}
          </Stack>
        );
      }}
    </Loaded>
  );
}

function placeAfter({ before, entries }: Audit, isOneChain: boolean): Place | undefined {
  if (isOneChain) {
    const last = entries.at(-1);
    return last === undefined || entries.length < PAGE ? undefined : { after: last.seq };
  }
  return before === undefined ? undefined : { before };
}
