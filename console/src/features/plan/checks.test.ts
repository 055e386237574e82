import { describe, expect, it } from "vitest";
import { CHECKS, checkOf, isOpen, kindOf } from "./checks";

describe("a check that is written", () => {
  it("is of the kind that was chosen, and open until something is in it", () => {
    for (const kind of CHECKS) {
      expect(kindOf(checkOf(kind))).toBe(kind);
      expect(isOpen(checkOf(kind))).toBe(true);
    }
  });

  it("is whole when all its parts are there", () => {
    expect(isOpen({ command: "pytest -q", timeout: 5 })).toBe(false);
    expect(isOpen({ file_exists: "a" })).toBe(false);
    expect(isOpen({ unchanged: ["src/**"] })).toBe(false);
    expect(isOpen({ ask: "Is it polite?" })).toBe(false);
    expect(isOpen({ file_contains: { path: "a", text: "" } })).toBe(true);
    expect(isOpen({ file_contains: { path: "", text: "b" } })).toBe(true);
    expect(isOpen({ file_contains: { path: "a", text: "b" } })).toBe(false);
  });
});
