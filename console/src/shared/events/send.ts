/** A client message of the protocol, sent; what it causes comes over the session's own stream. */

import { type ErrorHappened, Refused, refusalOf, type UserMessage } from "@/shared/api";

export type Message = Omit<UserMessage, "role"> | { type: "cancel"; turn_id?: string };

/**
 * Send a message and wait until it is taken.
 *
 * Raises Refused where it is not, with the server's reason.
 */
export async function send(sessionId: string, message: Message): Promise<void> {
  const response = await fetch("/api/v1/agent/message/stream", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify({ session_id: sessionId, message }),
  });
  if (!response.ok || response.body === null) {
    throw await refusalOf(response);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    const { value } = await reader.read();
    const refusal = value === undefined ? undefined : errorIn(value);
    if (refusal !== undefined) {
      throw refusal;
    }
  } finally {
    await reader.cancel();
  }
}

/** The refusal that a stream begins with. One that has a place in the log is told there. */
function errorIn(chunk: string): Refused | undefined {
  const data = /^event: error\r?\n(?:.*\r?\n)*?data: (.*)$/m.exec(chunk)?.[1];
  if (data === undefined) {
    return undefined;
  }
  const { seq, content, ...said } = JSON.parse(data) as ErrorHappened;
  return seq === undefined ? new Refused(200, { ...said, detail: content }) : undefined;
}
