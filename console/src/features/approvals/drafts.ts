import { useState } from "react";

/** What a person has begun to answer. */
export type Draft = {
  feedback: string;
  /** The text of an edit; absent: nothing is being edited. */
  edit?: string;
  /** What an approval allows besides this once. */
  longer?: "session" | "plan";
  /** Only this one of several identical questions. */
  isAlone: boolean;
};

/** What a person has begun who has not. */
export const NOTHING: Draft = { feedback: "", isAlone: false };

/** Begun answers by question: to look at another one loses nothing. */
export function useDrafts(): {
  draftFor: (id: string) => Draft;
  change: (id: string, changes: Partial<Draft>) => void;
} {
  const [drafts, setDrafts] = useState<Readonly<Record<string, Draft>>>({});
  return {
    draftFor: (id) => drafts[id] ?? NOTHING,
    change: (id, changes) =>
      setDrafts((before) => ({ ...before, [id]: { ...(before[id] ?? NOTHING), ...changes } })),
  };
}
