import type { DoneCheck } from "@/shared/api";

/** What has to hold before a subtask counts as done, in one line, as a plan writes it. */
export function checkLine(check: DoneCheck): string {
  const given = Object.entries(check).filter(([, value]) => value !== undefined);
  return given
    .map(([kind, value]) => `${kind}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}
