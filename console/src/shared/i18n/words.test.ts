import { readdirSync, readFileSync } from "node:fs";
import { join, parse } from "node:path";
import { createInstance, type TFunction } from "i18next";
import { expect, it } from "vitest";
import { en } from "./en/words";
import { pseudo } from "./pseudo";
import { wordOf } from "./words";

const SERVER = join(import.meta.dirname, "../../../../src/gonogo");
const PROFILES = join(SERVER, "execution/agent/profiles");

function sources(): string {
  const names = readdirSync(SERVER, { recursive: true, encoding: "utf8" });
  const ours = names.filter((name) => name.endsWith(".py"));
  return ours.map((name) => readFileSync(join(SERVER, name), "utf8")).join("\n");
}

const i18n = createInstance();
void i18n.init({
  lng: "en",
  resources: { en: { translation: { words: pseudo(en) } } },
  nsSeparator: false,
  initAsync: false,
});
const t = i18n.t as TFunction;

it("says every action that the server notes in the audit log", () => {
  const noted = new Set([...sources().matchAll(/action="(\w+\.\w+)"/g)].map(([, word]) => word));
  expect(noted.size).toBeGreaterThan(30);
  const unsaid = [...noted].filter((word = "") => wordOf(t, "action", word) === word);
  expect(unsaid).toEqual([]);
});

it("describes every agent that comes with gonogo", () => {
  const agents = readdirSync(PROFILES).map((name) => parse(name).name);
  expect(agents.sort()).toEqual(Object.keys(en.agent).sort());
});

it("leaves a word as it is that somebody added, whatever stands in it", () => {
  expect(wordOf(t, "rule", "default:pure")).toMatch(/^⟦default: calls/);
  for (const word of ["deploy", "{{count}}", "$t(words.type.action)", "a.b:c", "constructor"]) {
    expect(wordOf(t, "type", word)).toBe(word);
  }
  expect(wordOf(t, "agent", "own", "An agent")).toBe("An agent");
});
