import { useState } from "react";
import { Rollback, type Target } from "./Rollback";

/** Undoes a subtask or the whole plan, and undoes that again. */
export default function Undo({
  planId,
  subtaskId,
  onClose,
}: {
  planId: string;
  subtaskId?: string;
  onClose: () => void;
}) {
  const [target, setTarget] = useState<Target>(
    subtaskId === undefined ? "whole" : { subtask: subtaskId },
  );
  return (
    <Rollback
      key={JSON.stringify(target)}
      planId={planId}
      target={target}
      onOther={setTarget}
      onClose={onClose}
    />
  );
}
