/** What one list of subtasks has otherwise than another. */

import type { PlanDiff, Subtask } from "@/shared/api";

export interface FieldChange {
  name: string;
  from: unknown;
  to: unknown;
}

export interface PlanChanges {
  added: readonly Subtask[];
  removed: readonly Subtask[];
  changed: readonly { id: string; fields: readonly FieldChange[] }[];
}

/** What the server says that changed. */
export function changesOf({ added, removed, changed }: PlanDiff): PlanChanges {
  return {
    added,
    removed,
    changed: changed.map(({ id, fields }) => ({
      id: String(id),
      fields: Object.entries(fields as Record<string, { from?: unknown; to?: unknown }>).map(
        ([name, { from, to }]) => ({ name, from, to }),
      ),
    })),
  };
}

/** What changed between two lists, by the ids of subtasks. */
export function changesBetween(before: readonly Subtask[], after: readonly Subtask[]): PlanChanges {
  const old = new Map(before.map((subtask) => [subtask.id, subtask]));
  const kept = new Set(after.map(({ id }) => id));
  return {
    added: after.filter(({ id }) => !old.has(id)),
    removed: before.filter(({ id }) => !kept.has(id)),
    changed: after.flatMap((subtask) => {
      const was = old.get(subtask.id);
      const fields = was === undefined ? [] : fieldsBetween(was, subtask);
      return fields.length === 0 ? [] : [{ id: subtask.id, fields }];
    }),
  };
}

function fieldsBetween(before: Subtask, after: Subtask): FieldChange[] {
  const old: Record<string, unknown> = { ...before };
  const new_: Record<string, unknown> = { ...after };
  return [...new Set([...Object.keys(old), ...Object.keys(new_)])]
    .filter((name) => JSON.stringify(old[name]) !== JSON.stringify(new_[name]))
    .map((name) => ({ name, from: old[name], to: new_[name] }));
}

/** Whether nothing changed but perhaps the order. */
export function isNothing({ added, removed, changed }: PlanChanges): boolean {
  return added.length + removed.length + changed.length === 0;
}
