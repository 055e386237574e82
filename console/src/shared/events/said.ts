/** What people said in a session: no event tells it. */

import { getHistoryOptions } from "@/shared/api";

export function whatPeopleSaid(sessionId: string) {
  return getHistoryOptions({ path: { session_id: sessionId }, query: { by_people: true } });
}
