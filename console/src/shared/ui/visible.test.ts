import { expect, it } from "vitest";
import { visible } from "./visible";

it("shows what would not be seen, and leaves what is read", () => {
  expect(visible("rm\u202e -rf\u200b \u0007")).toBe("rm\\u{202e} -rf\\u{200b} \\u{7}");
  expect(visible("Привет, мир\n\tok é")).toBe("Привет, мир\n\tok é");
  expect(visible("a\u00a0b\u3164\ufe0f\u{e0041}")).toBe("a\\u{a0}b\\u{3164}\\u{fe0f}\\u{e0041}");
});
