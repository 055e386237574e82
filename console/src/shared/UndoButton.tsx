import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Suspense } from "react";
import { useTranslation } from "react-i18next";
import type { PlanView } from "@/shared/api";
import { useMay } from "@/shared/me";
import { useRollback } from "@/shared/slots";

/** Where a plan stands that nothing works on: what it did can be undone at once. */
const AT_REST: readonly PlanView["status"][] = [
  "paused",
  "completed",
  "failed",
  "partial",
  "cancelled",
];

/**
 * Opens what a rollback would do, for those who may.
 *
 * @param subtaskId The subtask that is undone with all that depend on it; else the whole plan is.
 */
export function UndoButton({ plan, subtaskId }: { plan: PlanView; subtaskId?: string }) {
  const { t } = useTranslation();
  const Rollback = useRollback();
  const mayUndo = useMay("operator");
  const [isOpen, { open, close }] = useDisclosure(false);
  const hasRun = plan.started_at !== undefined && AT_REST.includes(plan.status);
  if (Rollback === undefined || !mayUndo || !hasRun) {
    return null;
  }
  return (
    <>
      <Button size="xs" variant="default" onClick={open}>
        {t(subtaskId === undefined ? "checkpoints.undoWhole" : "checkpoints.undoSubtask")}
      </Button>
      {isOpen && (
        <Suspense>
          <Rollback planId={plan.plan_id} subtaskId={subtaskId} onClose={close} />
        </Suspense>
      )}
    </>
  );
}
