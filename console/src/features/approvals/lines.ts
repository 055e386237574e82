/** The list of questions as it is shown: identical ones are one line. */

import type { ApprovalView } from "@/shared/api";

export type Line = { key: string; first: ApprovalView; all: readonly ApprovalView[] };

/** Questions in their order; those that wait and are the same stand where the first of them is. */
export function linesOf(approvals: readonly ApprovalView[]): Line[] {
  const lines = new Map<string, ApprovalView[]>();
  for (const approval of approvals) {
    const key = keyOf(approval);
    const same = lines.get(key);
    if (same === undefined) {
      lines.set(key, [approval]);
    } else {
      same.push(approval);
    }
  }
  return [...lines].flatMap(([key, [first, ...others]]) =>
    first === undefined ? [] : [{ key, first, all: [first, ...others] }],
  );
}

function keyOf({ status, group, approval_id }: ApprovalView): string {
  return status === "pending" && group !== undefined ? group : approval_id;
}

/** The questions that are the same as one, itself included. */
export function sameAs(
  approval: ApprovalView,
  approvals: readonly ApprovalView[],
): readonly ApprovalView[] {
  const found = linesOf(approvals).find(({ key }) => key === keyOf(approval));
  const others = found?.all.filter(({ approval_id }) => approval_id !== approval.approval_id);
  return [approval, ...(others ?? [])];
}

/** The time that is left, as a clock shows it; undefined where a day or more is left. */
export function clockOf(milliseconds: number): string | undefined {
  const seconds = Math.max(0, Math.floor(milliseconds / 1_000));
  if (seconds >= 86_400) {
    return undefined;
  }
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60];
  const hours = Math.floor(seconds / 3_600);
  const clock = parts.map((part) => String(part).padStart(2, "0")).join(":");
  return hours > 0 ? `${hours}:${clock}` : clock;
}
