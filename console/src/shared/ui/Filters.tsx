import { Select, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { listSessionsOptions } from "@/shared/api";
import { fromField, type Range, rangeOf, type Span, toField } from "./range";

const SESSIONS = 200;

/** Chooses a time: so long ago until now, or from one moment until another. */
export function RangeSelect({
  range,
  spans,
  onChange,
}: {
  range: Range;
  spans: readonly Span[];
  onChange: (range: Range) => void;
}) {
  const { t } = useTranslation();
  return (
    <>
      <Select
        label={t("range.time")}
        data={spans.map((span) => ({ value: span, label: t(`range.${span}`) }))}
        value={range.span}
        onChange={(span) => onChange(rangeOf(span as Span, Date.now(), range))}
        allowDeselect={false}
      />
      {range.span === "own" &&
        (["since", "until"] as const).map((end) => (
          <TextInput
            key={end}
            type="datetime-local"
            label={t(`range.${end}`)}
            defaultValue={toField(range[end])}
            onChange={(event) =>
              onChange({ ...range, [end]: fromField(event.currentTarget.value) })
            }
          />
        ))}
    </>
  );
}

/** Chooses a session by its title, or all of them. */
export function SessionSelect({
  sessionId,
  more = [],
  onChange,
}: {
  sessionId: string | null;
  more?: readonly { value: string; label: string }[];
  onChange: (sessionId: string | null) => void;
}) {
  const { t } = useTranslation();
  const { data } = useQuery({
    ...listSessionsOptions({ query: { limit: SESSIONS } }),
    placeholderData: keepPreviousData,
  });
  const sessions = (data?.sessions ?? []).map(({ session_id, title }) => ({
    value: session_id,
    label: title === undefined ? session_id : `${title} · ${session_id}`,
  }));
  return (
    <Select
      label={t("range.session")}
      placeholder={t("range.everySession")}
      data={[...more, ...sessions]}
      value={sessionId}
      onChange={onChange}
      searchable
      clearable
    />
  );
}
