import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInstance } from "i18next";
import { beforeAll, expect, it } from "vitest";
import { en } from "./en";
import { loadProblems, nextStep, problemText, type Said } from "./problems";
import { ru } from "./ru";

const SERVER = join(import.meta.dirname, "../../../../src/gonogo");
const i18n = createInstance();
void i18n.init({
  resources: { en: { translation: en }, ru: { translation: ru } },
  interpolation: { escapeValue: false },
  nsSeparator: false,
  initAsync: false,
});
const told = (said: Said, language = "ru") => problemText(said, language, i18n.getFixedT(language));

beforeAll(() => loadProblems("ru"));

it("has a text and a next step for each code that the server gives, in both languages", () => {
  const names = readdirSync(SERVER, { recursive: true, encoding: "utf8" });
  const source = names
    .filter((name) => name.endsWith("errors.py"))
    .map((name) => readFileSync(join(SERVER, name), "utf8"))
    .join("\n");
  const codes = new Set(
    [...source.matchAll(/^ {4}code(?:: str)? = "(\w+)"/gm)].map(([, code = ""]) => code),
  );
  expect(codes.size).toBeGreaterThan(15);
  expect(Object.keys(en.problems.text).sort()).toEqual([...codes].sort());
  expect(Object.keys(en.problems.next).sort()).toEqual([...codes].sort());
  expect(nextStep("conflict", i18n.getFixedT("ru"))).toBe(ru.problems.next.conflict);
  expect(nextStep("of another version", i18n.getFixedT("ru"))).toBeUndefined();
});

const HELD = {
  code: "conflict",
  detail: "Plan p is awaiting_approval and cannot be paused; only a running plan can",
  template: "Plan {plan_id} is {plan_status} and cannot be paused; only a running plan can",
  params: { plan_id: "p", plan_status: "awaiting_approval" },
};

it("says a refusal by its template and its parts, with the words of the wire among them", () => {
  expect(told(HELD)).toBe(
    "План p нельзя приостановить (состояние: ждёт одобрения). Приостановить можно только план, который выполняется",
  );
  expect(told(HELD, "en")).toBe(HELD.detail);
  expect(told({ detail: "The database cannot be used now; try again in a moment" })).toBe(
    "База данных сейчас недоступна. Повторите чуть позже",
  );
});

it("says a refusal within a refusal", () => {
  const problem = { detail: "goal: a plan needs a goal", template: "goal: a plan needs a goal" };
  const whole = {
    detail: "Subtask 'a': goal: a plan needs a goal",
    template: "Subtask {subtask_id!r}: {problem}",
    params: { subtask_id: "a", problem },
  };
  expect(told(whole)).toBe("Подзадача «a»: goal: у плана должна быть цель");
});

it("keeps braces that are the text's own, and marks a part that is not there", () => {
  const template = "answers: comments without an answer: {left}; each needs {{comment_id, answer}}";
  expect(told({ detail: "x", template, params: {} })).toBe(
    "answers: нет ответа на комментарии: …; для каждого нужно {comment_id, answer}",
  );
});

it("says one that it does not know by its code, with the server's words; else these alone", () => {
  const foreign = { code: "forbidden", detail: "Never on Sundays", template: "Never on {day}" };
  expect(told(foreign)).toBe("Это вам не разрешено. Never on Sundays");
  expect(told({ ...foreign, code: "constructor" })).toBe("Never on Sundays");
  expect(told({ detail: "toString" })).toBe("toString");
});
