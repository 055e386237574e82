/** What has to hold before a subtask counts as done, while a person writes it. */

import type { DoneCheck } from "@/shared/api";

export const CHECKS = ["command", "file_exists", "file_contains", "unchanged", "ask"] as const;
export type CheckKind = (typeof CHECKS)[number];

/** A check of a kind, with nothing in it yet. */
export function checkOf(kind: CheckKind): DoneCheck {
  switch (kind) {
    case "file_contains":
      return { file_contains: { path: "", text: "" } };
    case "unchanged":
      return { unchanged: [] };
    default:
      return { [kind]: "" };
  }
}

/** Which kind a check is of. */
export function kindOf(check: DoneCheck): CheckKind {
  return CHECKS.find((kind) => check[kind] !== undefined) ?? "command";
}

/** Whether something of a check is still to be written. */
export function isOpen(check: DoneCheck): boolean {
  const { file_contains, unchanged } = check;
  if (file_contains !== undefined) {
    return file_contains.path === "" || file_contains.text === "";
  }
  return unchanged !== undefined ? unchanged.length === 0 : check[kindOf(check)] === "";
}
