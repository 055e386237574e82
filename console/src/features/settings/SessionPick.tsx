import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useSearchParams } from "react-router";
import { listSessionsOptions, type SessionView } from "@/shared/api";

const LISTED = 50;
const PAUSE = 250;

/** The session that the address names. */
export function usePicked(): [string | undefined, (sessionId: string | null) => void] {
  const [search, setSearch] = useSearchParams();
  return [
    search.get("session") ?? undefined,
    (sessionId) => setSearch(sessionId === null ? {} : { session: sessionId }, { replace: true }),
  ];
}

/** Picks a session by what it is called, among all of them. */
export function SessionPick({ placeholder }: { placeholder?: string }) {
  const { t } = useTranslation();
  const [picked, pick] = usePicked();
  const [typed, setTyped] = useState("");
  const [wanted] = useDebouncedValue(typed.trim(), PAUSE);
  const query = useQuery({
    ...listSessionsOptions({ query: { limit: LISTED, q: wanted || undefined } }),
    placeholderData: (before) => before,
  });
  const found = (query.data?.sessions ?? []).map((session) => ({
    value: session.session_id,
    label: nameOf(session, t("sessions.untitled")),
  }));
  const isListed = picked === undefined || found.some(({ value }) => value === picked);

  return (
    <Select
      label={t("settings.session.pick")}
      placeholder={placeholder}
      data={isListed ? found : [{ value: picked, label: picked }, ...found]}
      value={picked ?? null}
      onChange={(next) => {
        setTyped("");
        pick(next);
      }}
      onSearchChange={(text) => setTyped(found.some(({ label }) => label === text) ? "" : text)}
      // What was asked for was found by the server.
      filter={({ options }) => options}
      searchable
      clearable
      maw={480}
    />
  );
}

function nameOf({ title, session_id }: SessionView, untitled: string): string {
  return `${title || untitled} · ${session_id}`;
}
