import { expect, it } from "vitest";
import { codeIn, entryIn } from "./page";

it("finds a code in a link, after its sign, and alone", () => {
  expect(codeIn("http://127.0.0.1:8001/#code=a_B-9")).toBe("a_B-9");
  expect(codeIn("#code=abc")).toBe("abc");
  expect(codeIn("code=abc")).toBe("abc");
  expect(codeIn("#/sessions/s1")).toBeUndefined();
});

it("tells a token from a code", () => {
  expect(entryIn(" gng_a-B9 ")).toEqual({ token: "gng_a-B9" });
  expect(entryIn("ey-J.e_y.s-1")).toEqual({ token: "ey-J.e_y.s-1" });
  expect(entryIn("abc")).toEqual({ code: "abc" });
  expect(entryIn("http://127.0.0.1:8001/#code=abc")).toEqual({ code: "abc" });
});
