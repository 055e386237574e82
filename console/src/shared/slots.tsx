/**
 * What one room of a session draws in another: the page of the session fills these in, so that no
 * room needs to know who draws it.
 */

import { useQuery } from "@tanstack/react-query";
import { type ComponentType, createContext, Suspense, useContext, useRef } from "react";
import { type ApprovalView, getPendingOptions } from "@/shared/api";
import { Loading } from "@/shared/ui";

interface Slots {
  /** An open question, with what answers it. */
  Question?: ComponentType<{ approval: ApprovalView; onDone?: () => void }>;
  /** What was said and done in a subtask. */
  Transcript?: ComponentType<{ planId: string; subtaskId: string }>;
  /** What undoing a subtask, or else the whole plan, would do; and the undoing. */
  Rollback?: ComponentType<{ planId: string; subtaskId?: string; onClose: () => void }>;
}

const Filled = createContext<Slots>({});

export const FillSlots = Filled.Provider;

/** The open questions of a session, oldest first. */
export function useOpenQuestions(sessionId: string): readonly ApprovalView[] {
  const { data } = useQuery(getPendingOptions({ path: { session_id: sessionId } }));
  return data?.pending_approvals ?? [];
}

/**
 * A question where it is asked, with its buttons.
 *
 * @param approval The question while it is open; afterwards the last one that was.
 */
export function OpenQuestion({
  approval,
  onDone,
}: {
  approval: ApprovalView | undefined;
  onDone?: () => void;
}) {
  const { Question } = useContext(Filled);
  const last = useRef(approval);
  last.current = approval ?? last.current;
  const shown = last.current;
  return Question === undefined || shown === undefined ? null : (
    <Suspense fallback={<Loading />}>
      <Question key={shown.approval_id} approval={shown} onDone={onDone} />
    </Suspense>
  );
}

/** What shows and does a rollback, where the page has it. */
export function useRollback(): Slots["Rollback"] {
  return useContext(Filled).Rollback;
}

/** What was said and done in a subtask, where the page knows it. */
export function SubtaskTranscript(of: { planId: string; subtaskId: string }) {
  const { Transcript } = useContext(Filled);
  return Transcript === undefined ? null : <Transcript {...of} />;
}
