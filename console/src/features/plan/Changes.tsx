import { Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Subtask } from "@/shared/api";
import { Diff } from "@/shared/ui";
import { isNothing, type PlanChanges } from "./changes";

/** What changed between two revisions, subtask by subtask. */
export function Changes({ changes }: { changes: PlanChanges }) {
  const { t } = useTranslation();
  if (isNothing(changes)) {
    return <Text size="sm">{t("plan.changes.none")}</Text>;
  }
  const { added, removed, changed } = changes;
  return (
    <Stack gap="xs">
      {added.map((subtask) => (
        <One key={subtask.id} title={t("plan.changes.added", { id: subtask.id })}>
          {written(subtask, "+")}
        </One>
      ))}
      {removed.map((subtask) => (
        <One key={subtask.id} title={t("plan.changes.removed", { id: subtask.id })}>
          {written(subtask, "-")}
        </One>
      ))}
      {changed.map(({ id, fields }) => (
        <One key={id} title={t("plan.changes.changed", { id })}>
          {fields
            .map(({ name, from, to }) => `${lines(name, from, "-")}${lines(name, to, "+")}`)
            .join("")}
        </One>
      ))}
    </Stack>
  );
}

function One({ title, children }: { title: string; children: string }) {
  return (
    <div>
      <Text size="sm" fw={600}>
        {title}
      </Text>
      <Diff text={children} />
    </div>
  );
}

function written(subtask: Subtask, sign: "+" | "-"): string {
  return Object.entries(subtask)
    .filter(([name]) => name !== "id")
    .map(([name, value]) => lines(name, value, sign))
    .join("");
}

/** A field as lines of a diff; nothing where it has nothing in it. */
function lines(name: string, value: unknown, sign: "+" | "-"): string {
  if (value === undefined || value === null) {
    return "";
  }
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text
    .split("\n")
    .map((line, place) => `${sign} ${place === 0 ? `${name}: ` : "  "}${line}\n`)
    .join("");
}
