import { Anchor, Button, Card, Group, Stack, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue, useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import { listSessionsOptions, type SessionView } from "@/shared/api";
import { useMay } from "@/shared/me";
import { Loaded, When } from "@/shared/ui";
import { NewSession } from "./NewSession";

const PAGE = 50;
const EVERY = 5_000;
const PAUSE = 250;

/** All sessions that one may see, the latest first. */
export function SessionsPage() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const [wanted] = useDebouncedValue(search.trim(), PAUSE);
  const [count, setCount] = useState(PAGE);
  const mayWrite = useMay("operator");
  const [isNew, { open, close }] = useDisclosure(false);
  const query = useQuery({
    ...listSessionsOptions({ query: { limit: count, q: wanted || undefined } }),
    refetchInterval: EVERY,
    placeholderData: (before) => before,
  });

  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1} size="h2">
          {t("sessions.title")}
        </Title>
        {mayWrite && <Button onClick={open}>{t("sessions.new")}</Button>}
      </Group>
      <TextInput
        type="search"
        aria-label={t("sessions.search")}
        placeholder={t("sessions.search")}
        value={search}
        onChange={(event) => setSearch(event.currentTarget.value)}
      />
      <Loaded query={query}>
        {({ sessions, total }) => (
          <>
            {total === 0 && <Text>{t(wanted === "" ? "sessions.none" : "sessions.noMatch")}</Text>}
            {sessions.map((session) => (
              <SessionCard key={session.session_id} session={session} />
            ))}
            {total > sessions.length && (
              <Button variant="default" onClick={() => setCount(count + PAGE)}>
                {t("common.more")}
              </Button>
            )}
          </>
        )}
      </Loaded>
      <NewSession opened={isNew} onClose={close} />
    </Stack>
  );
}

function SessionCard({ session }: { session: SessionView }) {
  const { t } = useTranslation();
  return (
    <Card withBorder padding="sm">
      <Group justify="space-between" wrap="nowrap" align="flex-start">
        <Anchor component={Link} to={`/sessions/${session.session_id}`} fw={600}>
          {session.title || t("sessions.untitled")}
        </Anchor>
        <When moment={session.updated_at} size="sm" c="dimmed" />
      </Group>
      <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
        {session.workspace} · {session.agent} · {session.session_id}
      </Text>
    </Card>
  );
}
