import { expect, it } from "vitest";
import { countBlanks, onOneLine, visible } from "./visible";

it("shows what would not be seen, and leaves what is read", () => {
  expect(visible("rm\u202e -rf\u200b \u0007")).toBe("rm\\u{202e} -rf\\u{200b} \\u{7}");
  expect(visible("Привет, мир\n\tok é")).toBe("Привет, мир\n\tok é");
  expect(visible("a\u00a0b\u3164\ufe0f\u{e0041}")).toBe("a\\u{a0}b\\u{3164}\\u{fe0f}\\u{e0041}");
});

it("counts blanks that would hide what comes after them, and leaves those that people write", () => {
  expect(countBlanks(`echo ok${" ".repeat(6000)}; touch x`)).toBe("echo ok␣×6000; touch x");
  expect(countBlanks(`a\n${"\n".repeat(60)}b`)).toBe("a\n⏎×60\nb");
  expect(countBlanks(`+a\n${"+ \n".repeat(8)}+b\n`)).toBe("+a\n+⏎×8\n+b\n");
  const code = `def f():\n${" ".repeat(40)}return 1\n\n\n\nx`;
  expect(countBlanks(code)).toBe(code);
});

it("shows on one line where lines ended", () => {
  expect(onOneLine("echo ok\n\n  touch x\r\n")).toBe("echo ok ⏎ touch x");
  expect(onOneLine(`echo ok${" ".repeat(50)}; touch\u200b x`)).toBe(
    "echo ok␣×50; touch\\u{200b} x",
  );
});
