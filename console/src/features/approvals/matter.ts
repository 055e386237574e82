/** What questions are about, and what may be answered to each. */

import type { ApprovalView } from "@/shared/api";
import { jsonIn, objectIn } from "@/shared/json";

/** Questions of one kind may mean different things: each of these has answers of its own. */
export type Matter =
  | "plan"
  | "tool"
  | "subtask"
  | "question"
  | "doubt"
  | "names"
  | "budget"
  | "model"
  | "replan"
  | "other";

type Asked = Pick<ApprovalView, "kind" | "details" | "call_id">;

/** What a question is about. */
export function matterOf({ kind, details, call_id }: Asked): Matter {
  if (kind === "plan" || kind === "tool" || kind === "subtask") {
    return kind;
  }
  if (kind !== "intervention") {
    return "other";
  }
  if (details.about === "guarded_names") {
    return "names";
  }
  if (call_id !== undefined) {
    return "question" in details ? "question" : "doubt";
  }
  const { about } = details;
  return about === "budget" || about === "replan" || about === "model" ? about : "other";
}

/** The models that can be asked in the place of one that does not answer. */
export function modelsOf({ details }: Pick<ApprovalView, "details">): string[] {
  const { models } = details;
  return Array.isArray(models) ? models.filter((one) => typeof one === "string") : [];
}

/** What an answer other than yes and no is here: other arguments, a result, limits, a model. */
export function editOf(
  approval: Asked,
  matter = matterOf(approval),
): "tool" | "doubt" | "budget" | "model" | undefined {
  if (matter === "model") {
    return modelsOf(approval).length > 0 ? matter : undefined;
  }
  return matter === "tool" || matter === "doubt" || matter === "budget" ? matter : undefined;
}

/** What stands in the field of an edit before anything is typed. */
export function draftOf(approval: ApprovalView, matter: Matter): string {
  const { what, limit } = approval.details;
  if (matter === "budget" && typeof what === "string" && typeof limit === "number") {
    return JSON.stringify({ [what]: 2 * limit }, null, 2);
  }
  return matter === "tool" ? JSON.stringify(approval.arguments ?? {}, null, 2) : "";
}

/** What an edit sends: arguments as they are, anything else as a result. Undefined: not readable. */
export function changesOf(matter: Matter, text: string): Record<string, unknown> | undefined {
  if (matter === "tool") {
    return objectIn(text);
  }
  if (matter === "model") {
    return text === "" ? undefined : { result: { model: text } };
  }
  if (matter === "budget") {
    const limits = objectIn(text);
    return limits && { result: limits };
  }
  return { result: jsonIn(text) ?? text };
}

/** A call or a question in one line. */
export function aimOf({ kind, subject, details, arguments: given }: ApprovalView): string {
  if (kind !== "tool") {
    return subject;
  }
  const found = [given?.command, given?.path, given?.source, details.preview].find(
    (text) => typeof text === "string",
  );
  return typeof found === "string" ? found : "";
}

/** Whether a preview is a unified diff. */
export function isDiff(text: string): boolean {
  return /^--- .*\n\+\+\+ /m.test(text);
}
