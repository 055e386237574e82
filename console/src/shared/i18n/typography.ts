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

/** A tree of texts, each with its no-break spaces. */
export function typeset<T>(texts: T): T {
  if (typeof texts === "string") {
    return RULES.reduce<string>((text, [found, put]) => text.replace(found, put), texts) as T;
  }
  const entries = Object.entries(texts as Record<string, unknown>);
  return Object.fromEntries(entries.map(([name, text]) => [name, typeset(text)])) as T;
}
