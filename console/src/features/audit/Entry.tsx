import { Anchor, Group, Text } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { AuditEntry } from "@/shared/api";
import { exact, Json, visible } from "@/shared/ui";
import classes from "./Entry.module.css";
import { about, why } from "./why";

/** One entry: who did what when, and why; unfolded, everything that is kept. */
export const Entry = memo(function Entry({ entry }: { entry: AuditEntry }) {
  const { t, i18n } = useTranslation();
  // Which values a text needs is known where its reason is made.
  const say = t as (key: string, values: Record<string, string | number>) => string;
  const reasons = why(entry).map((reason) =>
    typeof reason === "string" ? reason : say(`audit.why.${reason.key}`, reason.values ?? {}),
  );
  return (
    <details className={classes.entry}>
      <summary>
        <Text component="time" size="xs" c="dimmed" dateTime={entry.ts}>
          {exact(entry.ts, i18n.language)}
        </Text>
        <Text size="sm">{visible(entry.actor_name ?? entry.actor)}</Text>
        <Text size="sm" fw={600} ff="monospace">
          {visible(entry.action)}
        </Text>
        <Text size="sm" ff="monospace" className={classes.about}>
          {visible(about(entry))}
        </Text>
        <Text size="sm" c="dimmed" className={classes.why}>
          {visible(reasons.join(" · "))}
        </Text>
      </summary>
      <div className={classes.body}>
        <Group gap="xs">
          <Text size="xs">
            {t("audit.chain")} {visible(entry.chain)} #{entry.seq} · {visible(entry.actor)}
          </Text>
          {entry.chain !== "system" && (
            <Anchor component={Link} to={`/sessions/${entry.chain}`} size="xs">
              {t("range.session")}
            </Anchor>
          )}
        </Group>
        <Text size="xs">{t("audit.details")}</Text>
        <Json value={entry.details} />
        <Text size="xs" ff="monospace" className={classes.why}>
          {t("audit.hash")} {entry.hash}
        </Text>
        <Text size="xs" ff="monospace" className={classes.why}>
          {t("audit.before")} {entry.prev_hash}
        </Text>
      </div>
    </details>
  );
});
