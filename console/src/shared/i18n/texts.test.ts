import { createInstance } from "i18next";
import { expect, it } from "vitest";
import { en } from "./en";
import { pseudo } from "./pseudo";
import { ru } from "./ru";
import { typeset } from "./typography";

const texts = { en: leaves(en), ru: leaves(ru) };

/** Every text with its key. */
function leaves(tree: object, before = ""): Map<string, string> {
  const found = Object.entries(tree).flatMap(([name, text]): [string, string][] =>
    typeof text === "string" ? [[before + name, text]] : [...leaves(text, `${before}${name}.`)],
  );
  return new Map(found);
}

/** A key without its form for a number. */
function nameOf(key: string): string {
  return key.replace(/_(one|few|many|other)$/, "");
}

function fieldsOf(text: string): string[] {
  return [...new Set([...text.matchAll(/\{\{(\w+)/g)].map(([, name = ""]) => name))].sort();
}

it("names the same fields in both languages, in every form", () => {
  const english = new Map([...texts.en].map(([key, text]) => [nameOf(key), fieldsOf(text)]));
  for (const [key, text] of [...texts.ru, ...texts.en]) {
    expect([key, fieldsOf(text)]).toEqual([key, english.get(nameOf(key))]);
  }
});

/** What is the same in every language. */
const SAME = new Set(["app.me", "plan.field.id"]);

it("has Russian in every Russian text, and none in English ones", () => {
  const foreign = [...texts.ru].filter(([key, text]) => !/[а-яё]/i.test(text) && !SAME.has(key));
  expect(foreign).toEqual([]);
  expect([...texts.en].filter(([, text]) => /[а-яё]/i.test(text))).toEqual([]);
});

it("sets Russian as a typesetter does: quotes, dashes, and no double spaces", () => {
  const odd = [...texts.ru].filter(([key, text]) => {
    const prose = key === "settings.session.hint" ? "" : text;
    return / [–-] | {2}|["“”]|\.\.\./.test(prose);
  });
  expect(odd).toEqual([]);
});

it("keeps together what a line must not break", () => {
  const { a, b } = typeset({ a: "План — {{took}} с", b: { c: "5 мин и {{n}} h" } });
  expect(a).toBe("План\u00a0— {{took}}\u00a0с");
  expect(b.c).toBe("5\u00a0мин и\u00a0{{n}}\u00a0h");
});

const i18n = createInstance();
void i18n.init({
  resources: { en: { translation: en }, ru: { translation: ru } },
  interpolation: { escapeValue: false },
  initAsync: false,
});

/** One text for 1, 2, 5 and 21. */
function counted(language: "en" | "ru", key: string, more = {}): string[] {
  const t = i18n.getFixedT(language);
  return [1, 2, 5, 21].map((count) => t(key as "changes.files", { count, ...more }));
}

it("declines what is counted, for 1, 2, 5 and 21", () => {
  expect(counted("ru", "changes.files")).toEqual(["1 файл", "2 файла", "5 файлов", "21 файл"]);
  expect(counted("ru", "plan.findings.warning")).toEqual([
    "1 предупреждение",
    "2 предупреждения",
    "5 предупреждений",
    "21 предупреждение",
  ]);
  expect(counted("ru", "chat.plan", { revision: 3 })[3]).toBe("План, ревизия 3: 21 подзадача");
  expect(counted("ru", "settings.rule.tried")[3]).toBe("верен 21 пример");
  expect(counted("en", "plan.edit.flaws")).toEqual([
    "1 problem to fix",
    "2 problems to fix",
    "5 problems to fix",
    "21 problems to fix",
  ]);
});

it("has another form for each Russian number, wherever one is counted", () => {
  const names = new Set([...texts.ru.keys()].filter((key) => nameOf(key) !== key).map(nameOf));
  for (const name of names) {
    const forms = counted("ru", name).map((text) => text.replace(/\d+/g, "#"));
    expect([name, forms[3]]).toEqual([name, forms[0]]);
    expect([name, new Set(forms).size > 1]).toEqual([name, true]);
  }
});

it("writes decimals as the language does", () => {
  const t = (language: string) => i18n.getFixedT(language)("common.seconds", { seconds: 0.1 });
  expect([t("en"), t("ru")]).toEqual(["0.1 s", "0,1 с"]);
});

it("marks every text of the pseudo-locale, and keeps its fields", () => {
  const marked = leaves(pseudo(en));
  expect([...marked.keys()]).toEqual([...texts.en.keys()]);
  for (const [key, text] of marked) {
    expect(text).toMatch(/^⟦.*⟧$/s);
    expect(fieldsOf(text)).toEqual(fieldsOf(texts.en.get(key) ?? ""));
  }
});
