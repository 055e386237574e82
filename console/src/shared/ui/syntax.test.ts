import { expect, test } from "vitest";
import { partsOf } from "./syntax";

const words = (line: string, path: string) =>
  partsOf(line, path).flatMap(({ text, word }) => (word ? [`${word}:${text}`] : []));

test("a line of code is told apart by what it is, and stays what it was", () => {
  expect(words('def total(n=10): return "a # b"  # why', "a.py")).toEqual([
    "keyword:def",
    "number:10",
    "keyword:return",
    'text:"a # b"',
    "comment:# why",
  ]);
  expect(words("const url = `x//y`; // then", "a.ts")).toEqual([
    "keyword:const",
    "text:`x//y`",
    "comment:// then",
  ]);
  for (const line of ["", 'if "open', "\\", "''''", "/* a */ b /* c", "x".repeat(9)]) {
    for (const path of ["a.py", "a.ts", "README"]) {
      expect(
        partsOf(line, path)
          .map(({ text }) => text)
          .join(""),
      ).toBe(line);
    }
  }
});
