/**
 * A language that nobody speaks, to find what is not translated: every text stands in ⟦brackets⟧ and
 * is a third longer, as Russian often is. Whatever the page shows without them is no text of ours.
 */

export const PSEUDO = "en-XA";

/** A tree of texts, each marked. */
export function pseudo<T>(texts: T): T {
  if (typeof texts === "string") {
    return `⟦${texts}${"·".repeat(Math.ceil(texts.length / 3))}⟧` as T;
  }
  const entries = Object.entries(texts as Record<string, unknown>);
  return Object.fromEntries(entries.map(([name, text]) => [name, pseudo(text)])) as T;
}
