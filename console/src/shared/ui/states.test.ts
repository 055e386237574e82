import { expect, test } from "vitest";
import { colorOf, kindOf } from "./states";

test("green is what is done, and what waits for a person looks like nothing else", () => {
  const words = [
    "pending",
    "running",
    "waiting_approval",
    "paused",
    "completed",
    "failed",
    "skipped",
  ];
  expect(words.filter((word) => colorOf(word) === "green")).toEqual(["completed"]);
  expect(new Set(words.map(kindOf)).size).toBe(words.length);
  expect(kindOf("a word of tomorrow")).toBe("new");
});
