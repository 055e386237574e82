/** What a typesetter does to a text: spaces at which a line must not break. */

const GLUE = "\u00a0";

/** The units that stand after a number; a line does not begin with them. */
const UNITS = "%|s|h|min|KiB|MiB|с|ч|мин|КиБ|МиБ";
const RULES: readonly [RegExp, string][] = [
  // A dash ends a line and never begins one.
  [/ —/g, `${GLUE}—`],
  // A number, or the field that will be one, keeps its unit.
  [new RegExp(`(\\d|\\}\\}) (?=(?:${UNITS})(?![\\p{L}\\p{N}]))`, "gu"), `$1${GLUE}`],
  // Russian: a word of one or two letters leans on the next one.
  [
    /(?<![\p{L}\p{N}])([аАвВиИкКоОсСуУяЯ]|не|Не|на|На|по|По|до|До|из|Из|за|За|от|От|ко|во|со) (?=\S)/gu,
    `$1${GLUE}`,
  ],
];

const TIME = /^(\d+(?:\.\d+)?) ?(s|sec|seconds?|m|min|minutes?|h|hours?)$/i;
const RUSSIAN: Readonly<Record<string, string>> = { s: "с", m: "мин", h: "ч" };

/** A time as a plan has it, such as `5 min`, in a language; in other words it stays as it is. */
export function estimate(written: string, language: string): string {
  const [, number = "", unit = ""] = TIME.exec(written.trim()) ?? [];
  if (language !== "ru" || !number) {
    return written;
  }
  return `${number.replace(".", ",")}${GLUE}${RUSSIAN[unit.charAt(0).toLowerCase()]}`;
}

/** A text without them, for where what strangers wrote is shown with its odd characters marked. */
export function plain(text: string): string {
  return text.replaceAll(GLUE, " ");
}

/** A tree of texts, each with its no-break spaces. */
export function typeset<T>(texts: T): T {
  if (typeof texts === "string") {
    return RULES.reduce<string>((text, [found, put]) => text.replace(found, put), texts) as T;
  }
  const entries = Object.entries(texts as Record<string, unknown>);
  return Object.fromEntries(entries.map(([name, text]) => [name, typeset(text)])) as T;
}
