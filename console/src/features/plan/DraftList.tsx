import { ActionIcon, Button, Group, Text, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type FindingView, listAgentsOptions, listToolsOptions } from "@/shared/api";
import { DraftFields } from "./DraftFields";
import classes from "./DraftList.module.css";
import {
  type Draft,
  type Flaw,
  moved,
  withAnother,
  withChange,
  withInputs,
  without,
} from "./drafts";
import { FindingLines } from "./FindingLines";

/** The engine gives subtasks to neither: a plan in a plan would need a go of its own. */
const PLANNERS: ReadonlySet<string> = new Set(["orchestrator", "architect"]);

/** Subtasks to be written: each a line that unfolds into its fields. */
export function DraftList({
  drafts,
  flaws,
  findings,
  onChange,
}: {
  drafts: readonly Draft[];
  flaws: readonly Flaw[];
  findings: readonly FindingView[];
  onChange: (drafts: Draft[]) => void;
}) {
  const { t } = useTranslation();
  const [open, setOpen] = useState<number>();
  const agents = useQuery({ ...listAgentsOptions(), staleTime: 60_000 });
  const names = (agents.data?.agents ?? [])
    .map(({ name }) => name)
    .filter((name) => !PLANNERS.has(name));
  const tools = useQuery({ ...listToolsOptions(), staleTime: 60_000 });
  const toolNames = (tools.data?.tools ?? [])
    .filter(({ tool_class }) => tool_class !== "control")
    .map(({ name }) => name);
  const ids = drafts.map(({ subtask }) => subtask.id);

  function add(): void {
    // While it is not known yet who there is, whoever does another one is.
    const known = names[0] ?? drafts.find(({ subtask }) => subtask.agent)?.subtask.agent;
    const next = withAnother(drafts, names.includes("coder") ? "coder" : known);
    onChange(next);
    setOpen(next.at(-1)?.key);
  }

  return (
    <>
      <ol className={classes.list} aria-label={t("plan.subtasks")}>
        {drafts.map((draft, place) => {
          const own = flaws.filter(({ key }) => key === draft.key);
          const isOpen = open === draft.key;
          return (
            <li key={draft.key}>
              <Group gap={4} wrap="nowrap">
                <UnstyledButton
                  className={classes.head}
                  aria-expanded={isOpen}
                  onClick={() => setOpen(isOpen ? undefined : draft.key)}
                >
                  <Text component="span" size="sm" ff="monospace" fw={600}>
                    {isOpen ? "▾" : "▸"} {draft.subtask.id}
                  </Text>{" "}
                  <Text component="span" size="sm" c="dimmed">
                    {draft.subtask.description}
                  </Text>
                </UnstyledButton>
                {own.length > 0 && (
                  <Text size="xs" c="var(--mantine-color-error)" style={{ whiteSpace: "nowrap" }}>
                    {t("plan.edit.flaws", { count: own.length })}
                  </Text>
                )}
                <Tool
                  sign="↑"
                  label={t("plan.edit.up", { id: draft.subtask.id })}
                  disabled={place === 0}
                  onClick={() => onChange(moved(drafts, draft.key, -1))}
                />
                <Tool
                  sign="↓"
                  label={t("plan.edit.down", { id: draft.subtask.id })}
                  disabled={place === drafts.length - 1}
                  onClick={() => onChange(moved(drafts, draft.key, 1))}
                />
                <Tool
                  sign="✕"
                  label={t("plan.edit.remove", { id: draft.subtask.id })}
                  disabled={drafts.length === 1}
                  onClick={() => onChange(without(drafts, draft.key))}
                />
              </Group>
              <FindingLines
                findings={findings.filter(({ subtask_id }) => subtask_id === draft.subtask.id)}
              />
              {isOpen && (
                <DraftFields
                  draft={draft}
                  flaws={own}
                  ids={ids}
                  agents={names}
                  tools={toolNames}
                  onInputs={(text) => onChange(withInputs(drafts, draft.key, text))}
                  onChange={(change) => onChange(withChange(drafts, draft.key, change))}
                />
              )}
            </li>
          );
        })}
      </ol>
      <Button size="xs" variant="default" onClick={add} style={{ alignSelf: "flex-start" }}>
        {t("plan.edit.add")}
      </Button>
    </>
  );
}

function Tool({
  sign,
  label,
  disabled,
  onClick,
}: {
  sign: string;
  label: string;
  disabled: boolean;
  onClick: () => void;
}) {
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      aria-label={label}
      title={label}
      disabled={disabled}
      onClick={onClick}
    >
      {sign}
    </ActionIcon>
  );
}
