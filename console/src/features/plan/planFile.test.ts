import { expect, test } from "vitest";
import { NoPlan, planIn } from "./planFile";

test("a plan file is read as the terminal reads it: plain words are text", async () => {
  const text = "goal: no\nsubtasks:\n- id: a\n  description: 2024-01-01\n  timeout: 30\n";
  expect(await planIn(text)).toEqual({
    goal: "no",
    subtasks: [{ id: "a", description: "2024-01-01", timeout: 30 }],
  });
  expect((await planIn('{"goal": "g", "subtasks": []}')).goal).toBe("g");
});

test("a file that cannot be read names its line, and one that is no plan none", async () => {
  const broken = await planIn("goal: x\nsubtasks: [\n").catch((error: unknown) => error);
  expect(broken).toBeInstanceOf(NoPlan);
  expect((broken as NoPlan).line).toBeGreaterThan(1);
  for (const text of ["", "- a", "goal: 1\nsubtasks: []", "goal: x"]) {
    await expect(planIn(text)).rejects.toMatchObject({ line: undefined });
  }
});

test("what would grow or never end is no plan: aliases, and what is nested without end", async () => {
  const grown = Array.from({ length: 30 }, (_, n) => `- &a${n + 1} [*a${n}, *a${n}]`);
  for (const text of [
    `goal: x\nsubtasks:\n- &a0 [lol]\n${grown.join("\n")}\n`,
    "goal: x\nsubtasks: &a\n- *a\n",
    `goal: x\nsubtasks: ${"[".repeat(100_000)}`,
  ]) {
    await expect(planIn(text)).rejects.toBeInstanceOf(NoPlan);
  }
});
