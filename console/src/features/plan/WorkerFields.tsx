import { Autocomplete, Select } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Subtask } from "@/shared/api";
import { WORKERS, type Worker, workerKind } from "./worker";

/** Who carries a subtask out: an agent, one call of a tool, or its kind by itself. */
export function WorkerFields({
  subtask,
  agents,
  tools,
  onChange,
}: {
  subtask: Subtask;
  agents: readonly string[];
  tools: readonly string[];
  onChange: (change: Partial<Subtask>) => void;
}) {
  const { t } = useTranslation();
  const kind = workerKind(subtask);
  const names = kind === "agent" ? agents : tools;

  function choose(next: Worker): void {
    onChange({
      agent: next === "agent" ? (agents[0] ?? "") : undefined,
      tool: next === "tool" ? (tools[0] ?? "") : undefined,
    });
  }

  return (
    <>
      <Select
        label={t("plan.field.worker")}
        data={WORKERS.map((value) => ({ value, label: t(`plan.worker.${value}`) }))}
        value={kind}
        allowDeselect={false}
        onChange={(next) => choose(next as Worker)}
      />
      {kind !== "none" && (
        <Autocomplete
          label={t(`plan.field.${kind}`)}
          data={[...names]}
          value={subtask[kind] ?? ""}
          onChange={(name) => onChange({ [kind]: name.trim() })}
        />
      )}
    </>
  );
}
