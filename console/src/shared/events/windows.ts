/** How full models' windows are, for what is drawn somewhere below a session. */

import { createContext, useContext } from "react";
import { placeOf, type Windows } from "./reducer";

/** What is known of the session that is on the page; of none where there is no session. */
export const KnownWindows = createContext<Windows>({});

/** Per cent of its model's window that a conversation takes, where that is known. */
export function useWindow(planId?: string, subtaskId?: string): number | undefined {
  return useContext(KnownWindows)[placeOf(planId, subtaskId)];
}
