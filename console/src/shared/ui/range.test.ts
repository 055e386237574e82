import { expect, it } from "vitest";
import { fromField, rangeOf, toField } from "./range";

const NOW = Date.parse("2026-11-22T12:00:00Z");

it("goes back as far as was chosen, and without an end", () => {
  expect(rangeOf("week", NOW)).toEqual({ span: "week", since: "2026-11-15T12:00:00.000Z" });
  expect(rangeOf("all", NOW)).toEqual({ span: "all" });
});

it("begins one's own range with what was chosen before", () => {
  expect(rangeOf("own", NOW, rangeOf("day", NOW))).toEqual({
    span: "own",
    since: "2026-11-21T12:00:00.000Z",
  });
});

it("writes a moment as its field has it, and reads it again", () => {
  expect(fromField(toField("2026-03-29T01:30:00.000Z"))).toBe("2026-03-29T01:30:00.000Z");
  expect(toField(undefined)).toBe("");
  expect(fromField("")).toBeUndefined();
  expect(fromField("soon")).toBeUndefined();
});
