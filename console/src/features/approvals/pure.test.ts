import { expect, it } from "vitest";
import type { ApprovalView } from "@/shared/api";
import { type Field, fieldsOf, withField } from "./fields";
import { clockOf, linesOf, sameAs } from "./lines";
import { changesOf, draftOf, isDiff, matterOf } from "./matter";

function asked(approval_id: string, more: Partial<ApprovalView> = {}): ApprovalView {
  return {
    approval_id,
    request_id: approval_id,
    kind: "tool",
    request_type: "tool",
    session_id: "s",
    subject: "write_file",
    details: {},
    reason: "",
    digest: `sha256:${approval_id}`,
    status: "pending",
    created_at: "2026-01-01T00:00:00Z",
    ...more,
  };
}

it("makes one line of identical questions that wait, where the first of them stands", () => {
  const all = [
    asked("a", { group: "g" }),
    asked("b"),
    asked("c", { group: "g" }),
    asked("d", { group: "g", status: "rejected" }),
  ];
  const ids = linesOf(all).map((line) => line.all.map(({ approval_id }) => approval_id));
  expect(ids).toEqual([["a", "c"], ["b"], ["d"]]);
  const same = sameAs(asked("c", { group: "g" }), all).map(({ approval_id }) => approval_id);
  expect(same).toEqual(["c", "a"]);
  expect(sameAs(asked("z"), all)).toHaveLength(1);
});

it("knows what a question is about", () => {
  const matter = (more: Partial<ApprovalView>) => matterOf(asked("a", more));
  expect(matter({})).toBe("tool");
  const kind = "intervention";
  expect(matter({ kind, call_id: "c", details: { question: "Which?" } })).toBe("question");
  expect(matter({ kind, call_id: "c", details: { tool: "execute_command" } })).toBe("doubt");
  expect(matter({ kind, call_id: "c", details: { about: "guarded_names" } })).toBe("names");
  expect(matter({ kind, details: { about: "budget" } })).toBe("budget");
  expect(matter({ kind, details: { about: "model" } })).toBe("model");
  expect(matter({ kind, details: { about: "weather" } })).toBe("other");
  expect(matter({ kind: "deploy" })).toBe("other");
});

it("sends an edit in the form that its question wants", () => {
  expect(changesOf("tool", '{"path": "a"}')).toEqual({ path: "a" });
  expect(changesOf("tool", '["a"]')).toBeUndefined();
  expect(changesOf("tool", "{")).toBeUndefined();
  expect(changesOf("doubt", "it is done")).toEqual({ result: "it is done" });
  expect(changesOf("doubt", '{"seen": 1}')).toEqual({ result: { seen: 1 } });
  expect(changesOf("model", "openai:second")).toEqual({ result: { model: "openai:second" } });
  expect(changesOf("model", "")).toBeUndefined();
  expect(changesOf("budget", '{"tokens": 5}')).toEqual({ result: { tokens: 5 } });
  const spent = asked("a", { details: { what: "tokens", limit: 100 } });
  expect(JSON.parse(draftOf(spent, "budget"))).toEqual({ tokens: 200 });
});

it("tells a diff from a command", () => {
  expect(isDiff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")).toBe(true);
  expect(isDiff("ls -- a")).toBe(false);
});

it("makes fields of what is flat", () => {
  const fields = fieldsOf({
    required: ["path"],
    properties: {
      path: { type: "string", description: "Where" },
      lines: { anyOf: [{ type: "integer" }, { type: "null" }] },
      mode: { enum: ["a", "b"] },
      deep: { type: "object" },
      list: { type: "array" },
    },
  });
  expect(fields.map(({ name, kind, isRequired }) => [name, kind, isRequired])).toEqual([
    ["path", "text", true],
    ["lines", "number", false],
    ["mode", "choice", false],
  ]);
  const [path, lines] = fields as [Field, Field];
  expect(withField({ path: "a", lines: 1 }, lines, "")).toEqual({ path: "a" });
  expect(withField({ path: "a" }, path, "")).toEqual({ path: "" });
});

it("shows the time that is left as a clock does", () => {
  expect(clockOf(61_000)).toBe("01:01");
  expect(clockOf(3_600_000 * 2 + 5_000)).toBe("2:00:05");
  expect(clockOf(-5)).toBe("00:00");
  expect(clockOf(86_400_000)).toBeUndefined();
});
