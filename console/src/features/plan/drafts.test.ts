import { describe, expect, it } from "vitest";
import type { Subtask } from "@/shared/api";
import { changesBetween, changesOf, isNothing } from "./changes";
import {
  canWait,
  cycleIn,
  draftsOf,
  flawsOf,
  inputsOf,
  linksOf,
  moved,
  subtasksOf,
  withAnother,
  withChange,
  withInputs,
  withLink,
  without,
  withoutLink,
} from "./drafts";

const step = (id: string, ...dependencies: string[]): Subtask => ({
  id,
  description: `Do ${id}`,
  agent: "coder",
  dependencies,
});
const kinds = (...subtasks: Subtask[]) => flawsOf(draftsOf(subtasks)).map(({ kind }) => kind);
const ids = (drafts: ReturnType<typeof draftsOf>) => subtasksOf(drafts).map(({ id }) => id);
const THREE = draftsOf([step("a"), step("b", "a"), step("c", "a", "b")]);

describe("dependencies that are drawn", () => {
  const lines = (drafts: ReturnType<typeof draftsOf>) =>
    linksOf(drafts).map(({ from, to }) => `${from.subtask.id} ${to.subtask.id}`);

  it("are those of subtasks that there are, once", () => {
    expect(lines(THREE)).toEqual(["a b", "a c", "b c"]);
    expect(lines(draftsOf([step("a", "gone", "a"), step("b", "a"), step("a")]))).toEqual([]);
  });

  it("are added once, and never close a ring", () => {
    const two = draftsOf([step("a"), step("b")]);
    expect(lines(withLink(two, 0, 1))).toEqual(["a b"]);
    expect(withLink(THREE, 0, 1)).toEqual(THREE);
    expect(withLink(THREE, 2, 0)).toEqual(THREE);
    expect(withLink(two, 0, 0)).toEqual(two);
    expect([canWait(two, 0, 1), canWait(THREE, 0, 1), canWait(THREE, 2, 0)]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it("are taken away alone", () => {
    expect(lines(withoutLink(THREE, 0, 2))).toEqual(["a b", "b c"]);
  });
});

describe("a plan that is written", () => {
  it("is without flaw as the server gave it", () => {
    expect(flawsOf(THREE)).toEqual([]);
  });

  it("keeps the checks of a subtask that is changed", () => {
    const checked = { ...step("a"), done_when: [{ command: "pytest -q" }], must_change: true };
    const [changed] = subtasksOf(withChange(draftsOf([checked]), 0, { description: "Do it well" }));
    expect(changed).toEqual({ ...checked, description: "Do it well" });
  });

  it("needs ids that are there, well formed and unique", () => {
    expect(kinds(step(""))).toEqual(["noId"]);
    expect(kinds(step("a b"))).toEqual(["badId"]);
    expect(kinds(step("-a"))).toEqual(["badId"]);
    expect(kinds(step("a"), step("a"))).toEqual(["takenId", "takenId"]);
  });

  it("needs a text and a time for each", () => {
    expect(kinds({ ...step("a"), description: " " })).toEqual(["noText"]);
    expect(kinds({ ...step("a"), description: "x".repeat(4_001) })).toEqual(["longText"]);
    expect(kinds({ ...step("a"), estimated_time: "" })).toEqual(["noTime"]);
  });

  it("has checks that are whole", () => {
    expect(kinds({ ...step("a"), done_when: [{ command: "true" }, { ask: "" }] })).toEqual([
      "noCheck",
    ]);
  });

  it("waits for nothing unknown and not for itself", () => {
    expect(kinds(step("a", "z"))).toEqual(["unknown"]);
    expect(kinds(step("a", "a"))).toEqual(["itself"]);
  });

  it("waits in no ring, which is told in its order", () => {
    const ring = draftsOf([step("a", "c"), step("b", "a"), step("c", "b"), step("d", "c")]);
    expect(flawsOf(ring)).toEqual(
      [0, 1, 2].map((key) => ({ key, kind: "cycle", about: expect.stringContaining(" → ") })),
    );
    const [first = "", second = ""] = cycleIn(ring);
    const after = ring.find(({ subtask }) => subtask.id === second)?.subtask;
    expect(after?.dependencies).toContain(first);
  });

  it("may be long", () => {
    const long = Array.from({ length: 500 }, (_, n) =>
      step(`s${n}`, ...(n > 0 ? [`s${n - 1}`] : [])),
    );
    expect(cycleIn(draftsOf(long))).toEqual([]);
    expect(cycleIn(draftsOf([...long.slice(1), step("s0", "s499")]))).toHaveLength(500);
  });
});

describe("what is done to it", () => {
  it("renames what others wait for, also while it is typed", () => {
    const typed = withChange(withChange(THREE, 0, { id: "ab" }), 0, { id: "abc" });
    expect(subtasksOf(typed).map(({ dependencies }) => dependencies)).toEqual([
      [],
      ["abc"],
      ["abc", "b"],
    ]);
  });

  it("does not take over those that wait for another", () => {
    const taken = withChange(THREE, 0, { id: "b" });
    expect(subtasksOf(taken)[2]?.dependencies).toEqual(["a", "b"]);
    expect(subtasksOf(withChange(taken, 0, { id: "a" }))).toEqual(subtasksOf(THREE));
  });

  it("removes one and what waited for it does no more", () => {
    expect(subtasksOf(without(THREE, 0)).map(({ dependencies }) => dependencies)).toEqual([
      [],
      ["b"],
    ]);
  });

  it("adds one with an id of its own, and moves it", () => {
    const four = withAnother(withChange(THREE, 2, { id: "subtask_4" }), "coder");
    expect(ids(four)).toEqual(["a", "b", "subtask_4", "subtask_5"]);
    expect(ids(moved(four, 3, -1))).toEqual(["a", "b", "subtask_5", "subtask_4"]);
    expect(ids(moved(four, 0, -1))).toEqual(ids(four));
  });
});

describe("inputs while they are typed", () => {
  const inputs = (drafts: ReturnType<typeof draftsOf>) => subtasksOf(drafts)[1]?.inputs;

  it("are sent once they are an object, and shown as they were typed", () => {
    const half = withInputs(THREE, 1, '{"file": "a');
    expect([inputs(half), flawsOf(half).map(({ kind }) => kind)]).toEqual([undefined, ["noJson"]]);
    const whole = withInputs(half, 1, '{"file":  "a"}');
    expect([inputs(whole), flawsOf(whole)]).toEqual([{ file: "a" }, []]);
    expect(whole[1] && inputsOf(whole[1])).toBe('{"file":  "a"}');
  });

  it("are none where nothing stands, and what is no object is said", () => {
    const given = draftsOf([step("a"), { ...step("b"), inputs: { n: 1 } }]);
    expect(given[1] && inputsOf(given[1])).toBe('{\n  "n": 1\n}');
    expect(inputs(withInputs(given, 1, " "))).toBeUndefined();
    expect(flawsOf(withInputs(given, 1, " "))).toEqual([]);
    expect(flawsOf(withInputs(given, 1, "[1]")).map(({ kind }) => kind)).toEqual(["noJson"]);
  });

  it("outlive a change of another field", () => {
    const typed = withChange(withInputs(THREE, 1, '{"n": 1}'), 1, { timeout: 5 });
    expect(typed[1]).toMatchObject({
      inputs: '{"n": 1}',
      subtask: { inputs: { n: 1 }, timeout: 5 },
    });
  });
});

describe("what changed", () => {
  it("is told by subtask and field", () => {
    const after = subtasksOf(
      withAnother(without(withChange(THREE, 1, { agent: "debug" }), 2), "ask"),
    );
    const changes = changesBetween(subtasksOf(THREE), after);
    expect(changes.added.map(({ id }) => id)).toEqual(["subtask_3"]);
    expect(changes.removed.map(({ id }) => id)).toEqual(["c"]);
    expect(changes.changed).toEqual([
      { id: "b", fields: [{ name: "agent", from: "coder", to: "debug" }] },
    ]);
    expect(isNothing(changesBetween(after, after))).toBe(true);
  });

  it("is read from the server's words too", () => {
    const changed = [{ id: "b", fields: { agent: { from: "coder", to: null } } }];
    const diff = {
      plan_id: "p",
      from_revision: 1,
      to_revision: 2,
      added: [],
      removed: [],
      changed,
    };
    expect(changesOf(diff).changed[0]?.fields).toEqual([
      { name: "agent", from: "coder", to: null },
    ]);
  });
});
