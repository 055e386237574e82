import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import { useWaitingTitle } from "@/shared/title";
import { visible } from "@/shared/ui";
import { useWaiting } from "./useQuestions";

/** Whether this browser tells of new questions; it was asked to by a person. */
export function useWantsNews() {
  return useLocalStorage({
    key: "gonogo-notify",
    defaultValue: false,
    getInitialValueInEffect: false,
  });
}

/** The number of questions that wait, also in the page's title; of new ones the browser tells. */
export function useWaitingCount(): number {
  const { t } = useTranslation();
  const waiting = useWaiting();
  const [wantsNews] = useWantsNews();
  const known = useRef<ReadonlySet<string>>(undefined);
  const count = waiting?.length ?? 0;

  useWaitingTitle(count);

  useEffect(() => {
    if (waiting === undefined) {
      return;
    }
    const before = known.current;
    known.current = new Set(waiting.map(({ approval_id }) => approval_id));
    if (before !== undefined && wantsNews && document.hidden) {
      for (const { approval_id, subject } of waiting) {
        if (!before.has(approval_id)) {
          tell(t("approvals.news"), visible(subject), approval_id);
        }
      }
    }
  }, [waiting, wantsNews, t]);

  return count;
}

function tell(title: string, body: string, approvalId: string): void {
  try {
    const news = new Notification(title, { body, tag: approvalId });
    news.onclick = () => {
      window.focus();
      window.location.hash = `#/approvals/${approvalId}`;
      news.close();
    };
  } catch {
    // Browsers of phones have the name and not the thing; the title still tells.
  }
}
