/** Numbers of the work, as rows that charts and tables are made of. */

import type { FailureCause, Percentiles } from "@/shared/api";

export interface Took {
  name: string;
  p50: number;
  p90: number;
  p99: number;
  count: number;
}

/** Those of some durations that there are. */
export function took(named: readonly (readonly [string, Percentiles | undefined])[]): Took[] {
  return named.flatMap(([name, durations]) => (durations ? [{ name, ...durations }] : []));
}

export interface Causes {
  cause: string;
  number: number;
}

/** How often each cause was found, whoever failed by it; the most frequent first. */
export function byCause(failures: readonly FailureCause[]): Causes[] {
  const counts = new Map<string, number>();
  for (const { category, count } of failures) {
    counts.set(category, (counts.get(category) ?? 0) + count);
  }
  return [...counts]
    .map(([cause, number]) => ({ cause, number }))
    .sort((a, b) => b.number - a.number);
}
