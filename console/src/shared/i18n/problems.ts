/**
 * What the server refuses, in the page's language: by the template and the parts of its sentence,
 * else by its code. The server's own English is the last resort.
 */

import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";
import { en } from "./en/problems";
import { plain } from "./typography";
import { type Table, wordOf } from "./words";

/** What is known of a refusal: a problem document, an error event, an answer, or a part of one. */
export interface Said {
  detail: string;
  code?: string;
  template?: string;
  params?: Readonly<Record<string, unknown>>;
}

type Catalogue = Readonly<Record<string, string>>;
type Code = keyof typeof en.text;

const CATALOGUES: Record<string, Catalogue | undefined> = {};
const FIELD = /\{\{|\}\}|\{(\w+)(?:![rsa])?(?::[^{}]*)?\}/g;
/** Parts that are words of the wire. */
const WORDS: Readonly<Record<string, Table>> = {
  plan_status: "status.plan",
  subtask_status: "status.subtask",
  approval_status: "status.question",
  call_status: "status.call",
  turn_status: "status.turn",
  role: "role",
  own_role: "role",
};

/** Have the sentences of a language at hand, if they come. English ones are the server's own. */
export async function loadProblems(language: string): Promise<void> {
  if (language === "ru") {
    const loaded = await import("../../../../src/gonogo/i18n/locale/ru.po").catch(() => undefined);
    CATALOGUES.ru = loaded?.default;
  }
}

/** A refusal as people read it. */
export function problemText(said: Said, language: string, t: TFunction): string {
  if (language === "en") {
    return said.detail;
  }
  const own = sentence(said, CATALOGUES[language] ?? {}, t);
  const { code = "", detail } = said;
  return own ?? (isKnown(code) ? plain(t(`problems.text.${code}`, { detail })) : detail);
}

/** What to do about it, as far as its code tells. */
export function nextStep(code: string, t: TFunction): string | undefined {
  return isKnown(code) ? t(`problems.next.${code}`) : undefined;
}

/** Says refusals in the page's language. */
export function useProblems() {
  const { t, i18n } = useTranslation();
  return {
    textOf: (said: Said) => problemText(said, i18n.language, t),
    nextStep: (code: string) => nextStep(code, t),
  };
}

function isKnown(code: string): code is Code {
  return Object.hasOwn(en.text, code);
}

function sentence({ template, params = {}, detail }: Said, catalogue: Catalogue, t: TFunction) {
  const key = template ?? detail;
  const found = Object.hasOwn(catalogue, key) ? catalogue[key] : undefined;
  return found?.replace(FIELD, (written, name?: string) =>
    name === undefined ? written.slice(1) : part(name, params[name], catalogue, t),
  );
}

function part(name: string, value: unknown, catalogue: Catalogue, t: TFunction): string {
  if (isSaid(value)) {
    return sentence(value, catalogue, t) ?? value.detail;
  }
  const table = WORDS[name];
  const text = value === undefined ? "…" : String(value);
  return table === undefined ? text : wordOf(t, table, text);
}

function isSaid(value: unknown): value is Said {
  return typeof value === "object" && value !== null && "detail" in value;
}
