import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const SOURCES = join(import.meta.dirname, "../..");
/** Mantine's other colours. */
const FOREIGN = /"(blue|cyan|grape|lime|orange|pink|teal|violet)(\.\d)?"/;
/** Who may say that something is done. */
const GREEN = [
  "features/approvals/Outcomes.tsx",
  "features/analytics/figures.tsx",
  "features/audit/Upkeep.tsx",
  "features/checkpoints/Look.tsx",
  "features/checkpoints/Rollback.tsx",
  "shared/ui/states.ts",
];

const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && !/\.test\.|generated/.test(name))
  .map((name) => ({ name, text: readFileSync(join(SOURCES, name), "utf8") }));

it("has one palette: an accent, and colours for done, failed, waiting and over", () => {
  expect(files.filter(({ text }) => FOREIGN.test(text)).map(({ name }) => name)).toEqual([]);
});

it("keeps green for what is done", () => {
  const green = files.filter(({ text }) => /"green(\.\d)?"/.test(text));
  expect(green.map(({ name }) => name).sort()).toEqual([...GREEN].sort());
});
