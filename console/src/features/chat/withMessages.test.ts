import { expect, it } from "vitest";
import type { MessageView } from "@/shared/api";
import type { Item } from "@/shared/events";
import { withMessages } from "./withMessages";

const said = (created_at: string, content: string): MessageView => ({
  role: "user",
  content,
  created_at,
});
const done = (ts: string): Item => ({
  kind: "assistant",
  key: ts,
  ts,
  text: ts,
  isGrowing: false,
});

it("puts what people said where its time is", () => {
  const all = withMessages(
    [done("2"), done("4")],
    [said("1", "a"), said("3", "b"), said("5", "c")],
  );
  expect(all.map((item) => ("text" in item ? item.text : ""))).toEqual(["a", "2", "b", "4", "c"]);
});

it("leaves out what was said before the first event that is there", () => {
  const all = withMessages([done("4")], [said("1", "a"), said("4", "b"), said("5", "c")], "4");
  expect(all.map(({ key }) => key)).toEqual(["user-1", "4", "user-2"]);
});
