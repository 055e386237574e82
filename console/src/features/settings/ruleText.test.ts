import { expect, it } from "vitest";
import { NoRule, readRule, writeRule } from "./ruleText";

const RULE = {
  decision: "allow",
  command: 'echo "hi" # no comment',
  exact: true,
  match: ["pytest -q", "it's"],
};

it("reads a rule as it stands in a rules file", () => {
  const text = `# tests
[[rule]]
decision = "deny"   # never
command = 'rm "x"'
exact = true
match = [
  "a, b]", # one
  'c',
]
not_match = []`;
  expect(readRule(text)).toEqual({
    decision: "deny",
    command: 'rm "x"',
    exact: true,
    match: ["a, b]", "c"],
    not_match: [],
  });
});

it("reads JSON, and what it wrote itself", () => {
  expect(readRule(JSON.stringify(RULE))).toEqual(RULE);
  expect(readRule(writeRule(RULE))).toEqual(RULE);
});

it.each([
  ["decision", 1],
  ['decision = "deny"\nnonsense', 2],
  ["decision = deny", 1],
  ['decision = "deny" "allow"', 1],
  ['decision = "deny"\ndecision = "allow"', 2],
  ['\nmatch = ["a"', 2],
  ["[[rule]]\n[[rule]]", 2],
  ["{not json", 1],
  ['decision = "a\\q"', 1],
  ['decision = "a"]', 1],
  ["decision =", 1],
])("says where %j is no rule", (text, line) => {
  expect(() => readRule(text)).toThrow(NoRule);
  try {
    readRule(text);
  } catch (error) {
    expect((error as NoRule).line).toBe(line);
  }
});
