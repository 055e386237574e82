/**
 * Why an entry of the audit log is there: by which rule, grant or person, with which words.
 *
 * The details are looked at one by one: an entry that somebody changed in the database may hold
 * anything, and then has fewer reasons.
 */

import type { AuditEntry } from "@/shared/api";
import type { en } from "@/shared/i18n/rooms/audit";

type Key = keyof typeof en.why;

/** A text as it stands, or one of ours with what it is told with. */
export type Reason = string | { key: Key; values?: Record<string, string | number> };

type Facts = Record<string, unknown>;

/** Everything that an entry's details say of its why. */
export function why({ action, actor, actor_name, details }: AuditEntry): Reason[] {
  const own = OWN[action] ?? (action.endsWith(".asked") ? asked : undefined);
  if (own !== undefined) {
    return own(details);
  }
  if (isFacts(details.decision)) {
    return decided(details, details.decision);
  }
  const reasons: Reason[] = action.endsWith(".expired") ? [{ key: "expired" }] : [];
  if (details.source === "person") {
    const key = "retry_of" in details ? "again" : "person";
    return [...reasons, { key, values: { name: actor_name ?? actor } }];
  }
  if (typeof details.rule === "string") {
    reasons.push(...details.rule.split("+").map(byRule));
  }
  if (details.source !== "grant") {
    reasons.push(...texts(details.reason));
  }
  if (!("rule" in details)) {
    reasons.push(...named("subtask", details.subtask_id));
  }
  return reasons;
}

/** What an entry is about: its subject, and of a call the command or the file. */
export function about({ subject, details }: AuditEntry): string {
  const given = isFacts(details.arguments) ? details.arguments : {};
  const what = [given.command, given.path].find((each) => typeof each === "string");
  return what === undefined ? subject : `${subject}: ${what}`;
}

function byRule(rule: string): Reason {
  const [kind = "", ...others] = rule.split(":");
  const rest = others.join(":");
  const [plan = "", subtask] = rest.split("#");
  if (kind === "grant" && subtask) {
    return { key: "grant", values: { plan, subtask } };
  }
  return kind === "builtin" || kind === "default"
    ? { key: "builtin", values: { rule: rest } }
    : { key: "rule", values: { rule } };
}

function decided(details: Facts, said: Facts): Reason[] {
  const { votes, needed, waited_seconds } = details;
  return [
    ...(isShown(votes) && isShown(needed)
      ? [{ key: "votes" as const, values: { votes, needed } }]
      : []),
    ...listed("with", said.approved_by),
    ...named("link", said.via, "link"),
    ...(typeof waited_seconds === "number"
      ? [{ key: "after" as const, values: { seconds: Math.round(waited_seconds) } }]
      : []),
    ...(said.changes != null ? [{ key: "edited" as const }] : []),
    ...(said.rule ? [{ key: "forSession" as const }] : []),
    ...named("feedback", said.feedback, "text"),
  ];
}

function asked(details: Facts): Reason[] {
  const needed = isFacts(details.review) ? details.review.needed : undefined;
  return [
    ...texts(details.reason),
    ...named("askedFor", details.requested_by),
    ...(typeof needed === "number" && needed > 1
      ? [{ key: "needed" as const, values: { needed } }]
      : []),
  ];
}

const OWN: Record<string, ((details: Facts) => Reason[]) | undefined> = {
  "session.opened": ({ workspace }) => texts(workspace),
  "token.created": ({ name, role }) =>
    isShown(name) && isShown(role) ? [{ key: "token", values: { name, role } }] : [],
  "plan.commented": ({ subtask_id, content }) => [
    ...named("subtask", subtask_id),
    ...named("feedback", content, "text"),
  ],
  "plan.rolled_back": ({ restored, conflicts, shared }) =>
    typeof restored === "number" && typeof conflicts === "number" && typeof shared === "number"
      ? [{ key: "rolledBack", values: { restored, left: conflicts + shared } }]
      : [],
  "plan.retried": ({ subtasks }) => listed("subtasks", subtasks),
  "tool.network": ({ reached, refused }) => [
    ...listed("reached", reached, "hosts"),
    ...listed("refused", Array.isArray(refused) ? refused.map(hostOf) : [], "hosts"),
  ],
  "audit.anchored": ({ chains }) => named("heads", chains, "number"),
  "audit.pruned": ({ first, last }) =>
    isShown(first) && isShown(last) ? [{ key: "pruned", values: { first, last } }] : [],
};

function hostOf(refused: unknown): unknown {
  return isFacts(refused) ? refused.host : undefined;
}

function isFacts(value: unknown): value is Facts {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isShown(value: unknown): value is string | number {
  return typeof value === "number" || (typeof value === "string" && value !== "");
}

function texts(value: unknown): Reason[] {
  return isShown(value) ? [String(value)] : [];
}

function named(key: Key, value: unknown, as = "name"): Reason[] {
  return isShown(value) ? [{ key, values: { [as]: value } }] : [];
}

function listed(key: Key, value: unknown, as = "names"): Reason[] {
  const shown = Array.isArray(value) ? value.filter(isShown) : [];
  return shown.length > 0 ? [{ key, values: { [as]: shown.join(", ") } }] : [];
}
