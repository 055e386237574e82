/** A plan that a person wrote as a file; JSON is YAML too. */

import { isObject } from "@/shared/json";

/** Characters of a file that are read. */
export const MOST = 2_000_000;

export interface WrittenPlan {
  goal: string;
  subtasks: unknown[];
}

/** Why a file is no plan: the line of what cannot be read, or nothing where it is something else. */
export class NoPlan extends Error {
  readonly line?: number;

  constructor(reason: string, line?: number) {
    super(reason);
    this.line = line;
  }
}

/**
 * The plan that a text holds. Whether it is a good one is the server's to say.
 *
 * Raises NoPlan where it holds none.
 */
export async function planIn(text: string): Promise<WrittenPlan> {
  const { JSON_SCHEMA, load, YAMLException } = await import("js-yaml");
  let found: unknown;
  try {
    found = load(text, { schema: JSON_SCHEMA });
  } catch (error) {
    if (error instanceof YAMLException) {
      throw new NoPlan(error.reason, error.mark && error.mark.line + 1);
    }
    // Nested so deep that the reader gave up.
    throw new NoPlan("");
  }
  if (standsTwice(found)) {
    throw new NoPlan("");
  }
  if (!isObject(found) || typeof found.goal !== "string" || !Array.isArray(found.subtasks)) {
    throw new NoPlan("");
  }
  return { goal: found.goal, subtasks: found.subtasks };
}

/** Whether a value stands in several places: an alias, whose few bytes could be written as many. */
function standsTwice(root: unknown): boolean {
  const seen = new Set<unknown>();
  const left = [root];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === "object" && value !== null) {
      if (seen.has(value)) return true;
      seen.add(value);
      for (const part of Object.values(value)) left.push(part);
    }
  }
  return false;
}
