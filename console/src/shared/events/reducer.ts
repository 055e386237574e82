/**
 * What a session's events make of its conversation.
 *
 * Pure: a state and some events give the next state. An event that was seen is passed over by its
 * `seq`, so a reconnect repeats nothing. Pieces of text have no `seq`: they grow into an item that
 * the closing message takes the place of.
 */

import type { ErrorHappened, Event, FailureFacts, PlanFacts } from "@/shared/api";

export type CallStatus =
  | "running"
  | "asked"
  | "approved"
  | "denied"
  | "completed"
  | "failed"
  | "rejected"
  | "expired"
  | "unknown";

interface Common {
  key: string;
  ts?: string;
  agent?: string;
  planId?: string;
  subtaskId?: string;
}

export type Item = Common &
  (
    | { kind: "user"; text: string; pending?: boolean }
    | {
        kind: "assistant";
        text: string;
        isGrowing: boolean;
        /** Whether the line broke since: what comes next need not follow. */
        isCut?: boolean;
      }
    | {
        kind: "call";
        callId: string;
        tool: string;
        arguments: Record<string, unknown>;
        status: CallStatus;
        reason: string;
        approvalId?: string;
        decidedBy?: string;
        feedback?: string;
        result?: unknown;
        error?: string;
        durationMs?: number;
      }
    | { kind: "switch"; from: string; to: string; reason?: string; cause?: string }
    | { kind: "plan"; plan: PlanFacts; text: string }
    | {
        kind: "subtask";
        subtaskId: string;
        status: string;
        attempt?: number;
        error?: FailureFacts;
        reason?: string;
        seconds?: number;
        text?: string;
      }
    | { kind: "note"; type: string; text: string; facts: Record<string, unknown> }
    | { kind: "error"; text: string; said: ErrorHappened }
  );

export type Call = Extract<Item, { kind: "call" }>;

export interface Conversation {
  items: readonly Item[];
  /** The events of the log that it is made of: a stretch of it, up to its end. */
  events: readonly Event[];
  /** Ids of plans that events spoke of, the latest last. */
  plans: readonly string[];
  /** How much of the plan under way is done, as it was told last. */
  progress?: { done: number; total: number; percentage: number };
  /** How full the model's window is: of the conversation itself, and of subtasks at work. */
  windows: Windows;
  /** Whether an answer is under way. */
  isBusy: boolean;
}

/** Per cent of a model's window, by whose conversation it is: see `placeOf`. */
export type Windows = Readonly<Record<string, number>>;

export const EMPTY: Conversation = {
  items: [],
  events: [],
  plans: [],
  windows: {},
  isBusy: false,
};

/** Whose conversation it is: a subtask's, or without one the session's own. */
export function placeOf(planId = "", subtaskId = ""): string {
  return `${planId}/${subtaskId}`;
}

/** Whether all of the log is there, from its first event on. */
export function isWhole({ events }: Conversation): boolean {
  return (events[0]?.seq ?? 1) === 1;
}

/** The same conversation with events that came before; a call may have begun among them. */
export function precede(state: Conversation, earlier: readonly Event[]): Conversation {
  const first = state.events[0]?.seq ?? Number.POSITIVE_INFINITY;
  const unseen = earlier.filter(({ seq }) => seq !== undefined && seq < first);
  const whole = follow(EMPTY, [...unseen, ...state.events]);
  const growing = state.items.filter((item) => item.kind === "assistant" && item.isGrowing);
  return { ...whole, items: [...whole.items, ...growing], isBusy: state.isBusy };
}

/** The next state. */
export function follow(state: Conversation, events: readonly Event[]): Conversation {
  const draft = new Draft(state);
  for (const event of events) {
    draft.take(event);
  }
  return draft.done();
}

/** The same after a break: pieces of text that were missed come with their closing message only. */
export function cut(state: Conversation): Conversation {
  const items = state.items.map((item) =>
    item.kind === "assistant" && item.isGrowing ? { ...item, isCut: true } : item,
  );
  return { ...state, items };
}

class Draft {
  private readonly items: Item[];
  private readonly events: Event[];
  private readonly places: Map<string, number>;
  private readonly plans: Set<string>;
  private progress: Conversation["progress"];
  private readonly windows: Record<string, number>;
  private isBusy: boolean;

  constructor(state: Conversation) {
    this.items = [...state.items];
    this.events = [...state.events];
    this.places = new Map(this.items.map((item, place) => [item.key, place]));
    this.plans = new Set(state.plans);
    this.progress = state.progress;
    this.windows = { ...state.windows };
    this.isBusy = state.isBusy;
  }

  done(): Conversation {
    return {
      items: this.items,
      events: this.events,
      plans: [...this.plans],
      progress: this.progress,
      windows: this.windows,
      isBusy: this.isBusy,
    };
  }

  take(event: Event): void {
    if (event.seq !== undefined) {
      if (event.seq <= (this.events.at(-1)?.seq ?? 0)) {
        return;
      }
      this.events.push(event);
    }
    this.isBusy = event.is_final !== true && event.type !== "done";
    if (event.plan_id !== undefined) {
      this.plans.delete(event.plan_id);
      this.plans.add(event.plan_id);
    }
    this.read(event);
  }

  private read(event: Event): void {
    switch (event.type) {
      case "assistant_message":
        this.say(event);
        break;
      case "tool_call":
      case "tool_approved":
      case "tool_rejected":
      case "tool_result":
        this.call(event);
        break;
      case "agent_switched": {
        const { from_agent, to_agent, reason, cause } = event.metadata;
        this.put({
          kind: "switch",
          ...common(event),
          from: from_agent,
          to: to_agent,
          reason,
          cause,
        });
        break;
      }
      case "plan_notification":
        this.put({ kind: "plan", ...common(event), plan: event.metadata, text: event.content });
        break;
      case "subtask_started":
        // Each attempt is a conversation of its own.
        delete this.windows[placeOf(event.plan_id, event.metadata.subtask_id)];
        this.subtask(event);
        break;
      case "subtask_completed":
      case "subtask_failed":
      case "subtask_skipped":
      case "subtask_retrying":
      case "subtask_cancelled":
        this.subtask(event);
        break;
      case "plan_progress":
        this.progress = event.metadata;
        break;
      case "window_used": {
        const { tokens, window } = event.metadata;
        this.windows[placeOf(event.plan_id, event.subtask_id)] = Math.floor(
          (tokens * 100) / window,
        );
        break;
      }
      case "error":
        this.put({ kind: "error", ...common(event), text: event.content, said: event });
        break;
      case "session_info":
      case "done":
      case "checkpoint_created":
      case "approval_requested":
      case "approval_resolved":
      case "approval_voted":
      case "approval_warning":
      case "approval_escalated":
        break;
      default:
        if ("metadata" in event) {
          // Also what a newer server tells of and this console does not know.
          const { type, metadata } = event;
          const text = "content" in event ? (event.content ?? "") : "";
          this.put({ kind: "note", ...common(event), type, text, facts: { ...metadata } });
        }
    }
  }

  private say(event: Extract<Event, { type: "assistant_message" }>): void {
    const growing = `text-${event.turn_id ?? ""}-${event.subtask_id ?? ""}`;
    const place = this.places.get(growing);
    if (event.token !== undefined) {
      const before = place === undefined ? undefined : this.items[place];
      const text = before?.kind === "assistant" ? (before.isCut ? "… " : before.text) : "";
      this.put({
        ...common(event),
        key: growing,
        kind: "assistant",
        text: text + event.token,
        isGrowing: true,
      });
      return;
    }
    if (place !== undefined) {
      this.remove(growing, place);
    }
    this.put({ kind: "assistant", ...common(event), text: event.content, isGrowing: false });
  }

  /** A text has its place in the log where it is closed, which is not where it began to grow. */
  private remove(key: string, place: number): void {
    this.items.splice(place, 1);
    this.places.delete(key);
    for (let later = place; later < this.items.length; later += 1) {
      this.places.set(this.items[later]?.key ?? "", later);
    }
  }

  private call(
    event: Extract<
      Event,
      { type: "tool_call" | "tool_approved" | "tool_rejected" | "tool_result" }
    >,
  ): void {
    const key = `call-${event.call_id}`;
    if (event.type === "tool_call") {
      const { decision, reason, approval_id } = event.metadata;
      const verdicts = { allow: "running", ask: "asked", deny: "denied" } as const;
      this.put({
        kind: "call",
        ...common(event),
        key,
        callId: event.call_id,
        tool: event.tool_name,
        arguments: event.arguments,
        status: verdicts[decision ?? "allow"],
        reason,
        approvalId: approval_id,
      });
      return;
    }
    const before = this.items[this.places.get(key) ?? -1];
    if (before?.kind !== "call") {
      return;
    }
    if (event.type === "tool_result") {
      const status = (event.metadata.status as CallStatus) ?? "completed";
      const { result, error } = event;
      this.put({ ...before, status, result, error, durationMs: event.metadata.duration_ms });
      return;
    }
    const { modified_arguments, decided_by, feedback } = event.metadata;
    this.put({
      ...before,
      arguments: modified_arguments ?? before.arguments,
      status: event.type === "tool_approved" ? "approved" : "rejected",
      decidedBy: decided_by,
      feedback,
    });
  }

  private subtask(event: Extract<Event, { metadata: { subtask_status: string } }>): void {
    const facts = event.metadata;
    this.put({
      kind: "subtask",
      ...common(event),
      subtaskId: facts.subtask_id,
      status: facts.subtask_status,
      attempt: facts.attempt,
      error: "error" in facts ? facts.error : undefined,
      reason: "reason" in facts ? facts.reason : undefined,
      seconds: "duration_seconds" in facts ? facts.duration_seconds : undefined,
      text: event.content,
    });
  }

  private put(item: Item): void {
    const place = this.places.get(item.key);
    if (place === undefined) {
      this.places.set(item.key, this.items.push(item) - 1);
    } else {
      this.items[place] = item;
    }
  }
}

function common(event: Event): Common {
  return {
    key: `event-${event.seq}`,
    ts: event.ts,
    agent: event.agent,
    planId: event.plan_id,
    subtaskId: event.subtask_id,
  };
}
