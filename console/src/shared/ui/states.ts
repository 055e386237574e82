/** What the words for states have in common: one colour and one shape for each kind, everywhere. */

export type Kind = "new" | "running" | "waiting" | "paused" | "done" | "failed" | "over";

const KINDS: Record<string, Kind> = {
  running: "running",
  in_progress: "running",
  replanning: "running",
  retrying: "running",
  started: "running",
  allowed: "running",
  completed: "done",
  done: "done",
  failed: "failed",
  partial: "failed",
  denied: "failed",
  rejected: "failed",
  unknown: "failed",
  waiting: "waiting",
  asked: "waiting",
  waiting_approval: "waiting",
  awaiting_approval: "waiting",
  paused: "paused",
  skipped: "over",
  cancelled: "over",
  expired: "over",
  superseded: "over",
  rolled_back: "over",
  approved: "done",
  edited: "done",
};

/** The colour of each kind; green is what is done. */
export const COLORS: Record<Kind, string> = {
  new: "gray",
  running: "indigo",
  waiting: "yellow",
  paused: "yellow",
  done: "green",
  failed: "red",
  over: "gray",
};

/** What kind of state a word names; one that nobody knows is of something that is yet to come. */
export function kindOf(status: string): Kind {
  return KINDS[status] ?? "new";
}

/** The colour of a state, the same wherever it is shown. */
export function colorOf(status: string): string {
  return COLORS[kindOf(status)];
}
