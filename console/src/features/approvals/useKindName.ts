import { useTranslation } from "react-i18next";

export const KINDS = ["plan", "tool", "subtask", "intervention"] as const;

/** What a kind of question is called; one that somebody added has only its own word. */
export function useKindName(kind: string): string {
  const { t } = useTranslation();
  const known = KINDS.find((one) => one === kind);
  return known === undefined ? kind : t(`approvals.kind.${known}`);
}
