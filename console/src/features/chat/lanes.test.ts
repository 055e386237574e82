import { expect, test } from "vitest";
import type { Item } from "@/shared/events";
import { rowsOf } from "./lanes";

function said(key: string, subtaskId?: string): Item {
  return { key, kind: "assistant", text: key, isGrowing: false, planId: "p", subtaskId };
}

function stands(key: string, subtaskId: string, status: string): Item {
  return { key, kind: "subtask", status, subtaskId, planId: "p", attempt: 1 };
}

const keys = (items: Item[], folded = {}) => rowsOf(items, folded).map(({ key }) => key);

test("what is done at the same time stands in a lane each, where it began", () => {
  const items = [said("a"), said("l1", "left"), said("r1", "right"), said("l2", "left"), said("b")];
  expect(keys(items)).toEqual(["a", "lane-p/left", "l1", "l2", "lane-p/right", "r1", "b"]);
});

test("a subtask that is over is folded, one that failed is not, and a person may have it otherwise", () => {
  const items = [said("l1", "left"), stands("l2", "left", "completed")];
  expect(keys(items)).toEqual(["lane-p/left"]);
  expect(keys(items, { "p/left": false })).toEqual(["lane-p/left", "l1"]);
  expect(keys([said("l1", "left"), stands("l2", "left", "failed")])).toEqual(["lane-p/left", "l1"]);
  expect(keys([said("l1", "left")], { "p/left": true })).toEqual(["lane-p/left"]);
});

test("a lane says where its subtask stands, who works, and what came of it last", () => {
  const asked: Item = {
    key: "c",
    kind: "call",
    callId: "c",
    tool: "write_file",
    arguments: {},
    status: "asked",
    reason: "",
    planId: "p",
    subtaskId: "left",
    agent: "coder",
  };
  const [row] = rowsOf([stands("s", "left", "running"), said("x", "left"), asked]);
  expect(row?.kind === "lane" && row.lane).toMatchObject({
    status: "waiting_approval",
    agent: "coder",
    calls: 1,
    outcome: "x",
  });
});
