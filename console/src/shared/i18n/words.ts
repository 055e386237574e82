/** The words of the wire, as people read them in the page's language. */

import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";
import { plain } from "./typography";

/** What words can be of; a table each in `en/words.ts`. */
export type Table =
  | "status.plan"
  | "status.subtask"
  | "status.question"
  | "status.session"
  | "status.call"
  | "status.turn"
  | "role"
  | "type"
  | "severity"
  | "category"
  | "modelRole"
  | "agent"
  | "rule"
  | "action";

/**
 * A word as people read it.
 *
 * @param unknown - What to say of one that somebody added; by default the word itself.
 */
export function wordOf(t: TFunction, table: Table, word: string, unknown = word): string {
  const key = `words.${table}.${word}` as "words.type.action";
  // Nothing by default: the word is a stranger's, and would be read for fields.
  return plain(t(key, { defaultValue: "" })) || unknown;
}

/** Reads words in the page's language. */
export function useWord(): (table: Table, word: string) => string {
  const { t } = useTranslation();
  return (table, word) => wordOf(t, table, word);
}
