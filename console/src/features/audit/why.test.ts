import { expect, it } from "vitest";
import type { AuditEntry } from "@/shared/api";
import { about, why } from "./why";

function entry(action: string, details: Record<string, unknown>): AuditEntry {
  return {
    action,
    details,
    actor: "user:1",
    actor_name: "ann",
    chain: "s",
    seq: 1,
    subject: "execute_command",
    ts: "2026-11-22T12:00:00Z",
    hash: "h",
    prev_hash: "p",
  };
}

it("says by which rules or grant a call was allowed", () => {
  expect(why(entry("tool.allowed", { rule: "user:3+builtin:reads", source: "rule" }))).toEqual([
    { key: "rule", values: { rule: "user:3" } },
    { key: "builtin", values: { rule: "reads" } },
  ]);
  const granted = { rule: "grant:plan_1#api", source: "grant", reason: "auto-approved" };
  expect(why(entry("tool.allowed", granted))).toEqual([
    { key: "grant", values: { plan: "plan_1", subtask: "api" } },
  ]);
});

it("says who allowed it, and who had it run again", () => {
  const person = { source: "person", reason: "approved by ann" };
  expect(why(entry("tool.allowed", person))).toEqual([{ key: "person", values: { name: "ann" } }]);
  expect(why(entry("tool.allowed", { ...person, retry_of: "call_1" }))).toEqual([
    { key: "again", values: { name: "ann" } },
  ]);
});

it("says what a decision was made with", () => {
  const decision = { via: "phone", feedback: "not today", changes: null };
  expect(why(entry("tool.rejected", { decision, waited_seconds: 4.4 }))).toEqual([
    { key: "link", values: { link: "phone" } },
    { key: "after", values: { seconds: 4 } },
    { key: "feedback", values: { text: "not today" } },
  ]);
});

it("has fewer reasons, and does not fail, where details were changed", () => {
  const odd = { rule: 7, decision: "x", subtasks: 3, arguments: [1], reached: {}, refused: [null] };
  for (const action of ["tool.allowed", "plan.retried", "tool.network", "plan.rolled_back"]) {
    expect(why(entry(action, odd))).toEqual([]);
  }
  expect(about(entry("tool.allowed", odd))).toBe("execute_command");
});

it("names the command or the file of a call", () => {
  expect(about(entry("tool.allowed", { arguments: { command: "ls -l" } }))).toBe(
    "execute_command: ls -l",
  );
});
