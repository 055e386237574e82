/** A stretch of time that a person chooses. */

const HOUR = 3_600_000;

/** How far back each goes, in milliseconds. */
export const SPANS = { day: 24 * HOUR, week: 168 * HOUR, month: 720 * HOUR, year: 8_760 * HOUR };
export type Span = keyof typeof SPANS | "own" | "all";

export interface Range {
  span: Span;
  since?: string;
  until?: string;
}

/** The range that a choice means now. One of one's own begins with what was chosen before. */
export function rangeOf(span: Span, now: number, before?: Range): Range {
  switch (span) {
    case "all":
      return { span };
    case "own":
      return { span, since: before?.since, until: before?.until };
    default:
      return { span, since: new Date(now - SPANS[span]).toISOString() };
  }
}

/** A moment as the browser's field for one has it: local, to the minute. */
export function toField(moment: string | undefined): string {
  if (moment === undefined) {
    return "";
  }
  const at = new Date(moment);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The moment that a field holds; nothing while it is not whole. */
export function fromField(value: string): string | undefined {
  const at = new Date(value);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
