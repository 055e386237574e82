import { Button, Chip, Group, Stack, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue, useDisclosure } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { listSessionsInfiniteOptions, type SessionState } from "@/shared/api";
import { useMay } from "@/shared/me";
import { Loaded, useMore } from "@/shared/ui";
import { Prompt } from "./Prompt";
import { SessionRow } from "./SessionRow";
import classes from "./Sessions.module.css";

const NewSession = lazy(() => import("./NewSession"));

const PAGE = 50;
const PAUSE = 250;
const STATES = ["waiting", "running", "paused", "failed", "done"] as const satisfies SessionState[];
const ALL = "all";

/** Home: what is to be done next, and all sessions that one may see, the latest first. */
export function SessionsPage() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const [wanted] = useDebouncedValue(search.trim(), PAUSE);
  const [state, setState] = useState<string>(ALL);
  const mayWrite = useMay("operator");
  const [isNew, { open, close }] = useDisclosure(false);
  const of = state === ALL ? undefined : (state as SessionState);
  const query = useInfiniteQuery({
    ...listSessionsInfiniteOptions({ query: { limit: PAGE, q: wanted || undefined, state: of } }),
    initialPageParam: {},
    getNextPageParam: ({ next }) => (next === undefined ? undefined : { query: { after: next } }),
    placeholderData: (before) => before,
  });
  const isNarrow = wanted !== "" || of !== undefined;

  const more = useMore(query);
  return (
    <Stack gap="md" className={classes.page}>
      {mayWrite && <Prompt />}
      <Group justify="space-between">
        <Title order={1} size="h3">
          {t("sessions.title")}
        </Title>
        {mayWrite && (
          <Button variant="default" size="xs" onClick={open}>
            {t("sessions.new")}
          </Button>
        )}
      </Group>
      <Group gap="xs">
        <TextInput
          type="search"
          size="xs"
          className={classes.search}
          aria-label={t("sessions.search")}
          placeholder={t("sessions.search")}
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
        />
        <Chip.Group value={state} onChange={(next) => setState(next as string)}>
          <Group gap={4} role="radiogroup" aria-label={t("sessions.which")}>
            {[ALL, ...STATES].map((each) => (
              <Chip
                key={each}
                size="xs"
                value={each}
                variant="outline"
                classNames={{ root: classes.state }}
              >
                {t(`sessions.state.${each as typeof ALL | (typeof STATES)[number]}`)}
              </Chip>
            ))}
          </Group>
        </Chip.Group>
      </Group>
      <Loaded query={query}>
        {({ pages }) => {
          const sessions = pages.flatMap((page) => page.sessions);
          return sessions.length === 0 ? (
            <Text>{t(isNarrow ? "sessions.noMatch" : "sessions.none")}</Text>
          ) : (
            <ul className={classes.list} aria-label={t("sessions.title")}>
              {sessions.map((session) => (
                <SessionRow key={session.session_id} session={session} />
              ))}
            </ul>
          );
        }}
      </Loaded>
      {query.hasNextPage && (
        <Button variant="default" loading={more.isWanted} onClick={more.want}>
          {t("common.more")}
        </Button>
      )}
      {isNew && (
        <Suspense>
          <NewSession onClose={close} />
        </Suspense>
      )}
    </Stack>
  );
}
