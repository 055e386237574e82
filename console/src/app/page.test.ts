import { expect, it } from "vitest";
import { codeIn } from "./page";

it("finds a code in a link, after its sign, and alone", () => {
  expect(codeIn("http://127.0.0.1:8001/#code=a_B-9")).toBe("a_B-9");
  expect(codeIn("#code=abc")).toBe("abc");
  expect(codeIn("code=abc")).toBe("abc");
  expect(codeIn("#/sessions/s1")).toBeUndefined();
});
