/** Subtasks while a person writes them: what can be done to them, and what is wrong with them. */

import type { Subtask } from "@/shared/api";
import { objectIn } from "@/shared/json";
import { isOpen } from "./checks";

export interface Draft {
  /** Stays while the id is typed. */
  key: number;
  subtask: Subtask;
  /** Its inputs as they are typed, while they may not be JSON. */
  inputs?: string;
}

export type Flaw =
  | {
      key: number;
      kind: "noId" | "badId" | "takenId" | "noText" | "longText" | "noTime" | "noCheck" | "noJson";
    }
  | { key: number; kind: "itself" | "unknown" | "cycle"; about: string };

const ID = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/;
const LONGEST = 4_000;
const LONGEST_TIME = 64;

/** A plan's subtasks, to be changed. */
export function draftsOf(subtasks: readonly Subtask[]): Draft[] {
  return subtasks.map((subtask, key) => ({ key, subtask }));
}

/** The subtasks as they are sent. */
export function subtasksOf(drafts: readonly Draft[]): Subtask[] {
  return drafts.map(({ subtask }) => subtask);
}

/** Another subtask at the end, with an id that is free. */
export function withAnother(drafts: readonly Draft[], agent: string | undefined): Draft[] {
  const taken = new Set(drafts.map(({ subtask }) => subtask.id));
  let number = drafts.length + 1;
  while (taken.has(`subtask_${number}`)) {
    number += 1;
  }
  const key = Math.max(-1, ...drafts.map((draft) => draft.key)) + 1;
  const id = `subtask_${number}`;
  return [...drafts, { key, subtask: { id, description: "", agent, dependencies: [] } }];
}

/** A subtask changed. Those that wait for it follow where its id is another. */
export function withChange(
  drafts: readonly Draft[],
  key: number,
  change: Partial<Subtask>,
): Draft[] {
  const before = drafts.find((draft) => draft.key === key)?.subtask.id;
  const after = change.id;
  const isOnly = drafts.filter(({ subtask }) => subtask.id === before).length === 1;
  const isTaken = drafts.some((draft) => draft.key !== key && draft.subtask.id === after);
  const follows = after !== undefined && before !== undefined && isOnly && !isTaken;
  return drafts.map((draft) => {
    if (draft.key === key) {
      return { ...draft, subtask: { ...draft.subtask, ...change } };
    }
    const { dependencies = [] } = draft.subtask;
    if (!follows || !dependencies.includes(before)) {
      return draft;
    }
    const renamed = dependencies.map((id) => (id === before ? after : id));
    return { ...draft, subtask: { ...draft.subtask, dependencies: renamed } };
  });
}

/** The inputs of a subtask as they are typed; what is read of them is sent. */
export function withInputs(drafts: readonly Draft[], key: number, text: string): Draft[] {
  return drafts.map((draft) =>
    draft.key === key
      ? { ...draft, inputs: text, subtask: { ...draft.subtask, inputs: objectIn(text) } }
      : draft,
  );
}

/** The inputs of a subtask as they stand in their field. */
export function inputsOf({ subtask, inputs }: Draft): string {
  return inputs ?? (subtask.inputs === undefined ? "" : JSON.stringify(subtask.inputs, null, 2));
}

/** A dependency between two subtasks that there are. */
export interface Link {
  id: string;
  from: Draft;
  to: Draft;
}

/** What waits for what, as it can be drawn: ids that nobody has, or several have, are left out. */
export function linksOf(drafts: readonly Draft[]): Link[] {
  return drafts.flatMap((to) =>
    (to.subtask.dependencies ?? []).flatMap((id) => {
      const named = drafts.filter(({ subtask }) => subtask.id === id);
      const from = named[0];
      return named.length === 1 && from !== undefined && from !== to
        ? [{ id: `${from.key} ${to.key}`, from, to }]
        : [];
    }),
  );
}

/** Whether one subtask can begin to wait for another. */
export function canWait(drafts: readonly Draft[], from: number, to: number): boolean {
  return withLink(drafts, from, to).some((draft, place) => draft !== drafts[place]);
}

/** One subtask (`to`) waits for another; as it was where it does already, or would make a ring. */
export function withLink(drafts: readonly Draft[], from: number, to: number): Draft[] {
  const first = drafts.find(({ key }) => key === from);
  const second = drafts.find(({ key }) => key === to);
  const { id = "" } = first?.subtask ?? {};
  const { dependencies = [] } = second?.subtask ?? {};
  if (first === second || second === undefined || id === "" || dependencies.includes(id)) {
    return [...drafts];
  }
  const next = withChange(drafts, to, { dependencies: [...dependencies, id] });
  return cycleIn(next).length > 0 ? [...drafts] : next;
}

/** One subtask (`to`) no longer waits for another. */
export function withoutLink(drafts: readonly Draft[], from: number, to: number): Draft[] {
  const id = drafts.find(({ key }) => key === from)?.subtask.id;
  const { dependencies = [] } = drafts.find(({ key }) => key === to)?.subtask ?? {};
  return withChange(drafts, to, { dependencies: dependencies.filter((each) => each !== id) });
}

/** All but one, for which nobody waits any more. */
export function without(drafts: readonly Draft[], key: number): Draft[] {
  const gone = drafts.find((draft) => draft.key === key)?.subtask.id;
  const rest = drafts.filter((draft) => draft.key !== key);
  if (rest.some(({ subtask }) => subtask.id === gone)) {
    return rest;
  }
  return rest.map((draft) => {
    const { dependencies = [] } = draft.subtask;
    return gone === undefined || !dependencies.includes(gone)
      ? draft
      : {
          ...draft,
          subtask: { ...draft.subtask, dependencies: dependencies.filter((id) => id !== gone) },
        };
  });
}

/** One moved up (-1) or down (1). */
export function moved(drafts: readonly Draft[], key: number, by: -1 | 1): Draft[] {
  const from = drafts.findIndex((draft) => draft.key === key);
  const one = drafts[from];
  const other = drafts[from + by];
  if (one === undefined || other === undefined) {
    return [...drafts];
  }
  return drafts.map((draft) => (draft === one ? other : draft === other ? one : draft));
}

/** What is wrong, as far as that can be known here; agents, scopes and conditions are the server's. */
export function flawsOf(drafts: readonly Draft[]): Flaw[] {
  const times = new Map<string, number>();
  for (const { subtask } of drafts) {
    times.set(subtask.id, (times.get(subtask.id) ?? 0) + 1);
  }
  const cycle = cycleIn(drafts);
  return drafts.flatMap(({ key, subtask, inputs = "" }): Flaw[] => {
    const { id, description, dependencies = [], estimated_time } = subtask;
    const found: Flaw[] = [];
    if (id === "") {
      found.push({ key, kind: "noId" });
    } else if (!ID.test(id)) {
      found.push({ key, kind: "badId" });
    } else if ((times.get(id) ?? 0) > 1) {
      found.push({ key, kind: "takenId" });
    }
    if (description.trim() === "") {
      found.push({ key, kind: "noText" });
    } else if ([...description].length > LONGEST) {
      found.push({ key, kind: "longText" });
    }
    if (estimated_time === "" || (estimated_time ?? "").length > LONGEST_TIME) {
      found.push({ key, kind: "noTime" });
    }
    if (subtask.done_when?.some(isOpen)) {
      found.push({ key, kind: "noCheck" });
    }
    if (inputs.trim() !== "" && subtask.inputs === undefined) {
      found.push({ key, kind: "noJson" });
    }
    for (const about of dependencies) {
      if (about === id) {
        found.push({ key, kind: "itself", about });
      } else if (!times.has(about)) {
        found.push({ key, kind: "unknown", about });
      }
    }
    if (cycle.includes(id)) {
      found.push({ key, kind: "cycle", about: [...cycle, cycle[0]].join(" → ") });
    }
    return found;
  });
}

/** Ids of subtasks that wait for each other in a ring, each for the one before it. */
export function cycleIn(drafts: readonly Draft[]): string[] {
  const waitsFor = new Map(
    drafts.map(({ subtask: { id, dependencies = [] } }) => [
      id,
      dependencies.filter((dependency) => dependency !== id),
    ]),
  );
  const done = new Set<string>();
  for (const { subtask } of drafts) {
    const ring = ringFrom(subtask.id, waitsFor, done);
    if (ring.length > 0) {
      return ring.reverse();
    }
  }
  return [];
}

/** Looks depth first without recursion: a chain may be long. */
function ringFrom(
  start: string,
  waitsFor: ReadonlyMap<string, readonly string[]>,
  done: Set<string>,
): string[] {
  const path: { id: string; next: number }[] = [{ id: start, next: 0 }];
  for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
    const id = done.has(top.id) ? undefined : waitsFor.get(top.id)?.[top.next];
    top.next += 1;
    if (id === undefined) {
      done.add(top.id);
      path.pop();
      continue;
    }
    const place = path.findIndex((step) => step.id === id);
    if (place >= 0) {
      return path.slice(place).map((step) => step.id);
    }
    path.push({ id, next: 0 });
  }
  return [];
}
