import { useEffect, useState } from "react";

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

/** A moment as seen from another: "5 minutes ago". */
export function relative(moment: string, now: number, language: string): string {
  const seconds = (Date.parse(moment) - now) / 1_000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(
    Math.trunc(seconds / size),
    unit,
  );
}

/** A moment in full, in the reader's own time, with the name of its zone. */
export function exact(moment: string, language: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long" }).format(
    new Date(moment),
  );
}

/** The time, told anew every so many milliseconds. */
export function useNow(every = 1_000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
