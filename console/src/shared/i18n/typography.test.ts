import { expect, it } from "vitest";
import { estimate } from "./typography";

it("says an estimated time in Russian, and leaves one in other words as it is", () => {
  const said = ["5 min", "1.5 hours", "30s", "soon", ""].map((time) => estimate(time, "ru"));
  expect(said).toEqual(["5\u00a0мин", "1,5\u00a0ч", "30\u00a0с", "soon", ""]);
  expect(estimate("5 min", "en")).toBe("5 min");
});
