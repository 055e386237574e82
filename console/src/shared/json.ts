/** What may be read of JSON that may be anything. */

/** Whether it is an object: neither a list nor null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a text says in JSON; undefined where it is none. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The object that a text says in JSON. */
export function objectIn(text: string): Record<string, unknown> | undefined {
  const value = jsonIn(text);
  return isObject(value) ? value : undefined;
}

/** The objects of a list that may hold anything. */
export function recordsIn(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
