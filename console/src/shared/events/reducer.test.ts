import { describe, expect, it } from "vitest";
import type { Event } from "@/shared/api";
import walk from "./fixtures/walk.json";
import { type Call, cut, EMPTY, follow, isWhole, placeOf, precede } from "./reducer";

const EVENTS = walk as unknown as Event[];

function token(text: string): Event {
  return { type: "assistant_message", token: text, content: text, is_final: false, turn_id: "t1" };
}

describe("a conversation made of events", () => {
  it("is the same however the events are cut into batches", () => {
    const whole = follow(EMPTY, EVENTS);
    for (const size of [1, 2, 7]) {
      let state = EMPTY;
      for (let at = 0; at < EVENTS.length; at += size) {
        state = follow(state, EVENTS.slice(at, at + size));
      }
      expect(state).toEqual(whole);
    }
  });

  it("passes over what it has seen", () => {
    const once = follow(EMPTY, EVENTS);
    expect(follow(once, EVENTS)).toEqual(once);
    expect(follow(follow(EMPTY, EVENTS.slice(0, 20)), EVENTS.slice(10))).toEqual(once);
  });

  it("is the same when its pages come from the last to the first", () => {
    const whole = follow(EMPTY, EVENTS);
    for (const cut of [1, 5, 11, EVENTS.length - 1]) {
      const late = follow(EMPTY, EVENTS.slice(cut));
      expect(isWhole(late)).toBe(false);
      const all = precede(late, EVENTS.slice(0, cut + 1));
      expect(all).toEqual(whole);
      expect(isWhole(all)).toBe(true);
    }
  });

  it("says nothing twice when the line broke while a text was growing", () => {
    const before = follow(EMPTY, [token("Hel")]);
    const after = follow(cut(before), [token("Hel"), token("lo")]);
    expect(after.items).toMatchObject([{ text: "… Hello", isGrowing: true }]);
  });

  it("keeps what is being said when a page comes before it", () => {
    const late = follow(follow(EMPTY, EVENTS.slice(20)), [token("Hel")]);
    const all = follow(precede(late, EVENTS.slice(0, 20)), [token("lo")]);
    expect(all.items.at(-1)).toMatchObject({ text: "Hello", isGrowing: true });
  });

  it("does not change the state it was given", () => {
    const before = follow(EMPTY, EVENTS.slice(0, 12));
    const copy = structuredClone(before);
    follow(before, EVENTS.slice(12));
    expect(before).toEqual(copy);
  });

  it("has one item a call, with what became of it", () => {
    const calls = follow(EMPTY, EVENTS).items.filter((item): item is Call => item.kind === "call");
    expect(calls.map(({ tool, status }) => [tool, status])).toEqual([
      ["create_plan", "completed"],
      ["write_file", "completed"],
      ["execute_command", "completed"],
    ]);
    expect(calls[2]).toMatchObject({ arguments: { command: "echo changed" }, decidedBy: "ann" });
  });

  it("knows the plan and how far it is", () => {
    const { plans, progress, events, isBusy } = follow(EMPTY, EVENTS);
    expect(plans).toHaveLength(1);
    expect(progress).toMatchObject({ done: 2, total: 2 });
    expect(events.at(-1)?.seq).toBe(EVENTS.length);
    expect(isBusy).toBe(false);
  });

  it("knows how full each window is, and forgets it where a new attempt begins", () => {
    const used = (seq: number, tokens: number, of: object = {}) =>
      ({ type: "window_used", seq, metadata: { window: 32_000, tokens }, ...of }) as Event;
    const a = { plan_id: "p", subtask_id: "a" };
    const begun = {
      type: "subtask_started",
      seq: 4,
      content: "a",
      plan_id: "p",
      metadata: { subtask_id: "a", subtask_status: "in_progress", attempt: 2 },
    } as Event;
    const first = follow(EMPTY, [used(1, 13_200), used(2, 3_200, a), used(3, 6_400, a)]);
    expect(first.windows).toEqual({ [placeOf()]: 41, [placeOf("p", "a")]: 20 });
    expect(first.items).toEqual([]);
    expect(follow(first, [begun]).windows).toEqual({ [placeOf()]: 41 });
  });

  it("grows a text by its pieces until the closing message has its place", () => {
    const growing = follow(EMPTY, [token("Hel"), token("lo")]);
    expect(growing.items).toMatchObject([{ kind: "assistant", text: "Hello", isGrowing: true }]);

    const closed = follow(growing, [
      { type: "agent_switched", seq: 1, metadata: { from_agent: "a", to_agent: "b" } },
      { type: "assistant_message", seq: 2, content: "Hello.", turn_id: "t1", is_final: true },
    ]);
    expect(closed.items.map(({ kind }) => kind)).toEqual(["switch", "assistant"]);
    expect(closed.items[1]).toMatchObject({ text: "Hello.", isGrowing: false });
  });

  it("keeps what a newer server tells of", () => {
    const odd = { type: "plan_admired", seq: 1, content: "Nice", metadata: {} } as unknown as Event;
    expect(follow(EMPTY, [odd]).items).toMatchObject([{ kind: "note", text: "Nice" }]);
  });

  it("takes ten thousand events in a moment", () => {
    const many = Array.from(
      { length: 10_000 },
      (_, at): Event => ({ type: "assistant_message", seq: at + 1, content: `${at}` }),
    );
    expect(follow(EMPTY, many).items).toHaveLength(10_000);
  });
});
