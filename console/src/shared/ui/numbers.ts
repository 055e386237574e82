/** Figures as the page's language writes them: "0.1" or "0,1", "67%" or "67 %". */

import { useTranslation } from "react-i18next";

const DOLLARS = { style: "currency", currency: "USD", maximumFractionDigits: 4 } as const;

/** Writes a number. */
export function number(value: number, language: string): string {
  return new Intl.NumberFormat(language, { maximumFractionDigits: 3 }).format(value);
}

/** Writes an amount of US dollars. */
export function dollars(value: number, language: string): string {
  return new Intl.NumberFormat(language, DOLLARS).format(value);
}

/** Writes a part of a whole in per cent; a dash where there is no whole. */
export function percent(rate: number | undefined, language: string): string {
  const style = { style: "percent", maximumFractionDigits: 0 } as const;
  return rate === undefined ? "—" : new Intl.NumberFormat(language, style).format(rate);
}

/** Writes figures in the page's language. */
export function useFigures() {
  const { language } = useTranslation().i18n;
  return {
    number: (value: number) => number(value, language),
    dollars: (value: number) => dollars(value, language),
    percent: (rate: number | undefined) => percent(rate, language),
  };
}
