import { expect, it } from "vitest";
import { byCause, took } from "./rows";

it("counts the causes over all workers, the most frequent first", () => {
  const of = (category: string, worker: string, count: number) => ({
    category,
    worker,
    count,
    type: "action",
  });
  expect(byCause([of("timeout", "a", 2), of("network", "a", 3), of("timeout", "b", 2)])).toEqual([
    { cause: "timeout", number: 4 },
    { cause: "network", number: 3 },
  ]);
});

it("leaves out what took no time", () => {
  const durations = { count: 2, p50: 1, p90: 2, p99: 2 };
  expect(
    took([
      ["plans", durations],
      ["subtasks", undefined],
    ]),
  ).toEqual([{ name: "plans", ...durations }]);
});
