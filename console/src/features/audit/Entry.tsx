import { Anchor, Group, Text } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { AuditEntry } from "@/shared/api";
import { plain } from "@/shared/i18n/typography";
import { wordOf } from "@/shared/i18n/words";
import { exact, Json, visible } from "@/shared/ui";
import classes from "./Entry.module.css";

/** One entry: who did what when, and why; unfolded, everything that is kept. */
export const Entry = memo(function Entry({ entry }: { entry: AuditEntry }) {
  const { t, i18n } = useTranslation();
  return (
    <details className={classes.entry}>
      <summary>
        <Text component="time" size="xs" c="dimmed" dateTime={entry.ts}>
          {exact(entry.ts, i18n.language)}
        </Text>
        <Text size="sm">{visible(entry.actor_name ?? entry.actor.replace(/^agent:/, ""))}</Text>
        <Text size="sm" fw={600}>
          {visible(wordOf(t, "action", entry.action))}
        </Text>
        <Text size="sm" ff="monospace" className={classes.about}>
          {visible(entry.about ?? entry.subject)}
        </Text>
        <Text size="sm" c="dimmed" className={classes.why}>
          {visible(plain(entry.why ?? ""))}
        </Text>
      </summary>
      <div className={classes.body}>
        <Group gap="xs">
          <Text size="xs">
            {t("audit.chain")} {visible(entry.chain)} #{entry.seq} · {visible(entry.actor)} ·{" "}
            {visible(entry.action)}
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
